"""The generator's own ML-DSA-44: keys and signatures that `cryptography` verifies, the same every time."""

from __future__ import annotations

import hashlib

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PrivateKey, MLDSA44PublicKey

from vectors.making.mldsa44 import mldsa44_key, sign_mldsa44

SEEDS = [hashlib.sha256(b"seed %d" % number).digest() for number in range(6)]


def public_of(seed: bytes) -> MLDSA44PublicKey:
    return MLDSA44PublicKey.from_public_bytes(mldsa44_key(seed).public)


@pytest.mark.parametrize("seed", SEEDS, ids=range(6))
def test_a_seed_makes_the_key_that_cryptography_makes_of_it(seed: bytes) -> None:
    private = MLDSA44PrivateKey.from_seed_bytes(seed)
    assert mldsa44_key(seed).public == private.public_key().public_bytes_raw()


@pytest.mark.parametrize("seed", SEEDS, ids=range(6))
def test_its_signatures_hold_for_their_message_and_context_alone(seed: bytes) -> None:
    for message, context in ((b"", b""), (b"message", b""), (b"message", b"context")):
        signature = sign_mldsa44(seed, message, context=context)
        public_of(seed).verify(signature, message, context)
        with pytest.raises(InvalidSignature):
            public_of(seed).verify(signature, message + b"x", context)
    with pytest.raises(InvalidSignature):
        public_of(seed).verify(signature, b"message")


@pytest.mark.parametrize(
    ("context", "digest"),
    [
        (b"", "8cd6fc03daa72e87210a4e721523e84c14f27733789075e65736744d4787fdd5"),
        (b"Context", "17749906eeb78bc6c57e549c237b4d2a27a011edac02bd1ad7e6534795e8ceff"),
    ],
)
def test_a_message_has_one_signature_for_ever(context: bytes, digest: str) -> None:
    """SHA-256 of what Project Wycheproof expects of a deterministic signer (mldsa_44_sign_seed_test, 1 and 3)."""
    sign_mldsa44.cache_clear()
    signature = sign_mldsa44(b"*" * 32, b"Hello world", context=context)
    assert hashlib.sha256(signature).hexdigest() == digest


def test_a_response_that_is_out_of_range_is_the_only_thing_wrong_with_it() -> None:
    """Its hash is over what a verifier computes: whoever forgets the bound accepts it, and `cryptography` does not."""
    signature = sign_mldsa44(SEEDS[0], b"message", in_range=False)
    bits = int.from_bytes(signature[32:-84], "little")
    response = [(1 << 17) - (bits >> 18 * at & 0x3FFFF) for at in range(1024)]
    assert (1 << 17) - 78 <= max(map(abs, response)) < 1 << 17
    with pytest.raises(InvalidSignature):
        public_of(SEEDS[0]).verify(signature, b"message")
