"""What a detached command writes, kept in the state folder: the last bytes of each stream, in bounded files.

``output/SESSION/N.stdout``, ``N.stderr`` and, once the command has ended, ``N.json``. The folder is not inside the
session's own, which belongs to the supervisor's user while the session runs. The files stay when the session has ended,
until `affiant session prune` or `rm`.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affiant.errors import StateError
from affiant.sandbox.processes.home import Home, write_file

__all__ = [
    "KEPT_BYTES",
    "MOST_KEPT",
    "CommandOutput",
    "KeptStream",
    "incomplete",
    "output_folder",
    "read_kept",
    "remove_output",
]

KEPT_BYTES: Final = 4 << 20
"""Bytes of a stream that are kept at least, if it has as many; the oldest go when there are twice as many."""
MOST_KEPT: Final = 32
"""Commands of a session whose output is kept; that of the first to have ended goes."""
_PIECE: Final = 64 * 1024
_REST_S: Final = 5.0
"""Seconds after a command has ended for the rest of what it wrote; a process in its background may write on."""
_STREAMS: Final = ("stdout", "stderr")


def output_folder(home: Home, session: str) -> Path:
    """Where the output of a session's detached commands is."""
    return home.path / "output" / session


def remove_output(home: Home, session: str) -> int:
    """Remove what is kept of a session; how many bytes that were."""
    folder = output_folder(home, session)
    freed = sum(path.lstat().st_size for path in folder.iterdir()) if folder.is_dir() else 0
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
    return freed


class KeptStream:
    """The end of one stream.

    Args:
        path: its file, which must not exist. most: bytes that are kept at least.
    """

    def __init__(self, path: Path, *, most: int = KEPT_BYTES) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o600)
        self._most = most
        self._size = 0
        self.dropped = 0
        """Bytes before the first that is kept."""

    @property
    def end(self) -> int:
        """How many bytes there were in all."""
        return self.dropped + self._size

    def add(self, data: bytes) -> None:
        """Keep ``data`` too.

        Raises:
            OSError: it cannot be written; what was kept stays.
        """
        rest = memoryview(data)
        while rest:
            written = os.pwrite(self._descriptor, rest, self._size)
            self._size += written
            rest = rest[written:]
        if self._size > 2 * self._most:
            end = os.pread(self._descriptor, self._most, self._size - self._most)
            os.pwrite(self._descriptor, end, 0)
            os.ftruncate(self._descriptor, len(end))
            self.dropped += self._size - len(end)
            self._size = len(end)

    def read(self, at: int, size: int) -> tuple[int, bytes]:
        """At most ``size`` bytes from position ``at`` on, or from the first one that is kept; and the position after
        them."""
        begin = max(at - self.dropped, 0)
        data = os.pread(self._descriptor, size, begin) if begin < self._size else b""
        return self.dropped + begin + len(data), data

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class CommandOutput:
    """Both streams of one detached command, from the pipes that it writes to.

    Args:
        folder: where the files are. number: the command's.

    Raises:
        OSError: a file cannot be made; none is left.
    """

    def __init__(self, folder: Path, number: int) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self.number = number
        self._streams: dict[str, KeptStream] = {}
        self._changed = asyncio.Event()
        self._copies: set[asyncio.Task[None]] = set()
        self.failed: str | None = None
        """Why no more is kept."""
        self.ended = False
        try:
            for name in _STREAMS:
                self._streams[name] = KeptStream(folder / f"{number}.{name}")
        except OSError:
            self.remove()
            raise

    def pipe(self, name: str) -> int:
        """A descriptor to write to, which the caller closes. What is written is kept as ``stdout`` or ``stderr``.

        Raises:
            OSError: there is none.
        """
        reading, writing = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(reading, False)
        task = asyncio.create_task(self._copy(reading, self._streams[name]))
        task.add_done_callback(lambda _: os.close(reading))
        self._copies.add(task)
        return writing

    def say(self, text: str) -> None:
        """Keep a line of ours among the command's errors."""
        self._keep(self._streams["stderr"], f"affiant: {text}\n".encode())

    def missing(self, at: Mapping[str, int]) -> int:
        """Bytes after ``at`` that are not kept any more."""
        return sum(max(stream.dropped - at.get(name, 0), 0) for name, stream in self._streams.items())

    def read(self, at: Mapping[str, int], size: int) -> dict[str, tuple[int, bytes]]:
        """As :meth:`KeptStream.read`, of both streams."""
        return {name: stream.read(at.get(name, 0), size) for name, stream in self._streams.items()}

    def ends(self) -> dict[str, int]:
        """How many bytes each stream has had until now."""
        return {name: stream.end for name, stream in self._streams.items()}

    async def more(self, at: Mapping[str, int], *, within_s: float) -> None:
        """Return when there is more than ``at``, or the command has ended; at the latest after ``within_s``."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while not self.ended and all(at.get(n, 0) >= s.end for n, s in self._streams.items()):
                    self._changed.clear()
                    await self._changed.wait()

    async def end(self, facts: Mapping[str, object]) -> None:
        """The command has ended: keep the rest of what it wrote, and note ``facts``."""
        if self._copies:
            await asyncio.wait(self._copies, timeout=_REST_S)
        for copy in self._copies:
            copy.cancel()
        dropped = {name: stream.dropped for name, stream in self._streams.items()}
        with suppress(OSError):  # it is for a person's convenience; receipts are elsewhere
            text = json.dumps({**facts, "dropped": dropped, "failed": self.failed})
            write_file(self._folder / f"{self.number}.json", text.encode("ascii"))
        self.ended = True
        self._changed.set()

    def close(self) -> None:
        """Close the files, which stay."""
        for copy in self._copies:
            copy.cancel()
        for stream in self._streams.values():
            stream.close()

    def remove(self) -> None:
        """Remove the files."""
        self.close()
        for name in (*_STREAMS, "json"):
            (self._folder / f"{self.number}.{name}").unlink(missing_ok=True)

    async def _copy(self, reading: int, stream: KeptStream) -> None:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(reading, ready.set)
        try:
            while True:
                try:
                    data = os.read(reading, _PIECE)
                except BlockingIOError:
                    ready.clear()
                    await ready.wait()
                    continue
                if not data:
                    return
                self._keep(stream, data)
                await asyncio.sleep(0)  # a command that never pauses leaves the others their turn
        finally:
            loop.remove_reader(reading)

    def _keep(self, stream: KeptStream, data: bytes) -> None:
        """Keep it; on a full disk the command goes on, and the log says that it is not whole."""
        if self.failed is None:
            try:
                stream.add(data)
            except OSError as error:
                self.failed = str(error.strerror)
        self._changed.set()


def incomplete(missing: int, failed: str | None) -> str | None:
    """What a reader of kept output must hear: that it is not all; None: it is."""
    if failed is not None:
        return f"the rest of the output is not kept: {failed}"
    return (
        f"{missing} bytes of the output are not kept; the last {KEPT_BYTES >> 20} MiB are"
        if missing
        else None
    )


@dataclass(frozen=True, slots=True)
class Kept:
    """The kept output of a command whose session has ended."""

    stdout: bytes
    stderr: bytes
    facts: Mapping[str, object] | None
    """Exit code and more; None: the session host was killed before the command had ended."""

    @property
    def incomplete(self) -> str | None:
        """As :func:`incomplete`."""
        if self.facts is None:
            return "the session host was killed: the output may go on"
        dropped, failed = self.facts.get("dropped"), self.facts.get("failed")
        counts = (
            [each for each in dropped.values() if isinstance(each, int)] if isinstance(dropped, dict) else []
        )
        return incomplete(sum(counts), failed if isinstance(failed, str) else None)


def read_kept(home: Home, session: str, number: int) -> Kept:
    """What is kept of command ``number``.

    Raises:
        ``session.no_output``: nothing is.
    """
    folder = output_folder(home, session)
    try:
        stdout, stderr = ((folder / f"{number}.{name}").read_bytes() for name in _STREAMS)
    except OSError as error:
        raise no_output(number) from error
    try:
        facts = json.loads((folder / f"{number}.json").read_bytes())
    except OSError:
        facts = None
    return Kept(stdout, stderr, facts)


def no_output(number: int) -> StateError:
    """The error of a command whose output is not kept."""
    return StateError(
        "affiant keeps no output of this command",
        found=number,
        hint="Output is kept of commands that were started with --detach: affiant session exec --detach",
        code="session.no_output",
    )
