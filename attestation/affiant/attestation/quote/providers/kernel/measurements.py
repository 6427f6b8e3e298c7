"""Reads the registers of a TD from sysfs (Linux 6.16 and later). Not yet run on TDX hardware.

Source: Documentation/ABI/testing/sysfs-devices-virtual-misc-tdx_guest. Eight files of 48 raw bytes: ``mrtd:sha384``,
``mrconfigid``, ``mrowner``, ``mrownerconfig`` and ``rtmr[0-3]:sha384``. An older kernel has none of them, so that
what is missing is not compared, and what is there must agree with the TDREPORT.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from affiant.attestation.quote.providers.base.errors import ProviderDenied, RegisterMismatch, ResponseRefused
from affiant.attestation.quote.providers.kernel.kernel_files import KernelFiles, OSKernelFiles
from affiant.attestation.quote.providers.kernel.rtmr import MEASUREMENTS_ROOT
from affiant.attestation.statements.evidence_source import REGISTER_SIZE, TDRegisters

__all__ = ["Measurements"]

_LAUNCH: Final[Mapping[str, str]] = {
    "mrtd:sha384": "mrtd",
    "mrconfigid": "mrconfigid",
    "mrowner": "mrowner",
    "mrownerconfig": "mrownerconfig",
}
_ABSENT: Final = (errno.ENOENT, errno.ENOTDIR)
_DENIED: Final = (errno.EACCES, errno.EPERM)


class Measurements:
    """The folder of the measurements' files.

    Args:
        root: that folder.
        files: how it is reached.
    """

    def __init__(self, root: Path = MEASUREMENTS_ROOT, *, files: KernelFiles | None = None) -> None:
        self._root = root
        self._files = OSKernelFiles() if files is None else files

    def compare(self, registers: TDRegisters) -> int:
        """Hold ``registers`` against every file that is there; how many were.

        Raises:
            RegisterMismatch: a file says something else. An RTMR may have been extended in between: ask again.
            ProviderDenied, ResponseRefused: a file is there and cannot be read, or is of another size.
        """
        compared = 0
        for name, reported in _expected(registers):
            value = self._read(self._root / name)
            if value is None:
                continue
            compared += 1
            if value != reported:
                raise RegisterMismatch(
                    "the kernel's files and the TDREPORT show different registers",
                    where=str(self._root / name),
                    expected=reported.hex(),
                    found=value.hex(),
                )
        return compared

    def _read(self, path: Path) -> bytes | None:
        """The file's 48 bytes; None where there is no such file."""
        try:
            value = self._files.read(path, limit=REGISTER_SIZE)
        except OSError as error:
            found = f"{errno.errorcode.get(error.errno or 0, '?')}: {error.strerror}"
            if error.errno in _ABSENT:
                return None
            if error.errno in _DENIED:
                raise ProviderDenied("a register may not be read", where=str(path), found=found) from error
            raise ResponseRefused("a register cannot be read", where=str(path), found=found) from error
        if len(value) != REGISTER_SIZE:
            raise ResponseRefused(
                "a register of another size",
                where=str(path),
                expected=f"{REGISTER_SIZE} bytes",
                found=f"{len(value)} bytes",
            )
        return value


def _expected(registers: TDRegisters) -> Iterator[tuple[str, bytes]]:
    for name, attribute in _LAUNCH.items():
        yield name, getattr(registers, attribute)
    for index, value in enumerate(registers.rtmrs):
        yield f"rtmr{index}:sha384", value
