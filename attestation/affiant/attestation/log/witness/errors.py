"""Defines the errors of a witness and of its clients, each with a stable code.

::

    StateError          witness.state_lost         the key has a database, and it is not there: the witness is retired
                        witness.state_unavailable  the database cannot be read or written now: nothing is signed
                        witness.exists             a key or database stands there already
                        witness.clock              the clock stands before the last cosignature
    MalformedError      witness.key                no key file of a witness
                        witness.request            no request of C2SP tlog-witness
    NotAuthenticError   witness.forged             an answer with a cosignature that does not hold
                        witness.inconsistent       the witness found the checkpoint to contradict what it has seen
    NotAllowedError     witness.refused            the witness does not know the log, or its key
                        witness.ahead              the witness has cosigned a larger tree than the log has
    UnreachableError    witness.unreachable        no whole answer in time, or not from whom it was asked
                        witness.conflict           the witness's size kept changing: somebody else asks it too
    ConfigurationError  witness.settings           logs, addresses or files that do not fit together
"""

from __future__ import annotations

from affiant.errors import (
    MalformedError,
    NotAllowedError,
    NotAuthenticError,
    StateError,
    UnreachableError,
)

__all__ = [
    "CosignatureForged",
    "WitnessAhead",
    "WitnessClockBehind",
    "WitnessInconsistent",
    "WitnessKeyMalformed",
    "WitnessRefused",
    "WitnessRequestMalformed",
    "WitnessStateUnavailable",
    "WitnessUnreachable",
]


class WitnessStateUnavailable(StateError):
    """The database cannot be read or written now."""

    code = "witness.state_unavailable"
    retryable = True


class WitnessClockBehind(StateError):
    """The clock stands before the last cosignature: an earlier time over a larger tree would contradict it."""

    code = "witness.clock"
    retryable = True


class WitnessKeyMalformed(MalformedError):
    """The file is no witness's key, or others can read it."""

    code = "witness.key"


class WitnessRequestMalformed(MalformedError):
    """The body is no request to add a checkpoint."""

    code = "witness.request"


class CosignatureForged(NotAuthenticError):
    """An answer whose cosignature of a known key does not hold, or is none of a known key."""

    code = "witness.forged"


class WitnessInconsistent(NotAuthenticError):
    """The witness answered that the checkpoint does not grow from what it has seen."""

    code = "witness.inconsistent"


class WitnessRefused(NotAllowedError):
    """The witness does not serve this log, or not under this key."""

    code = "witness.refused"


class WitnessAhead(NotAllowedError):
    """The witness has cosigned a larger tree: the log that asks has lost leaves."""

    code = "witness.ahead"


class WitnessUnreachable(UnreachableError):
    """No whole answer in time, or an answer that is none of a witness."""

    code = "witness.unreachable"
