"""The error of a decision that another format cannot express."""

from __future__ import annotations

from affiant.errors import MalformedError

__all__ = ["EventRefused"]


class EventRefused(MalformedError):
    """A decision lacks what the other form requires, or holds what it cannot say."""

    code = "policy.decision_event"
