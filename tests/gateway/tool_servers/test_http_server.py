"""A server over HTTP: as the configuration pins it, bounded, with its key in one header and nothing ambient."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.raising import raises_code

from affiant.attestation.statements.gateway_config import MCPServerConfig
from affiant.gateway.tool_gate.results import MAX_RESULT
from affiant.gateway.upstream.openai_upstream import Credentials
from affiant.secrets.names.value import SecretValue

pytest.importorskip("mcp", reason="mcp is not installed: make setup")

from affiant.gateway.tool_gate.link import Link  # noqa: E402 - needs the SDK
from affiant.gateway.tool_servers.http_server import http_opener  # noqa: E402 - needs the SDK

Answer = Callable[[BaseHTTPRequestHandler, dict[str, Any]], None]
TOOL = {"name": "x", "description": "Does.", "inputSchema": {"type": "object"}}


def told(handler: BaseHTTPRequestHandler, body: bytes, *, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    for name, value in {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **headers,
    }.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def result(message: dict[str, Any], **members: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": members}).encode()


@contextmanager
def serving(listed: Answer) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A server that shakes hands, and answers a listing as the test wants."""
    seen: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append({name.lower(): value for name, value in self.headers.items()})
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if message["method"] == "initialize":
                info = {"name": "s", "version": "1"}
                told(
                    self,
                    result(
                        message, protocolVersion="2025-06-18", capabilities={"tools": {}}, serverInfo=info
                    ),
                )
            elif "id" not in message:
                told(self, b"", status=202)
            else:
                listed(self, message)

        def log_message(self, *_: object) -> None:
            """Nothing on the test's standard error."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def tools_of(url: str, credentials: Credentials | None = None) -> list[str]:
    async def work() -> list[str]:
        config = MCPServerConfig(id="s", url=url, timeout_s=3)
        link = Link(config, http_opener(config, credentials or Credentials()), seconds=lambda: 0.0)
        try:
            return [tool.name for tool in await link.tools()]
        finally:
            await link.close()

    return asyncio.run(work())


def test_a_listing_is_read_over_all_its_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")

    def listed(handler: BaseHTTPRequestHandler, message: dict[str, Any]) -> None:
        if message.get("params", {}).get("cursor") == "next":
            told(handler, result(message, tools=[{**TOOL, "name": "y"}]))
        else:
            told(handler, result(message, tools=[TOOL], nextCursor="next"))

    with serving(listed) as (url, seen):
        assert tools_of(url) == ["x", "y"]
    assert {head["accept-encoding"] for head in seen} == {"identity"}
    assert {head["user-agent"] for head in seen} == {"affiant-gateway"}


@pytest.mark.parametrize(
    "listed",
    [
        lambda handler, message: told(handler, result(message, tools=[TOOL], nextCursor="again")),
        lambda handler, message: told(handler, result(message, tools="x")),
        lambda handler, message: told(handler, b"not JSON"),
        lambda handler, message: told(handler, b"", status=500),
        lambda handler, message: told(handler, b"", status=307, Location="http://127.0.0.1:9/mcp"),
        lambda handler, message: told(handler, result(message, tools=[TOOL], pad="x" * (3 * MAX_RESULT))),
        lambda handler, message: told(handler, b"\x1f\x8b", Content_Encoding="gzip"),
        lambda handler, message: handler.connection.close(),
    ],
    ids=["endless", "no list", "no json", "500", "redirect", "too large", "encoded", "cut"],
)
def test_a_server_that_does_not_answer_as_mcp_says_serves_nothing(listed: Answer) -> None:
    with serving(listed) as (url, _), raises_code("tool.server_unavailable"):
        tools_of(url)


def test_a_server_that_is_not_there_serves_nothing() -> None:
    with raises_code("tool.server_unavailable"):
        tools_of("http://127.0.0.1:1/mcp")


def test_certificates_are_those_of_the_configuration_or_none() -> None:
    config = MCPServerConfig(id="s", url="https://127.0.0.1:1/mcp", roots=("sha256:" + "0" * 64,))
    with raises_code("gateway.settings"):
        http_opener(config, Credentials())
    key = Credentials(SecretValue(b"a-key-that-nobody-guesses-8f3a91"))
    plain = MCPServerConfig(id="s", url="https://127.0.0.1:1/mcp", header="X-Key", key="local:KEY")
    assert "8f3a91" not in repr(http_opener(plain, key))
