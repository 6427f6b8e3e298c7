"""What an agent may ask a model's server for is a closed list, where its profile restricts tools."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.gateway.conftest import serving_gateway
from tests.gateway.inference.test_inference import Script, record_of, records_of, tool
from tests.gateway.session_client import Gateway, SessionClient
from tests.gateway.upstream_server import (
    ScriptedUpstream,
    Step,
    completion,
    scripted_upstream,
    streamed,
    whole,
)

from affiant.attestation.simulated.served.client import PlatformClient

PROFILE = b"agent_configs: {tester: {tools: [read_file]}}"
DONE = b"data: [DONE]\n\n"


@pytest.fixture(scope="module")
def upstream() -> Iterator[tuple[ScriptedUpstream, Script]]:
    script = Script()
    with scripted_upstream(script) as started:
        yield started, script


@pytest.fixture(scope="module")
def door(
    tmp_path_factory: pytest.TempPathFactory,
    platform: PlatformClient,
    platform_home: Path,
    upstream: tuple[ScriptedUpstream, Script],
) -> Iterator[Gateway]:
    home = tmp_path_factory.mktemp("closed-door")
    with serving_gateway(home, platform_home, "--upstream", upstream[0].url) as running:
        yield running.gateway


class Told:
    """A session of an agent that may call one tool, and what its upstream answers."""

    def __init__(
        self,
        session: SessionClient,
        upstream: tuple[ScriptedUpstream, Script],
        openings: X25519PrivateKey,
    ) -> None:
        self.session, (self.upstream, self._script), self._openings = session, upstream, openings
        self.upstream.received.clear()
        self.upstream.keep = False

    def answers(self, steps: Sequence[Step]) -> None:
        self._script.answer = steps

    def ask(self, **members: object):
        return self.session.chat({"model": "m", "messages": [{"role": "user", "content": "hi"}], **members})

    def records(self):
        return records_of(self.session, self._openings)


@pytest.fixture
def told(
    door: Gateway,
    upstream: tuple[ScriptedUpstream, Script],
    platform: PlatformClient,
    openings: X25519PrivateKey,
) -> Told:
    return Told(SessionClient.start(door, platform, profile=PROFILE, openings=openings), upstream, openings)


READ = tool("read_file")
ASKED: dict[str, tuple[dict[str, object], str]] = {
    "web_search_options": ({"web_search_options": {}}, "web_search_options"),
    "plugins": ({"plugins": [{"id": "web"}]}, "plugins"),
    "mcp_servers": ({"mcp_servers": [{"type": "url", "url": "https://x"}]}, "mcp_servers"),
    "search_parameters": ({"search_parameters": {"mode": "on"}}, "search_parameters"),
    "enable_search": ({"enable_search": True}, "enable_search"),
    "data_sources": ({"data_sources": [{"type": "azure_search"}]}, "data_sources"),
    "tool_ids": ({"tool_ids": ["web"]}, "tool_ids"),
    "features": ({"features": {"web_search": True}}, "features"),
    "connectors": ({"connectors": [{"id": "web-search"}]}, "connectors"),
    "tools of a message": (
        {"messages": [{"role": "developer", "content": "x", "tools": [tool("rm")]}]},
        "messages[0].tools",
    ),
    "a listed tool with a server": ({"tools": [{**READ, "server_url": "https://x"}]}, "tools[0].server_url"),
    "a hosted tool": ({"tools": [READ, {"type": "web_search"}]}, "tools[1]"),
    "a hosted choice": ({"tools": [READ], "tool_choice": {"type": "web_search"}}, "tool_choice"),
}


@pytest.mark.parametrize("name", ASKED)
def test_nothing_by_which_a_provider_could_run_a_tool_reaches_it(told: Told, name: str) -> None:
    told.answers(whole(completion()))
    members, where = ASKED[name]
    answer = told.ask(**members)
    assert told.upstream.received == []
    assert answer.status == 403 and answer.code in ("request.unlisted", "tool.not_allowed")
    assert f"{where}: " in answer.json()["error"]["message"]
    record = record_of(told.session, answer)
    assert (record.kind, record.member("rsn")) == ("refusal", answer.code)
    assert (record.member("pol", "dec"), record.member("res", "end")) == ("deny", "policy_stop")


def test_what_the_operator_lists_passes_and_nothing_else(
    tmp_path: Path,
    platform: PlatformClient,
    platform_home: Path,
    upstream: tuple[ScriptedUpstream, Script],
    openings: X25519PrivateKey,
) -> None:
    options = [
        "--upstream",
        upstream[0].url,
        "--allow-member",
        "chat:request.thinking",
        "--chat-member",
        "response.found",
    ]
    with serving_gateway(tmp_path, platform_home, *options) as running:
        session = SessionClient.start(running.gateway, platform, profile=PROFILE, openings=openings)
        told = Told(session, upstream, openings)
        told.answers(whole({**completion(), "found": [{"url": "http://x"}]}))
        assert told.ask(thinking={"type": "enabled"}).status == 200
        assert told.ask(thinking={}, plugins=[]).code == "request.unlisted"


def test_a_request_of_listed_members_goes_up_byte_for_byte(told: Told) -> None:
    told.answers(whole(completion()))
    answer = told.ask(
        tools=[READ], tool_choice="auto", min_p=0.1, chat_template_kwargs={"enable_thinking": False}
    )
    assert answer.status == 200 and record_of(told.session, answer).member("pol", "dec") == "allow"
    assert told.upstream.received[0].json["min_p"] == 0.1


RM = tool("rm")
TYPES: dict[str, tuple[dict[str, object], str | None]] = {
    "an empty text": ({"type": ""}, None),
    "null": ({"type": None}, None),
    "none": ({}, None),
    "the word": ({"type": "function"}, None),
    **{
        repr(kind): ({"type": kind}, "request.unlisted")
        for kind in (0, False, True, 1.5, [], ["function"], {})
    },
    **{
        repr(kind): ({"type": kind}, "tool.not_allowed")
        for kind in (
            "Function",
            "FUNCTION",
            "function ",
            " ",
            "null",
            "functions",
            "web_search",
            "\0",
            "\u017f",
        )
    },
}


@pytest.mark.parametrize("name", TYPES)
def test_whatever_the_type_of_a_tool_is_one_that_is_not_listed_does_not_reach_the_model(
    told: Told, name: str
) -> None:
    told.answers(whole(completion()))
    kind, code = TYPES[name]
    entry = {name: value for name, value in RM.items() if name != "type"} | kind
    answer = told.ask(tools=[READ, entry])
    if code is None:
        assert [sent.json["tools"] for sent in told.upstream.received] == [[READ]]
        assert record_of(told.session, answer).member("pol", "dec") == "redact"
    else:
        assert (answer.status, answer.code, told.upstream.received) == (403, code, [])
        assert record_of(told.session, answer).member("pol", "dec") == "deny"


PROVIDED = b"""
agent_configs:
  tester:
    tools: [read_file]
    provider_tools: [web_search, mcp]
    network_egress: [{host: mcp.example.com, methods: [POST], paths: [/sse]}]
"""
MCP = {"type": "mcp", "server_label": "a", "server_url": "https://mcp.example.com/sse"}


@pytest.fixture
def provided(
    door: Gateway,
    upstream: tuple[ScriptedUpstream, Script],
    platform: PlatformClient,
    openings: X25519PrivateKey,
) -> Told:
    return Told(SessionClient.start(door, platform, profile=PROVIDED, openings=openings), upstream, openings)


LET_THROUGH: dict[str, tuple[dict[str, object], list[str]]] = {
    "a tool": ({"tools": [READ, {"type": "web_search"}]}, ["provider_tools/1", "tools/0"]),
    "a choice": ({"tools": [READ], "tool_choice": {"type": "web_search"}}, ["provider_tools/1", "tools/0"]),
    "a member": ({"web_search_options": {"search_context_size": "low"}}, ["provider_tools/1"]),
    "a server": ({"tools": [MCP]}, ["provider_tools/0", "egress/0"]),
}


@pytest.mark.parametrize("name", LET_THROUGH)
def test_a_providers_tool_that_the_profile_names_reaches_it_and_is_recorded(
    provided: Told, name: str
) -> None:
    provided.answers(whole(completion()))
    members, rules = LET_THROUGH[name]
    answer = provided.ask(**members)
    assert answer.status == 200
    (sent,) = provided.upstream.received
    assert {member: sent.json[member] for member in members} == members
    record = record_of(provided.session, answer)
    assert (record.member("pol", "dec"), record.disclosed.get("pol.rules")) == ("allow", rules)


def test_a_providers_tool_stays_where_another_tool_is_taken_out(provided: Told) -> None:
    provided.answers(whole(completion()))
    choice = {"type": "web_search"}
    assert provided.ask(tools=[tool("rm"), {"type": "web_search"}], tool_choice=choice).status == 200
    (sent,) = provided.upstream.received
    assert (sent.json["tools"], sent.json["tool_choice"]) == ([{"type": "web_search"}], choice)


NOT_PROVIDED: dict[str, tuple[dict[str, object], str]] = {
    "another tool": ({"tools": [{"type": "code_interpreter"}]}, "tool.not_allowed"),
    "another case": ({"tools": [{"type": "Web_Search"}]}, "tool.not_allowed"),
    "another server": (
        {"tools": [{**MCP, "server_url": "https://other.example.com/sse"}]},
        "url.not_allowed",
    ),
    "another path": ({"tools": [{**MCP, "server_url": "https://mcp.example.com/admin"}]}, "url.not_allowed"),
    "an address": ({"tools": [{**MCP, "server_url": "http://169.254.169.254/"}]}, "url.not_canonical"),
    "a server of a search": (
        {"web_search_options": {"server_url": "https://other.example.com/"}},
        "url.not_allowed",
    ),
    "a server of a function": (
        {"tools": [{**READ, "server_url": "https://mcp.example.com/sse"}]},
        "request.unlisted",
    ),
}


@pytest.mark.parametrize("name", NOT_PROVIDED)
def test_a_provider_gets_no_other_tool_and_no_server_that_egress_does_not_allow(
    provided: Told, name: str
) -> None:
    members, code = NOT_PROVIDED[name]
    answer = provided.ask(**members)
    assert (answer.status, answer.code) == (403, code)
    assert provided.upstream.received == []
    record = record_of(provided.session, answer)
    assert (record.kind, record.member("pol", "dec")) == ("refusal", "deny")
    if name == "another tool":
        assert record.disclosed.get("act.name") == "code_interpreter"


def test_a_providers_tool_that_needs_approval_is_not_asked_for(
    door: Gateway,
    upstream: tuple[ScriptedUpstream, Script],
    platform: PlatformClient,
    openings: X25519PrivateKey,
) -> None:
    kid = "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"
    asks = f"requires_human_approval: {{everything: true, approvers: [{kid}]}}"
    profile = f"agent_configs: {{tester: {{provider_tools: [web_search], {asks}}}}}".encode()
    told = Told(SessionClient.start(door, platform, profile=profile, openings=openings), upstream, openings)
    answer = told.ask(web_search_options={})
    assert (answer.code, told.upstream.received) == ("tool.not_allowed", [])
    assert b"no approver can be shown what the provider will do" in answer.body
    assert record_of(told.session, answer).disclosed.get("pol.rules") == ["provider_tools/0"]


ITEMS = "mcp_call server_tool_use shell_call computer_call web_search_call mcp_approval_request tool_result".split()


def said(item: str, part: str) -> dict[str, object]:
    content = [{"type": item, "name": "fetch", "input": {"url": "http://x"}}]
    return {"id": "c", "choices": [{"index": 0, part: {"content": content}, "finish_reason": None}]}


@pytest.mark.parametrize("item", ITEMS)
def test_an_item_of_an_answer_that_is_not_listed_stops_it(told: Told, item: str) -> None:
    told.answers(whole(said(item, "message")))
    answer = told.ask()
    assert answer.status in (403, 502) and answer.code in ("upstream.unlisted", "upstream.answer")
    assert b"fetch" not in answer.body


@pytest.mark.parametrize("item", ITEMS)
def test_an_event_with_an_item_that_is_not_listed_ends_the_stream(told: Told, item: str) -> None:
    event = b"data: " + json.dumps(said(item, "delta")).encode() + b"\n\n"
    told.answers(streamed(event, DONE))
    answer = told.ask(stream=True)
    assert b"fetch" not in answer.body and DONE not in answer.body
    assert b'"upstream.unlisted"' in answer.body or b'"upstream.answer"' in answer.body
    record = record_of(told.session, answer)
    assert record.member("res", "end") in ("policy_stop", "upstream_abort")
