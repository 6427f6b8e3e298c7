"""Defines the errors of `affiant receipts` that have a class; the others are in the table of error codes."""

from __future__ import annotations

from affiant.errors import ConfigurationError, StateError

__all__ = ["SettingsInvalid", "StoreBusy"]


class StoreBusy(StateError):
    """Another process writes into the store."""

    code = "receipt_store.busy"
    retryable = True


class SettingsInvalid(ConfigurationError):
    """Conditions, files or folders that cannot be meant."""

    code = "receipt_store.settings"
