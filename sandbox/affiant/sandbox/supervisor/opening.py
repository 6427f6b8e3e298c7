"""From a provision to an open session: what is checked, appraised, made and started, in this order.

1. *Provisioning*: what was provided agrees with the TD's own report; runner and broker are started; privileges are
   given up. Nothing of the agent has been read until here, and nothing privileged happens afterwards.
2. *Attesting*: the gateway is appraised over a fresh nonce; RTMR3 is extended; session key and evidence are made.
3. *Activating*: admission; the ``boot`` record; the broker's configuration; the sandbox; the proxy.

Everything that is opened is put on the caller's exit stack, so that a refusal at any step undoes what came before.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from affiant.attestation.chain import ChainSigner
from affiant.attestation.encoding import b64u
from affiant.attestation.evidence_source import QuoteSource
from affiant.errors import AffiantError
from affiant.sandbox.egress.forward import Forwarder
from affiant.sandbox.egress.gateway_route import GatewayRoute
from affiant.sandbox.egress.proxy import EgressProxy
from affiant.sandbox.egress.records import EgressRecords
from affiant.sandbox.egress.resolver import Resolver
from affiant.sandbox.egress.session_ca import SessionCA
from affiant.sandbox.isolation.client import RunnerClient
from affiant.sandbox.isolation.plan import DirectoryRoot
from affiant.sandbox.privileges import SUPERVISOR_USER, drop_privileges
from affiant.sandbox.supervisor.admission import EPOCH_S, SessionIdentity, admit, fetch_nonce, make_identity
from affiant.sandbox.supervisor.appraise_gateway import (
    AppraisedGateway,
    GatewayPins,
    appraise_gateway,
    fetch_gateway_evidence,
    pinned_gateway,
)
from affiant.sandbox.supervisor.broker_upstream import BrokerUpstream
from affiant.sandbox.supervisor.children import spawn_children
from affiant.sandbox.supervisor.epoch import keep_epochs
from affiant.sandbox.supervisor.errors import ProvisionMismatch
from affiant.sandbox.supervisor.gateway_client import GatewayClient
from affiant.sandbox.supervisor.grants import session_grants
from affiant.sandbox.supervisor.input_tree import check_input
from affiant.sandbox.supervisor.launch import Launch, check_launch, extend_session_events
from affiant.sandbox.supervisor.lifecycle import Lifecycle, State
from affiant.sandbox.supervisor.provision import Provision
from affiant.sandbox.supervisor.records import AgentFacts, SessionRecords
from affiant.sandbox.supervisor.sandbox_plan import session_sandbox
from affiant.sandbox.supervisor.session_gateway import SessionGateway
from affiant.sandbox.supervisor.spool import Spool
from affiant.sandbox.supervisor.trust_bundle import pem_of, sandbox_bundle, system_roots
from affiant.sandbox.workspace.walk import runtime_digest
from affiant.secrets.broker.client import BrokerClient
from affiant.secrets.broker.messages import Configuration
from affiant.secrets.placeholder import PlaceholderTable

__all__ = ["OpenSession", "Progress", "Surroundings", "open_session"]

_ABANDON_S: Final = 3.0

Progress = Callable[[str, Mapping[str, object]], Awaitable[None]]
"""Told each step that was taken, and what is known about it."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the rim reads once and passes down.

    Args:
        td: the TD that we run in.
        build: ``sha256:`` of this installation's release manifest.
        clock: the present time, UTC.
        random_bytes: the operating system's generator.
    """

    td: QuoteSource
    build: str
    clock: Callable[[], datetime]
    random_bytes: Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session that was admitted, with its proxy open and its sandbox prepared."""

    launch: Launch
    provision: Provision
    gateway: SessionGateway
    keyset_digest: str
    records: SessionRecords
    broker: BrokerClient
    runner: RunnerClient
    proxy: EgressProxy
    proxy_url: str
    placeholders: Mapping[str, str]

    @property
    def expires(self) -> datetime:
        """When the activation's time is over."""
        return datetime.fromtimestamp(self.launch.activation.expires, UTC)


@dataclass(frozen=True, slots=True)
class _Started:
    """Step 1's result: children, and documents that agree with the TD."""

    launch: Launch
    pins: GatewayPins
    broker: BrokerClient
    runner: RunnerClient


async def open_session(
    provision: Provision,
    around: Surroundings,
    *,
    lifecycle: Lifecycle,
    stack: AsyncExitStack,
    progress: Progress,
) -> OpenSession:
    """Open one session; must be called before any thread has been started.

    Raises:
        AffiantError: the step that was refused.
    """
    started = _start(provision, around, stack)
    await progress("provisioned", {"isolation": provision.backend.value})
    lifecycle.to(State.ATTESTING)
    gateway = await _appraised_gateway(provision, around, started.pins)
    await progress("attested-gateway", {"ksd": gateway.keyset_digest, "tier": gateway.appraisal.tier.value})
    client = GatewayClient(provision.gateway_url, spki=gateway.spki)
    stack.push_async_callback(client.close)
    log = await asyncio.to_thread(extend_session_events, around.td, started.launch)
    identity = await asyncio.to_thread(
        make_identity,
        around.td,
        started.launch,
        log,
        gateway,
        chn=b64u(around.random_bytes(16)),
        nonce=await fetch_nonce(client),
    )
    await progress("attested", {"evd": identity.evd})
    lifecycle.to(State.ACTIVATING)
    await admit(client, started.launch, identity, gateway)
    session_gateway = SessionGateway(
        client,
        identity,
        session=started.launch.activation.session,
        keyset_digest=gateway.keyset_digest,
        clock=around.clock,
    )
    await progress("admitted", {"session": started.launch.activation.session})
    records = _records(
        provision, around, launch=started.launch, identity=identity, gateway=session_gateway, stack=stack
    )
    stack.push_async_callback(_abandon, lifecycle, records, session_gateway)
    await records.record(
        "boot",
        {"ks": identity.statement.keyset_digest, "gks": gateway.keyset_digest, "bld": around.build},
        {},
        acknowledged=True,
    )
    return await _activate(
        provision,
        around,
        started=started,
        records=records,
        gateway=session_gateway,
        keyset_digest=gateway.keyset_digest,
        stack=stack,
        progress=progress,
    )


async def _abandon(lifecycle: Lifecycle, records: SessionRecords, gateway: SessionGateway) -> None:
    """End the chain and close the session if it was admitted and never came to run; as well as can be."""
    if lifecycle.state is State.ACTIVATING:
        with suppress(AffiantError, TimeoutError):
            async with asyncio.timeout(_ABANDON_S):
                await records.record("end", {"why": "shutdown", "cseq": -1}, {}, acknowledged=True)
                await gateway.close("killed")


def _start(provision: Provision, around: Surroundings, stack: AsyncExitStack) -> _Started:
    """Step 1. Root ends here, before a thread or a byte of the agent's could be there."""
    launch = check_launch(provision, around.td.report(), build=around.build, now=around.clock())
    pins = pinned_gateway(launch.manifest, config=provision.gateway_config, reference=provision.reference)
    _check_trees(provision, launch)
    check_input(provision.session_dir, launch.activation.input_digest)
    children = spawn_children(provision)
    stack.callback(children.reap)
    drop_privileges(SUPERVISOR_USER)
    broker = BrokerClient(children.broker_control)
    stack.push_async_callback(broker.close)
    runner = RunnerClient(children.runner_control)
    stack.callback(runner.close)
    return _Started(launch, pins, broker, runner)


def _check_trees(provision: Provision, launch: Launch) -> None:
    """The prepared environment and the root file system, if there are any, are those that the manifest names."""
    trees = [("runtime", provision.runtime, launch.manifest.runtime)]
    if isinstance(provision.rootfs, DirectoryRoot):
        trees.append(("root file system", provision.rootfs.path, launch.manifest.rootfs))
    for what, place, named in trees:
        if place is not None and (found := runtime_digest(Path(place))) != named:
            raise ProvisionMismatch(
                f"the {what} is not the one that the manifest names", expected=named, found=found
            )


async def _appraised_gateway(
    provision: Provision, around: Surroundings, pins: GatewayPins
) -> AppraisedGateway:
    client = GatewayClient(provision.gateway_url, spki=None)
    nonce = around.random_bytes(32)
    try:
        evidence, spki = await fetch_gateway_evidence(client, nonce=nonce)
    finally:
        await client.close()
    return await asyncio.to_thread(
        appraise_gateway,
        evidence,
        pins,
        collateral=provision.collateral,
        nonce=nonce,
        peer_spki=spki,
        now=around.clock(),
    )


def _records(
    provision: Provision,
    around: Surroundings,
    *,
    launch: Launch,
    identity: SessionIdentity,
    gateway: SessionGateway,
    stack: AsyncExitStack,
) -> SessionRecords:
    place = provision.session_dir / "records.ndjson"
    spool = Spool(os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    stack.callback(spool.close)
    records = SessionRecords(
        chain=ChainSigner(
            signer=identity.signer,
            statement=identity.statement,
            chn=identity.chn,
            evd=identity.evd,
            random_bytes=around.random_bytes,
            clock=around.clock,
        ),
        spool=spool,
        submit=gateway.submit,
        agent=AgentFacts(
            session=launch.activation.session,
            evidence=identity.evd,
            key=identity.signer.kid,
            isolation=provision.backend.value,
            name=provision.agent.name,
            user=provision.agent.user,
        ),
        openings_to=launch.activation.openings,
    )
    stack.push_async_callback(records.stop)
    records.start()
    return records


async def _activate(
    provision: Provision,
    around: Surroundings,
    *,
    started: _Started,
    records: SessionRecords,
    gateway: SessionGateway,
    keyset_digest: str,
    stack: AsyncExitStack,
    progress: Progress,
) -> OpenSession:
    launch = started.launch
    table, versions = await _configured_broker(provision, around, started, progress)
    certificates = SessionCA(
        session=launch.activation.session,
        not_after=datetime.fromtimestamp(launch.activation.expires, UTC),
        clock=around.clock,
    )
    sandbox = session_sandbox(
        launch.policy,
        session=launch.activation.session,
        rootfs=provision.rootfs,
        runtime=provision.runtime,
    )
    bundle = sandbox_bundle(certificates.certificate_pem, provision.roots, system_roots())
    socket = await started.runner.prepare(sandbox, ca_bundle=bundle)
    await progress("sandbox-prepared", {"isolation": socket.backend})
    written = EgressRecords(records, launch.facts)
    resolver = Resolver(launch.manifest.hosts)
    forwarder = Forwarder(
        policy=launch.policy,
        table=table,
        resolver=resolver,
        upstream=BrokerUpstream(started.broker, random_bytes=around.random_bytes),
        records=written,
        versions=versions,
    )
    proxy = EgressProxy(
        forwarder=forwarder,
        gateway=GatewayRoute(gateway, written),
        records=written,
        resolver=resolver,
        certificates=certificates,
    )
    await proxy.start(socket.listener)
    stack.push_async_callback(proxy.stop)
    epochs = asyncio.create_task(keep_epochs(records, every_s=EPOCH_S, in_flight=lambda: proxy.in_flight))
    stack.callback(epochs.cancel)
    return OpenSession(
        launch=launch,
        provision=provision,
        gateway=gateway,
        keyset_digest=keyset_digest,
        records=records,
        broker=started.broker,
        runner=started.runner,
        proxy=proxy,
        proxy_url=socket.endpoint.url,
        placeholders={binding.name: binding.placeholder for binding in table},
    )


async def _configured_broker(
    provision: Provision, around: Surroundings, started: _Started, progress: Progress
) -> tuple[PlaceholderTable, Mapping[str, str]]:
    """The placeholders of the secrets that the broker holds, and their versions; the others get none."""
    grants = session_grants(started.launch.policy, random_bytes=around.random_bytes)
    configuration = Configuration(
        grants=grants,
        roots=tuple(pem_of(root) for root in provision.roots),
        system_roots=True,
        local=provision.secrets is not None,
    )
    resolution = await started.broker.configure(configuration, local_store=provision.secrets)
    for descriptor in provision.secrets or ():
        os.close(descriptor)
    held = PlaceholderTable(grant.binding for grant in grants).restricted_to(resolution.resolved)
    missing = {name: refusal.code for name, refusal in resolution.refused.items()}
    await progress("secrets", {"held": [binding.name for binding in held], "missing": missing})
    return held, resolution.resolved
