"""Signs and verifies compact JWS with a byte-fixed header (RFC 7515, closed profile).

A signed document of ours is ``BASE64URL(header) . BASE64URL(payload) . BASE64URL(signature)``. The header is
exactly ``{"alg":"ES256","kid":"<thumbprint>","typ":"<type>"}``: readers compare bytes and know no other
algorithm. The payload is its own canonical form (RFC 8785). :func:`split` checks the outer form and gives the
parts as *untrusted*; :func:`verify` checks the signature over the exact bytes before the payload is read.

Types: ``eat+jwt`` (receipts), ``affiant-proof+jwt`` (proofs of possession), ``affiant-ear+jwt`` (attestation
results), ``affiant-erasure+jwt`` and ``affiant-hold+jwt`` (orders of erasure authorities), ``affiant-approval+jwt`` and
``affiant-approver+jwt`` (approvers' statements, and proofs of who reads).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.canonical import canonical, parse_canonical
from affiant.attestation.encoding.keys import Signer, thumbprint, verify_es256
from affiant.errors import MalformedError

__all__ = [
    "JWSMalformed",
    "SplitJWS",
    "demand_signed",
    "payload_of",
    "sign",
    "sign_canonical",
    "split",
    "verify",
]

MAX_PAYLOAD: Final = 16 * 1024
"""Receipts specification, 4.1: payload at most 16 KiB."""

MAX_TEXT: Final = 4 * (MAX_PAYLOAD + 2) // 3 + 512


class JWSMalformed(MalformedError):
    """Text is not one of our compact JWS: parts, header bytes or payload form differ."""

    code = "fmt.jws"


@dataclass(frozen=True, slots=True)
class SplitJWS:
    """A JWS taken apart and not yet verified. ``signing_input`` is what the signature covers."""

    kid: str
    payload: bytes
    signature: bytes
    signing_input: bytes


@lru_cache(maxsize=64)
def _header(typ: str, kid: str) -> str:
    """Base64url; kept for the keys that signed last."""
    return b64u(canonical({"alg": "ES256", "kid": kid, "typ": typ}))


def sign(signer: Signer, payload: Mapping[str, object], *, typ: str) -> str:
    """The compact JWS of ``payload`` under ``signer``.

    Raises:
        JWSMalformed: the canonical payload exceeds 16 KiB.
    """
    return sign_canonical(signer, canonical(payload), typ=typ)


def sign_canonical(signer: Signer, body: bytes, *, typ: str) -> str:
    """As :func:`sign`, of an object that is in its canonical form already."""
    if len(body) > MAX_PAYLOAD:
        raise JWSMalformed("payload too large", expected=f"at most {MAX_PAYLOAD} bytes", found=len(body))
    signing_input = f"{_header(typ, signer.kid)}.{b64u(body)}"
    return f"{signing_input}.{b64u(signer.sign(signing_input.encode('ascii')))}"


def split(text: str, *, typ: str) -> SplitJWS:
    """Take ``text`` apart; nothing in the result is trusted yet.

    Raises:
        JWSMalformed: size, number of parts, or a header that is not byte for byte the fixed one.
        EncodingError: a part is not strict base64url.
    """
    if len(text) > MAX_TEXT or not text.isascii():
        raise JWSMalformed("not a compact JWS of ours", expected=f"at most {MAX_TEXT} ASCII characters")
    parts = text.split(".")
    if len(parts) != 3:
        raise JWSMalformed("not a compact JWS", expected="three parts", found=f"{len(parts)} parts")
    kid = _kid_of(parts[0], typ)
    payload = from_b64u(parts[1])
    if len(payload) > MAX_PAYLOAD:
        raise JWSMalformed("payload too large", expected=f"at most {MAX_PAYLOAD} bytes", found=len(payload))
    return SplitJWS(
        kid=kid,
        payload=payload,
        signature=from_b64u(parts[2], size=64),
        signing_input=text.rpartition(".")[0].encode("ascii"),
    )


@lru_cache(maxsize=8192)
def _kid_of(text: str, typ: str) -> str:
    """The key that a header names; kept for those read last, since a header says nothing else."""
    header = from_b64u(text)
    prefix, suffix = b'{"alg":"ES256","kid":"', f'","typ":"{typ}"}}'.encode("ascii")
    kid = header[len(prefix) : len(header) - len(suffix)]
    if header != prefix + kid + suffix or len(kid) != 43:
        raise JWSMalformed(
            "header is not the fixed one", expected=f'alg ES256, kid, typ "{typ}", nothing else'
        )
    from_b64u(kid.decode("ascii", "replace"), size=32)
    return kid.decode("ascii")


def verify(jws: SplitJWS, key: ec.EllipticCurvePublicKey) -> Mapping[str, object]:
    """The payload of ``jws``, read only after its signature held under ``key``.

    Raises:
        JWSMalformed: the header names another key, or the payload is no object.
        SignatureInvalid: the signature does not hold.
        JSONError: the payload is not its own canonical form.
    """
    demand_signed(jws, key, kid=thumbprint(key))
    return payload_of(jws)


def demand_signed(jws: SplitJWS, key: ec.EllipticCurvePublicKey, *, kid: str) -> None:
    """``key``, of which ``kid`` is the thumbprint, signed ``jws``; its payload is not looked at.

    Raises:
        JWSMalformed, SignatureInvalid: as of :func:`verify`.
    """
    if jws.kid != kid:
        raise JWSMalformed("the header names another key", expected=kid, found=jws.kid)
    verify_es256(key, jws.signing_input, jws.signature)


def payload_of(jws: SplitJWS) -> Mapping[str, object]:
    """The payload, of which :func:`demand_signed` held.

    Raises:
        JWSMalformed, JSONError: as of :func:`verify`.
    """
    payload = parse_canonical(jws.payload, limit=MAX_PAYLOAD)
    if not isinstance(payload, dict):
        raise JWSMalformed("payload is not an object")
    return payload
