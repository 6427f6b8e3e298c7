"""Where a command's output goes: to the user's descriptor itself, or through :mod:`.terminal_text` to a terminal.

The sandbox never has the terminal. Of what it writes, the supervisor passes on what was redacted and hashed; here, in
the launcher, that becomes safe to be shown. Redirected output is passed on byte for byte.
"""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from affiant.sandbox.base.threads import abandonable
from affiant.sandbox.session.terminal_text import TerminalLine, TerminalText

__all__ = ["safely_shown"]

_PIECE: Final = 64 * 1024


@asynccontextmanager
async def safely_shown(*descriptors: int, raw: bool) -> AsyncIterator[Sequence[int]]:
    """Descriptors for the command's outputs, for the length of the block; at its end everything has been shown.

    Args:
        descriptors: the user's; they stay the caller's. raw: pass on to a terminal what comes, too.
    """
    line, shown, pipes = _Line(), list(descriptors), []
    for number, descriptor in enumerate(descriptors):
        if not raw and os.isatty(descriptor):
            reading, shown[number] = os.pipe2(os.O_CLOEXEC)
            showing = threading.Thread(target=_show, args=(reading, descriptor, line), daemon=True)
            showing.start()
            pipes.append((shown[number], descriptor, showing))
    try:
        yield shown
    finally:
        for writing, _, _ in pipes:
            os.close(writing)  # the supervisor has closed its own by now, or is gone
        for _, _, showing in pipes:
            await abandonable(showing.join)
        if pipes:
            with suppress(OSError):
                _write(pipes[-1][1], line.text.end())


@dataclass(frozen=True, slots=True)
class _Line:
    """The line that the terminal shows; written by one thread at a time."""

    text: TerminalLine = field(default_factory=TerminalLine)
    writing: threading.Lock = field(default_factory=threading.Lock)


def _show(reading: int, terminal: int, line: _Line) -> None:
    """Show what comes until all writers have closed; one who does not read any more ends it, and they are told."""
    text = TerminalText(line.text)
    try:
        with suppress(OSError):
            while data := os.read(reading, _PIECE):
                with line.writing:
                    _write(terminal, text.feed(data))
            with line.writing:
                _write(terminal, text.flush())
    finally:
        os.close(reading)


def _write(terminal: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(terminal, view) :]
