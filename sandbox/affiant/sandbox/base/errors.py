"""The errors of the launcher and its services that programs catch by name."""

from __future__ import annotations

from affiant.errors import ConfigurationError, NotAuthenticError, UnreachableError

__all__ = ["AgentUnknown", "GatewayNotTheOne", "GatewayUnreachable", "OutputPlaceError"]


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
