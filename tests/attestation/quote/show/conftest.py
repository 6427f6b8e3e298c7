"""Fixtures that this folder shares with its neighbours."""

from __future__ import annotations

from tests.attestation.quote.judge.conftest import platform, vectors

__all__ = ["platform", "vectors"]
