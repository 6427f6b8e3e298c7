"""One session from the launcher's first message to its last: opening, serving, closing, whatever happens between.

Every way of ending goes through here. The launcher is sent an error with its stable code; the agent is ended
first, always; and when the launcher is gone nothing waits for an answer: everything is over within five seconds.

While a session is being opened, a launcher that says finish, or is gone, has it undone: one that was admitted is
closed, and its bundle fetched.

Opening has three steps that cannot be taken in another order:

1. *Provisioning* (``starting``): compares what the launcher provided with the TD, starts the children, drops root.
2. *Attesting* (``attesting``): appraises the gateway, collects this session's evidence, asks for admission.
3. *Activating* (``activating``): writes the chain's ``boot``, starts broker, sandbox and proxy.

The modules of the later steps are imported after the children have started, so that all three processes load at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from affiant.errors import AffiantError, UnreachableError
from affiant.lazy_names import loading
from affiant.sandbox.supervisor.launch.control import ControlChannel, Message, refusal_members
from affiant.sandbox.supervisor.launch.errors import GatewayLost
from affiant.sandbox.supervisor.launch.launcher_requests import LauncherRequests
from affiant.sandbox.supervisor.launch.lifecycle import Event, Lifecycle, State
from affiant.sandbox.supervisor.launch.provision import parse_provision
from affiant.sandbox.supervisor.starting import Opening, Surroundings, start

if TYPE_CHECKING:
    from affiant.sandbox.supervisor.activating import OpenSession
    from affiant.sandbox.supervisor.acts import Ending

__all__ = ["open_session", "supervise"]

_T = TypeVar("_T")

_CHAIN_S: Final = 15.0
_BUNDLE_S: Final = 40.0

_ADMISSION_ENDS_WITHIN_S: Final = 2.0
"""So long an admission that is under way may still take when it is not wanted any more. A gateway that grants it later
has an open session until its lease ends."""

_ORPHANED_CHAIN_S: Final = 2.0
_ORPHANED_BUNDLE_S: Final = 1.0
"""When the launcher is gone: with the agent's end they stay below the five seconds of the wire specification."""


async def supervise(channel: ControlChannel, look_around: Callable[[], Surroundings]) -> int:
    """Serve one launcher's session; the process's exit status.

    Args:
        look_around: reads the surroundings; may raise an error.
    """
    lifecycle = Lifecycle()
    try:
        first = await channel.receive()
        if first is None:
            return 0
        return await _session(channel, look_around(), lifecycle, first)
    except AffiantError as refusal:
        if lifecycle.state not in {State.TERMINATED, State.FAILED}:
            lifecycle.take(Event.REJECTED, code=refusal.code)
        await _tell(channel, {"event": "refused", **refusal_members(refusal)})
        return 1
    finally:
        lifecycle.close()


async def _session(
    channel: ControlChannel, around: Surroundings, lifecycle: Lifecycle, first: Message
) -> int:
    async def progress(step: str, detail: Mapping[str, object]) -> None:
        await _tell(channel, {"event": "progress", "step": step, "detail": detail})

    async with AsyncExitStack() as stack:
        requests = LauncherRequests(lambda event: _tell(channel, event))
        opening = Opening(parse_provision(first), around, lifecycle, stack, progress, requests)
        lifecycle.record_in(opening.provision.session_dir, around.clock)
        lifecycle.take(Event.TAKEN)
        session = await _unless_ended(channel, open_session(opening))
        if session is None:
            return await _interrupted(channel, lifecycle, stack)
        from affiant.sandbox.supervisor.closing import end_agent  # noqa: PLC0415 - see above
        from affiant.sandbox.supervisor.serving import Serving  # noqa: PLC0415 - see above

        serving = Serving(session, channel, around)
        lifecycle.take(Event.READY)
        try:
            await _tell(channel, _ready(session))
            ending = await serving.until_over()
        finally:
            lifecycle.take(Event.ENDING)
            await end_agent(session, serving.acts)
        await _close(channel, session, ending)
        lifecycle.take(Event.CLOSED)
    return 0


async def _unless_ended(
    channel: ControlChannel, work: Coroutine[None, None, OpenSession]
) -> OpenSession | None:
    """The session that ``work`` opens; None: its launcher said finish, or is gone, and what was opened is to be undone.

    A launcher says nothing else before the session is ready.
    """
    opening, ended = asyncio.ensure_future(work), asyncio.ensure_future(channel.receive())
    try:
        await asyncio.wait({opening, ended}, return_when=asyncio.FIRST_COMPLETED)
        if opening.done() and (not ended.done() or opening.exception() is not None):
            return opening.result()
        with suppress(AffiantError):  # not a message of this protocol: what follows is not known
            if (message := ended.result()) is not None:
                message.close()
        return None
    finally:
        for each in (opening, ended):
            each.cancel()
        await asyncio.gather(opening, ended, return_exceptions=True)


async def _interrupted(channel: ControlChannel, lifecycle: Lifecycle, stack: AsyncExitStack) -> int:
    """Undo what was opened, which closes a session that was admitted; then say so."""
    await stack.aclose()
    lifecycle.take(Event.ABANDONED)
    await _tell(channel, {"event": "finished"})
    return 0


async def _finishing(work: Coroutine[None, None, _T], *, within_s: float) -> _T:
    """What ``work`` returns; when the wait is cancelled ``work`` has ``within_s`` to come to its end first."""
    doing = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait({doing}, timeout=within_s)
        doing.cancel()
        await asyncio.gather(doing, return_exceptions=True)
        raise


async def _close(channel: ControlChannel, session: OpenSession, ending: Ending) -> None:
    """Close the chain and report to the launcher; a session that ended otherwise than asked is an error."""
    from affiant.sandbox.supervisor.closing import account_for_decisions, close_session  # noqa: PLC0415 - see above

    if not ending.orphaned:
        unavailable = await account_for_decisions(session)
        ending = ending if unavailable is None else replace(ending, refusal=ending.refusal or unavailable)
        denials = {"event": "progress", "step": "denied", "detail": session.denials.to_json()}
        await _tell(channel, denials)
    chain_s, bundle_s = (_ORPHANED_CHAIN_S, _ORPHANED_BUNDLE_S) if ending.orphaned else (_CHAIN_S, _BUNDLE_S)
    try:
        bundle = await close_session(session, ending, chain_s=chain_s, bundle_s=bundle_s)
    except TimeoutError as error:
        raise ending.refusal or UnreachableError(
            "the gateway did not close the session in time", code="session.not_closed"
        ) from error
    except GatewayLost as lost:
        first = ending.refusal
        raise lost if first is None or isinstance(first, GatewayLost) else first from lost
    except AffiantError as error:
        raise ending.refusal or error from error
    if ending.refusal is not None:
        raise ending.refusal
    await _tell(channel, {"event": "finished", "bundle": str(bundle), "openings": str(bundle)})


def _ready(session: OpenSession) -> Mapping[str, object]:
    return {
        "event": "ready",
        "session": session.launch.activation.session,
        "ksd": session.keyset_digest,
        "isolation": session.provision.backend.value,
        "secrets": sorted(session.placeholders),
    }


async def _tell(channel: ControlChannel, event: Mapping[str, object]) -> None:
    with suppress(OSError):  # the launcher is gone: noticed by the one who reads
        await channel.send(event)


async def open_session(opening: Opening) -> OpenSession:
    """Open one session; must be called before any thread has been started.

    Raises:
        AffiantError: the step that was refused; what it opened is on the exit stack.
    """
    started = start(opening)
    with loading():
        from affiant.sandbox.supervisor.activating import activate, begin  # noqa: PLC0415 - see above
        from affiant.sandbox.supervisor.attesting import attest  # noqa: PLC0415 - see above

    await opening.progress("provisioned", {"isolation": opening.provision.backend.value})
    opening.lifecycle.take(Event.CHECKED)
    attested = await attest(opening, started)
    admitted, records = await _finishing(begin(opening, started, attested), within_s=_ADMISSION_ENDS_WITHIN_S)
    return await activate(opening, started, admitted, records)
