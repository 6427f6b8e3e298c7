"""Keyset statements: closed, one key per use, bound by all 64 bytes of REPORTDATA."""

from __future__ import annotations

import hashlib
import json

import pytest
from tests.attestation.story import Story

from affiant.attestation.encoding.binary_text import b64u_sha256
from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.encoding.keys import Signer, public_jwk
from affiant.attestation.statements.statement import parse_statement, report_data
from affiant.attestation.tlog.note_keys import CosignerKey
from affiant.errors import AffiantError

STORY = Story().tell()
GATEWAY = json.loads(STORY.gateway_statement.raw)
SESSION = json.loads(STORY.session_statement.raw)


def refused(document: object) -> None:
    if isinstance(document, dict):
        document = {k: v for k, v in document.items() if v is not ...}
    with pytest.raises(AffiantError) as caught:
        parse_statement(canonical(document))
    assert caught.value.code == "fmt.profile"


def named(key: object, use: str) -> dict[str, object]:
    """An entry for a JWK of any form, under its own thumbprint."""
    return {"kid": b64u_sha256(canonical(key)), "use": use, "jwk": key}


JWK = GATEWAY["keys"][0]["jwk"]
OTHER = public_jwk(Signer.generate().public_key)
TLS = GATEWAY["keys"][-1]
WITNESS = CosignerKey(GATEWAY["log"]["origin"], STORY.gateway_statement.log.key.public_key).vkey()


@pytest.mark.parametrize("document", [[], ["role"], "gateway", 7, None, True, {}])
def test_what_is_no_object_with_a_role_is_no_statement(document: object) -> None:
    refused(document)


@pytest.mark.parametrize(
    "change",
    [
        {"typ": "affiant-keyset/2"},
        {"role": "log"},
        {"role": "session"},
        {"role": ["gateway"]},
        {"role": {"gateway": 1}},
        {"role": None},
        {"keys": [*GATEWAY["keys"], 7]},
        {"keys": [*GATEWAY["keys"], "tls-spki"]},
        {"keys": [*GATEWAY["keys"], named(OTHER, "receipt")]},
        {"keys": [*GATEWAY["keys"], named(OTHER, "log")]},
        {"keys": [*GATEWAY["keys"][:-1], {**TLS, "kid": "A" * 43}]},
        {"keys": [*GATEWAY["keys"][:-1], {**TLS, "sha256": "A" * 42}]},
        {"keys": [*GATEWAY["keys"][:-1], {"use": "tls-spki"}]},
        {"keys": [{**GATEWAY["keys"][0], "x5c": "A"}]},
        {"keys": [named({**JWK, "y": JWK["x"]}, "receipt")]},
        {"keys": [named({**JWK, "crv": "P-384"}, "receipt")]},
        {"keys": [named({**JWK, "d": JWK["x"]}, "receipt")]},
        {"keys": [{**GATEWAY["keys"][0], "jwk": 7}]},
        {"log": {**GATEWAY["log"], "origin": "another.log"}},
        {"log": {**GATEWAY["log"], "vkey": WITNESS}},
        {"log": {**GATEWAY["log"], "vkey": "x"}},
        {"log": {**GATEWAY["log"], "kept": "nowhere"}},
        {"log": None},
        {"cls": "real"},
        {"chn": []},
        {"keys": []},
        {"keys": GATEWAY["keys"][1:]},
        {"keys": [*GATEWAY["keys"], GATEWAY["keys"][0]]},
        {"keys": [GATEWAY["keys"][0], {**GATEWAY["keys"][0], "use": "ear"}]},
        {"keys": [{**GATEWAY["keys"][0], "kid": "A" * 43}]},
        {"keys": [{**GATEWAY["keys"][0], "use": "anything"}]},
        {"log": {"origin": "x"}},
        {"policy": ...},
        {"policy": "sha256:AA"},
        {"nonce": "short"},
        {"epoch_s": 0},
        {"extra": 1},
        {"man": "A" * 43},
    ],
)
def test_a_gateway_statement_of_another_form_is_refused(change: dict[str, object]) -> None:
    refused({**GATEWAY, **change})


@pytest.mark.parametrize(
    "change",
    [
        {"man": ...},
        {"act": ...},
        {"gks": ...},
        {"policy": "sha256:" + "0" * 64},
        {"keys": GATEWAY["keys"]},
        {"keys": [*SESSION["keys"], GATEWAY["keys"][0]]},
    ],
)
def test_a_session_statement_of_another_form_is_refused(change: dict[str, object]) -> None:
    refused({**SESSION, **change})


def test_white_space_and_duplicates_are_refused() -> None:
    for raw in (json.dumps(GATEWAY).encode(), STORY.gateway_statement.raw[:-1] + b',"nonce":null}'):
        with pytest.raises(AffiantError):
            parse_statement(raw)


def test_report_data_is_sha512_over_the_domain_and_the_exact_bytes() -> None:
    raw = STORY.gateway_statement.raw
    assert report_data(raw) == hashlib.sha512(b"affiant/keyset/1\n" + raw).digest()
    assert len(report_data(raw)) == 64
    assert report_data(raw) != report_data(raw + b" ")


def test_a_fresh_nonce_changes_the_statement_and_not_the_keyset() -> None:
    other = parse_statement(canonical({**GATEWAY, "nonce": "A" * 43}))
    assert other.digest != STORY.gateway_statement.digest
    assert other.keyset_digest == STORY.gateway_statement.keyset_digest


@pytest.mark.parametrize(
    "issuer", ["urn:other:session:{}", "{}", "urn:affiant:session:{}x", "urn:affiant:session:"]
)
def test_a_sessions_keyset_is_named_by_its_session_and_nothing_else(issuer: str) -> None:
    refused({**SESSION, "iss": issuer.format(STORY.session)})


@pytest.mark.parametrize("member", ["iss", "chn", "keys", "epoch_s", "policy", "not_after", "wit_max_s"])
def test_every_other_member_changes_the_keyset(member: str) -> None:
    changed = {
        "iss": "urn:other",
        "chn": ["B" * 22],
        "keys": GATEWAY["keys"][:2],
        "epoch_s": 61,
        "policy": "sha256:" + "0" * 64,
        "not_after": 5,
        "wit_max_s": 301,
    }[member]
    assert parse_statement(canonical({**GATEWAY, member: changed})).keyset_digest != (
        STORY.gateway_statement.keyset_digest
    )
