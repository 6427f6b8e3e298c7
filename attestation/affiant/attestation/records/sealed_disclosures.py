"""Seals disclosures so that the operator can store them and only the person who started the session can read them.

Version 2, what is written now. Each signer makes a key of 32 bytes for each session (:class:`SessionSealing`) and seals
it once to the starter's key by HPKE (RFC 9180, single-shot: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM).
A record's disclosures are sealed by AES-256-GCM under a key of their own, HKDF-SHA256 (RFC 5869) of the session's key
without salt and with ``info`` ``affiant/openings/2`` followed by the receipt hash. That key seals once, so the nonce is
zero; the receipt hash is the associated data. Texts, base64url after a mark:

* ``2.`` and the disclosures of one record, kept under its receipt hash;
* ``2k.`` and the session's key, kept under its name: SHA-256 of ``affiant/openings/2``, the session's id and the
  signer's key id, as a link. ``info`` of its HPKE is ``affiant/openings/2`` followed by that name, so that it opens for
  no other session or signer.

What a supervisor hands to the gateway, and keeps in its own journal, is both, joined by a dot (:func:`apart` parts
them): the gateway keeps the key once, as an entry of its own that can be erased alone.

Version 1 is still read: one HPKE text for each record, without a mark, ``info`` ``affiant/openings/1`` followed by the
receipt hash.

In both the plaintext is the disclosures joined by ``~``, then the byte 0x80 and zeros up to a multiple of 1,024 bytes
(ISO/IEC 7816-4), so that the length shows a store neither a value's size nor which values there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand

from affiant.attestation.encoding import jws as compact
from affiant.attestation.encoding.binary_text import b64u, b64u_sha256, from_b64u
from affiant.attestation.encoding.canonical import parse_object
from affiant.attestation.records.receipt import RECEIPT_TYPE, receipt_hash
from affiant.errors import MalformedError, NotAuthenticError

__all__ = [
    "KEY_MARK",
    "DisclosureReader",
    "SealedDisclosureInvalid",
    "SessionSealing",
    "apart",
    "key_name",
    "recipient",
    "require_recipient",
]

_SUITE: Final = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
_LABEL: Final = b"affiant/openings/2"
_LABEL_BEFORE: Final = b"affiant/openings/1"
_BLOCK: Final = 1024
_KEY: Final = 32
_NONCE: Final = bytes(12)
"""A record's key seals one plaintext."""
_MARK: Final = "2."
_KEPT_SESSIONS: Final = 1024
KEY_MARK: Final = "2k."
"""What the text of a session's key begins with."""


class SealedDisclosureInvalid(NotAuthenticError):
    """A sealed opening is for another key, session or receipt, or was changed."""

    code = "sd.opening"


def recipient(key: X25519PrivateKey) -> str:
    """The public half as 43 characters: the ``openings`` member of an activation."""
    return b64u(key.public_key().public_bytes_raw())


def require_recipient(text: str) -> None:
    """Return if ``text`` is a key that can be sealed to.

    Raises:
        MalformedError, ValueError: not 32 bytes, or no point that gives a secret (RFC 7748, section 6.1).
    """
    _SUITE.encrypt(b"", X25519PublicKey.from_public_bytes(from_b64u(text, size=32)), info=_LABEL)


def key_name(*, session: str, kid: str) -> str:
    """The name of a signer's key for a session: 43 characters.

    Args:
        session: its id, 22 characters. kid: the thumbprint of the key that signs the records, 43 characters.
    """
    return b64u_sha256(_LABEL + session.encode("ascii") + kid.encode("ascii"))


class SessionSealing:
    """Seals the disclosures of one signer's records of one session; the key is never shown.

    Args:
        to: the starter's public key, 43 characters.
        session, kid: as of :func:`key_name`.
        random_bytes: the operating system's generator.

    Raises:
        MalformedError, ValueError: ``to`` is no key that can be sealed to.
    """

    __slots__ = ("_expanding", "name", "sealed_key")

    def __init__(self, *, to: str, session: str, kid: str, random_bytes: Callable[[int], bytes]) -> None:
        public = X25519PublicKey.from_public_bytes(from_b64u(to, size=32))
        key = random_bytes(_KEY)
        self.name: Final = key_name(session=session, kid=kid)
        self.sealed_key: Final = KEY_MARK + b64u(_SUITE.encrypt(key, public, info=_key_info(self.name)))
        self._expanding = _extracted(key)

    def seal(self, disclosures: Sequence[str], *, rh: str) -> str:
        """One record's disclosures, to be kept under its receipt hash ``rh``; called once for each record."""
        plaintext = "~".join(disclosures).encode("ascii") + b"\x80"
        plaintext += bytes(-len(plaintext) % _BLOCK)
        return _MARK + b64u(_cipher(self._expanding, rh).encrypt(_NONCE, plaintext, rh.encode("ascii")))

    def handed_on(self, disclosures: Sequence[str], *, rh: str) -> str:
        """The same with the session's key before it, for who keeps both."""
        return f"{self.sealed_key}.{self.seal(disclosures, rh=rh)}"

    def __repr__(self) -> str:
        return f"<SessionSealing {self.name}>"

    def __reduce__(self) -> str:
        raise TypeError("a sealing key is not copied or pickled")


def apart(jws: str, handed_on: str) -> Mapping[str, str]:
    """What a supervisor handed on with a record, each text under what it is kept under; the record's own is the last.

    Raises:
        MalformedError: it is none of the forms above, or comes with a record that belongs to no session.
    """
    rh, names = receipt_hash(jws), {}
    if handed_on.startswith(KEY_MARK):
        key, mark, handed_on = handed_on.partition(f".{_MARK}")
        if not mark:
            raise MalformedError(
                "a session's key without disclosures", expected=f"{KEY_MARK}KEY.{_MARK}DISCLOSURES"
            )
        from_b64u(key.removeprefix(KEY_MARK))
        names[_name_for(jws)] = key
        handed_on = _MARK + handed_on
    from_b64u(handed_on.removeprefix(_MARK))
    return {**names, rh: handed_on}


class DisclosureReader:
    """Opens what was sealed to one person's key; keeps the keys of the sessions that it read first."""

    __slots__ = ("_key", "_sessions")

    def __init__(self, key: X25519PrivateKey) -> None:
        self._key = key
        self._sessions: dict[tuple[str, str], bytes] = {}

    def open(self, jws: str, find: Callable[[str], str | None]) -> tuple[str, ...] | None:
        """The disclosures of one record; None: they, or the session's key that they need, are not there.

        Args:
            jws: the record without disclosures; of it is read only what names the session's key.
            find: what is kept under a receipt hash, or under the name of a session's key.

        Raises:
            SealedDisclosureInvalid: sealed to another key, for another receipt, session or signer, or changed.
            MalformedError: not one of our texts, or of a record that belongs to no session.
        """
        rh = receipt_hash(jws)
        sealed = find(rh)
        if sealed is None:
            return None
        try:
            if sealed.startswith(_MARK):
                name = _name_for(jws)
                sealed_key = find(name)
                if sealed_key is None:
                    return None
                cipher = _cipher(self._of_session(sealed_key, name), rh)
                plaintext = cipher.decrypt(_NONCE, from_b64u(sealed.removeprefix(_MARK)), rh.encode("ascii"))
            else:
                info = _LABEL_BEFORE + rh.encode("ascii")
                plaintext = _SUITE.decrypt(from_b64u(sealed), self._key, info=info)
        except (InvalidTag, ValueError) as error:
            raise SealedDisclosureInvalid(
                "sealed to another key or for another receipt, or changed"
            ) from error
        return _unpadded(plaintext)

    def _of_session(self, sealed_key: str, name: str) -> bytes:
        known = self._sessions.get((sealed_key, name))
        if known is not None:
            return known
        if not sealed_key.startswith(KEY_MARK):
            raise SealedDisclosureInvalid("not the key of a session", expected=f"{KEY_MARK}KEY", where=name)
        opened = _SUITE.decrypt(from_b64u(sealed_key.removeprefix(KEY_MARK)), self._key, info=_key_info(name))
        if len(opened) != _KEY:
            raise SealedDisclosureInvalid(
                "a session's key of another size", expected=f"{_KEY} bytes", where=name
            )
        extracted = _extracted(opened)
        if len(self._sessions) < _KEPT_SESSIONS:
            self._sessions[sealed_key, name] = extracted
        return extracted

    def __repr__(self) -> str:
        return "<DisclosureReader>"

    def __reduce__(self) -> str:
        raise TypeError("a reader's key is not copied or pickled")


def _key_info(name: str) -> bytes:
    return _LABEL + name.encode("ascii")


def _extracted(key: bytes) -> bytes:
    return HKDF.extract(SHA256(), None, key)


def _cipher(expanding: bytes, rh: str) -> AESGCM:
    return AESGCM(HKDFExpand(SHA256(), _KEY, _LABEL + rh.encode("ascii")).derive(expanding))


def _unpadded(plaintext: bytes) -> tuple[str, ...]:
    content, mark, rest = plaintext.rpartition(b"\x80")
    if not mark or rest.strip(b"\0") or len(rest) >= _BLOCK or len(plaintext) % _BLOCK:
        raise SealedDisclosureInvalid("padded in another way")
    text = content.decode("ascii")
    return tuple(text.split("~")) if text else ()


def _name_for(jws: str) -> str:
    """The name of the key that the record's signer has for its session."""
    parts = compact.split(jws, typ=RECEIPT_TYPE)
    match parse_object(parts.payload, limit=compact.MAX_PAYLOAD):
        case {"agt": {"ses": str(session)}}:
            return key_name(session=session, kid=parts.kid)
    raise MalformedError("sealed disclosures of a record that belongs to no session")
