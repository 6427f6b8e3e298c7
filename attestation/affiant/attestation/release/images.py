"""What each image consists of: the files that its programs can import.

An image is what a TD is launched with. Its digest is ``bld`` in records and ``supervisor`` in a session's manifest, and
SHA-384 over the same list is its MRTD. Commands, reports, exports and audits are in no image: a change of theirs moves
neither.

Only the standard library: the build of the package computes images with the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from affiant.attestation.release.boot import Image
from affiant.attestation.release.closure import import_graph, module_name, reachable
from affiant.attestation.release.measured_files import InstalledFileError

__all__ = ["PROGRAMS", "files_of_images"]

PROGRAMS: Final[Mapping[Image, tuple[str, ...]]] = MappingProxyType(
    {
        Image.GATEWAY: ("affiant.gateway.process.server", "affiant.attestation.release.start"),
        Image.SESSION: (
            "affiant.attestation.release.start",
            *("affiant.sandbox.processes.service_stage", "affiant.sandbox.processes.template"),
            "affiant.sandbox.supervisor.__main__",
            "affiant.secrets.broker.process",
            "affiant.sandbox.isolation.runner.runner",
        ),
    }
)
"""The programs that run in each image's TD."""


def files_of_images(sources: Mapping[str, Callable[[], bytes]]) -> Mapping[Image, tuple[str, ...]]:
    """The paths of each image among ``sources``, sorted. Every source is read once.

    Args:
        sources: every file of the package, by its path in the wheel, and what reads it.

    Raises:
        InstalledFileError: a program is not there, or a file is not Python.
    """
    modules = {module_name(path): path for path in sources if path.endswith(".py")}
    texts = {name: _text(sources[path], path) for name, path in modules.items()}
    try:
        graph = import_graph(texts, [program for programs in PROGRAMS.values() for program in programs])
    except KeyError as error:
        raise InstalledFileError("a program of an image is missing", found=str(error.args[0])) from error
    except SyntaxError as error:
        raise InstalledFileError("a file of an image is not Python", where=str(error.filename)) from error
    return {
        image: tuple(sorted(modules[name] for name in reachable(graph, PROGRAMS[image]))) for image in Image
    }


def _text(read: Callable[[], bytes], path: str) -> Callable[[], str]:
    def text() -> str:
        try:
            return read().decode("utf-8")
        except UnicodeDecodeError as error:
            raise InstalledFileError("a file of an image is not UTF-8", where=path) from error

    return text
