"""Raw signatures: ranges, leading zeros, high s; points: on the curve or refused."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from affiant.attestation.simulated.platform.keys import public_point, sign_raw
from affiant.attestation.tdx.pki.ecdsa import (
    P256_SPKI_PREFIX,
    public_key_of_point,
    raw_signature_holds,
    signature_holds,
)

ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
KEY = ec.derive_private_key(7, ec.SECP256R1())


def test_a_high_s_is_a_valid_signature() -> None:
    signature = sign_raw(KEY, b"m")
    s = ORDER - int.from_bytes(signature[32:], "big")
    assert raw_signature_holds(KEY.public_key(), signature[:32] + s.to_bytes(32, "big"), b"m")


@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("value", [0, ORDER, ORDER + 1, 2**256 - 1])
def test_r_and_s_are_in_range(half: int, value: int) -> None:
    signature = bytearray(sign_raw(KEY, b"m"))
    signature[32 * half : 32 * half + 32] = value.to_bytes(32, "big")
    assert not raw_signature_holds(KEY.public_key(), bytes(signature), b"m")


@pytest.mark.parametrize("half", [slice(0, 32), slice(32, 64)])
def test_leading_zeros_are_kept(half: slice) -> None:
    """About one signature in 256 has a short r or s; converting it must not shift it."""
    for number in range(3000):
        message = number.to_bytes(4, "big")
        signature = sign_raw(KEY, message)
        if signature[half][0] == 0:
            assert raw_signature_holds(KEY.public_key(), signature, message)
            return
    pytest.fail("no such signature in 3000")


@pytest.mark.parametrize("signature", [b"", bytes(63), bytes(65), b"\0" + bytes(64)])
def test_another_length_is_no_signature(signature: bytes) -> None:
    assert not raw_signature_holds(KEY.public_key(), signature, b"m")


def test_a_raw_signature_is_no_der_one() -> None:
    raw = sign_raw(KEY, b"m")
    der = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    assert signature_holds(KEY.public_key(), der, b"m")
    assert not signature_holds(KEY.public_key(), raw, b"m")
    assert not signature_holds(KEY.public_key(), KEY.sign(b"other", ec.ECDSA(SHA256())), b"m")


def test_the_prefix_is_that_of_a_p256_key() -> None:
    spki = KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert spki == P256_SPKI_PREFIX + public_point(KEY)


@pytest.mark.parametrize("point", [bytes(64), b"\x01" * 64, b"\xff" * 64, bytes(63), bytes(65)])
def test_a_point_off_the_curve_is_refused(point: bytes) -> None:
    with pytest.raises(ValueError):
        public_key_of_point(point)
