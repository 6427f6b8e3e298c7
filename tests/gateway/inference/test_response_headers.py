"""A response names the tools that the gateway removed from its request, and the upstream's rates and pauses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.conftest import serving_gateway
from tests.gateway.inference.test_inference import Script, records_of, tool
from tests.gateway.session_client import Gateway, SessionClient
from tests.gateway.upstream_server import ScriptedUpstream, completion, scripted_upstream, streamed, whole
from tests.properties import thorough

from affiant.attestation.simulated.served.client import PlatformClient
from affiant.gateway.inference.response_headers import removed_tools_header

CHAT = {"model": "m", "messages": []}
STOP = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'


@pytest.fixture(scope="module")
def upstream() -> Iterator[tuple[ScriptedUpstream, Script]]:
    script = Script()
    with scripted_upstream(script) as started:
        yield started, script


@pytest.fixture
def served(
    tmp_path: Path, platform_home: Path, upstream: tuple[ScriptedUpstream, Script]
) -> Iterator[Gateway]:
    upstream[0].received.clear()
    with serving_gateway(tmp_path, platform_home, "--upstream", upstream[0].url) as running:
        yield running.gateway


def test_what_an_upstream_says_of_its_rates_goes_on_and_nothing_else(
    served: Gateway, platform: PlatformClient, upstream: tuple[ScriptedUpstream, Script]
) -> None:
    session = SessionClient.start(served, platform)
    told = {"x_request_id": "req_1", "x_ratelimit_remaining_tokens": "7", "set_cookie": "a=b", "server": "x"}
    upstream[1].answer = whole(completion(), **told)
    answer = session.chat(CHAT)
    assert (answer.headers["x-request-id"], answer.headers["x-ratelimit-remaining-tokens"]) == ("req_1", "7")
    assert not {"set-cookie", "server"} & answer.headers.keys()
    steps = streamed(STOP)
    steps[0] = steps[0].replace(b"content-type:", b"request-id: req_2\r\ncontent-type:")
    upstream[1].answer = steps
    assert session.chat({**CHAT, "stream": True}).headers["request-id"] == "req_2"


def test_removed_tools_are_named_in_the_response_whole_and_streamed(
    served: Gateway, platform: PlatformClient, upstream: tuple[ScriptedUpstream, Script]
) -> None:
    session = SessionClient.start(served, platform)
    asked = {**CHAT, "tools": [tool("rm"), tool("read_file"), tool("send_mail")]}
    upstream[1].answer = whole(completion())
    assert session.chat(asked).headers["affiant-removed-tools"] == '"rm", "send_mail"'
    assert [each["function"]["name"] for each in upstream[0].received[-1].json["tools"]] == ["read_file"]
    assert "affiant-removed-tools" not in session.chat({**CHAT, "tools": [tool("read_file")]}).headers
    upstream[1].answer = streamed(STOP)
    assert session.chat({**asked, "stream": True}).headers["affiant-removed-tools"] == '"rm", "send_mail"'
    counted = session.ask(
        "POST", f"/v1/sessions/{session.id}/decisions", b"{}", content_type="application/json"
    )
    offers = {
        entry["name"]: entry["count"] for entry in counted.json()["denied"] if entry["kind"] == "tool offer"
    }
    assert offers == {"rm": 2, "send_mail": 2}


@pytest.mark.parametrize(
    ("status", "code"), [("429 Too Many", "upstream.rate_limited"), ("503 Down", "upstream.overloaded")]
)
def test_a_pause_that_an_upstream_asks_for_is_everyones(
    served: Gateway,
    platform: PlatformClient,
    upstream: tuple[ScriptedUpstream, Script],
    openings: X25519PrivateKey,
    status: str,
    code: str,
) -> None:
    session = SessionClient.start(served, platform, openings=openings)
    upstream[1].answer = whole({"error": {"message": "slow down"}}, status=status, retry_after="200")
    first = session.chat(CHAT)
    assert (first.status, first.headers["retry-after"]) == (int(status[:3]), "200")
    other = SessionClient.start(served, platform)
    for again in (session.chat(CHAT), other.chat({**CHAT, "stream": True})):
        assert (again.status, again.code) == (int(status[:3]), code)
        assert 190 <= int(again.headers["retry-after"]) <= 200
    assert len(upstream[0].received) == 1
    kinds = [
        record.kind for record in records_of(session, openings) if record.kind in ("inference", "refusal")
    ]
    assert kinds == ["inference", "refusal"]


@thorough(300)
@given(st.lists(st.text(max_size=80), min_size=1, max_size=80))
def test_no_name_of_a_tool_is_more_than_a_string_in_a_bounded_header(names: list[str]) -> None:
    ((field, value),) = removed_tools_header(names)
    assert field == b"affiant-removed-tools" and len(value) < 5000
    text = value.decode("ascii")
    assert text.isprintable()
    listed, more, rest = text.partition(";more=") if len(names) > 32 else (text, "", "")
    assert (rest == str(len(names) - 32)) is bool(more)
    assert len(json.loads(f"[{listed}]")) == min(len(names), 32)
