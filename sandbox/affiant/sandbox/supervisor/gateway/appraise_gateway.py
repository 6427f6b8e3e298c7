"""Appraising the gateway before the first request: is this the very gateway that the manifest names?

In order, each step on what the one before let through:

1. the provisioned reference values and configuration are those whose digests the manifest names; ``launch_check``
   compares them before runner and broker start, and they are read while these load;
2. the gateway answers a fresh nonce with evidence whose statement carries it;
3. the statement is a gateway's, of the manifest's evidence class, names that configuration, and its TLS key is
   the one on this very connection (so no other program is in between);
4. the quote verifies, and its TD runs an accepted gateway image with MRCONFIGID = SHA-384 of the configuration
   and REPORTDATA over exactly this statement (TDX specification, "Both ways").

All but :func:`fetch_gateway_evidence` is pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.attestation.statements.evidence import evidence_digest, parse_evidence, wrap_endorsements
from affiant.attestation.statements.gateway_config import GatewayConfig, parse_gateway_config
from affiant.attestation.statements.manifest import Manifest
from affiant.attestation.statements.statement import KeysetStatement, parse_statement, report_data
from affiant.attestation.tdx.appraise.appraisal import Appraisal, appraise
from affiant.attestation.tdx.appraise.reference import ReferenceValues, parse_reference_values
from affiant.attestation.tdx.event_log.eventlog import parse_event_log
from affiant.attestation.tdx.quote.quote import parse_quote
from affiant.attestation.tdx.tcb.collateral import parse_collateral
from affiant.attestation.tdx.tcb.collateral_verification import verify_collateral
from affiant.attestation.tdx.verify.verify import verify_quote
from affiant.sandbox.base.errors import GatewayNotTheOne, GatewayUnreachable
from affiant.sandbox.supervisor.gateway.gateway_client import GatewayClient
from affiant.sandbox.supervisor.launch.launch_check import check_gateway_documents, require_same

__all__ = ["AppraisedGateway", "GatewayPins", "appraise_gateway", "fetch_gateway_evidence", "pinned_gateway"]

_ATTEST: Final = "/.well-known/affiant/attest"
_MAX_EVIDENCE: Final = 1 << 20


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


@dataclass(frozen=True, slots=True)
class AppraisedGateway:
    """A gateway that proved to be the pinned one."""

    statement: KeysetStatement
    appraisal: Appraisal
    collateral: str
    """Digest of the endorsements that it was judged with (43 characters): ``col``."""

    @property
    def keyset_digest(self) -> str:
        """``gks`` and ``ksd``."""
        return self.statement.keyset_digest

    @property
    def spki(self) -> str:
        """The pin of every further connection."""
        assert self.statement.tls_spki is not None
        return self.statement.tls_spki


async def fetch_gateway_evidence(client: GatewayClient, *, nonce: bytes) -> tuple[bytes, str]:
    """Step 2: the gateway's evidence over ``nonce`` (32 bytes), and the key that its connection showed.

    Raises:
        GatewayUnreachable: no answer, or none that is evidence.
    """
    body = canonical({"nonce": b64u(nonce)})
    json_body = ((b"Content-Type", b"application/json"),)
    reply, data = await client.post(_ATTEST, json_body, body, limit=_MAX_EVIDENCE)
    if reply.status != 200:
        raise GatewayUnreachable("the gateway gives no evidence", found=f"status {reply.status}")
    evidence = parse_object(data, strict_form=False).get("evidence")
    if not isinstance(evidence, str):
        raise GatewayUnreachable("the gateway gives no evidence", expected="a member 'evidence'")
    return from_b64u(evidence), reply.spki


def appraise_gateway(
    evidence: bytes, pins: GatewayPins, *, collateral: bytes, nonce: bytes, peer_spki: str, now: datetime
) -> AppraisedGateway:
    """Steps 3 and 4.

    Raises:
        GatewayNotTheOne: the statement is not this gateway's, over this nonce, on this connection.
        AffiantError: the quote does not verify, or the TD is not what was pinned.
    """
    parts = parse_evidence(evidence)
    statement = parse_statement(parts.statement)
    facts: tuple[tuple[str, object, object], ...] = (
        ("role", "gateway", statement.role),
        ("evidence class", pins.cls, statement.cls),
        ("issuer", pins.config.iss, statement.iss),
        ("configuration", pins.config.digest, statement.policy),
        ("log's origin", pins.config.origin, None if statement.log is None else statement.log.origin),
        ("nonce", b64u(nonce), statement.nonce),
        ("TLS key", peer_spki, statement.tls_spki),
    )
    for what, expected, found in facts:
        if expected != found:
            raise GatewayNotTheOne(
                f"the gateway's {what} is not the pinned one", expected=expected, found=found
            )
    verified = verify_quote(
        parse_quote(parts.quote),
        verify_collateral(parse_collateral(collateral), now=now, trust=pins.reference.trust_roots()),
        now=now,
    )
    appraisal = appraise(
        verified,
        pins.reference,
        image="gateway",
        mrconfigid=pins.config.mrconfigid,
        report_data=report_data(parts.statement),
        log=parse_event_log(parts.eventlog),
    )
    return AppraisedGateway(statement, appraisal, evidence_digest(wrap_endorsements(collateral)))
