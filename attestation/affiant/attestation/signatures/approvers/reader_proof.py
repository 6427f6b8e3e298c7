"""Proves who reads the approval queue: an approver's signature over one request to a gateway (``Affiant-Approver``).

A compact JWS of type ``affiant-approver+jwt`` (ES256, header byte-fixed) over exactly what the request says:

| member | meaning |
|---|---|
| ``htm``, ``htu`` | method; origin-form target exactly as in the request line, query included |
| ``bdg`` | 43 characters: SHA-256 of the body; of nothing if there is none |
| ``iat`` | seconds since 1970, within 60 s of the gateway's clock |
| ``jti`` | 22 characters, drawn for this request: a gateway takes each once |
| ``spki`` | SHA-256 of the TLS key that the reader's own connection showed, 43 characters |
| ``jwk`` | the key; its thumbprint is the header's ``kid`` |

Because of ``spki``, whoever stands between a reader and the gateway, showing a key of their own, holds a proof that no
gateway takes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from affiant.attestation.encoding import jws
from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.encoding.canonical import parse_object
from affiant.attestation.encoding.keys import Signer, public_jwk, public_key_of
from affiant.attestation.schema.shapes import Int, Obj, Pattern, Text
from affiant.attestation.signatures.approvers.errors import ReaderRefused, StatementMalformed
from affiant.errors import AffiantError

__all__ = ["READER_HEADER", "READER_TOLERANCE_S", "ReaderProof", "sign_reader_proof", "verify_reader_proof"]

READER_HEADER: Final = "Affiant-Approver"
READER_TOLERANCE_S: Final = 60

_TYPE: Final = "affiant-approver+jwt"
_MAX: Final = 4096
_LINK: Final = Pattern(r"[A-Za-z0-9_-]{43}", "43 characters of base64url")
_SHAPE: Final = Obj(
    {
        "htm": Pattern("[A-Z]{1,16}", "an HTTP method"),
        "htu": Pattern(r"/[\x21-\x7e]{0,1023}", "an origin-form target"),
        "bdg": _LINK,
        "iat": Int(),
        "jti": Pattern(r"[A-Za-z0-9_-]{22}", "22 characters of base64url"),
        "spki": _LINK,
        "jwk": Obj({"crv": Text(8), "kty": Text(8), "x": Text(43), "y": Text(43)}),
    }
)


@dataclass(frozen=True, slots=True)
class ReaderProof:
    """A proof that holds for the request at hand; whether its key may read, and whether it was seen, is not judged."""

    kid: str
    jti: str
    iat: int


def sign_reader_proof(
    signer: Signer, method: str, target: str, body: bytes, *, spki: str, nonce: str, now: int
) -> str:
    """The value of the ``Affiant-Approver`` header."""
    payload: dict[str, object] = {
        "htm": method,
        "htu": target,
        "bdg": b64u(hashlib.sha256(body).digest()),
        "iat": now,
        "jti": nonce,
        "spki": spki,
        "jwk": dict(public_jwk(signer.public_key)),
    }
    _SHAPE.check(payload, "proof")
    return jws.sign(signer, payload, typ=_TYPE)


def verify_reader_proof(
    text: str, method: str, target: str, body: bytes, *, spki: str, now: float
) -> ReaderProof:
    """The proof as verified for this request.

    Args:
        spki: of the TLS key with which this gateway serves, 43 characters.

    Raises:
        StatementMalformed: no proof, or not signed by the key that it names.
        ReaderRefused: for another request or gateway, or of another time.
    """
    if len(text) > _MAX:
        raise StatementMalformed("not an approver's proof", expected=f"at most {_MAX} characters")
    try:
        parts = jws.split(text, typ=_TYPE)
        claimed = parse_object(parts.payload, limit=_MAX).get("jwk")
        payload = jws.verify(parts, public_key_of(claimed))  # refuses a key that is not the header's kid
        _SHAPE.check(payload, "proof")
    except AffiantError as error:
        raise StatementMalformed(f"not a proof that its key has signed: {error}") from error
    digest = b64u(hashlib.sha256(body).digest())
    for name, expected in (("htm", method), ("htu", target), ("bdg", digest), ("spki", spki)):
        if payload[name] != expected:
            raise ReaderRefused("a proof for another request, or another gateway", where=name)
    iat = payload["iat"]
    assert isinstance(iat, int)
    if abs(iat - now) > READER_TOLERANCE_S:
        raise ReaderRefused(
            "the proof's time is off", expected=f"within {READER_TOLERANCE_S} s of {int(now)}"
        )
    return ReaderProof(parts.kid, str(payload["jti"]), iat)
