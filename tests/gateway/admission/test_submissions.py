"""A supervisor's records: taken in order, once, and only if they are the session's own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.attestation.sealed_before import seal_before
from tests.gateway.in_process import in_process
from tests.gateway.session_client import Gateway, SessionClient, opened

from affiant.attestation.encoding.binary_text import b64u, sha256_name
from affiant.attestation.records.head import Head
from affiant.attestation.records.sealed_disclosures import recipient
from affiant.attestation.simulated.served.client import PlatformClient


@pytest.fixture
def fresh(gateway: Gateway, platform: PlatformClient, openings: X25519PrivateKey) -> SessionClient:
    """Admitted, and nothing submitted yet."""
    return SessionClient.start(gateway, platform, openings=openings, boot=False)


def test_records_are_acknowledged_with_the_gateways_head(fresh: SessionClient) -> None:
    boot = fresh.submit(fresh.boot_record())
    assert len(boot.json()["leaf"]) == 43 and boot.json()["head"] == fresh.admitted["head"]
    fresh.say("hi")
    record = fresh.exec_record()
    answer = fresh.submit(record)
    assert answer.json()["rh"] == record.rh
    assert answer.json()["head"]["seq"] > fresh.admitted["head"]["seq"]


def test_the_same_record_again_has_the_same_answer_and_no_second_place(fresh: SessionClient) -> None:
    boot = fresh.boot_record()
    assert fresh.submit(boot).body == fresh.submit(boot).body
    record = fresh.exec_record()
    for _ in range(3):
        assert fresh.submit(record).status == 200
    texts = [entry["sdjwt"] for entry in fresh.bundle()["bundle"]["receipts"]]
    assert texts.count(record.jws + "~") == 1


def test_an_acknowledgement_names_no_record_that_is_not_durable_yet(
    platform: PlatformClient, tmp_path: Path
) -> None:
    """What is signed while the supervisor's record is being written stands behind it in the journal."""
    with in_process(platform, tmp_path / "store", drain_s=1) as inside:
        client = SessionClient.start(inside, platform)
        found = inside.service.sessions.by_id(client.id)
        assert found is not None

        async def submit_and_sign() -> tuple[Mapping[str, object], Head, Head]:
            before = found.head
            jws = client.exec_record().jws
            taking = asyncio.ensure_future(inside.service.submissions.take(found, jws, sealed=""))
            await asyncio.sleep(0)
            refused = {"rsn": "gateway.busy", "res": {"st": 429, "end": "gateway_error"}}
            body = {"res": {"dig": sha256_name(b""), "len": 0}}
            signed = inside.service.recorder.session_record(found, "refusal", refused, body, number=None)
            assert not taking.done() and not signed.durable.done()
            answer = await taking
            assert await inside.service.submissions.take(found, jws, sealed="") == answer
            await signed.durable
            return answer, before, signed.head

        answer, before, signed = inside.run(submit_and_sign())
        assert answer["head"] == before.to_json() != signed.to_json()


def test_a_chain_begins_with_a_boot_of_its_own_keyset(fresh: SessionClient) -> None:
    assert fresh.submit(fresh.exec_record()).code == "record.out_of_place"


@pytest.mark.parametrize("member", ["ks", "gks"])
def test_a_boot_that_names_another_keyset_is_refused(fresh: SessionClient, member: str) -> None:
    members = {"ks": fresh.statement.keyset_digest, "gks": fresh.ksd, "bld": "sha256:" + "5" * 64}
    record = fresh.chain.issue("boot", {**members, member: b64u(bytes(32))})
    assert fresh.submit(record).code == "record.out_of_place"


def test_a_record_with_what_it_hides_in_clear_is_refused(session: SessionClient) -> None:
    """The journal is the operator's, and the log would hold a leaf that is not the record's."""
    record = session.exec_record()
    assert session.submit(record, jws=record.sdjwt.removesuffix("~")).code == "request.malformed"
    assert session.submit(record).status == 200


def test_a_record_left_out_is_noticed(session: SessionClient) -> None:
    session.exec_record()
    assert session.submit(session.exec_record("outcome")).code == "record.out_of_place"


def test_a_second_boot_is_refused(session: SessionClient) -> None:
    assert session.submit(session.boot_record()).code == "record.out_of_place"


def test_nothing_follows_the_end(session: SessionClient) -> None:
    assert session.submit(session.end_record()).status == 200
    assert session.submit(session.exec_record()).code == "record.out_of_place"


@pytest.mark.parametrize(
    "changes",
    [
        {"ses": b64u(bytes(16))},
        {"evd": b64u(bytes(32))},
        {"key": b64u(bytes(32))},
        {"seq": 0},
    ],
    ids=lambda c: next(iter(c)),
)
def test_a_record_about_another_session_is_refused(session: SessionClient, changes: dict) -> None:
    members = {"act": {"typ": "exec"}, "iso": "bwrap-landlock", "ph": "intent", "agt": session.agt(**changes)}
    assert session.submit(session.chain.issue("exec", members)).code == "record.out_of_place"


def test_a_peer_that_the_gateway_never_signed_is_refused(session: SessionClient) -> None:
    session.head = {**session.head, "rh": b64u(bytes(32))}
    assert session.submit(session.exec_record()).code == "record.out_of_place"


def test_a_peer_that_goes_back_is_refused(session: SessionClient) -> None:
    first = session.head
    session.say("hi")
    session.submit(session.exec_record())  # its answer names the later head
    assert session.submit(session.exec_record("outcome")).status == 200
    session.head = first
    assert session.submit(session.exec_record()).code == "record.out_of_place"


def test_a_peer_under_a_wrong_number_is_refused(session: SessionClient) -> None:
    session.head = {**session.head, "seq": session.head["seq"] + 1}
    assert session.submit(session.exec_record()).code == "record.out_of_place"


def test_a_record_by_another_key_is_refused(
    session: SessionClient, gateway: Gateway, platform: PlatformClient
) -> None:
    other = SessionClient.start(gateway, platform)
    answer = session.submit(other.exec_record())
    assert answer.status == 403 and answer.code == "sig.role"


def test_a_kind_that_only_a_gateway_signs_is_refused(session: SessionClient) -> None:
    """Such a record cannot be made with the library; made by hand, it does not verify."""
    good = session.exec_record()
    parts = good.jws.split(".")
    forged = f"{parts[0]}.{parts[1][:-4]}AAAA.{parts[2]}"
    assert session.submit(good, jws=forged).status == 403


@pytest.mark.parametrize("body", [b"", b"a.b.c", b"\xff" * 10, b"x" * 70_000])
def test_garbage_is_refused(session: SessionClient, body: bytes) -> None:
    target = f"/v1/sessions/{session.id}/records"
    answer = session.ask("POST", target, body, content_type="application/jose")
    assert 400 <= answer.status < 500


def test_another_media_type_is_refused(session: SessionClient) -> None:
    target = f"/v1/sessions/{session.id}/records"
    answer = session.ask("POST", target, b"x", content_type="text/plain")
    assert answer.code == "request.content_type"


@pytest.mark.parametrize(
    "sealed",
    ["x" * (16 * 1024 + 1), "not base64url!", "AB", "2.AB", "2k.AAAA", "2k.AAAA.2.AB", "2k.AB.2.AAAA"],
)
def test_openings_are_bounded_and_well_formed(session: SessionClient, sealed: str) -> None:
    assert session.submit(session.exec_record(), sealed=sealed).status in {400, 413}


def test_openings_come_back_for_whoever_started_the_session(
    session: SessionClient, openings: X25519PrivateKey
) -> None:
    record = session.exec_record()
    session.submit(record)
    assert opened(session.bundle(), openings)[record.rh] == record.disclosures


def test_a_key_to_sealed_disclosures_is_kept_once_and_is_never_another(
    session: SessionClient, openings: X25519PrivateKey
) -> None:
    one, two = session.exec_record(), session.exec_record("outcome")
    assert session.submit(one).status == 200
    kept = {name: text for name, text in session.bundle()["openings"].items() if text.startswith("2k.")}
    assert len(kept) == 2, "the supervisor's and the gateway's own"
    assert session.sealing is not None and kept[session.sealing.name] == session.sealing.sealed_key
    first, session.sealing = session.sealing, None
    answer = session.submit(two)
    assert (answer.status, answer.code) == (400, "request.malformed")
    session.sealing = first
    assert session.submit(two).status == 200
    bundle = session.bundle()
    assert {name: text for name, text in bundle["openings"].items() if text.startswith("2k.")} == kept
    shown = opened(bundle, openings)
    assert (shown[one.rh], shown[two.rh]) == (one.disclosures, two.disclosures)


def test_version_1_is_still_taken(session: SessionClient, openings: X25519PrivateKey) -> None:
    record = session.exec_record()
    sealed = seal_before(record.disclosures, to=recipient(openings), rh=record.rh)
    assert session.submit(record, sealed=sealed).status == 200
    bundle = session.bundle()
    assert bundle["openings"][record.rh] == sealed
    assert opened(bundle, openings)[record.rh] == record.disclosures


def test_the_gateways_next_record_names_the_last_acknowledged(session: SessionClient) -> None:
    record = session.exec_record()
    session.submit(record)
    jti = session.say("hi").headers["affiant-receipt-id"]
    text = session.receipt(jti).body.decode()
    assert record.rh in json.dumps(_payload(text)["peer"])


def _payload(text: str) -> dict:
    from affiant.attestation.encoding.binary_text import from_b64u
    from affiant.attestation.encoding.canonical import parse_object

    return dict(parse_object(from_b64u(text.split(".")[1])))


def test_after_the_close_nothing_is_taken(session: SessionClient) -> None:
    session.submit(session.end_record())
    assert session.close().status == 200
    late = replace(session.made)  # the client may still ask for what it has
    assert late and session.bundle()["bundle"]["receipts"]
    assert session.say("hi").code == "session.closed"
