"""Two real servers of tools, one over HTTP and one as a command, behind a gateway in the test's process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.in_process import InProcess, in_process
from tests.gateway.session_client import Answer, SessionClient

from affiant.attestation.encoding.binary_text import from_b64u
from affiant.attestation.encoding.canonical import parse_object
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.statements.gateway_config import MCPServerConfig

SERVED = Path(__file__).with_name("served.py")
PROFILE = b"""
agent_configs:
  tester:
    tools:
      - {name: add, server: web, args: {a: {max: 100}, b: any}}
      - {name: secret_of, server: web}
      - {name: slow, server: web}
      - {name: fails, server: web}
      - {name: large, server: web}
      - {name: asks, server: web}
      - {name: missing, server: down}
"""
ON_COMMAND = b"""
agent_configs:
  tester:
    tools:
      - {name: add, server: local}
      - {name: count, server: local}
      - {name: change, server: local}
      - {name: ends, server: local}
"""
"""The same server as a command: its process takes a second to start."""
SECRET = "s3cr3t-Value-with-chars-0123456789"


@contextmanager
def served_over_http() -> Iterator[str]:
    pytest.importorskip("mcp", reason="mcp is not installed: make setup")
    with subprocess.Popen(
        [sys.executable, str(SERVED), "http"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TOKEN": SECRET},
    ) as child:
        assert child.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(child.stdout.readline())}/mcp"
        finally:
            child.kill()


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    with served_over_http() as url:
        yield url


@pytest.fixture(scope="module")
def gated(
    platform: PlatformClient, web: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[InProcess]:
    from affiant.gateway.tool_gate.path_copies import folder_of_copies
    from affiant.gateway.tool_servers.stdio_host import served_commands
    from affiant.secrets.names.value import SecretValue

    home = tmp_path_factory.mktemp("gated")
    store = home / "gateway"
    store.mkdir(mode=0o700)
    folder = home / "folder"
    folder.mkdir()
    servers = (
        MCPServerConfig(id="web", url=web, timeout_s=1),
        MCPServerConfig(
            id="local",
            command=(sys.executable, str(SERVED), "stdio"),
            env=(("TOKEN", "local:TOKEN"),),
            folders=(str(folder),),
            timeout_s=5,
        ),
        MCPServerConfig(id="down", url="http://127.0.0.1:1/mcp"),
    )
    with (
        served_commands(servers, {"local": {"TOKEN": SECRET}}, home=home, store=store, user=None),
        folder_of_copies(user=None, random_bytes=os.urandom) as copies,
        in_process(
            platform,
            store,
            servers=servers,
            mcp_secrets=(SecretValue(SECRET.encode()),),
            path_copies=copies,
        ) as inside,
    ):
        yield inside


class Agent:
    """A session that asks for tools."""

    def __init__(self, session: SessionClient) -> None:
        self.session = session
        self._next = 0

    def post(self, body: object, **headers: str) -> Answer:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.session.ask(
            "POST", "/mcp", data, content_type="application/json", headers=headers, counted=True
        )

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        self._next += 1
        return self.post({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params}).json()

    def call(self, name: str, /, **arguments: object) -> dict[str, Any]:
        return self.ask("tools/call", name=name, arguments=arguments)

    def text(self, name: str, /, **arguments: object) -> str:
        return self.call(name, **arguments)["result"]["content"][0]["text"]

    def refused(self, name: str, /, **arguments: object) -> str:
        return self.call(name, **arguments)["error"]["data"]["code"]

    def records(self) -> list[dict[str, Any]]:
        """What the gateway has signed of this session, as (kind, payload with what is disclosed)."""
        found = []
        for jti in list(self.session.gateway.service.sessions.by_id(self.session.id)._receipts):  # type: ignore[attr-defined]
            text = self.session.gateway.service.sessions.by_id(self.session.id).receipt(jti)  # type: ignore[attr-defined]
            found.append(parse_object(from_b64u(text.split(".")[1])))
        return [record for record in found if record["kind"] != "session-start"]


@pytest.fixture
def agent(gated: InProcess, platform: PlatformClient) -> Agent:
    return Agent(SessionClient.start(gated, platform, profile=PROFILE))


@pytest.fixture
def on_command(gated: InProcess, platform: PlatformClient) -> Agent:
    return Agent(SessionClient.start(gated, platform, profile=ON_COMMAND))
