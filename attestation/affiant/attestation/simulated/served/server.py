"""Serves the platform's Unix sockets: packets in, packets out, and the descriptor of each TD to its launcher.

One thread and one selector: every answer takes a millisecond or so, and registers need no locks. SOCK_SEQPACKET
keeps packets whole. A TD lives as long as the other end of its socket pair is open somewhere; the platform keeps
no second copy of that end, so the last holder's close (or death) ends the TD. A peer that does not read its
replies loses its connection, and with it its TD; nobody waits for it.
"""

from __future__ import annotations

import fcntl
import os
import selectors
import socket
from array import array
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affiant.attestation.simulated.platform.errors import PlatformFullError, PlatformRequestError
from affiant.attestation.simulated.served.host import HostedTD, PlatformHost
from affiant.attestation.simulated.served.messages import (
    MAX_REQUEST,
    CreateTD,
    Memory,
    encode_refusal,
    encode_reply,
    parse_platform_request,
    parse_td_request,
    registers_to_json,
)
from affiant.errors import AffiantError
from affiant.socket_address import reachable_address

__all__ = ["MAX_CONNECTIONS", "PlatformServer", "listen"]

MAX_CONNECTIONS: Final = 64
"""Connections to the platform's own socket at one time, TDs not counted."""

_NO_WAIT: Final = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
_ALL_SEALS: Final = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK


@dataclass(frozen=True, slots=True)
class _Peer:
    """Who is at the other end: ``td`` is None on the platform's own socket."""

    connection: socket.socket
    td: HostedTD | None


def listen(path: Path) -> socket.socket:
    """A listening socket at ``path``, mode 0600, in place of whatever socket a dead server left there.

    The caller holds the folder's lock: nobody else is listening there.
    """
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        # bind gives the file this mode (unix(7)): it is never open to others, not even briefly
        os.fchmod(listener.fileno(), 0o600)
        with reachable_address(path) as address:
            listener.bind(address)
        listener.listen(MAX_CONNECTIONS)
        listener.settimeout(0)
    except BaseException:  # closed, whatever happened, and raised again
        listener.close()
        raise
    return listener


class PlatformServer:
    """Serves ``host`` on ``listener`` until :meth:`serve` is told to stop. Owns neither of the two.

    Args:
        stop: readable means stop.
    """

    def __init__(self, listener: socket.socket, host: PlatformHost, *, stop: socket.socket) -> None:
        self._listener = listener
        self._host = host
        self._stop = stop
        self._selector = selectors.DefaultSelector()
        self._peers: dict[int, _Peer] = {}
        self._connections = 0

    def serve(self) -> None:
        """Answer until ``stop`` becomes readable; every TD ends with the return."""
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._stop, selectors.EVENT_READ, None)
        try:
            while True:
                for key, _ in self._selector.select():
                    if key.fileobj is self._stop:
                        return
                    handle: Callable[[], None] = key.data
                    handle()
        finally:
            for peer in tuple(self._peers.values()):
                self._drop(peer)
            self._selector.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # gone again, or no descriptor left: the next one may do better
            return
        if self._connections >= MAX_CONNECTIONS:
            full = PlatformFullError("too many connections", expected=f"at most {MAX_CONNECTIONS}")
            with connection, suppress(OSError):
                connection.send(encode_refusal(None, full), _NO_WAIT)
            return
        self._connections += 1
        self._add(_Peer(connection, None))

    def _add(self, peer: _Peer) -> None:
        self._peers[peer.connection.fileno()] = peer
        self._selector.register(peer.connection, selectors.EVENT_READ, lambda: self._receive(peer))

    def _drop(self, peer: _Peer) -> None:
        if self._peers.pop(peer.connection.fileno(), None) is None:
            return
        self._selector.unregister(peer.connection)
        peer.connection.close()
        if peer.td is None:
            self._connections -= 1
        else:
            self._host.end_td()

    def _receive(self, peer: _Peer) -> None:
        """One packet. An empty one reads like the end and is taken for it."""
        if peer.connection.fileno() < 0:  # dropped while its event was waiting in this round
            return
        try:
            packet = peer.connection.recv(MAX_REQUEST + 1, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            packet = b""
        if not packet:
            self._drop(peer)
        else:
            self._answer(peer, packet)

    def _answer(self, peer: _Peer, packet: bytes) -> None:
        identifier: str | None = None
        try:
            if len(packet) > MAX_REQUEST:
                raise PlatformRequestError("a packet too large", expected=f"at most {MAX_REQUEST} bytes")
            if peer.td is not None:
                identifier, td_request = parse_td_request(packet)
                reply = encode_reply(identifier, peer.td.answer(td_request))
                if isinstance(td_request, Memory):
                    self._send_memory(peer, reply, peer.td.memory)
                    return
            else:
                identifier, request = parse_platform_request(packet)
                if isinstance(request, CreateTD):
                    self._launch(peer, identifier, request)
                    return
                reply = encode_reply(identifier, self._host.answer(request))
        except AffiantError as error:
            reply = encode_refusal(identifier, error)
        self._send(peer, reply)

    def _launch(self, peer: _Peer, identifier: str, request: CreateTD) -> None:
        """Make a TD and give the far end of its socket to ``peer``; without a taker there is no TD."""
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError as error:
            raise PlatformFullError("no descriptor left for another TD", found=error.strerror) from error
        with theirs:
            try:
                td = self._host.create_td(request)
            except AffiantError:
                ours.close()
                raise
            self._add(_Peer(ours, td))
            named = {"td_id": registers_to_json(td.registers)["td_id"]}
            self._send(peer, encode_reply(identifier, named), theirs.fileno())

    def _send_memory(self, peer: _Peer, reply: bytes, memory: bytes) -> None:
        """Send ``memory`` as a file that nobody can change any more."""
        try:
            descriptor = os.memfd_create("affiant-td-memory", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            with open(descriptor, "wb") as file:
                file.write(memory)
                file.flush()
                fcntl.fcntl(file, fcntl.F_ADD_SEALS, _ALL_SEALS)
                self._send(peer, reply, file.fileno())
        except OSError as error:
            raise PlatformFullError("no memory file left for a TD", found=error.strerror) from error

    def _send(self, peer: _Peer, reply: bytes, *descriptors: int) -> None:
        try:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", descriptors))] if descriptors else []
            peer.connection.sendmsg([reply], rights, _NO_WAIT)  # socket.send_fds would ignore the flags
        except OSError:  # gone, or does not read
            self._drop(peer)
