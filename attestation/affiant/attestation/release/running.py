"""Which image this process runs, and how it starts another program of the same image.

A measured program was started by :mod:`~affiant.attestation.release.start`, which is then in
``sys.meta_path``. Any other process (a test, a command) runs the installed files, and names what the release
manifest says of them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Protocol, runtime_checkable

from affiant.attestation.release.boot import Image
from affiant.attestation.release.manifest import load_release

__all__ = ["first_program", "image_digest", "memory_descriptors", "program_command"]


@runtime_checkable
class _Measured(Protocol):
    """What the loader of a measured program tells of itself."""

    image_name: str
    image_digest: str
    memory_fd: int | None
    start_path: str


def _measured() -> _Measured | None:
    return next((finder for finder in sys.meta_path if isinstance(finder, _Measured)), None)


def image_digest(image: Image) -> str:
    """``sha256:<hex>`` of the files of ``image``: the ``bld`` of records, and a session manifest's ``supervisor``.

    Raises:
        ReleaseMissingError, ReleaseMalformedError: this process is not measured, and there is no manifest.
    """
    measured = _measured()
    if measured is not None and measured.image_name == image.value:
        return measured.image_digest
    return load_release().images[image].digest


def program_command(module: str) -> tuple[str, ...]:
    """The beginning of an argument list that runs ``module`` isolated, in this process's image if it has one.

    A measured program starts programs of its own image: what it could not import itself, they cannot either. They must
    inherit :func:`memory_descriptors`.
    """
    measured = _measured()
    if measured is None:
        return (sys.executable, "-I", "-m", module)
    started = (sys.executable, "-I", measured.start_path)
    if measured.memory_fd is None:
        return (*started, "--files", measured.image_name, module)
    return (*started, "--memory-fd", str(measured.memory_fd), module)


def memory_descriptors() -> tuple[int, ...]:
    """The descriptors that a program started by :func:`program_command` must inherit beside its own."""
    measured = _measured()
    return () if measured is None or measured.memory_fd is None else (measured.memory_fd,)


def first_program(td: int) -> tuple[str, ...]:
    """The beginning of the argument list of a TD's first program: a module of the TD's image follows.

    Args:
        td: the descriptor of a simulated TD, which the program inherits under this number.
    """
    return (sys.executable, "-I", str(Path(__file__).with_name("start.py")), "--td-fd", str(td))
