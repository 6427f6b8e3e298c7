"""Runs: session life cycle, supervisor, isolation backends, egress."""

from typing import TYPE_CHECKING, Final

from affiant.lazy_names import lazy_names

if TYPE_CHECKING:
    from affiant.attestation.quote.providers.own_platform import PlatformName
    from affiant.sandbox.isolation.plan.isolation_class import IsolationClass
    from affiant.sandbox.processes.services import GatewayChoice
    from affiant.sandbox.session.session import CommandResult, Session
    from affiant.sandbox.session.session_plan import SessionRequest, VaultChoice

__all__ = [
    "CommandResult",
    "GatewayChoice",
    "IsolationClass",
    "PlatformName",
    "Session",
    "SessionRequest",
    "VaultChoice",
]

_PUBLIC: Final = {
    "CommandResult": "affiant.sandbox.session.session",
    "GatewayChoice": "affiant.sandbox.processes.services",
    "IsolationClass": "affiant.sandbox.isolation.plan.isolation_class",
    "PlatformName": "affiant.attestation.quote.providers.own_platform",
    "Session": "affiant.sandbox.session.session",
    "SessionRequest": "affiant.sandbox.session.session_plan",
    "VaultChoice": "affiant.sandbox.session.session_plan",
}
__getattr__ = lazy_names(__name__, _PUBLIC)
