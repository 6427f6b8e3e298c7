"""The server process: ``python -m affiant.gateway.process.server --td-fd N --settings-fd N [--ready-fd N] ...``.

It holds the keys, so it closes itself to inspection before it makes any, and ends when its launcher does. It
listens on TLS only (and on the operator's Unix socket), says on the ready descriptor where, and on SIGTERM or
SIGINT takes no new session, has supervisors close theirs, closes what is left as lost and its chain with ``end``.
"""

from __future__ import annotations

import gc

if _COLLECTS := gc.isenabled():
    gc.disable()  # until all is loaded: that makes no garbage, and looking for some takes a seventh of the time

import argparse
import asyncio
import contextlib
import json
import logging
import os
import resource
import secrets
import signal
import socket
import ssl
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import uvicorn
import uvloop

from affiant.attestation.release.boot import Image
from affiant.attestation.release.running_image import image_digest
from affiant.attestation.schema.agent_routes import AGENT_ROUTES, AgentRoute
from affiant.attestation.simulated.served.client import SimulatedTD
from affiant.attestation.statements.gateway_config import GatewayConfig
from affiant.errors import AffiantError, ConfigurationError
from affiant.gateway.admission.draining import STOPPED_WITHIN_S
from affiant.gateway.config.config import SESSIONS_MAX, Settings, parse_settings
from affiant.gateway.config.keyset import LIFETIME
from affiant.gateway.dialects.dialect import Dialect
from affiant.gateway.inference.dialects_served import DIALECTS
from affiant.gateway.inference.inference import ModelRoute
from affiant.gateway.process.confinement import confine
from affiant.gateway.process.decision_follower import take_over
from affiant.gateway.service.boot import Ambient, booted
from affiant.gateway.service.control_plane import control_plane, operator_plane
from affiant.gateway.service.service import Service
from affiant.gateway.sessions.decisions import GatewayDecisions
from affiant.gateway.sessions.sessions import SessionState
from affiant.gateway.store.journal import hold_store
from affiant.gateway.wire.bounded_http import BoundedHTTP
from affiant.gateway.wire.connections import Connections, Listener
from affiant.gateway.wire.errors import JournalUnavailable
from affiant.gateway.wire.routes import Application, GatewayApp
from affiant.gateway.wire.tls import TLSIdentity, make_tls_identity
from affiant.policy.decision_log.file import DecisionFile
from affiant.printable import printable
from affiant.socket_address import reachable_address
from affiant.steady_clock import SteadyClock
from affiant.unix_http import OPERATOR_SOCKET

if _COLLECTS:
    gc.enable()

__all__ = ["STATE_FILE", "main", "serve"]

STATE_FILE: Final = "gateway.json"
_MAX_SETTINGS: Final = 4 << 20
_COLLECT_AFTER: Final = 10_000
"""Objects more than before after which the youngest are looked through; Python's own figure is 700."""
_log = logging.getLogger("affiant.gateway")


def gateway_app(service: Service, decisions: DecisionFile | None = None) -> GatewayApp:
    """The public application; ``decisions``: the log of what policy decides, if one was asked for."""
    log = GatewayDecisions(decisions, service.clock)
    first, *others = [route for route in AGENT_ROUTES if route.dialect is not None]
    model = ModelRoute(
        dialect=_dialect_of(first, service.config),
        route=first,
        recorder=service.recorder,
        log=service.log,
        authenticator=service.authenticator,
        upstreams=service.upstreams,
        keyset_digest=service.keyset.digest,
        body_max=service.config.body_max,
        event_max=service.config.event_max,
        bodies=service.bodies,
        refusals=service.refusals,
        draining=lambda: service.draining,
        seconds=service.seconds,
        model_aliases=service.config.model_aliases,
        tools=service.tools,
        decisions=log,
        approvals=service.approvals,
    )
    served = [
        model,
        *(replace(model, dialect=_dialect_of(route, service.config), route=route) for route in others),
    ]
    routes: dict[tuple[str, str], Application] = {
        (each.route.method, each.route.template): each for each in served
    }
    if service.tools is not None:
        routes["POST", "/mcp"] = service.tools.route(service, log)
    return GatewayApp(routes, control_plane(service, log))


def _dialect_of(route: AgentRoute, config: GatewayConfig) -> Dialect:
    assert route.dialect is not None
    dialect = DIALECTS[route.dialect]
    return dialect.with_names(config.allowed_members.get(dialect.name, ()))


async def serve(
    settings: Settings,
    source: SimulatedTD,
    *,
    ready: int | None,
    decisions: DecisionFile | None = None,
    next_decisions: socket.socket | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; ``decisions`` as :func:`gateway_app`.

    Args:
        next_decisions: where the launcher passes the next file of the decision log.

    Raises:
        AffiantError: it cannot start, or could not end its chain.
    """
    tls = make_tls_identity(now=_now(), lifetime=LIFETIME)
    clock = SteadyClock(_now, time.monotonic)
    ambient = Ambient(source, tls.spki, clock, secrets.token_bytes, require_clock=clock.require)
    listener = _listen(settings.host, settings.port)
    if decisions is not None and next_decisions is not None:
        take_over(decisions, next_decisions)
    async with booted(settings, ambient) as service:
        public = _server(gateway_app(service, decisions), drain_s=settings.drain_s)
        with _operator_socket(settings.store / OPERATOR_SOCKET) as control:
            operator = _server(operator_plane(service), drain_s=settings.drain_s)
            tasks = [
                asyncio.create_task(public.serve([])),  # accepted here, so that each connection is someone's
                asyncio.create_task(operator.serve([control])),
            ]
            accepting = accept(public, listener, tls.context, settings.connections_max)
            stop = _stop_on_signals()
            clockwork = asyncio.gather(
                _every_second(service, _epochs),
                _every_second(service, _leases),
                _every_second(service, _unrecorded),
                _every_second(service, _tools),
            )
            try:
                await _started(public, operator, tasks)
                _settle_collector()
                with _announced(settings, service, listener, tls, ready):
                    await stop.wait()
                    service.drain.begin(within_s=0, closed_within_s=STOPPED_WITHIN_S)
                    await service.drain.ended()
            finally:
                service.draining = True
                await service.closing.end_sessions()  # while supervisors can still reach us
                accepting.close()
                public.should_exit = operator.should_exit = True
                await asyncio.gather(*tasks)
                clockwork.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await clockwork
            await service.closing.end()


def _settle_collector() -> None:
    """What is loaded now stays until the end: the collector need not look through it again and again.

    A request makes some thousand objects and few cycles, so that it need not look at the new ones so often either.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 10, 10)


class _Server(uvicorn.Server):
    """uvicorn without its own signal handlers: stopping has an order here."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


def accept(server: uvicorn.Server, listener: socket.socket, context: ssl.SSLContext, most: int) -> Listener:
    """Accept connections for ``server``, at most ``most`` at once."""
    loop = asyncio.get_running_loop()
    return Listener(
        listener,
        Connections(most),
        lambda state: BoundedHTTP(server.config, server.server_state, state, loop),
        context,
    )


def _server(app: Application, *, drain_s: int) -> _Server:
    config = uvicorn.Config(
        app,
        loop="none",
        http=BoundedHTTP,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=drain_s,
    )
    return _Server(config)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise ConfigurationError(
            "cannot listen", found=error.strerror, where=f"{host}:{port}", code="gateway.settings"
        ) from error
    return listener


@contextlib.contextmanager
def _operator_socket(path: Path) -> Iterator[socket.socket]:
    """A Unix socket that only its owner can open, gone when the gateway ends."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.fchmod(listener.fileno(), 0o600)
        with reachable_address(path) as address:
            listener.bind(address)
        listener.listen(64)
        yield listener
    except OSError as error:
        raise ConfigurationError(
            "cannot make the operator's socket", found=error.strerror, code="gateway.settings"
        ) from error
    finally:
        listener.close()
        path.unlink(missing_ok=True)


def _stop_on_signals() -> asyncio.Event:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def _started(
    public: uvicorn.Server, operator: uvicorn.Server, tasks: Sequence[asyncio.Task[None]]
) -> None:
    while not (public.started and operator.started):
        for task in tasks:
            if task.done():
                task.result()
                raise ConfigurationError("the server did not start", code="gateway.settings")
        await asyncio.sleep(0.005)


@contextlib.contextmanager
def _announced(
    settings: Settings, service: Service, listener: socket.socket, tls: TLSIdentity, ready: int | None
) -> Iterator[None]:
    """Say where the gateway is, on the ready descriptor and in a file, while it is there."""
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    line = json.dumps(
        {
            "url": f"https://{shown}:{port}",
            "config": service.config.digest,
            "keyset": service.keyset.digest,
            "spki": tls.spki,
            "pid": os.getpid(),
        }
    )
    path = settings.store / STATE_FILE
    unfinished = path.with_suffix(".new")
    unfinished.write_text(line + "\n", "ascii")
    unfinished.chmod(0o644)
    unfinished.replace(path)
    if ready is None:
        sys.stderr.write(
            f"affiant gateway on https://{shown}:{port} ({service.config.cls.upper()} platform)\n"
        )
    else:
        with contextlib.suppress(BrokenPipeError), open(ready, "wb") as file:  # the launcher may have gone
            file.write(line.encode("ascii") + b"\n")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


async def _every_second(service: Service, work: Callable[[Service], Awaitable[None]]) -> None:
    """Do ``work`` once a second, for as long as records can be made durable."""
    while True:
        await asyncio.sleep(1.0)
        try:
            await work(service)
        except JournalUnavailable as error:
            _log.error("no record can be made durable: %s", error)
            return
        except Exception as error:  # noqa: BLE001 - leases and epochs go on after a mistake of ours
            code = getattr(error, "code", "")
            _log.error("%s failed: %s %s", work.__name__, type(error).__name__, code)


async def _epochs(service: Service) -> None:
    service.closing.epoch_if_due(seconds=time.monotonic())


async def _unrecorded(service: Service) -> None:
    if count := service.refusals.take_count():
        _log.warning("%d refused requests of unknown callers have no record", count)


async def _tools(service: Service) -> None:
    if service.tools is not None:
        service.tools.sweep(
            {session.id for session in service.sessions if session.state is SessionState.OPEN}
        )


async def _leases(service: Service) -> None:
    await service.closing.sweep()


def _read_settings(descriptor: int) -> Settings:
    with open(descriptor, "rb") as file:
        data = file.read(_MAX_SETTINGS + 1)
    if len(data) > _MAX_SETTINGS:
        raise ConfigurationError(
            "the settings are too large", expected=f"at most {_MAX_SETTINGS} bytes", code="gateway.settings"
        )
    return parse_settings(data)


def _within(descriptors: int, connections: int) -> int:
    """As many connections as half of the ``descriptors`` of a process allow: journal and upstreams need some too."""
    return connections if descriptors == resource.RLIM_INFINITY else min(connections, descriptors // 2)


def _descriptors(sessions: int, connections: int) -> int:
    """How many descriptors this process may have; for more ``sessions`` than usual up to two for each connection.

    Raises:
        ``gateway.settings``: fewer than the connections, half of which those sessions keep open.
    """
    may, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if sessions <= SESSIONS_MAX:
        return may
    wanted = 2 * connections
    if may != resource.RLIM_INFINITY and may < wanted:
        may = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
        if may < connections:
            raise ConfigurationError(
                "too few open files are allowed for so many sessions",
                expected=f"at least {connections}",
                found=may,
                where="--sessions",
                hint=f"ulimit -Hn {wanted}",
                code="gateway.settings",
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (may, most))
    return may


def _now() -> datetime:
    return datetime.now(UTC)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m affiant.gateway.process.server", description="The gateway's server process."
    )
    parser.add_argument("--td-fd", type=int, required=True, help="descriptor of the TD to run in")
    parser.add_argument("--settings-fd", type=int, required=True, help="descriptor of the settings document")
    parser.add_argument("--ready-fd", type=int, help="descriptor that gets one line of JSON when serving")
    parser.add_argument("--decisions-fd", type=int, help="descriptor of a decision log")
    parser.add_argument(
        "--decisions-link-fd", type=int, help="descriptor that the log's next files come over"
    )
    options = parser.parse_args(arguments)
    logging.basicConfig(format="affiant gateway: %(message)s", level=logging.WARNING)
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # what it reports, records say
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    try:
        confine()
        settings = _read_settings(options.settings_fd)
        settings = replace(
            settings,
            build=image_digest(Image.GATEWAY),
            connections_max=_within(
                _descriptors(settings.sessions_max, settings.connections_max), settings.connections_max
            ),
        )
        decisions = None if options.decisions_fd is None else DecisionFile(options.decisions_fd)
        link = None if options.decisions_link_fd is None else socket.socket(fileno=options.decisions_link_fd)
        with (
            SimulatedTD(options.td_fd) as source,
            hold_store(settings.store),
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            runner.run(
                serve(settings, source, ready=options.ready_fd, decisions=decisions, next_decisions=link)
            )
    except AffiantError as error:
        sys.stderr.write(f"affiant: refused: {printable(str(error))} [{error.code}]\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
