"""What is between a client and a model: our gateway, nginx, LiteLLM, or nothing. Each in its own control group.

nginx (``proxy_pass``, one worker, TLS) and LiteLLM's proxy (one worker, no database, one key) are found, not installed:
``apt-get install nginx-light``, and ``pip install 'litellm[proxy]'`` in a virtual environment of its own, which is
``$AFFIANT_LITELLM`` or ``~/.cache/affiant-benchmarks/litellm``. LiteLLM is asked over plain HTTP, to its advantage.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import secrets
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.gateway.conftest import serving_gateway, serving_platform
from tests.gateway.session_client import SessionClient

from affiant.attestation.records.proof import PROOF_HEADER
from benchmarks.control_group import ControlGroup, control_group, inside, proportional_bytes
from benchmarks.load import Response, Target, load
from benchmarks.paced_upstream import MODELS

__all__ = ["PROFILE_TOOLS", "Gateway", "Proxy", "proxies"]

TARGET: Final = "/v1/chat/completions"
_JSON: Final = "application/json"
SESSIONS: Final = 16
"""Connections are shared out among so many sessions: a proof's counter may be 64 behind the newest of its session."""
PROFILE_TOOLS: Final = tuple(f"tool_{number}" for number in range(20))
_PROFILE: Final = json.dumps(
    {"agent_configs": {"tester": {"filesystem_access": "read-write:/workspace", "tools": [*PROFILE_TOOLS]}}}
).encode()
_LITELLM: Final = Path(
    os.environ.get("AFFIANT_LITELLM", Path.home() / ".cache" / "affiant-benchmarks" / "litellm")
)
_STARTS_WITHIN_S: Final = 120.0
_NGINX: Final = """
daemon off; worker_processes 1; user root; pid {folder}/pid; error_log {folder}/errors;
events {{ worker_connections 4096; }}
http {{
    access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    keepalive_requests 10000000; client_body_buffer_size 1m;
    upstream model {{ server 127.0.0.1:{upstream}; keepalive 1024; keepalive_requests 10000000; }}
    server {{
        listen 127.0.0.1:{port} ssl backlog=1024;
        ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;
        location / {{
            proxy_pass http://model; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
        }}
    }}
}}
"""


@dataclass
class Proxy:
    """One of them, as it runs."""

    name: str
    target: Target
    group: ControlGroup
    key: str = ""
    """What it asks of its callers, where it does."""

    def ask(self, body: bytes, *, connections: int, each: int) -> tuple[list[Response], float, float]:
        """Send ``body`` so often on each connection: answers, seconds, and the processor seconds that it took."""
        requests = [[self.request(body, number) for number in range(connections)] for _ in range(each)]
        return load(self.target, list(zip(*requests, strict=True)), self.group.processor_seconds)

    def request(self, body: bytes, connection: int) -> bytes:
        """One request, head and all."""
        more = "".join(f"{name}: {value}\r\n" for name, value in self.headers(body, connection).items())
        head = f"POST {TARGET} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {_JSON}\r\n{more}"
        return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body

    def headers(self, body: bytes, connection: int) -> dict[str, str]:  # noqa: ARG002 - for a proof
        """What it sends beside."""
        return {"authorization": f"Bearer {self.key}"} if self.key else {}

    @property
    def memory(self) -> int:
        """Bytes that its processes hold, shared pages divided among them."""
        return sum(map(proportional_bytes, self.group.processes()))

    @property
    def written(self) -> int:
        """Bytes that its live processes have had written to disks."""
        return sum(map(_written_by, self.group.processes()))


@dataclass
class Gateway(Proxy):
    """Ours; the proofs are made as a supervisor makes them, before they are sent."""

    sessions: Sequence[SessionClient] = ()

    def headers(self, body: bytes, connection: int) -> dict[str, str]:
        """The proof of possession, for this body alone."""
        session = self.sessions[connection % len(self.sessions)]
        return {PROOF_HEADER: session.proof("POST", TARGET, body, content_type=_JSON, counted=True)}


@contextmanager
def proxies(folder: Path) -> Iterator[list[Proxy]]:
    """Ours first; then what this machine has of nginx and LiteLLM; last no proxy at all, with the upstream's group."""
    with ExitStack() as stack:
        groups = (stack.enter_context(control_group()) for _ in itertools.count())
        group, upstream = next(groups), _free_port()
        command = [sys.executable, "-m", "benchmarks.paced_upstream", str(upstream)]
        direct = Proxy("direct", Target(upstream), group)
        stack.enter_context(_running(command, group, upstream))
        found = [stack.enter_context(_gateway(folder, next(groups), upstream))]
        for start in (_nginx, _litellm):
            try:
                found.append(stack.enter_context(start(folder, next(groups), upstream)))
            except FileNotFoundError as error:
                print(f"not measured: {error.filename} is not installed", file=sys.stderr)
        yield [*found, direct]


@contextmanager
def _gateway(folder: Path, group: ControlGroup, upstream: int) -> Iterator[Proxy]:
    home, url = folder / "platform", f"http://127.0.0.1:{upstream}/v1"
    options = ("--upstream", url, "--upstream-concurrency", "1024")
    with serving_platform(home) as platform, ExitStack() as stack:
        with inside(group):
            running = stack.enter_context(serving_gateway(folder / "gateway", home, *options))
        key = X25519PrivateKey.generate()
        sessions = [
            SessionClient.start(running.gateway, platform, openings=key, profile=_PROFILE)
            for _ in range(SESSIONS)
        ]
        port = running.gateway.address[1]
        yield Gateway("ours", Target(port, _any_certificate()), group, sessions=sessions)


@contextmanager
def _nginx(folder: Path, group: ControlGroup, upstream: int) -> Iterator[Proxy]:
    place, port = folder / "nginx", _free_port()
    place.mkdir()
    certificate = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
    ]
    certificate += ["-subj", "/CN=localhost", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(certificate, cwd=place, check=True, capture_output=True)
    (place / "nginx.conf").write_text(_NGINX.format(folder=place, port=port, upstream=upstream))
    with _running([_found("nginx"), "-c", str(place / "nginx.conf")], group, port):
        yield Proxy("nginx", Target(port, _any_certificate()), group)


@contextmanager
def _litellm(folder: Path, group: ControlGroup, upstream: int) -> Iterator[Proxy]:
    place, port = folder / "litellm.yaml", _free_port()
    served = {"api_base": f"http://127.0.0.1:{upstream}/v1", "api_key": "none"}
    models = [
        {"model_name": name, "litellm_params": {"model": f"openai/{name}", **served}} for name in MODELS
    ]
    place.write_text(json.dumps({"model_list": models, "litellm_settings": {"telemetry": False}}))  # is YAML
    command = [_found(str(_LITELLM / "bin" / "litellm")), "--config", str(place), "--num_workers", "1"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    key = f"sk-{secrets.token_hex(32)}"  # without one it does not start
    settings = {"LITELLM_MASTER_KEY": key, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"}
    with _running(command, group, port, **settings):
        yield Proxy("LiteLLM", Target(port), group, key)


def _found(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise FileNotFoundError(2, "not installed", program)
    return found


@contextmanager
def _running(command: Sequence[str], group: ControlGroup, port: int, **environment: str) -> Iterator[None]:
    """A server, until the end of the block, from when it takes connections."""
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with inside(group):
        process = subprocess.Popen(command, env={**os.environ, **environment}, **silent)
    try:
        asyncio.run(_until_open(port, process))
        yield
    finally:
        process.terminate()
        process.wait(20)


async def _until_open(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _STARTS_WITHIN_S
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{process.args[0]} did not start") from error
            await asyncio.sleep(0.05)
        else:
            return writer.close()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _any_certificate() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _written_by(process: int) -> int:
    try:
        text = Path(f"/proc/{process}/io").read_text()
    except OSError:
        return 0
    return int(dict(line.split(": ") for line in text.splitlines())["write_bytes"])
