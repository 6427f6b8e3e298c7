"""Defines the errors of publishing a log, each with a stable code.

::

    StateError           publish.conflict       another content is at a place that never changes
                         publish.foreign        the store holds another log, or what is none
                         publish.ahead          the store's checkpoint is of more leaves than this one
                         publish.uncosigned     the store's checkpoint is cosigned, this one is not
                         publish.raced          another writer was there between reading and writing
    NotAuthenticError    publish.fork           the store's checkpoint and this log are two histories
    ConfigurationError   publish.unconditional  the store writes over what it was told to keep

Of these, what may be otherwise a moment later is ``retryable``; after the others a mirror stops.
"""

from __future__ import annotations

from typing import ClassVar

from affiant.errors import StateError

__all__ = [
    "NoteUncosigned",
    "StoreAhead",
    "WriterRaced",
]


class StoreAhead(StateError):
    """The store's checkpoint is the larger one: an older state of the log is never put over a newer one."""

    code = "publish.ahead"
    retryable: ClassVar[bool | None] = True


class NoteUncosigned(StateError):
    """Readers under a policy would lose what they have."""

    code = "publish.uncosigned"
    retryable: ClassVar[bool | None] = True


class WriterRaced(StateError):
    """The checkpoint is not the one any more that was compared."""

    code = "publish.raced"
    retryable: ClassVar[bool | None] = True
