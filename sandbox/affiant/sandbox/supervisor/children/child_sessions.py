"""The sessions that this session's agent has started: each call judged, recorded, and carried out by the launcher.

Of every call, in this order:

1. the profile's tool rules decide about the tool and its arguments; for ``session_create`` its ``may_start`` too;
2. the arguments are read, and the session that they name is one that this session started;
3. for ``session_create``: the launcher gives the other agent's profile, which must be no wider than the profile in
   force (``require_no_wider``, exact);
4. the limits on calls of tools have room;
5. for ``session_create``: the supervisor announces to the gateway which session may begin under this one, with which
   profile; the gateway counts starts (``at_most``), admits that session under no other profile, and counts what it does
   in this one's limits too;
6. the ``tool`` intent is acknowledged; it names the session that the call is about, also one that is to be started;
7. the launcher does it; for ``session_create``: the gateway confirms that it has admitted that very child;
8. the ``tool`` outcome is durable. Only now the agent gets the answer.

The launcher is outside of the TD. What it answers is passed on as data and decides nothing here; what it could start in
place of the profile that was judged, the gateway does not admit as this session's child.

When the profile is restricted, children that it would not let begin any more are closed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from affiant.attestation.encoding.binary_text import b64u, from_b64u, sha256_name
from affiant.attestation.schema.trace_context import TraceContext
from affiant.errors import AffiantError, MalformedError, NotAllowedError, StateError
from affiant.policy.canonical.tool_messages import CallParams
from affiant.policy.decision.call_meters import CallMeters
from affiant.policy.decision.compiled import CompiledPolicy, parse_normal_form
from affiant.policy.decision.decide import Decision, Effect, denied
from affiant.policy.decision.questions import StartQuestion, ToolQuestion
from affiant.policy.diff.restriction import NotARestriction, require_no_wider
from affiant.sandbox.egress.decision import DecisionSink
from affiant.sandbox.egress.http.errors import EgressDenied, RecordsUnavailable
from affiant.sandbox.egress.records_of_egress import EgressRecords, ToolAction
from affiant.sandbox.egress.sessions_route import ToolAnswer
from affiant.sandbox.supervisor.children.session_tools import SERVER, TOOLS, ToolRequest, tool_request
from affiant.sandbox.supervisor.launch.errors import AdmissionError
from affiant.sandbox.supervisor.launch.provision import new_session_id

__all__ = ["ChildSessions", "Gateway", "Launcher"]

_MOST_KNOWN: Final = 256
"""Children that one session may have started and not closed."""
_PROFILE_S: Final = 20.0
_CLOSED_S: Final = 120.0
_MOST_FORM: Final = 700_000
"""Characters of a profile's normal form, in base64url."""


class Launcher(Protocol):
    """What the launcher is asked."""

    async def ask(self, request: Mapping[str, object], *, within_s: float) -> Mapping[str, object]:
        """Its result; raises its error, or that it does not answer in time."""
        ...


class Gateway(Protocol):
    """What the session's gateway is asked."""

    async def announce_child(self, session: str, agent: str, policy: str) -> None:
        """Have it admit a child under that id, of that agent, with the profile of that digest; raises its error."""
        ...

    async def has_child(self, session: str) -> bool:
        """Whether it has admitted that child."""
        ...


@dataclass(frozen=True, slots=True)
class _Child:
    agent: str
    policy: CompiledPolicy


class ChildSessions:
    """The children of one session.

    Args:
        policy: the profile in force at first; :meth:`restrict` replaces it.
        notes: takes each decision.
        random_bytes: for the ids of children.
        nanoseconds: a clock that never goes back.
    """

    def __init__(
        self,
        policy: CompiledPolicy,
        *,
        records: EgressRecords,
        notes: DecisionSink,
        launcher: Launcher,
        gateway: Gateway,
        random_bytes: Callable[[int], bytes],
        nanoseconds: Callable[[], int],
    ) -> None:
        self._policy = policy
        self._records = records
        self._notes = notes
        self._launcher = launcher
        self._gateway = gateway
        self._random_bytes = random_bytes
        self._nanoseconds = nanoseconds
        self._meters = CallMeters(policy)
        self._children: dict[str, _Child] = {}
        self._closing: set[asyncio.Task[None]] = set()

    # -- the profile ------------------------------------------------------------------------------------------------

    def restrict(self, policy: CompiledPolicy) -> None:
        """Judge by ``policy`` from now on; children that are wider than it are closed. Nothing is under way."""
        self._policy = policy
        self._meters = self._meters.restricted(policy)
        for session, child in tuple(self._children.items()):
            self._begin_closing(self._close_wider(session, child, policy))

    def _begin_closing(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _close_wider(self, session: str, child: _Child, policy: CompiledPolicy) -> None:
        try:
            if policy.decide_start(child.agent).effect is Effect.ALLOW:
                await asyncio.to_thread(require_no_wider, policy, child.policy, agent=child.agent)
                return
        except AffiantError:  # wider, or not to be compared
            pass
        await self._close(session)

    async def _close(self, session: str) -> None:
        """Have the launcher close a child that is none any more."""
        self._children.pop(session, None)
        with suppress(AffiantError):  # it has ended already, or its launcher has: it ends with that
            await self._launcher.ask({"act": "close", "session": session}, within_s=_CLOSED_S)

    def stop(self) -> None:
        """Ask for nothing any more; the launcher closes the children with this session."""
        for task in self._closing:
            task.cancel()

    # -- what is listed ---------------------------------------------------------------------------------------------

    def listed(self) -> Sequence[Mapping[str, object]]:
        """The tools that the profile allows with some arguments."""
        shown = [tool for tool in TOOLS.values() if self._policy.decide_tool(tool.name, tool.origin).allowed]
        return [tool.to_json() for tool in shown]

    # -- a call -----------------------------------------------------------------------------------------------------

    async def call(self, params: CallParams, trace: TraceContext | None) -> ToolAnswer:
        """Judge, record and make one call. What is refused, or fails, is an answer too."""
        action = ToolAction(params.name, SERVER, sha256_name(params.text.encode("utf-8")), trace)
        try:
            decision = self._decided(params)
            request = tool_request(params.name, params.arguments)
            action = replace(action, target=self._target(request))
            child = None if request.agent is None else await self._may_begin(request.agent)
            self._meters.take([decision.rules], now=self._nanoseconds())
            session = request.session if child is None else await self._announced(child)
        except AffiantError as refusal:
            return await self._refused(refusal, action)
        if child is not None:
            action = replace(action, target=f"session {session}")
        try:
            intent = await self._records.tool_intent(action, decision.rules)
        except RecordsUnavailable as unavailable:
            return ToolAnswer.of_error(unavailable, record=None)
        return await _Made(self, action, decision, intent).run(self._done(request, session, child))

    def _decided(self, params: CallParams) -> Decision:
        """The decision that allows the call.

        Raises:
            EgressDenied: it is denied, or needs an approval that nobody can give.
        """
        tool = TOOLS.get(params.name)
        if tool is None:
            raise EgressDenied("no such tool is served here", reason="tool_not_listed", rules=())
        question = ToolQuestion(params.name, params.text, tool.origin)
        decision = _without_approval(self._policy.decide_call(params.name, params.text, tool.origin))
        self._notes.note(question, decision)
        _require_allowed(decision)
        return decision

    def _target(self, request: ToolRequest) -> str:
        """What the records say that the call is about.

        Raises:
            ``session.child_unknown``: a session that this session did not start, or has closed.
        """
        if request.session is None:
            return SERVER
        if request.session not in self._children:
            raise NotAllowedError("not an open session of this agent's", code="session.child_unknown")
        return f"session {request.session}"

    async def _may_begin(self, agent: str) -> _Child:
        """The child's profile, which may begin under the one in force.

        Raises:
            EgressDenied: the profile does not let this agent be started, or its own is wider.
            ``session.too_many_children``: of too many it is not known that they were closed.
        """
        decision = _without_approval(self._policy.decide_start(agent))
        self._notes.note(StartQuestion(agent), decision)
        _require_allowed(decision)
        if len(self._children) >= _MOST_KNOWN:
            raise StateError(
                "this session has too many children",
                expected=f"at most {_MOST_KNOWN}",
                hint="Close those that are done",
                code="session.too_many_children",
            )
        answer = await self._launcher.ask({"act": "profile", "agent": agent}, within_s=_PROFILE_S)
        form = answer.get("policy")
        if not isinstance(form, str) or len(form) > _MOST_FORM:
            raise MalformedError("not a profile", where="policy", code="session.control")
        policy = await asyncio.to_thread(parse_normal_form, from_b64u(form))
        try:
            await asyncio.to_thread(require_no_wider, self._policy, policy, agent=agent)
        except NotARestriction as error:  # without what it says of the other agent's profile
            raise EgressDenied(
                "the other agent's profile allows more than this session's now",
                reason=error.code,
                rules=decision.rules,
            ) from error
        return _Child(agent, policy)

    async def _announced(self, child: _Child) -> str:
        """The id under which the gateway will admit ``child``.

        Raises:
            EgressDenied: it will not; the reason is the gateway's.
        """
        session = new_session_id(self._random_bytes)
        try:
            await self._gateway.announce_child(session, child.agent, child.policy.digest)
        except AdmissionError as error:
            raise EgressDenied(str(error), reason=error.gateway_code, rules=()) from error
        return session

    async def _done(
        self, request: ToolRequest, session: str | None, child: _Child | None
    ) -> Mapping[str, object]:
        """Have it done: what the agent gets."""
        if child is None:
            said = await self._launcher.ask(_about(request.act, session), within_s=request.within_s)
            if request.act["act"] == "close" and session is not None:
                self._children.pop(session, None)
            return self._shown(request, said)
        assert session is not None
        self._children[session] = child
        try:
            said = await self._opened(
                {**request.act, "session": session, "digest": child.policy.digest}, request
            )
            shown = {"session": session, "agent": child.agent, "isolation": _text(said, "isolation")}
            if not await self._gateway.has_child(session):
                raise NotAllowedError(
                    "the gateway has admitted no such child of this session", code="session.child_unknown"
                )
        except BaseException:  # it is no child, and perhaps the launcher has opened it; raised again
            self._children.pop(session, None)
            self._begin_closing(self._close(session))
            raise
        return shown

    async def _opened(self, act: Mapping[str, object], request: ToolRequest) -> Mapping[str, object]:
        """What the launcher says of a child that it has opened.

        Raises:
            AffiantError: it could not; without its text, which may name what is outside of the sandbox.
        """
        try:
            return await self._launcher.ask(act, within_s=request.within_s)
        except StateError as error:
            raise StateError("the session could not be started", code=error.code) from error

    def _shown(self, request: ToolRequest, said: Mapping[str, object]) -> Mapping[str, object]:
        if request.act["act"] == "list":
            states = said.get("sessions")
            known = states if isinstance(states, dict) else {}
            return {
                "sessions": [
                    {"session": session, "agent": child.agent, "state": str(known.get(session, "ended"))}
                    for session, child in self._children.items()
                ]
            }
        return _SHOWN[str(request.act["act"])](said)

    async def _refused(self, refusal: AffiantError, action: ToolAction) -> ToolAnswer:
        try:
            return ToolAnswer.of_error(refusal, record=await self._records.tool_refusal(refusal, action))
        except RecordsUnavailable as unavailable:
            return ToolAnswer.of_error(unavailable, record=None)

    async def outcome(
        self, action: ToolAction, decision: Decision, intent: str, *, end: str, answer: bytes
    ) -> None:
        """Record how a call ended."""
        await self._records.tool_outcome(action, decision.rules, intent=intent, end=end, response=answer)


@dataclass(frozen=True, slots=True)
class _Made:
    """A call whose intent is recorded: from here on there is an outcome, whatever happens."""

    children: ChildSessions
    action: ToolAction
    decision: Decision
    intent: str

    async def run(self, work: Coroutine[Any, Any, Mapping[str, object]]) -> ToolAnswer:
        try:
            result, end = _result(await work, failed=False), "complete"
        except AffiantError as error:
            result, end = _result(_error(error), failed=True), "failed"
        except (
            BaseException
        ):  # the agent or the session is gone: there is an outcome all the same; raised again
            await self._record("aborted", b"")
            raise
        try:
            await self._record(end, result)
        except RecordsUnavailable as unavailable:
            return ToolAnswer.of_error(unavailable, record=self.intent)
        return ToolAnswer(result, None, self.intent)

    async def _record(self, end: str, answer: bytes) -> None:
        await self.children.outcome(self.action, self.decision, self.intent, end=end, answer=answer)


def _without_approval(decision: Decision) -> Decision:
    """``decision``, where no approver can be asked: what needs approval is denied."""
    if decision.effect is not Effect.ASK:
        return decision
    return denied("session_tool_unshowable", decision.rules)


def _require_allowed(decision: Decision) -> None:
    if not decision.allowed:
        raise EgressDenied(decision.text, reason=decision.reason, rules=decision.rules)


def _about(act: Mapping[str, object], session: str | None) -> Mapping[str, object]:
    return act if session is None else {**act, "session": session}


# -- what the agent gets -----------------------------------------------------------------------------------------------


def _result(shown: Mapping[str, object], *, failed: bool) -> bytes:
    """A result of MCP: the structured content, and the same as text for clients that read only that."""
    text = json.dumps(shown, ensure_ascii=False)
    members = {"content": [{"type": "text", "text": text}], "structuredContent": shown, "isError": failed}
    return json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _error(error: AffiantError) -> Mapping[str, object]:
    return {"error": {"code": error.code, "message": str(error)[:500]}}


def _text(said: Mapping[str, object], name: str) -> str:
    value = said.get(name)
    if not isinstance(value, str):
        raise MalformedError("not an answer to a request", where=name, code="session.control")
    return value


def _number(said: Mapping[str, object], name: str) -> int:
    value = said.get(name)
    if type(value) is not int:
        raise MalformedError("not an answer to a request", where=name, code="session.control")
    return value


def _ended(said: Mapping[str, object]) -> Mapping[str, object]:
    streams = {name: from_b64u(_text(said, name)).decode("utf-8", "replace") for name in ("stdout", "stderr")}
    flags = {name: said.get(name) is True for name in ("truncated", "timed_out")}
    return {"exit_code": _number(said, "exit_code"), **streams, **flags}


def _content(said: Mapping[str, object]) -> Mapping[str, object]:
    data = from_b64u(_text(said, "content"))
    try:
        return {"content": data.decode("utf-8"), "encoding": "utf-8"}
    except UnicodeDecodeError:
        return {"content": b64u(data), "encoding": "base64url"}


def _written(said: Mapping[str, object]) -> Mapping[str, object]:
    return {"digest": _text(said, "digest"), "length": _number(said, "length")}


def _entries(said: Mapping[str, object]) -> Mapping[str, object]:
    entries = said.get("entries")
    found = [each for each in entries if isinstance(each, dict)] if isinstance(entries, list) else []
    shown = [
        {"path": _text(each, "path"), "kind": _text(each, "kind"), "size": _number(each, "size")}
        for each in found
    ]
    return {"entries": shown, "more": said.get("more") is True}


_FACTS: Final = ("memory_bytes", "files_bytes", "commands_running", "commands_ended", "processor_us")


def _facts(said: Mapping[str, object]) -> Mapping[str, object]:
    return {
        "agent": _text(said, "agent"),
        "isolation": _text(said, "isolation"),
        **{name: _number(said, name) for name in _FACTS},
    }


def _closed(said: Mapping[str, object]) -> Mapping[str, object]:
    return {"closed": True, "in_order": said.get("in_order") is True}


_SHOWN: Final[Mapping[str, Callable[[Mapping[str, object]], Mapping[str, object]]]] = {
    "run": _ended,
    "read": _content,
    "write": _written,
    "files": _entries,
    "info": _facts,
    "close": _closed,
}
"""Act -> what of the launcher's answer the agent gets; nothing else of it is passed on."""
