"""What something that was found is worth."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Weight"]


class Weight(StrEnum):
    """The lighter first."""

    WARNING = "warning"
    CONTRAINDICATED = "contraindicated"
