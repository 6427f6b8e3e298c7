"""Defines the errors of a monitor that may be retried; the others are in the table of error codes.

What a monitor *finds* is no error: see ``findings``.
"""

from __future__ import annotations

from affiant.errors import StateError

__all__ = ["MonitorBusy"]


class MonitorBusy(StateError):
    """Another monitor works with this state."""

    code = "monitor.busy"
    retryable = True
