"""Anthropic's messages go through as chat does: exact bytes, one record, listed models, its own errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.gateway.conftest import serving_gateway
from tests.gateway.dialects.messages.test_message_events import (
    BEGIN,
    DELTA,
    END,
    call,
    event,
    piece,
    start,
    stop,
    words,
)
from tests.gateway.inference.test_inference import Script, record_of, records_of
from tests.gateway.session_client import Gateway, SessionClient
from tests.gateway.upstream_server import ScriptedUpstream, message, scripted_upstream, streamed, whole

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.simulated.served.client import PlatformClient

PATH = "/v1/messages"
ASKED = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
COUNTED = {"model": "m", "messages": ASKED["messages"]}
LISTED = b"agent_configs: {tester: {models: [m]}}"
BUDGET = b"agent_configs: {tester: {limits: {tokens: 300}}}"
HEADERS = {"anthropic-version": "2023-06-01", "x-api-key": "affiant-session"}
TEXT = {"type": "text", "text": ""}
EVENTS = [BEGIN, start(TEXT), words("hi"), event("ping"), stop(), DELTA, END]


@pytest.fixture(scope="module")
def upstream() -> Iterator[tuple[ScriptedUpstream, Script]]:
    script = Script()
    with scripted_upstream(script) as started:
        yield started, script


@pytest.fixture(scope="module")
def served(
    tmp_path_factory: pytest.TempPathFactory,
    platform_home: Path,
    upstream: tuple[ScriptedUpstream, Script],
) -> Iterator[Gateway]:
    home = tmp_path_factory.mktemp("messages")
    with serving_gateway(home, platform_home, "--upstream", upstream[0].url) as running:
        yield running.gateway


@pytest.fixture
def session(
    served: Gateway,
    platform: PlatformClient,
    upstream: tuple[ScriptedUpstream, Script],
    openings: X25519PrivateKey,
) -> SessionClient:
    upstream[0].received.clear()
    return SessionClient.start(served, platform, openings=openings)


def inference(session: SessionClient, openings: X25519PrivateKey):
    (found,) = [record for record in records_of(session, openings) if record.kind == "inference"]
    return found


def test_bytes_go_through_and_one_record_says_so(
    session: SessionClient, upstream: tuple[ScriptedUpstream, Script], openings: X25519PrivateKey
) -> None:
    upstream[1].answer = whole(message(), request_id="req_1")
    asked = json.dumps(ASKED, indent=3).encode()
    answer = session.post(PATH, asked, headers=HEADERS)
    assert (answer.status, answer.json()) == (200, message())
    assert answer.headers["request-id"] == "req_1"
    (received,) = upstream[0].received
    assert received.body == asked and received.head.startswith(b"POST /v1/messages ")
    assert received.headers["anthropic-version"] == "2023-06-01" and "x-api-key" not in received.headers
    record = inference(session, openings)
    assert (record.member("req", "m"), record.member("req", "p")) == ("POST", PATH)
    assert (record.member("mdl", "id"), record.member("mdl", "ans")) == ("m", "m")
    assert record.disclosed.get("res.dig") == sha256_name(answer.body)
    assert (record.disclosed.get("use.in"), record.disclosed.get("use.out")) == (3, 2)


def test_a_stream_is_relayed_and_its_usage_added_up(
    session: SessionClient, upstream: tuple[ScriptedUpstream, Script], openings: X25519PrivateKey
) -> None:
    upstream[1].answer = streamed(*EVENTS)
    answer = session.post(PATH, {**ASKED, "stream": True}, headers=HEADERS)
    assert answer.body == b"".join(EVENTS)
    record = inference(session, openings)
    assert record.member("res", "end") == "complete" and record.disclosed.get("res.evs") == len(EVENTS)
    assert (record.disclosed.get("use.in"), record.disclosed.get("use.out")) == (3, 9)
    assert record.member("mdl", "ans") == "m"


def test_a_count_is_a_request_of_its_own(
    session: SessionClient, upstream: tuple[ScriptedUpstream, Script], openings: X25519PrivateKey
) -> None:
    upstream[1].answer = whole({"input_tokens": 14})
    answer = session.post(f"{PATH}/count_tokens", COUNTED, headers=HEADERS)
    assert answer.json() == {"input_tokens": 14}
    assert upstream[0].received[-1].head.startswith(b"POST /v1/messages/count_tokens ")
    record = inference(session, openings)
    assert record.member("req", "p") == f"{PATH}/count_tokens"
    assert (record.disclosed.get("use.in"), record.disclosed.get("use.out")) == (14, 0)


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_is_not_allowed_reaches_no_agent(
    session: SessionClient, upstream: tuple[ScriptedUpstream, Script], *, stream: bool
) -> None:
    events = [BEGIN, start(call("rm")), piece('{"a":1}'), stop(), DELTA, END]
    upstream[1].answer = streamed(*events) if stream else whole(message(call("rm", input={"a": 1})))
    answer = session.post(PATH, {**ASKED, "stream": stream}, headers=HEADERS)
    assert b'"rm"' not in answer.body
    error = json.loads(answer.body.rpartition(b"data: ")[2])
    assert (error["type"], error["error"]["type"]) == ("error", "permission_error")
    assert error["error"]["code"] == "tool.not_allowed"
    assert stream == (b"event: error\n" in answer.body)
    assert record_of(session, answer).member("res", "end") == "policy_stop"


@pytest.mark.parametrize("stream", [False, True])
def test_an_allowed_call_has_a_record_before_it_goes_on(
    session: SessionClient,
    upstream: tuple[ScriptedUpstream, Script],
    openings: X25519PrivateKey,
    *,
    stream: bool,
) -> None:
    events = [BEGIN, start(call("read_file")), piece('{"path": "x"}'), stop(), DELTA, END]
    upstream[1].answer = (
        streamed(*events) if stream else whole(message(call("read_file", input={"path": "x"})))
    )
    answer = session.post(PATH, {**ASKED, "stream": stream}, headers=HEADERS)
    assert answer.status == 200 and (not stream or answer.body == b"".join(events))
    (made,) = [record for record in records_of(session, openings) if record.kind == "tool"]
    assert made.disclosed.get("act.name") == "read_file"
    assert made.disclosed.get("act.arg") == sha256_name(b'{"path":"x"}')


def test_another_model_answers_for_none_that_the_profile_lists(
    served: Gateway, platform: PlatformClient, upstream: tuple[ScriptedUpstream, Script]
) -> None:
    session = SessionClient.start(served, platform, profile=LISTED)
    upstream[1].answer = whole({**message(), "model": "other"})
    answer = session.post(PATH, ASKED)
    assert (answer.status, answer.code) == (403, "model.answer_not_allowed")
    upstream[1].answer = streamed(BEGIN.replace(b'"model": "m"', b'"model": "other"'), *EVENTS[1:])
    answer = session.post(PATH, {**ASKED, "stream": True})
    assert b'"other"' not in answer.body and b"model.answer_not_allowed" in answer.body
    upstream[1].answer = whole(message())
    assert session.post(PATH, ASKED).status == 200
    assert session.post(PATH, {**ASKED, "model": "other"}).code == "model.not_allowed"
    assert session.post(f"{PATH}/count_tokens", {**COUNTED, "model": "other"}).code == "model.not_allowed"


REJECTED: dict[str, tuple[dict, str]] = {
    "what no list has": ({"thread": {"type": "create"}}, "request.unlisted"),
    "a provider's tool": (
        {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        "tool.not_allowed",
    ),
    "servers of the provider's": (
        {"mcp_servers": [{"type": "url", "url": "https://x.example/", "name": "n"}]},
        "tool.not_allowed",
    ),
    "an image from elsewhere": (
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "image", "source": {"type": "url", "url": "https://x.example/a.png"}}
                    ],
                }
            ]
        },
        "url.not_allowed",
    ),
    "no model": ({"model": ""}, "request.malformed"),
}


@pytest.mark.parametrize("name", REJECTED)
def test_what_is_not_allowed_goes_nowhere_and_is_an_error_of_the_apis_own_form(
    session: SessionClient, upstream: tuple[ScriptedUpstream, Script], name: str
) -> None:
    members, code = REJECTED[name]
    answer = session.post(PATH, {**ASKED, **members}, headers=HEADERS)
    assert upstream[0].received == [] and answer.code == code
    error = answer.json()
    kind = "invalid_request_error" if answer.status == 400 else "permission_error"
    assert (error["type"], error["error"]["type"]) == ("error", kind)
    assert record_of(session, answer).kind == "refusal"


def test_tools_that_the_profile_does_not_list_are_taken_out_and_named(
    session: SessionClient, upstream: tuple[ScriptedUpstream, Script]
) -> None:
    upstream[1].answer = whole(message())
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in ("read_file", "rm")]
    answer = session.post(PATH, {**ASKED, "tools": tools}, headers=HEADERS)
    assert answer.headers["affiant-removed-tools"] == '"rm"'
    assert [tool["name"] for tool in upstream[0].received[-1].json["tools"]] == ["read_file"]


def test_max_tokens_bounds_what_is_reserved(
    served: Gateway, platform: PlatformClient, upstream: tuple[ScriptedUpstream, Script]
) -> None:
    session = SessionClient.start(served, platform, profile=BUDGET)
    upstream[1].answer = whole(message())
    unbounded = {name: value for name, value in ASKED.items() if name != "max_tokens"}
    assert session.post(PATH, unbounded).code == "limit_answer_unbounded"
    assert session.post(PATH, {**ASKED, "max_tokens": 1000}).code == "limit_tokens"
    assert session.post(PATH, ASKED).status == 200


def test_an_upstreams_error_passes_as_it_is(
    session: SessionClient, upstream: tuple[ScriptedUpstream, Script]
) -> None:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "x"}, "request_id": "r"}
    upstream[1].answer = whole(error, status="400 Bad Request")
    answer = session.post(PATH, ASKED, headers=HEADERS)
    assert (answer.status, answer.json()) == (400, error)


def test_a_stream_without_its_terminal_event_is_cut(
    session: SessionClient, upstream: tuple[ScriptedUpstream, Script]
) -> None:
    upstream[1].answer = streamed(*EVENTS[:-1])
    answer = session.post(PATH, {**ASKED, "stream": True}, headers=HEADERS)
    assert answer.body.startswith(b"".join(EVENTS[:-1]) + b"event: error\n")
    assert record_of(session, answer).member("res", "end") == "upstream_abort"
