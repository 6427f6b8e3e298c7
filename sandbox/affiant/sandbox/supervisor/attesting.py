"""The second step of opening a session: both sides prove themselves, and the gateway admits.

First the gateway, over a nonce of ours (``appraise_gateway``); only then RTMR3 is extended and the session key
made, so that a session that never trusts its gateway never looks activated. Then this session, over a nonce of the
gateway's (``admission``).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from affiant.attestation.encoding.binary_text import b64u
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
from affiant.sandbox.supervisor.launch.launch_check import extend_session_events
from affiant.sandbox.supervisor.launch.lifecycle import Event
from affiant.sandbox.supervisor.starting import Opening, Started

__all__ = ["Admitted", "Attested", "attest", "enter"]


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


async def attest(opening: Opening, started: Started) -> Attested:
    """Appraise the gateway, and make this session's evidence.

    Raises:
        AffiantError: this side does not accept the gateway, or cannot prove itself.
    """
    around, launch = opening.around, started.launch
    gateway = await _appraised_gateway(opening, started.pins)
    await opening.progress(
        "attested-gateway", {"ksd": gateway.keyset_digest, "tier": gateway.appraisal.tier.value}
    )
    timing = Timing.of_profile(launch.policy.policy.approval)
    client = GatewayClient(opening.provision.gateway_url, spki=gateway.spki, timing=timing)
    opening.stack.push_async_callback(client.close)
    log = await asyncio.to_thread(extend_session_events, around.td, launch)
    nonce, chn = await fetch_nonce(client), b64u(around.random_bytes(16))
    identity = await asyncio.to_thread(make_identity, around.td, launch, log, gateway, chn=chn, nonce=nonce)
    await opening.progress("attested", {"evd": identity.evd})
    return Attested(identity, gateway, client, log)


async def enter(opening: Opening, started: Started, attested: Attested) -> Admitted:
    """Be admitted.

    Raises:
        AffiantError: the gateway does not accept this session, or answers with something else.
    """
    opening.lifecycle.take(Event.ATTESTED)
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
    return Admitted(
        identity,
        session_gateway,
        gateway.keyset_digest,
        gateway.spki,
        gateway,
        attested.log,
        granted.expires,
    )


async def _appraised_gateway(opening: Opening, pins: GatewayPins) -> AppraisedGateway:
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
