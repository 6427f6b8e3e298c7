"""Describes what an appraisal policy accepts, as values: each entry with its time, its reason and its position in the
file.

Made by ``parse_appraisal_policy`` alone, which refuses what would be
vacuous. What is not limited is None here, and stands as ``any`` in the file: it was written, not left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.tdx.appraise.reference import ImageMeasurement, ReferenceValues
from affiant.attestation.tdx.pki.roots import EvidenceClass, TrustRoots
from affiant.attestation.tdx.tcb.tcb_status import TCBStatus

__all__ = [
    "AcceptedImage",
    "AcceptedMachine",
    "AcceptedRoot",
    "AcceptedStatus",
    "AcceptedValue",
    "AdvisoryException",
    "AppraisalPolicy",
    "AttributeException",
    "AttributeExceptionName",
    "DemandedFlags",
    "Entry",
    "Grace",
    "counting",
    "reference_policy",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """When something is accepted: ``valid_from <= instant < until``, and before ``revoked_at``."""

    where: str
    """``file:line:column``."""
    valid_from: datetime | None = None
    until: datetime | None = None
    revoked_at: datetime | None = None
    reason: str | None = None

    def counts_at(self, instant: datetime) -> bool:
        """Whether it is accepted at ``instant``."""
        return self.lapse(instant) is None

    def lapse(self, instant: datetime) -> str | None:
        """Why it is not accepted at ``instant``; None if it is."""
        if self.revoked_at is not None and instant >= self.revoked_at:
            return f"revoked at {self.revoked_at:%Y-%m-%dT%H:%M:%SZ}"
        if self.until is not None and instant >= self.until:
            return f"expired at {self.until:%Y-%m-%dT%H:%M:%SZ}"
        if self.valid_from is not None and instant < self.valid_from:
            return f"begins at {self.valid_from:%Y-%m-%dT%H:%M:%SZ}"
        return None

    @property
    def end(self) -> datetime | None:
        """The time at which it stops to count, if there is one."""
        return min((at for at in (self.until, self.revoked_at) if at is not None), default=None)


_E = TypeVar("_E", bound=Entry)


def counting(entries: Iterable[_E], instant: datetime) -> tuple[_E, ...]:
    """Those of ``entries`` that count at ``instant``."""
    return tuple(entry for entry in entries if entry.counts_at(instant))


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedRoot(Entry):
    """SHA-256 (32 bytes) of an accepted root key (DER SubjectPublicKeyInfo)."""

    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedImage(Entry):
    """A named image in named VM shapes: four measurements that count together only."""

    name: str
    shapes: tuple[str, ...]
    """None: reference values name no shapes."""
    measurement: ImageMeasurement

    def __str__(self) -> str:
        return f"{self.name} ({', '.join(self.shapes)})" if self.shapes else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedStatus(Entry):
    """A merged TCB status; never Revoked."""

    status: TCBStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Grace(Entry):
    """A status that is accepted for so many days after an update became due."""

    status: TCBStatus
    days: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvisoryException(Entry):
    """An open advisory that is accepted until a time, for a reason."""

    advisory: str


class AttributeExceptionName(StrEnum):
    """The rules of TD_ATTRIBUTES and MRSERVICETD that can be excepted, and no others."""

    AZURE_PARAVISOR = "azure-paravisor"
    """SEPT_VE_DISABLE is not set, because a paravisor between host and guest handles these exceptions."""
    SERVICE_TD = "service-td"
    """A service TD is bound, with exactly this MRSERVICETD."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeException(Entry):
    """An excepted rule, for named images alone: only their measurements say what makes up for it."""

    name: AttributeExceptionName
    images: tuple[str, ...]
    mrservicetd: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedValue(Entry):
    """The exact bytes of a field."""

    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedMachine(Entry):
    """One machine (PPID, 16 bytes), a kind of machine (FMSPC, 6 bytes), or both together."""

    ppid: bytes | None = None
    fmspc: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandedFlags:
    """What the PCK certificate must say. None: any."""

    dynamic_platform: bool | None = None
    cached_keys: bool | None = None
    smt: bool | None = None

    @property
    def demands_nothing(self) -> bool:
        """Whether all three may be anything."""
        return (self.dynamic_platform, self.cached_keys, self.smt) == (None, None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppraisalPolicy:
    """The settings of every policy."""

    raw: bytes = field(repr=False)
    """The file's exact bytes."""
    evidence_class: EvidenceClass
    roots: tuple[AcceptedRoot, ...]
    images: tuple[AcceptedImage, ...]
    statuses: tuple[AcceptedStatus, ...]
    minimum_evaluation: int
    grace: tuple[Grace, ...]
    advisories: tuple[AdvisoryException, ...] | None
    """None: an open advisory does not count; the status alone decides."""
    td_attributes: tuple[AcceptedValue, ...]
    xfam: tuple[AcceptedValue, ...] | None
    """None: any within the fixed masks."""
    exceptions: tuple[AttributeException, ...]
    machines: tuple[AcceptedMachine, ...] | None
    """None: any genuine one."""
    flags: DemandedFlags
    mrseam: tuple[AcceptedValue, ...] | None
    """None: any module that Intel signed and TCB Info lists."""
    is_reference: bool = False
    """Whether it is made of reference values."""

    @property
    def digest(self) -> str:
        """``sha256:`` name of the file."""
        return sha256_name(self.raw)

    @property
    def image_names(self) -> tuple[str, ...]:
        """The names of the accepted images, each once, in the order of the file."""
        return tuple(dict.fromkeys(image.name for image in self.images))

    def roots_at(self, instant: datetime) -> TrustRoots:
        """The root keys that count at ``instant``.

        Raises:
            ``roots.empty``: none does.
        """
        return TrustRoots(frozenset(root.digest for root in counting(self.roots, instant)))

    def for_image(self, name: str) -> AppraisalPolicy:
        """The same, accepting this image alone."""
        return replace(self, images=tuple(image for image in self.images if image.name == name))


def reference_policy(reference: ReferenceValues) -> AppraisalPolicy:
    """Reference values as a policy: each value is an entry that always counts, and nothing is excepted."""
    where = "reference values"
    return AppraisalPolicy(
        raw=reference.raw,
        evidence_class=reference.cls,
        roots=tuple(AcceptedRoot(where=where, digest=root) for root in reference.trust_roots().spki_sha256),
        images=tuple(
            AcceptedImage(where=where, name=role, shapes=(), measurement=image)
            for role, images in reference.images.items()
            for image in images
        ),
        statuses=tuple(AcceptedStatus(where=where, status=status) for status in reference.statuses),
        minimum_evaluation=reference.min_evaluation,
        grace=(),
        advisories=None,
        td_attributes=(AcceptedValue(where=where, value=reference.td_attributes),),
        xfam=(AcceptedValue(where=where, value=reference.xfam),),
        exceptions=(),
        machines=None,
        flags=DemandedFlags(),
        mrseam=None,
        is_reference=True,
    )
