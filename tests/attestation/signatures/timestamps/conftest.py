"""Fixtures that this folder shares with its neighbours."""

from __future__ import annotations

from tests.attestation.anchors.conftest import authority, dated

__all__ = ["authority", "dated"]
