"""Signs and reads a DSSE envelope with one signature by a plain key (Dead Simple Signing Envelope, version 1; JSON
form)::

    {"payload": <base64>, "payloadType": "application/vnd.in-toto+json",
     "signatures": [{"keyid": "sha256:<of the key>", "sig": <base64>}]}

``keyid`` is a hint for people: nothing is decided by it, and it must be the verifying key's name or empty. An envelope
has no time: whoever holds the key may have signed at any.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Final

from affiant.attestation.encoding.canonical import JSONError, parse_object
from affiant.attestation.signatures.in_toto import PAYLOAD_TYPE
from affiant.attestation.signatures.profiles.errors import ProfileSignatureInvalid, ProfileSignatureMalformed
from affiant.attestation.signatures.profiles.private_keys import SigningKey
from affiant.attestation.signatures.profiles.signing_keys import ProfileKey
from affiant.attestation.signatures.profiles.statement import MAX_STATEMENT
from affiant.errors import MalformedError

__all__ = ["Envelope", "parse_envelope", "sign_envelope"]

_MAX_SIGNATURE: Final = 160
"""Bytes: an ECDSA signature over P-384 in DER has at most 104."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """An envelope taken apart; nothing of it is verified."""

    statement: bytes
    signature: bytes
    key_id: str

    def verify(self, key: ProfileKey) -> None:
        """Return if ``key`` signed the statement.

        Raises:
            ProfileSignatureInvalid: it did not, or the envelope names another key.
        """
        if self.key_id not in ("", key.id):
            raise ProfileSignatureInvalid(
                "signed by another key", expected=key.id, found=ascii(self.key_id[:80])
            )
        key.verify(_encoded(self.statement), self.signature)


def sign_envelope(statement: bytes, key: SigningKey) -> bytes:
    """The envelope's bytes: a JSON document."""
    document = {
        "payload": base64.b64encode(statement).decode("ascii"),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [
            {
                "keyid": key.public.id,
                "sig": base64.b64encode(key.sign(_encoded(statement))).decode("ascii"),
            }
        ],
    }
    return (json.dumps(document, indent=1) + "\n").encode("ascii")


def parse_envelope(
    raw: bytes,
    *,
    limit: int,
    statement: int = MAX_STATEMENT,
    error: type[MalformedError] = ProfileSignatureMalformed,
) -> Envelope:
    """The envelope in ``raw``, at most ``limit`` bytes.

    Args:
        statement: bytes of what is signed, at most.
        error: the class of what is raised.

    Raises:
        MalformedError: another form, other members, not exactly one signature; of the class ``error``.
    """
    try:
        document = parse_object(raw, limit=limit, strict_form=False)
    except JSONError as malformed:
        raise error(f"not strict JSON: {malformed}") from malformed
    match document:
        case {
            "payload": str() as payload,
            "payloadType": str() as payload_type,
            "signatures": [{"sig": str() as signature, **named}],
            **rest,
        } if not rest and set(named) <= {"keyid"} and isinstance(named.get("keyid", ""), str):
            if payload_type != PAYLOAD_TYPE:
                raise error(
                    "what is signed is no in-toto statement", expected=PAYLOAD_TYPE, where="payloadType"
                )
            return Envelope(
                statement=_bytes(payload, "payload", statement, error),
                signature=_bytes(signature, "signatures[0].sig", _MAX_SIGNATURE, error),
                key_id=str(named.get("keyid", "")),
            )
    raise error(
        "not a signature", expected="a DSSE envelope with exactly one signature, or a sigstore bundle"
    )


def _encoded(statement: bytes) -> bytes:
    """What is signed: the pre-authentication encoding (DSSE protocol, "Signature definition")."""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(statement), statement)


def _bytes(text: str, where: str, limit: int, error: type[MalformedError]) -> bytes:
    """Padded base64 (RFC 4648, section 4), in its canonical form."""
    if not 0 < len(text) <= (limit + 2) // 3 * 4:
        raise error("empty, or too large", expected=f"1 to {limit} bytes", where=where)
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as malformed:
        raise error("not base64", where=where) from malformed
    if base64.b64encode(data).decode("ascii") != text:
        raise error("not the one base64 encoding of its bytes", where=where)
    return data
