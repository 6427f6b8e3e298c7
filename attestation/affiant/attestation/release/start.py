"""Starts a measured program: from its first instruction it imports as ``affiant`` only what its image lists.

::

    python -I .../start.py --td-fd N      MODULE ARGUMENT...   the first program of a simulated TD
    python -I .../start.py --memory-fd N  MODULE ARGUMENT...   another program of the same image, started by that one
    python -I .../start.py --files IMAGE  MODULE ARGUMENT...   where the guest's file system is what was measured

With ``--td-fd`` the program's code comes from its TD: the simulated platform compiled it from the very bytes that it
measured into MRTD, and gives it as a sealed memory file (:mod:`~affiant.attestation.release.memory`). No file is
read, so none can change between measuring and running. With ``--files`` each module is read from the installation and
compared with the SHA-256 in the release manifest before it is compiled.

Everything else called ``affiant`` is an :class:`ImportError`, also where a file of that name lies beside the code. The
interpreter, its library, third-party packages and this loader are not measured on a development machine.

Run by its path, with the standard library alone: no module of ``affiant`` may come before the image.
"""

from __future__ import annotations

import array
import fcntl
import hashlib
import importlib.abc
import importlib.machinery
import json
import marshal
import os
import runpy
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, ModuleType
from typing import Final

__all__ = ["MeasuredImage", "NotMeasured", "image_digest_of", "main", "memory_of_td", "read_memory"]

_ROOT: Final = "affiant"
_PLACE: Final = "/measured/"
"""Where measured modules say that they are; no folder of this name is ever read."""
_SEALS: Final = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK
_MAX_REPLY: Final = 1 << 16
_MAX_MEMORY: Final = 1 << 26
_USAGE: Final = "usage: start.py (--td-fd N | --memory-fd N | --files IMAGE) MODULE ARGUMENT..."


class NotMeasured(ImportError):
    """A module that the image of this process does not list, or whose file is not the one that it lists."""


def image_digest_of(files: Sequence[tuple[str, str]]) -> str:
    """``sha256:<hex>`` of the RFC 8785 array of ``[path, sha256 hex]``, sorted by path. Paths are ASCII."""
    listed = json.dumps(sorted(files), separators=(",", ":"), ensure_ascii=True)
    return "sha256:" + hashlib.sha256(listed.encode("ascii")).hexdigest()


class MeasuredImage(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds and loads the modules of one image, and refuses every other one named ``affiant``.

    Args:
        name: ``gateway`` or ``session``.
        files: each path of the image, and the SHA-256 of that file.
        code: compiled code by path, or None where ``read`` gives the file's bytes.
        read: bytes of a listed path, which are compared with ``files``; None where the image is code alone.
        descriptor: the sealed memory file, for programs that this one starts; None without one.
    """

    def __init__(
        self,
        name: str,
        files: Mapping[str, str],
        *,
        code: Mapping[str, bytes] | None,
        read: Callable[[str], bytes] | None,
        descriptor: int | None,
    ) -> None:
        self.image_name = name
        self.image_digest = image_digest_of([(path, digest) for path, digest in files.items()])
        self.image_files = files
        self.memory_fd = descriptor
        self.start_path = os.path.abspath(__file__)
        self.code = code
        self._read = read

    def find_spec(
        self, fullname: str, path: object = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module's place in the image; None for names outside ``affiant``."""
        del path, target
        if fullname.partition(".")[0] != _ROOT:
            return None
        if fullname == _ROOT:  # a namespace package: it has no file, and no folder from which more could come
            spec = importlib.machinery.ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = []
            return spec
        place = self._path_of(fullname)
        package = place.endswith("/__init__.py")
        spec = importlib.machinery.ModuleSpec(fullname, self, origin=_PLACE + place, is_package=package)
        spec.has_location = True
        if package:
            spec.submodule_search_locations = []
        return spec

    def _path_of(self, fullname: str) -> str:
        stem = fullname.replace(".", "/")
        for place in (f"{stem}/__init__.py", f"{stem}.py"):
            if place in self.image_files:
                return place
        raise NotMeasured(
            f"{fullname} is not in the {self.image_name} image: a measured program imports only what its image lists",
            name=fullname,
        )

    def _bytes_of(self, place: str) -> bytes:
        if self._read is None:
            raise FileNotFoundError(f"{place} is in the image as code alone")
        data = self._read(place)
        if hashlib.sha256(data).hexdigest() != self.image_files[place]:
            raise NotMeasured(f"{place} differs from the file that the {self.image_name} image lists")
        return data

    def is_package(self, fullname: str) -> bool:
        """Whether it is a package of the image."""
        return fullname == _ROOT or self._path_of(fullname).endswith("/__init__.py")

    def get_code(self, fullname: str) -> CodeType:
        """The module's code.

        Raises:
            NotMeasured: not listed, or another file than the listed one.
        """
        place = self._path_of(fullname)
        if self.code is None:
            return compile(self._bytes_of(place), _PLACE + place, "exec", dont_inherit=True)
        code = marshal.loads(self.code[place])  # noqa: S302 - from the platform that measured it
        assert isinstance(code, CodeType)
        return code

    def get_source(self, fullname: str) -> str | None:
        """The source, where the image has it as a file to be read."""
        try:
            return self.get_data(self._path_of(fullname)).decode("utf-8")
        except OSError:
            return None

    def get_data(self, path: str) -> bytes:
        """The bytes of a file of the image (:func:`pkgutil.get_data`).

        Raises:
            OSError: no file of the image, or one whose code alone is in memory.
        """
        place = path.removeprefix(_PLACE)
        if place not in self.image_files:
            raise FileNotFoundError(f"{place} is not in the {self.image_name} image")
        return self._bytes_of(place)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code."""
        exec(self.get_code(module.__name__), module.__dict__)  # noqa: S102 - this is what a loader does


def read_memory(descriptor: int) -> MeasuredImage:
    """The image in a sealed memory file; the descriptor stays open, for programs that this one starts.

    Raises:
        ValueError: not sealed, too large, or no image.
    """
    if fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & _SEALS != _SEALS:
        raise ValueError("the memory of a TD is not sealed")
    size = os.fstat(descriptor).st_size
    if not 0 < size <= _MAX_MEMORY:
        raise ValueError(f"the memory of a TD has {size} bytes")
    match marshal.loads(os.pread(descriptor, size, 0)):  # noqa: S302 - from the platform that measured it
        case {"image": str() as name, "files": dict() as files, "code": dict() as code}:
            os.set_inheritable(descriptor, False)  # noqa: FBT003 - the os module's own signature
            return MeasuredImage(name, files, code=code, read=None, descriptor=descriptor)
        case _:
            raise ValueError("the memory of a TD holds no image")


def memory_of_td(descriptor: int) -> int:
    """Ask the TD behind ``descriptor`` for the memory that it was launched with; a descriptor of it.

    Raises:
        ValueError: it gave none. OSError: the platform is gone.
    """
    with socket.socket(fileno=os.dup(descriptor)) as td:
        td.settimeout(30)
        td.send(b'{"id":"start","op":"memory"}')
        reply, ancillary, _, _ = td.recvmsg(_MAX_REPLY, socket.CMSG_LEN(4), socket.MSG_CMSG_CLOEXEC)
    got = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            got.frombytes(data[: len(data) - len(data) % got.itemsize])
    if len(got) != 1:
        refused = json.loads(reply or b"{}").get("refused") or {}
        raise ValueError(refused.get("message") or "the TD gave no memory")
    return got[0]


def _of_files(name: str) -> MeasuredImage:
    """The image ``name`` of the release manifest beside this code, read from the installation."""
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "..", "..", "release.json"), "rb") as file:
        release = json.load(file)
    digests = dict(release["files"])
    listed = {path: digests[path] for path in release["images"][name]["files"]}
    own = os.path.normpath(os.path.join(here, "..", "..", ".."))
    roots = [root for root in dict.fromkeys((own, *sys.path)) if os.path.isdir(os.path.join(root, _ROOT))]

    def read(place: str) -> bytes:
        for root in roots:
            path = os.path.join(root, place)
            if os.path.exists(path):
                with open(path, "rb") as file:
                    return file.read()
        raise FileNotFoundError(f"{place} is not installed")

    return MeasuredImage(name, listed, code=None, read=read, descriptor=None)


def main(arguments: Sequence[str]) -> None:
    """Install the image, then run the module that ``arguments`` name as ``python -m`` would."""
    if len(arguments) < 3:
        raise SystemExit(_USAGE)
    option, value, module, *rest = arguments
    if _ROOT in sys.modules:
        raise SystemExit("affiant: a module was imported before the image was there")
    try:
        if option == "--td-fd":
            image = read_memory(memory_of_td(int(value)))
        elif option == "--memory-fd":
            image = read_memory(int(value))
        elif option == "--files":
            image = _of_files(value)
        else:
            raise SystemExit(_USAGE)
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise SystemExit(f"affiant: the measured image cannot be loaded: {error} [release.image]") from error
    try:
        image.is_package(module)
    except NotMeasured as error:
        raise SystemExit(f"affiant: {error} [release.not_measured]") from error
    sys.meta_path.insert(0, image)
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
