"""Encodes evidence, endorsements and admission requests as conceptual message wrappers (CMW, RFC 9999, JSON form).

A record is ``[media type, base64url of the exact bytes, indicator]``; a collection is an object with a type tag
in ``__cmwc_t`` and one record per label. Indicators: 2 endorsements, 4 evidence. All wrappers are canonical
JSON; ``evd`` of a receipt is SHA-256 of the evidence collection's bytes, ``col`` that of the endorsements'.

| collection | labels |
|---|---|
| evidence of a gateway | ``quote``, ``eventlog``, ``statement`` |
| evidence of a session | the same, ``manifest``, ``activation`` |
| endorsements | ``collateral`` |
| admission | ``evidence`` (the session's collection), ``policy`` (the profile's normal form), maybe ``signature`` |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from affiant.attestation.encoding.binary_text import b64u, b64u_sha256, from_b64u
from affiant.attestation.encoding.canonical import canonical, parse_canonical
from affiant.errors import MalformedError

__all__ = [
    "ADMISSION_NONCE",
    "Admission",
    "Evidence",
    "evidence_digest",
    "parse_admission",
    "parse_endorsements",
    "parse_evidence",
    "wrap_admission",
    "wrap_endorsements",
    "wrap_evidence",
]

ADMISSION_NONCE: Final = "Affiant-Admission-Nonce"
"""The header of an admission request that names the gateway's nonce, so that it is judged before the body is read."""

_EVIDENCE_TAG: Final = "tag:affiant.dev,2026:evidence/1"
_ENDORSEMENTS_TAG: Final = "tag:affiant.dev,2026:endorsements/1"
_ADMISSION_TAG: Final = "tag:affiant.dev,2026:admission/1"

_TYPES: Final = {
    "quote": ("application/vnd.affiant.tdx-quote", 4),
    "eventlog": ("application/vnd.affiant.eventlog+json", 4),
    "statement": ("application/vnd.affiant.keyset+json", 4),
    "manifest": ("application/vnd.affiant.manifest+json", 4),
    "activation": ("application/vnd.affiant.activation+json", 4),
    "collateral": ("application/vnd.affiant.dcap-collateral+json", 2),
    "evidence": ("application/vnd.affiant.evidence+cmw", 4),
    "policy": ("application/vnd.affiant.policy+json", 4),
    "signature": ("application/vnd.affiant.policy-signature+json", 2),
}
"""Label -> media type and indicator."""

_LIMIT: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Evidence:
    """An evidence collection: the exact bytes of each part. ``manifest`` and ``activation``: a session's."""

    quote: bytes
    eventlog: bytes
    statement: bytes
    manifest: bytes | None = None
    activation: bytes | None = None


@dataclass(frozen=True, slots=True)
class Admission:
    """What a supervisor sends to be admitted: its evidence, as exact bytes, and the profile's normal form."""

    evidence: bytes
    policy: bytes
    signature: bytes | None = None
    """A signature over the file that the profile is of, if there is one."""


def _wrap(tag: str, parts: Mapping[str, bytes | None]) -> bytes:
    given = {label: data for label, data in parts.items() if data is not None}
    records = {label: [_TYPES[label][0], b64u(data), _TYPES[label][1]] for label, data in given.items()}
    return canonical({"__cmwc_t": tag, **records})


def _unwrap(
    raw: bytes, tag: str, required: set[str], optional: frozenset[str] = frozenset()
) -> dict[str, bytes]:
    value = parse_canonical(raw, limit=_LIMIT)
    if not isinstance(value, dict) or value.pop("__cmwc_t", None) != tag:
        raise MalformedError("not such a collection", expected=tag, code="fmt.cmw")
    if not required <= set(value) <= required | optional:
        raise MalformedError(
            "missing or foreign labels", expected=sorted(required), found=sorted(value)[:8], code="fmt.cmw"
        )
    parts: dict[str, bytes] = {}
    for label, record in value.items():
        media, indicator = _TYPES[label]
        if not isinstance(record, list) or len(record) != 3 or record[0] != media or record[2] != indicator:
            raise MalformedError("not the record for this label", expected=media, where=label, code="fmt.cmw")
        if not isinstance(record[1], str):
            raise MalformedError("value is not text", where=label, code="fmt.cmw")
        parts[label] = from_b64u(record[1])
    return parts


def wrap_evidence(evidence: Evidence) -> bytes:
    """The collection's bytes, whose SHA-256 is ``evd``."""
    return _wrap(_EVIDENCE_TAG, asdict(evidence))


def parse_evidence(raw: bytes) -> Evidence:
    """The parts of an evidence collection; nothing in them is verified.

    Raises:
        ``fmt.cmw``, JSONError, EncodingError: other labels, types, or form.
    """
    parts = _unwrap(
        raw, _EVIDENCE_TAG, {"quote", "eventlog", "statement"}, frozenset({"manifest", "activation"})
    )
    if ("manifest" in parts) != ("activation" in parts):
        raise MalformedError("a session's evidence has both manifest and activation", code="fmt.cmw")
    return Evidence(**parts)


def wrap_endorsements(collateral: bytes) -> bytes:
    """The collection that carries a collateral document, exactly as judged."""
    return _wrap(_ENDORSEMENTS_TAG, {"collateral": collateral})


def parse_endorsements(raw: bytes) -> bytes:
    """The collateral document's bytes."""
    return _unwrap(raw, _ENDORSEMENTS_TAG, {"collateral"})["collateral"]


def wrap_admission(admission: Admission) -> bytes:
    """The body of ``POST /v1/sessions``."""
    return _wrap(_ADMISSION_TAG, asdict(admission))


def parse_admission(raw: bytes) -> Admission:
    """The parts of an admission request; nothing in them is verified."""
    return Admission(**_unwrap(raw, _ADMISSION_TAG, {"evidence", "policy"}, frozenset({"signature"})))


def evidence_digest(raw: bytes) -> str:
    """43 characters: ``evd``, or ``col`` for endorsements."""
    return b64u_sha256(raw)
