"""``sessions.affiant.internal``: what is no request of it is denied and recorded; messages are read in one way only."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.sandbox.egress.conftest import Reply, World, answered, closed

from affiant.attestation.schema.trace_context import TraceContext
from affiant.policy.canonical.tool_messages import CallParams
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.sandbox.egress.http.errors import EgressDenied
from affiant.sandbox.egress.sessions_route import ToolAnswer

HOST = "sessions.affiant.internal"
PROFILE = "network_egress: denied"


class Tools:
    """Carries out nothing, and keeps what it was asked."""

    def __init__(self, *_: object) -> None:
        self.calls: list[tuple[CallParams, TraceContext | None]] = []
        self.cancelled = 0
        self.started = asyncio.Event()
        self.policies: list[CompiledPolicy] = []

    def listed(self) -> Sequence[Mapping[str, object]]:
        return [{"name": "session_list", "description": "x", "inputSchema": {"type": "object"}}]

    async def call(self, params: CallParams, trace: TraceContext | None) -> ToolAnswer:
        self.calls.append((params, trace))
        if params.name == "wait":
            self.started.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        if params.name == "no":
            denied = EgressDenied("not allowed", reason="tool_not_listed", rules=())
            return ToolAnswer.of_error(denied, record="r" * 22)
        return ToolAnswer(b'{"content":[],"isError":false}', None, "i" * 22)

    def restrict(self, policy: CompiledPolicy) -> None:
        self.policies.append(policy)


@pytest.fixture
def tools(world: World) -> Tools:
    made = Tools()
    world.session_tools = lambda *_: made
    return made


def posted(
    body: bytes,
    *fields: bytes,
    method: str = "POST",
    path: str = "/mcp",
    kind: bytes = b"application/json",
    form: str = f"http://{HOST}",
) -> bytes:
    lines = [
        f"{method} {form}{path} HTTP/1.1".encode(),
        b"Host: " + HOST.encode(),
        b"Content-Type: " + kind,
        b"Content-Length: %d" % len(body),
        *fields,
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def message(method: str, params: object = None, **more: object) -> bytes:
    members = {"jsonrpc": "2.0", "id": 1, "method": method, **more}
    return json.dumps(members if params is None else {**members, "params": params}).encode()


def of(reply: object) -> tuple[int, Any]:
    assert isinstance(reply, Reply)
    return reply.status, json.loads(reply.body) if reply.body else None


def test_a_client_that_knows_no_proxy_reaches_it_by_its_name(world: World, tools: Tools) -> None:
    asked = posted(message("ping"), form="")
    reply = of(world.run(PROFILE, lambda box: box.plain(asked, to=box.own_hosts)))
    assert reply == (200, {"jsonrpc": "2.0", "id": 1, "result": {}})


def test_without_may_start_the_name_serves_nothing_there_either(world: World) -> None:
    asked = posted(message("ping"), form="")
    status, body = of(world.run(PROFILE, lambda box: box.plain(asked, to=box.own_hosts)))
    assert (status, body["error"]["code"]) == (403, "start_not_listed")
    assert world.chain.kinds == ["refusal.start_not_listed"]


def test_the_handshake_the_list_and_a_call_are_answered(world: World, tools: Tools) -> None:
    async def scenario(box):
        return [
            of(await box.plain(posted(body)))
            for body in (
                message("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}}),
                b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
                message("ping"),
                message("tools/list"),
                message("tools/call", {"name": "session_list", "arguments": {"a": 1}}),
                message("tools/call", {"name": "no"}, id="x"),
            )
        ]

    greeting, noted, ping, listed, called, denied = world.run(PROFILE, scenario)
    assert greeting[1]["result"]["protocolVersion"] == "2025-06-18"
    assert greeting[1]["result"]["serverInfo"]["name"] == "affiant-sessions"
    assert noted == (202, None)
    assert ping == (200, {"jsonrpc": "2.0", "id": 1, "result": {}})
    assert [tool["name"] for tool in listed[1]["result"]["tools"]] == ["session_list"]
    assert called == (200, {"jsonrpc": "2.0", "id": 1, "result": {"content": [], "isError": False}})
    assert denied[1]["id"] == "x"
    assert denied[1]["error"]["data"] == {
        "code": "egress.denied", "reason": "tool_not_listed", "receipt": "r" * 22,
    }  # fmt: skip
    assert [params.name for params, _ in tools.calls] == ["session_list", "no"]
    assert world.chain.records == []  # what a call's record is, is decided behind the route


def test_a_trace_comes_with_the_call(world: World, tools: Tools) -> None:
    field = b"traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    world.run(PROFILE, lambda box: box.plain(posted(message("tools/call", {"name": "a"}), field)))
    ((_, trace),) = tools.calls
    assert trace is not None and trace.to_json()["s"] == "00f067aa0ba902b7"


def test_an_agent_that_may_start_nothing_gets_403_and_a_record(world: World) -> None:
    status, body = of(world.run(PROFILE, lambda box: box.plain(posted(message("tools/list")))))
    assert (status, body["error"]["code"]) == (403, "start_not_listed")
    assert world.chain.kinds == ["refusal.start_not_listed"]
    assert world.chain.records[0].jti == body["record"]


@pytest.mark.parametrize(
    "request_",
    [
        posted(b"", method="GET"),
        posted(b"", method="DELETE"),
        posted(message("ping"), path="/"),
        posted(message("ping"), path="/mcp/"),
        posted(message("ping"), path="/mcp?x=1"),
        posted(message("ping"), path="/v1/sessions"),
        posted(message("ping"), kind=b"text/plain"),
        posted(message("ping"), kind=b"application/x-www-form-urlencoded"),
    ],
)
def test_every_other_request_is_denied_and_recorded(world: World, tools: Tools, request_: bytes) -> None:
    status, body = of(world.run(PROFILE, lambda box: box.plain(request_)))
    assert (status, body["error"]["code"]) == (403, "sessions_path")
    assert world.chain.kinds == ["refusal.sessions_path"]
    assert tools.calls == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"\xff",
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":1,"result":{}}',
        b"[" + message("tools/call", {"name": "a"}) + b"]",
        message("tools/call", {"name": "a", "task": {}}),
        message("tools/call", {"name": 1}),
        message("tools/call", {"name": "a", "arguments": []}),
        message("notifications/cancelled"),
        b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"a"}}',
        message("tools/list", {"cursor": "x"}),
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"}",
    ],
)
def test_a_body_with_another_reading_is_an_error_and_no_call(world: World, tools: Tools, body: bytes) -> None:
    status, found = of(world.run(PROFILE, lambda box: box.plain(posted(body))))
    assert (status, found["error"]["data"]["code"]) == (400, "request.malformed")
    assert tools.calls == []


def test_methods_that_are_not_judged_are_refused(world: World, tools: Tools) -> None:
    async def scenario(box):
        methods = ("resources/list", "sampling/createMessage", "completion/complete", "logging/setLevel")
        return [of(await box.plain(posted(message(method)))) for method in methods]

    found = world.run(PROFILE, scenario)
    assert [(status, body["error"]["code"]) for status, body in found] == [(200, -32601)] * 4


def test_a_version_that_is_not_known_is_an_error(world: World, tools: Tools) -> None:
    async def scenario(box):
        field = b"MCP-Protocol-Version: "
        return [
            of(await box.plain(posted(message("tools/list"), field + version)))[0]
            for version in (b"2025-11-25", b"1999-01-01", b"\xff")
        ]

    assert world.run(PROFILE, scenario) == [200, 400, 400]


def test_a_body_beyond_the_bound_is_refused_and_recorded(world: World, tools: Tools) -> None:
    body = message("tools/call", {"name": "a", "arguments": {"x": "y" * (300 << 10)}})
    status, _ = of(world.run(PROFILE, lambda box: box.plain(posted(body))))
    assert status == 413 and world.chain.kinds == ["refusal.egress.too_large"]
    assert tools.calls == []


def test_an_agent_that_leaves_ends_its_call(world: World, tools: Tools) -> None:
    async def scenario(box):
        reader, writer = await asyncio.open_connection(*box.address)
        writer.write(posted(message("tools/call", {"name": "wait"})))
        await asyncio.wait_for(tools.started.wait(), 5)
        await closed(writer)
        for _ in range(500):
            if tools.cancelled:
                return
            await asyncio.sleep(0.01)

    world.run(PROFILE, scenario)
    assert tools.cancelled == 1


@pytest.mark.parametrize("identifier", [7, "seven"])
def test_a_call_is_cancelled_by_its_id(world: World, tools: Tools, identifier: object) -> None:
    async def scenario(box):
        reader, writer = await asyncio.open_connection(*box.address)
        writer.write(posted(message("tools/call", {"name": "wait"}, id=identifier)))
        await asyncio.wait_for(tools.started.wait(), 5)
        for other in (8, "7", None, [7]):
            notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": other}}
            await box.plain(posted(json.dumps(notice).encode()))
        assert tools.cancelled == 0
        notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": identifier}}
        await box.plain(posted(json.dumps(notice).encode()))
        reply = of(await answered(reader))
        await closed(writer)
        return reply

    status, body = world.run(PROFILE, scenario)
    assert (status, body["error"]["data"]["reason"]) == (200, "cancelled")
    assert tools.cancelled == 1


def test_a_restricted_profile_reaches_the_tools(world: World, tools: Tools) -> None:
    async def scenario(box):
        box.proxy.restrict(box.proxy.forwarder)

    world.run(PROFILE, scenario)
    assert len(tools.policies) == 1
