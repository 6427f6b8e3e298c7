"""One session from the launcher's first message to its last: opening, serving, closing, whatever happens between.

Every way of ending goes through here. The launcher is sent an error with its stable code; the agent is ended
first, always; and when the launcher is gone nothing waits for an answer: everything is over within five seconds.

While a session is being opened, a launcher that says finish, or is gone, has it undone: one that was admitted is
closed, and its bundle fetched.

Opening has three steps that cannot be taken in another order:

1. *Provisioning* (``starting``): compares what the launcher provided with the TD, starts the children, drops root.
2. *Attesting* (``attesting``): appraises the gateway.
3. *Activating* (``activating``): collects this session's evidence, asks for admission, writes the chain's ``boot``,
   starts broker, sandbox and proxy.

A *pooled* supervisor gets no session at first. It takes the first two steps, says ``warm`` and waits: for its one
activation, for the end of who holds it, or for the end of the gateway that it appraised.

The modules of the later steps are imported after the children have started, so that all three processes load at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

from affiant.errors import AffiantError, UnreachableError
from affiant.lazy_names import loading
from affiant.sandbox.supervisor.launch.control import ControlChannel, Message, refusal_members
from affiant.sandbox.supervisor.launch.errors import GatewayLost
from affiant.sandbox.supervisor.launch.launcher_requests import LauncherRequests
from affiant.sandbox.supervisor.launch.lifecycle import Event, Lifecycle, State
from affiant.sandbox.supervisor.launch.provision import (
    Provision,
    Template,
    parse_activation_message,
    parse_provision,
    parse_template,
)
from affiant.sandbox.supervisor.starting import (
    Opening,
    Progress,
    Started,
    StartedTemplate,
    Surroundings,
    Warming,
    check_trees,
    start,
    start_template,
    started_for,
)

if TYPE_CHECKING:
    from affiant.sandbox.supervisor.activating import OpenSession
    from affiant.sandbox.supervisor.acts import Ending
    from affiant.sandbox.supervisor.attesting import Met
    from affiant.sandbox.supervisor.gateway.appraise_gateway import GatewayPins
    from affiant.sandbox.supervisor.launch.launch_check import CheckedTemplate

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
        surroundings = (around, lifecycle, stack, progress, requests)
        session = await _opened(channel, first, surroundings)
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


async def _opened(
    channel: ControlChannel,
    first: Message,
    surroundings: tuple[Surroundings, Lifecycle, AsyncExitStack, Progress, LauncherRequests],
) -> OpenSession | None:
    """The session, as :func:`_unless_ended`."""
    pooled = first.members.get("op") == "warm"
    provision = parse_template(first) if pooled else parse_provision(first)
    around, lifecycle, *_ = surroundings
    lifecycle.record_in(provision.session_dir, around.clock)
    lifecycle.take(Event.TAKEN)
    if isinstance(provision, Provision):
        return await _unless_ended(channel, open_session(Opening(provision, *surroundings)))
    warming = Warming(provision, *surroundings)
    warm = await _unless_ended(channel, _warm(warming))
    if warm is None:
        return None
    message = await _activation(channel, provision, warm)
    if message is None or message.members.get("op") == "finish":
        return None
    opening = Opening(parse_activation_message(provision, message), *surroundings)
    return await _unless_ended(channel, _taken(opening, warm))


async def _activation(channel: ControlChannel, template: Template, warm: _Warm) -> Message | None:
    """The first message to a supervisor that waits; None: who held it is gone.

    Raises:
        GatewayLost: the gateway that was appraised is gone.
    """
    from affiant.sandbox.supervisor.gateway.gateway_watch import until_gone  # noqa: PLC0415 - see above

    gateway = warm.met.gateway
    await _tell(channel, {"event": "warm", "gks": gateway.keyset_digest, "spki": gateway.spki})
    gone = asyncio.ensure_future(until_gone(template.gateway_url, spki=gateway.spki))
    message = asyncio.ensure_future(channel.receive())
    try:
        await asyncio.wait({gone, message}, return_when=asyncio.FIRST_COMPLETED)
        if gone.done():
            raise gone.result()
        return message.result()
    finally:
        for each in (gone, message):
            each.cancel()
        await asyncio.gather(gone, message, return_exceptions=True)


async def _unless_ended(channel: ControlChannel, work: Coroutine[None, None, _T]) -> _T | None:
    """What ``work`` returns; None: the launcher said finish, or is gone, and what was opened is to be undone.

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


@dataclass(frozen=True, slots=True)
class _Warm:
    """A supervisor without a session."""

    started: StartedTemplate
    met: Met


async def open_session(opening: Opening) -> OpenSession:
    """Open one session; must be called before any thread has been started.

    Raises:
        AffiantError: the step that was refused; what it opened is on the exit stack.
    """
    started = start(opening)
    checking = asyncio.ensure_future(check_trees(opening, started))
    opening.stack.callback(checking.cancel)
    met = await _met(opening, started.launch, started.pins)
    await checking
    return await _activated(opening, started, met)


async def _warm(warming: Warming) -> _Warm:
    """As far as :func:`open_session` comes without a session."""
    started = start_template(warming)
    return _Warm(started, await _met(warming, started.checked, started.pins))


async def _taken(opening: Opening, warm: _Warm) -> OpenSession:
    """The session that has taken a warm supervisor."""
    started = started_for(opening, warm.started)
    await check_trees(opening, started)
    return await _activated(opening, started, warm.met)


async def _met(warming: Warming, checked: CheckedTemplate, pins: GatewayPins) -> Met:
    with loading():
        from affiant.sandbox.supervisor import activating  # noqa: F401, PLC0415 - see above
        from affiant.sandbox.supervisor.attesting import meet_gateway  # noqa: PLC0415 - see above

    await warming.progress("provisioned", {"isolation": warming.provision.backend.value})
    warming.lifecycle.take(Event.CHECKED)
    met = await meet_gateway(warming, checked, pins)
    warming.lifecycle.take(Event.APPRAISED)
    return met


async def _activated(opening: Opening, started: Started, met: Met) -> OpenSession:
    from affiant.sandbox.supervisor.activating import activate, begin  # noqa: PLC0415 - see above
    from affiant.sandbox.supervisor.attesting import attest  # noqa: PLC0415 - see above

    opening.lifecycle.take(Event.ACTIVATED)
    attested = await attest(opening, started, met)
    admitted, records = await _finishing(begin(opening, started, attested), within_s=_ADMISSION_ENDS_WITHIN_S)
    return await activate(opening, started, admitted, records)
