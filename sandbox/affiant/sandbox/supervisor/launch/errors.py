"""The supervisor's errors that programs catch by name."""

from __future__ import annotations

from affiant.errors import NotAllowedError, StateError, UnreachableError

__all__ = [
    "AdmissionError",
    "BrokerLost",
    "GatewayDrained",
    "GatewayLost",
    "RestrictionError",
    "SandboxLost",
]


class AdmissionError(NotAllowedError):
    """The gateway does not admit the session.

    Args:
        gateway_code: the stable code that the gateway gave.
    """

    code = "session.not_admitted"

    def __init__(self, message: str, *, gateway_code: str, hint: str | None = None) -> None:
        super().__init__(message, found=gateway_code, hint=hint)
        self.gateway_code = gateway_code


class RestrictionError(StateError):
    """A restriction of the profile began and could not be completed, so the session is ended."""

    code = "session.narrowing_failed"


class SandboxLost(UnreachableError):
    """The isolation runner is gone, and the agent with it."""

    code = "session.sandbox_lost"
    retryable = False


class BrokerLost(UnreachableError):
    """The secret broker is gone; there is no egress without it."""

    code = "session.broker_lost"
    retryable = False


class GatewayLost(UnreachableError):
    """The gateway that admitted this session stopped: no other can take its records or close it."""

    code = "gateway.lost"
    retryable = False


class GatewayDrained(UnreachableError):
    """The gateway is about to be stopped, so the session was closed before its command had ended."""

    code = "gateway.drained"
