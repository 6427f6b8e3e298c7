"""Fixtures that this folder shares with its neighbours."""

from __future__ import annotations

from tests.attestation.audit.receipts.conftest import affiant, indexed
from tests.attestation.audit.reconcile.conftest import reconciled

__all__ = ["affiant", "indexed", "reconciled"]
