"""Errors of making evidence.

::

    ConfigurationError
    +-- ScenarioUnknown        scenario.unknown no scenario of that name, or not in that layout
    +-- EvidenceFolderRefused  scenario.folder  the folder is not new, or cannot be written
"""

from __future__ import annotations

from affiant.errors import ConfigurationError

__all__ = ["EvidenceFolderRefused", "ScenarioUnknown"]


class ScenarioUnknown(ConfigurationError):
    """No scenario has this name, or the one that has it does not exist in this layout."""

    code = "scenario.unknown"


class EvidenceFolderRefused(ConfigurationError):
    """The folder for the evidence exists with something in it, or cannot be written."""

    code = "scenario.folder"
