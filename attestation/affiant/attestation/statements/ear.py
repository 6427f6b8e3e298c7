"""Signs and verifies attestation results (EAR): what the gateway concluded about a peer's evidence, signed by its
``ear`` key.

After draft-ietf-rats-ear-04 with the AR4SI trustworthiness vector, as a compact JWS of type ``affiant-ear+jwt``: one
submodule, ``session``, ``gateway`` or ``upstream``. Everything that the draft has no claim for is in one extension of
the submodule, ``affiant.dev/appraisal``, which the submodule's own ``eat_profile`` declares. A receipt names the
result by SHA-256 of its ASCII text (``att.<peer>.ear``) and repeats its tier; the two must agree.

Before the draft had these names, gateways wrote the same facts under names of their own (``affiant.dev,2026:ear/1``).
That form is read and no longer written (ADR 0034). ``eat_profile`` says which of the two a result is, and each is
closed: the members of one are none of the other's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec

from affiant.attestation.encoding import jws
from affiant.attestation.encoding.binary_text import b64u_sha256
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.schema.shapes import (
    Array,
    Const,
    Enum,
    Int,
    MapOf,
    Obj,
    Pattern,
    Shape,
    ShapeMismatch,
    Text,
)

__all__ = ["EAR_TYPE", "VerifiedEAR", "ear_digest", "issue_ear", "verify_ear"]

EAR_TYPE: Final = "affiant-ear+jwt"
_PROFILE: Final = "tag:ietf.org,2026:rats/ear#04"
"""draft-ietf-rats-ear-04, section 3."""
_EXTENDED: Final = "tag:affiant.dev,2026:ear/2"
"""The submodule's profile: it declares the extension below."""
_EXTENSION: Final = "affiant.dev/appraisal"
"""A collision-resistant name (RFC 7519, section 2), and a map, as the draft demands of an extension (section 3.1)."""
_BEFORE: Final = "tag:affiant.dev,2026:ear/1"

_PEERS: Final = "session|gateway|upstream"
_LINK: Final = Pattern(r"[A-Za-z0-9_-]{43}", "43 characters of base64url")
_TIER: Final = Enum(("affirming", "warning", "contraindicated", "none"))
_VERIFIER: Final = Obj({"developer": Const("https://affiant.dev"), "build": Text()})
_CLAIMS: Final = (
    *("instance-identity", "configuration", "executables", "file-system"),
    *("hardware", "runtime-opaque", "storage-opaque", "sourced-data"),
)
"""draft-ietf-rats-ar4si, section 2.3."""
_FACTS: Final[Mapping[str, Shape]] = {
    "evd": _LINK,
    "col": _LINK,
    "cls": Enum(("hardware", "simulated")),
    "tcb": Text(64),
    "until": Int(),
}
_SHAPE: Final = Obj(
    {
        "eat_profile": Const(_PROFILE),
        "iss": Text(),
        "iat": Int(),
        "ear_verifier_id": _VERIFIER,
        "submods": MapOf(
            _PEERS,
            Obj(
                {
                    "eat_profile": Const(_EXTENDED),
                    "ear_status": _TIER,
                    "ear_trustworthiness_vector": MapOf("|".join(_CLAIMS), Int(-128, 127), most=len(_CLAIMS)),
                    "ear_appraisal_policy_ids": Array(Text(), least=1, most=1),
                    _EXTENSION: Obj(_FACTS),
                }
            ),
            most=1,
        ),
    }
)
_SHAPE_BEFORE: Final = Obj(
    {
        "eat_profile": Const(_BEFORE),
        "iss": Text(),
        "iat": Int(),
        "ear.verifier-id": _VERIFIER,
        "submods": MapOf(
            _PEERS,
            Obj(
                {
                    "ear.status": _TIER,
                    "ear.trustworthiness-vector": MapOf("[a-z-]{1,32}", Int(-128, 127), most=8),
                    "ear.appraisal-policy-id": Text(),
                    **{f"affiant.{name}": shape for name, shape in _FACTS.items()},
                }
            ),
            most=1,
        ),
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
        vector: AR4SI claims, at least one.
        policy: ``sha256:`` name of the reference values it was judged by.
        evd, col: digests of the evidence and of the endorsements (43 characters).
        until: the earliest expiry among everything it relied on.
    """
    payload: dict[str, object] = {
        "eat_profile": _PROFILE,
        "iss": iss,
        "iat": int(now.timestamp()),
        "ear_verifier_id": {"developer": "https://affiant.dev", "build": build},
        "submods": {
            peer: {
                "eat_profile": _EXTENDED,
                "ear_status": tier,
                "ear_trustworthiness_vector": dict(vector),
                "ear_appraisal_policy_ids": [policy],
                _EXTENSION: {
                    "evd": evd,
                    "col": col,
                    "cls": cls,
                    "tcb": tcb_status,
                    "until": int(until.timestamp()),
                },
            }
        },
    }
    _check(payload)
    return jws.sign(signer, payload, typ=EAR_TYPE)


def ear_digest(text: str) -> str:
    """43 characters: what ``att.<peer>.ear`` holds."""
    return b64u_sha256(text.encode("ascii"))


def verify_ear(text: str, key: ec.EllipticCurvePublicKey) -> VerifiedEAR:
    """Return the result as verified under the gateway's ``ear`` key, or refuse it.

    Raises:
        JWSMalformed, SignatureInvalid, JSONError: as ``verify`` says.
        ShapeMismatch: another profile, another member, or not exactly one peer.
    """
    payload: Mapping[str, Any] = jws.verify(jws.split(text, typ=EAR_TYPE), key)
    before = payload.get("eat_profile") == _BEFORE
    if before:
        _SHAPE_BEFORE.check(payload, "ear")
    else:
        _check(payload)
    if len(payload["submods"]) != 1:
        raise ShapeMismatch("a result about nobody", expected="exactly one peer", where="ear.submods")
    ((peer, body),) = payload["submods"].items()
    facts = {name: body[f"affiant.{name}"] for name in _FACTS} if before else body[_EXTENSION]
    return VerifiedEAR(
        peer=peer,
        tier=body["ear.status" if before else "ear_status"],
        policy=body["ear.appraisal-policy-id"] if before else body["ear_appraisal_policy_ids"][0],
        iat=payload["iat"],
        **facts,
    )


def _check(payload: Mapping[str, Any]) -> None:
    """The draft's form. Its grammar has no empty vector: a verifier that claims nothing says 0 of something."""
    _SHAPE.check(payload, "ear")
    for peer, body in payload["submods"].items():
        if not body["ear_trustworthiness_vector"]:
            raise ShapeMismatch(
                "an empty vector",
                expected="one claim or more",
                where=f"ear.submods.{peer}.ear_trustworthiness_vector",
            )
