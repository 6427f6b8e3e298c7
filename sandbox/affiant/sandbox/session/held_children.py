"""Holds the sessions that a session's agent starts, in the process that holds that session.

The session's supervisor asks for them, and for what they are to do (``launcher_requests``), in its agent's name; it has
judged and recorded that by then. Here each request is read strictly. A child is planned like any other session, with
the profile file as it was read for its parent. Its profile is compared once more: it must be the very one that was
judged, and no wider than the parent's in force.

A child ends with its parent: :meth:`ChildSessions.closing` closes all of them, in order, before the parent is closed.
A tree of sessions, children of children included, has at most :data:`MOST_OPEN` besides its root.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.errors import AffiantError, MalformedError, NotAuthenticError, StateError
from affiant.policy.decision.compiled import parse_normal_form
from affiant.policy.diff.restriction import require_no_wider
from affiant.policy.model.profile import Resources
from affiant.sandbox.session.restriction_socket import InForce
from affiant.sandbox.session.session_plan import SessionPlan, SessionRequest
from affiant.sandbox.session.supervisor_link import Progress
from affiant.sandbox.session_acts.sandbox_files import Listing
from affiant.sandbox.session_state.session_listing import is_session_id
from affiant.sandbox.supervisor.children.session_tools import MOST_READ

if TYPE_CHECKING:
    from affiant.sandbox.session.session import Session

__all__ = ["MOST_OPEN", "ChildSessions", "Lineage", "Tree", "child_request"]

MOST_OPEN: Final = 16
"""Sessions of one tree that may be open at once, besides its root."""
_CAPTURED: Final = 256 * 1024
"""Bytes of each stream of a command that are passed on."""
_MOST_ENTRIES: Final = 1000
_ROOM: Final = 900_000
"""Characters of the entries in one answer."""


@dataclass(slots=True)
class Tree:
    """The sessions of one tree that are open, besides its root."""

    open: int = 0


@dataclass(frozen=True, slots=True)
class Lineage:
    """What a session is in its tree.

    Args:
        session: the id that its parent's supervisor chose; None: a root chooses its own.
        require: raises where its plan is not what its parent may start.
        parent: the plan of its parent.
    """

    tree: Tree = field(default_factory=Tree)
    session: str | None = None
    require: Callable[[SessionPlan], None] | None = None
    parent: SessionPlan | None = None


@dataclass(slots=True)
class _Child:
    agent: str
    ready: asyncio.Future[Session]
    close: asyncio.Event = field(default_factory=asyncio.Event)
    holding: asyncio.Task[None] | None = None
    failed: AffiantError | None = None
    running: int = 0


@dataclass(frozen=True, slots=True)
class _Command:
    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str | None
    stdin: bytes
    timeout_s: int


Open = Callable[[SessionRequest, Lineage], AbstractAsyncContextManager["Session"]]
"""Opens a session with a place in a tree."""


class ChildSessions:
    """The children of one session.

    Args:
        parent: its plan. in_force: the profile that it has now. opener: opens a child.
        until: when the parent's lease ends, seconds of the monotonic clock.
        progress: receives which child was opened and closed.
    """

    def __init__(
        self,
        parent: SessionPlan,
        *,
        in_force: Callable[[], InForce],
        tree: Tree,
        opener: Open,
        until: float,
        progress: Progress,
    ) -> None:
        self._parent = parent
        self._in_force = in_force
        self._tree = tree
        self._opener = opener
        self._until = until
        self._progress = progress
        self._children: dict[str, _Child] = {}
        self._ending = False

    @asynccontextmanager
    async def closing(self) -> AsyncIterator[None]:
        """Close every child, at once, when the block is left; none is opened from then on."""
        try:
            yield
        finally:
            self._ending = True
            await asyncio.gather(*(self._closed(child) for child in self._children.values()))

    async def _closed(self, child: _Child) -> None:
        child.close.set()
        if child.holding is None:
            return
        if not child.ready.done():
            child.holding.cancel()
        await asyncio.wait({child.holding})

    # -- what the supervisor asks -----------------------------------------------------------------------------------

    async def answer(self, request: Mapping[str, object]) -> Mapping[str, object]:
        """The result of one request.

        Raises:
            ``session.control``: not a request of this protocol. AffiantError: what the session itself reports.
        """
        match request:
            case {"act": "profile", "agent": str(agent), **rest} if not rest:
                return {"policy": b64u(self._parent.profiles.profile(agent).normal_form)}
            case {
                "act": "open",
                "agent": str(agent),
                "session": str(session),
                "digest": str(digest),
                "task": str() | None as task,
                **rest,
            } if not rest:
                return await self._open(agent, session, digest, task)
            case {"act": "list", **rest} if not rest:
                states = {name: _state(child) for name, child in self._children.items()}
                return {"sessions": states}
            case {"act": "close", "session": str(session), **rest} if not rest:
                return await self._close(session)
            case {"act": "run" | "read" | "write" | "files" | "info", "session": str(session), **rest}:
                return await self._asked(self._one(session), {**rest, "act": request["act"]})
        raise _unknown()

    async def _asked(self, child: _Child, request: Mapping[str, object]) -> Mapping[str, object]:
        held = _held(child)
        match request:
            case {
                "act": "run",
                "command": list() as argv,
                "env": dict() as env,
                "cwd": str() | None as cwd,
                "stdin": str(stdin),
                "timeout_s": int(timeout_s),
                **rest,
            } if not rest and all(isinstance(word, str) for word in (*argv, *env.values())):
                command = _Command(argv, env, cwd, from_b64u(stdin), timeout_s)
                child.running += 1
                try:
                    return await _run(held, command)
                finally:
                    child.running -= 1
            case {"act": "read", "path": str(path), **rest} if not rest:
                return {"content": b64u(await held.files.read(path, at_most=MOST_READ))}
            case {
                "act": "write",
                "path": str(path),
                "content": str(content),
                "executable": bool(executable),
                **rest,
            } if not rest:
                moved = await held.files.write(path, from_b64u(content), executable=executable)
                return {"digest": moved.digest, "length": moved.length}
            case {"act": "files", "path": str(path), **rest} if not rest:
                return _entries(await held.files.list(path))
            case {"act": "info", **rest} if not rest:
                metrics = await held.metrics()
                return {"agent": child.agent, "isolation": held.isolation, **metrics.to_json()}
        raise _unknown()

    def _one(self, session: str) -> _Child:
        child = self._children.get(session)
        if child is None:
            raise StateError("no such child", expected="one that is open", code="session.not_open")
        return child

    # -- a child's life ---------------------------------------------------------------------------------------------

    async def _open(self, agent: str, session: str, digest: str, task: str | None) -> Mapping[str, object]:
        if self._ending:
            raise StateError("the session is being closed", code="session.not_open")
        if session in self._children or not is_session_id(session):
            raise MalformedError("not the id of a new session", where="session", code="session.control")
        if self._tree.open >= MOST_OPEN:
            raise StateError(
                "too many sessions were started by one session and its children",
                expected=f"at most {MOST_OPEN} that are open",
                hint="Close those that are done",
                code="session.too_many_children",
            )
        self._tree.open += 1
        child = self._children[session] = _Child(agent, asyncio.get_running_loop().create_future())
        child.holding = asyncio.create_task(self._hold(child, agent, session, digest, task))
        try:
            held = await asyncio.shield(child.ready)
        except BaseException as error:  # it did not begin, or nobody waits for it any more; raised again
            await self._closed(child)
            self._children.pop(session, None)
            if isinstance(error, AffiantError):
                self._progress(
                    "child", {"session": session, "agent": agent, "state": "failed", "why": str(error)}
                )
            raise
        self._progress("child", {"session": session, "agent": agent, "state": "open"})
        return {"isolation": held.isolation}

    async def _hold(self, child: _Child, agent: str, session: str, digest: str, task: str | None) -> None:
        """Open the child and hold it until it is to be closed, or ends by itself."""
        try:
            profile = self._parent.profiles.profile(agent)
            request = child_request(
                self._parent,
                agent,
                profile.compiled.resources,
                session=session,
                task=task,
                left_s=self._until - time.monotonic(),
            )
            lineage = Lineage(self._tree, session, lambda plan: self._require(plan, digest), self._parent)
            async with self._opener(request, lineage) as held:
                child.ready.set_result(held)
                await _until_over(held, child)
        except AffiantError as error:
            child.failed = error
        except asyncio.CancelledError:
            child.failed = StateError("the session was closed while it was opened", code="session.not_open")
        except Exception as error:  # noqa: BLE001 - a mistake of ours, or of the machine: the session is no worse for it
            child.failed = StateError("the session failed", found=type(error).__name__, code="session.act")
        finally:
            self._tree.open -= 1
            if not child.ready.done():
                child.ready.set_exception(
                    child.failed or StateError("the session did not begin", code="session.act")
                )
                child.ready.exception()  # perhaps nothing waits for it
            else:
                self._progress("child", {"session": session, "agent": agent, "state": "closed"})

    def _require(self, plan: SessionPlan, digest: str) -> None:
        """Return if ``plan`` has the profile that was judged, no wider than the parent's now.

        Raises:
            ``session.child_profile``: it has another. NotARestriction: it is wider.
        """
        if plan.profile.digest != digest:
            raise NotAuthenticError(
                "the profile is not the one that the start was judged by",
                expected=digest,
                found=plan.profile.digest,
                code="session.child_profile",
            )
        in_force = parse_normal_form(self._in_force().policy)
        require_no_wider(in_force, plan.profile.compiled, agent=plan.request.agent)

    async def _close(self, session: str) -> Mapping[str, object]:
        child = self._one(session)
        await self._closed(child)
        self._children.pop(session, None)
        return {"in_order": child.failed is None}


def child_request(
    parent: SessionPlan, agent: str, resources: Resources, *, session: str, task: str | None, left_s: float
) -> SessionRequest:
    """The request for a child: the parent's services, isolation and secrets; the other agent; no files of the parent's.

    Args:
        resources: the bounds of the child's own profile. session: its id.
        task: what the parent's agent says that it is for. left_s: seconds that are left of the parent's lease.
    """
    asked, log = parent.request, parent.request.decisions
    label = {name: value for name, value in (asked.task or {}).items() if name == "workflow"}
    return replace(
        asked,
        agent=agent,
        input=None,
        input_at=None,
        input_commit=None,
        output=None,
        output_diff=None,
        output_branch=None,
        decisions=None if log is None else log.with_name(f"{log.stem}.{session}{log.suffix}"),
        lease_s=max(1, int(min(left_s, parent.lease_s))),
        task={**label, **({} if task is None else {"task": task}), "parent": parent.session},
        resources=None if asked.resources is None else _smaller(asked.resources, resources),
        name=None,
        key=None,
    )


def _smaller(asked: Resources, profile: Resources) -> Resources:
    """Each bound that the parent was given, where the child's profile does not set a smaller one."""
    found = {}
    for name in ("cpus", "memory", "disk", "pids"):
        values = [value for each in (asked, profile) if (value := getattr(each, name)) is not None]
        found[name] = min(values) if values else None
    return Resources(**found)


async def _until_over(held: Session, child: _Child) -> None:
    """Return when the child is to be closed in order.

    Raises:
        AffiantError: why it ended by itself.
    """
    ended, closing = asyncio.ensure_future(held.until_ended()), asyncio.ensure_future(child.close.wait())
    try:
        await asyncio.wait({ended, closing}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in (ended, closing):
            each.cancel()
        await asyncio.gather(ended, closing, return_exceptions=True)
    if ended.done() and not ended.cancelled():
        raise ended.result()
    if child.running:
        await held.kill()


def _held(child: _Child) -> Session:
    if child.failed is not None:
        raise child.failed
    if child.close.is_set() or not child.ready.done():
        raise StateError("the session is not open", code="session.not_open")
    return child.ready.result()


def _state(child: _Child) -> str:
    if child.failed is not None or child.close.is_set():
        return "ended"
    return "open" if child.ready.done() else "opening"


async def _run(held: Session, command: _Command) -> Mapping[str, object]:
    with _reading(command.stdin) as stdin:
        result = await held.run(
            command.argv,
            env=command.env,
            cwd=command.cwd,
            stdin=stdin,
            timeout_s=command.timeout_s,
            capture_limit=_CAPTURED,
        )
    if result.limit is not None:
        raise result.limit
    return {
        "exit_code": result.exit_code,
        "stdout": b64u(result.stdout_bytes),
        "stderr": b64u(result.stderr_bytes),
        "truncated": result.truncated,
        "timed_out": result.timed_out,
    }


def _entries(listing: Listing) -> Mapping[str, object]:
    """A listing as one answer; ``more``: it has entries that are not in it."""
    shown: list[Mapping[str, object]] = []
    room = _ROOM
    for entry in listing.entries[:_MOST_ENTRIES]:
        room -= len(entry.path) * 6 + 100  # as JSON at its longest
        if room < 0:
            break
        shown.append({"path": entry.path, "kind": entry.kind, "size": entry.size})
    return {"entries": shown, "more": len(shown) < len(listing.entries)}


@contextmanager
def _reading(data: bytes) -> Iterator[int]:
    """A descriptor that ``data`` is read from."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        yield file.fileno()


def _unknown() -> MalformedError:
    return MalformedError("not a request that the launcher answers", where="ask", code="session.control")
