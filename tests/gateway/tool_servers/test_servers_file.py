"""The operator's file of tool servers: strict, and bound in the configuration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.raising import raises_code

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.statements.gateway_config import (
    DEV_ECHO,
    GatewayConfig,
    MCPServerConfig,
    make_gateway_config,
    parse_gateway_config,
)
from affiant.errors import AffiantError
from affiant.gateway.tool_servers.servers_file import read_tool_servers


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "tools.json"
    path.write_text(text)
    return path


def made(*servers: MCPServerConfig) -> GatewayConfig:
    return make_gateway_config(
        iss="urn:x",
        cls="simulated",
        origin="log.invalid",
        reference="sha256:" + "0" * 64,
        upstreams=(DEV_ECHO,),
        mcp_servers=servers,
    )


def test_servers_are_read_and_stand_in_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"a certificate")
    docs = {"url": "https://docs.invalid/mcp", "ca": "ca.pem", "header": "Authorization", "key": "local:DOCS"}
    local = {"command": ["k8s-mcp", "--stdio"], "env": {"B": "local:B", "A": "local:A"}, "timeout_s": 5}
    local["folders"] = ["/srv/manifests", "/srv/charts"]
    text = json.dumps({"mcp_servers": {"k8s": local, "docs": docs}})
    found = read_tool_servers(written(tmp_path, text), Path.read_bytes)
    assert found.roots == {"docs": b"a certificate"}
    assert [server.id for server in found.configs] == ["docs", "k8s"]
    bound = parse_gateway_config(made(*found.configs).raw)
    assert bound.mcp_servers == found.configs
    assert bound.mcp_servers[0].roots == (sha256_name(b"a certificate"),)
    assert bound.mcp_servers[1].env == (("A", "local:A"), ("B", "local:B"))
    assert bound.mcp_servers[1].folders == ("/srv/manifests", "/srv/charts")
    assert made().digest != bound.digest
    assert b"mcp_servers" not in made().raw


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"mcp_servers": {}}',
        '{"mcp_servers": []}',
        '{"mcp_servers": {"a": 5}}',
        '{"mcp_servers": {"a": {"url": "https://x/mcp"}}, "other": 1}',
        '{"mcp_servers": {"a": {"url": "https://x/mcp"}, "a": {"url": "https://y/mcp"}}}',
        '{"mcp_servers": {"a": {"uri": "https://x/mcp"}}}',
        '{"mcp_servers": {"a": {"command": "rm -rf /"}}}',
        '{"mcp_servers": {"a": {"command": ["x"], "env": ["A=B"]}}}',
        '{"mcp_servers": {"a": {"command": ["x"], "folders": "/srv"}}}',
    ],
)
def test_any_other_file_is_refused(tmp_path: Path, text: str) -> None:
    with raises_code("gateway.settings"):
        read_tool_servers(written(tmp_path, text), Path.read_bytes)
    with raises_code("gateway.settings"):
        read_tool_servers(tmp_path / "absent.json", Path.read_bytes)


@pytest.mark.parametrize(
    "server",
    [
        MCPServerConfig(id="a"),
        MCPServerConfig(id="a", url="https://x/mcp", command=("x",)),
        MCPServerConfig(id="A", url="https://x/mcp"),
        MCPServerConfig(id="a", url="ftp://x/mcp"),
        MCPServerConfig(id="a", url="https://x/mcp", env=(("A", "local:A"),)),
        MCPServerConfig(id="a", url="https://x/mcp", folders=("/srv",)),
        MCPServerConfig(id="a", command=("x",), folders=("/srv/../etc",)),
        MCPServerConfig(id="a", command=("x",), folders=("srv",)),
        MCPServerConfig(id="a", url="https://x/mcp", key="local:A"),
        MCPServerConfig(id="a", url="https://x/mcp", header="Authorization"),
        MCPServerConfig(id="a", url="http://x/mcp", header="Authorization", key="local:A"),
        MCPServerConfig(id="a", url="http://x/mcp", roots=("sha256:" + "0" * 64,)),
        MCPServerConfig(id="a", url="https://x/mcp", header="X: y\r\nZ", key="local:A"),
        MCPServerConfig(id="a", command=("x",), key="local:A", header="X"),
        MCPServerConfig(id="a", command=("x",), env=(("A=B", "local:A"),)),
        MCPServerConfig(id="a", command=("x",), timeout_s=0),
        MCPServerConfig(id="a", command=("x",), concurrent=1000),
    ],
)
def test_a_server_that_is_neither_or_both_or_unsafe_is_refused(server: MCPServerConfig) -> None:
    with pytest.raises(AffiantError):
        made(server)


def test_two_servers_of_one_id_are_refused() -> None:
    server = MCPServerConfig(id="a", url="https://x/mcp")
    with pytest.raises(AffiantError, match="one id"):
        made(server, server)


def test_the_example_is_such_a_file() -> None:
    example = Path(__file__).parents[3] / "examples" / "tools.json"
    assert [server.id for server in read_tool_servers(example, Path.read_bytes).configs] == ["docs", "time"]
    assert made(*read_tool_servers(example, Path.read_bytes).configs).mcp_servers
