"""How far an approver's clock may be off."""

from __future__ import annotations

from typing import Final

__all__ = ["CLOCK_TOLERANCE_S"]

CLOCK_TOLERANCE_S: Final = 60
"""Seconds by which an approver's clock may be ahead of, or behind, the one that judges."""
