"""Signs and verifies attestation results (EAR): what the gateway concluded about a peer's evidence, signed by its
``ear`` key.

After draft-ietf-rats-ear-04 with the AR4SI trustworthiness vector, as a compact JWS of type
``affiant-ear+jwt``: one submodule, ``session``, ``gateway`` or ``upstream``. A receipt names the result by
SHA-256 of its ASCII text (``att.<peer>.ear``) and repeats its tier; the two must agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec

from affiant.attestation.encoding import jws
from affiant.attestation.encoding.binary_text import b64u_sha256
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.schema.shapes import Const, Enum, Int, MapOf, Obj, Pattern, ShapeMismatch, Text

__all__ = ["EAR_TYPE", "VerifiedEAR", "ear_digest", "issue_ear", "verify_ear"]

EAR_TYPE: Final = "affiant-ear+jwt"
_PROFILE: Final = "tag:affiant.dev,2026:ear/1"

_LINK: Final = Pattern(r"[A-Za-z0-9_-]{43}", "43 characters of base64url")
_SUBMOD: Final = Obj(
    {
        "ear.status": Enum(("affirming", "warning", "contraindicated", "none")),
        "ear.trustworthiness-vector": MapOf("[a-z-]{1,32}", Int(-128, 127), most=8),
        "ear.appraisal-policy-id": Text(),
        "affiant.evd": _LINK,
        "affiant.col": _LINK,
        "affiant.cls": Enum(("hardware", "simulated")),
        "affiant.tcb": Text(64),
        "affiant.until": Int(),
    }
)
_SHAPE: Final = Obj(
    {
        "eat_profile": Const(_PROFILE),
        "iss": Text(),
        "iat": Int(),
        "ear.verifier-id": Obj({"developer": Const("https://affiant.dev"), "build": Text()}),
        "submods": MapOf("session|gateway|upstream", _SUBMOD, most=1),
    }
)


@dataclass(frozen=True, slots=True)
class VerifiedEAR:
    """A result whose signature and shape hold."""

    peer: str
    tier: str
    evd: str
    col: str
    cls: str
    policy: str
    tcb: str
    until: int
    """Seconds since 1970: the earliest expiry among everything that it relied on."""
    iat: int


def issue_ear(
    signer: Signer,
    *,
    iss: str,
    build: str,
    peer: str,
    tier: str,
    vector: Mapping[str, int],
    policy: str,
    evd: str,
    col: str,
    cls: str,
    tcb_status: str,
    until: datetime,
    now: datetime,
) -> str:
    """Sign one result.

    Args:
        policy: ``sha256:`` name of the reference values it was judged by.
        evd, col: digests of the evidence and of the endorsements (43 characters).
        until: the earliest expiry among everything it relied on.
    """
    payload: dict[str, object] = {
        "eat_profile": _PROFILE,
        "iss": iss,
        "iat": int(now.timestamp()),
        "ear.verifier-id": {"developer": "https://affiant.dev", "build": build},
        "submods": {
            peer: {
                "ear.status": tier,
                "ear.trustworthiness-vector": dict(vector),
                "ear.appraisal-policy-id": policy,
                "affiant.evd": evd,
                "affiant.col": col,
                "affiant.cls": cls,
                "affiant.tcb": tcb_status,
                "affiant.until": int(until.timestamp()),
            }
        },
    }
    _SHAPE.check(payload, "ear")
    return jws.sign(signer, payload, typ=EAR_TYPE)


def ear_digest(text: str) -> str:
    """43 characters: what ``att.<peer>.ear`` holds."""
    return b64u_sha256(text.encode("ascii"))


def verify_ear(text: str, key: ec.EllipticCurvePublicKey) -> VerifiedEAR:
    """Return the result as verified under the gateway's ``ear`` key, or refuse it.

    Raises:
        JWSMalformed, SignatureInvalid, JSONError: as ``verify`` says.
        ShapeMismatch: another member, or not exactly one peer.
    """
    payload = jws.verify(jws.split(text, typ=EAR_TYPE), key)
    _SHAPE.check(payload, "ear")
    submods = payload["submods"]
    assert isinstance(submods, dict)
    if len(submods) != 1:
        raise ShapeMismatch("a result about nobody", expected="exactly one peer", where="ear.submods")
    ((peer, body),) = submods.items()
    iat = payload["iat"]
    assert isinstance(iat, int)
    return VerifiedEAR(
        peer=peer,
        tier=body["ear.status"],
        evd=body["affiant.evd"],
        col=body["affiant.col"],
        cls=body["affiant.cls"],
        policy=body["ear.appraisal-policy-id"],
        tcb=body["affiant.tcb"],
        until=body["affiant.until"],
        iat=iat,
    )
