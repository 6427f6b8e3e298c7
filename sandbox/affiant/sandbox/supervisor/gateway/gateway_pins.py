"""What the gateway must prove: the configuration and the reference values whose digests the manifest names."""

from __future__ import annotations

from dataclasses import dataclass

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.statements.gateway_config import GatewayConfig, parse_gateway_config
from affiant.attestation.statements.manifest import Manifest
from affiant.attestation.tdx.appraise.reference import ReferenceValues, parse_reference_values
from affiant.errors import NotAuthenticError

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
    for what, data, named in (
        ("gateway configuration", config, manifest.gateway.config),
        ("reference values", reference, manifest.gateway.reference),
    ):
        if sha256_name(data) != named:
            raise NotAuthenticError(
                f"the {what} is not the one that the manifest names",
                expected=named,
                found=sha256_name(data),
                code="session.provision_mismatch",
            )
    pins = GatewayPins(parse_gateway_config(config), parse_reference_values(reference), manifest.gateway.cls)
    if pins.config.origin != manifest.gateway.origin:
        raise NotAuthenticError(
            "the gateway writes another log than the manifest names",
            expected=manifest.gateway.origin,
            found=pins.config.origin,
            code="session.provision_mismatch",
        )
    return pins
