"""Signs and verifies an order of an erasure authority, the member ``aut`` of a record.

``aut`` is a compact JWS (ES256, header byte-fixed, RFC 6979, low ``s``; ``jws``) over::

    erasure   typ affiant-erasure+jwt   {"typ":"affiant-erasure/1","origin","made","del"}
    hold      typ affiant-hold+jwt      {"typ":"affiant-hold/1","origin","made","tgt","basis","rel"?}

``origin`` is the log's, so that an order cannot be moved to another log. ``del`` is the digest of the record's array
(SHA-256 of its RFC 8785 form, 43 characters): exactly these records, levels and reasons, however many they are.
``rel`` is the receipt hash of the hold that ends. All but ``made`` is computed again from the record: a signature for
anything else does not fit.

The signature proves that an authority ordered it, and nothing about whether it was done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec

from affiant.attestation.encoding import jws
from affiant.attestation.encoding.binary_text import b64u_sha256
from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.encoding.keys import Signer, thumbprint
from affiant.attestation.erasure.errors import OrderUnauthorized
from affiant.errors import AffiantError

__all__ = ["CONTENT_KINDS", "MAX_ORDER", "Order", "sign_order", "verify_order"]

_TYPES: Final = {"erasure": "affiant-erasure+jwt", "hold": "affiant-hold+jwt"}
MAX_ORDER: Final = 2048
"""Characters of ``aut``, as the table of records says."""
CONTENT_KINDS: Final = frozenset(
    (
        *("inference", "refusal", "tool", "secret", "egress", "approval", "snapshot", "fork", "handoff"),
        *("exec", "file", "port"),
    )
)
"""Kinds whose records can go altogether (level 2). The others hold chains and sessions together, and stay."""


@dataclass(frozen=True, slots=True)
class Order:
    """An order whose signature holds: by whom, and when it was made by their clock."""

    kid: str
    made: int


def _covered(kind: str, members: Mapping[str, object], origin: str) -> dict[str, object]:
    """What must be signed for a record with these members, but ``made``."""
    fixed: dict[str, object] = {"typ": f"affiant-{kind}/1", "origin": origin}
    if kind == "erasure":
        return fixed | {"del": b64u_sha256(canonical(members["del"]))}
    more = {"rel": members["rel"]} if "rel" in members else {}
    return fixed | {"tgt": members["tgt"], "basis": members["basis"]} | more


def sign_order(signer: Signer, kind: str, members: Mapping[str, object], *, origin: str, made: int) -> str:
    """``aut`` for a record of ``kind``, ``erasure`` or ``hold``.

    Args:
        members: ``del``; or ``tgt``, ``basis`` and for the end of a hold ``rel``.
        made: seconds since 1970.
    """
    return jws.sign(signer, {**_covered(kind, members, origin), "made": made}, typ=_TYPES[kind])


def verify_order(
    members: Mapping[str, object],
    *,
    kind: str,
    origin: str,
    authorities: Sequence[ec.EllipticCurvePublicKey],
    latest: float,
) -> Order:
    """The order in a record's members.

    Args:
        members: of the record, its shape checked: ``aut``, and what it is for.
        authorities: whose orders count.
        latest: seconds since 1970; an order made after it has a wrong time.

    Raises:
        OrderUnauthorized: no such authority's, or signed for something else.
    """
    text = members["aut"]
    try:
        if not isinstance(text, str) or len(text) > MAX_ORDER:
            raise OrderUnauthorized("not an order", expected=f"at most {MAX_ORDER} characters")
        parts = jws.split(text, typ=_TYPES[kind])
        payload = _payload(parts, authorities)
    except OrderUnauthorized:
        raise
    except AffiantError as error:
        raise OrderUnauthorized(f"not an order that an accepted authority has signed: {error}") from error
    made = payload.get("made")
    if not isinstance(made, int) or isinstance(made, bool) or not 0 <= made <= latest:
        raise OrderUnauthorized("an order of a time that was not yet", where="aut.made")
    if payload != {**_covered(kind, members, origin), "made": made}:
        raise OrderUnauthorized("the authority signed an order for something else, or for another log")
    return Order(parts.kid, made)


def _payload(parts: jws.SplitJWS, authorities: Sequence[ec.EllipticCurvePublicKey]) -> Mapping[str, object]:
    for key in authorities:
        if thumbprint(key) == parts.kid:
            return jws.verify(parts, key)
    raise OrderUnauthorized("no accepted authority has signed this order", found=parts.kid)
