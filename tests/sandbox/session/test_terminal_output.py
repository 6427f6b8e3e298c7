"""What a command writes on a terminal is all shown, and nobody waits for a command that was interrupted."""

from __future__ import annotations

import asyncio
import os
import pty
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from affiant.sandbox.session.terminal_output import safely_shown


@dataclass
class Terminal:
    """A terminal and what it was sent."""

    line: int
    seen: bytearray = field(default_factory=bytearray)
    reading: threading.Thread | None = None

    @property
    def text(self) -> bytes:
        """What it shows when everything that was written has arrived."""
        os.close(self.line)
        assert self.reading is not None
        self.reading.join(5)
        return bytes(self.seen).replace(b"\r\n", b"\n")


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    screen, line = pty.openpty()
    shown = Terminal(line)

    def read() -> None:
        try:
            while data := os.read(screen, 4096):
                shown.seen += data
                time.sleep(0.0002)  # slower than the writer
        except OSError:  # the last writer has closed it
            pass

    shown.reading = threading.Thread(target=read)
    shown.reading.start()
    yield shown
    shown.reading.join(5)
    os.close(screen)


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def test_a_terminal_that_is_not_blocking_shows_all_of_it(terminal: Terminal) -> None:
    os.set_blocking(terminal.line, False)
    data = b"".join(b"line %d\n" % number for number in range(20_000))

    async def run() -> None:
        async with safely_shown(terminal.line, raw=False) as (shown,):
            await asyncio.to_thread(write_all, shown, data)

    asyncio.run(asyncio.wait_for(run(), 30))
    assert terminal.text == data


@pytest.mark.parametrize(("raised", "within"), [(asyncio.CancelledError, 0.5), (OSError, 1.5)])
def test_a_writer_that_goes_on_is_not_waited_for_after_an_error(
    terminal: Terminal, raised: type[BaseException], within: float
) -> None:
    """As a supervisor that has the command's end still open, and closes it when the session is closed."""

    async def run() -> float:
        others = -1
        try:
            with pytest.raises(raised):
                async with safely_shown(terminal.line, raw=False) as (shown,):
                    others = os.dup(shown)
                    os.write(others, b"\x1b[31mbefore")
                    while b"before" not in terminal.seen:
                        await asyncio.sleep(0.01)
                    since = time.monotonic()
                    raise raised
            took = time.monotonic() - since
            with pytest.raises(BrokenPipeError):
                os.write(others, b"after")
        finally:
            os.close(others)
        return took

    took = asyncio.run(asyncio.wait_for(run(), 10))
    assert took < within
    assert terminal.text == b"\x1b[31mbefore\x1b[0m\n"
