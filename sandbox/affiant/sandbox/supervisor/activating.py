"""The third step of opening a session: the chain begins, the broker is configured, sandbox and proxy are made.

The ``boot`` record is acknowledged before anything else happens; a session that fails after it is ended and closed
as well as can be, so that the gateway does not hold it open until its lease ends.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from affiant.attestation.records.chain import ChainSigner
from affiant.errors import AffiantError, NotAuthenticError
from affiant.sandbox.egress.decision import SILENT
from affiant.sandbox.egress.forward import Forwarder
from affiant.sandbox.egress.gateway_route import GatewayRoute
from affiant.sandbox.egress.http.errors import RecordsUnavailable
from affiant.sandbox.egress.http.session_ca import SessionCA
from affiant.sandbox.egress.limits import EgressMeters
from affiant.sandbox.egress.proxy import EgressProxy
from affiant.sandbox.egress.record_budget import RecordBudget
from affiant.sandbox.egress.records_of_egress import Denials, EgressRecords
from affiant.sandbox.egress.resolver import Resolver
from affiant.sandbox.egress.sessions_route import SessionsRoute
from affiant.sandbox.egress.upstream import Upstream
from affiant.sandbox.isolation.plan.plan import SandboxPlan
from affiant.sandbox.isolation.runner.client import ProxySocket, RunnerClient
from affiant.sandbox.supervisor.attesting import Admitted, Attested, enter
from affiant.sandbox.supervisor.closing import fetch_bundle
from affiant.sandbox.supervisor.gateway.admission import EPOCH_S
from affiant.sandbox.supervisor.gateway.gateway_watch import until_drained, until_gone
from affiant.sandbox.supervisor.gateway.session_gateway import SessionGateway
from affiant.sandbox.supervisor.launch.environment import pem_of, sandbox_bundle, system_roots
from affiant.sandbox.supervisor.launch.errors import GatewayDrained
from affiant.sandbox.supervisor.launch.grants import session_grants
from affiant.sandbox.supervisor.launch.launch_check import Launch
from affiant.sandbox.supervisor.launch.launcher_requests import LauncherRequests
from affiant.sandbox.supervisor.launch.lifecycle import State
from affiant.sandbox.supervisor.launch.provision import Provision
from affiant.sandbox.supervisor.records.records import AgentFacts, SessionRecords, keep_epochs
from affiant.sandbox.supervisor.records.spool import Spool
from affiant.sandbox.supervisor.restriction import ProfileRestrictor, RestrictableSession
from affiant.sandbox.supervisor.starting import Opening, Started
from affiant.secrets.broker.client.client import BrokerClient
from affiant.secrets.broker.client.messages import Configuration, VaultSettings
from affiant.secrets.injection.placeholder import PlaceholderTable
from affiant.steady_clock import SteadyClock

if TYPE_CHECKING:
    from affiant.sandbox.egress.approvals import EgressApprovals
    from affiant.sandbox.supervisor.children.child_sessions import ChildSessions
    from affiant.sandbox.supervisor.records.decision_log import SessionDecisions

__all__ = ["OpenSession", "activate", "begin"]

_ABANDON_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session that was admitted, with its proxy open and its sandbox prepared."""

    launch: Launch
    plan: SandboxPlan
    provision: Provision
    gateway: SessionGateway
    keyset_digest: str
    records: SessionRecords
    budget: RecordBudget
    broker: BrokerClient
    runner: RunnerClient
    proxy: EgressProxy
    proxy_url: str
    placeholders: Mapping[str, Mapping[str, str]]
    restrictor: ProfileRestrictor
    denials: Denials
    requests: LauncherRequests
    """What the launcher is asked; its answers come to where its own requests do."""
    drained: asyncio.Future[GatewayDrained]
    """Done when the gateway wants the session closed."""
    expires: datetime
    """When the gateway closes it: as the activation says, or earlier."""
    decisions: SessionDecisions | None = None


async def begin(opening: Opening, started: Started, attested: Attested) -> tuple[Admitted, SessionRecords]:
    """Be admitted and begin the chain, with what ends both. The caller does not cancel this in between, because the
    gateway would keep a session open that nothing here can close; not before a bound.

    Raises:
        AffiantError: the session was not admitted, or its first record was not taken.
    """
    admitted = await enter(opening, started, attested)
    records = _records(opening, started.launch, admitted)
    opening.stack.push_async_callback(_abandon, opening, records, admitted.gateway)
    watching = asyncio.create_task(_watch(records, opening.provision.gateway_url, admitted.spki))
    opening.stack.callback(watching.cancel)
    keysets = {"ks": admitted.identity.statement.keyset_digest, "gks": admitted.keyset_digest}
    try:
        await records.record("boot", {**keysets, "bld": opening.around.build}, {}, acknowledged=True)
    except RecordsUnavailable as error:
        if records.lost.done():
            raise records.lost.result() from error
        raise
    return admitted, records


async def activate(
    opening: Opening, started: Started, admitted: Admitted, records: SessionRecords
) -> OpenSession:
    """Open everything that the agent will use.

    Raises:
        AffiantError: the secrets are contradictory, or there is no sandbox.
    """
    drained = asyncio.create_task(until_drained(admitted.gateway.is_to_close))
    opening.stack.callback(drained.cancel)
    configuring = asyncio.ensure_future(_configured_broker(opening, started))
    opening.stack.callback(configuring.cancel)
    certificates = SessionCA(
        session=started.launch.activation.session,
        not_after=datetime.fromtimestamp(started.launch.activation.expires, UTC),
        clock=opening.around.clock,
    )
    decisions = _decisions(opening, started.launch, admitted)
    socket = await _sandbox(opening, started, certificates)
    table, versions = await configuring
    if decisions is not None:
        decisions.note_mounts(started.launch.policy)
        await decisions.follow_gateway()  # which keeps its decisions for this session from now on
    budget = RecordBudget(records, opening.around.limits, nanoseconds=opening.around.nanoseconds)
    written = EgressRecords(budget, started.launch.facts)
    proxy = EgressProxy(
        forwarder=Forwarder(
            policy=started.launch.policy,
            table=table,
            resolver=Resolver(started.launch.manifest.hosts),
            upstream=Upstream(started.broker, random_bytes=opening.around.random_bytes),
            records=written,
            meters=EgressMeters(started.launch.policy, nanoseconds=opening.around.nanoseconds),
            versions=versions,
            notes=decisions or SILENT,
            approvals=_approvals(opening, started.launch, admitted),
        ),
        gateway=GatewayRoute(admitted.gateway, written, budget, started.pins.config.body_max)
        if decisions is None
        else GatewayRoute(
            admitted.gateway,
            written,
            budget,
            started.pins.config.body_max,
            decided=decisions.follow_gateway,
        ),
        sessions=SessionsRoute(written, _children(opening, started, admitted, written, decisions)),
        certificates=certificates,
    )
    await proxy.start(socket.listeners.proxy, own_hosts=socket.listeners.own_hosts)
    opening.stack.push_async_callback(proxy.stop)
    epochs = asyncio.create_task(keep_epochs(records, every_s=EPOCH_S, in_flight=lambda: proxy.in_flight))
    opening.stack.callback(epochs.cancel)
    placeholders = {binding.name: binding.variables for binding in table}
    restrictor = ProfileRestrictor(
        RestrictableSession(
            around=opening.around,
            started=started,
            admitted=admitted,
            records=records,
            proxy=proxy,
            decisions=decisions,
            placeholders=placeholders,
        )
    )
    return OpenSession(
        launch=started.launch,
        plan=started.plan,
        provision=opening.provision,
        gateway=admitted.gateway,
        keyset_digest=admitted.keyset_digest,
        records=records,
        budget=budget,
        broker=started.broker,
        runner=started.runner,
        proxy=proxy,
        proxy_url=socket.endpoint.url,
        placeholders=placeholders,
        restrictor=restrictor,
        denials=written.denials,
        requests=opening.requests,
        drained=drained,
        expires=datetime.fromtimestamp(admitted.expires, UTC),
        decisions=decisions,
    )


def _decisions(opening: Opening, launch: Launch, admitted: Admitted) -> SessionDecisions | None:
    """The decision log, if one was asked for."""
    descriptor, around = opening.provision.decisions, opening.around
    if descriptor is None:
        return None
    from affiant.policy.decision_log.file import DecisionFile  # noqa: PLC0415 - few sessions have one
    from affiant.policy.decision_log.record import DecidedBy  # noqa: PLC0415 - as above
    from affiant.sandbox.supervisor.records.decision_log import SessionDecisions  # noqa: PLC0415 - as above

    file = DecisionFile(descriptor)
    opening.stack.callback(file.close)
    by = DecidedBy(launch.activation.session, launch.policy.digest, opening.provision.agent.name)
    return SessionDecisions(
        file, by, ask=admitted.gateway.decisions, clock=around.clock, nanoseconds=around.nanoseconds
    )


def _approvals(opening: Opening, launch: Launch, admitted: Admitted) -> EgressApprovals | None:
    """Who is asked before what needs approval goes out; None where the profile names no approver."""
    approval = launch.policy.policy.approval
    if not approval.approvers:
        return None
    from affiant.policy.approvals.queue import ApprovalQueue  # noqa: PLC0415 - few profiles name one
    from affiant.sandbox.egress.approvals import EgressApprovals, GatewayApprovalQueue  # noqa: PLC0415 - as above

    session, steady = launch.activation.session, SteadyClock(opening.around.clock, time.monotonic)
    queue = ApprovalQueue(
        session=session, policy=launch.policy.digest, approval=approval, never={admitted.identity.signer.kid}
    )
    return EgressApprovals(
        queue,
        GatewayApprovalQueue(admitted.gateway, session=session),
        session=session,
        agent=opening.provision.agent.name,
        policy=launch.policy.digest,
        clock=lambda: steady().timestamp(),
        random_bytes=opening.around.random_bytes,
    )


def _children(
    opening: Opening,
    started: Started,
    admitted: Admitted,
    written: EgressRecords,
    decisions: SessionDecisions | None,
) -> ChildSessions | None:
    """The sessions that the agent starts; None: its profile lets it start none."""
    policy, around = started.launch.policy, opening.around
    if not policy.policy.may_start:
        return None
    from affiant.sandbox.supervisor.children.child_sessions import ChildSessions  # noqa: PLC0415 - few profiles start any

    children = ChildSessions(
        policy,
        records=written,
        notes=decisions or SILENT,
        launcher=opening.requests,
        gateway=admitted.gateway,
        random_bytes=around.random_bytes,
        nanoseconds=around.nanoseconds,
    )
    opening.stack.callback(children.stop)
    return children


async def _watch(records: SessionRecords, url: str, spki: str) -> None:
    records.interrupt(await until_gone(url, spki=spki))


async def _abandon(opening: Opening, records: SessionRecords, gateway: SessionGateway) -> None:
    """End the chain, close the session and fetch its bundle, if it never came to run."""
    if opening.lifecycle.state is State.ACTIVATING:
        with suppress(AffiantError, TimeoutError):
            async with asyncio.timeout(_ABANDON_S):
                await records.record("end", {"why": "shutdown", "cseq": -1}, {}, acknowledged=True)
                await gateway.close("killed")
                await fetch_bundle(gateway, opening.provision.session_dir)


def _records(opening: Opening, launch: Launch, admitted: Admitted) -> SessionRecords:
    place, identity = opening.provision.session_dir / "records.ndjson", admitted.identity
    spool = Spool(os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    opening.stack.callback(spool.close)
    chain = ChainSigner(
        signer=identity.signer,
        statement=identity.statement,
        chn=identity.chn,
        evd=identity.evd,
        random_bytes=opening.around.random_bytes,
        clock=opening.around.clock,
    )
    to = launch.activation.openings
    records = SessionRecords(
        chain=chain,
        spool=spool,
        submit=admitted.gateway.submit,
        agent=AgentFacts(
            session=launch.activation.session,
            evidence=identity.evd,
            key=identity.signer.kid,
            isolation=opening.provision.backend.value,
            name=opening.provision.agent.name,
            user=opening.provision.agent.user,
        ),
        sealing=None if to is None else chain.sealing(to=to, session=launch.activation.session),
    )
    opening.stack.push_async_callback(records.stop)
    records.start()
    return records


async def _configured_broker(
    opening: Opening, started: Started
) -> tuple[PlaceholderTable, Mapping[str, str]]:
    """The placeholders of the secrets that the broker holds, and their versions; the others get none."""
    secrets, vault = opening.provision.secrets, opening.provision.vault
    grants = session_grants(started.launch.policy, random_bytes=opening.around.random_bytes)
    configuration = Configuration(
        grants=grants,
        roots=tuple(pem_of(root) for root in opening.provision.roots),
        system_roots=True,
        local=secrets is not None,
        vault=None
        if vault is None
        else VaultSettings(vault.address, tuple(pem_of(root) for root in vault.roots)),
    )
    token = opening.provision.vault_token
    resolution = await started.broker.configure(configuration, local_store=secrets, vault_credential=token)
    for descriptor in (*(secrets or ()), *(() if token is None else (token,))):
        os.close(descriptor)
    held = PlaceholderTable(grant.binding for grant in grants).restricted_to(resolution.resolved)
    missing = {name: refusal.code for name, refusal in resolution.refused.items()}
    facts = {
        "held": [binding.name for binding in held],
        "missing": missing,
        "memory_locked": resolution.status.memory_locked,
    }
    await opening.progress("secrets", facts)
    return held, resolution.resolved


async def _sandbox(opening: Opening, started: Started, certificates: SessionCA) -> ProxySocket:
    """The sandbox, made but empty, and the socket that is its only way out."""
    bundle = sandbox_bundle(certificates.certificate_pem, opening.provision.roots, system_roots())
    socket = await started.runner.prepare(started.plan, ca_bundle=bundle)
    if started.launch.activation.release not in {None, socket.release}:
        raise NotAuthenticError(
            "the isolation is another release than the activation names",
            expected=started.launch.activation.release,
            found=socket.release,
            code="session.provision_mismatch",
        )
    facts = {"isolation": socket.backend, "memory": socket.memory, "paths": socket.paths}
    await opening.progress("sandbox-prepared", facts)
    return socket
