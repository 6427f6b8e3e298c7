"""The fixture of the reconciliation tests."""

from __future__ import annotations

from tests.attestation.audit.reconcile.conftest_reconcile import reconciled

__all__ = ["reconciled"]
