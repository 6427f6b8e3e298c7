"""The approval queue over HTTP: who may read, who may decide, and that nothing counts before it is recorded."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.approvals.approver import Approver, action_of, path_of, profile
from tests.gateway.in_process import InProcess, in_process
from tests.gateway.session_client import SessionClient

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.canonical import parse_object
from affiant.attestation.records.receipt import VerifiedReceipt, parse_receipt, verify_receipt
from affiant.attestation.signatures.approvers.reader_proof import READER_HEADER
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.statements.statement import parse_statement
from affiant.errors import AffiantError
from affiant.gateway.approvals import queue as queue_module
from affiant.gateway.approvals import readers
from affiant.gateway.sessions.sessions import SessionState
from affiant.policy.approvals.action import Action, Draft, parse_action, tool_draft
from affiant.policy.loading.load import load_profiles
from affiant.policy.model.profile import Approval


@dataclass
class Place:
    gateway: InProcess
    platform: PlatformClient
    ann: Approver
    bob: Approver

    def session(self, *approvers: Approver, more: str = "") -> tuple[SessionClient, str]:
        """A session whose profile names these, and the digest of the profile."""
        text = profile(*(each.kid for each in approvers), more=more)
        digest = load_profiles(text).profile("tester").digest
        return SessionClient.start(self.gateway, self.platform, profile=text), digest

    def asked(self, *approvers: Approver, more: str = "") -> tuple[SessionClient, Action]:
        session, digest = self.session(*approvers, more=more)
        posted = action_of(session, policy=digest)
        answer = post(session, posted.raw)
        assert answer.status == 200, answer.body
        return session, posted


def post(session: SessionClient, raw: bytes, *, of: str | None = None):
    target = f"/v1/sessions/{of or session.id}/approvals"
    return session.ask("POST", target, raw, content_type="application/json")


def receipt_of(session: SessionClient, jti: str) -> VerifiedReceipt:
    statement = parse_statement(session.gateway.keyset)
    return verify_receipt(parse_receipt(session.receipt(jti).body.decode()), statement)


def said(session: SessionClient, action: Action):
    return session.ask("GET", f"/v1/sessions/{session.id}/approvals/{action.name.removeprefix('sha256:')}")


@pytest.fixture(scope="module")
def place(platform: PlatformClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    store: Path = tmp_path_factory.mktemp("approvals") / "store"
    with in_process(platform, store, drain_s=1) as gateway:
        yield Place(gateway, platform, Approver(gateway), Approver(gateway))


def test_an_action_is_read_approved_recorded_and_fetched(place: Place) -> None:
    session, action = place.asked(place.ann)
    (entry,) = [each for each in place.ann.listed() if each["session"] == session.id]
    assert entry | {"made": 0, "not_after": 0} == {
        "action": action.name,
        "agent": "tester",
        "approved": [],
        "denied": [],
        "made": 0,
        "not_after": 0,
        "plane": "egress",
        "quorum": 1,
        "session": session.id,
        "state": "pending",
    }
    shown = place.ann.ask("GET", path_of(action))
    assert parse_action(from_b64u(shown.json()["bytes"])) == action
    assert shown.headers["cache-control"] == "no-store"
    assert said(session, action).json() == {"state": "pending", "statements": []}
    statement = place.ann.says(action)
    decided = place.ann.hand_over(action, statement)
    assert decided.status == 200, decided.body
    record = decided.json()["record"]
    assert said(session, action).json() == {
        "state": "approved",
        "statements": [{"statement": statement, "record": record}],
    }
    receipt = receipt_of(session, record)
    assert receipt.kind == "approval"
    assert receipt.member("apr") == {
        "dig": action.name,
        "kid": place.ann.kid,
        "sig": statement,
        "exp": action.not_after,
        "via": "cli",
    }
    assert (receipt.member("act", "end"), receipt.member("pol", "dec")) == ("complete", "allow")
    assert receipt.disclosed.text("act.tgt") == "POST https://api.example.com/v1/x"


def test_the_same_statement_again_has_one_record(place: Place) -> None:
    session, action = place.asked(place.ann)
    statement = place.ann.says(action)
    answers = [place.ann.hand_over(action, statement).json() for _ in range(3)]
    assert len({answer["record"] for answer in answers}) == 1
    texts = [entry["sdjwt"] for entry in session.bundle()["bundle"]["receipts"]]
    kinds = [parse_object(from_b64u(text.split(".")[1])).get("kind") for text in texts]
    assert kinds.count("approval") == 1


def test_a_denial_is_recorded_and_ends_it(place: Place) -> None:
    session, action = place.asked(place.ann, place.bob)
    assert place.ann.decide(action).json()["state"] == "approved"
    denied = place.bob.decide(action, approves=False).json()
    assert denied["state"] == "denied"
    receipt = receipt_of(session, denied["record"])
    assert (receipt.member("act", "end"), receipt.member("pol", "dec")) == ("refused", "deny")
    again = place.ann.decide(action)
    assert (again.status, again.code) == (403, "approval.denied")


@dataclass
class Release:
    """Records are signed, and are durable once it is set."""

    signed: threading.Event
    go: threading.Event


def slow_records(place: Place, monkeypatch: pytest.MonkeyPatch) -> Release:
    recorder, release = place.gateway.service.recorder, Release(threading.Event(), threading.Event())
    whole = recorder.session_record

    def slowly(*arguments: Any, **more: Any) -> Any:
        recorded = whole(*arguments, **more)

        async def durable() -> None:
            while not release.go.is_set():
                await asyncio.sleep(0.01)
            await recorded.durable

        release.signed.set()
        return type(recorded)(recorded.issued, recorded.head, asyncio.ensure_future(durable()))

    monkeypatch.setattr(recorder, "session_record", slowly)
    return release


def test_a_denial_is_not_handed_on_under_the_record_of_the_approval_before_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, action = place.asked(place.ann)
    place.ann.decide(action)
    release = slow_records(place, monkeypatch)
    with ThreadPoolExecutor(1) as pool:
        denied = pool.submit(place.ann.decide, action, approves=False)
        assert release.signed.wait(10)
        assert said(session, action).json() == {"state": "denied", "statements": []}
        release.go.set()
        record = denied.result(10).json()["record"]
    (left,) = said(session, action).json()["statements"]
    assert left["record"] == record
    assert receipt_of(session, record).member("apr", "sig") == left["statement"]


def test_a_quorum_is_counted_by_keys(place: Place) -> None:
    _, action = place.asked(place.ann, place.bob, more=", quorum: 2")
    assert place.ann.decide(action).json()["state"] == "pending"
    assert place.ann.decide(action).json()["state"] == "pending"
    assert place.bob.decide(action).json()["state"] == "approved"


def test_whoever_is_no_approver_sees_and_decides_nothing(place: Place) -> None:
    _, action = place.asked(place.ann)
    stranger = Approver(place.gateway)
    for answer in (
        stranger.ask("GET", "/v1/approvals"),
        stranger.ask("GET", path_of(action)),
        stranger.decide(action),
    ):
        assert (answer.status, answer.code) == (403, "approval.not_an_approver")
    place.asked(place.bob)  # an approver, of another session
    assert action.name not in [each["action"] for each in place.bob.listed()]
    for answer in (place.bob.ask("GET", path_of(action)), place.bob.decide(action)):
        assert (answer.status, answer.code) == (404, "not_found")
    for target in ("/v1/approvals", path_of(action)):
        assert place.gateway.ask("GET", target).code == "proof.missing"


def test_an_approver_hands_over_nobody_elses_statement(place: Place) -> None:
    """Else whoever holds one key could replay what another said, or be counted for it."""
    _, action = place.asked(place.ann, place.bob, more=", quorum: 2")
    foreign = place.bob.says(action)
    answer = place.ann.hand_over(action, foreign)
    assert (answer.status, answer.code) == (403, "approval.not_an_approver")
    other = place.ann.hand_over(action, place.ann.says(action, of="sha256:" + "0" * 64))
    assert other.code == "approval.other_action"
    assert place.ann.ask("GET", path_of(action)).json()["approved"] == []


@pytest.mark.parametrize("wrong", ["target", "method", "body", "spki", "time", "past", "replay", "garbage"])
def test_a_proof_is_for_one_request_at_this_gateway_now(place: Place, wrong: str) -> None:
    _, action = place.asked(place.ann)
    target, body, method, ahead, ann = "/v1/approvals", b"", "GET", 0, place.ann
    if wrong == "target":
        target = path_of(action)
    elif wrong == "method":
        method = "POST"
    elif wrong == "body":
        body = b"x"
    elif wrong == "spki":
        ann = Approver(place.gateway, place.ann.signer, b64u(secrets.token_bytes(32)))
    elif wrong == "time":
        ahead = 120
    elif wrong == "past":
        ahead = -120
    proof = "e30.e30.e30" if wrong == "garbage" else ann.proof(method, target, body, ahead=ahead)
    if wrong == "replay":
        assert place.gateway.ask("GET", "/v1/approvals", headers={READER_HEADER: proof}).status == 200
    answer = place.gateway.ask("GET", "/v1/approvals", headers={READER_HEADER: proof})
    expected = (400, "approval.statement") if wrong == "garbage" else (401, "approval.reader")
    assert (answer.status, answer.code) == expected


def test_an_approver_who_asks_too_often_keeps_no_other_from_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    often, other = Approver(place.gateway), Approver(place.gateway)
    _, action = place.asked(often, other)
    monkeypatch.setattr(readers, "_MAX_SEEN", 3)
    answers = [often.ask("GET", path_of(action)) for _ in range(5)]
    assert [answer.status for answer in answers] == [200] * 3 + [answers[-1].status] * 2
    assert answers[-1].code == "approval.reader"
    assert other.ask("GET", path_of(action)).status == 200


def test_what_waits_is_listed_before_what_has_ended(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    ann = Approver(place.gateway)
    session, first = place.asked(ann)
    more = [action_of(session, policy=first.policy, body=b"%d" % number) for number in range(3)]
    for each in more:
        assert post(session, each.raw).status == 200
    for each in (first, more[0]):
        ann.decide(each, approves=False)
    monkeypatch.setattr(queue_module, "_MAX_LISTED", 3)
    assert [each["action"] for each in ann.listed()] == [each.name for each in (more[1], more[2], more[0])]
    assert ann.ask("GET", path_of(first)).json()["state"] == "denied", (
        "what is not listed is there all the same"
    )


def test_a_session_posts_and_reads_its_own_actions_only(place: Place) -> None:
    session, digest = place.session(place.ann)
    other, _ = place.session(place.ann)
    action = action_of(session, policy=digest)
    for answer in (
        post(other, action.raw),
        post(session, action_of(session, policy="sha384:" + "0" * 96).raw),
        post(session, action.raw + b" "),
        post(session, action_of(session, policy=digest, ttl=601).raw),
    ):
        assert (answer.status, answer.code) == (400, "approval.action")
    assert post(session, action.raw, of=other.id).code == "not_found"
    assert post(session, action.raw).status == 200
    assert said(other, action).code == "approval.unknown"


def test_a_session_posts_no_call_of_a_tool_that_the_gateway_makes(place: Place) -> None:
    session, digest = place.session(place.ann)
    action = call_of(session, digest).issue(
        nonce=b64u(secrets.token_bytes(16)), made=int(time.time()), not_after=int(time.time()) + 60
    )
    answer = post(session, action.raw)
    assert (answer.status, answer.code) == (400, "approval.action")


def call_of(session: SessionClient, policy: str) -> Draft:
    return tool_draft(
        session=session.id,
        agent=None,
        policy=policy,
        rules=("tools/0",),
        tool="pay",
        server="bank",
        schema="sha256:" + "ab" * 32,
        arguments="{}",
    )


def test_the_gateway_takes_no_approval_before_its_record_or_after_the_session(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, digest = place.session(place.ann)
    box, session = place.gateway.service.approvals, place.gateway.service.sessions.by_id(client.id)
    assert session is not None
    draft = call_of(client, digest)

    async def asked() -> Sequence[Action]:
        return box.ask(session, [draft])

    async def claimed(actions: Sequence[Action]) -> str:
        try:
            async with asyncio.timeout(1.2):  # whoever waits looks again each second
                await box.approved(session, actions)
        except TimeoutError:
            pass
        try:
            box.claim(session, actions)
        except AffiantError as error:
            return error.code
        return "claimed"

    first = place.gateway.run(asked())
    release = slow_records(place, monkeypatch)
    with ThreadPoolExecutor(1) as pool:
        decided = pool.submit(place.ann.decide, first[0])
        assert release.signed.wait(10)
        assert place.gateway.run(claimed(first)) == "approval.pending"
        release.go.set()
        assert decided.result(10).json()["state"] == "approved"
    assert place.gateway.run(claimed(first)) == "claimed"
    second = place.gateway.run(asked())
    place.ann.decide(second[0])
    monkeypatch.setattr(session, "state", SessionState.CLOSING)

    async def closed() -> str:
        try:
            box.claim(session, second)
        except AffiantError as error:
            return error.code
        return "claimed"

    assert place.gateway.run(closed()) == "session.closed"

    async def posted() -> str:
        try:
            box.post(session, action_of(client, policy=digest).raw)
        except AffiantError as error:
            return error.code
        return "posted"

    assert place.gateway.run(posted()) == "session.closed"


def test_a_sessions_own_key_approves_nothing_whatever_its_profile_says(place: Place) -> None:
    client, digest = place.session(place.ann)
    session = place.gateway.service.sessions.by_id(client.id)
    assert session is not None
    own = session.admitted.statement.receipt_kid
    waiting = queue_module._queue_of(session)
    waiting.narrow(policy=digest, approval=Approval(True, (), (own, place.ann.kid), 1, 600))
    assert [waiting.may_approve(kid) for kid in (own, place.ann.kid)] == [False, True]


def test_a_sessions_actions_are_bounded(place: Place) -> None:
    session, digest = place.session(place.ann)
    answers = [post(session, action_of(session, policy=digest, body=b"%d" % n).raw) for n in range(17)]
    assert [answer.status for answer in answers] == [200] * 16 + [429]


def test_what_nobody_approved_in_time_is_shown_and_never_approved(place: Place) -> None:
    session, action = place.asked(place.ann)
    place.gateway.clock.offset = timedelta(seconds=601)
    try:
        late = Approver(place.gateway, place.ann.signer)
        proof = late.proof("GET", "/v1/approvals", ahead=601)
        listed = place.gateway.ask("GET", "/v1/approvals", headers={READER_HEADER: proof}).json()["approvals"]
        (entry,) = [each for each in listed if each["action"] == action.name]
        assert entry["state"] == "expired"
        statement = place.ann.says(action).encode()
        proof = late.proof("POST", path_of(action), statement, ahead=601)
        answer = place.gateway.ask(
            "POST", path_of(action), statement, {READER_HEADER: proof, "Content-Type": "application/jose"}
        )
        assert answer.code == "approval.expired"
    finally:
        place.gateway.clock.offset = timedelta()


def test_when_the_session_ends_nothing_of_it_waits(place: Place) -> None:
    session, action = place.asked(place.ann)
    assert session.close().status == 200
    (entry,) = [each for each in place.ann.listed() if each["action"] == action.name]
    assert entry["state"] == "expired"
    assert place.ann.decide(action).code == "session.closed"


def test_what_the_supervisor_records_of_an_action_is_shown(place: Place) -> None:
    """Whoever looks sees whether it was done; what was begun and never ended is unknown."""
    states = {}
    for ends in (True, False):
        session, action = place.asked(place.ann)
        decided = place.ann.decide(action).json()
        apr = receipt_of(session, decided["record"]).member("apr")
        pol = {
            "dec": "allow",
            "dig": action.policy,
            "fil": "sha256:" + "0" * 64,
            "bind": "mrconfigid",
            "epoch": 0,
        }
        members = {"act": {"typ": "egress"}, "pol": pol, "agt": session.agt()}
        intent = session.chain.issue(
            "egress", {**members, "ph": "intent", "apr": apr, "par": [decided["record"]]}, {}
        )
        assert session.submit(intent).status == 200
        assert said(session, action).json()["state"] == "dispatched"
        again = place.ann.decide(action)
        assert (again.status, again.code) == (409, "approval.used")
        if ends:
            jti = intent.payload["jti"]
            outcome = {**members, "act": {"typ": "egress", "end": "complete"}, "ph": "outcome", "par": [jti]}
            assert session.submit(session.chain.issue("egress", outcome, {})).status == 200
        session.close()
        (entry,) = [each for each in place.ann.listed() if each["action"] == action.name]
        states[ends] = entry["state"]
    assert states == {True: "done", False: "unknown"}
