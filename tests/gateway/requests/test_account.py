"""What a record says is bounded: no profile, request or upstream can make the record of a request impossible."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.gateway.in_process import InProcess, in_process
from tests.gateway.inference.test_inference import record_of, records_of, tool
from tests.gateway.journal_reader import entries_of, opens_of
from tests.gateway.session_client import SessionClient

from affiant.attestation.schema.shapes import ShapeMismatch
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.errors import StateError
from affiant.gateway.requests.account import Account
from affiant.gateway.sessions.session_limits import Reservation
from affiant.gateway.upstream.upstream import Attempt, Upstream
from affiant.policy.decision.meters import Charge


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


def test_every_record_of_a_request_has_its_trace_and_none_shows_whether_there_was_one(
    inside: InProcess, platform: PlatformClient, openings: X25519PrivateKey
) -> None:
    session = SessionClient.start(inside, platform, openings=openings)
    trace = {"t": "a" * 32, "s": "b" * 16}
    headers = {"traceparent": f"00-{trace['t']}-{trace['s']}-01"}
    for given in (headers, {}):
        message = {"role": "user", "content": "call_tool:read_file {}"}
        asked = {"model": "affiant-dev-echo", "messages": [message], "tools": [tool("read_file")]}
        answer = session.chat(asked, headers=given)
        assert answer.status == 200
        assert session.chat(b"{", headers=given).code == "request.malformed"
    made = [r for r in records_of(session, openings) if r.kind in ("tool", "inference", "refusal")]
    assert [r.kind for r in made] == ["tool", "inference", "refusal"] * 2
    assert [r.disclosed.get("trc") for r in made] == [trace] * 3 + [None] * 3
    for traced, plain in zip(made[:3], made[3:], strict=True):
        assert trace["t"].encode() not in traced.text.split.payload
        assert traced.payload.keys() - {"peer"} == plain.payload.keys() - {"peer"}
        assert len(traced.payload["_sd"]) == len(plain.payload["_sd"]) == 1
    assert session.close().status == 200


def test_a_stranger_that_names_a_trace_is_refused_and_recorded_as_any_other(
    inside: InProcess, store: Path
) -> None:
    """What it says is hidden like everything else of its request, and kept by nobody."""
    headers = {"traceparent": f"00-{'c' * 32}-{'d' * 16}-01"}
    answer = inside.ask("POST", "/v1/chat/completions", b"{}", headers)
    assert answer.status == 401 and "affiant-receipt-id" in answer.headers
    assert not any(("c" * 32).encode() in path.read_bytes() for path in store.glob("*.seg"))


def test_a_record_that_cannot_be_formed_is_noticed_before_anything_goes_upstream(
    inside: InProcess, platform: PlatformClient, openings: X25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = SessionClient.start(inside, platform, openings=openings)
    monkeypatch.setattr("affiant.gateway.requests.account._bounded", lambda _: ["x" * 300])
    answer = session.say("hi")
    assert (answer.status, answer.code) == (400, ShapeMismatch.code)
    (record,) = [r for r in records_of(session, openings) if r.member("agt", "cseq") == 0]
    assert (record.kind, record.member("rsn"), record.member("pol")) == ("refusal", "gateway.error", None)
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
        raise StateError("no upstream lists this model", found=model, code="model.not_found")

    monkeypatch.setattr(inside.service.upstreams, "choose", choose)
    answer = session.say("hi")
    assert (answer.status, answer.code) == (404, "model.not_found")
    assert opened == [{answer.headers["affiant-receipt-id"]}]
    assert record_of(session, answer).kind == "refusal"
    assert not opens_of(entries_of(store)[-1])


@pytest.mark.parametrize(
    ("forwarding", "results", "sends"),
    [
        (False, [], 0),
        (True, [], 1),
        (True, ["ok"], 1),
        (True, ["upstream.unreachable"], 0),
        (True, ["upstream.cut"], 1),
        (True, ["upstream.cut", "ok"], 2),
        (True, ["upstream.cut", "upstream.unreachable"], 1),
        (True, ["upstream.cut", "upstream.timeout"], 2),
    ],
)
def test_how_often_a_request_may_have_gone_upstream(forwarding: bool, results: list[str], sends: int) -> None:
    told: list[dict[str, object]] = []

    class Limited:
        limits: Any = None

        def settle(self, _: Reservation, **said: object) -> None:
            told.append(said)

    session: Any = Limited()
    session.limits = session
    nothing: Any = None
    account = Account(nothing, "r" * 22, "POST", "/v1/chat/completions", session=session)
    account.reservation, account.forwarding = Reservation(Charge(1, ()), None), forwarding
    account.attempts = [Attempt("u", "h", "tls", result) for result in results]
    account.leave()
    assert told == [{"sends": sends, "status": 0, "used": None}]
