"""A running session's profile is narrowed by fresh evidence; whatever is not exactly that changes nothing."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.gateway.approvals.approver import Approver, action_of, profile
from tests.gateway.conftest import Running, serving_gateway
from tests.gateway.in_process import InProcess, asgi, in_process
from tests.gateway.narrowing_client import NARROW, NARROWEST, WIDE, NarrowingClient, payload_of
from tests.gateway.session_client import Answer, Draft, Gateway
from tests.gateway.test_profile_signers import REVIEWER, STRANGER, entry
from tests.raising import raises_code

from affiant.attestation.encoding.binary_text import b64u, b64u_sha256, from_b64u, sha256_name
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.signatures.profiles.envelope import sign_envelope
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.statements.ear import ear_digest, verify_ear
from affiant.attestation.statements.restriction import Narrowing
from affiant.attestation.statements.statement import parse_statement
from affiant.attestation.tdx.event_log.eventlog import Event, LoggedEvent
from affiant.gateway.admission.appraise_restriction import RestrictionAppraiser, require_same_session
from affiant.gateway.admission.restrict import Restrictions
from affiant.gateway.sessions.sessions import Session
from affiant.policy.loading.load import load_profiles
from affiant.policy.signing.signatures import signed_profiles

CHAT = "/v1/chat/completions"
OTHER = "sha384:" + "0" * 96


@pytest.fixture
def client(gateway: Gateway, platform: PlatformClient) -> Iterator[NarrowingClient]:
    with NarrowingClient.admitted_by(gateway, platform) as made:
        yield made


def tool_chat(client: NarrowingClient, *names: str) -> Answer:
    tools = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in names]
    return client.say("hello", tools=tools)


def last_record(client: NarrowingClient) -> dict:
    return client.own_records[-1]


# -- what a narrowing does ---------------------------------------------------------------------------------------------


def test_from_a_narrowing_on_the_session_is_judged_and_recorded_by_the_new_profile(
    client: NarrowingClient,
) -> None:
    assert tool_chat(client, "deploy").status == 200
    before = last_record(client)
    old = client.made.policy
    client.narrowed(NARROW)
    assert tool_chat(client, "deploy", "read_file").status == 200
    after = last_record(client)
    assert (before["pol"]["dec"], after["pol"]["dec"]) == (
        "allow",
        "redact",
    )  # the tool is not offered any more
    policy = load_profiles(NARROW).profile("tester")
    assert {name: after["pol"][name] for name in ("dig", "fil", "bind", "epoch")} == {
        "dig": policy.digest,
        "fil": sha256_name(NARROW),
        "bind": "rtmr3",
        "epoch": 1,
    }
    assert (before["pol"]["bind"], before["pol"]["epoch"]) == ("mrconfigid", 0)
    assert after["agt"]["evd"] == b64u_sha256(client.evidence) != before["agt"]["evd"]
    bundle = client.bundle()["bundle"]
    results = [from_b64u(text).decode() for text in bundle["results"].values()]
    (result,) = [text for text in results if ear_digest(text) == after["att"]["ses"]["ear"]]
    keyset = parse_statement(client.gateway.keyset)
    assert verify_ear(result, keyset.ear_key).evd == after["agt"]["evd"]
    policies = [from_b64u(text) for text in bundle["policies"].values()]
    assert old in policies
    assert policy.normal_form in policies
    evidence = {b64u_sha256(from_b64u(text)) for text in bundle["evidence"].values()}
    assert {before["agt"]["evd"], after["agt"]["evd"]} <= evidence


def test_the_answer_is_about_the_new_evidence_and_signed(client: NarrowingClient) -> None:
    answer = client.narrow(NARROW).json()
    assert (answer["session"], answer["epoch"], answer["ksd"]) == (client.id, 1, client.ksd)
    result = verify_ear(answer["result"], parse_statement(client.gateway.keyset).ear_key)
    assert (result.peer, result.evd, answer["evd"]) == ("session", *[b64u_sha256(client.evidence)] * 2)


def test_a_profile_is_narrowed_again_and_again_and_limits_go_on(client: NarrowingClient) -> None:
    for _ in range(3):
        assert client.say("hello").status == 200
    client.narrowed(NARROW.replace(b"requests: 50", b"requests: 4"))
    assert client.say("hello").status == 200
    assert client.say("hello").code == "limit_requests"
    client.narrowed(NARROWEST.replace(b"requests: 50", b"requests: 4"))
    assert client.say("hello").code == "model.not_allowed"
    assert [record["pol"]["epoch"] for record in client.own_records if "pol" in record] == [0] * 4 + [
        1
    ] * 2 + [2]


def test_records_of_the_session_name_the_evidence_before_until_the_narrowing_is_recorded(
    client: NarrowingClient,
) -> None:
    assert client.narrow(NARROW).status == 200
    assert client.submit(client.exec_record()).status == 200  # signed before, on its way meanwhile
    assert client.submit(client.policy_record()).status == 200
    assert client.submit(client.exec_record("outcome")).status == 200
    client.chain.evd = client.own_records[0]["agt"]["evd"]
    assert client.submit(client.exec_record()).code == "record.out_of_place"  # and never back


# -- what is refused, and changes nothing ------------------------------------------------------------------------------


def refused(client: NarrowingClient, answer: Answer, code: str) -> None:
    """Refused with ``code`` and receipted so; the session goes on exactly as it was."""
    assert (answer.status >= 400, answer.code) == (True, code), answer.body
    record = receipted(client, answer)
    assert (record["kind"], record["rsn"]) == ("refusal", code)
    assert (record["act"]["typ"], record["act"]["end"]) == ("session", "refused")
    goes_on = tool_chat(client, "deploy")
    assert goes_on.status == 200
    assert receipted(client, goes_on)["pol"] | {"_sd": 0} == {
        "dec": "allow",
        "dig": client.policy.digest,
        "fil": sha256_name(WIDE),
        "bind": "mrconfigid",
        "epoch": 0,
        "_sd": 0,
    }


def receipted(client: NarrowingClient, answer: Answer) -> dict:
    return payload_of(client.receipt(answer.headers["affiant-receipt-id"]).body.decode())


WIDER = {
    "a tool": WIDE.replace(b"deploy]", b"deploy, destroy]"),
    "a method": WIDE.replace(b"[GET, POST]", b"[GET, POST, DELETE]"),
    "any model": WIDE.replace(b"    models: [affiant-dev-echo]\n", b""),
    "less there, more here": NARROW.replace(b"requests: 50", b"requests: 51"),
    "a secret": WIDE + b"    secrets_access: [{name: K, hosts: [api.example.com]}]\n",
}


@pytest.mark.parametrize("profile", WIDER.values(), ids=WIDER)
def test_a_supervisor_that_lies_gets_nothing_wider(client: NarrowingClient, profile: bytes) -> None:
    refused(client, client.narrow(profile), "policy.not_narrower")


def test_what_a_sandbox_was_made_with_is_not_narrowed(client: NarrowingClient) -> None:
    answer = client.narrow(WIDE.replace(b"read-write:", b"read:"))
    refused(client, answer, "policy.narrow_unenforced")


def test_the_same_meaning_under_another_digest_is_no_narrowing(client: NarrowingClient) -> None:
    same = WIDE.replace(b"[read_file, run_tests, deploy]", b"[read_file, run_tests, deploy, {deny: nothing}]")
    refused(client, client.narrow(same), "policy.not_narrower")


def narrowing(client: NarrowingClient, **changes: object) -> Narrowing:
    return replace(client.next_narrowing(NARROW), **changes)


WRONG: dict[str, tuple[Callable[[NarrowingClient], Answer], str]] = {
    "a nonce of its own": (lambda c: c.narrow(NARROW, nonce=b64u(bytes(32))), "admission.nonce"),
    "no event": (lambda c: c.narrow(NARROW, extend=False), "admission.mismatch"),
    "the evidence of the admission": (
        lambda c: c.narrow(NARROW, extend=False, evidence=c.evidence), "admission.nonce",
    ),
    "another epoch": (lambda c: c.narrow(NARROW, narrowing=narrowing(c, epoch=2)), "narrowing.order"),
    "another profile before": (lambda c: c.narrow(NARROW, narrowing=narrowing(c, old=OTHER)), "narrowing.order"),
    "another profile than it says": (
        lambda c: c.narrow(NARROW, narrowing=narrowing(c, profile_digest=OTHER)), "admission.mismatch",
    ),
    "another event besides": (
        lambda c: (c.living.extend("affiant-fork", {"x": 1}), c.narrow(NARROW))[1], "narrowing.event",
    ),
    "an event twice": (
        lambda c: (c.living.extend("affiant-policy", c.next_narrowing(NARROW).payload), c.narrow(NARROW))[1],
        "narrowing.order",
    ),
    "an event that the register does not have": (
        lambda c: c.narrow(NARROW, extend=False, entries=logged(c)), "eventlog.replay",
    ),
    "an event that the log does not have": (
        lambda c: (c.living.td.extend(Event("affiant-policy", {"x": 1})), c.narrow(NARROW))[1], "eventlog.replay",
    ),
    "another key": (lambda c: c.narrow(NARROW, alter=rekeyed), "admission.mismatch"),
    "another chain": (
        lambda c: c.narrow(NARROW, alter=lambda d: replace(d, chn=b64u(bytes(16)))), "admission.mismatch",
    ),
    "no evidence": (lambda c: c.send_narrowing(b"{}"), "fmt.cmw"),
}  # fmt: skip


def rekeyed(made: Draft) -> Draft:
    return replace(made, key=Signer.generate())


def logged(client: NarrowingClient) -> list[LoggedEvent]:
    return [*client.living.entries, LoggedEvent(3, client.next_narrowing(NARROW).event)]


@pytest.mark.parametrize(("attack", "code"), WRONG.values(), ids=WRONG)
def test_anything_but_the_next_narrowing_of_this_session_is_refused(
    client: NarrowingClient, attack: Callable[[NarrowingClient], Answer], code: str
) -> None:
    refused(client, attack(client), code)


def test_a_narrowing_is_not_replayed(client: NarrowingClient) -> None:
    sent: list[bytes] = []
    send = client.send_narrowing
    client.send_narrowing = lambda body, **more: sent.append(body) or send(body, **more)  # type: ignore[method-assign]
    client.narrowed(NARROW)
    assert send(sent[0]).code == "admission.nonce"
    client.narrowed(NARROWEST)
    stale = client.narrow(NARROW, extend=False)  # back, on the evidence of a profile that was narrowed since
    assert stale.code in {"admission.mismatch", "narrowing.order"}
    assert client.say("hello").code == "model.not_allowed"


def test_no_narrowing_before_the_last_one_is_recorded(client: NarrowingClient) -> None:
    assert client.narrow(NARROW).status == 200
    assert client.narrow(NARROWEST).code == "narrowing.out_of_turn"
    assert client.say("hello").status == 200


def test_a_session_whose_narrowing_was_rejected_is_not_narrowed_any_more(client: NarrowingClient) -> None:
    """Its RTMR3 says more than is known of it; and no session has profiles compared again and again for nothing."""
    assert client.narrow(WIDER["a tool"]).code == "policy.not_narrower"
    assert client.narrow(NARROW).code == "narrowing.out_of_turn"
    assert client.say("hello").status == 200


@pytest.mark.parametrize("other", ["manifest", "activation", "keyset"])
def test_each_fact_of_the_session_that_was_admitted_is_asked_for_by_itself(other: str) -> None:
    """Whatever else would refuse it: the statement names manifest and activation, and evidence holds all three."""

    def claimed(**changes: str) -> Any:
        digests = {"manifest": "m", "activation": "a", "keyset": "k", **changes}
        return SimpleNamespace(
            manifest=SimpleNamespace(digest=digests["manifest"]),
            activation=SimpleNamespace(digest=digests["activation"]),
            statement=SimpleNamespace(keyset_digest=digests["keyset"]),
        )

    require_same_session(claimed(), claimed())
    with raises_code("admission.mismatch") as mismatch:
        require_same_session(claimed(**{other: "x"}), claimed())
    assert mismatch.value.where == other


def test_another_sessions_evidence_narrows_nothing(
    client: NarrowingClient, gateway: Gateway, platform: PlatformClient
) -> None:
    with NarrowingClient.admitted_by(gateway, platform) as other:
        narrowing = other.next_narrowing(NARROW)
        other.living.extend(narrowing.event.name, narrowing.payload)
        foreign = other.living.evidence(replace(other.made, nonce=gateway.nonce()))
        refused(client, client.narrow(NARROW, extend=False, evidence=foreign), "admission.mismatch")


def test_only_the_sessions_own_key_asks(client: NarrowingClient) -> None:
    assert client.send_narrowing(b"{}", key=Signer.generate()).status == 401
    assert client.send_narrowing(b"{}", cseq=7).code == "proof.mismatch"
    answer = client.gateway.ask("POST", f"/v1/sessions/{client.id}/narrow", b"{}")
    assert answer.code == "proof.missing"


def test_a_session_that_is_closed_is_not_narrowed(client: NarrowingClient) -> None:
    client.close("done")
    answer = client.narrow(NARROW)
    assert (answer.status, answer.code) == (409, "session.closed")
    assert last_record(client)["kind"] == "session-close"


def test_of_a_session_that_is_closed_nothing_is_judged_and_no_nonce_is_taken(
    own: InProcess, platform: PlatformClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with NarrowingClient.admitted_by(own, platform) as client, monkeypatch.context() as patched:
        client.close("done")
        patched.setattr(RestrictionAppraiser, "appraise", None)
        nonce = own.nonce()
        assert client.narrow(NARROW, nonce=nonce).code == "session.closed"
        own.service.admissions.nonces.take(nonce, now=own.clock().timestamp())


def test_a_session_that_is_closed_while_its_requests_end_is_not_narrowed(
    own: InProcess, platform: PlatformClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def closed(_: Restrictions, session: Session) -> None:
        await own.service.closing.close(session, "killed")

    monkeypatch.setattr(Restrictions, "_settle", closed)
    with NarrowingClient.admitted_by(own, platform) as client:
        session = own.service.sessions.by_id(client.id)
        assert session is not None
        answer = client.narrow(NARROW)
        assert (answer.status, answer.code, session.admitted.epoch) == (409, "session.closed", 0)
        assert last_record(client)["kind"] == "session-close"


# -- the supervisor's record of it -------------------------------------------------------------------------------------


POL = {"dec": "allow", "fil": "sha256:" + "1" * 64, "bind": "rtmr3"}


@pytest.mark.parametrize(
    "changes",
    [
        {"old": OTHER},
        {"dif": "sha256:" + "0" * 64},
        {"pol": {**POL, "dig": OTHER, "epoch": 1}},
        {"pol": {**POL, "dig": OTHER, "epoch": 2}},
    ],
)
def test_the_record_of_a_narrowing_says_what_was_narrowed(
    client: NarrowingClient, changes: dict[str, Any]
) -> None:
    assert client.narrow(NARROW).status == 200
    assert client.submit(client.policy_record(**changes)).code == "record.out_of_place"


def test_a_narrowing_that_was_not_made_is_not_recorded_and_none_twice(client: NarrowingClient) -> None:
    client.narrowed(NARROW)
    assert client.submit(client.policy_record()).code == "record.out_of_place"


def test_records_do_not_name_the_new_evidence_before_the_narrowing_is_recorded(
    client: NarrowingClient,
) -> None:
    assert client.narrow(NARROW).status == 200
    client.chain.evd = b64u_sha256(client.evidence)
    assert client.submit(client.exec_record()).code == "record.out_of_place"


# -- signed profiles ---------------------------------------------------------------------------------------------------


def signature_of(profile: bytes, key) -> bytes:
    return sign_envelope(signed_profiles(load_profiles(profile)).to_bytes(), key)


@pytest.mark.slow
def test_where_profiles_are_signed_a_narrower_one_is_too(
    tmp_path: Path, platform: PlatformClient, platform_home: Path
) -> None:
    signers = tmp_path / "signers.json"
    items = [entry(REVIEWER, **{"from": "2026-01-01T00:00:00Z"})]
    signers.write_text(json.dumps({"typ": "affiant-profile-signers/1", "signers": items}))
    with serving_gateway(tmp_path / "home", platform_home, "--profile-signers", str(signers)) as running:
        codes, good = {}, signature_of(NARROW, REVIEWER)
        for name, signature in {
            "none": None,
            "a stranger's": signature_of(NARROW, STRANGER),
            "of the profile before": signature_of(WIDE, REVIEWER),
            "the reviewer's": good,
        }.items():
            with NarrowingClient.admitted_by(
                running.gateway, platform, signed=lambda profile: signature_of(profile, REVIEWER)
            ) as client:
                answer = client.narrow(NARROW, signature=signature)
                codes[name] = answer.json().get("epoch") or answer.code
        bundle = client.bundle()["bundle"]
    assert codes == {
        "none": "policy.unsigned",
        "a stranger's": "policy.signer",
        "of the profile before": "policy.signature_other",
        "the reviewer's": 1,
    }
    assert good in [from_b64u(text) for text in bundle["policies"].values()]


# -- requests under way ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, platform: PlatformClient) -> Iterator[InProcess]:
    with in_process(platform, tmp_path_factory.mktemp("store"), drain_s=1) as made:
        yield made


def test_a_request_that_does_not_end_is_given_up_and_recorded_before_the_change(
    own: InProcess, platform: PlatformClient
) -> None:
    """A stream that its client does not take is cut after the grace; its record is of the profile it began under."""
    with NarrowingClient.admitted_by(own, platform) as client:
        begun = threading.Event()

        async def take(message: dict) -> None:
            if message.get("body"):
                begun.set()
                await asyncio.sleep(60)

        message = {"role": "user", "content": "one two three"}
        body = json.dumps({"model": "affiant-dev-echo", "stream": True, "messages": [message]}).encode()
        given = {"content_type": "application/json", "counted": True}
        headers = {
            "Affiant-Proof": client.proof("POST", CHAT, body, **given),
            "Content-Type": "application/json",
        }
        asking = asyncio.run_coroutine_threadsafe(
            asgi(own.app, "POST", CHAT, body, headers, send=take), own.loop
        )
        assert begun.wait(10)
        assert client.narrow(NARROW).status == 200
        with pytest.raises(concurrent.futures.CancelledError):
            asking.result(10)
        assert client.submit(client.policy_record()).status == 200  # durable after all before it
        (record,) = [each for each in client.own_records if each["kind"] == "inference"]
        assert (record["pol"]["epoch"], record["res"]["end"]) == (0, "client_abort")


def test_while_it_is_narrowed_nothing_new_is_begun(own: InProcess, platform: PlatformClient) -> None:
    with NarrowingClient.admitted_by(own, platform) as client:
        session = own.service.sessions.by_id(client.id)
        assert session is not None

        async def hold(held: bool) -> None:
            session.held = held

        own.run(hold(True))
        answer = client.say("hello")
        assert (answer.status, answer.code, answer.headers["x-should-retry"]) == (
            503,
            "session.narrowing",
            "true",
        )
        own.run(hold(False))
        assert client.say("hello").status == 200


@pytest.mark.parametrize("later", [60, 1 << 20])
def test_a_narrowed_session_ends_before_what_its_new_evidence_rests_on_does(
    own: InProcess, platform: PlatformClient, monkeypatch: pytest.MonkeyPatch, later: int
) -> None:
    """And no later than before."""
    appraise, until = Restrictions._appraise, int(own.clock().timestamp()) + later
    monkeypatch.setattr(Restrictions, "_appraise", lambda *given: replace(appraise(*given), until=until))
    with NarrowingClient.admitted_by(own, platform) as client:
        session = own.service.sessions.by_id(client.id)
        assert session is not None
        before = session.expires
        assert client.narrow(NARROW).status == 200
        assert session.expires == min(before, until)


def test_no_request_is_judged_by_one_profile_and_recorded_under_another(
    running: Running, platform: PlatformClient
) -> None:
    """Requests that race with a narrowing: allowed ones are of the old epoch, denied ones of the new, none between."""
    with NarrowingClient.admitted_by(running.gateway, platform, profile=WIDE) as client:
        stop, codes = threading.Event(), []
        counter = threading.Lock()
        body = {"model": "affiant-dev-echo", "messages": [{"role": "user", "content": "x"}]}

        def ask() -> None:
            while not stop.is_set():
                with counter:
                    number, client.cseq = client.cseq, client.cseq + 1
                answer = client.chat(body, cseq=number)
                codes.append(200 if answer.status == 200 else answer.code)

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.15)
        assert client.narrow(NARROWEST).status == 200
        time.sleep(0.15)
        stop.set()
        for thread in threads:
            thread.join()
        assert set(codes) <= {200, "model.not_allowed", "session.narrowing", "limit_requests"}
        assert "model.not_allowed" in codes
        records = [record for record in client.own_records if "pol" in record]
        epochs = [record["pol"]["epoch"] for record in records]
        assert epochs == sorted(epochs)
        for record in records:
            if record["kind"] == "inference" and record["res"]["end"] == "complete":
                assert record["pol"]["epoch"] == 0
            if record.get("rsn") == "model.not_allowed":
                assert record["pol"]["epoch"] == 1
            assert (record["pol"]["epoch"] == 0) == (record["agt"]["evd"] == records[0]["agt"]["evd"])


def test_two_at_once_come_one_after_the_other(own: InProcess, platform: PlatformClient) -> None:
    with NarrowingClient.admitted_by(own, platform) as client:
        narrowing = client.next_narrowing(NARROW)
        client.living.extend(narrowing.event.name, narrowing.payload)
        answers: list[Answer] = []

        def ask() -> None:
            answers.append(client.narrow(NARROW, extend=False, narrowing=narrowing))

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = sorted((answer.status, "" if answer.status == 200 else answer.code) for answer in answers)
        assert found == [(200, ""), (409, "narrowing.out_of_turn")]


# -- approvals ---------------------------------------------------------------------------------------------------------


def test_what_waits_for_approval_under_the_old_profile_expires(
    own: InProcess, platform: PlatformClient
) -> None:
    ann = Approver(own)
    asking = profile(ann.kid)
    with NarrowingClient.admitted_by(own, platform, profile=asking) as client:
        target = f"/v1/sessions/{client.id}/approvals"
        action = action_of(client, policy=client.policy.digest)
        assert client.ask("POST", target, action.raw, content_type="application/json").status == 200
        narrower = asking.replace(b"{tester: {", b"{tester: {limits: {requests: 9}, ")
        assert narrower != asking
        client.narrowed(narrower)
        (listed,) = [each for each in ann.listed() if each["session"] == client.id]
        assert listed["state"] == "expired"
        assert ann.decide(action).code == "approval.expired"
        again = client.ask("POST", target, action.raw, content_type="application/json")
        assert again.code == "approval.action"  # it is of another profile
        under_the_new = action_of(client, policy=client.policy.digest)
        assert client.ask("POST", target, under_the_new.raw, content_type="application/json").status == 200
        record = ann.decide(under_the_new).json()["record"]
        (made,) = [each for each in client.own_records if each["jti"] == record]
        assert (made["pol"]["epoch"], made["pol"]["dig"]) == (1, client.policy.digest)
