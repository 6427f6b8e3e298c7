"""Blocking work in a thread that ends soon after the wait for it is cancelled, so that Ctrl-C is answered at once.

A thread cannot be cancelled. Work that may not end just anywhere is asked to stop, and waited for
(:func:`stoppable`). Work that may end anywhere runs on alone, in a thread that no exit waits for (:func:`abandonable`):
it changes nothing; or each of its steps is whole by itself and the next command takes the rest up, as it does after a
command that was killed (what killed launchers left, receipts that are gathered).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

__all__ = ["Proceed", "abandonable", "stoppable"]

_T = TypeVar("_T")

Proceed = Callable[[], None]
"""Returns while the work is still wanted; called by the work now and then."""


class _NoMoreWanted(BaseException):
    """Ends the work; a handler of errors on its way does not stop it."""


async def stoppable(work: Callable[[Proceed], _T]) -> _T:
    """What ``work`` returns, called in a thread with what it asks now and then.

    If the wait is cancelled, ``work`` ends where it asks next, and this returns after that.
    """
    unwanted = threading.Event()

    def proceed() -> None:
        if unwanted.is_set():
            raise _NoMoreWanted

    working = asyncio.ensure_future(abandonable(lambda: work(proceed)))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        unwanted.set()
        await asyncio.wait({working})
        working.exception()
        raise


async def abandonable(work: Callable[[], _T]) -> _T:
    """What ``work`` returns, called in a thread. If the wait is cancelled nothing waits for the thread."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_T] = loop.create_future()

    def settle(result: _T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)  # type: ignore[arg-type]  # a result, where there is no error
        else:
            done.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:  # noqa: BLE001 - handed to the one who waits, if there is one
            error = raised
        with suppress(RuntimeError):  # the loop is closed: its caller no longer waits
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="affiant-work", daemon=True).start()
    return await done
