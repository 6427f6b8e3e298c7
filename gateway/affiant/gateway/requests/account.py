"""What the record of one request will say, gathered while the request goes on, and signed once.

Signing is synchronous: even a request whose task is being cancelled gets its record, and only its durability is
awaited elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.schema.trace_context import TraceContext
from affiant.errors import AffiantError, NotAllowedError
from affiant.gateway.approvals.queue import Approved
from affiant.gateway.dialects.dialect import ModelRequest
from affiant.gateway.dialects.judged_calls import ToolCall
from affiant.gateway.dialects.usage import Usage
from affiant.gateway.sessions.recorder import Recorded, Recorder, policy_members
from affiant.gateway.sessions.session_limits import Reservation, spent
from affiant.gateway.sessions.sessions import Session
from affiant.gateway.store.journal import Place
from affiant.gateway.upstream.upstream import Attempt
from affiant.gateway.wire.errors import RequestAbandoned, ToolNotAllowedError
from affiant.gateway.wire.errors_http import status_of

__all__ = ["Account", "GateCall", "HeldCall", "RequestDecision"]

_MAX_RULES: Final = 256
"""Rules that a record can name (its table's bound for ``pol.rules``)."""
_MAX_RULES_SIZE: Final = 12 << 10
"""Characters of them: what is disclosed must be readable, and a disclosure has at most 16 KiB."""


_LONGEST_NAME: Final = 128
"""Characters of a tool's name in a record."""


@dataclass(frozen=True, slots=True)
class RequestDecision:
    """What policy said: ``allow``, ``redact`` or ``deny``, and the rules that fired."""

    decision: str
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GateCall:
    """A call at the tool gate, as its records say it.

    Args:
        server: which server of the configuration serves the tool.
        arguments: ``sha256:`` of the JSON of what it is called with, sorted, without white space.
    """

    name: str
    server: str
    arguments: str
    rules: tuple[str, ...]

    def hidden(self) -> Mapping[str, object]:
        """Its hidden members of ``act``."""
        return {"name": self.name, "arg": self.arguments, "tgt": f"mcp:{self.server}"}


@dataclass(frozen=True, slots=True)
class HeldCall:
    """A call in a model's response that was held for approval, as its records say it.

    Args:
        response: the receipt id of the response that it is in.
        arguments: ``sha256:`` of the text that it is made with.
    """

    name: str
    response: str
    arguments: str
    rules: tuple[str, ...]

    def hidden(self) -> Mapping[str, object]:
        """Its hidden members of ``act``."""
        return {"name": self.name, "arg": self.arguments, "tgt": f"inference:{self.response}"}


class Formed(NamedTuple):
    """Clear and hidden members of a record, and the decision that they state."""

    members: Mapping[str, object]
    hidden: Mapping[str, Mapping[str, object]]
    decided: RequestDecision


@dataclass(slots=True)
class Account:
    """One request's account. Each field is set by the step that establishes it.

    Args:
        jti: its receipt id, sent to the client before anything else.
        trace: what its ``traceparent`` says; recorded, and nothing is decided by it.
        number: its ``agt.seq``; None until a proof by the session's key was seen.
        cseq: the counter of its proof; None unless the proof holds, or where the supervisor's refusal has it.
        unread: the body did not come to its end, so its digest was not compared with the proof's.
        fetched: what the upstream may fetch for the request, each a method and an address.
        digest, size: of the body as received; forwarded: digest of what was sent upstream.
        forwarding: set before it is: from there on the record is an ``inference``.
        reservation: what it has taken of its session's limits.
        answered: the status of the upstream's answer, 0: none.
        answered_model: the model that the answer names; None where it names none, or there is none.
        complete: the answer came to its end, and was passed on.
        headers: what of its headers goes upstream.
        formed: what its record will say in any case, formed before anything goes upstream.
    """

    recorder: Recorder
    jti: str
    method: str
    path: str
    trace: TraceContext | None = None
    session: Session | None = None
    number: int | None = None
    cseq: int | None = None
    nonce: str | None = None
    digest: str | None = None
    size: int | None = None
    unread: bool = False
    decided: RequestDecision | None = None
    request: ModelRequest | None = None
    fetched: tuple[str, ...] = ()
    forwarded: str | None = None
    forwarding: bool = False
    attempts: list[Attempt] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    reservation: Reservation | None = None
    answered: int = 0
    answered_model: str | None = None
    complete: bool = False
    recorded: Recorded | None = None
    formed: Formed | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    opened: asyncio.Future[Place] | None = None

    def belongs_to(self, session: Session) -> None:
        """The request takes its place in ``session``, until :meth:`leave`."""
        self.session, self.number = session, session.next_number()
        session.begin()

    def leave(self) -> None:
        """Nothing more happens to the request: what it did not use of its session's limits is given back."""
        if self.session is not None and self.reservation is not None:
            self.session.limits.settle(
                self.reservation, sends=self._sends, status=self.answered, used=self._used
            )
        if self.session is not None and self.number is not None:
            self.session.end()

    def cost(self, estimated: int) -> int:
        """The tokens that the request came to, where it counted as so many until then."""
        return spent(estimated, sends=self._sends, status=self.answered, used=self._used)

    @property
    def _used(self) -> int | None:
        """What the upstream stated for a complete answer."""
        answers = 1 if self.request is None else self.request.answer.answers
        return self.usage.tokens(answers=answers) if self.complete else None

    @property
    def _sends(self) -> int:
        """How often the request may have gone upstream: an attempt without a result yet may have."""
        if not self.forwarding:
            return 0
        if not self.attempts:
            return 1
        return sum(attempt.result != "upstream.unreachable" for attempt in self.attempts)

    def open(self) -> asyncio.Future[Place]:
        """Append the ``open``, once; nothing goes upstream before the future resolves."""
        assert self.session is not None
        assert self.number is not None
        if self.opened is None:
            self.opened = self.recorder.open(self.session, jti=self.jti, number=self.number)
        return self.opened

    def refusal(self, error: AffiantError, body: bytes) -> Recorded:
        """Sign that the request was refused with ``error``, and that ``body`` was the answer to it."""
        gone = isinstance(error, RequestAbandoned)
        members: dict[str, object] = {
            "rsn": error.code,
            "req": self._req(),
            "res": {"st": 0 if gone else status_of(error), "end": _end_of_refusal(error)},
            **self._nonce(),
            **self._limits(),
        }
        hidden = {
            **self._trace(),
            "req": self._hidden_req(),
            "res": {"dig": sha256_name(body), "len": len(body)},
        }
        if isinstance(error, ToolNotAllowedError):
            members["act"], hidden["act"] = {"typ": "tool", "end": "refused"}, _denied(error)
        if self.session is None or self.number is None:
            return self._keep(self.recorder.record("refusal", members, hidden, jti=self.jti))
        if self.decided is not None:
            members["pol"] = policy_members(self.session, self.decided.decision)
            hidden["pol"] = {"rules": _bounded(self.decided.rules)}
        return self._of_session("refusal", members, hidden)

    def last_refusal(self, error: AffiantError, body: bytes) -> Recorded:
        """As :meth:`refusal`, with nothing in it that the agent, its profile or the upstream has a say in."""
        members: dict[str, object] = {
            "rsn": error.code,
            "res": {"st": status_of(error), "end": "gateway_error"},
            **self._limits(),
        }
        hidden = {"res": {"dig": sha256_name(body), "len": len(body)}}
        if self.session is None:
            return self._keep(self.recorder.record("refusal", members, hidden, jti=self.jti))
        return self._of_session("refusal", members, hidden)

    def require_formable(self) -> None:
        """Form what the request's record will say in any case; done before anything goes upstream.

        Raises:
            ShapeMismatch: it would not be a record.
        """
        self.formed = self._form()
        self.recorder.require_formable("inference", self.formed.members, self.formed.hidden)

    def inference(self, end: str, *, status: int, hidden: Mapping[str, object]) -> Recorded:
        """Sign how the request ended.

        Args:
            end: complete, client_abort, upstream_abort, policy_stop or gateway_error.
            hidden: ``dig``, ``len``, and of a stream ``evs`` and ``evr``, of the bytes handed to the client.
        """
        assert self.formed is not None
        assert self.decided is not None
        clear, secret, decided = self.formed
        use: dict[str, object] = {}
        if self.usage.prompt is not None:
            use["in"] = self.usage.prompt
        if self.usage.completion is not None:
            use["out"] = self.usage.completion
        assert self.request is not None
        members = {
            **clear,
            "res": {"st": status, "end": end},
            "mdl": {"id": self.request.model, "ans": self.answered_model},
            "up": _entries(self.attempts),
            "use": {},
        }
        concealed = {**secret, "res": hidden, "use": use}
        if self.decided is not decided:  # it was cut short by policy
            assert self.session is not None
            members["pol"] = policy_members(self.session, self.decided.decision)
            concealed["pol"] = {"rules": _bounded(self.decided.rules)}
        return self._of_session("inference", members, concealed)

    def _form(self) -> Formed:
        """What :meth:`inference` says of the request itself."""
        assert self.session is not None
        assert self.request is not None
        assert self.decided is not None
        admitted = self.session.admitted
        members = {
            "req": self._req(),
            "mdl": {"id": self.request.model, "ans": None},
            "fet": {},
            "pol": policy_members(self.session, self.decided.decision),
            "att": {"ses": {"ear": admitted.ear_digest, "tier": admitted.tier}},
            **self._nonce(),
        }
        hidden = {
            **self._trace(),
            "req": self._hidden_req(),
            "mdl": {"prm": dict(self.request.parameters)},
            "fet": {"tgt": list(self.fetched)} if self.fetched else {},
            "pol": {"rules": _bounded(self.decided.rules)},
        }
        return Formed(members, hidden, self.decided)

    def tool(self, call: ToolCall) -> Recorded:
        """Sign that one tool call is let through, before it is; ``ask`` where the tool gate will ask for approval."""
        assert self.session is not None
        decision = "allow" if call.waiting is None else "ask"
        return self.recorder.session_record(
            self.session,
            "tool",
            {
                "act": {"typ": "tool"},
                "pol": policy_members(self.session, decision),
                "par": [self.jti],
            },
            {
                **self._trace(),
                "act": {"name": call.name, "arg": call.arguments_digest},
                "pol": {"rules": _bounded(call.rules)},
            },
            number=None,
        )

    def stopped_call(self, name: str, arguments: str, reason: str, rules: Sequence[str]) -> Recorded:
        """Sign that a call of a tool in a model's response does not go on: which, why, and by which rules.

        Args:
            arguments: ``sha256:`` of what it is called with.
        """
        assert self.session is not None
        return self.recorder.session_record(
            self.session,
            "refusal",
            {
                "rsn": reason,
                "act": {"typ": "tool", "end": "refused"},
                "pol": policy_members(self.session, "deny"),
                "par": [self.jti],
            },
            {
                **self._trace(),
                "act": {"name": _recordable(name), "arg": arguments},
                "pol": {"rules": _bounded(rules)},
            },
            number=None,
        )

    def gate_intent(self, call: GateCall | HeldCall, approved: Approved | None = None) -> Recorded:
        """Sign that a call is about to be made, or let through; nothing of it is sent before that is durable."""
        assert self.session is not None
        members = {"act": {"typ": "tool"}, "ph": "intent", "pol": policy_members(self.session, "allow")}
        if approved is not None:
            members |= {"apr": approved.apr, "par": list(approved.records)}
        return self.recorder.session_record(
            self.session,
            "tool",
            members,
            {**self._trace(), "act": call.hidden(), "pol": {"rules": _bounded(call.rules)}},
            number=None,
        )

    def gate_outcome(
        self, call: GateCall, intent: str, end: str, answer: bytes, *, redacted: bool, last: bool
    ) -> Recorded:
        """Sign how such a call ended.

        Args:
            intent: the id of its intent. end: complete, refused, failed or aborted.
            answer: what the agent receives of it; empty where it receives nothing.
            last: whether this is the record of the whole request, with its counter.
        """
        assert self.session is not None
        members: dict[str, object] = {
            "act": {"typ": "tool", "end": end},
            "ph": "outcome",
            "pol": policy_members(self.session, "redact" if redacted else "allow"),
            "par": [intent],
        }
        hidden = {
            **self._trace(),
            "act": {**call.hidden(), "out": sha256_name(answer)},
            "pol": {"rules": _bounded(call.rules)},
        }
        if last:
            return self._of_session("tool", {**members, **self._nonce()}, hidden)
        return self.recorder.session_record(self.session, "tool", members, hidden, number=None)

    def held_outcome(self, call: HeldCall, intent: str, end: str) -> Recorded:
        """Sign how a held call ended: ``complete`` where the agent received it, else ``aborted``."""
        assert self.session is not None
        return self.recorder.session_record(
            self.session,
            "tool",
            {
                "act": {"typ": "tool", "end": end},
                "ph": "outcome",
                "pol": policy_members(self.session, "allow"),
                "par": [intent],
            },
            {**self._trace(), "act": call.hidden(), "pol": {"rules": _bounded(call.rules)}},
            number=None,
        )

    def gate_answer(self, methods: str, answer: bytes, decided: RequestDecision) -> Recorded:
        """Sign what the tool gate itself answered: a listing, a handshake, nothing."""
        assert self.session is not None
        members: dict[str, object] = {
            "act": {"typ": "tool", "end": "complete"},
            "pol": policy_members(self.session, decided.decision),
            **self._nonce(),
        }
        act = {"tgt": methods, "arg": self.digest, "out": sha256_name(answer)}
        hidden = {
            **self._trace(),
            "act": {name: value for name, value in act.items() if value is not None},
            "pol": {"rules": _bounded(decided.rules)},
        }
        return self._of_session("tool", members, hidden)

    def _of_session(
        self,
        kind: str,
        members: Mapping[str, object],
        hidden: Mapping[str, Mapping[str, object]],
    ) -> Recorded:
        assert self.session is not None
        assert self.number is not None
        return self._keep(
            self.recorder.session_record(
                self.session,
                kind,
                members,
                hidden,
                number=self.number,
                cseq=self.cseq,
                jti=self.jti,
            )
        )

    def _keep(self, recorded: Recorded) -> Recorded:
        self.recorded = recorded
        return recorded

    def _req(self) -> Mapping[str, object]:
        headers = {"hdr": dict(self.headers)} if self.headers else {}
        return {"m": self.method, "p": self.path, **headers}

    def _hidden_req(self) -> Mapping[str, object]:
        values = {"dig": self.digest, "fwd": self.forwarded, "len": self.size}
        return {name: value for name, value in values.items() if value is not None}

    def _trace(self) -> Mapping[str, Mapping[str, object]]:
        return {} if self.trace is None else {"": {"trc": self.trace.to_json()}}

    def _limits(self) -> Mapping[str, object]:
        return {"lim": ["body-unread"]} if self.unread else {}

    def _nonce(self) -> Mapping[str, object]:
        return {} if self.nonce is None else {"eat_nonce": self.nonce}


def _entries(attempts: Sequence[Attempt]) -> list[Mapping[str, object]]:
    """``up``: the last attempts, as many as a record names."""
    return [attempt.to_json() for attempt in attempts[-8:]]


def _end_of_refusal(error: AffiantError) -> str:
    """``res.end``: whether the client was still there to be refused, and whether policy refused it."""
    if isinstance(error, RequestAbandoned):
        return "client_abort"
    return "policy_stop" if isinstance(error, NotAllowedError) else "complete"


def _denied(error: ToolNotAllowedError) -> Mapping[str, object]:
    """What ``error`` says of the tool, as hidden members of ``act``."""
    said = {"name": error.tool, "tgt": error.where or ""}
    found: dict[str, object] = {name: _recordable(value) for name, value in said.items() if value}
    return {**found, "arg": error.arguments} if error.arguments else found


def _recordable(name: str) -> str:
    """A name that a model or an agent made up, as text that a record can hold."""
    return "".join(char if char.isprintable() else "?" for char in name[:_LONGEST_NAME]) or "?"


def _bounded(rules: Sequence[str]) -> list[str]:
    """The first rules that fired, as many as a record can name."""
    named, size = [], 0
    for rule in rules[:_MAX_RULES]:
        size += len(rule) + len('"",')
        if size > _MAX_RULES_SIZE:
            break
        named.append(rule)
    return named
