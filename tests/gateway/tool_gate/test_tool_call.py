"""Tools through the gate: two real servers, a real client, every call with a receipt, and everything else refused."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.gateway.bundles.test_bundles import with_openings
from tests.gateway.in_process import InProcess, asgi
from tests.gateway.inference.test_inference import receipt_of
from tests.gateway.session_client import SessionClient
from tests.gateway.tool_gate.conftest import ON_COMMAND, PROFILE, SECRET, Agent

from affiant.attestation.records.proof import PROOF_HEADER
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.verdict.trust_file import parse_trust_file, simulated_trust_file
from affiant.attestation.verdict.verdict import State
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.verify_bundle import verify_bundle
from affiant.policy.decision.compiled import CompiledPolicy

ROOT = Path(__file__).parents[3]
SHOWN = ["add", "asks", "fails", "large", "secret_of", "slow"]


def of_kind(agent: Agent, kind: str) -> list[dict[str, Any]]:
    return [record for record in agent.records() if record["kind"] == kind]


# -- a real client -----------------------------------------------------------------------------------------------------


def test_the_sdks_own_client_lists_and_calls(agent: Agent) -> None:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    class Proven(httpx2.AsyncBaseTransport):
        """What a supervisor's proxy does: the request with the session's proof."""

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            assert (request.method, request.url.path) == ("POST", "/mcp")
            names = ("mcp-protocol-version", "mcp-method", "mcp-name")
            headers = {name: request.headers[name] for name in names if name in request.headers}
            answer = await asyncio.to_thread(agent.post, await request.aread(), **headers)
            return httpx2.Response(answer.status, headers=dict(answer.headers), content=answer.body)

    async def work() -> None:
        async with httpx2.AsyncClient(transport=Proven()) as http:
            streams = streamable_http_client("http://gateway.affiant.internal/mcp", http_client=http)
            async with Client(streams) as client:  # probes a later version of MCP first, and falls back
                listed = await client.list_tools()
                assert [tool.name for tool in listed.tools] == SHOWN
                result = await client.call_tool("add", {"a": 1, "b": 2})
                assert result.structured_content == {"result": 3}
                with pytest.raises(Exception, match="does not allow"):
                    await client.call_tool("add", {"a": 101, "b": 2})

    asyncio.run(work())


# -- what is shown, and what is called ---------------------------------------------------------------------------------


def test_only_what_the_profile_allows_is_shown_and_nothing_but_what_is_pinned(agent: Agent) -> None:
    tools = agent.ask("tools/list")["result"]["tools"]
    assert [tool["name"] for tool in tools] == SHOWN
    assert {member for tool in tools for member in tool} == {"name", "description", "inputSchema"}
    (record,) = of_kind(agent, "tool")
    assert (record["pol"]["dec"], record["act"]["end"]) == ("redact", "complete")


def test_a_call_has_an_intent_before_it_and_an_outcome_after_it(agent: Agent) -> None:
    assert agent.text("add", a=1, b=2) == "3"
    intent, outcome = of_kind(agent, "tool")
    assert (intent["ph"], outcome["ph"], outcome["par"]) == ("intent", "outcome", [intent["jti"]])
    assert "cseq" not in intent["agt"]
    assert (outcome["agt"]["cseq"], outcome["act"]["end"]) == (0, "complete")


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("add", {"a": 101, "b": 1}, "tool.not_allowed"),
        ("add", {"a": 1}, "tool.not_allowed"),
        ("add", {"a": 1, "b": 2, "c": 3}, "tool.not_allowed"),
        ("add", {"a": "1", "b": 2}, "tool.not_allowed"),
        ("add", {"a": [1], "b": 2}, "tool.not_allowed"),
        ("add", {"a": 1, "b": "2"}, "tool.arguments"),
        ("add", {"a": 1, "b": "x" * 70_000}, "tool.not_allowed"),
        ("Add", {"a": 1, "b": 2}, "tool.not_allowed"),
        ("web_add", {"a": 1, "b": 2}, "tool.not_allowed"),
        ("missing", {}, "tool.unknown"),
    ],
)
def test_what_is_not_allowed_is_refused_recorded_and_never_sent(
    agent: Agent, name: str, arguments: dict[str, object], code: str
) -> None:
    assert agent.refused(name, **arguments) == code
    (record,) = agent.records()
    assert (record["kind"], record["rsn"], record["pol"]["dec"]) == ("refusal", code, "deny")
    assert record["agt"]["cseq"] == 0
    shown = receipt_of(agent.session, record["jti"]).disclosed
    assert shown.get("act.name") == name and str(shown.get("act.arg")).startswith("sha256:")


@pytest.mark.parametrize("size", [16 * 1024, 65_400])
def test_an_offending_argument_after_much_padding_is_found(agent: Agent, size: int) -> None:
    data = agent.call("add", b="x" * size, a=101)["error"]["data"]
    assert (data["code"], data["reason"]) == ("tool.not_allowed", "tool_argument_refused")
    assert [record["kind"] for record in agent.records()] == ["refusal"]


@pytest.mark.parametrize("decides", ["decide_tool", "decide_call", "decide_model"])
def test_a_decision_that_fails_does_nothing_and_is_recorded(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decides: str
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a defect")

    left = tmp_path / "left"
    monkeypatch.setattr(CompiledPolicy, decides, broken)
    if decides == "decide_model":
        assert agent.session.say("hello").code == "gateway.error"
    else:
        assert agent.refused("slow", seconds=0, path=str(left)) == "gateway.error"
    assert not left.exists()
    (record,) = agent.records()
    assert (record["kind"], record["rsn"], record["agt"]["cseq"]) == ("refusal", "gateway.error", 0)


def test_a_server_that_is_down_takes_its_tools_with_it_and_no_others(agent: Agent) -> None:
    assert agent.refused("missing") == "tool.unknown"
    assert agent.text("add", a=1, b=2) == "3"


@pytest.mark.slow
def test_sessions_share_no_process_of_a_server(
    gated: InProcess, platform: PlatformClient, on_command: Agent
) -> None:
    other = Agent(SessionClient.start(gated, platform, profile=ON_COMMAND))
    assert [on_command.text("count"), on_command.text("count"), other.text("count")] == ["1", "2", "1"]


@pytest.mark.slow
def test_a_tool_that_changes_amid_a_session_is_refused_and_that_is_recorded(on_command: Agent) -> None:
    assert on_command.text("add", a=1, b=2) == "3"
    assert on_command.text("change") == "changed"
    time.sleep(2.1)  # a listing is believed for two seconds
    assert on_command.refused("add", a=1, b=2) == "tool.schema_changed"
    assert on_command.records()[-1]["rsn"] == "tool.schema_changed"
    names = [tool["name"] for tool in on_command.ask("tools/list")["result"]["tools"]]
    assert names == ["change", "count", "ends"]
    assert on_command.text("count") == "1"  # others go on


def test_a_batch_is_done_whole_or_not_at_all(agent: Agent, tmp_path: Path) -> None:
    def call(number: int, name: str, **arguments: object) -> dict[str, object]:
        params = {"name": name, "arguments": arguments}
        return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}

    left = tmp_path / "left"
    leaves = call(1, "slow", seconds=0, path=str(left))
    refused = agent.post([leaves, call(2, "add", a=101, b=1)])
    assert [each["error"]["data"]["code"] for each in refused.json()] == ["tool.not_allowed"] * 2
    assert [record["kind"] for record in agent.records()] == ["refusal"]
    assert not left.exists()
    done = agent.post([leaves, {"jsonrpc": "2.0", "id": "p", "method": "ping"}, call(2, "add", a=1, b=1)])
    assert [each["id"] for each in done.json()] == [1, "p", 2]
    assert left.exists()
    phases = [record["ph"] for record in of_kind(agent, "tool")]
    assert phases == ["intent", "intent", "outcome", "outcome"]
    assert [record["agt"].get("cseq") for record in of_kind(agent, "tool")] == [None, None, None, 1]


# -- what else MCP knows -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method",
    [
        "resources/list",
        "resources/read",
        "prompts/list",
        "prompts/get",
        "completion/complete",
        "logging/setLevel",
        "sampling/createMessage",
        "roots/list",
        "elicitation/create",
        "tasks/list",
        "server/discover",
        "subscriptions/listen",
        "tools/Call",
        "tools/call ",
    ],
)
def test_every_other_method_is_refused(agent: Agent, method: str) -> None:
    error = agent.ask(method)["error"]
    assert (error["code"], error["data"]["code"]) == (-32601, "tool.method")
    assert [record["rsn"] for record in agent.records()] == ["tool.method"]


def test_a_server_cannot_ask_the_agent_for_anything(agent: Agent) -> None:
    assert agent.text("asks").startswith("refused: MCPError")


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","name":"add"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":NaN}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b"[" * 50_000,
        b"[]",
        b"x" * 300_000,
        b'{"jsonrpc":"2.0","id":1,"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"method":"notifications/initialized"}',
        b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"count"}}',
    ],
)
def test_what_has_no_one_reading_is_refused_with_a_record(agent: Agent, body: bytes) -> None:
    answer = agent.post(body)
    assert answer.status in (400, 413)
    assert [record["kind"] for record in agent.records()] == ["refusal"]
    assert agent.records()[0]["jti"] == answer.headers["affiant-receipt-id"]


@pytest.mark.parametrize(
    "headers",
    [{"Mcp-Method": "tools/list"}, {"Mcp-Name": "add"}, {"MCP-Protocol-Version": "1999-01-01"}],
)
def test_a_header_that_says_something_else_than_the_body_is_refused(
    agent: Agent, headers: dict[str, str]
) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "fails"}}
    assert agent.post(call, **headers).status == 400
    assert agent.post(call, **{"Mcp-Name": "fails", "Mcp-Session-Id": "somebody-elses"}).status == 200


def test_who_asks_is_known_by_the_proof_alone(agent: Agent, gated: InProcess) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    plain = {"Content-Type": "application/json", "Mcp-Session-Id": agent.session.id}
    assert gated.ask("POST", "/mcp", body, plain).status == 401
    assert (
        agent.session.ask("POST", "/mcp", body, content_type="application/json").status == 401
    )  # no counter
    assert gated.ask("GET", "/mcp").status in (404, 405)


# -- bounds, time, and secrets -----------------------------------------------------------------------------------------


def test_a_result_beyond_the_bound_is_an_error_and_the_call_has_its_outcome(agent: Agent) -> None:
    assert len(agent.text("large", size=1 << 20)) == 1 << 20
    assert agent.refused("large", size=5 << 20) in ("upstream.answer", "tool.server_unavailable")
    assert [record["act"].get("end") for record in of_kind(agent, "tool")] == [
        None,
        "complete",
        None,
        "failed",
    ]


def test_a_servers_own_words_stay_within_bounds(agent: Agent) -> None:
    answer = agent.call("fails")
    assert answer["result"]["isError"] is True
    assert of_kind(agent, "tool")[-1]["act"]["end"] == "failed"


def test_a_call_that_takes_too_long_is_ended_and_recorded(agent: Agent) -> None:
    began = time.monotonic()
    assert agent.refused("slow", seconds=30) == "tool.timeout"
    assert time.monotonic() - began < 8
    assert of_kind(agent, "tool")[-1]["act"]["end"] == "failed"
    assert agent.text("add", a=1, b=2) == "3"


def test_a_call_can_be_taken_back(agent: Agent) -> None:
    call = {
        "jsonrpc": "2.0",
        "id": 77,
        "method": "tools/call",
        "params": {"name": "slow", "arguments": {"seconds": 30}},
    }
    notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}}

    async def work() -> dict[str, Any]:
        under_way = asyncio.create_task(asyncio.to_thread(agent.post, call))
        await asyncio.sleep(0.2)
        assert (await asyncio.to_thread(agent.post, notice)).status == 202
        return (await under_way).json()

    assert asyncio.run(work())["error"]["data"]["code"] == "tool.cancelled"
    assert "aborted" in [record["act"].get("end") for record in of_kind(agent, "tool")]


def test_an_agent_that_goes_away_leaves_an_outcome(agent: Agent, gated: InProcess, tmp_path: Path) -> None:
    left = tmp_path / "left"
    arguments = {"seconds": 0.6, "path": str(left)}
    call = {
        "jsonrpc": "2.0",
        "id": 5,
        "method": "tools/call",
        "params": {"name": "slow", "arguments": arguments},
    }
    body, target, kind = json.dumps(call).encode(), "/mcp", "application/json"
    proof = agent.session.proof("POST", target, body, content_type=kind, counted=True)

    async def work() -> None:
        gone = asyncio.Event()
        asyncio.get_running_loop().call_later(0.2, gone.set)
        headers = {PROOF_HEADER: proof, "Content-Type": kind}
        answer = await asgi(gated.app, "POST", target, body, headers, gone=gone)
        assert answer.status == 0

    gated.run(work())
    intent, outcome = of_kind(agent, "tool")
    assert (outcome["act"]["end"], outcome["par"], outcome["agt"]["cseq"]) == ("aborted", [intent["jti"]], 0)
    time.sleep(0.7)
    assert not left.exists()  # the server was told


def close_while_servers_are_asked(agent: Agent, gated: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    assert agent.text("add", a=1, b=2) == "3"
    service, closing = gated.service, []
    real = service.tools._gate.catalogue

    async def closed_meanwhile(*arguments: Any) -> Any:
        session = service.sessions.by_id(agent.session.id)
        closing.append(asyncio.create_task(service.closing.close(session, "killed")))
        await asyncio.sleep(0)
        return await real(*arguments)

    monkeypatch.setattr(service.tools._gate, "catalogue", closed_meanwhile)


def test_a_session_that_is_closed_while_servers_are_asked_makes_no_call(
    agent: Agent, gated: InProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / "left"
    close_while_servers_are_asked(agent, gated, monkeypatch)
    assert agent.refused("slow", seconds=0, path=str(left)) == "session.closed"
    assert not left.exists()


def test_nor_does_its_prompt_go_upstream(
    agent: Agent, gated: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
    close_while_servers_are_asked(agent, gated, monkeypatch)
    assert agent.session.say("hello", tools=[add]).code == "session.closed"


@pytest.mark.slow
def test_a_process_that_ends_is_started_again_for_the_next_call(on_command: Agent) -> None:
    assert [on_command.text("count"), on_command.text("count")] == ["1", "2"]
    assert on_command.refused("ends") == "tool.server_unavailable"
    time.sleep(0.2)
    deadline = time.monotonic() + 10
    while "error" in (answer := on_command.call("count")) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert answer["result"]["structuredContent"] == {"result": 1}


@pytest.mark.parametrize("form", ["plain", "reversed", "hex"])
def test_what_a_server_was_given_does_not_reach_the_agent(agent: Agent, form: str) -> None:
    text = agent.text("secret_of", name="TOKEN", form=form)
    assert text == "[redacted]"
    assert of_kind(agent, "tool")[-1]["pol"]["dec"] == "redact"
    assert SECRET not in json.dumps(agent.records())


# -- chat completions: the same judge ----------------------------------------------------------------------------------


def test_a_tool_of_a_server_is_offered_to_a_model_only_where_that_server_serves_it(agent: Agent) -> None:
    (add,) = [tool for tool in agent.ask("tools/list")["result"]["tools"] if tool["name"] == "add"]

    def offered(name: str) -> dict[str, object]:
        body = {"name": name, "description": add["description"], "parameters": add["inputSchema"]}
        return {"type": "function", "function": body}

    said = agent.session.say('call_tool:add {"a": 1, "b": 2}', tools=[offered("add"), offered("missing")])
    assert said.status == 200, said.body
    records = [record for record in agent.records() if record["kind"] == "inference"]
    assert records[0]["pol"]["dec"] == "redact"  # `missing` was taken out: its server does not answer
    assert agent.session.say('call_tool:add {"a": 101, "b": 2}', tools=[offered("add")]).status == 403


# -- the bundle --------------------------------------------------------------------------------------------------------


def test_both_verifiers_accept_a_session_of_tool_calls(
    gated: InProcess, platform: PlatformClient, tmp_path: Path
) -> None:
    key = X25519PrivateKey.generate()
    agent = Agent(SessionClient.start(gated, platform, profile=PROFILE, openings=key))
    agent.ask("initialize", protocolVersion="2025-06-18")
    agent.ask("tools/list")
    agent.text("add", a=1, b=2)
    agent.refused("add", a=101, b=2)
    agent.text("secret_of", name="TOKEN")
    agent.post(
        [{"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": {"name": "fails"}} for n in (1, 2)]
    )
    agent.session.submit(agent.session.exec_record())
    agent.session.submit(agent.session.end_record())
    agent.session.close()
    document = with_openings(agent.session.bundle(), key)
    bundle, trust_file, now = tmp_path / "b.json", tmp_path / "trust.json", datetime.now(UTC)
    bundle.write_text(json.dumps(document))
    trust = simulated_trust_file(
        gated.service.admissions.appraiser.reference.raw, now, gateway_configs=[gated.service.config.digest]
    )
    trust_file.write_bytes(trust)
    verdict = verify_bundle(
        bundle.read_bytes(), parse_trust_file(trust), verifiers=STANDARD_VERIFIERS, at=now, build="a test"
    )
    assert [check for check in verdict.checks if check.state is State.REFUSED] == []
    assert verdict.population.kinds["tool"] == 10  # 2 of the gate's own, 4 intents, 4 outcomes
    opened = json.dumps(document)
    assert SECRET not in opened
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node: the other verifier is not asked")
    done = subprocess.run(
        [
            node,
            str(ROOT / "attestation/verifier-js/verify.mjs"),
            str(bundle),
            "--trust",
            str(trust_file),
            "--json",
        ],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    told = json.loads(done.stdout)
    assert done.returncode == 40, done.stdout[-3000:]
    assert [check for check in told["checks"] if check.get("tier") == "contraindicated"] == []
