"""Asks the TDX guest device, ``/dev/tdx_guest``, for a TDREPORT of this TD. Not yet run on TDX hardware.

Source: Linux, include/uapi/linux/tdx-guest.h, and include/uapi/asm-generic/ioctl.h for the request's number::

    TDX_CMD_GET_REPORT0 = _IOWR('T', 1, struct tdx_report_req)      64 bytes of report data in, 1024 of TDREPORT out

Quotes are not offered here (from Linux 6.7 on they come by configfs-tsm), and a TDREPORT is no quote.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Final, Protocol

from affiant.attestation.quote.providers.base.checked_quote import REPORT_DATA_SIZE, check_report_data
from affiant.attestation.quote.providers.base.errors import (
    ProviderAbsent,
    ProviderBusy,
    ProviderDenied,
    ResponseRefused,
)
from affiant.attestation.quote.providers.kernel.local_td_report import (
    TDREPORT_SIZE,
    LocalTDReport,
    parse_local_td_report,
)

__all__ = ["GET_REPORT0", "TDX_DEVICE", "DeviceCalls", "OSDeviceCalls", "TDXDevice"]

TDX_DEVICE: Final = Path("/dev/tdx_guest")
_READ_AND_WRITE: Final = 3
_REQUEST_SIZE: Final = REPORT_DATA_SIZE + TDREPORT_SIZE
GET_REPORT0: Final = _READ_AND_WRITE << 30 | _REQUEST_SIZE << 16 | ord("T") << 8 | 1
"""``_IOWR``: direction in bits 30 and 31, size of the struct from 16, type from 8, number from 0; 0xc4405401."""
_ATTEMPTS: Final = 3
_RACED: Final = (errno.EBUSY, errno.EINTR, errno.EAGAIN)
_ABSENT: Final = (errno.ENOENT, errno.ENXIO, errno.ENODEV, errno.ENOTDIR, errno.ENOTTY)
_DENIED: Final = (errno.EACCES, errno.EPERM, errno.EROFS)


class DeviceCalls(Protocol):
    """The one call that a device is used by, so that a fake with the kernel's rules can be in its place."""

    def exchange(self, path: Path, request: int, data: bytearray) -> None:
        """``ioctl(2)`` on the device at ``path``; the kernel reads and writes ``data`` in place.

        Raises:
            OSError: with the kernel's ``errno``.
        """
        ...


class OSDeviceCalls:
    """The running kernel's."""

    def exchange(self, path: Path, request: int, data: bytearray) -> None:
        """See :class:`DeviceCalls`."""
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.ioctl(descriptor, request, data)
        finally:
            os.close(descriptor)


class TDXDevice:
    """The device of the TD that this program runs in.

    Args:
        path: the device.
        calls: how it is reached.
    """

    def __init__(self, path: Path = TDX_DEVICE, *, calls: DeviceCalls | None = None) -> None:
        self._path = path
        self._calls = OSDeviceCalls() if calls is None else calls

    def report(self, report_data: bytes) -> LocalTDReport:
        """The TDREPORT over exactly 64 bytes of ``report_data``. Local only: it is no evidence for anybody else.

        Raises:
            SettingsInvalid: another size.
            ProviderAbsent: no such device, or none of TDX.
            ProviderDenied: this user may not use it.
            ProviderBusy: interrupted or busy three times.
            ResponseRefused: the TDX module refused, or gave something else.
        """
        check_report_data(report_data)
        data = bytearray(_REQUEST_SIZE)
        last: OSError | None = None
        for _ in range(_ATTEMPTS):
            data[:] = report_data + bytes(TDREPORT_SIZE)
            try:
                self._calls.exchange(self._path, GET_REPORT0, data)
            except OSError as error:
                if error.errno not in _RACED:
                    raise self._refusal(error) from error
                last = error
            else:
                return parse_local_td_report(bytes(data[REPORT_DATA_SIZE:]), report_data)
        raise ProviderBusy("the TDX device gave no report", where=str(self._path), found=last) from last

    def _refusal(self, error: OSError) -> ProviderAbsent | ProviderDenied | ResponseRefused:
        where, found = str(self._path), f"{errno.errorcode.get(error.errno or 0, '?')}: {error.strerror}"
        if error.errno in _DENIED:
            return ProviderDenied("the TDX device may not be used by this user", where=where, found=found)
        if error.errno in _ABSENT:
            return ProviderAbsent(
                "there is no TDX device on this machine",
                where=where,
                found=found,
                hint="A TDX guest with Linux 6.2 or later has it.",
            )
        return ResponseRefused("the TDX module gave no report", where=where, found=found)
