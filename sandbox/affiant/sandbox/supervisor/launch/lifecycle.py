"""The life of one session, as a table.

::

    PROVISIONING -> ATTESTING -> ACTIVATING -> RUNNING -> STOPPING -> TERMINATED
          |             |            |            |           |
          +-------------+------------+------------+-----------+----> FAILED

*Provisioning*: documents checked against the TD's own report, runner and broker started, privileges gone.
*Attesting*: the gateway appraised, this session's evidence made. *Activating*: admitted; broker, proxy and sandbox
being set up. *Running*: commands may be started. *Stopping*: no new command; the chain is being closed.

A step that the table does not have is refused: a session is never taken back to an earlier state.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from affiant.errors import StateError

__all__ = ["TRANSITIONS", "Lifecycle", "State"]


class State(enum.Enum):
    """The states of a session."""

    PROVISIONING = "provisioning"
    ATTESTING = "attesting"
    ACTIVATING = "activating"
    RUNNING = "running"
    STOPPING = "stopping"
    TERMINATED = "terminated"
    FAILED = "failed"


TRANSITIONS: Final[Mapping[State, frozenset[State]]] = {
    State.PROVISIONING: frozenset({State.ATTESTING, State.FAILED}),
    State.ATTESTING: frozenset({State.ACTIVATING, State.FAILED}),
    State.ACTIVATING: frozenset({State.RUNNING, State.FAILED}),
    State.RUNNING: frozenset({State.STOPPING, State.FAILED}),
    State.STOPPING: frozenset({State.TERMINATED, State.FAILED}),
    State.TERMINATED: frozenset(),
    State.FAILED: frozenset(),
}
"""State -> the states that may follow it."""


class Lifecycle:
    """One session's state."""

    __slots__ = ("code", "state")

    def __init__(self) -> None:
        self.state = State.PROVISIONING
        self.code: str | None = None
        """Why it failed: a stable code."""

    def to(self, state: State, *, code: str | None = None) -> None:
        """Go on to ``state``; ``code`` is required for, and only for, FAILED.

        Raises:
            ``session.transition``: the table does not have this step.
        """
        if state not in TRANSITIONS[self.state] or (code is None) == (state is State.FAILED):
            raise StateError(
                "the session cannot take this step",
                expected=self._expected(),
                found=state.value,
                code="session.transition",
            )
        self.state, self.code = state, code

    def require(self, state: State) -> None:
        """Return if the session is in ``state``.

        Raises:
            ``session.transition``: it is not.
        """
        if self.state is not state:
            raise StateError(
                "the session is not in this state",
                expected=state.value,
                found=self.state.value,
                code="session.transition",
            )

    def _expected(self) -> str:
        return " or ".join(sorted(state.value for state in TRANSITIONS[self.state])) or "no further step"
