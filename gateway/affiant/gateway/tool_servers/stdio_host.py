"""Runs the tool servers that are commands: one process for each connection that the gateway makes, and no longer.

A part of the launcher, which holds no key of the gateway's. As root each process has a user of its own
(``stdio_users``), who can enter neither the state folder nor any other service's; without root it runs in
bubblewrap, with nothing in the place of the state folder. Either way: a clean environment with what the configuration
names, no inherited descriptor but the connection, no new privileges, no sight of another server's or session's
processes' inside, and an end, with all that it has started, when the connection ends, when the launcher stops, and by
the kernel when it dies.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affiant.attestation.statements.gateway_config import MCPServerConfig
from affiant.errors import AffiantError, ConfigurationError
from affiant.gateway.config.config import socket_of
from affiant.gateway.tool_servers.stdio_users import ToolUsers
from affiant.printable import printable
from affiant.sandbox.base.exposure import Need
from affiant.sandbox.base.privileges import is_root
from affiant.sandbox.processes.service_process import ServiceProcess, ServiceSpec, start_service
from affiant.socket_address import reachable_address

__all__ = ["command_of", "served_commands"]

_GRACE_S: Final = 2.0
_AGAIN_S: Final = 0.5


def command_of(command: Sequence[str], *, hidden: Path, root: bool) -> tuple[str, ...]:
    """What is run for ``command``.

    Args:
        hidden: the state folder. root: whether the process has a user of its own, who cannot enter it.

    Raises:
        ``gateway.settings``: neither root nor bubblewrap is there to keep the server from the gateway's keys.
    """
    if root:
        return tuple(command)
    bubblewrap = shutil.which("bwrap")
    if bubblewrap is None:
        raise ConfigurationError(
            "a tool server that is a command cannot be kept from the gateway's files",
            expected="root, or bubblewrap",
            hint="Install bubblewrap, or give the server a url",
            code="gateway.settings",
        )
    view = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp")  # noqa: S108 - its own
    apart = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--chdir", "/")
    return (bubblewrap, *view, "--tmpfs", str(hidden), *apart, "--", *command)


@dataclass(frozen=True, slots=True)
class _Hosted:
    """One server: what is run, with which environment, and where it is asked for."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    listener: socket.socket


@contextmanager
def served_commands(
    servers: Sequence[MCPServerConfig],
    environments: Mapping[str, Mapping[str, str]],
    *,
    home: Path,
    store: Path,
    user: int | None,
) -> Iterator[None]:
    """Run ``servers`` on demand for the length of the block; those with a url are not ours.

    Args:
        environments: of each server by its id, beside the search path and the language.
        store: the gateway's folder, which gets the sockets. user: who may connect; None: this user.

    Raises:
        ``gateway.settings``: a socket cannot be made, or a server cannot be kept from the gateway's files.
    """
    with ExitStack() as stack:
        hosted = [
            _Hosted(
                server.id,
                command_of(server.command, hidden=home, root=is_root()),
                environments.get(server.id, {}),
                stack.enter_context(_listening(socket_of(store, server.id), user)),
            )
            for server in servers
            if server.command
        ]
        if not hosted:
            yield
            return
        host = _Host(hosted)
        host.start()
        try:
            yield
        finally:
            host.stop()


@contextmanager
def _listening(path: Path, user: int | None) -> Iterator[socket.socket]:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)  # of a launcher that was killed
        os.fchmod(listener.fileno(), 0o600)
        with reachable_address(path) as address:
            listener.bind(address)
        if user is not None:
            os.chown(path, user, user, follow_symlinks=False)
        listener.listen(64)
        listener.settimeout(0.0)
    except OSError as error:
        listener.close()
        raise ConfigurationError(
            "the socket of a tool server cannot be made",
            where=str(path),
            found=error.strerror,
            code="gateway.settings",
        ) from error
    try:
        yield listener
    finally:
        listener.close()
        path.unlink(missing_ok=True)


class _Host(threading.Thread):
    """A thread of its own: the kernel ties the processes' lives to the thread that started them (prctl(2))."""

    def __init__(self, hosted: Sequence[_Hosted]) -> None:
        super().__init__(name="tool-servers", daemon=True)
        self._hosted = hosted
        self._loop = asyncio.new_event_loop()
        self._enough = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()
        self._users = ToolUsers()

    def run(self) -> None:
        """Until :meth:`stop`."""
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    def stop(self) -> None:
        """End every process, and return when they have ended."""
        with suppress(RuntimeError):  # the loop is closed: it has ended
            self._loop.call_soon_threadsafe(self._enough.set)
        self.join()

    async def _serve(self) -> None:
        accepting = [asyncio.create_task(self._accept(server)) for server in self._hosted]
        await self._enough.wait()
        for task in accepting:
            task.cancel()
        if self._running:
            await asyncio.wait(tuple(self._running))

    async def _accept(self, server: _Hosted) -> None:
        while True:
            try:
                connection, _ = await self._loop.sock_accept(server.listener)
            except OSError:  # no descriptor or memory is left: who waits is taken when there is some
                await asyncio.sleep(_AGAIN_S)
                continue
            user = await self._users.take()
            if user is None:  # too many at once
                connection.close()
                continue
            task = asyncio.create_task(self._run(server, connection, user))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _run(self, server: _Hosted, connection: socket.socket, user: int) -> None:
        """One process as ``user``, from its connection to the end of all that it has started."""
        try:
            await self._served(server, connection, user)
        finally:
            await self._users.give_back(user)

    async def _served(self, server: _Hosted, connection: socket.socket, user: int) -> None:
        with connection:
            try:
                service = _started(server, connection, user)
            except (AffiantError, OSError) as error:
                sys.stderr.write(printable(f"affiant gateway: tool server {server.name}: {error}") + "\n")
                return
            stop = asyncio.ensure_future(self._enough.wait())
            closed = asyncio.ensure_future(_closed(connection))
            ended = asyncio.ensure_future(service.wait())
            try:
                await asyncio.wait({stop, closed, ended}, return_when=asyncio.FIRST_COMPLETED)
                if ended.done() and not closed.done() and not stop.done():
                    said = printable(service.last_words[-300:]) or "it said nothing"
                    sys.stderr.write(f"affiant gateway: tool server {server.name} ended: {said}\n")
            finally:
                stop.cancel()
                closed.cancel()
                await service.stop(grace_s=_GRACE_S)
                await ended


def _started(server: _Hosted, connection: socket.socket, user: int) -> ServiceProcess:
    plan = os.memfd_create("affiant-tool-server", os.MFD_CLOEXEC)
    try:
        with open(os.dup(plan), "wb") as file:
            document = {"command": server.command, "environment": _environment(server.environment)}
            file.write(json.dumps(document).encode())
        os.lseek(plan, 0, os.SEEK_SET)
        connection.settimeout(None)  # it becomes standard input and output
        return start_service(
            ServiceSpec(
                name=f"tool server {server.name}",
                argv=(
                    "affiant.gateway.tool_servers.stdio_child",
                    *("--connection-fd", str(connection.fileno()), "--plan-fd", str(plan)),
                ),
                home=Path("/"),
                user=user,
                needs=_needs(server.command[0]),
                fds=(connection.fileno(), plan),
                death_signal=signal.SIGKILL,
            )
        )
    finally:
        os.close(plan)


def _needs(program: str) -> tuple[Need, ...]:
    """The program, where it is a file of a closed folder."""
    found = shutil.which(program)
    return () if found is None else (Need(os.path.abspath(found)),)


def _environment(named: Mapping[str, str]) -> Mapping[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TZ") if name in os.environ}
    return {"PATH": os.defpath, **kept, "HOME": "/tmp", **named}  # noqa: S108 - nothing of any user is there


async def _closed(connection: socket.socket) -> None:
    """Return when the gateway has closed its end; nothing is read, for that is the process's."""
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    with select.epoll() as watch:
        watch.register(connection.fileno(), select.EPOLLRDHUP | select.EPOLLHUP)
        loop.add_reader(watch.fileno(), event.set)
        try:
            await event.wait()
        finally:
            loop.remove_reader(watch.fileno())
