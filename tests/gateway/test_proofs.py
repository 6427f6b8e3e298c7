"""Proofs of possession: each fact they cover, wrong by itself, is refused; and what a refusal's record says."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from tests.gateway.inference.test_inference import receipt_of
from tests.gateway.session_client import Answer, Gateway, SessionClient

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.records.proof import MAC_PROOF_TYPE, PROOF_HEADER, PROOF_TYPE, MACKey
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.sandbox.supervisor.gateway.admission import SessionIdentity
from affiant.sandbox.supervisor.gateway.gateway_client import GatewayClient
from affiant.sandbox.supervisor.gateway.session_gateway import SessionGateway
from affiant.sandbox.supervisor.records.records import Submission

TARGET = "/v1/chat/completions"
BODY = json.dumps({"model": "affiant-dev-echo", "messages": [{"role": "user", "content": "hi"}]}).encode()
JSON = "application/json"


def post(session: SessionClient, proof: str | None, *, body: bytes = BODY, **headers: str) -> Answer:
    given = {"Content-Type": JSON, **{name.replace("_", "-"): value for name, value in headers.items()}}
    if proof is not None:
        given[PROOF_HEADER] = proof
    return session.gateway.ask("POST", TARGET, body, given)


def proof(client: SessionClient, /, **changes: object) -> str:
    arguments = {
        "method": "POST",
        "target": TARGET,
        "body": BODY,
        "content_type": JSON,
        "counted": True,
        **changes,
    }
    return client.proof(arguments.pop("method"), arguments.pop("target"), arguments.pop("body"), **arguments)


def refusal(session: SessionClient, answer: Answer) -> dict:
    """The refusal's record, from the session's bundle."""
    jti = answer.headers["affiant-receipt-id"]
    for entry in session.bundle()["bundle"]["receipts"]:
        payload = dict(parse_object(from_b64u(entry["sdjwt"].split(".")[1])))
        if payload["jti"] == jti:
            return payload
    raise AssertionError("not in the bundle")


def test_a_proof_in_order_is_accepted_once(session: SessionClient) -> None:
    good = proof(session)
    assert post(session, good).status == 200
    again = post(session, good)
    assert (again.status, again.code) == (401, "proof.replayed")


@pytest.mark.parametrize(
    "changes",
    [
        {"body": BODY + b" "},
        {"target": TARGET + "?x=1"},
        {"target": "/v1/embeddings"},
        {"method": "PUT"},
        {"content_type": "application/json; charset=utf-8"},
        {"content_type": None},
        {"nonce": b64u(bytes(32))},
        {"forwarded": {"anthropic-version": "2023-06-01"}},
        {"session": b64u(bytes(16))},
        {"ksd": b64u(bytes(32))},
        {"counted": False},
    ],
    ids=lambda c: next(iter(c)),
)
def test_a_proof_for_anything_else_is_refused_and_has_no_counter(
    session: SessionClient, changes: dict[str, object]
) -> None:
    answer = post(session, proof(session, **changes))
    assert (answer.status, answer.code) == (401, "proof.mismatch")
    record = refusal(session, answer)
    assert record["rsn"] == "proof.mismatch" and record["agt"]["ses"] == session.id
    assert "cseq" not in record["agt"] and "seq" in record["agt"]


@pytest.mark.parametrize("minutes", [-2, 2])
def test_a_stale_proof_is_refused(session: SessionClient, minutes: int) -> None:
    for key in (session.key, session.mac_key()):
        answer = post(session, proof(session, key=key, now=datetime.now(UTC) + timedelta(minutes=minutes)))
        assert (answer.status, answer.code) == (401, "proof.stale")


def test_a_target_with_a_query_is_covered_with_it(session: SessionClient) -> None:
    target = TARGET + "?api-version=1"
    good = proof(session, target=target)
    headers = {"Content-Type": JSON, PROOF_HEADER: good}
    assert session.gateway.ask("POST", target, BODY, headers).status == 200


def test_an_altered_header_is_noticed(session: SessionClient) -> None:
    nonce = b64u(bytes(range(32)))
    good = proof(session, nonce=nonce)
    assert post(session, good, Affiant_Nonce=b64u(bytes(32))).code == "proof.mismatch"
    assert post(session, proof(session, nonce=nonce), Affiant_Nonce=nonce).status == 200


def test_a_header_that_may_be_forwarded_is_covered(session: SessionClient) -> None:
    for signed, sent in (({}, "2023-06-01"), ({"anthropic-version": "2023-06-01"}, "2023-06-02")):
        good = proof(session, forwarded=signed)
        assert post(session, good, anthropic_version=sent).code == "proof.mismatch"
    good = proof(session, forwarded={"anthropic-version": "2023-06-01"})
    answer = post(session, good, anthropic_version="2023-06-01")
    record = receipt_of(session, answer.headers["affiant-receipt-id"])
    assert answer.status == 200 and record.member("req", "hdr") is None, "chat completions forward none"


def test_another_sessions_key_is_refused(
    gateway: Gateway, platform: PlatformClient, session: SessionClient
) -> None:
    other = SessionClient.start(gateway, platform)
    assert (
        post(session, proof(session, key=other.key)).code == "proof.mismatch"
    )  # names this session, signed by that
    forged = proof(other, session=session.id)
    assert post(session, forged).code == "proof.mismatch"


@pytest.mark.parametrize(
    ("text", "code"),
    [(None, "proof.missing"), ("", "fmt.jws"), ("a.b.c", None), ("x" * 50_000, None)],
)
def test_what_is_no_proof_is_refused_without_a_session(
    session: SessionClient, text: str | None, code: str | None
) -> None:
    answer = post(session, text)
    assert answer.status in {400, 401}
    assert code is None or answer.code == code
    assert answer.headers["affiant-receipt-id"]


def test_an_unknown_key_is_refused(session: SessionClient) -> None:
    answer = post(session, proof(session, key=Signer.generate()))
    assert (answer.status, answer.code) == (401, "session.unknown")


def test_a_flipped_signature_is_nobodys_record(session: SessionClient) -> None:
    good = proof(session)
    head, _, signature = good.rpartition(".")
    raw = bytearray(from_b64u(signature))
    raw[40] ^= 1
    answer = post(session, f"{head}.{b64u(bytes(raw))}")
    assert answer.code == "sig.invalid"
    before = {entry["sdjwt"] for entry in session.bundle()["bundle"]["receipts"]}
    jti = answer.headers["affiant-receipt-id"]
    records = [dict(parse_object(from_b64u(text.split(".")[1]))) for text in before]
    (record,) = [record for record in records if record["jti"] == jti]
    assert "agt" not in record  # whoever sent it, the session did not sign it


def test_two_proofs_on_one_request_are_refused(session: SessionClient) -> None:
    connection = session.gateway.connect()
    connection.putrequest("POST", TARGET)
    for _ in range(2):
        connection.putheader(PROOF_HEADER, proof(session))
    connection.putheader("Content-Type", JSON)
    connection.putheader("Content-Length", str(len(BODY)))
    connection.endheaders(BODY)
    response = connection.getresponse()
    assert response.status == 400 and json.loads(response.read())["error"]["code"] == "request.malformed"
    connection.close()


def test_counters_may_come_out_of_order_within_the_window_only(session: SessionClient) -> None:
    for cseq in (5, 3, 4, 0):
        assert post(session, proof(session, cseq=cseq)).status == 200
    for cseq in (3, 5):
        assert post(session, proof(session, cseq=cseq)).code == "proof.replayed"
    assert post(session, proof(session, cseq=100)).status == 200
    assert post(session, proof(session, cseq=100 - 64)).code == "proof.replayed"


@pytest.mark.parametrize("target", ["/v1/receipts/" + "A" * 22, "/v1/models"])
def test_reads_need_a_proof_without_a_counter(session: SessionClient, target: str) -> None:
    assert session.gateway.ask("GET", target).code == "proof.missing"
    counted = session.proof("GET", target, counted=True)
    assert session.gateway.ask("GET", target, headers={PROOF_HEADER: counted}).code == "proof.mismatch"


def test_another_sessions_path_looks_like_none(
    gateway: Gateway, platform: PlatformClient, session: SessionClient
) -> None:
    other = SessionClient.start(gateway, platform)
    for method, tail in (("GET", "bundle"), ("POST", "close"), ("POST", "records")):
        answer = other.ask(method, f"/v1/sessions/{session.id}/{tail}")
        assert (answer.status, answer.code) == (404, "not_found")
    mine = session.say("hi").headers["affiant-receipt-id"]
    assert session.receipt(mine).status == 200
    assert (other.receipt(mine).status, other.receipt(mine).code) == (404, "not_found")


def test_a_key_for_proofs_by_mac_is_given_once_and_only_to_the_session(
    gateway: Gateway, platform: PlatformClient, session: SessionClient
) -> None:
    other = SessionClient.start(gateway, platform)
    target = f"/v1/sessions/{session.id}/proof-key"
    assert gateway.ask("POST", target).code == "proof.missing"
    assert other.ask("POST", target).code == "not_found"
    assert session.ask_for_mac_key(counted=True).code == "proof.mismatch"
    given = session.ask_for_mac_key()
    assert given.status == 200 and given.headers["cache-control"] == "no-store"
    assert list(given.json()) == ["key"] and len(from_b64u(given.json()["key"])) == 32
    key = MACKey(from_b64u(given.json()["key"]), session=session.id)
    for again in (session.ask_for_mac_key(), session.ask_for_mac_key(key=key)):
        assert (again.status, again.code) == (409, "proof.key_given")
    assert other.mac_key()._key != key._key


def test_both_kinds_of_proof_share_one_counter(session: SessionClient) -> None:
    key = session.mac_key()
    by_mac = proof(session, key=key, cseq=0)
    answer = post(session, by_mac)
    assert answer.status == 200
    record = receipt_of(session, answer.headers["affiant-receipt-id"])
    assert record.member("agt", "key") == session.key.kid and record.member("agt", "bind") == "pop"
    for again in (by_mac, proof(session, key=key, cseq=0), proof(session, cseq=0)):
        refused = post(session, again)
        assert (refused.status, refused.code) == (401, "proof.replayed")
        assert refusal(session, refused)["agt"]["ses"] == session.id
    assert post(session, proof(session, cseq=1)).status == 200
    assert post(session, proof(session, key=key, cseq=1)).code == "proof.replayed"


@pytest.mark.anyio
async def test_a_supervisors_own_client_proves_by_mac(session: SessionClient) -> None:
    """Over TLS that is pinned to the gateway's key: what it asks often, and what follows, which it signs."""
    client = GatewayClient(session.gateway.url, spki=session.gateway.spki)
    identity = SessionIdentity(session.key, session.made.chn, session.statement, session.evidence)
    supervised = SessionGateway(
        client, identity, session=session.id, keyset_digest=session.ksd, clock=lambda: datetime.now(UTC)
    )
    assert await supervised.ask_for_mac_key() and not await supervised.ask_for_mac_key()
    headers = ((b"Content-Type", JSON.encode()),)
    for cseq in range(3):
        reply = await supervised.send("POST", TARGET, headers, BODY, cseq=cseq)
        assert reply.status == 200 and await reply.body()
        await reply.close()
    session.cseq = 3
    for record in (session.exec_record(), session.end_record()):
        head = await supervised.submit(Submission(record.jws, None))
    assert head.seq > 0
    assert await supervised.close("done") == await supervised.close("done")
    assert b"".join([piece async for piece in supervised.bundle()])
    await client.close()


@pytest.mark.parametrize(
    "changes",
    [
        {"body": BODY + b" "},
        {"target": TARGET + "?x=1"},
        {"method": "PUT"},
        {"content_type": None},
        {"nonce": b64u(bytes(32))},
        {"forwarded": {"anthropic-version": "2023-06-01"}},
        {"session": b64u(bytes(16))},
        {"ksd": b64u(bytes(32))},
        {"counted": False},
    ],
    ids=lambda c: next(iter(c)),
)
def test_a_proof_by_mac_for_anything_else_is_refused_as_the_sessions_own(
    session: SessionClient, changes: dict[str, object]
) -> None:
    answer = post(session, proof(session, key=session.mac_key(), **changes))
    assert (answer.status, answer.code) == (401, "proof.mismatch")
    record = refusal(session, answer)
    assert record["agt"]["ses"] == session.id and "cseq" not in record["agt"]


def test_a_mac_that_does_not_hold_is_nobodys(
    gateway: Gateway, platform: PlatformClient, session: SessionClient
) -> None:
    other = SessionClient.start(gateway, platform)
    mine, theirs = session.mac_key(), other.mac_key()
    public = from_b64u(session.key.kid)
    for secret in (bytes(32), public, b"\xff" * 32):
        answer = post(session, proof(session, key=MACKey(secret, session=session.id)))
        assert (answer.status, answer.code) == (403, "sig.invalid")
        assert "agt" not in refusal(session, answer)
    renamed = MACKey(theirs._key, session=session.id)
    assert post(session, proof(session, key=renamed)).code == "sig.invalid"
    assert (
        post(session, proof(session, key=theirs)).code == "proof.mismatch"
    )  # theirs, but about this session
    unknown = MACKey(mine._key, session=b64u(bytes(16)))
    assert post(session, proof(session, key=unknown)).code == "session.unknown"


def test_no_key_no_proof_by_mac(session: SessionClient) -> None:
    """Before it is asked for, whatever the key is, and after the session has ended."""
    for secret in (bytes(32), b"\0" * 32, from_b64u(session.key.kid)):
        answer = post(session, proof(session, key=MACKey(secret, session=session.id)))
        assert (answer.status, answer.code) == (401, "proof.no_key")
    key = session.mac_key()
    assert session.submit(session.end_record(), key=key).status == 200
    assert session.close().status == 200
    assert session.ask_for_mac_key().code == "session.closed"
    for asked in (post(session, proof(session, key=key)), session.ask("GET", "/v1/models", key=key)):
        assert (asked.status, asked.code) == (401, "proof.no_key")
    assert session.bundle()


def ended(key: Signer | MACKey, text: str) -> bytes:
    """A signature or MAC over ``text``."""
    return key.sign(text.encode()) if isinstance(key, Signer) else key._mac(text)


@pytest.mark.parametrize("form", ["mac type, signed", "signed type, mac", "none", "more", "order", "kid"])
def test_a_crossed_form_is_refused(session: SessionClient, form: str) -> None:
    key = session.mac_key()
    members = parse_object(from_b64u(proof(session, key=key).split(".")[1]))
    by_mac = {"alg": "HS256", "kid": session.id, "typ": MAC_PROOF_TYPE}
    signed = {"alg": "ES256", "kid": session.key.kid, "typ": PROOF_TYPE}
    header, signer = {
        "mac type, signed": (canonical({**by_mac, "alg": "ES256"}), session.key),
        "signed type, mac": (canonical({**signed, "alg": "HS256"}), key),
        "none": (canonical({**by_mac, "alg": "none"}), key),
        "more": (canonical({**by_mac, "jku": "https://x"}), key),
        "order": (json.dumps(dict(reversed(by_mac.items())), separators=(",", ":")).encode(), key),
        "kid": (canonical({**by_mac, "kid": session.key.kid}), key),
    }[form]
    signing_input = f"{b64u(header)}.{b64u(canonical(members))}"
    crossed = f"{signing_input}.{b64u(ended(signer, signing_input))}"
    answer = post(session, crossed)
    assert (answer.status, answer.code) == (400, "fmt.jws")
    assert "agt" not in refusal(session, answer)
    for head in (canonical(by_mac), canonical(signed)):
        text = f"{b64u(head)}.{b64u(canonical(members))}."
        assert post(session, text).status == 400
        other = session.key if head == canonical(by_mac) else key
        text += b64u(ended(other, text[:-1]))
        assert post(session, text).status == 400
    assert post(session, proof(session, key=key)).status == 200
