"""What `affiant receipts` refuses, each with a stable code.

::

    NotAuthenticError   receipt_store.unverified  a bundle with a receipt that is not authentic; the reason is told
    StateError          receipt_store.busy        another process writes into the store
                        receipt_store.unusable    the store is damaged, or no store of this version
    ConfigurationError  receipt_store.settings    conditions, files or folders that cannot be meant
"""

from __future__ import annotations

from affiant.errors import ConfigurationError, NotAuthenticError, StateError

__all__ = ["BundleNotIndexed", "SettingsInvalid", "StoreBusy", "StoreUnusable"]


class BundleNotIndexed(NotAuthenticError):
    """A bundle with a receipt that is not authentic."""

    code = "receipt_store.unverified"


class StoreBusy(StateError):
    """Another process writes into the store."""

    code = "receipt_store.busy"
    retryable = True


class StoreUnusable(StateError):
    """The store is damaged, or no store of this version."""

    code = "receipt_store.unusable"


class SettingsInvalid(ConfigurationError):
    """Conditions, files or folders that cannot be meant."""

    code = "receipt_store.settings"
