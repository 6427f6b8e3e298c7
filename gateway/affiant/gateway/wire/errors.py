"""The gateway's errors that its programs catch by name.

Every other error is raised as its family with a code of ``error_codes``; ``errors_http`` alone decides the HTTP status.
"""

from __future__ import annotations

from affiant.errors import (
    MalformedError,
    NotAllowedError,
    StateError,
    UnreachableError,
)
from affiant.policy.canonical.tool_messages import RequestMalformed

__all__ = [
    "BundleTooLarge",
    "Busy",
    "Crowded",
    "EntryErased",
    "GatewayDraining",
    "IndexUnavailable",
    "JournalMalformed",
    "JournalUnavailable",
    "LogDamaged",
    "LogUnavailable",
    "ModelAnswerError",
    "QueueError",
    "RequestAbandoned",
    "RequestMalformed",
    "StoreLocked",
    "ToolCallTimeout",
    "ToolNameAmbiguous",
    "ToolNotAllowedError",
    "UpstreamConnectTimeout",
    "UpstreamCut",
    "UpstreamNotConnected",
]


class JournalMalformed(MalformedError):
    """A journal segment is not one."""

    code = "journal.malformed"


class EntryErased(JournalMalformed):
    """An entry of the journal was erased by order."""

    code = "journal.erased"


class ModelAnswerError(NotAllowedError):
    """The answer names a model that the profile does not list, and no alias of the configuration explains the name.

    ``model`` is that name, ``rules`` those that decided.
    """

    code = "model.answer_not_allowed"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        expected: object = None,
        found: object = None,
        hint: str | None = None,
        model: str | None = None,
        rules: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, code=code, expected=expected, found=found, hint=hint)
        self.model = model
        self.rules = rules


class ToolNotAllowedError(NotAllowedError):
    """A tool was called that the profile does not allow, by the model or at the tool gate.

    ``reason`` is the policy's reason code where it is known, ``rules`` those that decided, ``tool`` its name if it has
    one, ``arguments`` the ``sha256:`` of what it was called with.
    """

    code = "tool.not_allowed"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        expected: object = None,
        found: object = None,
        hint: str | None = None,
        where: str | None = None,
        reason: str = "",
        rules: tuple[str, ...] = (),
        tool: str = "",
        arguments: str = "",
    ) -> None:
        super().__init__(message, code=code, expected=expected, found=found, hint=hint, where=where)
        self.reason = reason
        self.rules = rules
        self.tool = tool
        self.arguments = arguments


class ToolNameAmbiguous(ToolNotAllowedError):
    """Several servers serve a tool of this name, and no rule says which is meant."""

    code = "tool.name_ambiguous"


class ToolCallTimeout(UnreachableError):
    """A server did not answer a call in time; whether it did what was asked is not known."""

    code = "tool.timeout"
    retryable = None


class JournalUnavailable(UnreachableError):
    """A record cannot be made durable; nothing is served until the gateway is started again."""

    code = "journal.unavailable"
    retryable = False


class IndexUnavailable(UnreachableError):
    """The index behind the journal cannot be read; it is rebuilt at the next start."""

    code = "index.unavailable"


class LogUnavailable(UnreachableError):
    """The transparency log does not grow any more, or is too far behind; nothing is admitted meanwhile."""

    code = "log.unavailable"


class GatewayDraining(UnreachableError):
    """The gateway takes no new sessions, or no requests any more, because it is to be stopped.

    ``retry_after_s``: seconds after which another gateway may be in its place.
    """

    code = "gateway.draining"
    retry_after_s = 1


class Busy(UnreachableError):
    """More of something is under way than this gateway bounds it to."""

    code = "gateway.busy"


class Crowded(Busy):
    """Too many requests of unknown callers wait; nothing was done of this one, and it can be sent again."""

    code = "gateway.crowded"


class QueueError(UnreachableError):
    """No slot at an upstream, because others want it too.

    Args:
        retry_after_s: seconds after which asking again may help.
    """

    code = "queue"

    def __init__(
        self,
        message: str,
        *,
        code: str,
        retry_after_s: int,
        expected: object = None,
        found: object = None,
    ) -> None:
        super().__init__(message, code=code, expected=expected, found=found)
        self.retry_after_s = retry_after_s


class UpstreamCut(UnreachableError):
    """An upstream ended its answer before it was complete."""

    code = "upstream.cut"


class UpstreamNotConnected(UnreachableError):
    """An upstream cannot be connected to, or its certificate does not hold; nothing was sent to it."""

    code = "upstream.unreachable"


class UpstreamConnectTimeout(UpstreamNotConnected):
    """An upstream did not accept a connection in time; nothing was sent to it."""

    code = "upstream.timeout"


class RequestAbandoned(StateError):
    """The client closed its connection before its request was decided."""

    code = "request.abandoned"


class StoreLocked(StateError):
    """Another gateway serves from this folder."""

    code = "store.locked"


class BundleTooLarge(StateError):
    """A single bundle does not hold a session's records and those of its gateway's other sessions meanwhile."""

    code = "session.bundle_too_large"


class LogDamaged(StateError):
    """What lies in the log's folder is not what its own last checkpoint says. Going on would fork the log."""

    code = "log.damaged"
