"""A key under which anybody can sign, and a second spelling of one, are told from all others."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.small_order import NEUTRAL, PRIME, SMALL_ORDER, encoded

from affiant.attestation.encoding.ed25519_points import is_nobodys_key


def test_the_eight_points_of_small_order_are_nobodys() -> None:
    assert len(set(SMALL_ORDER)) == 8
    assert all(map(is_nobodys_key, SMALL_ORDER))


def test_anybody_signs_anything_under_one_of_them() -> None:
    """Why: the library verifies it."""
    neutral = encoded(NEUTRAL)
    Ed25519PublicKey.from_public_bytes(neutral).verify(neutral + bytes(32), b"whatever it says")


def test_either_sign_of_such_a_point_is_nobodys() -> None:
    for raw in SMALL_ORDER:
        assert is_nobodys_key(raw[:31] + bytes([raw[31] ^ 0x80]))


def test_a_second_spelling_of_a_point_is_nobodys() -> None:
    for y in range(PRIME, 2**255):
        assert is_nobodys_key(y.to_bytes(32, "little"))
        assert is_nobodys_key((y | 1 << 255).to_bytes(32, "little"))
    assert not is_nobodys_key((PRIME - 2).to_bytes(32, "little"))


@given(st.binary(min_size=32, max_size=32))
def test_a_key_that_somebody_made_is_theirs(seed: bytes) -> None:
    assert not is_nobodys_key(Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw())
