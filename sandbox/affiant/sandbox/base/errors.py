"""What the launcher and its services refuse, each with its stable code.

::

    ConfigurationError
    +-- HomeRefused           home.refused            the state folder is not one that may be used
    +-- ServiceUnreadable     service.unreadable      a service's own user cannot read what it needs
    +-- AgentUnknown          session.agent           the profile file names no such agent
    +-- InputRefused          session.input           the input, its place or the output does not fit the profile
    |   +-- PrivateExposed    session.input_private   the agent would be shown keys or secrets of ours
    +-- PlatformUnusable      session.platform        this machine's TD cannot run this session
    +-- GatewayNotPinned      session.gateway_pin     a gateway is named, but not which one it must be
    +-- OutputPlaceRefused    session.output_path     a file could not be written where it is wanted
    StateError
    +-- StoreLocked           store.locked            another process holds this part of the state folder
    +-- ServiceFailed         service.failed          a service ended before it was ready
    +-- SupervisorLost        session.supervisor_lost the supervisor ended without saying why
    +-- SessionNotOpen        session.not_open        a step that needs an open session
    +-- SessionRefused        (the supervisor's own)  what the supervisor refused, under the code it sent
    NotAuthenticError
    +-- GatewayNotTheOne      session.gateway_mismatch the gateway is not the one that was pinned
    UnreachableError
    +-- ServiceSilent         service.silent          a service did not become ready in time
    +-- GatewayUnreachable    gateway.unreachable     the gateway does not answer
    MalformedError
    +-- ControlRefused        session.control         a control message that is not one of the protocol's
    +-- HomeFileMalformed     home.file               a file of the state folder is not in its form
"""

from __future__ import annotations

from collections.abc import Mapping

from affiant.errors import (
    ConfigurationError,
    MalformedError,
    NotAuthenticError,
    StateError,
    UnreachableError,
)

__all__ = [
    "AgentUnknown",
    "ControlRefused",
    "GatewayNotPinned",
    "GatewayNotTheOne",
    "GatewayUnreachable",
    "HomeFileMalformed",
    "HomeRefused",
    "InputRefused",
    "OutputPlaceRefused",
    "PlatformUnusable",
    "PrivateExposed",
    "ServiceFailed",
    "ServiceSilent",
    "ServiceUnreadable",
    "SessionNotOpen",
    "SessionRefused",
    "StoreLocked",
    "SupervisorLost",
]


class HomeRefused(ConfigurationError):
    """The state folder belongs to somebody else, is open to others, or is no folder."""

    code = "home.refused"


class HomeFileMalformed(MalformedError):
    """A file of the state folder is not in its form."""

    code = "home.file"


class StoreLocked(StateError):
    """Another process holds this part of the state folder."""

    code = "store.locked"


class ServiceUnreadable(ConfigurationError):
    """A service's own user cannot read a path that it needs."""

    code = "service.unreadable"


class ServiceFailed(StateError):
    """A service ended before it was ready."""

    code = "service.failed"


class ServiceSilent(UnreachableError):
    """A service did not become ready in time."""

    code = "service.silent"


class AgentUnknown(ConfigurationError):
    """The profile file names no such agent."""

    code = "session.agent"


class InputRefused(ConfigurationError):
    """The input, its place inside, or the output does not fit the profile."""

    code = "session.input"


class PrivateExposed(InputRefused):
    """A folder that is shown to the agent, or written to for it, overlaps what it must never reach."""

    code = "session.input_private"


class OutputPlaceRefused(ConfigurationError):
    """A file could not be written where it is wanted."""

    code = "session.output_path"


class PlatformUnusable(ConfigurationError):
    """The TD that this machine has, or was asked for, cannot run this session."""

    code = "session.platform"


class GatewayNotPinned(ConfigurationError):
    """A gateway is named, but not which configuration it must prove."""

    code = "session.gateway_pin"


class GatewayNotTheOne(NotAuthenticError):
    """The gateway that answers is not the one that was pinned."""

    code = "session.gateway_mismatch"


class GatewayUnreachable(UnreachableError):
    """The gateway does not answer."""

    code = "gateway.unreachable"


class ControlRefused(MalformedError):
    """A control message that is not one of the protocol's."""

    code = "session.control"


class SupervisorLost(StateError):
    """The supervisor ended without saying why."""

    code = "session.supervisor_lost"


class SessionNotOpen(StateError):
    """The step needs a session that is open, and this one is not."""

    code = "session.not_open"


class SessionRefused(StateError):
    """What the supervisor refused. ``code`` is the one that it sent, so that a caller can tell refusals apart."""

    def __init__(self, code: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.__dict__["code"] = code

    def to_json(self) -> Mapping[str, object]:
        return {**super().to_json(), "code": self.code}
