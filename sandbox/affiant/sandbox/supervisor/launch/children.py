"""The supervisor's two children, started before it gives its privileges up.

The *runner* keeps them: it makes the sandbox, and parses nothing of the agent's. The *broker* gets a user of its
own: it alone holds secrets. Both end when their control socket closes, so neither outlives the supervisor.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from affiant.attestation.release.running import memory_descriptors
from affiant.sandbox.base.privileges import BROKER_USER, is_root
from affiant.sandbox.isolation.runner.client import spawn_runner
from affiant.sandbox.isolation.runner.runner_settings import Settings
from affiant.sandbox.supervisor.launch.provision import Provision
from affiant.secrets.broker.client.client import broker_command
from affiant.secrets.broker.client.messages import BrokerPart

__all__ = ["Children", "spawn_children"]

_LEAVE_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Children:
    """Processes and this side's ends of their control sockets."""

    runner: subprocess.Popen[bytes]
    runner_control: socket.socket
    broker: subprocess.Popen[bytes]
    broker_control: socket.socket

    def reap(self) -> None:
        """Let go of both and wait for their end; blocks for some seconds at most."""
        for control in (self.runner_control, self.broker_control):
            with suppress(OSError):
                control.close()
        for process in (self.broker, self.runner):
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LEAVE_S)


def spawn_children(provision: Provision, parts: Iterable[BrokerPart]) -> Children:
    """Start both as whoever we are; as root the broker becomes its own user by itself.

    Args:
        parts: what the broker loads.
    """
    settings = Settings(provision.session_dir, provision.backend, provision.rootfs, provision.runtime)
    runner, runner_control = spawn_runner(settings)
    broker, broker_control = _spawn_broker(parts)
    return Children(runner, runner_control, broker, broker_control)


def _spawn_broker(parts: Iterable[BrokerPart]) -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair()
    user = BROKER_USER if is_root() else None
    with theirs:
        process = subprocess.Popen(
            broker_command(control_fd=theirs.fileno(), uid=user, gid=user, parts=parts),
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(), *memory_descriptors()),
            env={},
            cwd="/",
        )
    return process, ours
