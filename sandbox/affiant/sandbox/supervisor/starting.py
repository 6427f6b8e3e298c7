"""The first step of opening a session: everything that needs privileges, and nothing that needs the network.

What was provided is compared with the TD's own report and with the manifest, down to the files; runner and broker
are started; then this process gives its privileges up for good. Nothing of the agent has been read until here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from affiant.errors import NotAuthenticError
from affiant.sandbox.base.privileges import SUPERVISOR_USER, drop_privileges
from affiant.sandbox.isolation.plan.plan import DirectoryRoot, SandboxPlan
from affiant.sandbox.isolation.runner.client import RunnerClient
from affiant.sandbox.supervisor.context import Opening
from affiant.sandbox.supervisor.gateway.gateway_pins import GatewayPins, pinned_gateway
from affiant.sandbox.supervisor.launch.children import spawn_children
from affiant.sandbox.supervisor.launch.grants import broker_parts
from affiant.sandbox.supervisor.launch.input_tree import check_input
from affiant.sandbox.supervisor.launch.launch_check import Launch, check_launch
from affiant.sandbox.supervisor.launch.provision import Provision
from affiant.sandbox.supervisor.launch.sandbox_plan import session_sandbox
from affiant.sandbox.workspace.walk import runtime_digest
from affiant.secrets.broker.client.client import BrokerClient

__all__ = ["Started", "start"]


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
    pins = pinned_gateway(launch.manifest, config=provision.gateway_config, reference=provision.reference)
    plan = session_sandbox(
        launch.policy,
        session=launch.activation.session,
        rootfs=provision.rootfs,
        runtime=provision.runtime,
    )
    _check_trees(provision, launch)
    check_input(provision.session_dir, launch.activation.input_digest)
    children = spawn_children(provision, broker_parts(launch.policy))
    opening.stack.callback(children.reap)
    drop_privileges(SUPERVISOR_USER)
    broker = BrokerClient(children.broker_control)
    opening.stack.push_async_callback(broker.close)
    runner = RunnerClient(children.runner_control)
    opening.stack.callback(runner.close)
    return Started(launch, pins, plan, broker, runner)


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
