"""Nonces: made here, used once, gone in time; nothing is kept of one that is not used."""

import os
import sys

import pytest
from tests.raising import raises_code

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.gateway.admission.admit import NONCE_LIFETIME_S, Nonces
from affiant.gateway.wire.errors import Busy


def test_a_nonce_is_taken_once() -> None:
    nonces = Nonces(random_bytes=os.urandom)
    nonce = nonces.make(now=0)
    assert nonces.require(nonce, now=1) == nonce
    nonces.take(nonce, now=1)
    for wrong in (nonce, None, "", "A" * 43, "?" * 43, nonce + "AA"):
        with raises_code("admission.nonce"):
            nonces.take(wrong, now=1)
        with raises_code("admission.nonce"):
            nonces.require(wrong, now=1)


def test_a_nonce_expires() -> None:
    nonces = Nonces(random_bytes=os.urandom)
    early, late = nonces.make(now=0), nonces.make(now=0)
    nonces.take(early, now=NONCE_LIFETIME_S - 0.1)
    with raises_code("admission.nonce"):
        nonces.take(late, now=NONCE_LIFETIME_S)


def test_a_used_nonce_stays_used_for_as_long_as_it_would_be_valid() -> None:
    nonces = Nonces(random_bytes=os.urandom)
    first, second = nonces.make(now=0), nonces.make(now=100)
    nonces.take(first, now=50)
    nonces.take(second, now=101)
    for now in (101, 119, 200, 219):
        for nonce in (first, second):
            with raises_code("admission.nonce"):
                nonces.take(nonce, now=now)


def test_a_nonce_is_of_one_process_and_each_byte_of_it_counts() -> None:
    nonces = Nonces(random_bytes=os.urandom)
    data = from_b64u(nonces.make(now=5), size=32)
    with raises_code("admission.nonce"):
        Nonces(random_bytes=os.urandom).take(b64u(data), now=5)
    for place in range(32):
        changed = bytearray(data)
        changed[place] ^= 1
        with raises_code("admission.nonce"):
            nonces.take(b64u(bytes(changed)), now=5)
    nonces.take(b64u(data), now=5)


def test_asking_for_nonces_keeps_nothing_and_ends_nothing() -> None:
    """1,024 nonces in half a second used to stop admissions for two minutes."""
    nonces = Nonces(random_bytes=os.urandom)
    first = nonces.make(now=0)
    size = sys.getsizeof(nonces._used)
    assert len({nonces.make(now=i / 4096) for i in range(4096)}) == 4096
    nonces.take(first, now=2)
    nonces.take(nonces.make(now=2), now=2)
    assert len(nonces._used) == 2 and sys.getsizeof(nonces._used) <= size + 1024


def test_the_number_that_was_used_is_bounded_and_recovers() -> None:
    nonces = Nonces(random_bytes=os.urandom, limit=3)
    for _ in range(3):
        nonces.take(nonces.make(now=0), now=0)
    waiting = nonces.make(now=60)
    with pytest.raises(Busy):
        nonces.take(waiting, now=61)
    nonces.take(waiting, now=NONCE_LIFETIME_S)
