"""The errors of the launcher and its services that programs catch by name."""

from __future__ import annotations

from affiant.errors import ConfigurationError, NotAuthenticError, StateError, UnreachableError

__all__ = [
    "AgentUnknown",
    "GatewayNotTheOne",
    "GatewayUnreachable",
    "OutputPlaceError",
    "SessionBundleTooLarge",
    "SessionBusy",
]


class AgentUnknown(ConfigurationError):
    """The profile file names no such agent."""

    code = "session.agent"


class OutputPlaceError(ConfigurationError):
    """A file could not be written at the path that was asked for."""

    code = "session.output_path"


class GatewayNotTheOne(NotAuthenticError):
    """The gateway that answers is not the one that was pinned."""

    code = "session.gateway_mismatch"


class GatewayUnreachable(UnreachableError):
    """The gateway does not answer."""

    code = "gateway.unreachable"


class SessionBusy(StateError):
    """The session has as many acts, or as many clients, as it may have at once."""

    code = "session.busy"
    retryable = True


class SessionBundleTooLarge(StateError):
    """A single bundle does not hold a session's records; its gateway has them, and exports them as a period."""

    code = "session.bundle_too_large"

    def __init__(self, session: str, *, limit: int) -> None:
        super().__init__(
            "a single bundle does not hold the session's records and those of its gateway's other sessions meanwhile; "
            "its gateway has all of them",
            expected=f"at most {limit >> 20} MiB",
            where=f"session {session}",
            hint=f"Export them, with the openings.key of the session's starter: affiant bundle export "
            f"--session {session} --openings openings.key -o {session}.affiant.zip",
        )
