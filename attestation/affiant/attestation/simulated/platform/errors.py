"""Defines the errors of the simulated platform.

::

    MalformedError
    +-- PlatformRequestError     platform.request      a message is none of the protocol's
    +-- PlatformReplyError       platform.reply        the platform's answer is none of the protocol's
    +-- ``platform.store``       platform.store        the stored state is not ours, or not readable safely
    NotAllowedError
    +-- RegisterError            platform.register     a register may not be set so
    StateError
    +-- ``store.locked``         store.locked          another process serves from this folder
    +-- PlatformFullError        platform.full         too many TDs, or too many connections
    +-- ``platform.td_ended``             platform.td_ended     the TD is gone
    UnreachableError
    +-- PlatformUnreachableError platform.unreachable  nothing answers on the socket
"""

from __future__ import annotations

from affiant.errors import MalformedError, NotAllowedError, StateError, UnreachableError

__all__ = [
    "PlatformFullError",
    "PlatformReplyError",
    "PlatformRequestError",
    "PlatformUnreachableError",
    "RegisterError",
]


class PlatformRequestError(MalformedError):
    """A message to the platform is none of the protocol's."""

    code = "platform.request"


class PlatformReplyError(MalformedError):
    """The platform's answer is none of the protocol's, or answers another question."""

    code = "platform.reply"


class RegisterError(NotAllowedError):
    """A register may not be set, or not to a value of this size."""

    code = "platform.register"


class PlatformFullError(StateError):
    """The platform holds as many TDs or connections as it may."""

    code = "platform.full"
    retryable = True


class PlatformUnreachableError(UnreachableError):
    """Nothing answers on the platform's socket."""

    code = "platform.unreachable"
