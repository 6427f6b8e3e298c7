"""A sandbox without asyncio: the same calls, carried out by an event loop in a thread of its own.

::

    with SandboxSync.create(profile="profiles.yaml", agent="code_implementer") as sandbox:
        print(sandbox.run(["uname"]).stdout)
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from affiant.sandbox.api.sandbox import Exited, Opening, Output, Sandbox
from affiant.sandbox.session.session import CommandResult, Metrics

__all__ = ["SandboxSync"]

_T = TypeVar("_T")


class SandboxSync:
    """A sandbox for the length of a ``with`` block; made by :meth:`create`. Not for several threads at once."""

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="affiant-sandbox", daemon=True)
        self._sandbox: Sandbox | None = None

    @classmethod
    def create(cls, **arguments: Any) -> SandboxSync:
        """As :meth:`Sandbox.create`."""
        return cls(Sandbox.create(**arguments))

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
        events = self._open.stream(argv, **arguments)
        try:
            while True:
                try:
                    yield self._wait(anext(events))  # type: ignore[arg-type]  # an async generator's step is a coroutine
                except StopAsyncIteration:
                    return
        finally:
            self._wait(events.aclose())  # type: ignore[attr-defined]  # it is an async generator

    def close(self) -> None:
        """As :meth:`Sandbox.close`."""
        self._wait(self._open.close())
