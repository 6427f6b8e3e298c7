"""The second step of opening a session: both sides prove themselves, and the gateway admits.

First the gateway, over a nonce of ours (``appraise_gateway``); a pooled supervisor then waits for its session. Only
after that RTMR3 is extended, so that a session that never trusts its gateway never looks activated. Then this session
proves itself, over a nonce of the gateway's (``admission``).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.tdx.event_log.eventlog import EventLog
from affiant.sandbox.supervisor.gateway.admission import SessionIdentity, admit, fetch_nonce, make_identity
from affiant.sandbox.supervisor.gateway.appraise_gateway import (
    AppraisedGateway,
    GatewayPins,
    appraise_gateway,
    fetch_gateway_evidence,
)
from affiant.sandbox.supervisor.gateway.gateway_client import GatewayClient, Timing
from affiant.sandbox.supervisor.gateway.session_gateway import SessionGateway
from affiant.sandbox.supervisor.launch.launch_check import CheckedTemplate, extend_session_events
from affiant.sandbox.supervisor.starting import Opening, Started, Warming

__all__ = ["Admitted", "Attested", "Met", "attest", "enter", "meet_gateway"]


@dataclass(frozen=True, slots=True)
class Met:
    """A gateway that was appraised, our client of it, and the key that will sign. Nothing here names a session."""

    gateway: AppraisedGateway
    client: GatewayClient
    signer: Signer = field(repr=False)


@dataclass(frozen=True, slots=True)
class Attested:
    """Both sides have proved themselves. The gateway has seen nothing of this session yet but a request for a nonce."""

    identity: SessionIdentity
    gateway: AppraisedGateway
    client: GatewayClient
    log: EventLog
    """What RTMR3 was extended by."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """A session that its gateway has admitted."""

    identity: SessionIdentity
    gateway: SessionGateway
    keyset_digest: str
    """Of the gateway: ``gks`` and ``ksd``."""
    spki: str
    """The pin of every connection to the gateway."""
    appraised: AppraisedGateway
    log: EventLog
    """What RTMR3 was extended by."""
    expires: int
    """When the gateway closes the session, seconds since 1970."""


async def meet_gateway(opening: Warming, checked: CheckedTemplate, pins: GatewayPins) -> Met:
    """Appraise the gateway, and make the session's key.

    Raises:
        AffiantError: this side does not accept the gateway.
    """
    gateway = await _appraised_gateway(opening, pins)
    await opening.progress(
        "attested-gateway", {"ksd": gateway.keyset_digest, "tier": gateway.appraisal.tier.value}
    )
    timing = Timing.of_session(pins.config, checked.policy.policy.approval)
    client = GatewayClient(opening.provision.gateway_url, spki=gateway.spki, timing=timing)
    opening.stack.push_async_callback(client.close)
    return Met(gateway, client, Signer.generate())


async def attest(opening: Opening, started: Started, met: Met) -> Attested:
    """Make this session's evidence.

    Raises:
        AffiantError: this side cannot prove itself, or the gateway gives no nonce.
    """
    around, launch = opening.around, started.launch
    log = await asyncio.to_thread(extend_session_events, around.td, launch)
    nonce, chn = await fetch_nonce(met.client), b64u(around.random_bytes(16))
    identity = await asyncio.to_thread(
        make_identity, around.td, launch, log, met.gateway, signer=met.signer, chn=chn, nonce=nonce
    )
    await opening.progress("attested", {"evd": identity.evd})
    return Attested(identity, met.gateway, met.client, log)


async def enter(opening: Opening, started: Started, attested: Attested) -> Admitted:
    """Be admitted.

    Raises:
        AffiantError: the gateway does not accept this session, or answers with something else.
    """
    launch, identity, gateway = started.launch, attested.identity, attested.gateway
    granted = await admit(attested.client, launch, identity, gateway)
    await opening.progress("admitted", {"session": launch.activation.session})
    session_gateway = SessionGateway(
        attested.client,
        identity,
        session=launch.activation.session,
        keyset_digest=gateway.keyset_digest,
        clock=opening.around.clock,
    )
    await session_gateway.ask_for_mac_key()
    return Admitted(
        identity,
        session_gateway,
        gateway.keyset_digest,
        gateway.spki,
        gateway,
        attested.log,
        granted.expires,
    )


async def _appraised_gateway(opening: Warming, pins: GatewayPins) -> AppraisedGateway:
    client = GatewayClient(opening.provision.gateway_url, spki=None)
    nonce = opening.around.random_bytes(32)
    try:
        evidence, spki = await fetch_gateway_evidence(client, nonce=nonce)
    finally:
        await client.close()
    return await asyncio.to_thread(
        appraise_gateway,
        evidence,
        pins,
        collateral=opening.provision.collateral,
        nonce=nonce,
        peer_spki=spki,
        now=opening.around.clock(),
    )
