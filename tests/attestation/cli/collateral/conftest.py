"""Fixtures that this folder shares with its neighbours."""

from __future__ import annotations

from tests.attestation.quote.collateral.conftest import recorded, simulated, tls

__all__ = ["recorded", "simulated", "tls"]
