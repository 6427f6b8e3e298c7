"""Runs: session life cycle, supervisor, isolation backends, egress."""

from typing import TYPE_CHECKING, Final

from affiant.lazy_names import lazy_names

if TYPE_CHECKING:
    from affiant.attestation.quote.providers.own_platform import PlatformName
    from affiant.policy.model.profile import Resources
    from affiant.sandbox.api.sandbox import Exited, Output, Sandbox, Terminal
    from affiant.sandbox.api.sandbox_sync import SandboxSync
    from affiant.sandbox.detached.client import KeptPiece
    from affiant.sandbox.isolation.plan.isolation_class import IsolationClass
    from affiant.sandbox.processes.services import GatewayChoice
    from affiant.sandbox.session.session import CommandResult, Metrics, Session, Usage
    from affiant.sandbox.session.session_plan import SessionRequest, VaultChoice
    from affiant.sandbox.session_acts.sandbox_files import FileInfo, Listing, Moved
    from affiant.sandbox.session_acts.sandbox_ports import OpenPort

__all__ = [
    "CommandResult",
    "Exited",
    "FileInfo",
    "GatewayChoice",
    "IsolationClass",
    "KeptPiece",
    "Listing",
    "Metrics",
    "Moved",
    "OpenPort",
    "Output",
    "PlatformName",
    "Resources",
    "Sandbox",
    "SandboxSync",
    "Session",
    "SessionRequest",
    "Terminal",
    "Usage",
    "VaultChoice",
]

_PUBLIC: Final = {
    "CommandResult": "affiant.sandbox.session.session",
    "Exited": "affiant.sandbox.api.sandbox",
    "FileInfo": "affiant.sandbox.session_acts.sandbox_files",
    "GatewayChoice": "affiant.sandbox.processes.services",
    "IsolationClass": "affiant.sandbox.isolation.plan.isolation_class",
    "KeptPiece": "affiant.sandbox.detached.client",
    "Listing": "affiant.sandbox.session_acts.sandbox_files",
    "Metrics": "affiant.sandbox.session.session",
    "Moved": "affiant.sandbox.session_acts.sandbox_files",
    "OpenPort": "affiant.sandbox.session_acts.sandbox_ports",
    "Output": "affiant.sandbox.api.sandbox",
    "PlatformName": "affiant.attestation.quote.providers.own_platform",
    "Resources": "affiant.policy.model.profile",
    "Sandbox": "affiant.sandbox.api.sandbox",
    "SandboxSync": "affiant.sandbox.api.sandbox_sync",
    "Session": "affiant.sandbox.session.session",
    "SessionRequest": "affiant.sandbox.session.session_plan",
    "Terminal": "affiant.sandbox.api.sandbox",
    "Usage": "affiant.sandbox.session.session",
    "VaultChoice": "affiant.sandbox.session.session_plan",
}
__getattr__ = lazy_names(__name__, _PUBLIC)
