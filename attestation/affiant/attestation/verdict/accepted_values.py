"""What a reader accepts: the values of a trust file, each with the time for which it counts.

The file's format and its parser are in ``trust_file``. The keys, roots and policies in it are values of the parts that
verify under them; nothing of these parts is needed to hold them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.schema.accepted_entry import Entry

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec

    from affiant.attestation.signatures.profiles.accepted_signers import AcceptedSigner
    from affiant.attestation.signatures.sigstore.sigstore_root import SigstoreRoot
    from affiant.attestation.signatures.timestamps.roots import TSARoot
    from affiant.attestation.tdx.appraise.reference import ReferenceValues
    from affiant.attestation.tlog.quorum import WitnessPolicy

__all__ = ["ATTESTED", "Entry", "TrustFile", "accepted_at"]

ATTESTED: Final = "attested"
"""A log's key counts because the quote of an accepted gateway binds it."""


@dataclass(frozen=True, slots=True)
class TrustFile:
    """What is accepted. A list that is None is not pinned."""

    raw: bytes
    tee_roots: tuple[Entry, ...]
    reference_values: tuple[tuple[Entry, ReferenceValues], ...]
    gateway_configs: tuple[Entry, ...] | None
    profiles: tuple[Entry, ...] | None
    rootfs: tuple[Entry, ...] | None
    log: tuple[Entry, ...] | None
    witnesses: tuple[tuple[Entry, WitnessPolicy], ...] | None
    tsa_roots: tuple[tuple[Entry, TSARoot], ...] | None
    sigstore_root: tuple[tuple[Entry, SigstoreRoot], ...] | None
    isolation_floor: str | None
    clock_tolerance_s: int
    require: frozenset[str] | None
    erasure_authorities: tuple[tuple[Entry, ec.EllipticCurvePublicKey], ...] | None = None
    profile_signers: tuple[AcceptedSigner, ...] | None = None
    sessions: str | None = None
    """``complete``: a session that is open or lost falls short of what the reader demands."""
    isolation_releases: Mapping[str, str] = field(default_factory=dict)
    """``gvisor`` -> the first release from which no escape is known."""

    @property
    def digest(self) -> str:
        """``sha256:`` name of the file's bytes."""
        return sha256_name(self.raw)

    def root_names_at(self, at: datetime) -> frozenset[str]:
        """The root keys accepted at ``at``: ``intel``, or ``sha256:`` names of DER keys."""
        return frozenset(entry.value for entry in self.tee_roots if entry.counts_at(at))

    def reference_at(self, digest: str, at: datetime) -> ReferenceValues | None:
        """The reference values with this ``sha256:`` name, if they are accepted at ``at``."""
        for entry, reference in self.reference_values:
            if reference.digest == digest and entry.counts_at(at):
                return reference
        return None


def accepted_at(entries: Iterable[Entry], value: str, at: datetime) -> bool:
    """Whether ``value`` is one of ``entries`` at ``at``."""
    return any(entry.value == value and entry.counts_at(at) for entry in entries)
