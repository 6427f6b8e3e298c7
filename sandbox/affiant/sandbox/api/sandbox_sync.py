"""A sandbox without asyncio: the same calls, carried out by an event loop in a thread of its own.

::

    with SandboxSync.create(profile="profiles.yaml", agent="code_implementer") as sandbox:
        print(sandbox.run(["uname"]).stdout)
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar

from affiant.sandbox.api.sandbox import Exited, Opening, Output, Sandbox, Terminal
from affiant.sandbox.detached.client import KeptPiece
from affiant.sandbox.session.session import CommandResult, Metrics
from affiant.sandbox.session_acts.sandbox_files import FileChange, FileInfo, Listing, Moved, SandboxFiles
from affiant.sandbox.session_acts.sandbox_ports import OpenPort

__all__ = ["SandboxSync", "SyncFiles", "SyncTerminal"]

_T = TypeVar("_T")
_P = ParamSpec("_P")


class SyncFiles:
    """The files of a sandbox, without asyncio."""

    def __init__(self, files: SandboxFiles, wait: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._files = files
        self._wait = wait

    def read(self, path: str, **arguments: Any) -> bytes:
        """As :meth:`SandboxFiles.read`."""
        content: bytes = self._wait(self._files.read(path, **arguments))
        return content

    def read_text(self, path: str, **arguments: Any) -> str:
        """As :meth:`SandboxFiles.read_text`."""
        content: str = self._wait(self._files.read_text(path, **arguments))
        return content

    def write(self, path: str, content: bytes | str, **arguments: Any) -> Moved:
        """As :meth:`SandboxFiles.write`."""
        moved: Moved = self._wait(self._files.write(path, content, **arguments))
        return moved

    def list(self, path: str, **arguments: Any) -> Listing:
        """As :meth:`SandboxFiles.list`."""
        listing: Listing = self._wait(self._files.list(path, **arguments))
        return listing

    def stat(self, path: str) -> FileInfo:
        """As :meth:`SandboxFiles.stat`."""
        found: FileInfo = self._wait(self._files.stat(path))
        return found

    def remove(self, path: str, **arguments: Any) -> Moved:
        """As :meth:`SandboxFiles.remove`."""
        moved: Moved = self._wait(self._files.remove(path, **arguments))
        return moved

    def upload(self, local: Path | str, path: str, **arguments: Any) -> Moved:
        """As :meth:`SandboxFiles.upload`."""
        moved: Moved = self._wait(self._files.upload(local, path, **arguments))
        return moved

    def download(self, path: str, local: Path | str, **arguments: Any) -> Moved:
        """As :meth:`SandboxFiles.download`."""
        moved: Moved = self._wait(self._files.download(path, local, **arguments))
        return moved

    def watch(self, path: str, **arguments: Any) -> Iterator[FileChange]:
        """As :meth:`SandboxFiles.watch`."""
        return _iterated(self._files.watch(path, **arguments), self._wait)


class SyncTerminal:
    """A command on a terminal of its own, without asyncio; made by :meth:`SandboxSync.pty` only."""

    def __init__(self, terminal: Terminal, wait: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._terminal = terminal
        self._wait = wait

    def read(self) -> bytes:
        """As :meth:`Terminal.read`."""
        shown: bytes = self._wait(self._terminal.read())
        return shown

    def write(self, data: bytes, *, timeout: float | None = None) -> None:
        """As :meth:`Terminal.write`."""
        self._wait(self._terminal.write(data, timeout=timeout))

    def resize(self, rows: int, columns: int) -> None:
        """As :meth:`Terminal.resize`."""
        self._wait(self._terminal.resize(rows, columns))

    def signal(self, number: int) -> None:
        """As :meth:`Terminal.signal`."""
        self._wait(self._terminal.signal(number))

    def wait(self, timeout: float | None = None) -> CommandResult:
        """As :meth:`Terminal.wait`."""
        result: CommandResult = self._wait(self._terminal.wait(timeout))
        return result


def _opened_by(opening: Callable[_P, Opening]) -> Callable[_P, SandboxSync]:
    """``Sandbox.create`` and ``connect``, with their own arguments, for :class:`SandboxSync`."""

    @wraps(opening)
    def made(*arguments: _P.args, **named: _P.kwargs) -> SandboxSync:
        return SandboxSync(opening(*arguments, **named))

    return made


def _iterated(events: AsyncIterator[_T], wait: Callable[[Coroutine[Any, Any, Any]], Any]) -> Iterator[_T]:
    try:
        while True:
            try:
                yield wait(anext(events))  # type: ignore[arg-type]  # an async generator's step is a coroutine
            except StopAsyncIteration:
                return
    finally:
        wait(events.aclose())  # type: ignore[attr-defined]  # it is an async generator


class SandboxSync:
    """A sandbox for the length of a ``with`` block; made by :meth:`create` and :meth:`connect`, whose arguments are
    those of :class:`Sandbox`. Not for several threads at once."""

    create = staticmethod(_opened_by(Sandbox.create))
    connect = staticmethod(_opened_by(Sandbox.connect))

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="affiant-sandbox", daemon=True)
        self._sandbox: Sandbox | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._sandbox = self._wait(self._opening.__aenter__())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *why: object) -> bool | None:
        try:
            return self._wait(self._opening.__aexit__(*why))
        finally:
            self._stop()

    def _wait(self, work: Coroutine[Any, Any, _T]) -> _T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def _open(self) -> Sandbox:
        assert self._sandbox is not None, "use it in a with block"
        return self._sandbox

    @property
    def id(self) -> str:
        """As :attr:`Sandbox.id`."""
        return self._open.id

    @property
    def bundle_path(self) -> Path:
        """As :attr:`Sandbox.bundle_path`."""
        return self._open.bundle_path

    @property
    def files(self) -> SyncFiles:
        """As :attr:`Sandbox.files`."""
        return SyncFiles(self._open.files, self._wait)

    @contextmanager
    def port(self, number: int, **arguments: Any) -> Iterator[OpenPort]:
        """As :meth:`Sandbox.port`."""
        with self._entered(self._open.port(number, **arguments)) as port:
            yield port

    @contextmanager
    def pty(self, argv: Sequence[str] = ("/bin/sh",), **arguments: Any) -> Iterator[SyncTerminal]:
        """As :meth:`Sandbox.pty`."""
        with self._entered(self._open.pty(argv, **arguments)) as terminal:
            yield SyncTerminal(terminal, self._wait)

    @contextmanager
    def _entered(self, opening: AbstractAsyncContextManager[_T]) -> Iterator[_T]:
        entered = self._wait(opening.__aenter__())
        try:
            yield entered
        finally:
            self._wait(opening.__aexit__(None, None, None))

    def info(self) -> Mapping[str, object]:
        """As :meth:`Sandbox.info`."""
        return self._open.info()

    def metrics(self) -> Metrics:
        """As :meth:`Sandbox.metrics`."""
        return self._wait(self._open.metrics())

    def run(self, argv: Sequence[str], **arguments: Any) -> CommandResult:
        """As :meth:`Sandbox.run`."""
        return self._wait(self._open.run(argv, **arguments))

    def stream(self, argv: Sequence[str], **arguments: Any) -> Iterator[Output | Exited]:
        """As :meth:`Sandbox.stream`."""
        return _iterated(self._open.stream(argv, **arguments), self._wait)

    def detach(self, argv: Sequence[str], **arguments: Any) -> int:
        """As :meth:`Sandbox.detach`."""
        return self._wait(self._open.detach(argv, **arguments))

    def kept(self, number: int, at: tuple[int, int] = (0, 0), *, wait: bool = False) -> KeptPiece:
        """As :meth:`Sandbox.kept`."""
        return self._wait(self._open.kept(number, at, wait=wait))

    def signal(self, number: int, sent: int) -> None:
        """As :meth:`Sandbox.signal`."""
        self._wait(self._open.signal(number, sent))

    def status(self) -> Mapping[str, object]:
        """As :meth:`Sandbox.status`."""
        return self._wait(self._open.status())

    def close(self) -> None:
        """As :meth:`Sandbox.close`."""
        self._wait(self._open.close())
