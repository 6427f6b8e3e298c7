"""Asks the platform over its sockets, for the launcher and for the guest.

A launcher calls :meth:`PlatformClient.create_td` and passes the descriptor to the program that shall run in the
TD, which wraps it in :class:`SimulatedTD`; the launcher then closes its own copy::

    descriptor = PlatformClient(platform_socket(home)).create_td(image=Image.SESSION, mrconfigid=digest)
    subprocess.Popen([..., "--td-fd", str(descriptor)], pass_fds=[descriptor])
    os.close(descriptor)
"""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import threading
from array import array
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from affiant.attestation.encoding.binary_text import EncodingError, b64u, from_b64u
from affiant.attestation.encoding.canonical import JSONError, canonical
from affiant.attestation.release.boot import Image, InstalledFileError
from affiant.attestation.simulated.platform.errors import (
    PlatformFullError,
    PlatformReplyError,
    PlatformRequestError,
    PlatformUnreachableError,
    RegisterError,
)
from affiant.attestation.simulated.served.messages import (
    MAX_REPLY,
    CreateTD,
    Extend,
    GetBootLog,
    GetCollateral,
    GetRoot,
    GetStatus,
    PlatformRequest,
    Quote,
    Report,
    TDRequest,
    encode_request,
    parse_registers,
    parse_reply,
)
from affiant.attestation.statements.evidence_source import TDRegisters
from affiant.attestation.tdx.event_log.eventlog import Event, event_digest
from affiant.attestation.tdx.tcb.collateral import Collateral, parse_collateral
from affiant.errors import AffiantError, StateError
from affiant.socket_address import reachable_address

__all__ = ["PlatformClient", "SimulatedTD"]

_ValueT = TypeVar("_ValueT")

_TIMEOUT_S: Final = 10.0
"""Seconds for one answer; a launch measures the installed files, everything else takes milliseconds."""

_DESCRIPTOR_SIZE: Final = array("i").itemsize

_REFUSALS: Final[Mapping[str, type[AffiantError]]] = {
    refusal.code: refusal
    for refusal in (EncodingError, InstalledFileError, PlatformFullError, PlatformRequestError, RegisterError)
}
"""What the platform refuses with, by code: raised here as if it had happened here."""

_REPORT_DATA: Final = slice(568, 632)
"""Where a v4 quote carries REPORTDATA: 48 bytes of header, then 520 of body."""


class PlatformClient:
    """The platform's own socket. Each call is a connection of its own.

    Args:
        path: the socket.
        random_bytes: for the ids of requests.
    """

    def __init__(
        self,
        path: Path,
        *,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        self._path = path
        self._random_bytes = random_bytes
        self._timeout_s = timeout_s

    def create_td(self, *, image: Image, mrconfigid: bytes) -> int:
        """Launch a TD and return its descriptor, which is not inheritable until passed on by name.

        Args:
            mrconfigid: 48 bytes, immutable from now on.

        Raises:
            PlatformUnreachableError, PlatformFullError, PlatformReplyError: as named.
        """
        _, descriptor = self._ask(CreateTD(image, mrconfigid))
        if descriptor is None:
            raise PlatformReplyError("no descriptor came with the new TD")
        return descriptor

    def collateral(self) -> Collateral:
        """The platform's collateral, as exact bytes."""
        return parse_collateral(canonical(self._get(GetCollateral(), "collateral", dict)))

    def root(self) -> bytes:
        """The root's public key, DER SubjectPublicKeyInfo."""
        return from_b64u(self._get(GetRoot(), "spki", str))

    def boot_log(self, image: Image) -> bytes:
        """The event log of a TD of ``image`` that has only booted."""
        return from_b64u(self._get(GetBootLog(image), "log", str))

    def status(self) -> Mapping[str, object]:
        """``tds`` and ``tds_max``."""
        return self._ask(GetStatus())[0]

    def _get(self, request: PlatformRequest, name: str, kind: type[_ValueT]) -> _ValueT:
        value = self._ask(request)[0].get(name)
        if not isinstance(value, kind):
            raise PlatformReplyError("a member is missing", where=name)
        return value

    def _ask(self, request: PlatformRequest) -> tuple[Mapping[str, object], int | None]:
        identifier = b64u(self._random_bytes(16))
        packet, descriptors = self._exchange(encode_request(request, identifier))
        try:
            answer = _answer_of(packet, identifier)
        except AffiantError:
            for descriptor in descriptors:
                os.close(descriptor)
            raise
        return answer, descriptors[0] if descriptors else None

    def _exchange(self, packet: bytes) -> tuple[bytes, Sequence[int]]:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
                connection.settimeout(self._timeout_s)
                with reachable_address(self._path) as address:
                    connection.connect(address)
                connection.send(packet)
                return _receive_with_descriptor(connection)
        except OSError as error:
            raise PlatformUnreachableError(
                "the simulated platform does not answer",
                where=str(self._path),
                found=error.strerror or type(error).__name__,
                hint="Start it with: affiant platform serve",
            ) from error


class SimulatedTD:
    """One TD, by the descriptor that a launcher passed on; a :class:`~.evidence_source.QuoteSource`.

    Owns the descriptor from here on. Threads may share it. Two processes may not use it at the same time: each
    would take the other's replies, notice, and refuse.

    Raises:
        ``platform.td_ended``: the descriptor is not a socket.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        try:
            self._socket = socket.socket(fileno=descriptor)
        except OSError as error:
            raise StateError(
                "not the descriptor of a TD", found=f"descriptor {descriptor}", code="platform.td_ended"
            ) from error
        self._socket.settimeout(timeout_s)
        self._random_bytes = random_bytes
        self._lock = threading.Lock()

    def report(self) -> TDRegisters:
        """The registers now."""
        return parse_registers(self._ask(Report()))

    def extend(self, event: Event) -> None:
        """Extend RTMR3 by the digest of ``event``; the caller keeps the log."""
        self._ask(Extend(3, event_digest(event)))

    def quote(self, report_data: bytes) -> bytes:
        """A v4 quote over exactly 64 bytes.

        Raises:
            EncodingError: another size; the platform refuses it.
            PlatformReplyError: the quote that came is over other bytes.
        """
        text = self._ask(Quote(report_data)).get("quote")
        if not isinstance(text, str):
            raise PlatformReplyError("a member is missing", where="quote")
        quote = from_b64u(text)
        if not hmac.compare_digest(quote[_REPORT_DATA], report_data):
            raise PlatformReplyError("a quote over other report data than was asked for")
        return quote

    def close(self) -> None:
        """Close the descriptor. The TD ends when no process holds it any more."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, request: TDRequest) -> Mapping[str, object]:
        identifier = b64u(self._random_bytes(16))
        with self._lock:
            try:
                self._socket.send(encode_request(request, identifier))
                packet = self._socket.recv(MAX_REPLY + 1)
                return _answer_of(packet, identifier)
            except OSError as error:
                self._socket.close()
                raise StateError(
                    "the TD does not answer",
                    found=error.strerror or type(error).__name__,
                    code="platform.td_ended",
                ) from error
            except (PlatformReplyError, JSONError):
                self._socket.close()  # whose reply comes next is not known any more
                raise


def _receive_with_descriptor(connection: socket.socket) -> tuple[bytes, Sequence[int]]:
    """One packet, and the descriptor that came with it: at most one, and not for programs started from here.

    ``socket.recv_fds`` would leave the descriptor inheritable: it ignores its flags.
    """
    packet, ancillary, _, _ = connection.recvmsg(
        MAX_REPLY + 1, socket.CMSG_LEN(_DESCRIPTOR_SIZE), socket.MSG_CMSG_CLOEXEC
    )
    descriptors = array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data[: len(data) - len(data) % _DESCRIPTOR_SIZE])
    return packet, tuple(descriptors)


def _answer_of(packet: bytes, identifier: str) -> Mapping[str, object]:
    """The reply's members, or the platform's error raised as if it had happened here."""
    if not packet:
        raise StateError(
            "the other end is closed",
            hint="The platform or the TD has ended; start a new one",
            code="platform.td_ended",
        )
    reply = parse_reply(packet, identifier)
    if isinstance(reply, tuple):
        code, message = reply
        raise _REFUSALS.get(code, PlatformRequestError)(f"the simulated platform refused: {message}")
    return reply
