"""What the gateway refuses with; the HTTP status of each code is decided in ``errors_http`` alone.

::

    MalformedError      RequestMalformed, RequestTooLarge, ContentTypeRefused, ContentEncodingRefused,
                        JournalMalformed, EntryErased, UpstreamMalformed, UpstreamResponseRefused, RecordOutOfPlace
    NotAuthenticError   ProofMissing, SessionUnknown, ConfigurationUnbound, AdmissionMismatch,
                        UpstreamUnauthorized
    NotFreshError       NonceUnknown, AdmissionReplayed, AdmissionExpired
    NotAllowedError     RecordHeld, KindNotErasable, ModelNotAllowed, UpstreamNotAttested, ToolNotAllowed, ToolUnknown,
                        ToolNameAmbiguous, ToolSchemaChanged, ToolArgumentsRefused, ToolNeedsApproval, ToolMethodRefused
    UnreachableError    JournalUnavailable, IndexUnavailable, LogUnavailable, LogUnwitnessed, Busy, MemorySpent,
                        RequestLate, Draining, SessionHeld, SessionNotClosed, UpstreamUnreachable, UpstreamTimeout,
                        UpstreamCut, QueueFull, QueueDeadline, ToolServerUnavailable, ToolCallTimeout
    StateError          StoreLocked, JournalVersion, LogDamaged, SessionClosed, NotFound, ModelNotFound,
                        RequestAbandoned, GatewayFault, ErasureMismatch, ErasureRepeated, SessionStillOpen, HoldUnknown,
                        NarrowingOutOfTurn, NarrowingUnsettled
    ConfigurationError  SettingsRefused
"""

from __future__ import annotations

from affiant.errors import (
    ConfigurationError,
    MalformedError,
    NotAllowedError,
    NotAuthenticError,
    NotFreshError,
    StateError,
    UnreachableError,
)

__all__ = [
    "AdmissionExpired",
    "AdmissionMismatch",
    "AdmissionReplayed",
    "Busy",
    "ClockContradicted",
    "ConfigurationUnbound",
    "ContentEncodingRefused",
    "ContentTypeRefused",
    "Draining",
    "EntryErased",
    "ErasureMismatch",
    "ErasureRepeated",
    "GatewayFault",
    "HoldUnknown",
    "IndexUnavailable",
    "JournalMalformed",
    "JournalUnavailable",
    "JournalVersion",
    "KindNotErasable",
    "LogDamaged",
    "LogUnavailable",
    "LogUnwitnessed",
    "MemorySpent",
    "ModelNotAllowed",
    "ModelNotFound",
    "NarrowingOutOfTurn",
    "NarrowingUnsettled",
    "NonceUnknown",
    "NotFound",
    "ProofMissing",
    "QueueDeadline",
    "QueueFull",
    "QueueRefusal",
    "RecordHeld",
    "RecordOutOfPlace",
    "RequestAbandoned",
    "RequestLate",
    "RequestMalformed",
    "RequestTooLarge",
    "SessionClosed",
    "SessionHeld",
    "SessionNotClosed",
    "SessionStillOpen",
    "SessionUnknown",
    "SettingsRefused",
    "StoreLocked",
    "ToolArgumentsRefused",
    "ToolCallTimeout",
    "ToolMethodRefused",
    "ToolNameAmbiguous",
    "ToolNeedsApproval",
    "ToolNotAllowed",
    "ToolSchemaChanged",
    "ToolServerUnavailable",
    "ToolUnknown",
    "UpstreamCut",
    "UpstreamMalformed",
    "UpstreamNotAttested",
    "UpstreamResponseRefused",
    "UpstreamTimeout",
    "UpstreamUnauthorized",
    "UpstreamUnreachable",
]


class RequestMalformed(MalformedError):
    """A request's body or a header is not of its form."""

    code = "request.malformed"


class RequestTooLarge(MalformedError):
    """A body is larger than the configuration allows."""

    code = "request.too_large"


class ContentTypeRefused(MalformedError):
    """A body of another media type than the endpoint takes."""

    code = "request.content_type"


class ContentEncodingRefused(MalformedError):
    """A body with a content encoding: what is hashed would not be what is read."""

    code = "request.content_encoding"


class JournalMalformed(MalformedError):
    """A journal segment is not one."""

    code = "journal.malformed"


class EntryErased(JournalMalformed):
    """An entry of the journal was erased by order."""

    code = "journal.erased"


class RecordOutOfPlace(MalformedError):
    """A supervisor's record does not continue its session's chain."""

    code = "record.out_of_place"


class UpstreamMalformed(MalformedError):
    """An upstream's answer is not HTTP, or not what its content type says."""

    code = "upstream.malformed"


class UpstreamResponseRefused(MalformedError):
    """An upstream's answer is HTTP, but not one that can be passed on."""

    code = "upstream.answer"


class ProofMissing(NotAuthenticError):
    """A request without a proof of possession."""

    code = "proof.missing"


class SessionUnknown(NotAuthenticError):
    """A proof by a key that belongs to no session here."""

    code = "session.unknown"


class ConfigurationUnbound(NotAuthenticError):
    """The TD that this gateway runs in was not launched for its configuration."""

    code = "gateway.configuration_unbound"


class AdmissionMismatch(NotAuthenticError):
    """A fact in a session's evidence contradicts another, or this gateway."""

    code = "admission.mismatch"


class UpstreamUnauthorized(NotAuthenticError):
    """An upstream refused this gateway's own credential; its text is not passed on."""

    code = "upstream.unauthorized"


class NonceUnknown(NotFreshError):
    """A nonce that this gateway did not make, that was used, or that expired."""

    code = "admission.nonce"


class AdmissionReplayed(NotFreshError):
    """A session id, an activation, a statement or a key that was admitted before."""

    code = "admission.replayed"


class AdmissionExpired(NotFreshError):
    """An activation or a statement that has expired."""

    code = "admission.expired"


class IsolationBelowFloor(NotAllowedError):
    """A session's activation names a weaker isolation than its manifest demands."""

    code = "admission.isolation"


class RecordHeld(NotAllowedError):
    """A legal hold is in force on what was ordered to be erased."""

    code = "erasure.held"


class KindNotErasable(NotAllowedError):
    """A record that others hang on; its content can go, the record stays."""

    code = "erasure.kind"


class ModelNotAllowed(NotAllowedError):
    """The profile does not allow this model."""

    code = "model.not_allowed"


class ToolNotAllowed(NotAllowedError):
    """A tool was called that the profile does not allow, by the model or at the tool gate.

    ``reason`` is the policy's reason code where it is known, ``rules`` those that decided.
    """

    code = "tool.not_allowed"

    def __init__(
        self,
        message: str,
        *,
        expected: object = None,
        found: object = None,
        hint: str | None = None,
        where: str | None = None,
        reason: str = "",
        rules: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, expected=expected, found=found, hint=hint, where=where)
        self.reason = reason
        self.rules = rules


class ToolUnknown(ToolNotAllowed):
    """No server of the tool gate serves this tool now."""

    code = "tool.unknown"


class ToolNameAmbiguous(ToolNotAllowed):
    """Several servers serve a tool of this name, and no rule says which is meant."""

    code = "tool.name_ambiguous"


class ToolSchemaChanged(ToolNotAllowed):
    """A server says something else of a tool than was agreed to, or than it said at first."""

    code = "tool.schema_changed"


class ToolArgumentsRefused(ToolNotAllowed):
    """The arguments of a call do not fit the tool's own schema."""

    code = "tool.arguments"


class ToolNeedsApproval(ToolNotAllowed):
    """A model's answer calls a tool that needs a person's approval: only the tool gate can hold a call for one."""

    code = "tool.needs_approval"


class ToolMethodRefused(NotAllowedError):
    """A method of MCP that the tool gate does not pass on."""

    code = "tool.method"


class ToolServerUnavailable(UnreachableError):
    """A server of tools does not answer, or not with what MCP says."""

    code = "tool.server_unavailable"


class ToolCallTimeout(UnreachableError):
    """A server did not answer a call in time; whether it did what was asked is not known."""

    code = "tool.timeout"
    retryable = None


class UpstreamNotAttested(NotAllowedError):
    """The profile wants this model at an attested upstream, and none is."""

    code = "upstream.not_attested"


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


class LogUnwitnessed(UnreachableError):
    """The configured witnesses have cosigned no checkpoint lately; no session is admitted meanwhile."""

    code = "log.unwitnessed"


class ClockContradicted(UnreachableError):
    """Witnesses date the log otherwise than this machine's clock would: what is recorded now, a verifier refuses."""

    code = "clock.contradicted"


class Busy(UnreachableError):
    """More of something is under way than this gateway bounds it to."""

    code = "gateway.busy"


class QueueRefusal(UnreachableError):
    """No slot at an upstream, because others want it too.

    Args:
        retry_after_s: seconds after which asking again may help.
    """

    code = "queue"

    def __init__(
        self,
        message: str,
        *,
        retry_after_s: int = 1,
        expected: object = None,
        found: object = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, expected=expected, found=found, hint=hint)
        self.retry_after_s = retry_after_s


class QueueFull(QueueRefusal):
    """Too many requests wait for the upstream already."""

    code = "queue.full"


class QueueDeadline(QueueRefusal):
    """The request has waited for the upstream for as long as any does."""

    code = "queue.deadline"


class MemorySpent(UnreachableError):
    """The bodies that are held take all the memory that there is for bodies."""

    code = "gateway.memory"


class RequestLate(UnreachableError):
    """A body did not come to its end in time."""

    code = "request.timeout"


class SessionHeld(UnreachableError):
    """The session's profile is being narrowed: nothing new is begun until that is over."""

    code = "session.narrowing"
    retryable = True


class SessionNotClosed(UnreachableError):
    """The session takes nothing any more, and its close is not durable yet; it will be, or the chain ends in a gap."""

    code = "session.not_closed"
    retryable = True


class Draining(UnreachableError):
    """The gateway is being stopped."""

    code = "gateway.draining"


class UpstreamUnreachable(UnreachableError):
    """An upstream cannot be connected to, or its certificate does not hold."""

    code = "upstream.unreachable"


class UpstreamTimeout(UnreachableError):
    """An upstream did not answer in time."""

    code = "upstream.timeout"


class UpstreamCut(UnreachableError):
    """An upstream ended its answer before it was complete."""

    code = "upstream.cut"


class GatewayFault(StateError):
    """A mistake of the gateway's own; what it was stands in its log."""

    code = "gateway.error"


class RequestAbandoned(StateError):
    """The client closed its connection before its request was decided."""

    code = "request.abandoned"


class ErasureMismatch(StateError):
    """An order names a record that is not here, or not as it says."""

    code = "erasure.mismatch"


class ErasureRepeated(StateError):
    """An order names what was ordered to be erased before."""

    code = "erasure.repeated"


class ChainStillGrows(StateError):
    """An order would prune a chain of the boot that serves."""

    code = "erasure.chain_growing"


class SessionStillOpen(StateError):
    """An order names a record of a session that has not ended."""

    code = "erasure.session_open"


class HoldUnknown(StateError):
    """There is no hold in force that this would end, or that it is a replay of."""

    code = "hold.unknown"


class StoreLocked(StateError):
    """Another gateway serves from this folder."""

    code = "store.locked"


class JournalVersion(StateError):
    """The journal is of another build's format. It is neither read nor set aside."""

    code = "journal.version"


class LogDamaged(StateError):
    """What lies in the log's folder is not what its own last checkpoint says. Going on would fork the log."""

    code = "log.damaged"


class SessionClosed(StateError):
    """The session has ended; nothing follows its close record."""

    code = "session.closed"


class NarrowingOutOfTurn(StateError):
    """A session's profile is narrowed once its supervisor has recorded the narrowing before, and not otherwise."""

    code = "narrowing.out_of_turn"


class NarrowingUnsettled(StateError):
    """Requests under way did not end although they were given up, so the session's profile was not narrowed."""

    code = "narrowing.unsettled"


class NotFound(StateError):
    """There is no such thing, or not for this caller."""

    code = "not_found"


class ModelNotFound(StateError):
    """No upstream serves this model."""

    code = "model.not_found"


class SettingsRefused(ConfigurationError):
    """The settings do not fit together."""

    code = "gateway.settings"
