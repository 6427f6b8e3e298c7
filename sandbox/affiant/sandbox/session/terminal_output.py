"""Where a command's output goes: to the user's descriptor itself, or through :mod:`.terminal_text` to a terminal.

The sandbox never has the terminal. Of what it writes, the supervisor passes on what was redacted and hashed; here, in
the launcher, that becomes safe to be shown. Redirected output is passed on byte for byte.
"""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from affiant.sandbox.base.threads import abandonable
from affiant.sandbox.session.terminal_text import TerminalText

__all__ = ["safely_shown"]

_PIECE: Final = 64 * 1024


@asynccontextmanager
async def safely_shown(descriptor: int, *, raw: bool) -> AsyncIterator[int]:
    """A descriptor for the command's output, for the length of the block; at its end everything has been shown.

    Args:
        descriptor: the user's; it stays the caller's. raw: pass on to a terminal what comes, too.
    """
    if raw or not os.isatty(descriptor):
        yield descriptor
        return
    reading, writing = os.pipe2(os.O_CLOEXEC)
    showing = threading.Thread(target=_show, args=(reading, descriptor), name="terminal", daemon=True)
    showing.start()
    try:
        yield writing
    finally:
        os.close(writing)  # the supervisor has closed its own by now, or is gone
        await abandonable(showing.join)


def _show(reading: int, terminal: int) -> None:
    """Show what comes until all writers have closed; one who does not read any more ends it, and they are told."""
    text = TerminalText()
    try:
        with suppress(OSError):
            while data := os.read(reading, _PIECE):
                _write(terminal, text.feed(data))
            _write(terminal, text.flush())
    finally:
        os.close(reading)


def _write(terminal: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(terminal, view) :]
