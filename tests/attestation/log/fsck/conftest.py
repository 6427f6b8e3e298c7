"""Fixtures that this folder shares with its neighbours."""

from __future__ import annotations

from tests.attestation.log_reading.conftest import built

__all__ = ["built"]
