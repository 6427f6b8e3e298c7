"""Approvers by identity at a gateway: introduced, shown what waits, recorded, and nobody else in their place."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.attestation.signatures.approvers.signing_identity import SigningIdentity, root_of
from tests.gateway.approvals.approver import Approver, action_of, path_of
from tests.gateway.approvals.test_queue import post, receipt_of, said
from tests.gateway.in_process import InProcess, in_process
from tests.gateway.session_client import Answer, SessionClient
from tests.sigstore_authority.authority import Authority

from affiant.attestation.encoding.binary_text import from_b64u, sha256_name
from affiant.attestation.signatures.approvers.identities import BUNDLE_TYPE, MAX_SIGNED
from affiant.attestation.signatures.approvers.reader_proof import READER_HEADER
from affiant.attestation.signatures.approvers.signed_by_identity import SignedReader, verify_signed_reader
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.gateway.approvals import readers
from affiant.policy.approvals.action import Action
from affiant.policy.loading.load import load_profiles


@dataclass
class ByIdentity(Approver):
    """Reads with a key of its own making, and signs as an identity."""

    identity: SigningIdentity = field(default_factory=SigningIdentity)

    def introduce(self, text: str | None = None) -> Answer:
        body = (text or self.identity.introduces(self.kid, spki=self.spki, at=time.time())).encode()
        return self.ask("POST", "/v1/approvers", body, **{"Content-Type": BUNDLE_TYPE})

    def says(self, action: Action, *, approves: bool = True, of: str | None = None) -> str:
        return self.identity.says(
            of or action.name, at=time.time(), expires=action.not_after, approves=approves
        )

    def hand_over(self, action: Action, statement: str) -> Answer:
        return self.ask("POST", path_of(action), statement.encode(), **{"Content-Type": BUNDLE_TYPE})


def profile_of(*who: SigningIdentity | str, quorum: int = 1, root: bytes | None = None) -> bytes:
    names = ", ".join(
        each if isinstance(each, str) else f"{{issuer: '{each.issuer}', subject: '{each.subject}'}}"
        for each in who
    )
    identities = [each for each in who if isinstance(each, SigningIdentity)]
    text = json.dumps((root or root_of(identities[0].authority)).decode())
    section = f"{{egress: [POST], approvers: [{names}], quorum: {quorum}, trusted_root: {text}}}"
    return f"agent_configs: {{tester: {{requires_human_approval: {section}}}}}".encode()


@dataclass
class Place:
    gateway: InProcess
    platform: PlatformClient
    deployment: Authority = field(default_factory=Authority)

    def person(self, name: str = "ann") -> ByIdentity:
        return ByIdentity(self.gateway, identity=SigningIdentity(self.deployment, f"{name}@example.org"))

    def asked(self, *who: SigningIdentity | str, quorum: int = 1) -> tuple[SessionClient, Action]:
        text = profile_of(*who, quorum=quorum)
        session = SessionClient.start(self.gateway, self.platform, profile=text)
        posted = action_of(session, policy=load_profiles(text).profile("tester").digest)
        answer = post(session, posted.raw)
        assert answer.status == 200, answer.body
        return session, posted


@pytest.fixture(scope="module")
def place(platform: PlatformClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    store: Path = tmp_path_factory.mktemp("identities") / "store"
    with in_process(platform, store, drain_s=1) as gateway:
        yield Place(gateway, platform)


def test_an_identity_is_introduced_reads_approves_and_is_recorded(place: Place) -> None:
    ann = place.person()
    session, action = place.asked(ann.identity)
    answer = ann.introduce()
    assert answer.status == 200, answer.body
    assert abs(answer.json()["until"] - time.time() - 3600) < 5
    assert action.name in [each["action"] for each in ann.listed()]
    assert from_b64u(ann.ask("GET", path_of(action)).json()["bytes"]) == action.raw
    statement = ann.says(action)
    decided = ann.hand_over(action, statement)
    assert decided.status == 200, decided.body
    record = decided.json()["record"]
    assert said(session, action).json() == {
        "state": "approved",
        "statements": [{"statement": statement, "record": record}],
    }
    receipt = receipt_of(session, record)
    assert receipt.member("apr") == {
        "dig": action.name,
        "kid": ann.identity.name,
        "sig": sha256_name(statement.encode()),
        "exp": action.not_after,
        "via": "cli",
    }
    assert ann.identity.subject not in receipt.text.jws
    kept = session.bundle()["bundle"]["policies"]
    assert from_b64u(kept[sha256_name(statement.encode())]) == statement.encode()


def test_a_quorum_counts_each_identity_once_and_keys_beside_them(place: Place) -> None:
    ann, bob, key = place.person(), place.person("bob"), Approver(place.gateway)
    _, action = place.asked(ann.identity, bob.identity, key.kid, quorum=3)
    for person in (ann, bob):
        assert person.introduce().status == 200
    again = place.person()
    assert again.introduce().status == 200
    states = [each.decide(action).json()["state"] for each in (ann, again, ann, key, bob)]
    assert states == ["pending", "pending", "pending", "pending", "approved"]
    (entry,) = [each for each in bob.listed() if each["action"] == action.name]
    assert entry["approved"] == sorted([ann.identity.name, bob.identity.name, key.kid])


def test_strangers_who_introduce_themselves_take_one_thread_of_the_gateway(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = place.person()
    place.asked(ann.identity)
    under_way, most = 0, 0

    def slowly(*given: Any, **named: Any) -> SignedReader:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        time.sleep(0.1)
        under_way -= 1
        return verify_signed_reader(*given, **named)

    monkeypatch.setattr(readers, "verify_signed_reader", slowly)
    people = [place.person() for _ in range(4)]
    with ThreadPoolExecutor(len(people)) as pool:
        answers = list(pool.map(ByIdentity.introduce, people))
    assert [each.status for each in answers] == [200] * len(people)
    assert most == 1


def test_whoever_was_not_introduced_sees_nothing(place: Place) -> None:
    ann = place.person()
    _, action = place.asked(ann.identity)
    for answer in (ann.ask("GET", "/v1/approvals"), ann.ask("GET", path_of(action)), ann.decide(action)):
        assert (answer.status, answer.code) == (403, "approval.not_an_approver")


def test_nobody_is_introduced_who_is_not_named(place: Place) -> None:
    ann = place.person()
    place.asked(ann.identity)
    issuer = SigningIdentity(place.deployment, ann.identity.subject, "https://accounts.other")
    foreign = SigningIdentity(Authority(), ann.identity.subject)
    refused = {
        place.person("eve").introduce().code,
        ByIdentity(place.gateway, identity=issuer).introduce().code,
    }
    assert refused == {"approval.not_an_approver"}
    assert ByIdentity(place.gateway, identity=foreign).introduce().code == "approval.signature"


def test_a_root_of_ones_own_opens_no_other_session(place: Place) -> None:
    """Whoever may start sessions could name anybody under an authority of their own."""
    ann = place.person()
    _, action = place.asked(ann.identity)
    false = SigningIdentity(Authority(), ann.identity.subject)
    theirs, own = place.asked(false)
    impostor = ByIdentity(place.gateway, identity=false)
    assert impostor.introduce().status == 200
    assert [each["session"] for each in impostor.listed()] == [theirs.id]
    assert impostor.decide(own).json()["state"] == "approved"
    assert impostor.decide(action).code == "not_found"
    assert ann.introduce().status == 200
    assert own.name not in [each["action"] for each in ann.listed()]
    stolen = ann.hand_over(action, impostor.says(action))
    assert stolen.code == "approval.signature"


def test_an_introduction_is_for_one_key_one_gateway_and_an_hour(place: Place) -> None:
    ann = place.person()
    place.asked(ann.identity)
    other = place.person("bob")
    now = time.time()
    for text, code in (
        (ann.identity.introduces(other.kid, spki=ann.spki, at=now), "approval.reader"),
        (ann.identity.introduces(ann.kid, spki="t" * 42 + "A", at=now), "approval.reader"),
        (ann.identity.introduces(ann.kid, spki=ann.spki, at=now - 3601), "approval.reader"),
        (ann.identity.introduces(ann.kid, spki=ann.spki, at=now + 120), "approval.reader"),
        (ann.identity.says("sha256:" + "0" * 64, at=now, expires=int(now) + 600), "approval.statement"),
        ("{" * 20_000, "approval.statement"),
        ("{" + " " * (MAX_SIGNED - 2) + "}", "approval.statement"),
    ):
        assert ann.introduce(text).code == code
    body = ann.identity.introduces(ann.kid, spki=ann.spki, at=now).encode()
    bare = place.gateway.ask("POST", "/v1/approvers", body, {"Content-Type": BUNDLE_TYPE})
    assert bare.code == "proof.missing"
    proof = ann.proof("POST", "/v1/approvers", body)
    headers = {READER_HEADER: proof, "Content-Type": BUNDLE_TYPE}
    assert place.gateway.ask("POST", "/v1/approvers", body, headers).status == 200
    assert place.gateway.ask("POST", "/v1/approvers", body, headers).code == "approval.reader"
    assert ann.listed()
    place.gateway.clock.offset = timedelta(seconds=3601)
    try:
        late = ann.proof("GET", "/v1/approvals", ahead=3601)
        answer = place.gateway.ask("GET", "/v1/approvals", headers={READER_HEADER: late})
        assert answer.code == "approval.not_an_approver"
    finally:
        place.gateway.clock.offset = timedelta()


def test_however_many_keys_somebody_introduces_those_of_others_stay(place: Place) -> None:
    bob, ann = place.person("bob"), place.person()
    place.asked(ann.identity, bob.identity)
    assert bob.introduce().status == 200
    many = [place.person() for _ in range(17)]
    now = time.time()
    for number, each in enumerate(many):
        text = each.identity.introduces(each.kid, spki=each.spki, at=now - 100 + number)
        assert each.introduce(text).status == 200
    reading = [each.ask("GET", "/v1/approvals").status for each in many]
    assert reading == [403, *[200] * 16]  # of their own, the one that would have ended first
    assert bob.listed()


def test_a_statement_is_handed_over_by_whoever_made_it(place: Place) -> None:
    ann, bob = place.person(), place.person("bob")
    _, action = place.asked(ann.identity, bob.identity, quorum=2)
    assert ann.introduce().status == 200
    answer = ann.hand_over(action, bob.says(action))
    assert (answer.status, answer.code) == (403, "approval.not_an_approver")
    other = ann.hand_over(action, ann.says(action, of="sha256:" + "0" * 64))
    assert other.code == "approval.other_action"
    early = ann.identity.says(action.name, at=action.made - 61, expires=action.not_after)
    assert ann.hand_over(action, early).code == "approval.stale"
    wrong = ann.ask("POST", path_of(action), ann.says(action).encode())
    assert (wrong.status, wrong.code) == (415, "request.content_type")
    large = ann.hand_over(action, "{" + " " * MAX_SIGNED)
    assert large.status == 413


def test_a_session_whose_root_verifies_nothing_is_not_admitted(place: Place) -> None:
    text = profile_of(
        place.person().identity, root=b'{"mediaType":"application/vnd.dev.sigstore.trustedroot+json"}'
    )
    with pytest.raises(AssertionError, match=r"published\.trusted_root"):
        SessionClient.start(place.gateway, place.platform, profile=text)
