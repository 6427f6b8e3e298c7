"""CONNECT: what it names must be what TLS names, and what is inside is judged request by request.

The answer to CONNECT goes out before anything is known of what follows; then the ClientHello is looked at. SNI
that is missing, hidden or another host's ends the connection with a TLS alert. An inspected tunnel is terminated
with the session's own certificate; each request in it is judged with its ``Host`` (E9). A host whose rules all
say ``passthrough`` is looked up after its intent and spliced to the checked address, unread and without any secret:
one intent, one outcome, and the record says that the inner host was not checked.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from affiant.errors import AffiantError, NotAllowedError
from affiant.policy.model.profile import TLSMode
from affiant.sandbox.egress.decision import judge_connection
from affiant.sandbox.egress.forward import Forwarder, action_of, refuse
from affiant.sandbox.egress.gate import Gate
from affiant.sandbox.egress.http.agent_http import AgentHTTP, Timeouts
from affiant.sandbox.egress.http.client_hello import MAX_CLIENT_HELLO, ClientHello, parse_client_hello
from affiant.sandbox.egress.http.errors import ClientHelloMalformed, PeerSilent, ServerNameMissing
from affiant.sandbox.egress.http.origin import Origin, check_server_name, connect_origin
from affiant.sandbox.egress.http.request_head import RequestHead
from affiant.sandbox.egress.http.session_ca import SessionCA
from affiant.sandbox.egress.http.streams import PlainStream, TLSStream
from affiant.sandbox.egress.limits import Passing, counting
from affiant.sandbox.egress.records_of_egress import Action, Outcome

__all__ = ["Opened", "Tunnels"]

_ESTABLISHED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"
_ALERT_UNRECOGNIZED_NAME: Final = b"\x15\x03\x01\x00\x02\x02\x70"
_ALERT_ACCESS_DENIED: Final = b"\x15\x03\x01\x00\x02\x02\x31"
"""Fatal alerts 112 and 49 (RFC 8446, section 6.2), so that the client's error says something."""

_DIAL_S: Final = 15.0
_SPLICE_IDLE_S: Final = 600.0

ServeInside = Callable[[AgentHTTP, Origin], Awaitable[None]]
"""Serves the requests inside an inspected tunnel."""


@dataclass(frozen=True, slots=True)
class _PassthroughTunnel:
    """A connection that is passed through unread: where to, by which rules, what it may send, the id of its intent."""

    origin: Origin
    action: Action
    rules: tuple[str, ...]
    passing: Passing
    intent: str


@dataclass(frozen=True, slots=True)
class Opened:
    """A tunnel that may be inspected; nothing was said to the agent yet."""

    origin: Origin
    action: Action


@dataclass(frozen=True, slots=True)
class Tunnels:
    """Everything that a CONNECT needs; one for a session.

    ``forwarder``: what requests are judged by. ``own_services``: hosts that the supervisor serves. ``gate``: passed
    before anything is judged or recorded; :meth:`open` is called after that.
    """

    forwarder: Forwarder
    certificates: SessionCA
    timeouts: Timeouts
    own_services: frozenset[Origin]
    gate: Gate

    async def open(self, http: AgentHTTP, stream: PlainStream, head: RequestHead) -> Opened | bool:
        """Judge one CONNECT. What may be inspected is returned; all else is served to its end, and what is returned is
        whether the connection can carry another request (if denied)."""
        action = Action(None, head.method, head.target)
        try:
            origin = connect_origin(head.target)
            action = action_of(head, origin, "")
            rules, mode = self._judge(origin)
            tunnel = await self._passthrough(origin, action, rules) if mode is TLSMode.PASSTHROUGH else None
        except AffiantError as refusal:
            return await refuse(http, self.forwarder.records, refusal, action, keep_alive=head.keep_alive)
        if tunnel is not None:
            return await self._pass_through(http, stream, head, tunnel)
        return Opened(origin, action)

    async def inspect(
        self, http: AgentHTTP, stream: PlainStream, opened: Opened, inside: ServeInside
    ) -> None:
        """Serve a tunnel that was opened, to its end. Each request inside passes the gate by itself."""
        if await self._named_alike(http, stream, opened.origin, opened.action):
            await self._inspect(stream, opened.origin, inside)

    def _judge(self, origin: Origin) -> tuple[tuple[str, ...], TLSMode]:
        if origin in self.own_services:
            return (), TLSMode.INSPECT
        decision, mode = judge_connection(self.forwarder.policy, origin, self.forwarder.notes)
        return decision.rules, mode

    async def _passthrough(
        self, origin: Origin, action: Action, rules: tuple[str, ...]
    ) -> _PassthroughTunnel:
        """A tunnel with room, and its intent: acknowledged before the name is looked up or anything is sent."""
        with counting(rules):
            passing = self.forwarder.meters.connection(rules)
        return _PassthroughTunnel(
            origin, action, rules, passing, await self.forwarder.records.intent(action, rules)
        )

    async def _pass_through(
        self, http: AgentHTTP, stream: PlainStream, head: RequestHead, tunnel: _PassthroughTunnel
    ) -> bool:
        """Serve a passthrough tunnel; whatever happens, it has an outcome. Returns as :meth:`serve`."""
        origin, action, end = tunnel.origin, tunnel.action, "aborted"
        try:
            try:
                within = self.forwarder.policy.addresses_for(origin.host)
                address = await self.forwarder.resolver.resolve(origin.host, origin.port, within=within)
            except AffiantError as refusal:
                end = "refused" if isinstance(refusal, NotAllowedError) else "failed"
                return await refuse(http, self.forwarder.records, refusal, action, keep_alive=head.keep_alive)
            if await self._named_alike(http, stream, origin, action):
                end = await self._spliced(stream, address, tunnel)
            else:
                end = "refused"
            return False
        finally:
            await self.forwarder.records.outcome(action, tunnel.rules, _unread(end), intents=(tunnel.intent,))

    async def _named_alike(
        self, http: AgentHTTP, stream: PlainStream, origin: Origin, action: Action
    ) -> bool:
        """Answer CONNECT; whether the TLS that follows names the same host. If not, that is recorded."""
        stream.unread(http.take_rest())
        try:
            await self._shake_hands(stream, origin)
        except AffiantError as refusal:
            async with self.gate.passing():
                await self.forwarder.records.refusal(refusal, action)
            return False
        return True

    async def _shake_hands(self, stream: PlainStream, origin: Origin) -> None:
        """Answer CONNECT and look at the ClientHello; a rejected one gets a TLS alert."""
        await stream.write(_ESTABLISHED)
        seen = b""
        try:
            hello, seen = await self._client_hello(stream)
            check_server_name(origin, hello)
        except AffiantError as refusal:
            hidden = isinstance(refusal, (ServerNameMissing, ClientHelloMalformed, PeerSilent))
            with contextlib.suppress(OSError):
                await stream.write(_ALERT_ACCESS_DENIED if hidden else _ALERT_UNRECOGNIZED_NAME)
            raise
        stream.unread(seen)

    async def _client_hello(self, stream: PlainStream) -> tuple[ClientHello, bytes]:
        seen = b""
        while len(seen) <= 2 * MAX_CLIENT_HELLO:
            try:
                async with asyncio.timeout(self.timeouts.head):
                    data = await stream.read()
            except TimeoutError as error:
                raise PeerSilent("no ClientHello follows CONNECT") from error
            if not data:
                raise ClientHelloMalformed("no ClientHello follows CONNECT")
            seen += data
            if (hello := parse_client_hello(seen)) is not None:
                return hello, seen
        raise ClientHelloMalformed("no ClientHello follows CONNECT")

    async def _inspect(self, stream: PlainStream, origin: Origin, inside: ServeInside) -> None:
        tls = TLSStream(stream, self.certificates.context(origin.host))
        try:
            async with asyncio.timeout(self.timeouts.head):
                await tls.handshake()
            await inside(AgentHTTP(tls, self.timeouts), origin)
        except (ssl.SSLError, TimeoutError):
            return  # the client does not want the session's certificate, or its TLS broke: nothing was asked
        finally:
            await tls.close()

    async def _spliced(self, stream: PlainStream, address: str, tunnel: _PassthroughTunnel) -> str:
        """Copy both ways until both have ended, or there is no room for what the agent sends; how it went."""
        try:
            async with asyncio.timeout(_DIAL_S):
                reader, writer = await asyncio.open_connection(address, tunnel.origin.port)
        except (OSError, TimeoutError):
            return "failed"
        peer = PlainStream(reader, writer)
        end = "complete"
        try:
            async with asyncio.TaskGroup() as copies:
                copies.create_task(_copy(stream, peer, tunnel))
                copies.create_task(_copy(peer, stream))
        except* (OSError, TimeoutError):
            end = "failed"
        except* NotAllowedError as spent:
            end = "refused"
            for refusal in spent.exceptions:
                assert isinstance(refusal, NotAllowedError)
                await self.forwarder.records.refusal(refusal, tunnel.action)
        finally:
            await peer.close()
        return end


async def _copy(source: PlainStream, sink: PlainStream, counted: _PassthroughTunnel | None = None) -> None:
    """Copy until ``source`` ends; what the agent sends is ``counted`` before it goes on.

    Raises:
        LimitReached, EgressDenied: there is no room for it, or that cannot be known.
    """
    while True:
        async with asyncio.timeout(_SPLICE_IDLE_S):
            data = await source.read()
        if not data:
            break
        if counted is not None:
            with counting(counted.rules):
                counted.passing.take(len(data))
        await sink.write(data)
    sink.write_eof()


def _unread(end: str) -> Outcome:
    return Outcome(end=end, limits=("tls-passthrough",))
