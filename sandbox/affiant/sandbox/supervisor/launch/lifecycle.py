"""The life of one session as a table of transitions, and the file in the session's folder that holds those it took.

``TRANSITIONS`` is the table; ``docs/session-life.md`` shows it, drawn by ``scripts/session_life.py``. A step that the
table does not have is rejected, so a session never returns to an earlier state.

``states.ndjson`` has one JSON line for each transition: ``{"at":MS,"event":E,"state":S}``, where a failure also has
``"code"``. The supervisor writes the line when it takes the step. A supervisor that was killed writes nothing more;
the launcher, or the next command, then adds ``killed``. The file is no evidence: receipts are.
"""

from __future__ import annotations

import enum
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.errors import MalformedError, StateError

__all__ = [
    "STATES",
    "TRANSITIONS",
    "Event",
    "Lifecycle",
    "State",
    "Step",
    "Target",
    "note_killed",
    "read_steps",
]

STATES: Final = "states.ndjson"
"""Name of the file, in the session's folder."""
_LIMIT: Final = 64 * 1024


class State(enum.Enum):
    """The states of a session."""

    PENDING = "pending"
    """A launcher has recorded its launch; no supervisor has taken it."""
    PROVISIONING = "provisioning"
    """The supervisor compares the documents with the TD's report, starts runner and broker, drops privileges."""
    ATTESTING = "attesting"
    """It appraises the gateway."""
    WARM = "warm"
    """It waits for its activation. A pooled supervisor stays here until a session takes it."""
    ACTIVATING = "activating"
    """The session's evidence is made, it is admitted, and broker, proxy and sandbox are set up."""
    RUNNING = "running"
    """Acts are taken: commands, files, ports."""
    STOPPING = "stopping"
    """No new act; the agent is ended and the chain is closed."""
    TERMINATED = "terminated"
    FAILED = "failed"
    """Ended with an error, which has a code."""
    LOST = "lost"
    """Its supervisor was killed."""


class Event(enum.Enum):
    """What moves a session from one state to another."""

    TAKEN = "taken"
    """The supervisor has the launcher's order."""
    CHECKED = "checked"
    """Documents and TD agree; runner and broker run; the supervisor has its own user."""
    APPRAISED = "appraised"
    """The gateway is the one that the manifest names."""
    ACTIVATED = "activated"
    """It has its activation: from now on it is this one session's."""
    READY = "ready"
    """The gateway has admitted the session, and its sandbox is set up."""
    ENDING = "ending"
    """The launcher asked for the end or is gone, a limit is reached, or something that the session needs is gone."""
    CLOSED = "closed"
    """The chain has its end, the gateway has closed the session, and its bundle is in the session's folder."""
    ABANDONED = "abandoned"
    """The launcher left before the session was ready."""
    REJECTED = "rejected"
    """A step failed, or the session ended otherwise than its launcher asked."""
    KILLED = "killed"
    """The supervisor is gone and has written none of the other ends."""


class Target(NamedTuple):
    """Where a transition leads, and which signed records the verifier finds for it."""

    state: State
    records: str = ""


_CLOSE: Final = "`end` of the session's chain, `session-close` of the gateway's"
_CLOSE_IF_ADMITTED: Final = f"{_CLOSE}, if it was admitted"
_LOST: Final = "none of the session's; `session-close` of the gateway's says `lost`"
_BEFORE: Final[Mapping[Event, Target]] = {
    Event.ABANDONED: Target(State.TERMINATED),
    Event.REJECTED: Target(State.FAILED),
    Event.KILLED: Target(State.LOST),
}
TRANSITIONS: Final[Mapping[State, Mapping[Event, Target]]] = {
    State.PENDING: {Event.TAKEN: Target(State.PROVISIONING), Event.REJECTED: Target(State.FAILED)},
    State.PROVISIONING: {Event.CHECKED: Target(State.ATTESTING), **_BEFORE},
    State.ATTESTING: {Event.APPRAISED: Target(State.WARM), **_BEFORE},
    State.WARM: {Event.ACTIVATED: Target(State.ACTIVATING), **_BEFORE},
    State.ACTIVATING: {
        Event.READY: Target(State.RUNNING, "`session-start` of the gateway's chain, `boot` of the session's"),
        Event.ABANDONED: Target(State.TERMINATED, _CLOSE_IF_ADMITTED),
        Event.REJECTED: Target(State.FAILED, _CLOSE_IF_ADMITTED),
        Event.KILLED: Target(State.LOST, f"{_LOST}, if it was admitted"),
    },
    State.RUNNING: {
        Event.ENDING: Target(State.STOPPING),
        Event.KILLED: Target(State.LOST, _LOST),
    },
    State.STOPPING: {
        Event.CLOSED: Target(State.TERMINATED, _CLOSE),
        Event.REJECTED: Target(State.FAILED, f"{_CLOSE}, as far as the gateway answers"),
        Event.KILLED: Target(State.LOST, _LOST),
    },
    State.TERMINATED: {},
    State.FAILED: {},
    State.LOST: {},
}
"""State -> event -> where it leads."""


@dataclass(frozen=True, slots=True)
class Step:
    """A transition that was taken. ``at`` is in milliseconds since 1970; ``code`` says why a session failed."""

    at: int
    event: Event
    state: State
    code: str | None = None

    def to_json(self) -> Mapping[str, object]:
        """Its members."""
        members = {"at": self.at, "event": self.event.value, "state": self.state.value}
        return members if self.code is None else {**members, "code": self.code}


class Lifecycle:
    """One session's state."""

    __slots__ = ("_clock", "_descriptor", "code", "state")

    def __init__(self) -> None:
        self.state = State.PENDING
        self.code: str | None = None
        """Why it failed: a stable code."""
        self._descriptor: int | None = None
        self._clock: Callable[[], datetime] | None = None

    def record_in(self, folder: Path, clock: Callable[[], datetime]) -> None:
        """From now on write each step into ``folder``, the session's own.

        Raises:
            ``session.transition``: there is a file already, or none can be made.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._descriptor, self._clock = os.open(folder / STATES, flags, 0o600), clock
        except OSError as error:
            raise StateError(
                "the session's states cannot be recorded", found=error.strerror, code="session.transition"
            ) from error

    def take(self, event: Event, *, code: str | None = None) -> None:
        """Take the step that ``event`` causes; ``code`` is required for, and only for, REJECTED.

        Raises:
            ``session.transition``: the table does not have this step.
        """
        target = TRANSITIONS[self.state].get(event)
        if target is None or (code is None) == (event is Event.REJECTED):
            raise StateError(
                "the session cannot take this step",
                expected=self._expected(),
                found=event.value,
                code="session.transition",
            )
        self.state, self.code = target.state, code
        if self._descriptor is not None and self._clock is not None:
            at = int(self._clock().timestamp() * 1000)
            with suppress(OSError):  # on a full disk the records stop the session, which are its evidence
                os.write(self._descriptor, _line(Step(at, event, target.state, code)))

    def close(self) -> None:
        """Write no further step. Idempotent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

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
        return " or ".join(sorted(event.value for event in TRANSITIONS[self.state])) or "no further step"


def read_steps(folder: Path) -> tuple[Step, ...]:
    """The steps that a session took, as its ``folder`` has them, up to the first line that the table does not allow.

    No link is followed; what is no plain file of ours has no steps.
    """
    try:
        with open(_opened(folder, os.O_RDONLY), "rb") as file:
            data = file.read(_LIMIT) if _is_plain(file.fileno()) else b""
    except OSError:
        return ()
    steps, state = list[Step](), State.PENDING
    for line in data.split(b"\n")[:-1]:
        step = _parsed(line, state)
        if step is None:
            break
        steps.append(step)
        state = step.state
    return tuple(steps)


def note_killed(folder: Path, *, at: datetime) -> None:
    """Add ``killed`` to the steps of a session that has ended without an end among them. Idempotent.

    Call it once the session's processes have ended and the folder was taken back from the supervisor's user.
    """
    steps = read_steps(folder)
    if not steps or (target := TRANSITIONS[steps[-1].state].get(Event.KILLED)) is None:
        return
    with suppress(OSError):  # the note of how it ended is elsewhere too
        descriptor = _opened(folder, os.O_WRONLY)
        try:
            if _is_plain(descriptor):
                written = b"".join(_line(step) for step in steps)  # a torn last line does not count
                os.ftruncate(descriptor, len(written))
                step = Step(int(at.timestamp() * 1000), Event.KILLED, target.state)
                os.pwrite(descriptor, _line(step), len(written))
        finally:
            os.close(descriptor)


def _opened(folder: Path, access: int) -> int:
    return os.open(folder / STATES, access | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _is_plain(descriptor: int) -> bool:
    """Whether it is a file with this one name: the folder was another user's while the session ran."""
    facts = os.fstat(descriptor)
    return stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1


def _line(step: Step) -> bytes:
    return canonical(step.to_json()) + b"\n"


def _parsed(line: bytes, before: State) -> Step | None:
    try:
        members = parse_object(line, limit=_LIMIT)
    except MalformedError:
        return None
    match members:
        case {"at": int(at), "event": str(event), "state": str(state), **rest} if not rest.keys() - {"code"}:
            code = rest.get("code")
            for known, target in TRANSITIONS[before].items():
                failed = known is Event.REJECTED
                if (known.value, target.state.value) == (event, state) and isinstance(code, str) is failed:
                    return Step(at, known, target.state, code if isinstance(code, str) else None)
    return None
