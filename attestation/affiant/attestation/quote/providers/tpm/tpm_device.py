"""Connects to a TPM: the kernel's resource manager (``/dev/tpmrm0``), or the socket of a software TPM.

Source: Linux, drivers/char/tpm/tpm-dev-common.c: one write is one command, one read is its whole response. A socket
carries the same bytes; the response's header says how many.
"""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path
from typing import Final, Protocol

from affiant.attestation.quote.providers.base.errors import (
    ProviderAbsent,
    ProviderBusy,
    ProviderDenied,
    ResponseRefused,
)

__all__ = ["MAX_RESPONSE", "TPM_DEVICE", "TPMDevice", "TPMSocket", "TPMTransport"]

TPM_DEVICE: Final = Path("/dev/tpmrm0")
MAX_RESPONSE: Final = 4096
"""The kernel's own buffer (TPM_BUFSIZE)."""
HEADER_SIZE: Final = 10
_ABSENT: Final = (errno.ENOENT, errno.ENXIO, errno.ENODEV, errno.ENOTDIR, errno.ECONNREFUSED)
_DENIED: Final = (errno.EACCES, errno.EPERM, errno.EROFS)


class TPMTransport(Protocol):
    """Carries one command to a TPM, and its response back."""

    def transmit(self, command: bytes) -> bytes:
        """The whole response, at most 4096 bytes; what it says is the caller's to judge.

        Raises:
            ProviderAbsent, ProviderDenied, ProviderBusy: it cannot be reached, or does not answer.
            ResponseRefused: more than a response.
        """
        ...


class TPMDevice:
    """The kernel's device. Each command opens it, so that no other program waits.

    Args:
        path: the resource manager's device; the raw one (``/dev/tpm0``) would leave what others loaded in the way.
    """

    def __init__(self, path: Path = TPM_DEVICE) -> None:
        self._path = path

    def transmit(self, command: bytes) -> bytes:
        """See :class:`TPMTransport`."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                if os.write(descriptor, command) != len(command):
                    raise OSError(errno.EIO, "the kernel took a part of the command")
                return os.read(descriptor, MAX_RESPONSE)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _refusal(str(self._path), error) from error


class TPMSocket:
    """A TPM behind a stream socket, such as ``swtpm`` serves. Each command is a connection of its own.

    Args:
        address: a unix socket's path, or host and port.
        silence_s: seconds without a byte; making a key takes a TPM seconds.
    """

    def __init__(self, address: Path | tuple[str, int], *, silence_s: float = 30.0) -> None:
        self._address = address
        self._silence_s = silence_s

    def transmit(self, command: bytes) -> bytes:
        """See :class:`TPMTransport`."""
        try:
            with self._connect() as connection:
                connection.sendall(command)
                header = self._receive(connection, HEADER_SIZE)
                size = int.from_bytes(header[2:6], "big")
                if not HEADER_SIZE <= size <= MAX_RESPONSE:
                    raise ResponseRefused(
                        "the TPM's response says a size that none has",
                        expected=f"{HEADER_SIZE} to {MAX_RESPONSE} bytes",
                        found=size,
                    )
                return header + self._receive(connection, size - HEADER_SIZE)
        except TimeoutError as error:
            raise ProviderBusy("the TPM does not answer", where=str(self._address)) from error
        except OSError as error:
            raise _refusal(str(self._address), error) from error

    def _connect(self) -> socket.socket:
        if isinstance(self._address, tuple):
            return socket.create_connection(self._address, timeout=self._silence_s)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(self._silence_s)
            connection.connect(str(self._address))
        except OSError:
            connection.close()
            raise
        return connection

    def _receive(self, connection: socket.socket, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            chunk = connection.recv(size - len(found))
            if not chunk:
                raise ProviderBusy("the TPM broke off", where=str(self._address))
            found += chunk
        return bytes(found)


def _refusal(where: str, error: OSError) -> ProviderAbsent | ProviderDenied | ProviderBusy:
    found = f"{errno.errorcode.get(error.errno or 0, '?')}: {error.strerror}"
    if error.errno in _DENIED:
        return ProviderDenied(
            "the TPM may not be used by this user",
            where=where,
            found=found,
            hint="It belongs to root and the group tss.",
        )
    if error.errno in _ABSENT:
        return ProviderAbsent("there is no TPM on this machine", where=where, found=found)
    return ProviderBusy("the TPM does not answer", where=where, found=found)
