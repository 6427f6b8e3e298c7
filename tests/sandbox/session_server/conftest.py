"""What tests of the HTTP server share: a real server, an OpenID issuer, and clients of its callers."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from tests.sandbox.conftest import Machine, made_machine

PROFILES = """agent_configs:
  writer:
    tools: [read_file, write_file]
    filesystem_access: "read-write:/workspace"
    network_egress: denied
    secrets_access: []
    ports: [8080]
"""


class Issuer:
    """An OpenID issuer on this machine, with one key."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        public = {**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self._key.public_key())), "kid": "k1"}
        documents = {"/keys": {"keys": [public]}}

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = documents.get(self.path)
                self.send_response(404 if found is None else 200)
                self.end_headers()
                self.wfile.write(json.dumps(found).encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        documents["/.well-known/openid-configuration"] = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def token(self, subject: str, **more: object) -> str:
        now = int(time.time())
        claims = {"iss": self.url, "aud": "affiant", "sub": subject, "iat": now, "exp": now + 3600, **more}
        return jwt.encode(claims, self._key, "ES256", headers={"kid": "k1"})


@dataclass
class Served:
    """A server that runs, and who may call it."""

    machine: Machine
    issuer: Issuer
    options: tuple[str, ...]
    process: subprocess.Popen[bytes]
    url: str

    def client(self, subject: str = "alice") -> httpx.Client:
        token = self.issuer.token(subject)
        headers = {"authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, trust_env=False)

    def restart(self, sent: int = signal.SIGTERM) -> None:
        """End the server, and start it again at the same address."""
        self.process.send_signal(sent)
        assert self.process.wait(20) == (0 if sent == signal.SIGTERM else -sent)
        self.process, self.url = started(
            self.machine, ("--listen", self.url.removeprefix("http://"), *self.options)
        )


def started(machine: Machine, options: tuple[str, ...]) -> tuple[subprocess.Popen[bytes], str]:
    command = [sys.executable, "-m", "affiant", "session", "serve", "--home", str(machine.home), *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, cwd="/")
    machine.started.append(process)
    assert process.stderr is not None
    assert select.select([process.stderr], [], [], 60)[0]
    line = process.stderr.readline().decode()
    assert line.startswith("affiant: sessions at http"), line + process.stderr.read().decode()
    return process, line.split()[-1]


@pytest.fixture(scope="module")
def place(isolation: str, release: None) -> Iterator[Machine]:
    """A state folder whose services run for all tests of a module."""
    with made_machine(isolation) as made:
        (made.folder / "profiles.yaml").write_text(PROFILES)
        made.keep_services()
        yield made


@pytest.fixture(scope="module")
def served(place: Machine) -> Iterator[Served]:
    """A server whose callers are alice and bob."""
    issuer = Issuer()
    options = (
        *("--profile", str(place.folder / "profiles.yaml"), "--min-isolation", place.isolation),
        *("--oidc-issuer", issuer.url, "--oidc-audience", "affiant"),
        *("--oidc-subject", "alice", "--oidc-subject", "bob", "--max-ttl", "1000", "--sessions-each", "3"),
    )
    process, url = started(place, ("--listen", "127.0.0.1:0", *options))
    made = Served(place, issuer, options, process, url)
    yield made
    made.process.terminate()
    assert made.process.wait(20) == 0
    issuer.server.shutdown()
    issuer.server.server_close()


@pytest.fixture
def alice(served: Served) -> Iterator[httpx.Client]:
    with served.client() as client:
        before = {each["session"] for each in client.get("/v1/sessions").json()["sessions"]}
        yield client
        end_all(client, before)


def end_all(client: httpx.Client, kept: AbstractSet[str] = frozenset()) -> None:
    """Stop each session of a caller that runs, but ``kept``."""
    for each in client.get("/v1/sessions").json()["sessions"]:
        if each["state"] == "running" and each["session"] not in kept:
            assert client.post(f"/v1/sessions/{each['session']}/stop").status_code == 200


@pytest.fixture(scope="module")
def module_session(served: Served) -> Iterator[str]:
    """One session of alice's, for tests that leave it as it was."""
    with served.client() as client:
        made = client.post("/v1/sessions", json={"agent": "writer", "ttl": 600})
        assert made.status_code == 201, made.text
        yield made.json()["session"]
        client.post(f"/v1/sessions/{made.json()['session']}/stop")
