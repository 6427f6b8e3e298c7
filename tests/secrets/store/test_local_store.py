import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough
from tests.raising import raises_code

from affiant.attestation.encoding.canonical import canonical
from affiant.secrets.names.value import SecretValue
from affiant.secrets.store import local_store
from affiant.secrets.store.local_store import (
    KeyFileKey,
    KeyKind,
    KeyringKey,
    PassphraseKey,
    StoredSecret,
    key_kind,
    open_store,
    seal_store,
    store_key_from,
)

VALUE = b"ghp_9sX2kQ7vLm4TzR1bYwE6"
KEY = KeyFileKey(bytes(range(32)))
SECRETS = {"GITHUB_TOKEN": StoredSecret(SecretValue(VALUE), 3)}
SEALED = seal_store(SECRETS, key=KEY, random_bytes=os.urandom)


def test_what_was_sealed_is_opened() -> None:
    opened = open_store(SEALED, key=KEY)
    assert {name: (entry.value.reveal(), entry.version) for name, entry in opened.items()} == {
        "GITHUB_TOKEN": (VALUE, 3)
    }
    assert VALUE not in SEALED
    assert b"GITHUB" not in SEALED


def test_a_passphrase_opens_what_it_sealed() -> None:
    key = PassphraseKey(b"correct horse battery")
    sealed = seal_store(SECRETS, key=key, random_bytes=os.urandom)
    assert key_kind(sealed) is KeyKind.PASSPHRASE
    assert (
        open_store(sealed, key=store_key_from(sealed, b"correct horse battery"))["GITHUB_TOKEN"].version == 3
    )
    with raises_code("store.key"):
        open_store(sealed, key=KEY)


def test_a_key_of_the_keyring_opens_what_it_sealed_and_a_key_file_does_not() -> None:
    sealed = seal_store(SECRETS, key=KeyringKey(KEY.key), random_bytes=os.urandom)
    assert key_kind(sealed) is KeyKind.KEYRING
    assert open_store(sealed, key=store_key_from(sealed, KEY.key))["GITHUB_TOKEN"].version == 3
    for other in (KEY, PassphraseKey(KEY.key)):
        with raises_code("store.key"):
            open_store(sealed, key=other)
    assert repr(KeyringKey(KEY.key)) == "<KeyringKey>"


def test_another_passphrase_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_store, "_SCRYPT", (14, 8, 1))
    sealed = seal_store(SECRETS, key=PassphraseKey(b"correct horse battery"), random_bytes=os.urandom)
    with raises_code("store.authentic"):
        open_store(sealed, key=PassphraseKey(b"correct horse batteri"))


@thorough(300)
@given(st.integers(0, len(SEALED) - 1), st.integers(1, 255))
def test_any_flipped_byte_is_refused(at: int, flip: int) -> None:
    changed = bytearray(SEALED)
    changed[at] ^= flip
    with raises_code("store.authentic", "store.malformed", "store.key"):
        open_store(bytes(changed), key=KEY)


@pytest.mark.parametrize("cut", [0, 1, 16, 64, 80, len(SEALED) - 1])
def test_any_truncation_is_refused(cut: int) -> None:
    with raises_code("store.authentic", "store.malformed"):
        open_store(SEALED[:cut], key=KEY)


def test_trailing_bytes_are_refused() -> None:
    with raises_code("store.authentic"):
        open_store(SEALED + b"\0", key=KEY)


def test_another_key_is_refused() -> None:
    with raises_code("store.authentic") as refusal:
        open_store(SEALED, key=KeyFileKey(bytes(32)))
    assert VALUE.decode() not in str(refusal.value)


def test_two_writings_share_neither_salt_nor_nonce_nor_ciphertext() -> None:
    again = seal_store(SECRETS, key=KEY, random_bytes=os.urandom)
    assert again[21:53] != SEALED[21:53]
    assert again[53:65] != SEALED[53:65]
    assert again[65:] != SEALED[65:]


@pytest.mark.parametrize("work", [(63, 8, 1), (21, 8, 1), (20, 255, 1), (14, 8, 255), (1, 1, 1), (0, 0, 0)])
def test_a_file_does_not_decide_how_much_memory_is_used(work: tuple[int, int, int]) -> None:
    sealed = bytearray(SEALED)
    sealed[17:21] = bytes((1, *work))
    with raises_code("store.malformed"):
        key_kind(bytes(sealed))


@pytest.mark.parametrize(
    "plain",
    [
        b"",
        b"[]",
        b'{"secrets":[]}',
        b'{"secrets":{}, "x":1}',
        b'{"secrets":{"A":{"value":"AAAA","version":0}}}',
        b'{"secrets":{"A":{"value":"AAAA"}}}',
        canonical({"secrets": {"A B": {"value": "Z2hwXzlzWDJrUTd2TG00VHpSMWJZd0U2", "version": 1}}}),
        canonical({"secrets": {"A": {"value": "Z2hwXzlzWDJrUTd2TG00VHpSMWJZd0U2", "version": 1, "x": 1}}}),
    ],
)
def test_an_authentic_store_of_another_shape_is_refused(
    plain: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_store, "canonical", lambda _document: plain)
    sealed = seal_store({}, key=KEY, random_bytes=os.urandom)
    with raises_code("store.malformed"):
        open_store(sealed, key=KEY)


@pytest.mark.parametrize("key", [b"", b"x" * 31, b"x" * 33])
def test_a_key_of_another_size_is_refused(key: bytes) -> None:
    with raises_code("store.key"):
        KeyFileKey(key)


def test_keys_show_nothing() -> None:
    assert "correct" not in repr(PassphraseKey(b"correct horse battery"))
    assert repr(KEY) == "<KeyFileKey>"
    with raises_code("store.key"):
        PassphraseKey(b"short")
