"""Defines the errors of the simulated platform.

::

    MalformedError
    +-- PlatformRequestError     platform.request      a message is none of the protocol's
    +-- PlatformReplyError       platform.reply        the platform's answer is none of the protocol's
    +-- PlatformStoreError       platform.store        the stored state is not ours, or not readable safely
    NotAllowedError
    +-- RegisterError            platform.register     a register may not be set so
    StateError
    +-- StoreLockedError         store.locked          another process serves from this folder
    +-- PlatformFullError        platform.full         too many TDs, or too many connections
    +-- TDEndedError             platform.td_ended     the TD is gone
    UnreachableError
    +-- PlatformUnreachableError platform.unreachable  nothing answers on the socket
"""

from __future__ import annotations

from affiant.errors import MalformedError, NotAllowedError, StateError, UnreachableError

__all__ = [
    "PlatformFullError",
    "PlatformReplyError",
    "PlatformRequestError",
    "PlatformStoreError",
    "PlatformUnreachableError",
    "RegisterError",
    "StoreLockedError",
    "TDEndedError",
]


class PlatformRequestError(MalformedError):
    """A message to the platform is none of the protocol's."""

    code = "platform.request"


class PlatformReplyError(MalformedError):
    """The platform's answer is none of the protocol's, or answers another question."""

    code = "platform.reply"


class PlatformStoreError(MalformedError):
    """The stored state of the platform is not what this program wrote, or others could read it."""

    code = "platform.store"


class RegisterError(NotAllowedError):
    """A register may not be set, or not to a value of this size."""

    code = "platform.register"


class StoreLockedError(StateError):
    """Another process serves from this folder."""

    code = "store.locked"


class PlatformFullError(StateError):
    """The platform holds as many TDs or connections as it may."""

    code = "platform.full"
    retryable = True


class TDEndedError(StateError):
    """The TD behind a descriptor is gone: the platform ended, or the TD did."""

    code = "platform.td_ended"


class PlatformUnreachableError(UnreachableError):
    """Nothing answers on the platform's socket."""

    code = "platform.unreachable"
