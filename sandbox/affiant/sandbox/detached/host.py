"""The session host: a process that holds one session for as long as it may live, and takes its commands.

It is forked from the command that creates the session, before that has started a thread: it needs no document of what
was asked for, and no interpreter of its own. It leads a session of its own (setsid(2)), so that no terminal and no
shell ends it, and has nothing at its standard streams.

It ends when a client asks for that, when the time to live is over, when it gets SIGTERM, and when the session ends by
itself. Killed, it leaves what every killed launcher leaves: the supervisor closes the session within five seconds, and
the next command tidies up (``interrupted``).
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final, TextIO

from affiant.errors import StateError
from affiant.policy.loading.policy_file import policy_owners, read_policy_file
from affiant.sandbox.detached.host_socket import HostServer, host_failed
from affiant.sandbox.detached.kept_output import output_folder
from affiant.sandbox.detached.names import asked_launch, names_lock
from affiant.sandbox.processes.home import Home, lock
from affiant.sandbox.processes.launch_records import Launch
from affiant.sandbox.session.session import Session
from affiant.sandbox.session.session_plan import SessionRequest
from affiant.sandbox.session_state.session_folder import HOST_SOCKET
from affiant.sandbox.supervisor.launch.control import refusal_members

__all__ = ["StartingHost", "ended_early", "fork_host", "start_host"]

_LEASE_BEYOND_TTL_S: Final = 120
"""The activation lasts so much longer than the session may live: its end must still be recorded."""
_READY_WITHIN_S: Final = 60.0
"""So long a repeated request waits for the session that the first one is starting."""
_LOOKS_EVERY_S: Final = 0.1
_SERVICES: Final = frozenset({"services", "services-one-user"})
"""Steps by which the launch record, with the session's name, is written."""


@dataclass(frozen=True, slots=True)
class StartingHost:
    """A host that was forked, in the process that asked for it."""

    pid: int
    stream: TextIO
    """JSON lines, at whose end the host is ready or has ended."""

    def lines(self) -> Iterator[Mapping[str, object]]:
        """What it reports from now on, until it is ready or has ended."""
        while line := self.stream.readline():
            yield json.loads(line)

    def interrupt(self) -> None:
        """End it: a session that is being started is undone."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)


def ended_early() -> StateError:
    """The error of a host that has ended and reported neither a session nor why there is none."""
    return StateError("the session host ended while it started", code="session.host_failed")


def start_host(home: Home, request: SessionRequest, *, ttl_s: int | None) -> StartingHost:
    """Fork a session host. The caller has no thread.

    Args:
        request: with ``name`` and ``key``.
        ttl_s: seconds until the session is closed; None: as long as it may last.
    """
    reading, writing = os.pipe2(os.O_CLOEXEC)
    pid = fork_host(home, request, ttl_s, writing)
    os.close(writing)
    return StartingHost(pid, open(reading, encoding="utf-8"))


def fork_host(home: Home, request: SessionRequest, ttl_s: int | None, report: int) -> int:
    """As :func:`start_host`; ``report`` is the writing end of the stream. The host's process id."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid > 0:
        return pid
    code = 1
    try:
        report = fcntl.fcntl(report, fcntl.F_DUPFD_CLOEXEC, 3)
        _detach(report)
        if ttl_s is not None:
            request = replace(request, lease_s=ttl_s + _LEASE_BEYOND_TTL_S)
        code = _host(home, request, ttl_s, report)
    finally:
        os._exit(code)


def _detach(kept: int) -> None:
    """Belong to no terminal, and keep none of the creator's descriptors but ``kept``."""
    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))


class _Report:
    """Reports progress to the creator until the session is ready; a creator that is gone is not an error here."""

    def __init__(self, descriptor: int) -> None:
        self._stream = open(descriptor, "w", encoding="utf-8")  # noqa: SIM115 - closed when the session is ready

    def say(self, event: str, members: Mapping[str, object]) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(json.dumps({"event": event, **members}, default=str) + "\n")
            self._stream.flush()

    def close(self) -> None:
        with suppress(OSError):
            self._stream.close()


def _host(home: Home, request: SessionRequest, ttl_s: int | None, descriptor: int) -> int:
    report = _Report(descriptor)
    try:
        with _named(home, request, report) as written:
            if written is None:
                return 0
            asyncio.run(_hold(home, request, ttl_s, report, written))
    except (asyncio.CancelledError, KeyboardInterrupt):
        return 1
    except Exception as error:  # noqa: BLE001 - a mistake of ours, too: nothing else would say why there is no session
        report.say("refused", refusal_members(host_failed(error)))
        return 1
    finally:
        report.close()
    return 0


@contextmanager
def _named(home: Home, request: SessionRequest, report: _Report) -> Iterator[Callable[[], None] | None]:
    """Hold the lock of names until what is given is called, once the launch record has the name; None: the session
    that was asked for runs already.

    Raises:
        ``session.name_taken``: another session has the name, or the one that was asked for is not ready in time.
        ``session.key_taken``: the session of the request's key has another agent or profile.
    """
    with ExitStack() as stack:
        deadline = time.monotonic() + _READY_WITHIN_S
        while request.name is not None or request.key is not None:
            stack.enter_context(lock(names_lock(home)))
            running = asked_launch(home, request.name, request.key, request.owner)
            if running is None:
                break
            _require_same(running, request)
            if (home.session(running.session) / HOST_SOCKET).exists():
                report.say("ready", {"session": running.session, "created": False, "expires": None})
                yield None
                return
            stack.close()  # it is being started, or closed
            if time.monotonic() > deadline:
                raise StateError(
                    "the session of this name is still being started or closed",
                    found=running.session,
                    hint="Try again",
                    code="session.name_taken",
                )
            time.sleep(_LOOKS_EVERY_S)
        yield stack.pop_all().close


def _require_same(running: Launch, request: SessionRequest) -> None:
    """Return if ``running`` is the session of an earlier request that was the same: its key, agent and profile.

    Raises:
        ``session.name_taken``: it has only the name. ``session.key_taken``: it is another agent's, or by another
        profile. AffiantError: the profile file cannot be read.
    """
    asked = running.asked
    if request.key is not None and asked is not None and asked.key == request.key:
        owners = policy_owners(os.geteuid(), os.environ)
        if asked.agent != request.agent or (
            asked.file is not None
            and asked.file
            != read_policy_file(request.profile, owners=owners, floor=request.floor).profiles.source_digest
        ):
            raise StateError(
                "the session of this idempotency key has another agent or profile",
                expected=f"agent {asked.agent} of the profile file {asked.file}",
                found=running.session,
                hint="Use another key for another session",
                code="session.key_taken",
            )
    else:
        raise StateError(
            "a running session already has this name",
            found=request.name,
            hint=f"Use it, or end it: affiant session stop {request.name}",
            code="session.name_taken",
        )


async def _hold(
    home: Home, request: SessionRequest, ttl_s: int | None, report: _Report, written: Callable[[], None]
) -> None:
    def step(name: str, detail: Mapping[str, object]) -> None:
        if name in _SERVICES:
            written()
        report.say("step", {"step": name, "detail": dict(detail)})

    terminated, opening = asyncio.Event(), asyncio.current_task()
    assert opening is not None
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, opening.cancel)
    server: HostServer | None = None
    outcome: Mapping[str, object] = {
        "event": "refused",
        "code": "session.not_open",
        "message": "the session host was ended",
        "hint": None,
    }
    try:
        async with Session.open(replace(request, hosted=True), home=home.path, progress=step) as session:
            loop.add_signal_handler(signal.SIGTERM, terminated.set)
            began = int(time.time())
            expires = began + (session.plan.lease_s if ttl_s is None else ttl_s)
            facts = {
                **session.info(),
                "name": request.name,
                "started": began,
                "expires": expires,
                "pid": os.getpid(),
                "started_by": session.started_by,
            }
            server = HostServer(session, output_folder(home, session.id), lambda: int(time.time()), facts)
            async with server.listening(home.session(session.id) / HOST_SOCKET):
                report.say("ready", {"session": session.id, "created": True, "expires": expires})
                report.close()
                await _until_over(session, server, terminated, ttl_s)
        outcome = {"event": "stopped", "session": session.id, "bundle": str(session.bundle_path)}
    except Exception as error:
        outcome = {"event": "refused", **refusal_members(host_failed(error))}
        raise
    finally:
        if server is not None:
            await server.finish(outcome)


async def _until_over(
    session: Session, server: HostServer, terminated: asyncio.Event, ttl_s: float | None
) -> None:
    """Return when the session is to be closed; its commands are ended by that. Its time to live ends it in order,
    whatever runs; a client that leaves by an exception, or while commands run, ends it as ``killed``.

    Raises:
        AffiantError: why it ended, or has to.
    """
    ended = asyncio.ensure_future(session.until_ended())
    asked = [asyncio.ensure_future(event.wait()) for event in (server.stop_asked, terminated)]
    waits = [ended, *asked]
    try:
        done, _ = await asyncio.wait(waits, timeout=ttl_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
    if ended in done:
        raise ended.result()
    if not done:
        session.note_expired()
    elif server.running or server.stop_why == "killed":
        await session.kill()
