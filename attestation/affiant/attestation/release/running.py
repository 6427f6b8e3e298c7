"""How a measured program starts another program of its image, and which image this process runs.

A measured program was started by :mod:`~affiant.attestation.release.start`, which is then in
``sys.meta_path``. Any other process (a test, a command) runs the installed files.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Protocol, runtime_checkable

from affiant.attestation.release.boot import Image

__all__ = ["MeasuredProcess", "first_program", "measured_process", "memory_descriptors", "program_command"]


@runtime_checkable
class MeasuredProcess(Protocol):
    """What the loader of a measured program tells of itself."""

    image_name: str
    image_digest: str
    memory_fd: int | None
    start_path: str


def measured_process() -> MeasuredProcess | None:
    """What loads this process's modules, if it is measured."""
    return next((finder for finder in sys.meta_path if isinstance(finder, MeasuredProcess)), None)


def program_command(module: str) -> tuple[str, ...]:
    """The beginning of an argument list that runs ``module`` isolated, in this process's image if it has one.

    A measured program starts programs of its own image: what it could not import itself, they cannot either. They must
    inherit :func:`memory_descriptors`.
    """
    measured = measured_process()
    if measured is None:
        return (sys.executable, "-I", "-m", module)
    started = (sys.executable, "-I", measured.start_path)
    if measured.memory_fd is None:
        return (*started, "--files", measured.image_name, module)
    return (*started, "--memory-fd", str(measured.memory_fd), module)


def memory_descriptors() -> tuple[int, ...]:
    """The descriptors that a program started by :func:`program_command` must inherit beside its own."""
    measured = measured_process()
    return () if measured is None or measured.memory_fd is None else (measured.memory_fd,)


def first_program(image: Image, td: int | None) -> tuple[str, ...]:
    """The beginning of the argument list of a TD's first program: a module of ``image`` follows.

    Args:
        td: the descriptor of a simulated TD, which the program inherits under this number. None: the program runs in
            this machine's own TD, whose file system is what was measured.
    """
    source = ("--files", image.value) if td is None else ("--td-fd", str(td))
    return (sys.executable, "-I", str(Path(__file__).with_name("start.py")), *source)
