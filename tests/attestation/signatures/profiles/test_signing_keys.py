"""Keys of three kinds, named by their digest; a private one is read from a private file and never shown."""

from __future__ import annotations

import copy
import hashlib
import pickle
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    PublicFormat,
)
from tests.attestation.signatures.profiles.conftest import PRIVATE, key_file, private_pem, public_pem
from tests.attestation.small_order import SMALL_ORDER

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.signatures.profiles.accepted_signers import parse_signers
from affiant.attestation.signatures.profiles.errors import (
    ProfileSignatureInvalid,
    SignersInvalid,
    SigningKeyInvalid,
)
from affiant.attestation.signatures.profiles.private_keys import SigningKey, read_signing_key
from affiant.attestation.signatures.profiles.signing_keys import ProfileKey, parse_key_jwk, parse_public_pem


def test_a_key_is_named_by_its_subject_public_key_info(key: SigningKey) -> None:
    private = PRIVATE[key.public.kind]
    der = private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert key.public.id == "sha256:" + hashlib.sha256(der).hexdigest()
    assert parse_public_pem(public_pem(private)) == key.public
    assert parse_key_jwk(dict(key.public.to_jwk())) == key.public


def test_what_a_key_signs_holds_under_it_alone(key: SigningKey) -> None:
    signature = key.sign(b"message")
    assert key.sign(b"message") == signature
    key.public.verify(b"message", signature)
    for message, given in ((b"massage", signature), (b"message", signature[:-1]), (b"message", b"")):
        with pytest.raises(ProfileSignatureInvalid):
            key.public.verify(message, given)


@pytest.mark.parametrize("point", SMALL_ORDER)
def test_a_key_under_which_anybody_can_sign_is_nobodys_signature(point: bytes) -> None:
    key = Ed25519PublicKey.from_public_bytes(point)
    jwk = {"crv": "Ed25519", "kty": "OKP", "x": b64u(point)}
    pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for taken in (lambda: ProfileKey.of(key), lambda: parse_key_jwk(jwk), lambda: parse_public_pem(pem)):
        with pytest.raises(SigningKeyInvalid, match="nobody's"):
            taken()
    for accepted in ({"key": jwk}, {"key": pem.decode()}):
        with pytest.raises(SignersInvalid):
            parse_signers([{"value": accepted}])


def test_a_private_key_is_shown_nowhere(key: SigningKey) -> None:
    assert "PRIVATE" not in repr(key) and "PrivateKey" not in repr(key)
    for copying in (copy.copy, pickle.dumps):
        with pytest.raises(TypeError):
            copying(key)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_key_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    path = key_file(tmp_path, PRIVATE["P-256"])
    path.chmod(mode)
    with pytest.raises(SigningKeyInvalid, match="other users"):
        read_signing_key(path)


def test_a_link_and_a_folder_are_no_key(tmp_path: Path) -> None:
    path = key_file(tmp_path, PRIVATE["P-256"])
    (tmp_path / "link").symlink_to(path)
    for place in (tmp_path / "link", tmp_path, tmp_path / "none"):
        with pytest.raises(SigningKeyInvalid):
            read_signing_key(place)


def test_what_is_no_usable_key_is_refused_and_not_repeated(tmp_path: Path) -> None:
    locked = PRIVATE["P-256"].private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"word")
    )
    other = [
        locked,
        private_pem(ec.generate_private_key(ec.SECP521R1())),
        private_pem(ec.generate_private_key(ec.SECP256K1())),
        private_pem(rsa.generate_private_key(65537, 2048)),
        public_pem(PRIVATE["P-256"]),
        private_pem(PRIVATE["P-256"]).replace(b"M", b"!", 3),
        b"hunter2",
    ]
    path = tmp_path / "key.pem"
    for content in other:
        path.write_bytes(content)
        path.chmod(0o600)
        with pytest.raises(SigningKeyInvalid) as found:
            read_signing_key(path)
        shown = str(found.value)
        assert "hunter2" not in shown and not any(line in shown for line in content.decode().split()[3:])


@pytest.mark.parametrize("kind", list(PRIVATE))
def test_a_private_key_given_as_a_public_one_is_named_as_such(kind: str) -> None:
    with pytest.raises(SigningKeyInvalid, match="private key"):
        parse_public_pem(private_pem(PRIVATE[kind]))


def test_other_public_keys_are_refused() -> None:
    for key in (ec.generate_private_key(ec.SECP521R1()), rsa.generate_private_key(65537, 2048)):
        with pytest.raises(SigningKeyInvalid):
            parse_public_pem(public_pem(key))
    with pytest.raises(SigningKeyInvalid):
        parse_public_pem(b"-----BEGIN PUBLIC KEY-----\n")


def test_a_jwk_has_exactly_its_members_and_a_point_on_its_curve(key: SigningKey) -> None:
    jwk = dict(key.public.to_jwk())
    wrong = [
        {**jwk, "d": "AA"},
        {**jwk, "crv": "P-521"},
        {**jwk, "x": jwk["x"] + "="},
        {**jwk, "x": "AA"},
        {},
        None,
    ]
    if "y" in jwk:
        wrong += [{**jwk, "y": jwk["x"]}, {**jwk, "kty": "OKP"}]
    for each in wrong:
        with pytest.raises(SigningKeyInvalid):
            parse_key_jwk(each)
