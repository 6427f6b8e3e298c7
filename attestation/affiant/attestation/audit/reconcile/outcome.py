"""What a reconciliation found, with everything that it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from affiant.attestation.audit.reconcile.tally import Receipts, Tally
from affiant.attestation.audit.reconcile.verified_records import Records
from affiant.attestation.audit.records_of_others.scope import Scope

__all__ = ["Outcome", "Source"]


@dataclass(frozen=True, slots=True)
class Source:
    """The independent record.

    Args:
        kind: ``proxy-log``, ``bill`` or ``spans``.
        form: how it was read.
        digest: ``sha256:`` name of its bytes.
    """

    kind: str
    form: str
    name: str
    digest: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result document's content."""

    bundles: Sequence[Records]
    source: Source
    scope: Scope
    tolerance: int
    """Milliseconds."""
    tally: Tally
    receipts: Receipts
