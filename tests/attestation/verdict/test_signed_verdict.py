"""A signed verdict: an in-toto statement in DSSE that others' tools read, and that says one thing about one bundle."""

from __future__ import annotations

import base64
import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st
from tests.raising import raises_code

from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.signatures.profiles.private_keys import SigningKey, read_signing_key
from affiant.attestation.verdict.signed_verdict import parse_signed_verdict, sign_verdict
from affiant.errors import AffiantError

BUNDLE = "sha256:" + "ab" * 32
DOCUMENT: dict[str, Any] = {
    "typ": "affiant-verdict/1",
    "bundle": BUNDLE,
    "at": "2026-11-21T12:00:00Z",
    "outcome": "holds in part",
    "demand": {"level": None, "complete": False, "unmet": []},
    "tier": "none",
    "simulated": True,
    "exit_code": 40,
    "checks": [{"code": "sig.valid", "state": "held", "where": []}],
    "a member of a later release": {"any": [1, None, "ü"]},
}
KINDS = ("P-256", "P-384", "Ed25519")


def make_key(folder: Path, kind: str) -> SigningKey:
    made = {
        "P-256": lambda: ec.generate_private_key(ec.SECP256R1()),
        "P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
        "Ed25519": Ed25519PrivateKey.generate,
    }[kind]()
    path = folder / f"{kind}.pem"
    path.touch(mode=0o600)
    path.write_bytes(made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return read_signing_key(path)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SigningKey]:
    folder = tmp_path_factory.mktemp("keys")
    return {kind: make_key(folder, kind) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_a_signed_verdict_is_the_verdict_whatever_its_members(keys: dict[str, SigningKey], kind: str) -> None:
    found = parse_signed_verdict(sign_verdict(DOCUMENT, keys[kind]))
    found.verify(keys[kind].public)
    found.require_about(BUNDLE)
    assert (found.bundle, found.exit_code, dict(found.document)) == (BUNDLE, 40, DOCUMENT)


def test_it_is_an_in_toto_statement_of_version_1_about_the_bundle(keys: dict[str, SigningKey]) -> None:
    envelope = json.loads(sign_verdict(DOCUMENT, keys["P-256"]))
    assert envelope.keys() == {"payload", "payloadType", "signatures"}
    assert envelope["payloadType"] == "application/vnd.in-toto+json"
    assert json.loads(base64.b64decode(envelope["payload"])) == {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "bundle", "digest": {"sha256": "ab" * 32}}],
        "predicateType": "tag:affiant.dev,2026:verdict/1",
        "predicate": DOCUMENT,
    }


def test_openssl_holds_the_signature_over_the_pre_authentication_encoding(
    keys: dict[str, SigningKey], tmp_path: Path
) -> None:
    """DSSE, protocol.md: "DSSEv1" SP length SP type SP length SP body. Nothing of ours makes the bytes here."""
    envelope = json.loads(sign_verdict(DOCUMENT, keys["P-256"]))
    body = base64.b64decode(envelope["payload"])
    encoded = f"DSSEv1 28 application/vnd.in-toto+json {len(body)} ".encode() + body
    (tmp_path / "encoded").write_bytes(encoded)
    (tmp_path / "signature").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    (tmp_path / "key.pem").write_bytes(
        keys["P-256"].public.key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    command = ["openssl", "dgst", "-sha256", "-verify", "key.pem", "-signature", "signature", "encoded"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=20)
    assert (done.returncode, done.stdout.strip()) == (0, "Verified OK")


def test_another_key_and_another_bundle_are_refused(keys: dict[str, SigningKey]) -> None:
    found = parse_signed_verdict(sign_verdict(DOCUMENT, keys["P-256"]))
    for other in ("P-384", "Ed25519"):
        with raises_code("verdict.signature_invalid"):
            found.verify(keys[other].public)
    with raises_code("verdict.bundle"):
        found.require_about("sha256:" + "cd" * 32)


@given(st.data())
def test_no_changed_byte_goes_unnoticed(keys: dict[str, SigningKey], data: st.DataObject) -> None:
    signed = bytearray(sign_verdict(DOCUMENT, keys["Ed25519"]))
    place = data.draw(st.integers(0, len(signed) - 1))
    signed[place] ^= data.draw(st.integers(1, 255))
    try:
        found = parse_signed_verdict(bytes(signed))
        found.verify(keys["Ed25519"].public)
    except AffiantError as error:
        assert error.code in ("verdict.signature", "verdict.signature_invalid")
    else:  # white space between members is the one thing that a signature does not cover
        assert json.loads(signed) == json.loads(sign_verdict(DOCUMENT, keys["Ed25519"]))


def resigned(key: SigningKey, **changes: Any) -> bytes:
    """A statement with changed members, and a true signature over it."""
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "bundle", "digest": {"sha256": "ab" * 32}}],
        "predicateType": "tag:affiant.dev,2026:verdict/1",
        "predicate": copy.deepcopy(DOCUMENT),
        **changes,
    }
    body = canonical(statement)
    kind = "application/vnd.in-toto+json"
    signature = key.sign(f"DSSEv1 {len(kind)} {kind} {len(body)} ".encode() + body)
    encoded = [base64.b64encode(each).decode() for each in (body, signature)]
    return json.dumps(
        {"payload": encoded[0], "payloadType": kind, "signatures": [{"keyid": "", "sig": encoded[1]}]}
    ).encode()


@pytest.mark.parametrize(
    "changes",
    [
        {"_type": "https://in-toto.io/Statement/v0.1"},
        {"predicateType": "tag:affiant.dev,2026:publication/1"},
        {"subject": [{"name": "another", "digest": {"sha256": "ab" * 32}}]},
        {"subject": [{"name": "bundle", "digest": {"sha256": "cd" * 32}}]},
        {"subject": [{"name": "bundle", "digest": {"sha256": "ab" * 32}}] * 2},
        {"subject": []},
        {"predicate": {}},
        {"predicate": {**DOCUMENT, "typ": "affiant-verdicts/1"}},
        {"predicate": {**DOCUMENT, "exit_code": 1}},
        {"predicate": {**DOCUMENT, "exit_code": False}},
        {"predicate": {**DOCUMENT, "exit_code": "0"}},
        *({"predicate": {**DOCUMENT, "exit_code": code}} for code in (0, 10, 20, 30)),
        {"predicate": {**DOCUMENT, "simulated": False}},
        {"predicate": {**DOCUMENT, "simulated": 1}},
        {"predicate": {**DOCUMENT, "tier": "contraindicated"}},
        {"predicate": {**DOCUMENT, "tier": "good"}},
        {
            "predicate": DOCUMENT
            | {"outcome": "rejected", "tier": "affirming", "simulated": False, "exit_code": 0}
        },
        {"predicate": {**DOCUMENT, "tier": "contraindicated", "exit_code": 20}},
        {"predicate": {**DOCUMENT, "outcome": "rejected"}},
        {"predicate": {**DOCUMENT, "tier": "affirming"}},
        {"predicate": {**DOCUMENT, "outcome": "cannot be judged"}},
        {"predicate": {**DOCUMENT, "demand": {"unmet": ["level"]}}},
        {"predicate": {name: DOCUMENT[name] for name in DOCUMENT if name != "demand"}},
        {"more": 1},
    ],
    ids=str,
)
def test_a_signed_statement_that_is_no_verdict_about_its_subject_is_refused(
    keys: dict[str, SigningKey], changes: dict[str, Any]
) -> None:
    parse_signed_verdict(resigned(keys["P-256"])).verify(keys["P-256"].public)
    with raises_code("verdict.signature"):
        parse_signed_verdict(resigned(keys["P-256"], **changes))


@pytest.mark.parametrize(
    ("changes", "exit_code"),
    [
        ({"tier": "affirming", "simulated": False, "outcome": "holds"}, 0),
        ({"tier": "warning", "simulated": False}, 10),
        ({"tier": "contraindicated", "outcome": "rejected"}, 20),
        ({"outcome": "cannot be judged"}, 30),
        ({"demand": {"level": "L3", "complete": True, "unmet": ["complete"]}}, 30),
        ({"simulated": False}, 30),
    ],
    ids=str,
)
def test_the_exit_code_is_the_one_that_the_other_members_come_to(
    keys: dict[str, SigningKey], changes: dict[str, Any], exit_code: int
) -> None:
    document = {**DOCUMENT, **changes, "exit_code": exit_code}
    assert parse_signed_verdict(sign_verdict(document, keys["P-256"])).exit_code == exit_code


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b"null", b"\xff", b'{"payload":"","payload":""}'])
def test_what_is_no_envelope_is_refused(raw: bytes) -> None:
    with raises_code("verdict.signature"):
        parse_signed_verdict(raw)


@pytest.mark.parametrize(
    "changes", [{"bundle": None}, {"bundle": "sha256:AB"}, {"typ": "other"}, {"exit_code": 7}]
)
def test_what_is_no_verdict_about_one_bundle_is_not_signed(
    keys: dict[str, SigningKey], changes: dict[str, Any]
) -> None:
    with raises_code("verdict.signature"):
        sign_verdict(DOCUMENT | changes, keys["P-256"])
