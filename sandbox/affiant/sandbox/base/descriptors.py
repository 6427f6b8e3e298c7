"""Descriptors that a thread makes, and that are never lost: a cancelled wait closes what comes too late."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

__all__ = ["descriptor_from_thread"]


async def descriptor_from_thread(make: Callable[[], int | None]) -> int | None:
    """The descriptor that ``make`` returns, called in a thread; the caller owns it.

    A thread cannot be cancelled. If the wait for it is, the descriptor is closed as soon as there is one.
    """
    making = asyncio.ensure_future(asyncio.to_thread(make))
    try:
        return await asyncio.shield(making)
    except asyncio.CancelledError:
        making.add_done_callback(_close_result)
        raise


def _close_result(made: asyncio.Future[int | None]) -> None:
    if not made.cancelled() and made.exception() is None and (descriptor := made.result()) is not None:
        os.close(descriptor)
