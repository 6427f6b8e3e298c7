"""Ends what a killed launcher left behind. What a dead *runner* left, the kernel has already ended, but a memory
cgroup and the overlays' empty directories.

The next command calls :func:`reap_leftovers`. A runner whose owner is gone is killed; its namespaces, mounts,
interfaces and processes end with it (see :mod:`enclosure`). Sessions that live are not touched.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from affiant.sandbox.isolation.backends.enclosure import remove_memory_group
from affiant.sandbox.isolation.backends.mounts import remove_overlays
from affiant.sandbox.isolation.plan.leftover_record import (
    ProcessName,
    RunnerRecord,
    read_record,
    remove_record,
)

__all__ = ["reap_leftovers"]

_PATIENCE_SECONDS: Final = 5.0
_STEP_SECONDS: Final = 0.01


def reap_leftovers(sessions_dir: Path) -> tuple[str, ...]:
    """Clean every session's folder below ``sessions_dir`` whose owner is gone; return their names.

    Returns within 5 seconds for each leftover; normally at once.
    """
    reaped = []
    if not sessions_dir.is_dir():
        return ()
    for session_dir in sorted(sessions_dir.iterdir()):
        record = read_record(session_dir)
        if record is not None and not _in_use(record):
            for process in (record.runner, record.init):
                if process is not None and process.kill():
                    _wait_until_gone(process)
            if record.memory is not None:
                remove_memory_group(record.memory)
            remove_overlays(session_dir, at=None)
            remove_record(session_dir)
            reaped.append(session_dir.name)
    return tuple(reaped)


def _in_use(record: RunnerRecord) -> bool:
    return record.owner.alive() and record.runner.alive()


def _wait_until_gone(process: ProcessName) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while process.alive() and time.monotonic() < deadline:
        time.sleep(_STEP_SECONDS)
