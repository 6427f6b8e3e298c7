"""ES256 as this project signs: deterministic, low s, one form of key."""

from __future__ import annotations

import copy
import pickle

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from affiant.attestation.encoding.keys import (
    KeyMalformed,
    SignatureInvalid,
    Signer,
    public_jwk,
    public_key_of,
    thumbprint,
    verify_es256,
)

KEY = Signer(ec.derive_private_key(12345, ec.SECP256R1()))
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


@given(st.binary(max_size=64))
def test_signing_is_deterministic_and_low(message: bytes) -> None:
    signature = KEY.sign(message)
    assert signature == KEY.sign(message)
    assert int.from_bytes(signature[32:], "big") <= ORDER // 2
    verify_es256(KEY.public_key, message, signature)


@given(st.integers(0, 511))
def test_any_flipped_bit_is_refused(bit: int) -> None:
    signature = bytearray(KEY.sign(b"message"))
    signature[bit // 8] ^= 1 << bit % 8
    with pytest.raises(SignatureInvalid):
        verify_es256(KEY.public_key, b"message", bytes(signature))


def test_the_upper_half_is_refused_though_it_holds() -> None:
    signature = KEY.sign(b"message")
    high = (ORDER - int.from_bytes(signature[32:], "big")).to_bytes(32, "big")
    with pytest.raises(SignatureInvalid, match="upper half"):
        verify_es256(KEY.public_key, b"message", signature[:32] + high)


@pytest.mark.parametrize("size", [0, 63, 65, 70, 72])
def test_other_lengths_are_refused(size: int) -> None:
    with pytest.raises(SignatureInvalid, match="64 bytes"):
        verify_es256(KEY.public_key, b"message", bytes(size))


@pytest.mark.parametrize(("r", "s"), [(0, 1), (1, 0), (ORDER, 1), (1, ORDER), (2**256 - 1, 1)])
def test_numbers_out_of_range_are_refused(r: int, s: int) -> None:
    with pytest.raises(SignatureInvalid):
        verify_es256(KEY.public_key, b"message", r.to_bytes(32, "big") + s.to_bytes(32, "big"))


def test_short_numbers_keep_their_leading_zeros() -> None:
    counter = 0
    while (signature := KEY.sign(counter.to_bytes(4, "big")))[0] and signature[32]:
        counter += 1
    verify_es256(KEY.public_key, counter.to_bytes(4, "big"), signature)


def test_thumbprint_agrees_with_another_implementation() -> None:
    algorithm = jwt.get_algorithm_by_name("ES256")
    assert (
        algorithm.from_jwk({**public_jwk(KEY.public_key)}).public_numbers() == KEY.public_key.public_numbers()
    )
    assert len(thumbprint(KEY.public_key)) == 43


@pytest.mark.parametrize(
    "change",
    [{"x": "AA"}, {"crv": "P-384"}, {"kty": "RSA"}, {"d": "AA"}, {"y": "A" * 43}, {"x": 5}, {"alg": "ES256"}],
)
def test_other_keys_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(Exception) as caught:
        public_key_of({**public_jwk(KEY.public_key), **change})
    assert caught.value.code in ("sig.key", "fmt.encoding")


def test_no_key_at_all_is_refused() -> None:
    for value in (None, [], "key", {}):
        with pytest.raises(KeyMalformed):
            public_key_of(value)


def test_a_private_key_is_never_shown_or_copied() -> None:
    assert "12345" not in repr(KEY)
    for copying in (pickle.dumps, copy.deepcopy, copy.copy):
        with pytest.raises(TypeError):
            copying(KEY)
