"""Reads reference values: what a verifier has chosen to accept, made before any quote and never copied from one.

Format ``affiant-reference-values/1``, RFC 8785 JSON::

    {"typ": "affiant-reference-values/1", "cls": "simulated" | "hardware",
     "roots": ["sha256:<64 hex>", ...],                 names of DER SubjectPublicKeyInfos
     "images": {"gateway": [{"mrtd","rtmr0","rtmr1","rtmr2": <96 hex>}, ...], "session": [...]},
     "tcb": {"statuses": ["UpToDate", ...], "min_evaluation": <int>},
     "td_attributes": "<16 hex>", "xfam": "<16 hex>"}

No list may be empty: an empty list would be vacuously satisfied or satisfied by nothing, and both mislead. A
revoked TCB cannot be accepted. ``hardware`` is exactly the compiled-in root; a document that names another
root, or the compiled-in one as ``simulated``, contradicts itself and is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.encoding.canonical import canonical, parse_canonical
from affiant.attestation.schema.shapes import Array, Const, Enum, Int, Obj, Pattern
from affiant.attestation.tdx.pki.roots import INTEL_SGX_ROOT_CA_SPKI, EvidenceClass, TrustRoots
from affiant.attestation.tdx.tcb.tcb_status import TCBStatus
from affiant.errors import MalformedError

__all__ = ["ImageMeasurement", "ImageRole", "ReferenceValues", "parse_reference_values"]

REFERENCE_VALUES_TYPE: Final = "affiant-reference-values/1"
ImageRole = Literal["gateway", "session"]
"""Which image a TD is expected to run."""

_ROLES: Final[tuple[ImageRole, ...]] = get_args(ImageRole)
_REGISTERS: Final = ("mrtd", "rtmr0", "rtmr1", "rtmr2")
_HARDWARE_ROOTS: Final = frozenset((sha256_name(INTEL_SGX_ROOT_CA_SPKI),))
_MAX_ENTRIES: Final = 256
_REGISTER: Final = Pattern("[0-9a-f]{96}", "48 bytes in lower-case hexadecimal")
_BITS: Final = Pattern("[0-9a-f]{16}", "8 bytes in lower-case hexadecimal")
_IMAGES: Final = Array(Obj(dict.fromkeys(_REGISTERS, _REGISTER)), least=1, most=_MAX_ENTRIES)
_STATUSES: Final = Enum(tuple(status.value for status in TCBStatus if status is not TCBStatus.REVOKED))
_SHAPE: Final = Obj(
    {
        "typ": Const(REFERENCE_VALUES_TYPE),
        "cls": Enum(tuple(EvidenceClass)),
        "roots": Array(Pattern("sha256:[0-9a-f]{64}", "sha256:<64 hex>"), least=1, most=_MAX_ENTRIES),
        "images": Obj(dict.fromkeys(_ROLES, _IMAGES)),
        "tcb": Obj({"statuses": Array(_STATUSES, least=1, most=_MAX_ENTRIES), "min_evaluation": Int()}),
        "td_attributes": _BITS,
        "xfam": _BITS,
    }
)


@dataclass(frozen=True, slots=True)
class ImageMeasurement:
    """One accepted image: four measurements of 48 bytes that count together only."""

    mrtd: bytes
    rtmr0: bytes
    rtmr1: bytes
    rtmr2: bytes


@dataclass(frozen=True, slots=True)
class ReferenceValues:
    """Pinned values; made by :func:`parse_reference_values` alone, which checks them."""

    raw: bytes
    """The document's exact bytes."""
    cls: EvidenceClass
    roots: frozenset[str]
    """``sha256:`` names of the accepted root keys."""
    images: Mapping[ImageRole, frozenset[ImageMeasurement]]
    statuses: frozenset[TCBStatus]
    min_evaluation: int
    td_attributes: bytes
    xfam: bytes

    def to_bytes(self) -> bytes:
        """The document."""
        return self.raw

    @property
    def digest(self) -> str:
        """``sha256:`` name of the document."""
        return sha256_name(self.raw)

    def trust_roots(self) -> TrustRoots:
        """The accepted roots, for verifying collateral."""
        return TrustRoots(frozenset(bytes.fromhex(name.removeprefix("sha256:")) for name in self.roots))

    def accepts_root(self, root_digest: bytes) -> bool:
        """Whether the key with this SHA-256 (32 bytes) is an accepted root."""
        return f"sha256:{root_digest.hex()}" in self.roots


def parse_reference_values(data: bytes) -> ReferenceValues:
    """The reference values in ``data``.

    Raises:
        ``reference.malformed``: another form, an empty list, a revoked status, or a class that does not fit
            its roots.
    """
    try:
        document = parse_canonical(data)
        _SHAPE.check(document, "document")
    except MalformedError as error:
        raise _malformed(error.message, expected=error.expected, where=error.where) from error
    assert isinstance(document, dict)
    tcb, images = document["tcb"], document["images"]
    lists = {"roots": document["roots"], "tcb.statuses": tcb["statuses"]}
    for where, values in (lists | {f"images.{role}": images[role] for role in _ROLES}).items():
        if len({canonical(value) for value in values}) != len(values):
            raise _malformed("a value stands twice", where=where)
    cls, roots = EvidenceClass(document["cls"]), frozenset(document["roots"])
    fits = roots == _HARDWARE_ROOTS if cls is EvidenceClass.HARDWARE else not roots & _HARDWARE_ROOTS
    if not fits:
        raise _malformed(
            "class and roots contradict each other",
            where="roots",
            expected="hardware with the compiled-in root alone, simulated without it",
        )
    return ReferenceValues(
        raw=data,
        cls=cls,
        roots=roots,
        images={role: frozenset(map(_image, images[role])) for role in _ROLES},
        statuses=frozenset(map(TCBStatus, tcb["statuses"])),
        min_evaluation=tcb["min_evaluation"],
        td_attributes=bytes.fromhex(document["td_attributes"]),
        xfam=bytes.fromhex(document["xfam"]),
    )


def _image(members: Mapping[str, str]) -> ImageMeasurement:
    return ImageMeasurement(**{name: bytes.fromhex(members[name]) for name in _REGISTERS})


def _malformed(message: str, *, where: str | None, expected: object = None) -> MalformedError:
    return MalformedError(
        f"reference values: {message}", expected=expected, where=where, code="reference.malformed"
    )
