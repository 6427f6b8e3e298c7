"""The fixture of the reconciliation tests."""

from __future__ import annotations

from tests.attestation.reconcile.conftest_reconcile import reconciled

__all__ = ["reconciled"]
