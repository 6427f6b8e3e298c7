"""Defines the errors of a witness that a program catches; the others are in the table of error codes."""

from __future__ import annotations

from affiant.errors import (
    MalformedError,
    StateError,
)

__all__ = [
    "WitnessClockBehind",
    "WitnessKeyMalformed",
    "WitnessRequestMalformed",
    "WitnessStateUnavailable",
]


class WitnessStateUnavailable(StateError):
    """The database cannot be read or written now."""

    code = "witness.state_unavailable"
    retryable = True


class WitnessClockBehind(StateError):
    """The clock is before the last cosignature: an earlier time over a larger tree would contradict it."""

    code = "witness.clock"
    retryable = True


class WitnessKeyMalformed(MalformedError):
    """The file is no witness's key, or others can read it."""

    code = "witness.key"


class WitnessRequestMalformed(MalformedError):
    """The body is no request to add a checkpoint."""

    code = "witness.request"
