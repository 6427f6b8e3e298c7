"""A gateway that is to be stopped: no new sessions, and those that it has end in order, within bounds."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.gateway.in_process import Held, InProcess, asgi, in_process
from tests.gateway.session_client import Answer, SessionClient, admission_headers, draft, evidence_of

from affiant.attestation.encoding.binary_text import from_b64u
from affiant.attestation.encoding.canonical import parse_object
from affiant.attestation.records.proof import PROOF_HEADER
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.statements.evidence import Admission, wrap_admission
from affiant.errors import AffiantError, StateError
from affiant.gateway.admission import draining
from affiant.gateway.admission.closing import Closing
from affiant.gateway.admission.draining import TRANSITIONS, DrainState
from affiant.gateway.bundles.bundles import Bundles
from affiant.gateway.cli import drain_command
from affiant.gateway.service.control_plane import operator_plane
from affiant.gateway.sessions.sessions import Session, SessionState
from affiant.gateway.wire.errors import JournalUnavailable
from affiant.sandbox.supervisor import closing, supervise
from affiant.sandbox.supervisor.gateway import gateway_watch


@pytest.fixture
def inside(platform: PlatformClient, tmp_path: Path) -> Iterator[InProcess]:
    with in_process(platform, tmp_path / "store", drain_s=1) as gateway:
        yield gateway


class Asked:
    """A supervisor's question whether its session is to be closed, held by the gateway."""

    def __init__(self, inside: InProcess, session: SessionClient, gone: asyncio.Event | None = None) -> None:
        target = f"/v1/sessions/{session.id}/draining"
        headers = {PROOF_HEADER: session.proof("GET", target)}
        asking = asgi(inside.app, "GET", target, b"", headers, gone=gone)
        self._answer: Future[Answer] = asyncio.run_coroutine_threadsafe(asking, inside.loop)
        self._drain = inside.service.drain
        until = time.monotonic() + 10
        while session.id not in self._drain._held and not self._answer.done():
            assert time.monotonic() < until
            time.sleep(0.01)

    @property
    def open(self) -> bool:
        return not self._answer.done()

    def answer(self) -> Answer:
        return self._answer.result(10)

    def leave(self) -> None:
        """The supervisor closes its connection."""
        self._answer.cancel()
        until = time.monotonic() + 10
        while self._drain._held:
            assert time.monotonic() < until
            time.sleep(0.01)


def begin(inside: InProcess, *, within: float, closing: float = 20.0) -> None:
    async def begun() -> None:
        inside.service.drain.begin(within_s=within, closed_within_s=closing)

    inside.run(begun())


def drained(inside: InProcess) -> dict:
    inside.run(inside.service.drain.ended())
    return dict(inside.service.drain.report())


def operator(inside: InProcess, method: str, target: str, body: bytes = b"") -> Answer:
    return inside.run(asgi(operator_plane(inside.service), method, target, body, {}))


def close_of(session: SessionClient) -> dict:
    texts = [entry["sdjwt"] for entry in session.bundle()["bundle"]["receipts"]]
    records = [dict(parse_object(from_b64u(text.split(".")[1]))) for text in texts]
    (found,) = [record for record in records if record["kind"] == "session-close"]
    return found


def test_no_session_is_admitted_and_the_client_is_told_when_to_try_again(
    inside: InProcess, platform: PlatformClient
) -> None:
    open_one = SessionClient.start(inside, platform)
    begin(inside, within=30, closing=5)
    refused = inside.ask("POST", "/v1/sessions/nonce")
    assert (refused.status, refused.code) == (503, "gateway.draining")
    headers = {name.lower(): value for name, value in refused.headers.items()}
    assert headers["x-should-retry"] == "true" and 30 <= int(headers["retry-after"]) <= 35
    assert inside.ask("GET", "/readyz").status == 503
    assert open_one.say("hi").status == 200, "a session that is open goes on"
    begin(inside, within=0)
    drained(inside)


def test_a_nonce_from_before_admits_nothing_any_more(inside: InProcess, platform: PlatformClient) -> None:
    nonce = inside.run(_nonce(inside))
    begin(inside, within=0)
    with pytest.raises(AffiantError) as refused:
        inside.run(inside.service.admit(b"", nonce))
    assert refused.value.code == "gateway.draining"
    drained(inside)


async def _nonce(inside: InProcess) -> str:
    return inside.service.admissions.nonce()


def test_a_session_whose_evidence_is_being_judged_is_not_admitted_into_a_drained_gateway(
    inside: InProcess, platform: PlatformClient
) -> None:
    held = Held(inside.service.admissions.collateral)
    inside.service.admissions = replace(inside.service.admissions, collateral=held)
    made = draft(inside)
    body = wrap_admission(Admission(evidence_of(made, platform), made.policy))
    asking = asgi(inside.app, "POST", "/v1/sessions", body, admission_headers(made.nonce))
    answer = asyncio.run_coroutine_threadsafe(asking, inside.loop)
    assert held.begun.wait(10)
    begin(inside, within=0)
    drained(inside)
    held.end.set()
    assert (answer.result(20).status, answer.result().code) == (503, "gateway.draining")
    assert list(inside.service.sessions) == []


def test_a_gateway_without_sessions_is_drained_at_once(inside: InProcess) -> None:
    began = time.monotonic()
    begin(inside, within=600)
    assert drained(inside)["state"] == "drained"
    assert time.monotonic() - began < 60


def test_a_session_that_ends_by_itself_is_waited_for(inside: InProcess, platform: PlatformClient) -> None:
    session = SessionClient.start(inside, platform)
    begin(inside, within=600)
    assert inside.service.drain.state is DrainState.DRAINING
    assert session.close("done").status == 200
    report = drained(inside)
    assert (report["finished"], report["closed"], report["lost"]) == (1, 0, [])
    assert close_of(session)["why"] == "done"


def test_a_session_that_ended_by_itself_was_not_closed_by_the_drain(
    inside: InProcess, platform: PlatformClient
) -> None:
    """Although its supervisor's last question was still held when the others were told."""
    session = SessionClient.start(inside, platform)
    asked = Asked(inside, session)
    begin(inside, within=600)
    session.close("done")
    session.bundle()
    report = drained(inside)
    assert (report["finished"], report["closed"], report["lost"]) == (1, 0, [])
    assert asked.answer().json() == {"close": True}


def test_a_supervisor_is_told_when_time_is_up_and_its_close_and_bundle_are_waited_for(
    inside: InProcess, platform: PlatformClient
) -> None:
    session = SessionClient.start(inside, platform)
    asked = Asked(inside, session)
    begin(inside, within=0)
    assert asked.answer().json() == {"close": True}
    assert session.close("killed").status == 200
    time.sleep(0.2)
    assert inside.service.drain.state is DrainState.CLOSING, "its bundle was not asked for"
    assert close_of(session)["why"] == "killed"
    report = drained(inside)
    assert (report["finished"], report["closed"], report["lost"]) == (0, 1, [])


def test_a_bundle_that_was_read_before_the_close_is_not_the_one_that_is_waited_for(
    inside: InProcess, platform: PlatformClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = SessionClient.start(inside, platform)
    found = inside.service.sessions.by_id(session.id)
    assert found is not None
    read = Bundles.of_session

    async def closed_meanwhile(bundles: Bundles, name: str) -> bytes:
        made = await read(bundles, name)
        await inside.service.closing.close(found, "done")
        return made

    with monkeypatch.context() as patched:
        patched.setattr(Bundles, "of_session", closed_meanwhile)
        session.bundle()
    assert found.state is SessionState.CLOSED and not found.bundle_given
    assert close_of(session)["why"] == "done"
    assert found.bundle_given


def test_a_question_is_held_until_time_is_up(inside: InProcess, platform: PlatformClient) -> None:
    session = SessionClient.start(inside, platform)
    asked = Asked(inside, session)
    begin(inside, within=600)
    time.sleep(0.2)
    assert asked.open
    begin(inside, within=0)
    assert asked.answer().json() == {"close": True}
    session.close("killed")
    session.bundle()
    drained(inside)


def test_a_later_question_of_a_session_has_the_earlier_one_answered(
    inside: InProcess, platform: PlatformClient
) -> None:
    """So one session cannot have the gateway hold more and more of them."""
    session = SessionClient.start(inside, platform)
    first = Asked(inside, session)
    second = Asked(inside, session)
    assert first.answer().json() == {"close": False}
    assert second.open and len(inside.service.drain._held) == 1
    begin(inside, within=0, closing=0.2)
    assert second.answer().json() == {"close": True}
    drained(inside)


def test_a_question_is_answered_after_a_while_although_nothing_has_changed(
    inside: InProcess, platform: PlatformClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So no connection is silent for so long that something in between ends it."""
    monkeypatch.setattr(draining, "HELD_S", 0.05)
    session = SessionClient.start(inside, platform)
    assert Asked(inside, session).answer().json() == {"close": False}
    assert not inside.service.drain._held
    begin(inside, within=0, closing=0.2)
    drained(inside)


def test_no_question_of_an_ended_session_is_held_after_the_drain(
    inside: InProcess, platform: PlatformClient
) -> None:
    session = SessionClient.start(inside, platform)
    asked = Asked(inside, session)
    session.close()
    session.bundle()
    begin(inside, within=0)
    assert drained(inside)["lost"] == []
    assert asked.answer().status == 200


def test_a_question_needs_the_proof_of_that_very_session(inside: InProcess, platform: PlatformClient) -> None:
    session, other = (SessionClient.start(inside, platform) for _ in range(2))
    target = f"/v1/sessions/{session.id}/draining"
    assert inside.ask("GET", target).code == "proof.missing"
    headers = {PROOF_HEADER: other.proof("GET", target)}
    assert inside.ask("GET", target, headers=headers).code == "not_found"
    assert not inside.service.drain._held


def test_a_supervisor_that_does_not_close_in_time_has_its_session_lost(
    inside: InProcess, platform: PlatformClient
) -> None:
    session = SessionClient.start(inside, platform)
    asked = Asked(inside, session)
    begin(inside, within=0, closing=0.3)
    assert asked.answer().json() == {"close": True}
    assert drained(inside)["lost"] == [session.id]
    assert close_of(session)["why"] == "lost"


def test_a_session_whose_supervisor_never_asked_is_not_waited_for(
    inside: InProcess, platform: PlatformClient
) -> None:
    session = SessionClient.start(inside, platform)
    began = time.monotonic()
    begin(inside, within=0, closing=600)
    assert drained(inside)["lost"] == [session.id]
    assert time.monotonic() - began < 60


def test_a_session_whose_supervisor_asked_once_and_left_is_not_waited_for(
    inside: InProcess, platform: PlatformClient
) -> None:
    session = SessionClient.start(inside, platform)
    Asked(inside, session).leave()
    began = time.monotonic()
    begin(inside, within=0, closing=600)
    assert drained(inside)["lost"] == [session.id]
    assert time.monotonic() - began < 60


def test_a_session_whose_close_is_not_recorded_is_named_and_the_drain_does_not_succeed(
    inside: InProcess,
    platform: PlatformClient,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stuck, done = (SessionClient.start(inside, platform) for _ in range(2))
    done.close("done")

    async def unrecorded(_: Closing, session: Session, why: str) -> dict:
        session.move(SessionState.CLOSING)
        session.closed_why = why
        raise JournalUnavailable("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(Closing, "close", unrecorded)
        begin(inside, within=0, closing=0.2)
        report = drained(inside)
    assert (report["closed"], report["lost"], report["unclosed"]) == (0, [], [stuck.id])
    answer = json.dumps(report).encode()
    assert drain_command.drained(Path(), 0, lambda *_, **__: answer, as_json=False) == 3
    shown = capsys.readouterr().out
    assert "0 lost, 1 not closed" in shown
    assert f"not closed: {stuck.id}" in shown


def test_a_session_whose_supervisor_was_killed_is_not_waited_for(
    inside: InProcess, platform: PlatformClient
) -> None:
    """Its connection has ended; what it asked there is answered to nobody, and was no sign of life."""
    session, gone = SessionClient.start(inside, platform), asyncio.Event()
    Asked(inside, session, gone)
    inside.loop.call_soon_threadsafe(gone.set)
    until = time.monotonic() + 10
    while inside.service.drain._held:
        assert time.monotonic() < until
        time.sleep(0.01)
    began = time.monotonic()
    begin(inside, within=0, closing=600)
    assert drained(inside)["lost"] == [session.id]
    assert time.monotonic() - began < 60


def test_a_stopped_gateway_waits_for_a_close_and_within_five_seconds_gives_a_killed_supervisor_up() -> None:
    """By the bounds of both sides: a supervisor may need five seconds, and a killed session is gone in five."""
    orphan_s = closing._AGENT_S + supervise._ORPHANED_CHAIN_S + supervise._ORPHANED_BUNDLE_S
    killed_by_the_container_s = 10
    assert orphan_s == 5
    assert orphan_s + 1 < draining.STOPPED_WITHIN_S < killed_by_the_container_s
    assert 2 * gateway_watch._ASKED_AGAIN_S <= draining._ASKED_AGAIN_S <= orphan_s / 2


def test_a_new_bound_holds_for_supervisors_that_are_closing_too(
    inside: InProcess, platform: PlatformClient
) -> None:
    session = SessionClient.start(inside, platform)
    asked = Asked(inside, session)
    begin(inside, within=0, closing=600)
    assert asked.answer().json() == {"close": True}
    assert inside.service.drain.state is DrainState.CLOSING
    began = time.monotonic()
    begin(inside, within=0, closing=0.2)
    assert drained(inside)["lost"] == [session.id]
    assert time.monotonic() - began < 60


def test_a_session_that_was_lost_while_it_could_end_by_itself_did_not_end_in_order(
    inside: InProcess, platform: PlatformClient
) -> None:
    """Its supervisor was gone, and its lease ended."""
    session = SessionClient.start(inside, platform)
    begin(inside, within=600)
    inside.clock.offset = timedelta(hours=1, seconds=5)
    inside.run(inside.service.closing.sweep())
    report = drained(inside)
    inside.clock.offset = timedelta()
    assert (report["finished"], report["closed"], report["lost"]) == (0, 0, [session.id])
    assert close_of(session)["why"] == "lost"


def test_one_that_stalls_keeps_no_other_from_an_orderly_close(
    inside: InProcess, platform: PlatformClient
) -> None:
    stalled, good = (SessionClient.start(inside, platform) for _ in range(2))
    questions = [Asked(inside, each) for each in (stalled, good)]
    begin(inside, within=0, closing=5)
    assert all(asked.answer().json() == {"close": True} for asked in questions)
    good.close("killed")
    good.bundle()
    report = drained(inside)
    assert (report["closed"], report["lost"]) == (1, [stalled.id])


def test_to_drain_again_changes_the_bound_and_nothing_else(
    inside: InProcess, platform: PlatformClient
) -> None:
    session = SessionClient.start(inside, platform)
    first = operator(inside, "POST", "/v1/drain", b'{"within": 600}').json()
    assert (first["state"], first["open"]) == ("draining", 1) and 600 < first["seconds"] <= 620
    again = operator(inside, "POST", "/v1/drain", b'{"within": 6000}').json()
    assert 6000 < again["seconds"] <= 6020, "the newest is in force"
    operator(inside, "POST", "/v1/drain", b'{"within": 0}')
    report = drained(inside)
    assert report["lost"] == [session.id]
    after = operator(inside, "POST", "/v1/drain", b'{"within": 600}').json()
    assert after == {**report, "seconds": 0}
    assert operator(inside, "GET", "/v1/drain").json() == after


@pytest.mark.parametrize(
    "body",
    [b"{}", b'{"within": -1}', b'{"within": true}', b'{"within": 86401}', b'{"within": 1.5}', b"x", b""],
)
def test_a_bound_that_is_none_drains_nothing(inside: InProcess, body: bytes) -> None:
    assert operator(inside, "POST", "/v1/drain", body).status in {400, 422}
    assert inside.service.drain.state is DrainState.SERVING


def test_only_the_operator_drains(inside: InProcess) -> None:
    assert inside.ask("POST", "/v1/drain", b'{"within": 0}').status == 404
    assert inside.service.drain.state is DrainState.SERVING


def test_every_state_leads_to_the_next_alone() -> None:
    states = list(DrainState)
    assert {s: TRANSITIONS[s] for s in states} == {
        state: frozenset(states[at + 1 : at + 2]) for at, state in enumerate(states)
    }


def test_a_step_back_is_refused(inside: InProcess) -> None:
    with pytest.raises(StateError):
        inside.service.drain._move(DrainState.DRAINED)


def test_the_overview_says_how_far_it_is(inside: InProcess) -> None:
    assert json.loads(inside.run(inside.service.overview()))["drain"]["state"] == "serving"
    begin(inside, within=0)
    drained(inside)
    assert json.loads(inside.run(inside.service.overview()))["drain"]["state"] == "drained"
