"""Holds a pool: supervisors of one kind that wait for their sessions.

Each is started as a session's would be, for the same manifest, and is sent no session. When one is taken, or has ended,
another is started. A supervisor ends by itself when the pool's process is gone, and when the gateway that it appraised
is; the record of its launch tells the next command what a killed pool has left (``launch_records``).

A pool needs root, because only then a supervisor's folder has the same path for it whatever the session is called; the
simulated platform, because a TDX guest is one TD; and a template process, which outlives the pool as the parent of the
supervisors.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from affiant.attestation.quote.providers.own_platform import PlatformName
from affiant.attestation.statements.manifest import mrconfigid
from affiant.errors import AffiantError, ConfigurationError, StateError
from affiant.sandbox.base.descriptors import descriptor_from_thread
from affiant.sandbox.base.privileges import SUPERVISOR_USER, is_root
from affiant.sandbox.base.template_order import peer_process
from affiant.sandbox.base.user_socket import Connections, listening_user_socket
from affiant.sandbox.isolation.plan.leftover_record import ProcessName
from affiant.sandbox.pools.taking import EMPTY, OFFER, TAKE, TAKEN, pool_socket
from affiant.sandbox.processes.home import Home, open_lock
from affiant.sandbox.processes.launch_records import POOLED, Launch
from affiant.sandbox.processes.provisioner import Image
from affiant.sandbox.processes.services import Services
from affiant.sandbox.processes.surroundings import require_same_confinement
from affiant.sandbox.session.binding import TemplateBindings, bind_template, kind_of, provision_template
from affiant.sandbox.session.session_plan import SessionPlan, SessionRequest
from affiant.sandbox.session.supervisor_link import SupervisorLink, start_supervisor
from affiant.sandbox.session_state.session_folder import remove_files
from affiant.sandbox.supervisor.launch.control import ControlChannel

__all__ = ["SupervisorPool", "require_poolable"]

_WARM_WITHIN_S: Final = 30.0
_TAKEN_WITHIN_S: Final = 5.0
_REFILLS_AFTER_S: Final = 1.0
"""A session that has taken a supervisor becomes ready first."""
_AGAIN_S: Final = 0.5
_GIVES_UP_AFTER: Final = 10
"""Supervisors that could not be started, one after another."""
_MOST_CALLERS: Final = 16


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """A supervisor that waits."""

    slot: str
    launch: Launch
    link: SupervisorLink
    spki: str
    """Of the gateway that it appraised."""


def require_poolable(request: SessionRequest, services: Services | None = None) -> None:
    """Return if sessions like ``request`` can be held in a pool here.

    Raises:
        ``session.pool``: they cannot.
    """
    if not is_root():
        raise ConfigurationError("a pool needs root", hint="Run it as root", code="session.pool")
    if request.rootfs is not None and (request.rootfs.is_file() or (request.rootfs / "oci-layout").is_file()):
        raise ConfigurationError(
            "an image that is unpacked for each session has no pool",
            expected="--rootfs with an unpacked folder",
            code="session.pool",
        )
    if services is not None and services.provisioner.platform is not PlatformName.SIMULATED:
        raise ConfigurationError(
            "a TDX guest is one TD, and has no pool", hint="Run it without a pool", code="session.pool"
        )


class SupervisorPool:
    """Supervisors for sessions of one ``plan``, whatever that calls its session.

    Args:
        size: how many wait. filled: called whenever so many do.
    """

    def __init__(
        self,
        home: Home,
        plan: SessionPlan,
        services: Services,
        *,
        size: int,
        random_bytes: Callable[[int], bytes],
        filled: Callable[[], None],
    ) -> None:
        self._home = home
        self._plan = plan
        self._services = services
        self._size = size
        self._random_bytes = random_bytes
        self._filled = filled
        self._waiting: list[_Waiting] = []
        self._watches: dict[_Waiting, asyncio.Task[None]] = {}
        self._missing = asyncio.Event()

    async def hold(self, enough: asyncio.Event) -> None:
        """Hold the pool until ``enough``.

        Raises:
            ``store.locked``: another process holds the pool of this kind.
            AffiantError, OSError: why no supervisor can be started.
        """
        template = await bind_template(self._home, self._plan, self._services)
        path = pool_socket(self._home, kind_of(self._plan, self._services, template.manifest))
        path.parent.mkdir(mode=0o700, exist_ok=True)
        locked = open_lock(path.with_suffix(".lock"))
        try:
            try:
                fcntl.flock(locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise StateError(
                    "another process holds the pool for such sessions",
                    hint="One pool serves all of them: end it, or give that one a larger --size",
                    code="store.locked",
                ) from error
            path.unlink(missing_ok=True)  # a killed pool's
            with listening_user_socket(path) as listener:
                if listener is None:
                    raise StateError(
                        "the pool's socket cannot be made", where=str(path), code="session.pool_failed"
                    )
                await self._serve(listener, template, enough)
        finally:
            os.close(locked)

    async def _serve(
        self, listener: socket.socket, template: TemplateBindings, enough: asyncio.Event
    ) -> None:
        callers = Connections(self._hand_over, most=_MOST_CALLERS)
        filling = asyncio.ensure_future(self._fill(template))
        accepting = asyncio.ensure_future(callers.accept(listener))
        asked = asyncio.ensure_future(enough.wait())
        try:
            await asyncio.wait({filling, accepting, asked}, return_when=asyncio.FIRST_COMPLETED)
            if filling.done():
                filling.result()
        finally:
            for each in (filling, accepting, asked):
                each.cancel()
            await asyncio.gather(filling, accepting, asked, return_exceptions=True)
            await callers.close(within_s=_TAKEN_WITHIN_S)
            await asyncio.gather(*(self._end(each) for each in tuple(self._waiting)))

    async def _fill(self, template: TemplateBindings) -> None:
        """Start supervisors until there are enough, whenever one is missing.

        Raises:
            AffiantError, OSError: why so many in a row could not be started.
        """
        failures = 0
        while True:
            while len(self._waiting) < self._size:
                try:
                    await self._add(template)
                    failures = 0
                except (AffiantError, OSError):
                    failures += 1
                    if failures == _GIVES_UP_AFTER:
                        raise
                    await asyncio.sleep(_AGAIN_S)
            self._filled()
            self._missing.clear()
            await self._missing.wait()
            await asyncio.sleep(_REFILLS_AFTER_S)

    async def _add(self, template: TemplateBindings) -> None:
        """Start one supervisor, and wait until it is warm. It appraises by the collateral of now: a pool lasts longer.

        Raises:
            AffiantError, OSError: it could not be started, or did not become warm.
        """
        slot = POOLED + self._random_bytes(8).hex()
        plan = replace(self._plan, session=slot)
        own = ProcessName.of(os.getpid())
        assert own is not None
        launch = Launch(slot, own)
        launch.write(self._home)
        link: SupervisorLink | None = None
        try:
            folder = self._home.session(slot)
            folder.mkdir(mode=0o700)
            os.chown(folder, SUPERVISOR_USER, SUPERVISOR_USER)
            identity = mrconfigid(template.manifest)
            td = await descriptor_from_thread(
                lambda: self._services.provisioner.create_td(image=Image.SESSION, mrconfigid=identity)
            )
            membership = self._services.membership
            link = await start_supervisor(
                self._home, plan, lambda *_: None, td=td, membership=membership, echo=False, held=True
            )
            launch.add(self._home, link.pid)
            if not link.forked:
                raise StateError(
                    "no template process forked the supervisor",
                    hint="Start the template process and the pool again: after an upgrade they are not the same image",
                    code="session.pool_failed",
                )
            current = await asyncio.to_thread(self._services.provisioner.collateral)
            bound = replace(template, collateral=current.to_bytes())
            await provision_template(link, self._home, plan, self._services, bound)
            async with asyncio.timeout(_WARM_WITHIN_S):
                facts = await link.expect({"warm"})
        except BaseException as error:  # undone whatever happened, and raised again
            await self._remove(slot, launch, link)
            if isinstance(error, TimeoutError):
                raise StateError(
                    "a supervisor did not become warm in time", code="session.pool_failed"
                ) from error
            raise
        warm = _Waiting(slot, launch, link, str(facts.get("spki")))
        self._waiting.append(warm)
        self._watches[warm] = asyncio.create_task(self._watch(warm))

    async def _watch(self, warm: _Waiting) -> None:
        """Give up a supervisor that has ended."""
        with suppress(AffiantError):
            await warm.link.expect(frozenset())
        if warm in self._waiting:
            self._waiting.remove(warm)
            self._watches.pop(warm)
            await self._remove(warm.slot, warm.launch, warm.link)
            self._missing.set()

    async def _hand_over(self, connection: socket.socket, crowded: bool) -> None:  # noqa: FBT001 - Connections'
        """Give the caller one supervisor; end it if the caller does not take it.

        One caller too many gets none, and none does that is confined otherwise than this process: the supervisors have
        this process's rights.
        """
        if crowded:
            connection.close()
            return
        channel, caller = ControlChannel(connection), peer_process(connection)[0]
        try:
            require_same_confinement(Path("/proc/self"), Path(f"/proc/{caller}"))
            async with asyncio.timeout(_TAKEN_WITHIN_S):
                asked = await channel.receive()
                if asked is None or asked.members != TAKE:
                    return
                if (warm := await self._next()) is None:
                    await channel.send(EMPTY)
                    return
                await self._offer(channel, warm)
        except (AffiantError, OSError, ValueError, TimeoutError):
            return
        finally:
            channel.close()
            self._missing.set()

    async def _next(self) -> _Waiting | None:
        """One that waits and lives; from now on it is no other's."""
        while self._waiting:
            warm = self._waiting.pop(0)
            watch = self._watches.pop(warm)
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
            if not warm.link.ended:
                return warm
            await self._remove(warm.slot, warm.launch, warm.link)
        return None

    async def _offer(self, channel: ControlChannel, warm: _Waiting) -> None:
        taken = False
        try:
            descriptors = await warm.link.release()
            offer = {"event": OFFER, "pid": warm.link.pid, "slot": warm.slot, "spki": warm.spki}
            await channel.send(offer, descriptors)
            answer = await channel.receive()
            taken = answer is not None and answer.members == TAKEN
        finally:
            if taken:
                warm.link.hand_over()
            else:
                await warm.link.kill()  # another process may hold its control socket
                await self._remove(warm.slot, warm.launch, warm.link)

    async def _end(self, warm: _Waiting) -> None:
        self._waiting.remove(warm)
        watch = self._watches.pop(warm)
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        await self._remove(warm.slot, warm.launch, warm.link)

    async def _remove(self, slot: str, launch: Launch, link: SupervisorLink | None) -> None:
        """End a supervisor that no session has, and everything of it."""
        if link is not None:
            await link.stop()
        await asyncio.to_thread(remove_files, self._home, slot)
        launch.remove(self._home)
