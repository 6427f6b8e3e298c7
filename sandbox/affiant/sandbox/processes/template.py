"""A template process: loads what the programs of the session image need once, and forks programs of it on order.

``python -I .../start.py --files session affiant.sandbox.processes.service_stage --plan-fd P
affiant.sandbox.processes.template --socket-fd N --ready-fd M``, started as root by the service supervisor or by
``affiant session template``. ``start.py`` compares each file with the image before it is loaded. The template then
listens on the socket that it inherited, bound already; until it listens, no caller waits for it.

It has one thread and reads no order: a child does (``forked_program``), and the descriptors of a session come to that
child alone. So the template never holds a TD, a session's socket or a secret. It keeps each connection until its child
has ended, and then tells the exit status there. When it is killed, the programs run on.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import hashlib
import importlib
import marshal
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.release.running import measured_process
from affiant.errors import StateError
from affiant.sandbox.base.template_order import peer_process, send_packet
from affiant.sandbox.processes.forked_program import PROGRAMS, LoadedImage, Template, run_order

__all__ = ["Forking", "keep_code", "main"]

_BACKLOG: Final = 64
_PR_SET_DUMPABLE: Final = 4
_BEHIND: Final = 10
"""How much lower its priority is while it loads: a session that starts meanwhile comes first."""
_NO_FORK_S: Final = 0.05
_SUPERVISOR: Final = "affiant.sandbox.supervisor"
_LATER: Final = tuple(
    f"{_SUPERVISOR}.{name}"
    for name in ("gateway.appraise_gateway", "attesting", "activating", "serving", "closing")
)
"""What every supervisor imports after its first steps. What only some programs need is kept as code: a smaller process
is forked faster."""


@dataclass(slots=True, eq=False)
class _Child:
    pid: int
    caller: _Child | None
    """The child that ordered it; None: another process did, whose number may be a child's later."""
    connection: socket.socket


class Forking:
    """Accepts orders and reaps what was forked."""

    def __init__(self, template: Template, listener: socket.socket) -> None:
        self._template = template
        self._listener = listener
        self._children: dict[int, _Child] = {}
        """By a descriptor that is readable when the child has ended."""
        self._poll = select.poll()
        self._poll.register(listener, select.POLLIN)

    def serve(self) -> int:
        """Fork on order, for ever; in a child, the exit status of its program."""
        while (status := self.step()) is None:
            pass
        return status

    def step(self) -> int | None:
        """Wait until there is an order or a child has ended, and see to all of these."""
        for ready, _ in self._poll.poll():
            if ready in self._children:
                self._reap(ready)
            elif (status := self._order()) is not None:
                return status
        return None

    def _order(self) -> int | None:
        """Fork for the next connection; in the child, the exit status of its program."""
        try:
            connection, _ = self._listener.accept()
        except OSError:  # the caller is gone, or there are no descriptors left
            time.sleep(_NO_FORK_S)
            return None
        caller, user = peer_process(connection)
        if user != os.geteuid():
            connection.close()
            return None
        try:
            pid = os.fork()
        except OSError:
            connection.close()
            time.sleep(_NO_FORK_S)
            return None
        if pid == 0:
            self._forget()
            return run_order(self._template, connection, caller)
        try:
            ended = os.pidfd_open(pid)
        except OSError:  # there are no descriptors left
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            connection.close()
            return None
        ordered_by = next((child for child in self._children.values() if child.pid == caller), None)
        self._children[ended] = _Child(pid, ordered_by, connection)
        self._poll.register(ended, select.POLLIN)
        return None

    def _forget(self) -> None:
        """In a child: nothing of the template's closes a number that is the child's by then."""
        self._listener.detach()
        for child in self._children.values():
            child.connection.detach()
        self._children.clear()

    def _reap(self, ended: int) -> None:
        """End what must not outlive a child that has ended, and tell its caller how it ended."""
        child = self._children.pop(ended)
        self._poll.unregister(ended)
        os.close(ended)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)  # before its number can be another's
        for other in self._children.values():
            if other.caller is child:  # the runner ignores it: it cleans up first
                os.kill(other.pid, signal.SIGTERM)
        _, status = os.waitpid(child.pid, 0)
        with child.connection, suppress(OSError):
            child.connection.setblocking(False)  # noqa: FBT003 - takes no keyword
            send_packet(child.connection, {"ended": os.waitstatus_to_exitcode(status)})


def _loaded() -> Template:
    """Load what every program of this process's image needs.

    Raises:
        ``service.failed``: it has no image, or loading has started a thread.
    """
    image = measured_process()
    if not isinstance(image, LoadedImage):
        raise StateError("a template process needs a measured image", code="service.failed")
    gc.disable()
    for module in (*PROGRAMS.values(), *_LATER):
        importlib.import_module(module)
    keep_code(image)
    if len(os.listdir("/proc/self/task")) != 1:
        raise StateError("a template process must have one thread", code="service.failed")
    gc.collect()
    gc.freeze()
    return Template(image, _measurement(image))


def keep_code(image: LoadedImage) -> None:
    """Read and compile every file of ``image`` that is not loaded yet: from now on no module of it is read from a file.

    Raises:
        ImportError: a file is another than the listed one.
    """
    named = {
        path: path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for path in image.image_files
    }
    left = [path for path, module in named.items() if module not in sys.modules]
    image.code = {path: marshal.dumps(image.get_code(named[path])) for path in left}


def _measurement(image: LoadedImage) -> bytes:
    """MRTD of a TD that is launched with ``image``, as ``release.manifest`` computes it."""
    return hashlib.sha384(
        canonical(sorted([path, digest] for path, digest in image.image_files.items()))
    ).digest()


def main(arguments: Sequence[str] | None = None) -> int:
    """Load, say so, and fork on order."""
    parser = argparse.ArgumentParser(prog="affiant-template", allow_abbrev=False)
    parser.add_argument("--socket-fd", type=int, required=True)
    parser.add_argument("--ready-fd", type=int, required=True)
    given = parser.parse_args(arguments)
    priority = os.getpriority(os.PRIO_PROCESS, 0)
    if os.geteuid() == 0:  # others could not take it back
        os.setpriority(os.PRIO_PROCESS, 0, min(19, priority + _BEHIND))
    template = _loaded()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    os.setpriority(os.PRIO_PROCESS, 0, priority)
    listener = socket.socket(fileno=given.socket_fd)
    listener.set_inheritable(False)
    listener.listen(_BACKLOG)
    with suppress(BrokenPipeError), open(given.ready_fd, "wb") as ready:
        ready.write(b"template\n")
    status = Forking(template, listener).serve()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status or 0)


if __name__ == "__main__":
    sys.exit(main())
