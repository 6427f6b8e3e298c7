"""Without servers of tools, or without the SDK, the gateway is what it was; with one and not the other it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.gateway.in_process import in_process, settings_for
from tests.gateway.session_client import SessionClient
from tests.raising import raises_code

from affiant.__main__ import cli
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.statements.gateway_config import MCPServerConfig
from affiant.gateway.service.tool_offers import make_tool_offers

OF_THE_GATE = ("affiant.gateway.tool_gate.", "affiant.gateway.tool_servers.")


def test_the_gateway_needs_no_sdk_where_no_server_is_named() -> None:
    code = (
        "import sys; sys.modules['mcp'] = sys.modules['mcp_types'] = sys.modules['httpx2'] = None\n"
        "import affiant.gateway.process.server, affiant.gateway.process.launch\n"
        "import affiant.gateway.tool_servers.stdio_child"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_servers_without_the_sdk_are_refused_at_start(
    platform: PlatformClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = (MCPServerConfig(id="a", url="https://x.invalid/mcp"),)
    settings = settings_for(platform, tmp_path, servers=servers)
    for name in [name for name in sys.modules if name.startswith(OF_THE_GATE)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    with raises_code("gateway.settings", match=r"affiant\[mcp\]"):
        make_tool_offers(settings, seconds=lambda: 0.0, random_bytes=os.urandom)


def test_the_command_line_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps({"mcp_servers": {"a": {"url": "https://x.invalid/mcp"}}}))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    options = ["--home", str(tmp_path / "home"), "--mcp-servers", str(path)]
    shown = CliRunner().invoke(cli, ["gateway", "config", *options])
    assert shown.exit_code == 1
    assert "affiant[mcp]" in shown.output and "gateway.settings" in shown.output


def test_without_servers_there_is_no_gate(platform: PlatformClient, tmp_path: Path) -> None:
    plain = settings_for(platform, tmp_path)
    assert make_tool_offers(plain, seconds=lambda: 0.0, random_bytes=os.urandom) is None
    with in_process(platform, tmp_path / "store") as inside:
        session = SessionClient.start(inside, platform)
        body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
        answer = session.ask("POST", "/mcp", body, content_type="application/json", counted=True)
        assert answer.status == 404
        assert "affiant-receipt-id" not in answer.headers
