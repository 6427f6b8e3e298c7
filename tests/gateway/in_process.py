"""A gateway inside of the test's process, for what needs a clock that the test sets or a client it controls.

The service, its journal, its keys and its TD are the real ones; only the socket is missing: requests are handed
to the ASGI application directly.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from cryptography.hazmat.primitives.asymmetric import ec
from tests.gateway.session_client import Answer, Gateway

from affiant.attestation.release.boot import Image
from affiant.attestation.release.manifest import Release, reference_values, write_release
from affiant.attestation.simulated.served.client import PlatformClient, SimulatedTD
from affiant.attestation.statements.gateway_config import (
    DEV_ECHO,
    LOCAL_ISSUER,
    MCPServerConfig,
    UpstreamConfig,
    local_log_origin,
    make_gateway_config,
)
from affiant.attestation.tdx.appraise.reference import parse_reference_values
from affiant.gateway.config.config import Settings
from affiant.gateway.process.server import gateway_app
from affiant.gateway.service.boot import Ambient, booted
from affiant.gateway.service.service import Service
from affiant.gateway.store.journal import hold_store
from affiant.gateway.upstream.http1 import Timeouts
from affiant.steady_clock import SteadyClock

T = TypeVar("T")
SPKI = "A" * 43


@dataclass
class Clock:
    """Time that a test can move."""

    offset: timedelta = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.offset


@cache
def release_of_the_tree() -> Release:
    """The release manifest of this very tree, written: what the platform will measure."""
    return write_release()


def settings_for(
    platform: PlatformClient,
    store: Path,
    *,
    upstreams: Sequence[UpstreamConfig] = (DEV_ECHO,),
    body_max: int = 8 << 20,
    policy: str | None = None,
    authorities: Sequence[ec.EllipticCurvePublicKey] = (),
    servers: Sequence[MCPServerConfig] = (),
    **more: object,
) -> Settings:
    release = release_of_the_tree()
    reference = parse_reference_values(reference_values(release, platform.root()))
    return Settings(
        **{
            "store": store,
            "host": "127.0.0.1",
            "port": 0,
            "config": make_gateway_config(
                iss=LOCAL_ISSUER,
                cls="simulated",
                origin=local_log_origin(reference.roots),
                reference=reference.digest,
                upstreams=upstreams,
                body_max=body_max,
                witnesses=policy,
                erasure_authorities=authorities,
                mcp_servers=servers,
            ),
            "reference": reference,
            "collateral": platform.collateral(),
            "boot_log": platform.boot_log(Image.GATEWAY),
            "build": release.images[Image.GATEWAY].digest,
            "timeouts": Timeouts(connect=2, head=2, idle=2),
            **more,
        }
    )


@dataclass
class InProcess(Gateway):
    """The same interface as a gateway behind a socket."""

    loop: asyncio.AbstractEventLoop = field(kw_only=True)
    service: Service = field(kw_only=True)
    clock: Clock = field(kw_only=True)

    def __post_init__(self) -> None:
        self.app = gateway_app(self.service)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def ask(
        self, method: str, target: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Answer:
        return self.run(asgi(self.app, method, target, body, headers or {}))


async def asgi(
    app: Callable[..., Coroutine[Any, Any, None]],
    method: str,
    target: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    send: Callable[[dict], Coroutine[Any, Any, None]] | None = None,
    gone: asyncio.Event | None = None,
    pieces: Sequence[bytes] | None = None,
    ends: bool = True,
    length: int | None = None,
) -> Answer:
    """One request. ``send`` sees every message first; ``gone``: when the client closes its connection.

    ``pieces``: the body as it arrives; unless it ``ends``, more would come. ``length``: Content-Length, if any.
    """
    gone = gone or asyncio.Event()
    sent: list[dict] = []
    if pieces is None:
        pieces, length = (body,), len(body)
    pending = [{"type": "http.request", "body": piece, "more_body": True} for piece in reversed(pieces)]
    if ends:
        pending[0]["more_body"] = False
    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "https",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [
            (b"host", b"gateway"),
            *([] if length is None else [(b"content-length", str(length).encode())]),
            *((name.lower().encode(), value.encode()) for name, value in headers.items()),
        ],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }

    async def receive() -> dict:
        if pending:
            return pending.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def take(message: dict) -> None:
        if send is not None:
            await send(message)
        sent.append(message)

    await app(scope, receive, take)
    start = sent[0] if sent else {"status": 0, "headers": []}
    data = b"".join(message.get("body", b"") for message in sent[1:])
    return Answer(start["status"], {n.decode().lower(): v.decode() for n, v in start["headers"]}, data)


class Held:
    """Work beside the event loop that takes until the test lets it end."""

    def __init__(self, work: Callable[..., object]) -> None:
        self._work = work
        self.begun = threading.Event()
        self.end = threading.Event()

    def __call__(self, *arguments: str) -> object:
        self.begun.set()
        assert self.end.wait(30)
        return self._work(*arguments)


@contextmanager
def in_process(
    platform: PlatformClient, store: Path, *, steady: bool = False, **more: object
) -> Iterator[InProcess]:
    """A booted service on a loop of its own; its chain is not ended, unless the test does it.

    ``steady``: the clock that a test moves is the machine's, as a served gateway sees it.
    """
    settings = settings_for(platform, store, **more)
    clock, started, stop, failure = Clock(), threading.Event(), asyncio.Event(), []
    holder: dict[str, Any] = {}

    async def main() -> None:
        td = platform.create_td(image=Image.GATEWAY, mrconfigid=settings.config.mrconfigid)
        with SimulatedTD(td) as source:
            ambient = Ambient(source, SPKI, clock, secrets.token_bytes)
            if steady:
                own = SteadyClock(clock, time.monotonic)
                ambient = replace(ambient, clock=own, require_clock=own.require)
            async with booted(settings, ambient) as service:
                holder.update(service=service, loop=asyncio.get_running_loop())
                started.set()
                await stop.wait()

    def run() -> None:
        try:
            with hold_store(store):
                asyncio.run(main())
        except BaseException as error:
            failure.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert started.wait(30)
    if failure:
        thread.join()
        raise failure[0]
    try:
        yield InProcess("https://in-process", SPKI, clock=clock, **holder)
    finally:
        holder["loop"].call_soon_threadsafe(stop.set)
        thread.join(30)
    if failure:
        raise failure[0]
