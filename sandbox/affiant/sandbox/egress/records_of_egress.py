"""What the proxy writes down: one place that turns what happened into the members of a record.

Order on every request (trust rules, 3): decide, record the intent, act, record the outcome. A ``secret`` record
is itself an intent, acknowledged by the gateway before the placeholder is replaced; a method that is not safe,
a connection that is passed through unread, and a host whose name only a wildcard covers have an ``egress`` intent,
acknowledged before the name is looked up and before their first byte; any other safe request has an outcome only.
An outcome names its intents in ``par``. Denials are ``refusal`` records in the same chain.

Names, targets and rules are hidden members: the record shows only that something happened and what was decided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.schema.trace_context import TraceContext
from affiant.errors import AffiantError, MalformedError, NotAllowedError
from affiant.policy.decision.limit_errors import LimitReached
from affiant.sandbox.egress.http.errors import EgressDenied, reason_of
from affiant.sandbox.egress.http.origin import Origin

__all__ = [
    "SAFE_METHODS",
    "Action",
    "Approved",
    "Denials",
    "EgressRecords",
    "Hidden",
    "Outcome",
    "PolicyFacts",
    "RecordSink",
    "ToolAction",
]

Hidden = Mapping[str, Mapping[str, object]]
"""Path of an object in the record -> its hidden members."""

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods whose record may follow the act (RFC 9110, section 9.2.1). Others that it calls safe change things at
some servers, so they have an intent here."""

_MAX_TARGET: Final = 2048
_MAX_NAME: Final = 256
_MAX_RULES: Final = 256
_MAX_DENIALS: Final = 200
"""Different denials that are told apart."""


class RecordSink(Protocol):
    """The session's chain, as far as the proxy sees it."""

    async def record(
        self,
        kind: str,
        members: Mapping[str, object],
        hidden: Hidden,
        *,
        acknowledged: bool = False,
        cseq: int | None = None,
    ) -> str:
        """Sign one record and make it durable; ``acknowledged``: return only when the gateway holds it too.

        Args:
            cseq: the counter of the request that the record is about, if it has one.

        Returns:
            The record's id, 22 characters.

        Raises:
            RecordsUnavailable: it could not be kept, or was not acknowledged in time.
        """
        ...


@dataclass(frozen=True, slots=True)
class PolicyFacts:
    """Which policy decided: the members that every ``pol`` repeats."""

    name: str
    """The profile's name: a hidden member."""
    digest: str
    """``sha384:`` of the normal form."""
    file_digest: str
    """``sha256:`` of the file it came from."""
    bind: str = "mrconfigid"
    epoch: int = 0

    def pol(self, decision: str) -> Mapping[str, object]:
        """``pol`` of a record about ``decision``."""
        return {
            "dec": decision,
            "dig": self.digest,
            "fil": self.file_digest,
            "bind": self.bind,
            "epoch": self.epoch,
        }


@dataclass(frozen=True, slots=True)
class Action:
    """One request or connection, as records name it."""

    origin: Origin | None
    method: str
    target: str
    """As judged; of a request that could not be judged, whatever it was."""
    trace: TraceContext | None = None
    """The agent's ``traceparent``."""

    @property
    def name(self) -> str:
        """The host."""
        return _printable("unknown" if self.origin is None else self.origin.authority, _MAX_NAME)

    @property
    def line(self) -> str:
        """Method and full address; what is too long ends in the digest of the whole."""
        address = self.target if self.origin is None else self.origin.url(self.target)
        return _printable(f"{self.method} {address}", _MAX_TARGET)


@dataclass(frozen=True, slots=True)
class ToolAction:
    """A call of one of the supervisor's own tools, as records name it.

    Args:
        tool: its name, as it was asked for. target: the server, or the session that the call is about.
        arguments: ``sha256:`` name of their JSON text.
    """

    tool: str
    target: str
    arguments: str
    trace: TraceContext | None = None

    @property
    def name(self) -> str:
        """The tool, printable."""
        return _printable(self.tool, _MAX_NAME)

    def hidden(self) -> dict[str, object]:
        """The hidden members of ``act``."""
        return {"name": self.name, "tgt": _printable(self.target, _MAX_TARGET), "arg": self.arguments}


@dataclass(frozen=True, slots=True)
class Approved:
    """What an intent says of the approval that it rests on."""

    statement: Mapping[str, object]
    """``apr``: the statement that completed the quorum."""
    records: Sequence[str]
    """Ids of the gateway's ``approval`` records: one for each approver who agreed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended. Digests are ``sha256:`` names: of the request as sent (placeholders in the place of
    secrets), of the answer as the agent got it, of the peer's public key."""

    end: str
    """``complete``, ``refused`` (by the other side or by us on its account), ``failed`` or ``aborted``."""
    sent: str | None = None
    received: str | None = None
    spki: str | None = None
    uses: Sequence[Mapping[str, str]] = field(default_factory=tuple)
    """``{ref, rule, ver}`` of each secret that was substituted."""
    limits: Sequence[str] = field(default_factory=tuple)
    """``lim`` codes, such as ``tls-passthrough``."""


class Denials:
    """What was denied to a session, for the summary at its end: how often, by kind, name and reason. Bounded."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, str], int] = {}
        self._more = 0
        self._gateway_unknown = True

    def add(self, kind: str, name: str, reason: str, count: int = 1) -> None:
        """Count a denial; what is beyond the bound is counted without its name."""
        key = (_printable(kind, _MAX_NAME), _printable(name, _MAX_NAME), _printable(reason, _MAX_NAME))
        if key in self._counts or len(self._counts) < _MAX_DENIALS:
            self._counts[key] = self._counts.get(key, 0) + count
        else:
            self._more += count

    def take(self, said: Mapping[str, object]) -> None:
        """Add what the gateway says that it denied; what is not of that form is passed over."""
        entries, more = said.get("denied"), said.get("denied_more")
        for entry in entries if isinstance(entries, list) else ():
            match entry:
                case {"kind": str(kind), "name": str(name), "reason": str(reason), "count": int(count)}:
                    self.add(kind, name, reason, count)
        self._more += more if isinstance(more, int) else 0
        self._gateway_unknown = False

    def to_json(self) -> Mapping[str, object]:
        """Its members: ``denied``, the most frequent first, ``denied_more``, and ``denied_unknown``: whether what the
        gateway denied is missing."""
        ordered = sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))
        names = ("kind", "name", "reason", "count")
        denied = [dict(zip(names, (*key, count), strict=True)) for key, count in ordered]
        return {"denied": denied, "denied_more": self._more, "denied_unknown": self._gateway_unknown}


class EgressRecords:
    """Writes the records of one session's proxy, and counts what was denied."""

    def __init__(self, sink: RecordSink, facts: PolicyFacts) -> None:
        self._sink = sink
        self._facts = facts
        self.denials = Denials()

    def follow(self, facts: PolicyFacts) -> None:
        """The profile was restricted: another decides from now on. Nothing that the old one decided is on its way."""
        self._facts = facts

    async def secret(self, action: Action, *, name: str, rule: str, ref: str, version: str) -> str:
        """One secret use, acknowledged: only now may it be substituted."""
        members = {"act": {"typ": "secret"}, "pol": self._facts.pol("allow"), "sec": [{"ver": version}]}
        hidden = {
            **_trace(action),
            "act": {"name": name, "tgt": action.line},
            "pol": self._rules((rule,)),
            "sec[0]": {"ref": ref, "rule": rule},
        }
        return await self._sink.record("secret", members, hidden, acknowledged=True)

    async def intent(self, action: Action, rules: Sequence[str], *, approved: Approved | None = None) -> str:
        """An unsafe request, an unread connection or a name of the agent's: acknowledged, so it may go out.

        One that was approved says by whom: ``apr``, and in ``par`` the gateway's records of the approvals.
        """
        members: dict[str, object] = {
            "act": {"typ": "egress"},
            "pol": self._facts.pol("allow"),
            "ph": "intent",
        }
        if approved is not None:
            members |= {"apr": approved.statement, "par": list(approved.records)}
        hidden = {**_trace(action), "act": _act(action), "pol": self._rules(rules)}
        return await self._sink.record("egress", members, hidden, acknowledged=True)

    async def outcome(
        self, action: Action, rules: Sequence[str], outcome: Outcome, *, intents: Sequence[str]
    ) -> str:
        """What became of it; durable here when this returns."""
        members: dict[str, object] = {
            "act": {"typ": "egress", "end": outcome.end},
            "pol": self._facts.pol("allow"),
            "ph": "outcome",
        }
        digests = {"arg": outcome.sent, "out": outcome.received, "spki": outcome.spki}
        act = _act(action) | {name: value for name, value in digests.items() if value is not None}
        hidden: dict[str, Mapping[str, object]] = {**_trace(action), "act": act, "pol": self._rules(rules)}
        if intents:
            members["par"] = list(intents)
        if outcome.limits:
            members["lim"] = list(outcome.limits)
        if outcome.uses:
            members["sec"] = [{"ver": use["ver"]} for use in outcome.uses]
            hidden |= {
                f"sec[{index}]": {"ref": use["ref"], "rule": use["rule"]}
                for index, use in enumerate(outcome.uses)
            }
        return await self._sink.record("egress", members, hidden)

    async def tool_intent(self, call: ToolAction, rules: Sequence[str]) -> str:
        """A call of one of the supervisor's own tools is about to be made: acknowledged, so it may have its effect."""
        members = {"act": {"typ": "tool"}, "pol": self._facts.pol("allow"), "ph": "intent"}
        hidden = {**_traced(call.trace), "act": call.hidden(), "pol": self._rules(rules)}
        return await self._sink.record("tool", members, hidden, acknowledged=True)

    async def tool_outcome(
        self, call: ToolAction, rules: Sequence[str], *, intent: str, end: str, response: bytes
    ) -> str:
        """How such a call ended: ``complete``, ``failed`` or ``aborted``; ``response``: what the agent gets of it."""
        members = {
            "act": {"typ": "tool", "end": end},
            "pol": self._facts.pol("allow"),
            "ph": "outcome",
            "par": [intent],
        }
        act = {**call.hidden(), "out": sha256_name(response)}
        hidden = {**_traced(call.trace), "act": act, "pol": self._rules(rules)}
        return await self._sink.record("tool", members, hidden)

    async def tool_refusal(self, refusal: AffiantError, call: ToolAction) -> str:
        """Such a call was not made, and why."""
        if isinstance(refusal, NotAllowedError):
            self.denials.add("tool", call.name, reason_of(refusal))
        rules = refusal.rules if isinstance(refusal, (EgressDenied, LimitReached)) else ()
        members = {
            "rsn": reason_of(refusal),
            "act": {"typ": "tool", "end": "refused"},
            "pol": self._facts.pol("deny"),
        }
        hidden = {**_traced(call.trace), "act": call.hidden(), "pol": self._rules(rules)}
        return await self._sink.record("refusal", members, hidden)

    async def refusal(
        self, refusal: AffiantError, action: Action, *, typ: str = "egress", cseq: int | None = None
    ) -> str:
        """Something that was not done, and why."""
        if isinstance(refusal, (NotAllowedError, MalformedError)):
            kind, name = ("host", action.name) if typ == "egress" else ("request", action.line)
            self.denials.add(kind, name, reason_of(refusal))
        rules = refusal.rules if isinstance(refusal, (EgressDenied, LimitReached)) else ()
        members = {
            "rsn": reason_of(refusal),
            "act": {"typ": typ, "end": "refused"},
            "pol": self._facts.pol("deny"),
        }
        hidden = {**_trace(action), "act": _act(action), "pol": self._rules(rules)}
        return await self._sink.record("refusal", members, hidden, cseq=cseq)

    def _rules(self, rules: Sequence[str]) -> Mapping[str, object]:
        return {"id": self._facts.name, "rules": list(rules)[:_MAX_RULES]}


def _act(action: Action) -> dict[str, object]:
    return {"name": action.name, "tgt": action.line}


def _trace(action: Action) -> dict[str, Mapping[str, object]]:
    return _traced(action.trace)


def _traced(trace: TraceContext | None) -> dict[str, Mapping[str, object]]:
    return {} if trace is None else {"": {"trc": trace.to_json()}}


def _printable(text: str, limit: int) -> str:
    """Hostile text without controls; what is too long is cut and named by the digest of the whole."""
    shown = "".join(char if 0x20 <= ord(char) < 0x7F else f"\\x{ord(char):02x}" for char in text)
    if len(shown) <= limit:
        return shown
    tail = f"...{sha256_name(text.encode('utf-8', 'surrogatepass'))}"
    return shown[: limit - len(tail)] + tail
