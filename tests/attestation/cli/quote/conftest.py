"""Fixtures that this folder shares with its neighbours."""

from __future__ import annotations

from tests.attestation.quote.judge.conftest import platform, vectors
from tests.attestation.signatures.sigstore.conftest import vendor

__all__ = ["platform", "vectors", "vendor"]
