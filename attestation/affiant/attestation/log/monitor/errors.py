"""Defines the errors of a monitor, each with a stable code.

::

    StateError          monitor.busy      another monitor works with this state
                        monitor.state     the state is damaged, or another log's
    ConfigurationError  monitor.settings  a policy, folder or file that cannot be meant

What it *finds* is no error: see ``findings``.
"""

from __future__ import annotations

from affiant.errors import StateError

__all__ = ["MonitorBusy"]


class MonitorBusy(StateError):
    """Another monitor works with this state."""

    code = "monitor.busy"
    retryable = True
