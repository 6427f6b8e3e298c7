"""Defines how severe a finding is."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Severity"]


class Severity(StrEnum):
    """The lighter first."""

    WARNING = "warning"
    CONTRAINDICATED = "contraindicated"
