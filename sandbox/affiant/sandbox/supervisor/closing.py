"""Ending a session: the agent first, then the way out, then the chain.

1. end the sandbox, and with it every process of the agent's; wait for the run's outcome record;
2. stop the proxy: what is under way gets its outcome record;
3. write ``end`` with the last counter, after a last ``refusal`` if the agent has spent its records or its time, and
   have every record acknowledged;
4. close the session at the gateway, and fetch its bundle into the session's folder, piece by piece.

What cannot be done in time is left, in this order of importance: the chain then has no end, and a verifier says so.
Where the gateway is gone, ``end`` stays in the session's own journal, and step 4 is a refusal that says what there is.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from affiant.errors import AffiantError, UnreachableError
from affiant.policy.decision.limit_errors import LimitReached
from affiant.policy.decision_log.file import DecisionsUnavailable
from affiant.sandbox.base.errors import GatewayUnreachable
from affiant.sandbox.egress.http.errors import RecordBudgetSpent, RecordsUnavailable
from affiant.sandbox.supervisor.gateway.gateway_watch import GONE_AFTER_S
from affiant.sandbox.supervisor.gateway.session_gateway import SessionGateway
from affiant.sandbox.supervisor.launch.errors import GatewayDrained, GatewayLost

if TYPE_CHECKING:  # both come after this module
    from affiant.sandbox.supervisor.activating import OpenSession
    from affiant.sandbox.supervisor.acts import Ending

__all__ = ["BUNDLE", "account_for_decisions", "close_session", "end_agent", "fetch_bundle"]

BUNDLE: Final = "bundle.json"
"""The gateway's answer as it came: the bundle, and the openings sealed to the session's starter."""

_AGENT_S: Final = 2.0
_RETRY_S: Final = 0.2
_DECISIONS_S: Final = 3.0


async def end_agent(session: OpenSession, acts: Collection[asyncio.Task[None]]) -> None:
    """Steps 1 and 2: afterwards nothing of the agent's runs, and nothing can go out.

    Args:
        acts: those under way.
    """
    with suppress(AffiantError, TimeoutError):  # a runner that is gone has ended the sandbox by that
        async with asyncio.timeout(_AGENT_S):
            await session.runner.kill()
    if acts:
        await asyncio.wait(acts, timeout=_AGENT_S)
        for act in acts:
            act.cancel()
        await asyncio.wait(acts, timeout=_AGENT_S)
    await session.proxy.stop()
    with suppress(AffiantError, TimeoutError):
        async with asyncio.timeout(_AGENT_S):
            await session.runner.cleanup()


async def account_for_decisions(session: OpenSession) -> DecisionsUnavailable | None:
    """Have the gateway say what it has denied to the session, and append its last decisions to the decision log.

    Returns:
        Why the decision log is not whole; None: it is, or there is none.
    """
    try:
        async with asyncio.timeout(_DECISIONS_S):
            if session.decisions is not None:
                await session.decisions.follow_gateway()
            session.denials.take(await session.gateway.decisions(None))
    except DecisionsUnavailable as error:
        return error
    except (AffiantError, TimeoutError) as error:
        if session.decisions is not None:
            unavailable = DecisionsUnavailable("the gateway's last decisions could not be fetched")
            unavailable.__cause__ = error
            return unavailable
    return None


async def close_session(session: OpenSession, ending: Ending, *, chain_s: float, bundle_s: float) -> Path:
    """Steps 3 and 4; the path of the bundle.

    Args:
        chain_s: for the last records and the close; bundle_s: for the bundle, which may be large.

    Raises:
        GatewayLost: no gateway can close it any more; what was recorded is in the session's folder.
        AffiantError: the gateway does not close the session or give its bundle.
        TimeoutError: not in time.
    """
    try:
        async with asyncio.timeout(chain_s):
            if not session.records.stopped.done():
                await _end_chain(session, ending, answers_s=chain_s / 2)
            await _insist(session, ending.why)
        async with asyncio.timeout(bundle_s):
            return await fetch_bundle(session.gateway, session.provision.session_dir)
    except (UnreachableError, TimeoutError) as error:
        if await _is_lost(session, found_within_s=0 if ending.orphaned else GONE_AFTER_S):
            raise _lost(session) from error
        raise


async def _end_chain(session: OpenSession, ending: Ending, *, answers_s: float) -> None:
    """Write ``end``, acknowledged wherever the gateway can still do so."""
    why = "drain" if isinstance(ending.refusal, GatewayDrained) else "shutdown"
    last = {"why": why, "cseq": session.gateway.last_counter}
    with suppress(RecordsUnavailable):  # the close then says that this chain has no end
        await _account_for_answers(session, within_s=answers_s)
        if isinstance(ending.refusal, (RecordBudgetSpent, LimitReached)):
            await session.records.record("refusal", {"rsn": ending.refusal.code}, {})
        await session.records.record("end", last, {}, acknowledged=not session.records.lost.done())


async def _account_for_answers(session: OpenSession, *, within_s: float) -> None:
    """See that each counter has its record: the gateway's, if it still answers, else a refusal of ours."""
    if not (unaccounted := session.gateway.unaccounted):
        return
    with suppress(RecordsUnavailable, TimeoutError):
        async with asyncio.timeout(within_s):
            await session.records.record("epoch", {"inf": session.proxy.in_flight}, {}, acknowledged=True)
    if session.records.lost.done():
        for counter in unaccounted:
            await session.records.record("refusal", {"rsn": GatewayUnreachable.code}, {}, cseq=counter)


async def _insist(session: OpenSession, why: str) -> None:
    """Close the session at the gateway, through short failures of the way to it."""
    while True:
        try:
            await session.gateway.close(why)
        except UnreachableError:
            if session.records.lost.done():
                raise
            await asyncio.sleep(_RETRY_S)
        else:
            return


async def _is_lost(session: OpenSession, *, found_within_s: float) -> bool:
    """Whether the gateway is gone for good; asked after a failure, so it is given the time to be found out."""
    await asyncio.wait({session.records.lost}, timeout=found_within_s)
    return session.records.lost.done()


def _lost(session: OpenSession) -> GatewayLost:
    """What happened, what evidence there is, and what to do."""
    records, name = session.records, session.launch.activation.session
    reason = records.lost.result()
    return GatewayLost(
        f"{reason.message}; its chain of {records.count} signed records is kept, "
        f"{records.unacknowledged} of them not acknowledged",
        found=reason.found,
        where=f"session {name}",
        hint=f"Gather its receipts: affiant session recover {name} --bundle FILE",
    )


async def fetch_bundle(gateway: SessionGateway, folder: Path) -> Path:
    """The bundle, at its place in the session's ``folder`` once it is whole and durable; the place.

    Raises:
        AffiantError: the gateway does not give it.
    """
    path = folder / BUNDLE
    draft = path.with_suffix(".draft")
    with _opened(draft) as file:
        async with aclosing(gateway.bundle()) as pieces:
            async for piece in pieces:
                await asyncio.to_thread(file.write, piece)
        file.flush()
        await asyncio.to_thread(os.fsync, file.fileno())
    os.rename(draft, path)
    return path


def _opened(draft: Path) -> BinaryIO:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    return open(os.open(draft, flags, 0o600), "wb")
