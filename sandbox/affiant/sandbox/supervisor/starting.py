"""The first step of opening a session: everything that needs privileges, and nothing that needs the network.

What was provided is compared with the TD's own report and with the manifest, down to the files; runner and broker
are started; then this process gives its privileges up for good. Nothing of the agent has been read until here.

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
from pathlib import Path
from typing import TYPE_CHECKING, Final

from affiant.attestation.statements.evidence_source import QuoteSource
from affiant.errors import NotAuthenticError
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
    Launch,
    check_gateway_documents,
    check_input,
    check_launch,
)
from affiant.sandbox.supervisor.launch.lifecycle import Lifecycle
from affiant.sandbox.supervisor.launch.provision import Provision
from affiant.sandbox.workspace.walk import runtime_digest
from affiant.secrets.broker.client.client import BrokerClient, broker_command
from affiant.secrets.broker.client.messages import BrokerPart

if TYPE_CHECKING:
    from affiant.sandbox.supervisor.gateway.appraise_gateway import GatewayPins

__all__ = ["Children", "Opening", "Progress", "Started", "Surroundings", "spawn_children", "start"]


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
class Opening:
    """One session that is being opened. ``stack`` undoes what was opened, in reverse, whatever happens."""

    provision: Provision
    around: Surroundings
    lifecycle: Lifecycle
    stack: AsyncExitStack
    progress: Progress


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
    documents = {"config": provision.gateway_config, "reference": provision.reference}
    check_gateway_documents(launch.manifest, **documents)
    plan = session_sandbox(
        launch.policy,
        session=launch.activation.session,
        rootfs=provision.rootfs,
        runtime=provision.runtime,
        resources=provision.resources,
    )
    _check_trees(provision, launch)
    check_input(provision.session_dir, launch.activation.input_digest)
    children = spawn_children(provision, broker_parts(launch.policy), around.template)
    opening.stack.callback(children.reap)
    drop_privileges(SUPERVISOR_USER)
    broker = BrokerClient(children.broker_control)
    opening.stack.push_async_callback(broker.close)
    runner = RunnerClient(children.runner_control)
    opening.stack.callback(runner.close)
    return Started(launch, _pins(launch, **documents), plan, broker, runner)


def _pins(launch: Launch, *, config: bytes, reference: bytes) -> GatewayPins:
    with loading():
        from affiant.sandbox.supervisor.gateway.appraise_gateway import pinned_gateway  # noqa: PLC0415 - the children load

    return pinned_gateway(launch.manifest, config=config, reference=reference)


def _check_trees(provision: Provision, launch: Launch) -> None:
    """The prepared environment and the root file system, if there are any, are those that the manifest names."""
    trees = [("runtime", provision.runtime, launch.manifest.runtime)]
    if isinstance(provision.rootfs, DirectoryRoot):
        trees.append(("root file system", provision.rootfs.path, launch.manifest.rootfs))
    for what, place, named in trees:
        if place is not None and (found := runtime_digest(Path(place))) != named:
            raise NotAuthenticError(
                f"the {what} is not the one that the manifest names",
                expected=named,
                found=found,
                code="session.provision_mismatch",
            )


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


def spawn_children(
    provision: Provision, parts: Iterable[BrokerPart], template: int | None = None
) -> Children:
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
