"""Reads the gateway's configuration and reference values, which are those that the session's manifest names.

What reads these documents is loaded while runner and broker load. Their digests are compared before
either is started (``launch_check``).
"""

from __future__ import annotations

from dataclasses import dataclass

from affiant.attestation.statements.gateway_config import GatewayConfig, parse_gateway_config
from affiant.attestation.statements.manifest import Manifest
from affiant.attestation.tdx.appraise.reference import ReferenceValues, parse_reference_values
from affiant.sandbox.supervisor.launch.launch_check import check_gateway_documents, require_same

__all__ = ["GatewayPins", "pinned_gateway"]


@dataclass(frozen=True, slots=True)
class GatewayPins:
    """What the gateway must prove; made by :func:`pinned_gateway` only."""

    config: GatewayConfig
    reference: ReferenceValues
    cls: str


def pinned_gateway(manifest: Manifest, *, config: bytes, reference: bytes) -> GatewayPins:
    """The documents, if they are those that the manifest names.

    Raises:
        ``session.provision_mismatch``: other bytes than the manifest names.
        JSONError, ShapeMismatch: not such documents.
    """
    check_gateway_documents(manifest, config=config, reference=reference)
    pins = GatewayPins(parse_gateway_config(config), parse_reference_values(reference), manifest.gateway.cls)
    origin = pins.config.origin
    require_same("the gateway writes another log than the manifest names", manifest.gateway.origin, origin)
    return pins
