"""A session host from a program that has threads or an event loop: a fork of it would inherit their locks.

A small interpreter of its own forks the host, as `affiant session create` does, and ends. What was asked for comes to
it in a pipe of its parent's: no file holds it, and no argument shows it.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
from typing import Final

from affiant.errors import StateError
from affiant.sandbox.base.threads import abandonable
from affiant.sandbox.detached.client import DetachedSession
from affiant.sandbox.detached.host import StartingHost, ended_early, fork_host
from affiant.sandbox.processes.home import Home
from affiant.sandbox.session.session_plan import SessionRequest
from affiant.sandbox.supervisor.launch.control import sent_error

__all__ = ["create_detached"]

_MODULE: Final = "affiant.sandbox.detached.host_process"


async def create_detached(
    home: Home, request: SessionRequest, *, ttl_s: int | None
) -> tuple[DetachedSession, bool]:
    """Create a session that a host holds, or find the one that an earlier request with the same key created; and
    whether this request created it.

    Args:
        request: with ``name`` or ``key``. ttl_s: seconds until the session is closed; None: as long as it may last.

    Raises:
        AffiantError: something is missing or wrong; ``session.name_taken``: another session has the name.
    """
    host = await _started(home, request, ttl_s)
    ready = False
    try:
        session, created = await abandonable(lambda: _session(host))
        opened = await DetachedSession(home, session).opened()
        ready = True
        return opened, created
    finally:
        if not ready:
            host.interrupt()


async def _started(home: Home, request: SessionRequest, ttl_s: int | None) -> StartingHost:
    """Starts the host. A caller that is cancelled meanwhile leaves none behind."""
    starting = asyncio.ensure_future(abandonable(lambda: _spawned(home, request, ttl_s)))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait({starting})  # the host is being forked: its number is needed to end it
        if starting.exception() is None:
            starting.result().interrupt()
            starting.result().stream.close()
        raise


def _spawned(home: Home, request: SessionRequest, ttl_s: int | None) -> StartingHost:
    reading, writing = os.pipe2(os.O_CLOEXEC)
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", _MODULE, str(writing)],
            input=pickle.dumps((home, request, ttl_s)),
            stdout=subprocess.PIPE,
            pass_fds=(writing,),
            check=True,
        )
        return StartingHost(int(done.stdout), open(reading, encoding="utf-8"))
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        os.close(reading)
        raise StateError(
            "the session host cannot be started", found=type(error).__name__, code="session.host_failed"
        ) from error
    finally:
        os.close(writing)


def _session(host: StartingHost) -> tuple[str, bool]:
    """The id of the session, once it is ready, and whether this host created it."""
    with host.stream:
        for event in host.lines():
            if event["event"] == "refused":
                raise sent_error(event)
            if event["event"] == "ready":
                return str(event["session"]), event["created"] is True
    raise ended_early()


def _main() -> None:
    report = int(sys.argv[1])
    home, request, ttl_s = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the parent, by its own pipe
    sys.stdout.write(str(fork_host(home, request, ttl_s, report)))


if __name__ == "__main__":
    _main()
