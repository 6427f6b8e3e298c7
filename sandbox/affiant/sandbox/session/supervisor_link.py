"""The launcher's half of a supervisor's life: start it, provision it, drive it, and know when it is gone.

::

    launcher -> provision, run, signal, narrow, finish  supervisor -> progress, ready, started, exited, finished,
                                                                      narrowed, narrow-refused, refused (then it ends)

One waiter at a time: a session is provisioned, then runs commands one after the other, then finishes. Requests to
restrict the profile are answered beside that: the reader hands each answer to its request.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final

from affiant.attestation.release.boot import Image
from affiant.errors import AffiantError, MalformedError, StateError
from affiant.sandbox.base.exposure import Need
from affiant.sandbox.processes.home import Home
from affiant.sandbox.processes.service_process import ServiceProcess, ServiceSpec, start_service
from affiant.sandbox.session.session_plan import SessionPlan
from affiant.sandbox.supervisor.launch.control import ControlChannel, sent_error

__all__ = ["Progress", "SupervisorLink", "start_supervisor"]

Progress = Callable[[str, Mapping[str, object]], None]
"""Receives what a session is doing: a step's name, and what else is known."""

_LEAVES_WITHIN_S: Final = 5.0
_OPENING_ENDS_WITHIN_S: Final = 1.2
_ATTESTED: Final = "attested"
"""The supervisor's last step before it asks the gateway for admission."""


def start_supervisor(
    home: Home, plan: SessionPlan, *, td: int | None, membership: int, echo: bool
) -> SupervisorLink:
    """Start the supervisor of ``plan`` with its TD's descriptor; ours is closed. None: in the TD that we run in.

    It stays root, where we are, until it has started its runner and its broker. It may see the session's folder,
    the runtime and the root file system that were asked for, its code, and nothing else of closed folders.

    Args:
        membership: what keeps the services running; inherited, so that they outlive us if they must.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)  # both close on exec
    folder = home.session(plan.session)
    asked = (plan.request.runtime, plan.rootfs)
    try:
        with theirs:
            service = start_service(
                ServiceSpec(
                    name="supervisor",
                    argv=(
                        "affiant.sandbox.supervisor",
                        "--control-fd",
                        str(theirs.fileno()),
                        *(("--own-td",) if td is None else ("--td-fd", str(td))),
                    ),
                    home=folder,
                    needs=(
                        Need(str(folder), writable=True),
                        *(Need(str(path.resolve())) for path in asked if path is not None),
                    ),
                    fds=(theirs.fileno(), membership),
                    image=Image.SESSION,
                    td=td,
                ),
                echo=echo,
            )
    except BaseException:  # closed whatever happened, and raised again
        ours.close()
        raise
    finally:
        if td is not None:
            os.close(td)
    return SupervisorLink(ControlChannel(ours), service)


class SupervisorLink:
    """A running supervisor, by its control socket. :meth:`stop` it, whatever happened."""

    def __init__(self, control: ControlChannel, service: ServiceProcess) -> None:
        self._control = control
        self._service = service
        self._may_be_admitted = False
        self._asked: dict[int, asyncio.Future[Mapping[str, object]]] = {}
        self._number = 0

    @property
    def pid(self) -> int:
        """The supervisor's process id."""
        return self._service.pid

    async def tell(self, message: Mapping[str, object], descriptors: Mapping[str, int] | None = None) -> None:
        """Send one message; a supervisor that is gone is noticed where its answer is awaited."""
        with suppress(ConnectionError):
            await self._control.send(message, descriptors)

    async def restrict(self, members: Mapping[str, object]) -> Mapping[str, object]:
        """Ask for the profile to be restricted; the event that answers. A task must be waiting in :meth:`expect`.

        Raises:
            AffiantError: the session has ended instead.
        """
        number, self._number = self._number, self._number + 1
        answer: asyncio.Future[Mapping[str, object]] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            await self.tell({"op": "narrow", "id": number, **members})
            return await answer
        finally:
            del self._asked[number]

    def abandon(self, reason: AffiantError) -> None:
        """Requests to restrict the profile are answered no more."""
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(reason)
                answer.exception()  # the asking task may end before it looks

    async def expect(self, events: Collection[str], progress: Progress) -> Mapping[str, object]:
        """The next event of a kind in ``events``; progress on the way is passed on, anything else passed over.

        Raises:
            StateError: the supervisor's error, under its own code.
            ``session.supervisor_lost``: it is gone without a word.
        """
        try:
            return await self._expected(events, progress)
        except AffiantError as ended:
            self.abandon(ended)
            raise

    async def _expected(self, events: Collection[str], progress: Progress) -> Mapping[str, object]:
        while True:
            received = await self._control.receive()
            if received is None:
                raise await self._lost()
            received.close()
            message = received.members
            event = message.get("event")
            if event in events:
                return message
            if event == "progress":
                detail = message.get("detail")
                self._may_be_admitted |= message.get("step") == _ATTESTED
                progress(str(message.get("step")), detail if isinstance(detail, dict) else {})
            elif event == "refused":
                raise sent_error(message)
            elif event in ("narrowed", "narrow-refused"):
                number = message.get("id")
                answer = self._asked.get(number) if isinstance(number, int) else None
                if answer is not None and not answer.done():
                    answer.set_result(message)
            elif not isinstance(event, str):
                raise MalformedError("a message without an event", code="session.control")

    async def end_opening(self, progress: Progress) -> None:
        """End a session that is being opened: the supervisor closes what was admitted, and says when that is done.

        Where it does not answer in time it is killed. Before it asks for admission, there is no session to close.
        """
        with suppress(AffiantError, TimeoutError):
            async with asyncio.timeout(_OPENING_ENDS_WITHIN_S):
                await self.tell({"op": "finish", "why": "killed"})
                await self.expect({"finished"}, progress)
                return
        if self._may_be_admitted and not self._service.ended:
            with suppress(AffiantError, TimeoutError):
                async with asyncio.timeout(_LEAVES_WITHIN_S):
                    await self.expect({"finished"}, progress)
                    return
        await self._service.stop(grace_s=0)

    async def _lost(self) -> StateError:
        code = await self._service.stop(grace_s=_LEAVES_WITHIN_S)
        return StateError(
            "the supervisor ended without saying why",
            found=f"exit status {code}: {self._service.last_words or 'it said nothing'}",
            code="session.supervisor_lost",
        )

    async def stop(self) -> None:
        """Close the control socket, give the supervisor its time to leave, then kill what is left. Idempotent."""
        self._control.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LEAVES_WITHIN_S):
                await self._service.wait()
        await self._service.stop(grace_s=0)


def run_message(argv: Sequence[str], env: Mapping[str, str], cwd: str | None) -> Mapping[str, object]:
    """The request to run a command; its standard streams come with it."""
    return {"op": "run", "argv": list(argv), "env": dict(env), "cwd": cwd}
