"""Serves the gateway's own witness for as long as the gateway runs: ``affiant witness serve``, a process of its own.

It runs as a user of its own where root allows, and reaches its folder and nothing else of the state folder. Its
socket, 0600, is the gateway's, and made before either of them runs: what is asked while it starts, or starts again,
waits there. A witness that dies is started again over the same state; one that refuses to start
(``witness.state_lost``) says why on standard error, and meanwhile no session is admitted (``log.unwitnessed``). The
kernel ends it when its launcher is killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from affiant.attestation.log.witness.embedded import OwnWitness
from affiant.errors import AffiantError, ConfigurationError
from affiant.gateway.log.log_key import read_log_vkey
from affiant.gateway.log.witnesses import OWN_WITNESS_SOCKET
from affiant.sandbox.base.exposure import Need
from affiant.sandbox.base.privileges import WITNESS_USER, is_root
from affiant.sandbox.processes.home import give_folder, lock
from affiant.sandbox.processes.service_process import ServiceSpec, start_service
from affiant.socket_address import reachable_address

__all__ = ["served_own_witness"]

_STEP_S: Final = 0.02
_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 30.0
_STABLE_S: Final = 60.0


@contextmanager
def served_own_witness(own: OwnWitness, store: Path, log: Path, *, user: int | None) -> Iterator[None]:
    """Serve ``own`` for the length of the block.

    Args:
        store: the gateway's folder, which gets the socket.
        log: the folder of the gateway's log; its key is awaited there.
        user: who may ask; None: this user.

    Raises:
        StoreLocked: another process serves it.
        ``gateway.settings``: there is no place for the socket.
    """
    with lock(own.lock, wait=False):
        if is_root():
            give_folder(own.folder, WITNESS_USER)
        with _listening(store / OWN_WITNESS_SOCKET, user) as listener:
            keeping = _Keeping(own, log, listener.fileno())
            keeping.start()
            try:
                yield
            finally:
                keeping.stop()


@contextmanager
def _listening(path: Path, user: int | None) -> Iterator[socket.socket]:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)  # of a launcher that was killed: we hold the lock
        os.fchmod(listener.fileno(), 0o600)
        with reachable_address(path) as address:
            listener.bind(address)
        if user is not None:
            os.chown(path, user, user, follow_symlinks=False)
        listener.listen(64)
    except OSError as error:
        listener.close()
        raise ConfigurationError(
            "the witness's socket cannot be made",
            where=str(path),
            found=error.strerror,
            code="gateway.settings",
        ) from error
    try:
        yield listener
    finally:
        listener.close()
        path.unlink(missing_ok=True)


class _Keeping(threading.Thread):
    """Starts the witness, again when it has ended, until :meth:`stop`.

    A thread of its own: the kernel ties the witness's life to the thread that started it (prctl(2)).
    """

    def __init__(self, own: OwnWitness, log: Path, listener: int) -> None:
        super().__init__(name="own-witness", daemon=True)
        self._own, self._log, self._listener = own, log, listener
        self._loop = asyncio.new_event_loop()
        self._enough = asyncio.Event()

    def run(self) -> None:
        """Until :meth:`stop`."""
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._keep())

    def stop(self) -> None:
        """End the witness, and return when it has ended."""
        with suppress(RuntimeError):  # the loop is closed: it has ended
            self._loop.call_soon_threadsafe(self._enough.set)
        self.join()

    async def _keep(self) -> None:
        while (vkey := read_log_vkey(self._log)) is None:
            if await self._stopped_within(_STEP_S):
                return
        pause = _PAUSE_S
        while not self._enough.is_set():
            began = self._loop.time()
            why = await self._run_once(vkey)
            if self._enough.is_set():
                return
            pause = _PAUSE_S if self._loop.time() - began > _STABLE_S else min(2 * pause, _LONGEST_PAUSE_S)
            sys.stderr.write(f"affiant gateway: its witness ended and is started again: {why}\n")
            await self._stopped_within(pause)

    async def _run_once(self, vkey: str) -> str:
        """Run it until it ends, or until it is to end; its last words."""
        try:
            service = start_service(self._spec(vkey))
        except (AffiantError, OSError) as error:
            return str(error)
        stop, ended = asyncio.ensure_future(self._enough.wait()), asyncio.ensure_future(service.wait())
        try:
            await asyncio.wait({stop, ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            await service.stop()
            await ended
        return service.last_words or "it said nothing"

    async def _stopped_within(self, seconds: float) -> bool:
        """Whether it is to end; waits for ``seconds`` at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._enough.wait()
        return self._enough.is_set()

    def _spec(self, vkey: str) -> ServiceSpec:
        own = self._own
        return ServiceSpec(
            name="witness",
            argv=(
                *("affiant", "witness", "serve", "--key", str(own.key), "--state", str(own.state)),
                *("--log", vkey, "--listen-fd", str(self._listener)),
            ),
            home=own.folder,
            user=WITNESS_USER,
            needs=(Need(str(own.folder), writable=True),),
            fds=(self._listener,),
            death_signal=signal.SIGTERM,
        )
