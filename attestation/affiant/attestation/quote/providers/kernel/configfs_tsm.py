"""Asks the kernel for quotes by configfs-tsm (Linux 6.7 and later). Not yet run on TDX hardware.

Source: Documentation/ABI/testing/configfs-tsm-report. One private directory for each request::

    mkdir <root>/affiant-<random>
    read  provider            must be tdx_guest
    read  generation   -> g1
    write inblob              all 64 bytes, one write
    read  generation   -> g2, must be g1 + 1
    read  outblob             the quote; a second or more, as the kernel polls
    read  generation   -> g3, must be g2
    rmdir                     the files go with it; they cannot be unlinked

``generation`` counts writes: another value than these means that somebody else used the directory, so that the quote
may be over their report data. It is discarded, and the whole begins again in a new directory.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from affiant.attestation.quote.providers.base.checked_quote import check_quote, check_report_data
from affiant.attestation.quote.providers.base.errors import (
    ProviderAbsent,
    ProviderBusy,
    ProviderDenied,
    ResponseRefused,
)
from affiant.attestation.quote.providers.kernel.kernel_files import KernelFiles, OSKernelFiles

__all__ = ["TSM_REPORT_ROOT", "ConfigfsTSM"]

TSM_REPORT_ROOT: Final = Path("/sys/kernel/config/tsm/report")
PROVIDER: Final = b"tdx_guest"
_MAX_OUTBLOB: Final = 128 * 1024
"""The largest buffer of newer kernels."""
_MAX_TEXT: Final = 4096
_ATTEMPTS: Final = 3
_RACED: Final = (errno.EBUSY, errno.EINTR, errno.ETIMEDOUT, errno.EAGAIN)
"""What may pass by itself: others at work, a signal, a quoting service that was slow."""
_ABSENT: Final = (errno.ENOENT, errno.ENXIO, errno.ENODEV, errno.ENOTDIR)
_DENIED: Final = (errno.EACCES, errno.EPERM, errno.EROFS)


class _Raced(Exception):
    """Somebody else wrote to the directory."""


class ConfigfsTSM:
    """The TD that this program runs in.

    Args:
        random_bytes: for directory names, which must not be anybody else's.
        root: the tree's root.
        files: how it is reached.
    """

    def __init__(
        self,
        *,
        random_bytes: Callable[[int], bytes],
        root: Path = TSM_REPORT_ROOT,
        files: KernelFiles | None = None,
    ) -> None:
        self._random_bytes = random_bytes
        self._root = root
        self._files = OSKernelFiles() if files is None else files
        self._lock = threading.Lock()

    def quote(self, report_data: bytes) -> bytes:
        """A quote over exactly 64 bytes of ``report_data``.

        Raises:
            SettingsInvalid: another size.
            ProviderAbsent: no configfs-tsm, or no TDX behind it.
            ProviderDenied: this user may not use it.
            ProviderBusy: raced or timed out three times.
            ResponseRefused: no TDX quote, or one over other report data.
        """
        check_report_data(report_data)
        last: BaseException | None = None
        # A TD has one request at a time; waiting here is fairer than EBUSY there.
        with self._lock:
            for _ in range(_ATTEMPTS):
                try:
                    return check_quote(self._request(report_data), report_data, source="configfs-tsm")
                except _Raced as race:
                    last = race
                except OSError as error:
                    if error.errno not in _RACED:
                        raise self._refusal(error) from error
                    last = error
        raise ProviderBusy(
            "configfs-tsm gave no quote",
            where=str(self._root),
            found=f"{last} ({_ATTEMPTS} times)",
            hint="Another program uses it without pause, or the host's quoting service is down.",
        ) from last

    def _request(self, report_data: bytes) -> bytes:
        """One attempt, in a directory of its own, which is gone at the end, also of an interrupted one."""
        directory = self._root / f"affiant-{self._random_bytes(16).hex()}"
        try:
            self._files.mkdir(directory)
            return self._ask(directory, report_data)
        finally:
            with suppress(FileNotFoundError, NotADirectoryError):  # it could not be made
                self._files.rmdir(directory)

    def _ask(self, directory: Path, report_data: bytes) -> bytes:
        provider = self._files.read(directory / "provider", limit=_MAX_TEXT).strip()
        if provider != PROVIDER:
            raise ProviderAbsent(
                "configfs-tsm is of another TEE",
                expected=PROVIDER.decode(),
                found=repr(provider[:40].decode("latin-1")),
            )
        before = self._generation(directory)
        self._files.write(directory / "inblob", report_data)
        if (written := self._generation(directory)) != before + 1:
            raise _Raced("somebody else wrote to the directory")
        quote = self._files.read(directory / "outblob", limit=_MAX_OUTBLOB)
        if self._generation(directory) != written:
            raise _Raced("somebody else wrote to the directory")
        return quote

    def _generation(self, directory: Path) -> int:
        text = self._files.read(directory / "generation", limit=_MAX_TEXT).strip()
        if not text.isdigit() or len(text) > 20:
            raise ResponseRefused("configfs-tsm gave a generation that is no number")
        return int(text)

    def _refusal(self, error: OSError) -> ProviderAbsent | ProviderDenied | ResponseRefused:
        where, found = str(self._root), f"{errno.errorcode.get(error.errno or 0, '?')}: {error.strerror}"
        if error.errno in _DENIED:
            return ProviderDenied(
                "configfs-tsm may not be used by this user",
                where=where,
                found=found,
                hint="It belongs to root; give the program the right to make directories there.",
            )
        if error.errno in _ABSENT:
            return ProviderAbsent(
                "there is no configfs-tsm with a provider on this machine",
                where=where,
                found=found,
                hint="A TDX guest with Linux 6.7 or later has it, where configfs is mounted.",
            )
        return ResponseRefused("configfs-tsm refused the request", where=where, found=found)
