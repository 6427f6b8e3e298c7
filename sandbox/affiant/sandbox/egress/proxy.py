"""The proxy's server: the only thing that a sandbox can reach.

It listens on the sockets that the runner opened for this session, with nothing else behind them. One of them has the
address of the supervisor's own names: there, only requests for these are served. Connections are bounded in number and
time; each is served by itself, and one that misbehaves ends alone. When the proxy is
gone there is no egress.

Whatever is judged, or recorded, passes the gate first (``gate``), and only then takes the rules by which it is: so
they can be replaced while the gate is held (:meth:`EgressProxy.restrict`). An inspected tunnel does not pass as a
whole, each request in it does.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

from affiant.errors import AffiantError, MalformedError
from affiant.sandbox.egress.forward import Forwarder, action_of, refuse
from affiant.sandbox.egress.gate import Gate
from affiant.sandbox.egress.gateway_route import GATEWAY_ORIGINS, GatewayRoute
from affiant.sandbox.egress.http.agent_http import AgentHTTP, Timeouts
from affiant.sandbox.egress.http.denial import denial_of
from affiant.sandbox.egress.http.errors import RecordsUnavailable
from affiant.sandbox.egress.http.origin import Origin, inner_target, proxied_target
from affiant.sandbox.egress.http.request_head import RequestHead
from affiant.sandbox.egress.http.session_ca import SessionCA
from affiant.sandbox.egress.http.streams import PlainStream
from affiant.sandbox.egress.records_of_egress import Action
from affiant.sandbox.egress.sessions_route import SESSIONS_ORIGINS, SessionsRoute
from affiant.sandbox.egress.tunnel import Tunnels

__all__ = ["EgressProxy", "ProxyLimits"]

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Serve = Callable[[PlainStream], Coroutine[Any, Any, None]]

_OWN: Final = GATEWAY_ORIGINS | SESSIONS_ORIGINS
"""What the supervisor serves itself."""
_STOP_S: Final = 3.0
_GATEWAY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class ProxyLimits:
    """Bounds of one session's proxy."""

    connections: int = 128
    """At the same time; more are answered 503 and closed."""
    timeouts: Timeouts = field(default_factory=Timeouts)


class EgressProxy:
    """Serves one sandbox's connections until :meth:`stop`."""

    def __init__(
        self,
        *,
        forwarder: Forwarder,
        gateway: GatewayRoute,
        sessions: SessionsRoute,
        certificates: SessionCA,
        limits: ProxyLimits | None = None,
    ) -> None:
        self._limits = limits or ProxyLimits()
        self.forwarder = forwarder
        """What requests are judged by now."""
        self._gateway = gateway
        self._sessions = sessions
        self._records = forwarder.records
        self.gate = Gate()
        self._tunnels = Tunnels(
            forwarder=forwarder,
            certificates=certificates,
            timeouts=self._limits.timeouts,
            own_services=_OWN,
            gate=self.gate,
        )
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._serving = 0

    @property
    def in_flight(self) -> int:
        """Requests and tunnels that are being served now."""
        return self._serving

    def restrict(self, forwarder: Forwarder) -> None:
        """Judge by ``forwarder`` from now on. The gate is held, and nothing passes."""
        self.forwarder = forwarder
        self._tunnels = replace(self._tunnels, forwarder=forwarder)
        if self._sessions.tools is not None:
            self._sessions.tools.restrict(forwarder.policy)

    async def cut(self, *, within_s: float) -> bool:
        """Break off what is passing the gate; whether all of it has its record in time."""
        await self._gateway.settled(_GATEWAY_S)
        self.gate.cut()
        return await self.gate.empty(within_s=within_s)

    async def start(self, listener: socket.socket, *, own_hosts: socket.socket | None = None) -> None:
        """Serve on these sockets (bound; TCP or Unix), which the proxy then owns.

        Args:
            own_hosts: at which clients that know no proxy find the supervisor's own names.
        """
        for each, serve in ((listener, self._connection), (own_hosts, self._own_connection)):
            if each is None:
                continue
            each.setblocking(False)  # noqa: FBT003 - the socket module's own signature
            start = asyncio.start_unix_server if each.family == socket.AF_UNIX else asyncio.start_server
            self._servers.append(await start(partial(self._accept, serve), sock=each))

    async def stop(self) -> None:
        """Stop listening, break off what is under way, and return when each has its record."""
        if not self._servers:
            return
        for server in self._servers:
            server.close()
        await self._gateway.settled(_GATEWAY_S)
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections, timeout=_STOP_S)
        for server in self._servers:
            await server.wait_closed()
        self._servers = []

    def _accept(self, serve: _Serve, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = writer.get_extra_info("socket")
        if connection.family in {socket.AF_INET, socket.AF_INET6}:  # asyncio does it for some sockets only
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = asyncio.get_running_loop().create_task(self._serve(serve, PlainStream(reader, writer)))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, serve: _Serve, stream: PlainStream) -> None:
        try:
            if len(self._connections) > self._limits.connections:
                busy = RecordsUnavailable("too many connections at once", expected=self._limits.connections)
                await stream.write(denial_of(busy, record=None).to_bytes(keep_alive=False))
            else:
                await serve(stream)
        except (OSError, AffiantError):
            stream.abort()  # the agent is gone, or nothing more can be said to it; what happened is recorded
        finally:
            await stream.close()

    async def _connection(self, stream: PlainStream) -> None:
        http = AgentHTTP(stream, self._limits.timeouts)
        while (head := await self._head(http)) is not None:
            if head.method == "CONNECT":
                served = self._tunnel(http, stream, head)
            else:
                served = self._passing(self._plain, http, head)
            if not await self._counted(served):
                return

    async def _own_connection(self, stream: PlainStream) -> None:
        http = AgentHTTP(stream, self._limits.timeouts)
        while (head := await self._head(http)) is not None:
            if not await self._counted(self._passing(self._own, http, head)):
                return

    async def _own(self, http: AgentHTTP, head: RequestHead) -> bool:
        """A request at the address of the supervisor's own names: in origin form, and for nothing else."""
        try:
            origin, target = proxied_target(head)
            if not head.target.startswith("/") or origin not in _OWN:
                raise MalformedError(
                    "this address serves the supervisor's own names alone",
                    expected=" or ".join(
                        sorted(f"http://{each.host}" for each in _OWN if each.scheme == "http")
                    ),
                    hint="Send requests for other hosts to the proxy that HTTPS_PROXY names",
                    code="egress.request",
                )
        except AffiantError as refusal:
            return await refuse(
                http, self._records, refusal, Action(None, head.method, head.target), keep_alive=False
            )
        return await self._route(http, head, origin, target)

    async def _passing(
        self, serve: Callable[_P, Coroutine[Any, Any, _T]], *given: _P.args, **named: _P.kwargs
    ) -> _T:
        """Serve once the gate lets it pass."""
        async with self.gate.passing():
            return await serve(*given, **named)

    async def _tunnel(self, http: AgentHTTP, stream: PlainStream, head: RequestHead) -> bool:
        async with self.gate.passing():
            opened = await self._tunnels.open(http, stream, head)
        if isinstance(opened, bool):
            return opened
        await self._tunnels.inspect(http, stream, opened, self._inside)
        return False

    async def _inside(self, http: AgentHTTP, origin: Origin) -> None:
        """The requests inside an inspected tunnel."""
        while (head := await self._head(http)) is not None:
            try:
                target = inner_target(head, origin)
            except AffiantError as refusal:
                action = action_of(head, origin, head.target)
                await self._passing(refuse, http, self._records, refusal, action, keep_alive=False)
                return
            if not await self._counted(self._passing(self._route, http, head, origin, target)):
                return

    async def _plain(self, http: AgentHTTP, head: RequestHead) -> bool:
        """A request to the proxy itself: absolute form, or origin form for the supervisor's own names."""
        try:
            origin, target = proxied_target(head)
            if head.target.startswith("/") and origin not in _OWN:
                raise MalformedError(
                    "a proxy is asked for a full address",
                    expected="an absolute-form target, or CONNECT",
                    code="egress.request",
                )
        except AffiantError as refusal:
            return await refuse(
                http, self._records, refusal, Action(None, head.method, head.target), keep_alive=False
            )
        return await self._route(http, head, origin, target)

    async def _route(self, http: AgentHTTP, head: RequestHead, origin: Origin, target: str) -> bool:
        if origin in GATEWAY_ORIGINS:
            return await self._gateway.serve(http, head, origin, target)
        if origin in SESSIONS_ORIGINS:
            return await self._sessions.serve(http, head, origin, target)
        return await self.forwarder.serve(http, head, origin, target)

    async def _head(self, http: AgentHTTP) -> RequestHead | None:
        """The next head; one that is refused is recorded and answered, and ends the connection."""
        try:
            return await http.next_head()
        except AffiantError as refusal:
            unknown = Action(None, "UNKNOWN", "")
            await self._passing(refuse, http, self._records, refusal, unknown, keep_alive=False)
            return None

    async def _counted(self, served: Coroutine[Any, Any, bool]) -> bool:
        self._serving += 1
        try:
            return await served
        finally:
            self._serving -= 1
