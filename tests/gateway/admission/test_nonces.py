"""Nonces: made here, used once, gone in time, bounded in number."""

import os

import pytest
from tests.raising import raises_code

from affiant.gateway.admission.admit import NONCE_LIFETIME_S, Nonces
from affiant.gateway.wire.errors import Busy


def test_a_nonce_is_taken_once() -> None:
    nonces = Nonces(random_bytes=os.urandom)
    nonce = nonces.make(now=0)
    nonces.take(nonce, now=1)
    for wrong in (nonce, None, "", "A" * 43):
        with raises_code("admission.nonce"):
            nonces.take(wrong, now=1)


def test_a_nonce_expires() -> None:
    nonces = Nonces(random_bytes=os.urandom)
    early, late = nonces.make(now=0), nonces.make(now=0)
    nonces.take(early, now=NONCE_LIFETIME_S - 0.1)
    with raises_code("admission.nonce"):
        nonces.take(late, now=NONCE_LIFETIME_S)


def test_the_number_that_is_out_is_bounded_and_recovers() -> None:
    nonces = Nonces(random_bytes=os.urandom, limit=3)
    made = [nonces.make(now=0) for _ in range(3)]
    with pytest.raises(Busy):
        nonces.make(now=1)
    nonces.take(made[0], now=1)
    nonces.make(now=1)
    nonces.make(now=NONCE_LIFETIME_S + 2)
