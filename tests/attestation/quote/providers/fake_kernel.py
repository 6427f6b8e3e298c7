"""Trees that behave as the kernel's do: no file can be made or unlinked, one write is one call, errors are answers."""

from __future__ import annotations

import errno
import hashlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from affiant.attestation.statements.evidence_source import TDRegisters

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


GET_REPORT0 = 0xC4405401
"""As a C compiler gives it for _IOWR('T', 1, struct tdx_report_req)."""
DEVICE = Path("/dev/tdx_guest")
MEASUREMENTS = Path("/sys/devices/virtual/misc/tdx_guest/measurements")


def td_report(registers: TDRegisters, report_data: bytes, *, version: int = 0) -> bytes:
    """A TDREPORT, laid out by hand from the TDX module's ABI; its MAC is no MAC."""
    tee_tcb_info = b"\xff\x01\x03".ljust(8, b"\0") + b"\x05".ljust(16, b"\0") + b"\x11" * 48
    tee_tcb_info = tee_tcb_info.ljust(239, b"\0")
    td_info = b"".join(
        (
            registers.td_attributes,
            registers.xfam,
            registers.mrtd,
            registers.mrconfigid,
            registers.mrowner,
            registers.mrownerconfig,
            *registers.rtmrs,
            b"\x22" * 48 * version,
        )
    ).ljust(512, b"\0")
    return b"".join(
        (
            bytes((0x81, 0, version)).ljust(16, b"\0"),
            b"\x06" * 16,
            hashlib.sha384(tee_tcb_info).digest(),
            hashlib.sha384(td_info).digest(),
            report_data,
            bytes(32),
            b"\x33" * 32,
            tee_tcb_info,
            bytes(17),
            td_info,
        )
    )


class FakeTDX:
    """One TDX guest's kernel: configfs-tsm, the measurements' files and the device, all of the same TD.

    Its quotes are signed by ``make``: registers and report data -> quote.
    """

    def __init__(self, launched: TDRegisters, make: Callable[[TDRegisters, bytes], bytes]) -> None:
        self.launched = launched
        self.rtmrs = FakeRTMRs(MEASUREMENTS)
        for index, value in enumerate(launched.rtmrs):
            self.rtmrs.values[f"rtmr{index}:sha384"] = value
        self.tsm = FakeTSM(lambda report_data: make(self.registers(), report_data))
        self.files = {
            "mrtd:sha384": launched.mrtd,
            "mrconfigid": launched.mrconfigid,
            "mrowner": launched.mrowner,
            "mrownerconfig": launched.mrownerconfig,
        }
        """What sysfs shows of the launch; an older kernel has none of it."""
        self.report: Callable[[bytes], bytes] = lambda report_data: td_report(self.registers(), report_data)
        self.errors: list[int] = []
        """The device's next answers."""
        self.asked: list[bytes] = []
        self.after_report: list[Callable[[], None]] = []
        """Called one by one after a TDREPORT was made: where others come in between."""

    def registers(self) -> TDRegisters:
        """The TD's registers now."""
        now = (self.rtmrs.value(0), self.rtmrs.value(1), self.rtmrs.value(2), self.rtmrs.value(3))
        return replace(self.launched, rtmrs=now, td_id=None)

    def exchange(self, path: Path, request: int, data: bytearray) -> None:
        """ioctl: drivers/virt/coco/tdx-guest/tdx-guest.c as documented."""
        if path != DEVICE:
            raise refuse(errno.ENOENT)
        if request != GET_REPORT0:
            raise refuse(errno.ENOTTY)
        if self.errors and (number := self.errors.pop(0)):
            raise refuse(number)
        assert len(data) == 64 + 1024
        self.asked.append(bytes(data[:64]))
        data[64:] = self.report(bytes(data[:64]))
        if self.after_report:
            self.after_report.pop(0)()

    def mkdir(self, path: Path) -> None:
        self._tree(path).mkdir(path)

    def rmdir(self, path: Path) -> None:
        self._tree(path).rmdir(path)

    def read(self, path: Path, *, limit: int) -> bytes:
        if path.parent == MEASUREMENTS and path.name in self.files:
            return self.files[path.name]
        return self._tree(path).read(path, limit=limit)

    def write(self, path: Path, data: bytes) -> None:
        self._tree(path).write(path, data)

    def _tree(self, path: Path) -> FakeTSM | FakeRTMRs:
        return self.rtmrs if path.is_relative_to(MEASUREMENTS) else self.tsm
