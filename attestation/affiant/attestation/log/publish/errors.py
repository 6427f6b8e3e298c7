"""Defines the errors of publishing a log that may be retried; the others are in the table of error codes.

Each may be otherwise a moment later; after any other error of the area a mirror stops.
"""

from __future__ import annotations

from affiant.errors import StateError

__all__ = [
    "NoteUncosigned",
    "StoreAhead",
    "WriterRaced",
]


class StoreAhead(StateError):
    """The store's checkpoint is the larger one: an older state of the log is never put over a newer one."""

    code = "publish.ahead"
    retryable: bool | None = True


class NoteUncosigned(StateError):
    """Readers under a policy would lose what they have."""

    code = "publish.uncosigned"
    retryable: bool | None = True


class WriterRaced(StateError):
    """The checkpoint is not the one any more that was compared."""

    code = "publish.raced"
    retryable: bool | None = True
