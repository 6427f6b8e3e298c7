"""Defines the error of settings that `affiant reconcile` rejects; the others are in the table of error codes."""

from __future__ import annotations

from affiant.errors import ConfigurationError

__all__ = ["SettingsInvalid"]


class SettingsInvalid(ConfigurationError):
    """Options or a mapping that cannot be meant."""

    code = "reconcile.settings"
