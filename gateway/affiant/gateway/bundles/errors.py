"""Why an export is refused."""

from __future__ import annotations

from affiant.errors import ConfigurationError, StateError, UnreachableError

__all__ = ["ExportBusy", "NothingToExport", "StoreUnreadable"]


class StoreUnreadable(UnreachableError):
    """The folder holds no gateway's journal and log, or they cannot be read."""

    code = "export.store"
    retryable = False


class NothingToExport(ConfigurationError):
    """The log has no leaf in the range, or no record of the sessions that were asked for."""

    code = "export.nothing"


class ExportBusy(StateError):
    """Another export writes the same file."""

    code = "export.busy"
