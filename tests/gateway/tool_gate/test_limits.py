"""Limits of calls at the tool gate: what has no room is refused whole, before anything goes to a server."""

from __future__ import annotations

import pytest
from tests.gateway.in_process import InProcess
from tests.gateway.session_client import SessionClient
from tests.gateway.tool_gate.conftest import Agent

from affiant.attestation.simulated.served.client import PlatformClient


@pytest.mark.parametrize(
    ("sections", "code"),
    [
        ("tools: [{name: add, server: web, rate: 3/h}]", "limit_tool_rate"),
        ("tools: [{name: add, server: web}], limits: {tool_calls: 3}", "limit_tool_calls"),
    ],
)
def test_calls_beyond_a_limit_reach_no_server(
    gated: InProcess, platform: PlatformClient, sections: str, code: str
) -> None:
    profile = f"agent_configs: {{tester: {{{sections}}}}}".encode()
    agent = Agent(SessionClient.start(gated, platform, profile=profile))
    call = {
        "jsonrpc": "2.0",
        "method": "tools/call",
        "params": {"name": "add", "arguments": {"a": 1, "b": 2}},
    }
    assert agent.text("add", a=1, b=2) == "3"
    batch = agent.post([{**call, "id": f"b{number}"} for number in range(3)]).json()
    assert {answer["error"]["data"]["code"] for answer in batch} == {code}, (
        "three have no room, so none is made"
    )
    assert [agent.text("add", a=1, b=2) for _ in range(2)] == ["3", "3"]
    answer = agent.call("add", a=1, b=2)
    assert answer["error"]["data"]["code"] == code
    assert ("retry_after_s" in answer["error"]["data"]) == ("rate" in code)
    records = agent.records()
    refusals = [record for record in records if record["kind"] == "refusal"]
    assert [(record["rsn"], record["pol"]["dec"]) for record in refusals] == [(code, "deny")] * 2
    assert sum(record.get("ph") == "intent" for record in records) == 3
