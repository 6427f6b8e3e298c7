"""What isolation refuses, each with its stable code.

::

    ConfigurationError
    +-- IsolationUnavailable   isolation.unavailable    no backend of this machine reaches the minimum
    +-- PlanRefused            isolation.plan           the plan asks for what no sandbox may have
    StateError
    +-- StepRefused            isolation.step           a command that does not fit the runner's present state
    +-- SandboxFailed          isolation.failed         the sandbox could not be set up or was lost
    +-- CommandNotRun          isolation.command        the agent's command could not be executed (126, 127)
    +-- LimitExceeded          isolation.limit          a limit of the plan ended the sandbox
    MalformedError
    +-- FrameRefused           isolation.frame          a control message that is not one of the protocol's
    UnreachableError
    +-- RunnerLost             isolation.runner_lost    the runner process does not answer any more
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from affiant.errors import AffiantError, ConfigurationError, MalformedError, StateError, UnreachableError

__all__ = [
    "CommandNotRun",
    "FrameRefused",
    "IsolationUnavailable",
    "LimitExceeded",
    "PlanRefused",
    "RunnerLost",
    "SandboxFailed",
    "StepRefused",
    "refusal_from_json",
]


class IsolationUnavailable(ConfigurationError):
    """No backend on this machine reaches the minimum isolation."""

    code = "isolation.unavailable"


class PlanRefused(ConfigurationError):
    """The plan asks for a path, source or size that no sandbox may have."""

    code = "isolation.plan"


class StepRefused(StateError):
    """The command does not fit the runner's present state."""

    code = "isolation.step"


class SandboxFailed(StateError):
    """The sandbox could not be set up, or was lost while it ran."""

    code = "isolation.failed"


class CommandNotRun(StateError):
    """The agent's command could not be executed; ``exit_code`` is 127 (not found) or 126 (not executable)."""

    code = "isolation.command"

    def __init__(
        self,
        message: str,
        *,
        expected: object = None,
        found: object = None,
        hint: str | None = None,
        where: str | None = None,
        exit_code: int = 127,
    ) -> None:
        super().__init__(message, expected=expected, found=found, hint=hint, where=where)
        self.exit_code = exit_code

    def to_json(self) -> Mapping[str, object]:
        return {**super().to_json(), "exit_code": self.exit_code}


class LimitExceeded(StateError):
    """A limit of the plan ended the sandbox."""

    code = "isolation.limit"


class FrameRefused(MalformedError):
    """A control message that is not one of the protocol's."""

    code = "isolation.frame"


class RunnerLost(UnreachableError):
    """The runner process does not answer any more."""

    code = "isolation.runner_lost"
    retryable = False


_BY_CODE: Final[Mapping[str, type[AffiantError]]] = {
    kind.code: kind
    for kind in (
        CommandNotRun,
        FrameRefused,
        IsolationUnavailable,
        LimitExceeded,
        PlanRefused,
        SandboxFailed,
        StepRefused,
    )
}


def refusal_from_json(members: Mapping[str, object]) -> AffiantError:
    """The refusal that the runner sent (``AffiantError.to_json``); an unknown code is a lost sandbox."""
    kind = _BY_CODE.get(str(members.get("code")), SandboxFailed)
    message = str(members.get("message", "the runner refused without a reason"))
    expected, found = members.get("expected"), members.get("found")
    hint, where = _text(members.get("hint")), _text(members.get("where"))
    if kind is CommandNotRun:
        exit_code = 126 if members.get("exit_code") == 126 else 127
        return CommandNotRun(
            message, expected=expected, found=found, hint=hint, where=where, exit_code=exit_code
        )
    return kind(message, expected=expected, found=found, hint=hint, where=where)


def _text(value: object) -> str | None:
    return None if value is None else str(value)
