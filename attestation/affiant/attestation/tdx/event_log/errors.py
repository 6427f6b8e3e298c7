"""What the readers of event logs refuse, one class for each reason, each with a stable code.

::

    MalformedError      eventlog.malformed  eventlog.ambiguous  eventlog.duplicate
    NotAuthenticError   eventlog.preimage

That a log does not give a quote's registers is for appraisal to refuse (``eventlog.replay``).
"""

from __future__ import annotations

from affiant.errors import MalformedError, NotAuthenticError

__all__ = ["EventDuplicated", "EventLogAmbiguous", "EventLogMalformed", "EventPreimageMismatch"]


class EventLogMalformed(MalformedError):
    """The event log is of no known form, is cut, or is beyond its bounds."""

    code = "eventlog.malformed"


class EventLogAmbiguous(MalformedError):
    """A runtime event's name holds the delimiter, so that its digest stands for several events."""

    code = "eventlog.ambiguous"


class EventDuplicated(MalformedError):
    """An event that counts once stands twice, or where software may write whatever it likes."""

    code = "eventlog.duplicate"


class EventPreimageMismatch(NotAuthenticError):
    """An event's content is not what its digest was made of."""

    code = "eventlog.preimage"
