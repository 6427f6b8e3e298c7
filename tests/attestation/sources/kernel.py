"""Trees that behave as the kernel's do: no file can be made or unlinked, one write is one call, errors are answers."""

from __future__ import annotations

import errno
import hashlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path("/sys/kernel/config/tsm/report")


def refuse(number: int) -> OSError:
    return OSError(number, os.strerror(number))


class FakeTSM:
    """configfs-tsm: drivers/virt/coco/guest/report.c as documented.

    Args:
        make: report data -> quote, what the quoting service gives.
    """

    def __init__(self, make: Callable[[bytes], bytes], *, provider: bytes = b"tdx_guest\n") -> None:
        self.make = make
        self.provider: bytes | None = provider
        self.lock = threading.Lock()
        self.directories: dict[Path, dict[str, object]] = {}
        self.made: list[Path] = []
        self.before_read: list[Callable[[Path], None]] = []
        """Called one by one before an outblob is read: where others come in between."""
        self.unlinks = 0

    def mkdir(self, path: Path) -> None:
        with self.lock:
            if path.parent != ROOT:
                raise refuse(errno.ENOENT)
            if self.provider is None:
                raise refuse(errno.ENXIO)
            if path in self.directories:
                raise refuse(errno.EEXIST)
            self.directories[path] = {"generation": 0, "inblob": None}
            self.made.append(path)

    def rmdir(self, path: Path) -> None:
        with self.lock:
            if path not in self.directories:
                raise refuse(errno.ENOENT)
            del self.directories[path]

    def write(self, path: Path, data: bytes) -> None:
        with self.lock:
            state = self._state(path)
            if path.name != "inblob":
                raise refuse(errno.EACCES)
            if not 0 < len(data) <= 64:
                raise refuse(errno.EINVAL)
            state["inblob"] = data
            state["generation"] = int(str(state["generation"])) + 1

    def read(self, path: Path, *, limit: int) -> bytes:
        with self.lock:
            state = self._state(path)
            content = self._read(path, state)
        if len(content) > limit:
            raise refuse(errno.EFBIG)
        return content

    def _read(self, path: Path, state: dict[str, object]) -> bytes:
        if path.name == "provider":
            return self.provider or b""
        if path.name == "generation":
            return b"%d\n" % int(str(state["generation"]))
        if path.name == "outblob":
            if self.before_read:
                self.before_read.pop(0)(path.parent)
            if state["inblob"] is None:
                raise refuse(errno.EINVAL)
            return self.make(bytes(state["inblob"]))  # type: ignore[call-overload, no-any-return]
        raise refuse(errno.EACCES if path.name == "inblob" else errno.ENOENT)

    def _state(self, path: Path) -> dict[str, object]:
        if path.parent not in self.directories:
            raise refuse(errno.ENOENT)
        return self.directories[path.parent]

    def other_writes(self, directory: Path, data: bytes) -> None:
        """Somebody else, who found the name; called while the lock is held."""
        state = self.directories[directory]
        state["inblob"] = data
        state["generation"] = int(str(state["generation"])) + 1


class FakeRTMRs:
    """tdx_guest/measurements: reads give 48 bytes, a write of exactly 48 extends, everything else is EINVAL."""

    def __init__(self, root: Path, *, slow_s: float = 0.0) -> None:
        self.root = root
        self.values = {f"rtmr{index}:sha384": bytes(48) for index in range(4)}
        self.lock = threading.Lock()
        self.errors: list[int] = []
        """Answers to the next writes; 0 lets one through."""
        self.slow_s = slow_s
        self.writes = 0

    def value(self, index: int = 3) -> bytes:
        return self.values[f"rtmr{index}:sha384"]

    def mkdir(self, path: Path) -> None:
        raise refuse(errno.EPERM)

    def rmdir(self, path: Path) -> None:
        raise refuse(errno.EPERM)

    def read(self, path: Path, *, limit: int) -> bytes:
        with self.lock:
            if path.parent != self.root or path.name not in self.values:
                raise refuse(errno.ENOENT)
            return self.values[path.name]

    def write(self, path: Path, data: bytes) -> None:
        time.sleep(self.slow_s)
        with self.lock:
            if path.parent != self.root or path.name not in self.values:
                raise refuse(errno.ENOENT)
            if self.errors and (number := self.errors.pop(0)):
                raise refuse(number)
            if len(data) != 48:
                raise refuse(errno.EINVAL)
            self.writes += 1
            self.values[path.name] = hashlib.sha384(self.values[path.name] + data).digest()
