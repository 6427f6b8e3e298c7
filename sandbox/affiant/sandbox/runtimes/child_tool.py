"""Runs pip and npm: their lines as progress, their last lines for the error, and nothing of them left behind."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Ended", "Progress", "ended_on_sigterm", "run_tool"]

Progress = Callable[[str], None]
"""Called with each line that the tool writes."""

_KEPT_LINES: Final = 400
_GRACE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How the tool ended, and its last lines."""

    exit_code: int
    lines: tuple[str, ...]


def run_tool(
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    cwd: Path,
    lock: int,
    progress: Progress,
) -> Ended:
    """Run ``arguments`` to their end; an exception in here, Ctrl-C too, ends all processes of the tool first.

    Args:
        lock: a descriptor that the tool holds open: as long as it runs, no other build takes the folder.
    """
    kept: deque[str] = deque(maxlen=_KEPT_LINES)
    with subprocess.Popen(
        arguments,
        env=environment,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        pass_fds=(lock,),
        text=True,
        encoding="utf-8",
        errors="replace",
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                kept.append(line.rstrip())
                progress(line.rstrip())
            code = process.wait()
        except BaseException:
            _end(process)
            raise
    return Ended(code, tuple(kept))


def _end(process: subprocess.Popen[str]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)


@contextmanager
def ended_on_sigterm() -> Iterator[None]:
    """Have SIGTERM end this process as Ctrl-C does: by an exception, with everything undone."""

    def leave(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
