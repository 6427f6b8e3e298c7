"""The errors of isolation that programs catch by name, and how the runner's errors reach the supervisor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from affiant.errors import (
    AffiantError,
    ConfigurationError,
    MalformedError,
    NotAllowedError,
    NotAuthenticError,
    StateError,
    UnreachableError,
)
from affiant.sandbox.base.errors import SessionBusy

__all__ = [
    "CommandNotRun",
    "FrameError",
    "LimitExceeded",
    "RunnerLost",
    "SandboxFailed",
    "SessionBusy",
    "StepError",
    "error_from_json",
]


class StepError(StateError):
    """The command does not fit the runner's present state."""

    code = "isolation.step"


class SandboxFailed(StateError):
    """The sandbox could not be set up, or was lost while it ran."""

    code = "isolation.failed"


class CommandNotRun(StateError):
    """The agent's command could not be executed; ``exit_code`` is 127 (not found) or 126 (not executable)."""

    code = "isolation.command"

    def __init__(self, message: str, *, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code

    def to_json(self) -> Mapping[str, object]:
        return {**super().to_json(), "exit_code": self.exit_code}


class LimitExceeded(StateError):
    """A limit of the plan ended the sandbox."""

    code = "isolation.limit"


class RunnerLost(UnreachableError):
    """The runner process does not answer any more, and its sandbox has ended."""

    code = "isolation.runner_lost"
    retryable = False


class FrameError(MalformedError):
    """A control message that is not one of the protocol's."""

    code = "isolation.frame"


_KINDS: Final[Mapping[str, type[AffiantError]]] = {
    **{kind.code: kind for kind in (FrameError, LimitExceeded, SandboxFailed, SessionBusy, StepError)},
    "files.disk": NotAllowedError,
    "files.path": NotAllowedError,
    "files.read_only": NotAllowedError,
    "isolation.plan": ConfigurationError,
    "isolation.unavailable": ConfigurationError,
    "ports.refused": StateError,
    "session.provision_mismatch": NotAuthenticError,
}


def error_from_json(members: Mapping[str, object]) -> AffiantError:
    """The error that the runner sent (``AffiantError.to_json``); an unknown code is a lost sandbox."""
    message = str(members.get("message", "the runner refused without a reason"))
    code = str(members.get("code"))
    if code == CommandNotRun.code:
        return CommandNotRun(message, exit_code=126 if members.get("exit_code") == 126 else 127)
    kind = _KINDS.get(code, SandboxFailed)
    return kind(
        message,
        code=code if code in _KINDS else None,
        expected=members.get("expected"),
        found=members.get("found"),
        hint=_text(members.get("hint")),
        where=_text(members.get("where")),
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)
