"""The local store: secrets under a key, as bytes. No file is touched here (``local_store_file``).

Anyone who can copy the folder, its key file included, can read the values. A passphrase, a key in the system keyring or
Vault prevents that.

Format, version 1 (all of the header is authenticated as additional data)::

    offset  size  content
         0    16  "affiant-secrets\\n"
        16     1  version: 1
        17     1  key: 0 key file, 1 passphrase, 2 system keyring
        18     1  scrypt log2(N) (0 without a passphrase)
        19     1  scrypt r (0 without a passphrase)
        20     1  scrypt p (0 without a passphrase)
        21    32  salt, fresh for each writing
        53    12  nonce
        65     -  AES-256-GCM ciphertext and 16-byte tag

The AES key is HKDF-SHA256(key, salt, info "affiant local store v1"), where *key* is the 32 bytes of the key
file or the keyring, or scrypt(passphrase, salt, N, r, p, 32) (RFC 7914): a fresh salt means a fresh AES key, so that
no nonce meets a key twice. The plaintext is RFC 8785 JSON, ``{"secrets": {NAME: {"value": base64url, "version": n}}}``;
a secret's version counts its settings, and receipts name it. The length of the file shows roughly how much is
in it. An old copy of the file opens too: the store does not know that there was a newer one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias, assert_never

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.errors import ConfigurationError, MalformedError, NotAuthenticError
from affiant.secrets.names.ref import secret_name
from affiant.secrets.names.value import SecretValue

__all__ = [
    "KEY_BYTES",
    "MAX_STORE_BYTES",
    "KeyFileKey",
    "KeyKind",
    "KeyringKey",
    "PassphraseKey",
    "StoreKey",
    "StoredSecret",
    "key_kind",
    "kind_of",
    "open_store",
    "seal_store",
    "store_key_from",
]

KEY_BYTES: Final = 32
MAX_STORE_BYTES: Final = 1 << 20

_MAGIC: Final = b"affiant-secrets\n"
_VERSION: Final = 1
_HEADER_BYTES: Final = 65
_SALT_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_INFO: Final = b"affiant local store v1"
_SCRYPT: Final = (17, 8, 1)
"""log2(N), r, p: 128 MiB, about half a second (OWASP password storage, scrypt)."""
_SCRYPT_MAX: Final = (20, 16, 4)
"""More is refused before any work is done: a file must not decide how much memory is used."""
_SCRYPT_MIN: Final = (14, 8, 1)


class KeyKind(IntEnum):
    """What opens a store, as its header says."""

    FILE = 0
    PASSPHRASE = 1
    KEYRING = 2


_KINDS: Final = {
    KeyKind.FILE: "a key file",
    KeyKind.PASSPHRASE: "a passphrase",
    KeyKind.KEYRING: "a key in the system keyring",
}


@dataclass(frozen=True, slots=True, repr=False)
class _RandomKey:
    """32 random bytes."""

    key: bytes

    def __post_init__(self) -> None:
        if len(self.key) != KEY_BYTES:
            raise ConfigurationError(
                "not the key of a store", expected=f"exactly {KEY_BYTES} bytes", code="store.key"
            )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class KeyFileKey(_RandomKey):
    """The 32 random bytes of a key file."""

    __slots__ = ()


class KeyringKey(_RandomKey):
    """32 random bytes that the system keyring keeps."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, repr=False)
class PassphraseKey:
    """A passphrase, as bytes (UTF-8)."""

    passphrase: bytes

    def __post_init__(self) -> None:
        if not 12 <= len(self.passphrase) <= 1024:
            raise ConfigurationError(
                "the passphrase is too short or too long", expected="12 to 1024 bytes", code="store.key"
            )

    def __repr__(self) -> str:
        return "<PassphraseKey>"


StoreKey: TypeAlias = KeyFileKey | PassphraseKey | KeyringKey


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """One entry: the value, and how often this name has been set (1 the first time)."""

    value: SecretValue
    version: int


def seal_store(
    secrets: Mapping[str, StoredSecret], *, key: StoreKey, random_bytes: Callable[[int], bytes]
) -> bytes:
    """The store's bytes. Every call takes a fresh salt and nonce from ``random_bytes``."""
    salt = random_bytes(_SALT_BYTES)
    kind = kind_of(key)
    work = _SCRYPT if kind is KeyKind.PASSPHRASE else (0, 0, 0)
    header = _MAGIC + bytes((_VERSION, kind, *work)) + salt + random_bytes(_NONCE_BYTES)
    entries = {
        secret_name(name): {"value": b64u(entry.value.reveal()), "version": entry.version}
        for name, entry in secrets.items()
    }
    sealed = header + _cipher(header, key).encrypt(
        header[-_NONCE_BYTES:], canonical({"secrets": entries}), header
    )
    if len(sealed) > MAX_STORE_BYTES:
        raise MalformedError(
            "the store would be too large",
            expected=f"at most {MAX_STORE_BYTES} bytes",
            code="store.malformed",
        )
    return sealed


def open_store(data: bytes, *, key: StoreKey) -> Mapping[str, StoredSecret]:
    """The secrets of a store, by name.

    Raises:
        ``store.malformed``: not a store of version 1, or scrypt parameters outside of what is accepted.
        ``store.key``: the store asks for the other kind of key.
        ``store.authentic``: another key, or any changed byte.
    """
    if (kind := key_kind(data)) is not kind_of(key):
        raise ConfigurationError(
            "the store asks for another kind of key", expected=_KINDS[kind], code="store.key"
        )
    header, sealed = data[:_HEADER_BYTES], data[_HEADER_BYTES:]
    try:
        plain = _cipher(header, key).decrypt(header[-_NONCE_BYTES:], sealed, header)
    except InvalidTag as error:
        raise NotAuthenticError(
            "the store does not open",
            expected="the key it was written with, and unchanged bytes",
            hint="Check that store and key belong together; a damaged store has to be set anew",
            code="store.authentic",
        ) from error
    try:
        return _entries(plain)
    except MalformedError as error:
        raise MalformedError(
            "the store's content is not what version 1 promises", code="store.malformed"
        ) from error


def key_kind(data: bytes) -> KeyKind:
    """What opens this store.

    Raises:
        ``store.malformed``: not a store of version 1.
    """
    if len(data) > MAX_STORE_BYTES or len(data) < _HEADER_BYTES + _TAG_BYTES or not data.startswith(_MAGIC):
        raise MalformedError("not a local store", code="store.malformed")
    version, kind = data[16], data[17]
    work = tuple(data[18:21])
    if version != _VERSION:
        raise MalformedError(
            "a store of another version", expected=str(_VERSION), found=str(version), code="store.malformed"
        )
    if kind in (KeyKind.FILE, KeyKind.KEYRING) and work == (0, 0, 0):
        return KeyKind(kind)
    if kind == KeyKind.PASSPHRASE and all(
        least <= n <= most for least, n, most in zip(_SCRYPT_MIN, work, _SCRYPT_MAX, strict=True)
    ):
        return KeyKind.PASSPHRASE
    raise MalformedError(
        "not a local store: its key parameters are outside of what is accepted", code="store.malformed"
    )


def store_key_from(data: bytes, material: bytes) -> StoreKey:
    """``material`` (32 bytes, or a passphrase) as the kind of key that the store ``data`` wants."""
    match key_kind(data):
        case KeyKind.FILE:
            return KeyFileKey(material)
        case KeyKind.PASSPHRASE:
            return PassphraseKey(material)
        case KeyKind.KEYRING:
            return KeyringKey(material)


def kind_of(key: StoreKey) -> KeyKind:
    """The kind of store that ``key`` opens."""
    match key:
        case KeyFileKey():
            return KeyKind.FILE
        case PassphraseKey():
            return KeyKind.PASSPHRASE
        case KeyringKey():
            return KeyKind.KEYRING
        case _:
            assert_never(key)


def _cipher(header: bytes, key: StoreKey) -> AESGCM:
    salt = header[21 : 21 + _SALT_BYTES]
    match key:
        case KeyFileKey() | KeyringKey():
            secret = key.key
        case PassphraseKey():
            log2_n, r, p = header[18:21]
            secret = Scrypt(salt=salt, length=KEY_BYTES, n=1 << log2_n, r=r, p=p).derive(key.passphrase)
        case _:
            assert_never(key)
    return AESGCM(HKDF(algorithm=SHA256(), length=32, salt=salt, info=_INFO).derive(secret))


def _entries(plain: bytes) -> Mapping[str, StoredSecret]:
    document = parse_object(plain, limit=MAX_STORE_BYTES)
    entries = document.get("secrets")
    if set(document) != {"secrets"} or not isinstance(entries, dict):
        raise MalformedError("unknown members", code="store.malformed")
    return {secret_name(name): _entry(entry) for name, entry in entries.items()}


def _entry(entry: object) -> StoredSecret:
    match entry:
        case {"value": str(value), "version": int(version), **rest} if not rest and version >= 1:
            return StoredSecret(SecretValue(from_b64u(value)), version)
        case _:
            raise MalformedError("not an entry", code="store.malformed")
