"""Fixtures that this folder shares with its neighbours."""

from __future__ import annotations

from tests.attestation.anchors.conftest import authority
from tests.attestation.log.witness.conftest import home
from tests.attestation.log_reading.conftest import built, run

__all__ = ["authority", "built", "home", "run"]
