"""The processes that verify: as many as there is work and cores for, and the results in the order of the work.

Workers get what they need once, when they begin: the archive's path, the trust file's bytes, the instant. They ignore
Ctrl-C; whoever asked ends them.
"""

from __future__ import annotations

import gc
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, Final, Protocol, TypeVar

from affiant.errors import StateError

__all__ = ["WorkerPool", "worker_pool"]

_T = TypeVar("_T")
_R = TypeVar("_R")
_AHEAD: Final = 2
"""Pieces of work that wait for each process."""

_COLLECTED: Final = 100_000
"""Objects that are made before cycles are looked for: records are some forty each, and none is part of a cycle."""


class WorkerLost(StateError):
    """A process of the verifier ended before its work was done: nothing is said about the bundle."""

    code = "verifier.worker"


class WorkerPool(Protocol):
    """Does one kind of work after another, each over many pieces."""

    def map(self, work: Callable[[_T], _R], pieces: Iterable[_T]) -> Iterator[_R]:
        """``work`` over ``pieces``, in their order; a few pieces ahead of whoever takes the results."""
        ...

    def here(self, work: Callable[[_T], _R], piece: _T) -> _R:
        """``work`` over what cannot be handed to another process, in this one."""
        ...


class _Alone:
    def map(self, work: Callable[[_T], _R], pieces: Iterable[_T]) -> Iterator[_R]:
        return map(work, pieces)

    def here(self, work: Callable[[_T], _R], piece: _T) -> _R:
        return work(piece)


class _Many:
    def __init__(self, executor: ProcessPoolExecutor, processes: int, begin: Callable[[], None]) -> None:
        self._executor, self._ahead = executor, processes * _AHEAD
        self._begin: Callable[[], None] | None = begin

    def here(self, work: Callable[[_T], _R], piece: _T) -> _R:
        if self._begin is not None:
            self._begin()
            self._begin = None
        return work(piece)

    def map(self, work: Callable[[_T], _R], pieces: Iterable[_T]) -> Iterator[_R]:
        waiting: deque[Future[_R]] = deque()
        try:
            for piece in pieces:
                waiting.append(self._executor.submit(work, piece))
                if len(waiting) > self._ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            raise WorkerLost(
                "a process of the verifier was ended", hint="Was there enough memory? Try again."
            ) from error


@contextmanager
def worker_pool(
    begin: Callable[..., None], arguments: tuple[Any, ...], *, processes: int
) -> Iterator[WorkerPool]:
    """A pool of ``processes``; with one, the work is done here. ``begin`` is called with ``arguments`` in each."""
    if processes <= 1:
        begin(*arguments)
        yield _Alone()
        return
    executor = ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=_begin, initargs=(begin, arguments)
    )
    try:
        yield _Many(executor, processes, lambda: begin(*arguments))
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _begin(begin: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    begin(*arguments)
    gc.freeze()
    gc.set_threshold(_COLLECTED)
