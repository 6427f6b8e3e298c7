"""Writes epoch records: they distinguish a chain that is quiet from one that was interrupted.

Every 60 seconds, and after every 1,000 records, also when nothing happens: how many records there are so far, and
how many requests are under way (receipts specification, 4.2). The cadence stands in the quote-bound statement.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from affiant.sandbox.egress.http.errors import RecordsUnavailable
from affiant.sandbox.supervisor.records.records import SessionRecords

__all__ = ["keep_epochs"]

_EVERY_RECORDS: Final = 1000


async def keep_epochs(records: SessionRecords, *, every_s: float, in_flight: Callable[[], int]) -> None:
    """Write epoch records until cancelled, or until the chain stops."""
    loop = asyncio.get_running_loop()
    next_time, next_count = loop.time() + every_s, records.count + _EVERY_RECORDS
    while True:
        await asyncio.sleep(max(0.0, min(1.0, next_time - loop.time())))
        if loop.time() < next_time and records.count < next_count:
            continue
        try:
            await records.record("epoch", {"inf": in_flight()}, {})
        except RecordsUnavailable:
            return
        next_time, next_count = loop.time() + every_s, records.count + _EVERY_RECORDS
