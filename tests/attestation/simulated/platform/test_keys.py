from __future__ import annotations

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from affiant.attestation.simulated.platform.keys import Role, derive_key, public_point, public_spki, sign_raw

SEED = bytes(range(32))


def test_every_role_has_its_own_key() -> None:
    assert len({public_spki(derive_key(SEED, role)) for role in Role}) == len(Role)


def test_another_seed_gives_other_keys() -> None:
    ours = {public_spki(derive_key(SEED, role)) for role in Role}
    assert ours.isdisjoint(public_spki(derive_key(bytes(32), role)) for role in Role)


def test_a_raw_signature_is_64_bytes_and_the_same_every_time() -> None:
    key = derive_key(SEED, Role.PCK)
    signature = sign_raw(key, b"data")
    assert len(signature) == 64
    assert signature == sign_raw(key, b"data")
    encoded = encode_dss_signature(
        int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    )
    key.public_key().verify(encoded, b"data", ec.ECDSA(hashes.SHA256()))
    with pytest.raises(InvalidSignature):
        key.public_key().verify(encoded, b"Data", ec.ECDSA(hashes.SHA256()))


def test_a_point_is_64_bytes_without_a_prefix() -> None:
    point = public_point(derive_key(SEED, Role.ATTESTATION))
    assert len(point) == 64
    ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), b"\x04" + point)
