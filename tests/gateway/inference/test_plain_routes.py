"""Completions, embeddings, rerank and moderations go through as chat does: exact bytes, one record, listed models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.gateway.conftest import serving_gateway
from tests.gateway.dialects.plain.test_plain import ANSWERED, ASKED, CALL
from tests.gateway.inference.test_inference import Script, record_of, records_of
from tests.gateway.session_client import Gateway, SessionClient
from tests.gateway.upstream_server import ScriptedUpstream, scripted_upstream, streamed, whole

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.simulated.served.client import PlatformClient

LISTED = b"agent_configs: {tester: {models: [m, omni-moderation-latest]}}"
BUDGET = b"agent_configs: {tester: {limits: {tokens: 200}}}"
EACH = pytest.mark.parametrize("name", ASKED)
DONE = b"data: [DONE]\n\n"


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
    with serving_gateway(
        tmp_path_factory.mktemp("plain"), platform_home, "--upstream", upstream[0].url
    ) as running:
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


@EACH
def test_bytes_go_through_and_one_record_says_so(
    session: SessionClient,
    upstream: tuple[ScriptedUpstream, Script],
    openings: X25519PrivateKey,
    name: str,
) -> None:
    upstream[1].answer = whole(ANSWERED[name])
    asked = json.dumps(ASKED[name], indent=3).encode()
    answer = session.post(f"/v1/{name}", asked)
    assert (answer.status, answer.json()) == (200, ANSWERED[name])
    (received,) = upstream[0].received
    assert received.body == asked and received.head.startswith(f"POST /v1/{name} ".encode())
    (record,) = [found for found in records_of(session, openings) if found.kind == "inference"]
    assert (record.member("req", "m"), record.member("req", "p")) == ("POST", f"/v1/{name}")
    assert record.member("mdl", "ans") == ANSWERED[name]["model"]
    assert record.member("mdl", "id") == ASKED[name].get("model", "omni-moderation-latest")
    assert record.disclosed.get("res.dig") == sha256_name(answer.body)
    counts = {"completions": (3, 2), "embeddings": (3, 0), "rerank": (9, 0), "moderations": (None, None)}[
        name
    ]
    assert (record.disclosed.get("use.in"), record.disclosed.get("use.out")) == counts


@EACH
def test_another_model_answers_for_none_that_the_profile_lists(
    served: Gateway, platform: PlatformClient, upstream: tuple[ScriptedUpstream, Script], name: str
) -> None:
    session = SessionClient.start(served, platform, profile=LISTED)
    upstream[1].answer = whole({**ANSWERED[name], "model": "other"})
    answer = session.post(f"/v1/{name}", ASKED[name])
    assert (answer.status, answer.code) == (403, "model.answer_not_allowed")
    assert record_of(session, answer).member("res", "end") == "policy_stop"
    upstream[1].answer = whole(ANSWERED[name])
    assert session.post(f"/v1/{name}", ASKED[name]).status == 200
    assert session.post(f"/v1/{name}", {**ASKED[name], "model": "other"}).code == "model.not_allowed"


@EACH
def test_what_is_not_listed_goes_neither_up_nor_down(
    session: SessionClient, upstream: tuple[ScriptedUpstream, Script], name: str
) -> None:
    assert session.post(f"/v1/{name}", {**ASKED[name], "tools": []}).code == "request.unlisted"
    assert upstream[0].received == []
    upstream[1].answer = whole({**ANSWERED[name], "tool_calls": [CALL]})
    answer = session.post(f"/v1/{name}", ASKED[name])
    assert answer.code == "upstream.unlisted"
    assert record_of(session, answer).member("res", "end") == "policy_stop"


def test_an_image_is_fetched_only_where_the_profile_allows_it(
    session: SessionClient, upstream: tuple[ScriptedUpstream, Script]
) -> None:
    part = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    assert session.post("/v1/moderations", {"input": [part]}).code == "url.not_allowed"
    assert upstream[0].received == []


def test_completions_stream(
    session: SessionClient, upstream: tuple[ScriptedUpstream, Script], openings: X25519PrivateKey
) -> None:
    events = [f"data: {json.dumps(ANSWERED['completions'])}\n\n".encode(), DONE]
    upstream[1].answer = streamed(*events)
    answer = session.post("/v1/completions", {**ASKED["completions"], "stream": True})
    assert answer.body == b"".join(events)
    (record,) = [found for found in records_of(session, openings) if found.kind == "inference"]
    assert record.member("res", "end") == "complete" and record.disclosed.get("res.evs") == 2
    assert (record.disclosed.get("use.in"), record.disclosed.get("use.out")) == (3, 2)


def test_a_stream_where_none_was_asked_for_is_no_answer(
    session: SessionClient, upstream: tuple[ScriptedUpstream, Script]
) -> None:
    upstream[1].answer = streamed(DONE)
    assert session.post("/v1/embeddings", ASKED["embeddings"]).code == "upstream.answer"


def test_a_budget_of_tokens_counts_what_is_read_too(
    served: Gateway, platform: PlatformClient, upstream: tuple[ScriptedUpstream, Script]
) -> None:
    session = SessionClient.start(served, platform, profile=BUDGET)
    upstream[1].answer = whole(
        {**ANSWERED["embeddings"], "usage": {"prompt_tokens": 150, "total_tokens": 150}}
    )
    assert session.post("/v1/embeddings", ASKED["embeddings"]).status == 200
    assert session.post("/v1/embeddings", {"model": "m", "input": "x" * 40}).code == "limit_tokens"
    assert session.post("/v1/completions", ASKED["completions"]).code == "limit_answer_unbounded"
