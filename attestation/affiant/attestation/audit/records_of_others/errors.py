"""What a reconciliation refuses to begin with, each with a stable code.

::

    NotAuthenticError   reconcile.unverified  a bundle whose verdict is contraindicated, or with a foreign receipt
    ConfigurationError  reconcile.settings    options or a mapping that cannot be meant
    StateError          reconcile.scratch     the temporary store cannot be written

What it *finds* is no refusal: see ``results``.
"""

from __future__ import annotations

from affiant.errors import ConfigurationError, NotAuthenticError, StateError

__all__ = ["BundleUnverified", "ScratchUnusable", "SettingsInvalid"]


class BundleUnverified(NotAuthenticError):
    """A bundle whose verdict is contraindicated, or whose receipts are not authentic."""

    code = "reconcile.unverified"


class SettingsInvalid(ConfigurationError):
    """Options or a mapping that cannot be meant."""

    code = "reconcile.settings"


class ScratchUnusable(StateError):
    """The temporary store cannot be written."""

    code = "reconcile.scratch"
