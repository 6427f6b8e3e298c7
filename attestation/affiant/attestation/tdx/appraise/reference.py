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
from typing import Final, Literal, cast, get_args

from affiant.attestation.encoding.binary_text import EncodingError, from_hex, is_sha256_name, sha256_name
from affiant.attestation.encoding.canonical import MAX_INTEGER, JSONError, canonical, parse_object
from affiant.attestation.tdx.pki.roots import INTEL_SGX_ROOT_CA_SPKI, EvidenceClass, TrustRoots
from affiant.attestation.tdx.tcb.tcb_status import TCBStatus
from affiant.errors import MalformedError

__all__ = ["ImageMeasurement", "ImageRole", "ReferenceValues", "parse_reference_values"]

REFERENCE_VALUES_TYPE: Final = "affiant-reference-values/1"
ImageRole = Literal["gateway", "session"]
"""Which image a TD is expected to run."""

_ROLES: Final[tuple[ImageRole, ...]] = get_args(ImageRole)
_REGISTERS: Final = ("mrtd", "rtmr0", "rtmr1", "rtmr2")
_MAX_ENTRIES: Final = 256
_HARDWARE_ROOTS: Final = frozenset((sha256_name(INTEL_SGX_ROOT_CA_SPKI),))


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
        document = parse_object(data)
    except JSONError as error:
        raise MalformedError("reference values are not canonical JSON", code="reference.malformed") from error
    if document.get("typ") != REFERENCE_VALUES_TYPE:
        raise MalformedError(
            "reference values of another form", expected=REFERENCE_VALUES_TYPE, code="reference.malformed"
        )
    _require_members(document, {"typ", "cls", "roots", "images", "tcb", "td_attributes", "xfam"}, "document")
    tcb = _object(document["tcb"], "tcb")
    _require_members(tcb, {"statuses", "min_evaluation"}, "tcb")
    cls = _class(document["cls"])
    return ReferenceValues(
        raw=data,
        cls=cls,
        roots=_roots(document["roots"], cls),
        images=_images(document["images"]),
        statuses=_statuses(tcb["statuses"]),
        min_evaluation=_evaluation(tcb["min_evaluation"]),
        td_attributes=_hex(document["td_attributes"], 8, "td_attributes"),
        xfam=_hex(document["xfam"], 8, "xfam"),
    )


def _require_members(members: Mapping[str, object], names: set[str], where: str) -> None:
    if members.keys() != names:
        raise MalformedError(
            "members are missing or unknown",
            where=where,
            expected=", ".join(sorted(names)),
            code="reference.malformed",
        )


def _object(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise MalformedError("not an object", where=where, code="reference.malformed")
    return value


def _list(value: object, where: str) -> list[object]:
    """A list of one to 256 different values."""
    if not isinstance(value, list) or not value or len(value) > _MAX_ENTRIES:
        raise MalformedError(
            "an empty list accepts nothing and says nothing; a value is required",
            where=where,
            expected=f"1 to {_MAX_ENTRIES} values",
            code="reference.malformed",
        )
    if len({canonical(item) for item in value}) != len(value):
        raise MalformedError("a value stands twice", where=where, code="reference.malformed")
    return value


def _hex(value: object, size: int, where: str) -> bytes:
    try:
        if isinstance(value, str):
            return from_hex(value, size=size)
    except EncodingError as error:
        raise MalformedError(
            "not lower-case hexadecimal", where=where, expected=f"{size} bytes", code="reference.malformed"
        ) from error
    raise MalformedError(
        "not a text", where=where, expected=f"{2 * size} hexadecimal digits", code="reference.malformed"
    )


def _class(value: object) -> EvidenceClass:
    for cls in EvidenceClass:
        if value == cls.value:
            return cls
    raise MalformedError(
        "unknown class", where="cls", expected="hardware or simulated", code="reference.malformed"
    )


def _roots(value: object, cls: EvidenceClass) -> frozenset[str]:
    names = frozenset(
        item for item in _list(value, "roots") if isinstance(item, str) and is_sha256_name(item)
    )
    if len(names) != len(cast("list[object]", value)):
        raise MalformedError(
            "not a root's name", where="roots", expected="sha256:<64 hex>", code="reference.malformed"
        )
    compiled_in = names & _HARDWARE_ROOTS
    fits = names == _HARDWARE_ROOTS if cls is EvidenceClass.HARDWARE else not compiled_in
    if not fits:
        raise MalformedError(
            "class and roots contradict each other",
            where="roots",
            expected="hardware with the compiled-in root alone, simulated without it",
            code="reference.malformed",
        )
    return names


def _images(value: object) -> Mapping[ImageRole, frozenset[ImageMeasurement]]:
    images = _object(value, "images")
    _require_members(images, set(_ROLES), "images")
    return {
        role: frozenset(_image(item, f"images.{role}") for item in _list(images[role], f"images.{role}"))
        for role in _ROLES
    }


def _image(value: object, where: str) -> ImageMeasurement:
    members = _object(value, where)
    _require_members(members, set(_REGISTERS), where)
    return ImageMeasurement(**{name: _hex(members[name], 48, f"{where}.{name}") for name in _REGISTERS})


def _statuses(value: object) -> frozenset[TCBStatus]:
    try:
        statuses = frozenset(TCBStatus(item) for item in _list(value, "tcb.statuses"))
    except ValueError as error:
        raise MalformedError(
            "unknown TCB status", where="tcb.statuses", code="reference.malformed"
        ) from error
    if TCBStatus.REVOKED in statuses:
        raise MalformedError(
            "a revoked TCB can never be accepted", where="tcb.statuses", code="reference.malformed"
        )
    return statuses


def _evaluation(value: object) -> int:
    if type(value) is not int or not 0 <= value <= MAX_INTEGER:
        raise MalformedError("not a number", where="tcb.min_evaluation", code="reference.malformed")
    return value
