"""What a record says is bounded: no profile, request or upstream can make the record of a request impossible."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.gateway.in_process import InProcess, in_process
from tests.gateway.journal_reader import entries_of, opens_of
from tests.gateway.session_client import SessionClient
from tests.gateway.test_inference import record_of, records_of, tool

from affiant.attestation.shapes import ShapeMismatch
from affiant.attestation.simulated.client import PlatformClient
from affiant.gateway.errors import GatewayFault, ModelNotFound
from affiant.gateway.upstream import Upstream


def profile(tools: list[str]) -> bytes:
    lines = ["agent_configs:", "  tester:", "    tools:", *(f"      - {name}" for name in tools)]
    return "\n".join([*lines, ""]).encode()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("account") / "store"


@pytest.fixture(scope="module")
def inside(platform: PlatformClient, store: Path) -> Iterator[InProcess]:
    with in_process(platform, store, drain_s=1) as gateway:
        yield gateway


def test_a_request_with_more_rules_than_a_record_can_name_has_its_record(
    inside: InProcess, platform: PlatformClient
) -> None:
    names = [f"tool_{number}" for number in range(300)]
    session = SessionClient.start(inside, platform, profile=profile(names))
    answer = session.say("hi", tools=[tool(name) for name in names])
    assert answer.status == 200
    record = record_of(session, answer)
    rules = record.disclosed.get("pol.rules")
    assert record.member("res", "end") == "complete" and isinstance(rules, list) and len(rules) == 256
    assert session.close().status == 200


def test_a_record_that_cannot_be_formed_is_noticed_before_anything_goes_upstream(
    inside: InProcess, platform: PlatformClient, openings: X25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = SessionClient.start(inside, platform, openings=openings)
    monkeypatch.setattr("affiant.gateway.account._bounded", lambda _: ["x" * 300])
    answer = session.say("hi")
    assert (answer.status, answer.code) == (400, ShapeMismatch.code)
    (record,) = [r for r in records_of(session, openings) if r.member("agt", "cseq") == 0]
    assert (record.kind, record.member("rsn"), record.member("pol")) == ("refusal", GatewayFault.code, None)
    assert session.close().status == 200


def test_what_a_refused_tool_record_would_have_been_numbered_is_not_used_up(
    inside: InProcess, platform: PlatformClient
) -> None:
    session = SessionClient.start(inside, platform)
    found = inside.service.sessions.by_id(session.id)
    assert found is not None
    before = found.upcoming

    async def attempt() -> None:
        members = {"act": {"typ": "tool"}, "pol": {}}
        inside.service.recorder.session_record(found, "tool", members, number=None)

    with pytest.raises(ShapeMismatch):
        inside.run(attempt())
    assert found.upcoming == before and session.close().status == 200


def test_an_upstream_is_not_even_asked_what_it_lists_before_the_open_is_durable(
    inside: InProcess, platform: PlatformClient, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = SessionClient.start(inside, platform)
    opened: list[set[str]] = []

    async def choose(model: str) -> Upstream:
        opened.append(opens_of(entries_of(store)[-1]))
        raise ModelNotFound("no upstream lists this model", found=model)

    monkeypatch.setattr(inside.service.upstreams, "choose", choose)
    answer = session.say("hi")
    assert (answer.status, answer.code) == (404, "model.not_found")
    assert opened == [{answer.headers["affiant-receipt-id"]}]
    assert record_of(session, answer).kind == "refusal"
    assert not opens_of(entries_of(store)[-1])
