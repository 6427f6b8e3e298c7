"""The JSON documents of requests and answers: read strictly, bounded, and published as OpenAPI schemas."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from affiant.sandbox.session.session import CommandResult, Metrics, Usage
from affiant.sandbox.session_acts.sandbox_files import FileInfo, Listing, Moved

__all__ = [
    "CommandAsked",
    "CommandDone",
    "CommandPiece",
    "Detached",
    "Entries",
    "EntryFacts",
    "ErrorBody",
    "ExitedEvent",
    "MetricsNow",
    "MovedFiles",
    "OutputEvent",
    "PortAsked",
    "PortOpen",
    "PortUsed",
    "Removed",
    "SessionAsked",
    "SessionFacts",
    "SessionList",
    "SignalAsked",
    "Stopped",
]

_Path = Annotated[str, Field(min_length=1, max_length=4096)]


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ErrorDetail(_Document):
    """What went wrong."""

    code: str = Field(description="Stable; docs/errors.md lists each")
    message: str
    hint: str | None = None
    who: Literal["caller", "session", "server"] = Field(
        description="Who failed: the request, the session that it is about, or the server and what it needs"
    )
    retryable: bool | None = Field(description="Whether the same request may succeed later; null: not known")


class ErrorBody(_Document):
    """Every error."""

    error: ErrorDetail


class ResourcesAsked(_Asked):
    """Bounds of the session, none above its profile's."""

    cpus: int | None = Field(default=None, ge=1, le=1024)
    memory: int | None = Field(default=None, ge=1, le=2**50, description="Bytes")
    disk: int | None = Field(default=None, ge=1, le=2**50, description="Bytes")
    pids: int | None = Field(default=None, ge=1, le=2**22)


class TaskAsked(_Asked):
    """What the session belongs to; receipts carry it salted."""

    workflow: str | None = Field(default=None, max_length=256)
    task: str | None = Field(default=None, max_length=256)
    attempt: int | None = Field(default=None, ge=0, le=2**31)
    parent: str | None = Field(default=None, max_length=256)


class SessionAsked(_Asked):
    """A session that is to be created."""

    agent: str = Field(min_length=1, max_length=128, description="Which profile of the server's file")
    name: str | None = Field(default=None, max_length=63, description="Unique among the caller's that run")
    ttl: int | None = Field(default=None, ge=1, description="Seconds until the session is closed")
    resources: ResourcesAsked | None = None
    task: TaskAsked | None = None


class CommandFacts(_Document):
    """One command of a session."""

    number: int
    command: list[str]
    detached: bool
    started: int = Field(description="Unix seconds")
    ended: int | None
    exit_code: int | None


class SessionFacts(_Document):
    """A session."""

    session: str = Field(description="Its id, which receipts name")
    name: str | None
    agent: str | None
    state: str = Field(description="running, closed, interrupted or lost")
    started: int | None = Field(description="Unix seconds")
    ended: int | None = None
    expires: int | None = Field(default=None, description="Unix seconds; of one that runs")
    isolation: str | None = Field(default=None, description="Of one that runs")
    code: str | None = Field(default=None, description="Why affiant ended it")
    commands: list[CommandFacts] | None = Field(
        default=None, description="Of one that runs: all that run, and the last that ended"
    )
    created: bool | None = Field(default=None, description="Whether this very request created it")


class SessionList(_Document):
    """The caller's sessions, the last one first."""

    sessions: list[SessionFacts]
    more: bool = Field(description="Whether there are older ones")


class CommandAsked(_Asked):
    """A command that is to run."""

    argv: list[Annotated[str, Field(max_length=128 * 1024)]] = Field(min_length=1, max_length=4096)
    env: dict[str, str] = Field(default_factory=dict, max_length=1024)
    cwd: _Path | None = Field(default=None, description="A path inside; default: where the input is")
    timeout: float | None = Field(default=None, gt=0, le=30 * 86_400, description="Seconds until it is ended")
    stdin: str | None = Field(default=None, max_length=1 << 20, description="What the command reads")


class UsageFacts(_Document):
    """What a command used."""

    wall_s: float
    processor_s: float | None
    peak_bytes: int | None

    @classmethod
    def of(cls, usage: Usage | None) -> UsageFacts | None:
        """None: it is not known."""
        if usage is None:
            return None
        return cls(wall_s=usage.wall_s, processor_s=usage.processor_s, peak_bytes=usage.peak_bytes)


class CommandDone(_Document):
    """How a command ended, and the first of what it wrote."""

    exit_code: int
    stdout: str
    stderr: str
    stdout_base64: str | None = Field(description="Where standard output is not UTF-8: its bytes")
    stderr_base64: str | None = Field(description="Where standard error is not UTF-8: its bytes")
    truncated: bool
    timed_out: bool
    usage: UsageFacts | None

    @classmethod
    def of(cls, result: CommandResult) -> CommandDone:
        """The document for ``result``."""
        return cls(
            exit_code=result.exit_code,
            stdout=result.stdout,
            stderr=result.stderr,
            stdout_base64=_unless_text(result.stdout_bytes),
            stderr_base64=_unless_text(result.stderr_bytes),
            truncated=result.truncated,
            timed_out=result.timed_out,
            usage=UsageFacts.of(result.usage),
        )


class OutputEvent(_Document):
    """The data of the events ``stdout`` and ``stderr``."""

    data: str = Field(description="Base64")


class ExitedEvent(_Document):
    """The data of the event ``exited``, the last one; an event ``error`` has an ErrorBody in its place."""

    exit_code: int
    timed_out: bool
    usage: UsageFacts | None

    @classmethod
    def of(cls, result: CommandResult) -> ExitedEvent:
        """The event for ``result``."""
        return cls(exit_code=result.exit_code, timed_out=result.timed_out, usage=UsageFacts.of(result.usage))


class Detached(_Document):
    """A command that runs on when its caller has left."""

    number: int


class CommandPiece(_Document):
    """Kept output of a detached command, and where the next piece begins."""

    stdout_base64: str
    stderr_base64: str
    stdout_at: int
    stderr_at: int
    ended: bool
    exit_code: int | None
    incomplete: str | None = Field(
        description="Why this is not all that the command wrote from the positions on; null: it is"
    )


class SignalAsked(_Asked):
    """A signal for a command."""

    signal: int = Field(ge=1, le=64)


class EntryFacts(_Document):
    """One file, folder or link."""

    path: str
    kind: Literal["file", "directory", "link"]
    size: int = Field(description="Bytes")
    modified: datetime | None
    executable: bool
    target: str | None

    @classmethod
    def of(cls, info: FileInfo) -> EntryFacts:
        """The document for ``info``."""
        return cls(
            path=info.path,
            kind=info.kind,
            size=info.size,
            modified=info.modified,
            executable=info.executable,
            target=info.target,
        )


class LeftOut(_Document):
    """An entry that was left out, and why: a stable code."""

    path: str
    reason: str


class Entries(_Document):
    """What a folder holds."""

    entries: list[EntryFacts]
    left_out: list[LeftOut]

    @classmethod
    def of(cls, listing: Listing) -> Entries:
        """The document for ``listing``."""
        return cls(
            entries=[EntryFacts.of(each) for each in listing],
            left_out=[LeftOut(path=each.path, reason=each.reason) for each in listing.left_out],
        )


class MovedFiles(_Document):
    """What a call moved, as its record says."""

    digest: str = Field(description="sha256: of the tree")
    files: int
    length: int = Field(description="Bytes")
    left_out: list[LeftOut]

    @classmethod
    def of(cls, moved: Moved) -> MovedFiles:
        """The document for ``moved``."""
        return cls(
            digest=moved.digest,
            files=moved.files,
            length=moved.length,
            left_out=[LeftOut(path=each.path, reason=each.reason) for each in moved.left_out],
        )


class PortAsked(_Asked):
    """A port of the agent's that is to be reached."""

    port: int = Field(ge=1, le=65_535)


class PortOpen(_Document):
    """Where an agent's server is reached, on the server's own machine."""

    port: int
    host: str
    address: int = Field(description="The TCP port there")


class PortUsed(_Document):
    """What a port was used for."""

    port: int
    why: str
    bytes_in: int
    bytes_out: int
    connections: int
    refused: int


class MetricsNow(_Document):
    """What a session uses now."""

    memory_bytes: int
    files_bytes: int
    commands_running: int
    commands_ended: int
    processor_s: float

    @classmethod
    def of(cls, metrics: Metrics) -> MetricsNow:
        """The document for ``metrics``."""
        return cls(
            memory_bytes=metrics.memory_bytes,
            files_bytes=metrics.files_bytes,
            commands_running=metrics.commands_running,
            commands_ended=metrics.commands_ended,
            processor_s=metrics.processor_s,
        )


class Stopped(_Document):
    """A session that was closed."""

    session: str
    bundle: str = Field(description="sha256: of the bundle, which GET /v1/sessions/ID/bundle gives")


class Removed(_Document):
    """A session of which nothing is kept here any more."""

    session: str


def _unless_text(data: bytes) -> str | None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return base64.b64encode(data).decode("ascii")
    return None
