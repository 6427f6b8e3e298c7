"""A header that is forwarded is signed for, reaches the model's server by value, and is in the record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.gateway.in_process import InProcess, in_process
from tests.gateway.inference.test_inference import records_of
from tests.gateway.session_client import Answer, SessionClient
from tests.gateway.upstream_server import ScriptedUpstream, completion, scripted_upstream, whole

from affiant.attestation.schema.agent_routes import AGENT_ROUTES, AgentRoute
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.statements.gateway_config import UpstreamConfig
from affiant.gateway.process import server

PATH = "/v1/messages/of-this-test"
VERSION = {"anthropic-version": "2023-06-01"}
BETAS = {"anthropic-beta": "pdfs-2024-09-25, unknown-2030-01-01"}


@pytest.fixture
def upstream() -> Iterator[ScriptedUpstream]:
    with scripted_upstream(lambda _: whole(completion())) as started:
        yield started


@pytest.fixture
def gateway(
    platform: PlatformClient, tmp_path: Path, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> Iterator[InProcess]:
    """One that serves chat completions where Anthropic's API is."""
    route = AgentRoute("POST", PATH, "chat", counted=True)
    monkeypatch.setattr(server, "AGENT_ROUTES", (*AGENT_ROUTES, route))
    config = UpstreamConfig(id="scripted", url=upstream.url, bind="none", key=None, roots=())
    with in_process(platform, tmp_path / "store", upstreams=(config,)) as started:
        yield started


def ask(session: SessionClient, headers: dict[str, str]) -> Answer:
    return session.post(PATH, {"model": "m", "messages": []}, headers=headers)


@pytest.mark.parametrize(
    ("sent", "forwarded"),
    [
        ({**VERSION, **BETAS}, {**VERSION, "anthropic-beta": "pdfs-2024-09-25"}),
        (VERSION, VERSION),
        ({"anthropic-beta": "unknown-2030-01-01"}, None),
        ({"openai-organization": "org", "x-api-key": "k", "cookie": "a=b"}, None),
    ],
)
def test_what_is_forwarded_is_in_the_record(
    gateway: InProcess,
    platform: PlatformClient,
    upstream: ScriptedUpstream,
    openings: X25519PrivateKey,
    sent: dict[str, str],
    forwarded: dict[str, str] | None,
) -> None:
    session = SessionClient.start(gateway, platform, openings=openings)
    assert ask(session, sent).status == 200
    (received,) = upstream.received
    own = {"host", "accept", "accept-encoding", "user-agent", "content-type", "content-length"}
    assert {name: value for name, value in received.headers.items() if name not in own} == (forwarded or {})
    (record,) = [found for found in records_of(session, openings) if found.kind == "inference"]
    assert (record.member("req", "p"), record.member("req", "hdr")) == (PATH, forwarded)


def test_another_version_of_the_api_is_refused_before_anything_goes_upstream(
    gateway: InProcess, platform: PlatformClient, upstream: ScriptedUpstream
) -> None:
    session = SessionClient.start(gateway, platform)
    answer = ask(session, {"anthropic-version": "2024-01-01"})
    assert (answer.status, answer.code) == (400, "request.malformed")
    assert "2023-06-01" in json.loads(answer.body)["error"]["message"] and upstream.received == []
