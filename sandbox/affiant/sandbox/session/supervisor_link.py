"""The launcher's half of a supervisor's life: start it, provision it, drive it, and know when it is gone.

::

    launcher -> provision, finish                supervisor -> progress, ready, finished, refused (then it ends)
    launcher -> run, signal, resize, narrow      supervisor -> started, exited, narrowed, narrow-refused, rejected
    launcher -> files, port, port-close, metrics supervisor -> files, opened, closed, metrics, rejected

The requests of the second line are *acts*. Each carries an ``id`` that this side chooses, and every event about it
carries that ``id``. Any number of acts can be under way at once. ``rejected`` ends an act with an error, and the
session goes on.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from affiant.attestation.release.boot import Image
from affiant.errors import AffiantError, MalformedError, StateError
from affiant.sandbox.base.exposure import Need
from affiant.sandbox.base.template_order import open_template
from affiant.sandbox.base.threads import abandonable
from affiant.sandbox.processes.home import Home
from affiant.sandbox.processes.service_process import ServiceProcess, ServiceSpec, start_service
from affiant.sandbox.processes.template_service import template_socket
from affiant.sandbox.session.session_plan import SessionPlan
from affiant.sandbox.supervisor.launch.control import ControlChannel, sent_error

__all__ = ["Act", "Progress", "SupervisorLink", "run_message", "start_supervisor"]

Progress = Callable[[str, Mapping[str, object]], None]
"""Receives what a session is doing: a step's name, and what else is known."""

_LEAVES_WITHIN_S: Final = 5.0
_OPENING_ENDS_WITHIN_S: Final = 1.2
_ATTESTED: Final = "attested"
"""The supervisor's last step before it asks the gateway for admission."""


def _unheard(step: str, detail: Mapping[str, object]) -> None:
    """No progress is shown."""


async def start_supervisor(
    home: Home,
    plan: SessionPlan,
    progress: Progress,
    *,
    td: int | None,
    membership: int,
    echo: bool,
) -> SupervisorLink:
    """Start the supervisor of ``plan`` with its TD's descriptor; ours is closed. None: in the TD that we run in.

    In a thread, because a template process may take seconds to answer. If the wait is cancelled, it is stopped again.

    It stays root, where we are, until it has started its runner and its broker. It may see the session's folder,
    the runtime and the root file system that were asked for, its code, and nothing else of closed folders.

    Args:
        membership: what keeps the services running; inherited, so that they outlive us if they must.
    """
    starting = asyncio.ensure_future(abandonable(lambda: _started(home, plan, td, membership, echo=echo)))
    try:
        ours, service = await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait({starting})  # it uses descriptors of its caller's
        if starting.exception() is None:
            ours, service = starting.result()
            ours.close()
            await service.stop(grace_s=0)
        raise
    return SupervisorLink(ControlChannel(ours), service, progress)


def _started(
    home: Home, plan: SessionPlan, td: int | None, membership: int, *, echo: bool
) -> tuple[socket.socket, ServiceProcess]:
    """Our end of its control socket, and the process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)  # both close on exec
    folder, template = home.session(plan.session), open_template(template_socket(home))
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
                template=template,
            )
    except BaseException:  # closed whatever happened, and raised again
        ours.close()
        raise
    finally:
        if template is not None:
            os.close(template)
        if td is not None:
            os.close(td)
    return ours, service


class Act:
    """One request to the supervisor, by its number, and the events about it in their order."""

    __slots__ = ("_events", "_link", "number")

    def __init__(self, link: SupervisorLink, number: int) -> None:
        self.number = number
        self._link = link
        self._events: asyncio.Queue[Mapping[str, object] | AffiantError] = asyncio.Queue()

    async def tell(self, message: Mapping[str, object], descriptors: Mapping[str, int] | None = None) -> None:
        """Send a message about this act."""
        await self._link.tell({**message, "id": self.number}, descriptors)

    async def next(self) -> Mapping[str, object]:
        """The next event.

        Raises:
            StateError: the supervisor rejected the act, or the session has ended; under the error's own code.
        """
        event = await self._events.get()
        if isinstance(event, Mapping):
            if event.get("event") != "rejected":
                return event
            event = sent_error(event)
        self._events.put_nowait(event)  # a second call raises it again
        raise event

    def put(self, event: Mapping[str, object] | AffiantError) -> None:
        """Take an event, or why there will be no more."""
        self._events.put_nowait(event)


class SupervisorLink:
    """A running supervisor, by its control socket. :meth:`stop` it, whatever happened.

    Args:
        progress: receives what the supervisor reports beside its answers.
    """

    def __init__(
        self, control: ControlChannel, service: ServiceProcess, progress: Progress = _unheard
    ) -> None:
        self._control = control
        self._service = service
        self._progress = progress
        self._may_be_admitted = False
        self._acts: dict[int, Act] = {}
        self._number = 0
        self._own = Act(self, -1)
        self._ended: AffiantError | None = None
        """Why no act is answered any more; known first, kept."""
        self._reading: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """The supervisor's process id."""
        return self._service.pid

    @property
    def forked(self) -> bool:
        """Whether a template process forked it; else an interpreter of its own was started."""
        return self._service.forked

    async def tell(self, message: Mapping[str, object], descriptors: Mapping[str, int] | None = None) -> None:
        """Send one message; a supervisor that is gone is noticed where its answer is awaited."""
        with suppress(ConnectionError):
            await self._control.send(message, descriptors)

    @contextmanager
    def act(self) -> Iterator[Act]:
        """An act with a number of its own, for the length of the block; one begun too late hears why."""
        act = Act(self, self._number)
        self._number += 1
        self._acts[act.number] = act
        if self._ended is None:
            self._listen()
        else:
            act.put(self._ended)
        try:
            yield act
        finally:
            del self._acts[act.number]

    async def ask(
        self, message: Mapping[str, object], descriptors: Mapping[str, int] | None = None
    ) -> Mapping[str, object]:
        """The event that answers an act of one question.

        Raises:
            AffiantError: the supervisor rejected it, or the session has ended.
        """
        with self.act() as act:
            await act.tell(message, descriptors)
            return await act.next()

    def abandon(self, reason: AffiantError) -> None:
        """No act is answered any more, also none that is begun later. The first reason counts."""
        if self._ended is None:
            self._ended = reason
            for act in self._acts.values():
                act.put(reason)

    async def expect(self, events: Collection[str]) -> Mapping[str, object]:
        """The next event about the session itself of a kind in ``events``.

        Raises:
            StateError: the supervisor's error, under its own code.
            ``session.supervisor_lost``: it is gone without a word.
        """
        self._listen()
        while True:
            message = await self._own.next()
            if message.get("event") in events:
                return message

    def _listen(self) -> None:
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        """Hand out what comes, until the supervisor has ended; then say so to everyone who waits."""
        try:
            while (received := await self._control.receive()) is not None:
                received.close()
                self._take(received.members)
            ended: AffiantError = await self._lost()
        except AffiantError as error:
            ended = error
        self.abandon(ended)
        self._own.put(ended)

    def _take(self, message: Mapping[str, object]) -> None:
        """Hand out one event.

        Raises:
            AffiantError: the supervisor ended the session, or this is no event.
        """
        event, number, detail = (message.get(name) for name in ("event", "id", "detail"))
        if not isinstance(event, str):
            raise MalformedError("a message without an event", code="session.control")
        if event == "refused":
            raise sent_error(message)
        if event == "progress":
            self._may_be_admitted |= message.get("step") == _ATTESTED
            self._progress(str(message.get("step")), detail if isinstance(detail, dict) else {})
        elif number is None:
            self._own.put(message)
        elif isinstance(number, int) and number in self._acts:
            self._acts[number].put(message)

    async def end_opening(self) -> None:
        """End a session that is being opened: the supervisor closes what was admitted, and says when that is done.

        Where it does not answer in time it is killed. Before it asks for admission, there is no session to close.
        """
        with suppress(AffiantError, TimeoutError):
            async with asyncio.timeout(_OPENING_ENDS_WITHIN_S):
                await self.tell({"op": "finish", "why": "killed"})
                await self.expect({"finished"})
                return
        if self._may_be_admitted and not self._service.ended:
            with suppress(AffiantError, TimeoutError):
                async with asyncio.timeout(_LEAVES_WITHIN_S):
                    await self.expect({"finished"})
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
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})
        self.abandon(StateError("the session is closed", code="session.not_open"))
        self._control.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LEAVES_WITHIN_S):
                await self._service.wait()
        await self._service.stop(grace_s=0)


def run_message(
    argv: Sequence[str], env: Mapping[str, str], cwd: str | None, terminal: tuple[int, int] | None = None
) -> Mapping[str, object]:
    """The request to run a command; its standard streams come with it.

    Args:
        terminal: rows and columns of the terminal that the command gets; None: it gets pipes.
    """
    size = None if terminal is None else list(terminal)
    return {"op": "run", "argv": list(argv), "env": dict(env), "cwd": cwd, "terminal": size}
