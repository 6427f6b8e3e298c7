"""Where a command's output goes: to the user's descriptor itself, or through :mod:`.terminal_text` to a terminal.

The sandbox never has the terminal. Of what it writes, the supervisor passes on what was redacted and hashed; here, in
the launcher, that becomes safe to be shown. Redirected output is passed on byte for byte.
"""

from __future__ import annotations

import asyncio
import os
import select
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from affiant.sandbox.base.threads import abandonable
from affiant.sandbox.session.terminal_text import TerminalLine, TerminalText
from affiant.sandbox.supervisor.launch.user_streams import POLL_MS, UserOutput

__all__ = ["safely_shown"]

_PIECE: Final = 64 * 1024
_REST_S: Final = 0.5
"""So long after an error the rest of the output is shown; the supervisor may not have closed its ends."""


@asynccontextmanager
async def safely_shown(*descriptors: int, raw: bool) -> AsyncIterator[Sequence[int]]:
    """Descriptors for the command's outputs, for the length of the block; at its end everything has been shown.

    A block that is cancelled shows no more, because the command may still write.

    Args:
        descriptors: the user's; they stay the caller's. raw: pass on to a terminal what comes, too.
    """
    line, shown, pipes = _Line(), list(descriptors), []
    for number, descriptor in enumerate(descriptors):
        if not raw and os.isatty(descriptor):
            reading, shown[number] = os.pipe2(os.O_CLOEXEC)
            showing = threading.Thread(
                target=_show, args=(reading, UserOutput(descriptor), line), daemon=True
            )
            showing.start()
            pipes.append((shown[number], descriptor, showing))
    rest_s: float | None = _REST_S
    try:
        yield shown
        rest_s = None
    except asyncio.CancelledError:
        rest_s = 0
        raise
    finally:
        for writing, _, _ in pipes:
            os.close(writing)  # the supervisor has closed its own by now, is gone, or will be
        with suppress(TimeoutError):
            async with asyncio.timeout(rest_s):
                await _until_shown(pipes)
        line.over.set()
        await _until_shown(pipes)
        if pipes:
            await _end_line(pipes[-1][1], line, within_s=None if rest_s is None else _REST_S)


async def _until_shown(pipes: Sequence[tuple[int, int, threading.Thread]]) -> None:
    for _, _, showing in pipes:
        await abandonable(showing.join)


async def _end_line(terminal: int, line: _Line, *, within_s: float | None) -> None:
    """Have what follows begin a line. A terminal that was stopped (Ctrl-S) is waited for, but not after an error."""
    late = threading.Event()
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await abandonable(lambda: UserOutput(terminal).write(line.text.end(), late))
    late.set()


@dataclass(frozen=True, slots=True)
class _Line:
    """The line that the terminal shows; written by one thread at a time."""

    text: TerminalLine = field(default_factory=TerminalLine)
    writing: threading.Lock = field(default_factory=threading.Lock)
    over: threading.Event = field(default_factory=threading.Event)
    """Set when nothing more is shown."""


def _show(reading: int, terminal: UserOutput, line: _Line) -> None:
    """Show what comes until all writers have closed, or it is over. A terminal that is gone is an error of theirs."""
    text = TerminalText(line.text)
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    try:
        while not (line.over.is_set() or terminal.gone):
            if not poll.poll(POLL_MS):
                continue
            data = os.read(reading, _PIECE)
            with line.writing:
                terminal.write(text.feed(data) if data else text.flush(), line.over)
            if not data:
                return
    finally:
        os.close(reading)
