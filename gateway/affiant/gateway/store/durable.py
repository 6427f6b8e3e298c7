"""Waiting for the journal, within bounds: for what must be answered even while a disk does not.

A journal that fails says so at once (``journal.unavailable``). One that stalls says nothing: its entries are kept in
order, and become durable when it goes on, or are lost with the process. Who has waited long enough goes on as if they
were lost, and does nothing that would be wrong if they were not.
"""

from __future__ import annotations

import asyncio
from typing import Final

from affiant.gateway.store.journal import Place
from affiant.gateway.wire.errors import JournalUnavailable

__all__ = ["DURABLE_WITHIN_S", "durable"]

DURABLE_WITHIN_S: Final = 7.0
"""Seconds: with the grace of requests under way, less than a supervisor waits for its session's close (15)."""


async def durable(*appended: asyncio.Future[Place], within_s: float) -> None:
    """Return once all of ``appended`` are durable. What is not, in time, may still come to be.

    Raises:
        JournalUnavailable: one cannot be made durable, or is not in time.
    """
    done, late = await asyncio.wait(appended, timeout=within_s)
    for each in done:
        each.result()
    if late:
        raise JournalUnavailable(
            "the journal does not answer", expected=f"every entry within {within_s:g} s", found=len(late)
        )
