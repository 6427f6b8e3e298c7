"""Sessions end once, with everything counted; epochs go on when nothing does."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.gateway.in_process import InProcess, asgi, in_process
from tests.gateway.session_client import SessionClient
from tests.gateway.upstream_server import completion, scripted_upstream, whole

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.canonical import parse_object
from affiant.attestation.records.session_summary import session_counts, session_root
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.statements.ear import verify_ear
from affiant.gateway.sessions.sessions import SessionState


@pytest.fixture
def inside(platform: PlatformClient, tmp_path: Path) -> Iterator[InProcess]:
    with in_process(platform, tmp_path / "store", drain_s=1, silent_s=60) as gateway:
        yield gateway


def payloads(session: SessionClient) -> list[dict]:
    texts = [entry["sdjwt"] for entry in session.bundle()["bundle"]["receipts"]]
    return [dict(parse_object(from_b64u(text.split(".")[1]))) for text in texts]


def test_the_close_counts_everything(inside: InProcess, platform: PlatformClient) -> None:
    session = SessionClient.start(inside, platform)
    session.say("hi")
    session.say('call_tool:read_file {"a": 1}')
    session.say("call_tool:rm {}")
    session.chat(b"garbage")
    session.submit(session.end_record())
    answer = session.close()
    close = parse_object(from_b64u(answer.json()["close"].split(".")[1]))
    mine = [
        p for p in payloads(session) if p["role"] == "gateway" and p.get("agt", {}).get("ses") == session.id
    ]
    before = [p for p in mine if p["kind"] != "session-close"]
    assert close["n"] == len(before) == close["agt"]["seq"]
    assert close["out"] == session_counts((p["kind"], p) for p in before) | {}
    assert close["out"]["inference.policy_stop"] == close["out"]["tool"] == 1
    assert close["out"]["refusal"] == 2, "of the call that was stopped, and of the garbage"
    assert close["why"] == "done"
    assert close["sup"] == {
        "chn": session.made.chn,
        "seq": 1,
        "rh": session.chain.head.rh,
        "end": 1,
    }
    hashes = {p["agt"]["seq"]: rh for p, rh in ((p, _rh(session, p)) for p in before)}
    assert close["root"] == session_root(hashes)


def _rh(session: SessionClient, payload: dict) -> str:
    from affiant.attestation.records.receipt import receipt_hash

    for entry in session.bundle()["bundle"]["receipts"]:
        jws = entry["sdjwt"].rstrip("~")
        if parse_object(from_b64u(jws.split(".")[1]))["jti"] == payload["jti"]:
            return receipt_hash(jws)
    raise AssertionError


def test_closing_again_gives_the_same_close(inside: InProcess, platform: PlatformClient) -> None:
    session = SessionClient.start(inside, platform)
    assert session.close().body == session.close("killed").body
    assert session.say("x").code == "session.closed"
    assert session.submit(session.exec_record()).code == "session.closed"


@pytest.mark.parametrize("body", [b"{}", b'{"why":"lost"}', b'{"why":"lease"}', b'{"why":7}', b"[]", b""])
def test_only_a_supervisors_reasons_are_taken(
    inside: InProcess, platform: PlatformClient, body: bytes
) -> None:
    session = SessionClient.start(inside, platform)
    answer = session.ask("POST", f"/v1/sessions/{session.id}/close", body, content_type="application/json")
    assert answer.status == 400


@pytest.mark.parametrize(("silent", "why"), [(timedelta(), "lease"), (timedelta(minutes=30), "lost")])
def test_an_expired_session_is_closed(
    inside: InProcess, platform: PlatformClient, silent: timedelta, why: str
) -> None:
    session = SessionClient.start(inside, platform)
    inside.clock.offset = timedelta(hours=1) - timedelta(seconds=30) - silent
    found = inside.service.sessions.by_id(session.id)
    assert found is not None
    found.last_proof = int(inside.clock().timestamp())
    inside.clock.offset = timedelta(hours=1, seconds=5)
    inside.run(inside.service.closing.sweep())
    assert found.state is SessionState.CLOSED
    assert json.loads(from_b64u(str(found.close_jws).split(".")[1]))["why"] == why


def test_a_request_after_the_expiry_is_refused_even_before_the_sweep(
    inside: InProcess, platform: PlatformClient
) -> None:
    session = SessionClient.start(inside, platform)
    found = inside.service.sessions.by_id(session.id)
    assert found is not None
    found.expires = int(inside.clock().timestamp())
    assert session.say("hi").code == "session.closed"


def test_a_session_ends_before_what_its_evidence_rests_on_does(
    inside: InProcess, platform: PlatformClient
) -> None:
    """A record that rests on an attestation result after its end is rejected by every verifier."""
    session = SessionClient.start(inside, platform)
    found = inside.service.sessions.by_id(session.id)
    assert found is not None
    now, activation = int(inside.clock().timestamp()), found.admitted.activation
    assert now < found.expires <= min(found.admitted.until, activation.expires)
    result = verify_ear(found.admitted.ear, inside.service.keyset.ear.public_key)
    assert result.until == found.admitted.until
    for until in (now + 60, activation.expires + 60):
        other = replace(activation, session=b64u(os.urandom(16)))
        begun = inside.service.admissions._begin(replace(found.admitted, activation=other, until=until))
        assert begun.expires == min(until, activation.expires)


def test_epochs_are_written_at_their_time_and_after_a_thousand_records(inside: InProcess) -> None:
    async def write() -> list[int | None]:
        closing = inside.service.closing
        now = closing._last_epoch = float(int(closing._last_epoch))  # a sum with a fraction is rounded
        found = []
        for seconds in (now + 59, now + 60, now + 61, now + 119, now + 121):
            recorded = closing.epoch_if_due(seconds=seconds)
            found.append(None if recorded is None else recorded.issued.payload["n"])
        for _ in range(1000):
            inside.service.recorder.record("epoch", {"n": 0, "inf": 0})
        found.append(closing.epoch_if_due(seconds=now + 122) is not None)
        return found

    assert inside.run(write()) == [None, 1, None, None, 2, True]


def test_a_close_gives_up_what_does_not_end_by_itself(platform: PlatformClient, tmp_path: Path) -> None:
    from affiant.gateway.process.launch import UpstreamChoice, upstream_configs

    with scripted_upstream(lambda _: [4.0, *whole(completion())]) as upstream:
        configs = upstream_configs([UpstreamChoice(upstream.url)])
        with in_process(platform, tmp_path / "store", upstreams=configs, drain_s=1) as inside:
            session = SessionClient.start(inside, platform)
            asking = threading.Thread(target=lambda: _ignore(session))
            asking.start()
            # Before it is there it may still be refused, as one of a session that closes.
            while not upstream.received:
                time.sleep(0.01)
            answer = session.close("killed")
            assert answer.status == 200
            close = parse_object(from_b64u(answer.json()["close"].split(".")[1]))
            assert close["out"]["inference.client_abort"] == 1
            asking.join(10)


def _ignore(session: SessionClient) -> None:
    try:
        session.say("hi")
    except BaseException:
        pass


def test_ending_closes_every_open_session_as_lost_and_the_chain(
    inside: InProcess, platform: PlatformClient
) -> None:
    sessions = [SessionClient.start(inside, platform) for _ in range(3)]
    inside.run(inside.service.closing.end())
    found = [payloads(session) for session in sessions]
    for records, session in zip(found, sessions, strict=True):
        (close,) = [p for p in records if p["kind"] == "session-close" and p["agt"]["ses"] == session.id]
        assert close["why"] == "lost"
    assert inside.service.recorder.head is not None


def test_a_client_that_is_cancelled_before_the_open_has_its_refusal(
    inside: InProcess, platform: PlatformClient
) -> None:
    """The server cancels a request's task: whatever step it was in, the session's numbers have no hole."""
    session = SessionClient.start(inside, platform)
    body = json.dumps({"model": "affiant-dev-echo", "messages": []}).encode()
    target, kind = "/v1/chat/completions", "application/json"

    async def cancelled(turns: int) -> None:
        proof = session.proof("POST", target, body, content_type=kind, counted=True)
        headers = {"Content-Type": kind, "Affiant-Proof": proof}
        task = asyncio.create_task(asgi(inside.app, "POST", target, body, headers))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    for turns in range(1, 25):
        inside.run(cancelled(turns))
    answer = session.close()
    close = parse_object(from_b64u(answer.json()["close"].split(".")[1]))
    mine = [
        p for p in payloads(session) if p.get("agt", {}).get("ses") == session.id and p["role"] == "gateway"
    ]
    assert sorted(p["agt"]["seq"] for p in mine) == list(range(len(mine)))
    counters = [p["agt"]["cseq"] for p in mine if "cseq" in p["agt"]]
    assert len(counters) == len(set(counters))
    assert close["n"] == len(mine) - 1


def test_a_session_that_cannot_be_closed_keeps_no_other_open(
    inside: InProcess, platform: PlatformClient
) -> None:
    stuck, other = (SessionClient.start(inside, platform) for _ in range(2))
    found = inside.service.sessions.by_id(stuck.id)
    assert found is not None
    found.next_number()  # a number that never gets its record
    inside.run(inside.service.closing.end())
    (close,) = [p for p in payloads(other) if p["kind"] == "session-close"]
    assert close["agt"]["ses"] == other.id
    assert inside.service.recorder.head is not None
    assert [p for p in payloads(stuck) if p["kind"] == "end"]


@pytest.mark.parametrize("why", ["draining", "expired", "closing"])
def test_a_counter_that_is_refused_because_something_ends_has_its_record(
    inside: InProcess, platform: PlatformClient, why: str
) -> None:
    session = SessionClient.start(inside, platform)
    found = inside.service.sessions.by_id(session.id)
    assert found is not None
    if why == "draining":
        inside.service.draining = True
    elif why == "expired":
        found.expires = int(inside.clock().timestamp())
    else:
        found.state = SessionState.CLOSING
    code = session.say("hi").code
    assert code == ("gateway.draining" if why == "draining" else "session.closed")
    inside.service.draining, found.state = False, SessionState.OPEN
    close = parse_object(from_b64u(session.close().json()["close"].split(".")[1]))
    (refused,) = [p for p in payloads(session) if p["kind"] == "refusal"]
    assert (refused["rsn"], refused["agt"]["cseq"], refused["agt"]["ses"]) == (code, 0, session.id)
    assert close["out"] == {"refusal": 1, "session-start": 1}


def test_nothing_takes_a_number_once_the_close_has_its_own(
    inside: InProcess, platform: PlatformClient
) -> None:
    session = SessionClient.start(inside, platform)
    session.close()
    answer = session.say("late")
    assert answer.code == "session.closed"
    assert "affiant-receipt-id" not in answer.headers  # no record that has its counter: the supervisor's has
    mine = [p["kind"] for p in payloads(session) if p.get("agt", {}).get("ses") == session.id]
    assert mine[-1] == "session-close"


def test_a_closed_session_keeps_what_closing_again_needs_and_no_more(
    inside: InProcess, platform: PlatformClient
) -> None:
    session = SessionClient.start(inside, platform)
    ended = session.end_record()
    acknowledged = session.submit(ended)
    session.say("hi")
    closed = session.close()
    found = inside.service.sessions.by_id(session.id)
    assert found is not None
    assert not len(found._tree) and not found._receipts and not found._counts
    assert session.close().body == closed.body
    assert session.submit(ended).json()["rh"] == acknowledged.json()["rh"]
    assert session.bundle()["bundle"]["receipts"]
