"""Unknown callers cannot fill the journal; what a session signed has its record all the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.gateway.in_process import InProcess, in_process
from tests.gateway.session_client import SessionClient, admission_headers, admission_of, draft
from tests.gateway.test_proofs import BODY, JSON, TARGET, proof

from affiant.attestation.simulated.served.client import PlatformClient
from affiant.gateway.requests.request_run import RefusalBudget
from affiant.gateway.wire.connections import Turns
from affiant.gateway.wire.errors import Busy


def test_tokens_come_back_with_time_and_never_beyond_the_burst() -> None:
    now = [0.0]
    budget = RefusalBudget(per_second=2, burst=3, seconds=lambda: now[0])

    def taken() -> int:
        for count in range(100):
            try:
                budget.take()
            except Busy:
                return count
        raise AssertionError

    assert (taken(), budget.take_count(), budget.take_count()) == (3, 1, 0)
    now[0] = 1.0
    assert taken() == 2
    now[0] = 1000.0
    assert taken() == 3


@pytest.fixture
def inside(platform: PlatformClient, tmp_path: Path) -> Iterator[InProcess]:
    with in_process(platform, tmp_path / "store", refusals_burst=3, refusals_per_s=0.0) as gateway:
        yield gateway


def test_who_can_ask_again_learns_it_without_a_record_too(
    inside: InProcess, platform: PlatformClient
) -> None:
    made = draft(inside)
    body, headers = admission_of(made, platform), admission_headers(made.nonce)
    inside.service.appraising = Turns(0, 0)
    answers = [inside.ask("POST", "/v1/sessions", body, headers) for _ in range(5)]
    assert [(answer.status, answer.code) for answer in answers] == [(429, "gateway.crowded")] * 5
    assert ["affiant-receipt-id" in answer.headers for answer in answers] == [True] * 3 + [False] * 2
    inside.service.appraising = Turns(1, 1)
    assert inside.ask("POST", "/v1/sessions", body, headers).status == 201


@pytest.mark.parametrize("what", ["no proof", "no admission"])
def test_a_flood_of_unknown_callers_is_answered_without_records(
    inside: InProcess, platform: PlatformClient, what: str
) -> None:
    session = SessionClient.start(inside, platform)
    before = inside.service.recorder.count
    if what == "no proof":
        answers = [inside.ask("POST", TARGET, BODY, {"Content-Type": JSON}) for _ in range(20)]
    else:
        headers = admission_headers(inside.nonce())
        answers = [inside.ask("POST", "/v1/sessions", b"garbage", headers) for _ in range(20)]
    assert inside.service.recorder.count == before + 3
    for answer in answers[:3]:
        assert answer.status in {400, 401} and answer.headers["affiant-receipt-id"]
    for answer in answers[3:]:
        assert (answer.status, answer.code) == (429, "gateway.busy")
        assert "affiant-receipt-id" not in answer.headers
    assert inside.service.refusals.take_count() == 17
    assert session.chat(b"garbage").headers["affiant-receipt-id"]  # its counter still ends in a record
    late = inside.ask(
        "POST", TARGET, BODY, {"Content-Type": JSON, "Affiant-Proof": proof(session, body=b"another")}
    )
    assert (late.status, late.code) == (401, "proof.mismatch") and late.headers["affiant-receipt-id"]
