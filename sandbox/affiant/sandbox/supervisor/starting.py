"""The first step of opening a session: everything that needs privileges, and nothing that needs the network.

What was provided is compared with the TD's own report and with the manifest; runner and broker are started; then this
process gives its privileges up for good. Nothing of the agent has been read until here.

A pooled supervisor takes this step before there is a session (:func:`start_template`).

The *runner* keeps the privileges: it makes the sandbox, and parses nothing of the agent's. The *broker* gets a user of
its own: it alone holds secrets. Both end when their control socket closes, so neither outlives the supervisor.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from affiant.attestation.statements.evidence_source import QuoteSource
from affiant.lazy_names import loading
from affiant.sandbox.base.privileges import BROKER_USER, SUPERVISOR_USER, drop_privileges, is_root
from affiant.sandbox.base.template_order import StartedProgram, start_here
from affiant.sandbox.egress.record_budget import RecordLimits
from affiant.sandbox.isolation.plan.plan import DirectoryRoot, SandboxPlan
from affiant.sandbox.isolation.runner.client import RunnerClient, spawn_runner
from affiant.sandbox.isolation.runner.runner_settings import Settings
from affiant.sandbox.supervisor.launch.environment import session_sandbox
from affiant.sandbox.supervisor.launch.grants import broker_parts
from affiant.sandbox.supervisor.launch.launch_check import (
    CheckedTemplate,
    Launch,
    check_activation,
    check_gateway_documents,
    check_launch,
    check_template,
)
from affiant.sandbox.supervisor.launch.launcher_requests import LauncherRequests
from affiant.sandbox.supervisor.launch.lifecycle import Lifecycle
from affiant.sandbox.supervisor.launch.provision import Provision, Template
from affiant.secrets.broker.client.client import BrokerClient, broker_command
from affiant.secrets.broker.client.messages import BrokerPart

if TYPE_CHECKING:
    from affiant.sandbox.supervisor.gateway.appraise_gateway import GatewayPins

__all__ = [
    "Children",
    "Opening",
    "Progress",
    "Started",
    "StartedTemplate",
    "Surroundings",
    "Warming",
    "check_trees",
    "spawn_children",
    "start",
    "start_template",
    "started_for",
]


Progress = Callable[[str, Mapping[str, object]], Awaitable[None]]
"""Receives each step that was taken, and what is known about it."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the I/O boundary reads once and passes down.

    Args:
        td: the TD that we run in.
        build: ``sha256:`` of this installation's release manifest.
        clock: the present time, UTC.
        random_bytes: the operating system's generator.
        limits: of the records that the agent may cause.
        template: names the socket of the template process that forked us; None: an interpreter of our own runs.
        nanoseconds: a clock that never goes back.
    """

    td: QuoteSource
    build: str
    clock: Callable[[], datetime]
    random_bytes: Callable[[int], bytes]
    limits: RecordLimits = field(default_factory=RecordLimits)
    template: int | None = None
    nanoseconds: Callable[[], int] = time.monotonic_ns


@dataclass(frozen=True, slots=True)
class Warming:
    """A supervisor that is being started. ``stack`` undoes what was opened, in reverse, whatever happens."""

    provision: Template
    around: Surroundings
    lifecycle: Lifecycle
    stack: AsyncExitStack
    progress: Progress
    requests: LauncherRequests


@dataclass(frozen=True, slots=True)
class Opening(Warming):
    """One session that is being opened."""

    provision: Provision


@dataclass(frozen=True, slots=True)
class StartedTemplate:
    """Documents that agree with the TD, and the two children."""

    checked: CheckedTemplate
    pins: GatewayPins
    broker: BrokerClient
    runner: RunnerClient


@dataclass(frozen=True, slots=True)
class Started:
    """Documents that agree with the TD, the sandbox's plan, and the two children."""

    launch: Launch
    pins: GatewayPins
    plan: SandboxPlan
    broker: BrokerClient
    runner: RunnerClient


def start(opening: Opening) -> Started:
    """Check, start the children, give privileges up. Call it before any thread has been started.

    Raises:
        AffiantError: something provided is not what it should be.
    """
    provision, around = opening.provision, opening.around
    launch = check_launch(provision, around.td.report(), build=around.build, now=around.clock())
    check_gateway_documents(launch.manifest, **_documents(provision))
    plan = _plan(provision, launch)
    pins, broker, runner = _privileges_left(opening, launch)
    return Started(launch, pins, plan, broker, runner)


def start_template(warming: Warming) -> StartedTemplate:
    """As :func:`start`, for a session that is not known yet."""
    provision, around = warming.provision, warming.around
    checked = check_template(provision, around.td.report(), build=around.build)
    check_gateway_documents(checked.manifest, **_documents(provision))
    return StartedTemplate(checked, *_privileges_left(warming, checked))


def started_for(opening: Opening, started: StartedTemplate) -> Started:
    """What was started for the template, with the session that has taken it.

    Raises:
        AffiantError: something provided is not what it should be.
    """
    provision = opening.provision
    launch = check_activation(started.checked, provision, now=opening.around.clock())
    return Started(launch, started.pins, _plan(provision, launch), started.broker, started.runner)


async def check_trees(opening: Opening, started: Started) -> None:
    """Return if the trees that the agent will see are those that manifest and activation name.

    Raises:
        ``session.provision_mismatch``: another tree.
    """
    manifest = started.launch.manifest
    await started.runner.check_trees(
        input_digest=started.launch.activation.input_digest,
        runtime=manifest.runtime,
        rootfs=manifest.rootfs if isinstance(opening.provision.rootfs, DirectoryRoot) else None,
    )


def _documents(provision: Template) -> Mapping[str, bytes]:
    return {"config": provision.gateway_config, "reference": provision.reference}


def _plan(provision: Provision, launch: Launch) -> SandboxPlan:
    return session_sandbox(
        launch.policy,
        session=launch.activation.session,
        rootfs=provision.rootfs,
        runtime=provision.runtime,
        resources=provision.resources,
    )


def _privileges_left(
    warming: Warming, checked: CheckedTemplate
) -> tuple[GatewayPins, BrokerClient, RunnerClient]:
    """Start the children and give privileges up; what the gateway must prove, and the clients of both."""
    provision, stack = warming.provision, warming.stack
    children = spawn_children(provision, broker_parts(checked.policy), warming.around.template)
    stack.callback(children.reap)
    drop_privileges(SUPERVISOR_USER)
    broker = BrokerClient(children.broker_control)
    stack.push_async_callback(broker.close)
    runner = RunnerClient(children.runner_control)
    stack.callback(runner.close)
    return _pins(checked, **_documents(provision)), broker, runner


def _pins(checked: CheckedTemplate, *, config: bytes, reference: bytes) -> GatewayPins:
    with loading():
        from affiant.sandbox.supervisor.gateway.appraise_gateway import pinned_gateway  # noqa: PLC0415 - the children load

    return pinned_gateway(checked.manifest, config=config, reference=reference)


_LEAVE_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Children:
    """Processes and this side's ends of their control sockets."""

    runner: StartedProgram
    runner_control: socket.socket
    broker: StartedProgram
    broker_control: socket.socket

    def reap(self) -> None:
        """Release both and wait for their end; blocks for some seconds at most."""
        for control in (self.runner_control, self.broker_control):
            with suppress(OSError):
                control.close()
        for process in (self.broker, self.runner):
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LEAVE_S)


def spawn_children(provision: Template, parts: Iterable[BrokerPart], template: int | None = None) -> Children:
    """Start both as the present user; as root the broker becomes its own user by itself.

    Args:
        parts: what the broker loads.
        template: names the socket of a template process, which forks both if it can; closed.
    """
    settings = Settings(provision.session_dir, provision.backend, provision.rootfs, provision.runtime)
    try:
        runner, runner_control = spawn_runner(settings, template=template)
        broker, broker_control = _spawn_broker(parts, template)
    finally:
        if template is not None:
            os.close(template)
    return Children(runner, runner_control, broker, broker_control)


def _spawn_broker(parts: Iterable[BrokerPart], template: int | None) -> tuple[StartedProgram, socket.socket]:
    ours, theirs = socket.socketpair()
    user = BROKER_USER if is_root() else None
    with theirs:
        command = broker_command(control_fd=theirs.fileno(), uid=user, gid=user, parts=parts)
        process = start_here(
            command, environment={}, control=theirs.fileno(), template=template, own_session=False
        )
    return process, ours
