"""Our errors as those that the SDK and its tools handle. Each has ours as its cause, and its facts as context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from agents.sandbox.errors import (
    ConfigurationError,
    ErrorCode,
    ExecTransportError,
    InvalidManifestPathError,
    OpName,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
)

from affiant.errors import AffiantError

__all__ = ["context_of", "not_run", "reading", "unsupported", "writing"]

_OUTSIDE = frozenset({"files.path", "isolation.plan"})


def context_of(error: AffiantError) -> dict[str, object]:
    """The facts of an error of ours: its code, its message, and what else is known."""
    return {"affiant": dict(error.to_json())}


def not_run(
    command: Sequence[str | Path], error: Exception, *, what: str = "the command was not run to its end"
) -> ExecTransportError:
    """A command that was rejected, or whose end is not known; or ``what`` else went wrong with it."""
    ours = error if isinstance(error, AffiantError) else None
    return ExecTransportError(
        command=command,
        context={"backend": "affiant"} if ours is None else context_of(ours),
        cause=error,
        message=f"{what}: {error}",
        retryable=None if ours is None else ours.retryable,
    )


def unsupported(what: str, *, op: OpName, hint: str) -> ConfigurationError:
    """Something of the SDK's that a session does not have."""
    return ConfigurationError(
        message=f"a session of affiant has {what}. {hint}",
        error_code=ErrorCode.SANDBOX_CONFIG_INVALID,
        op=op,
        context={"backend": "affiant"},
        retryable=False,
    )


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Errors inside are those of reading ``path``."""
    try:
        yield
    except AffiantError as error:
        if error.code == "files.missing":
            raise WorkspaceReadNotFoundError(
                path=Path(path), context=context_of(error), cause=error
            ) from error
        _require_inside(path, error)
        raise WorkspaceArchiveReadError(
            path=Path(path), context=context_of(error), cause=error, retryable=error.retryable
        ) from error


@contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Errors inside are those of writing ``path``."""
    try:
        yield
    except AffiantError as error:
        _require_inside(path, error)
        raise WorkspaceArchiveWriteError(
            path=Path(path),
            context=context_of(error),
            cause=error,
            message=f"failed to write {path}: {error}",
            retryable=error.retryable,
        ) from error


def _require_inside(path: Path | str, error: AffiantError) -> None:
    """Return if the error is not about a place that the agent has no files at."""
    if error.code in _OUTSIDE:
        reason: Literal["absolute", "escape_root"] = "absolute" if Path(path).is_absolute() else "escape_root"
        raise InvalidManifestPathError(
            rel=str(path), reason=reason, context=context_of(error), cause=error
        ) from error
