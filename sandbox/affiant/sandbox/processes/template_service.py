"""The template process of a state folder: where it listens, and how it is started.

``template/template.sock`` in the state folder, a folder that only its owner enters. The socket is bound before the
template is started, which listens once it has loaded. There is one for a state folder, as ``template.lock`` sees to.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
from contextlib import suppress
from pathlib import Path

from affiant.attestation.release.boot import Image
from affiant.errors import StateError
from affiant.sandbox.processes.home import Home, open_lock
from affiant.sandbox.processes.service_process import READY_FD, ServiceProcess, ServiceSpec, start_service
from affiant.socket_address import reachable_address

__all__ = ["start_template", "template_socket"]


def template_socket(home: Home) -> Path:
    """Where the template of ``home`` listens, if there is one."""
    return home.path / "template" / "template.sock"


def start_template(home: Home) -> ServiceProcess | None:
    """Start the template of ``home``; None: another process serves it already.

    It ends with the thread that calls this. Programs that it has forked run on.

    Raises:
        ``service.failed``: its folder, lock, socket or process cannot be made.
        ``service.unreadable``: no plan leads to what it needs.
    """
    try:
        return _start_alone(home)
    except OSError as error:
        raise StateError(
            "cannot start the template process",
            where=str(error.filename or template_socket(home)),
            found=error.strerror or type(error).__name__,
            code="service.failed",
        ) from error


def _start_alone(home: Home) -> ServiceProcess | None:
    path = template_socket(home)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    locked = open_lock(home.path / "template.lock")
    try:
        try:
            fcntl.flock(locked, fcntl.LOCK_EX | fcntl.LOCK_NB)  # as long as the template has it
        except BlockingIOError:
            return None
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as bound:
            os.fchmod(bound.fileno(), 0o600)
            with suppress(FileNotFoundError):
                path.unlink()
            with reachable_address(path) as address:
                bound.bind(address)
            return start_service(_spec(home, bound.fileno(), locked), echo=True)
    finally:
        os.close(locked)


def _spec(home: Home, bound: int, locked: int) -> ServiceSpec:
    return ServiceSpec(
        name="template",
        argv=(
            "affiant.sandbox.processes.template",
            *("--socket-fd", str(bound)),
            *("--ready-fd", READY_FD),
        ),
        home=home.path,
        fds=(bound, locked),
        own_view=False,
        inherits=False,
        image=Image.SESSION,
        death_signal=signal.SIGTERM,
    )
