"""Sealed disclosures, versions 1 and 2, and what is wrong with some: HPKE (RFC 9180) with an ephemeral key of its own.

``openings.json``: ``keys`` of two tenants, ``records`` (no signature of theirs is checked), ``texts``, and ``cases``.
A case says which record the first tenant opens, which texts are kept under its receipt hash (``record``) and under the
name of its session's key (``key``), and what comes of it: ``opened``, ``absent``, or a code. A text that is written as
``{"of", "flip"}`` is another one whose byte of this number, behind the mark, has its lowest bit changed; one as
``{"of", "cut"}`` lacks so many characters at its end.
"""

from __future__ import annotations

import hmac
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from vectors.making.encoding import b64u, canonical, link
from vectors.making.keys import p256_key, seeded, sign_es256, thumbprint

__all__ = ["openings"]

_VERSION_1, _VERSION_2 = b"affiant/openings/1", b"affiant/openings/2"
_KEM = b"KEM" + (0x0020).to_bytes(2, "big")
_HPKE = b"HPKE" + b"".join(number.to_bytes(2, "big") for number in (0x0020, 0x0001, 0x0002))
_SESSIONS = {name: b64u(seeded(f"openings {name}", 16)) for name in ("one session", "another session")}
_TENANTS = ("tenant", "another tenant")


def _private(label: str) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(seeded(f"openings {label}", 32))


def _hmac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


def _expand(prk: bytes, info: bytes, size: int) -> bytes:
    block, out = b"", b""
    for number in range(1, 256):
        block = _hmac(prk, block + info + bytes([number]))
        out += block
        if len(out) >= size:
            break
    return out[:size]


def _labelled(suite: bytes, salt: bytes, label: bytes, data: bytes) -> bytes:
    return _hmac(salt or bytes(32), b"HPKE-v1" + suite + label + data)


def _labelled_expand(suite: bytes, prk: bytes, label: bytes, info: bytes, size: int) -> bytes:
    return _expand(prk, size.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info, size)


def _hpke(plaintext: bytes, to: X25519PrivateKey, info: bytes, ephemeral: str) -> bytes:
    """RFC 9180, sections 4.1, 5.1 and 6.1: base mode, one message; ``enc`` and the ciphertext."""
    sender, public = _private(ephemeral), to.public_key()
    enc = sender.public_key().public_bytes_raw()
    prk = _labelled(_KEM, b"", b"eae_prk", sender.exchange(public))
    context = enc + public.public_bytes_raw()
    shared = _labelled_expand(_KEM, prk, b"shared_secret", context, 32)
    hashes = _labelled(_HPKE, b"", b"psk_id_hash", b"") + _labelled(_HPKE, b"", b"info_hash", info)
    secret = _labelled(_HPKE, shared, b"secret", b"")
    key = _labelled_expand(_HPKE, secret, b"key", b"\0" + hashes, 32)
    nonce = _labelled_expand(_HPKE, secret, b"base_nonce", b"\0" + hashes, 12)
    return enc + AESGCM(key).encrypt(nonce, plaintext, b"")


def _padded(disclosures: list[str]) -> bytes:
    plaintext = "~".join(disclosures).encode() + b"\x80"
    return plaintext + bytes(-len(plaintext) % 1024)


def _record(step: str, signer: str, session: str, disclosures: list[str]) -> dict[str, Any]:
    key = p256_key(f"openings {signer}")
    kid = thumbprint(key)
    head = canonical({"alg": "ES256", "kid": kid, "typ": "eat+jwt"})
    signed = b64u(head) + "." + b64u(canonical({"agt": {"ses": _SESSIONS[session]}, "jti": step}))
    jws = f"{signed}.{b64u(sign_es256(key, signed.encode()))}"
    name = link(_VERSION_2 + _SESSIONS[session].encode() + kid.encode())
    return {"jws": jws, "rh": link(jws.encode()), "key_name": name, "disclosures": disclosures}


def _session_key(record: dict[str, Any], label: str, *, tenant: str = "tenant", size: int = 32) -> str:
    info = _VERSION_2 + str(record["key_name"]).encode()
    return "2k." + b64u(
        _hpke(seeded(f"openings key {label}", size), _private(tenant), info, f"ephemeral {label} {tenant}")
    )


def _sealed(
    record: dict[str, Any],
    label: str,
    plaintext: bytes | None = None,
    *,
    info: bytes = _VERSION_2,
    aad: bytes | None = None,
    nonce: bytes = bytes(12),
) -> str:
    rh = str(record["rh"]).encode()
    key = _expand(_hmac(bytes(32), seeded(f"openings key {label}", 32)), info + rh, 32)
    text = _padded(record["disclosures"]) if plaintext is None else plaintext
    return "2." + b64u(AESGCM(key).encrypt(nonce, text, rh if aad is None else aad))


def openings() -> dict[str, Any]:
    """The document."""
    one = _record("one", "gateway", "one session", [b64u(b'["c2FsdA","name","python3"]'), b64u(b"two")])
    two = _record("two", "gateway", "one session", [b64u(b"another")])
    other = _record("other", "gateway", "another session", [b64u(b"elsewhere")])
    own = _record("own", "supervisor", "one session", [])
    before = b64u(
        _hpke(_padded(one["disclosures"]), _private("tenant"), _VERSION_1 + one["rh"].encode(), "v1")
    )
    plain = _padded(one["disclosures"])
    texts: dict[str, Any] = {
        "one": _sealed(one, "gateway"),
        "one, version 1": before,
        "key": _session_key(one, "gateway"),
        "two": _sealed(two, "gateway"),
        "own": _sealed(own, "supervisor"),
        "own key": _session_key(own, "supervisor"),
        "key of another session": _session_key(other, "other"),
        "key of another tenant": _session_key(one, "gateway", tenant="another tenant"),
        "key of 31 bytes": _session_key(one, "gateway", size=31),
        "changed key": {"of": "key", "flip": 40},
        "one, another session": _sealed(one, "other"),
        "one, first byte changed": {"of": "one", "flip": 0},
        "one, last byte changed": {"of": "one", "flip": -1},
        "one, truncated": {"of": "one", "cut": 63},
        "one, not padded": _sealed(one, "gateway", plain.rstrip(b"\0")),
        "one, a block more": _sealed(one, "gateway", plain + bytes(1024)),
        "one, padded by other bytes": _sealed(one, "gateway", plain[:-1] + b"\1"),
        "one, label of version 1": _sealed(one, "gateway", info=_VERSION_1),
        "one, no associated data": _sealed(one, "gateway", aad=b""),
        "one, another nonce": _sealed(one, "gateway", nonce=bytes(11) + b"\1"),
    }
    records = {"one": one, "two": two, "other": other, "own": own}
    rows: list[tuple[str, str, str | None, str | None, str]] = [
        ("valid", "one", "one", "key", "opened"),
        ("valid-other-record", "two", "two", "key", "opened"),
        ("valid-other-signer", "own", "own", "own key", "opened"),
        ("valid-version-1", "one", "one, version 1", None, "opened"),
        ("erased-record", "one", None, "key", "absent"),
        ("erased-key", "one", "one", None, "absent"),
        ("moved-between-records", "one", "two", "key", "sd.opening"),
        ("moved-between-records-version-1", "two", "one, version 1", None, "sd.opening"),
        ("moved-between-sessions", "other", "one", "key", "sd.opening"),
        ("key-of-another-session", "one", "one, another session", "key of another session", "sd.opening"),
        ("key-of-another-signer", "one", "one", "own key", "sd.opening"),
        ("key-of-another-tenant", "one", "one", "key of another tenant", "sd.opening"),
        ("key-of-another-size", "one", "one", "key of 31 bytes", "sd.opening"),
        ("key-changed", "one", "one", "changed key", "sd.opening"),
        ("key-is-disclosures", "one", "one", "one", "sd.opening"),
        ("disclosures-are-a-key", "one", "key", "key", "fmt.encoding"),
        ("first-byte", "one", "one, first byte changed", "key", "sd.opening"),
        ("last-byte", "one", "one, last byte changed", "key", "sd.opening"),
        ("truncated", "one", "one, truncated", "key", "sd.opening"),
        ("not-padded", "one", "one, not padded", "key", "sd.opening"),
        ("a-block-more", "one", "one, a block more", "key", "sd.opening"),
        ("padded-otherwise", "one", "one, padded by other bytes", "key", "sd.opening"),
        ("label-of-version-1", "one", "one, label of version 1", "key", "sd.opening"),
        ("no-associated-data", "one", "one, no associated data", "key", "sd.opening"),
        ("another-nonce", "one", "one, another nonce", "key", "sd.opening"),
    ]  # fmt: skip
    cases = [
        {"id": name, "record": record, "kept": {"record": kept, "key": held}, "expect": expect}
        for name, record, kept, held, expect in rows
    ]
    keys = {name: b64u(_private(name).private_bytes_raw()) for name in _TENANTS}
    return {
        "schema": "affiant-openings-vectors/1",
        "keys": keys,
        "records": records,
        "texts": texts,
        "cases": cases,
    }
