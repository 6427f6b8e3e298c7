"""Ending a session: the agent first, then the way out, then the chain.

1. end the sandbox, and with it every process of the agent's; wait for the run's outcome record;
2. stop the proxy: what is under way gets its outcome record;
3. write ``end`` with the last counter, after a last ``refusal`` if the agent has spent its budget of records, and
   have every record acknowledged;
4. close the session at the gateway, and fetch its bundle into the session's folder, piece by piece.

What cannot be done in time is left, in this order of importance: the chain then has no end, and a verifier says so.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import aclosing, suppress
from pathlib import Path
from typing import BinaryIO, Final

from affiant.errors import AffiantError
from affiant.sandbox.egress.errors import RecordsUnavailable
from affiant.sandbox.supervisor.activating import OpenSession
from affiant.sandbox.supervisor.errors import RecordBudgetSpent
from affiant.sandbox.supervisor.serving import Ending
from affiant.sandbox.supervisor.session_gateway import SessionGateway

__all__ = ["BUNDLE", "close_session", "end_agent"]

BUNDLE: Final = "bundle.json"
"""The gateway's answer as it came: the bundle, and the openings sealed to the session's starter."""

_AGENT_S: Final = 2.0


async def end_agent(session: OpenSession, running: asyncio.Task[None] | None) -> None:
    """Steps 1 and 2: afterwards nothing of the agent's runs, and nothing can go out."""
    with suppress(AffiantError, TimeoutError):  # a runner that is gone has ended the sandbox by that
        await asyncio.wait_for(session.runner.kill(), _AGENT_S)
    if running is not None:
        await asyncio.wait({running}, timeout=_AGENT_S)
        running.cancel()
        await asyncio.wait({running}, timeout=_AGENT_S)
    await session.proxy.stop()
    with suppress(AffiantError, TimeoutError):
        await asyncio.wait_for(session.runner.cleanup(), _AGENT_S)


async def close_session(session: OpenSession, ending: Ending, *, chain_s: float, bundle_s: float) -> Path:
    """Steps 3 and 4; the path of the bundle.

    Args:
        chain_s: for the last records and the close; bundle_s: for the bundle, which may be large.

    Raises:
        AffiantError: the gateway does not close the session or give its bundle.
        TimeoutError: not in time.
    """
    async with asyncio.timeout(chain_s):
        if not session.records.stopped.done():
            last = {"why": "shutdown", "cseq": session.gateway.last_counter}
            with suppress(RecordsUnavailable):  # the close then says that this chain has no end
                if isinstance(ending.refusal, RecordBudgetSpent):
                    await session.records.record("refusal", {"rsn": ending.refusal.code}, {})
                await session.records.record("end", last, {}, acknowledged=True)
        await session.gateway.close(ending.why)
    async with asyncio.timeout(bundle_s):
        return await _fetch_bundle(session.gateway, session.provision.session_dir / BUNDLE)


async def _fetch_bundle(gateway: SessionGateway, path: Path) -> Path:
    """The bundle, at its place once it is whole and durable; returns ``path``."""
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
