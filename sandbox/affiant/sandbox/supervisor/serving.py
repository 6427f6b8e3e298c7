"""An open session at the launcher's service, and everything whose loss ends it.

The launcher runs a command, sends signals, passes on requests to restrict the profile, and says finish. The session
ends too when the launcher's socket closes, when records can no longer be kept, when the gateway is gone, when the
agent has caused too many records, when the broker is gone, when a decision log that was asked for cannot be written,
when the sandbox is lost, when a restriction that began fails, and when its profile's or the activation's time is
over. Whatever it is, :meth:`Serving.until_over` returns an :class:`Ending`; ending the agent and closing the chain
are ``closing``'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from affiant.errors import AffiantError, MalformedError, NotFreshError, StateError
from affiant.policy.decision.limit_errors import WallSpent
from affiant.policy.decision.limit_words import most_words
from affiant.policy.model.limits import Bound
from affiant.sandbox.isolation.plan.plan import Command
from affiant.sandbox.supervisor.activating import OpenSession
from affiant.sandbox.supervisor.command_execution import AgentRun, RunServices
from affiant.sandbox.supervisor.launch.control import ControlChannel, Message
from affiant.sandbox.supervisor.launch.environment import agent_environment
from affiant.sandbox.supervisor.launch.errors import BrokerLost, RestrictionError
from affiant.sandbox.supervisor.launch.restriction_request import (
    parse_restriction_request,
    refused_answer,
    restriction_id,
)
from affiant.sandbox.supervisor.launch.user_streams import UserStreams
from affiant.sandbox.supervisor.starting import Surroundings

__all__ = ["Ending", "Serving"]

_WHY: Final = frozenset({"done", "killed"})
_RESTRICTIONS_AT_ONCE: Final = 4
_RESTRICTED_WITHIN_S: Final = 10.0
"""So long a session that is being closed waits for a restriction that cannot be taken back any more."""
_BEFORE_EXPIRY_S: Final = 5.0
"""So long before the activation's time is over the agent is stopped: its last records must still be taken."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a session ends: what the close record says, and a refusal if it did not end as asked."""

    why: str
    refusal: AffiantError | None = None
    orphaned: bool = False
    """Whether there is no launcher any more to wait for the end."""


class Serving:
    """Serves one launcher."""

    def __init__(self, session: OpenSession, channel: ControlChannel, around: Surroundings) -> None:
        self._session = session
        self._channel = channel
        self._around = around
        self._run: AgentRun | None = None
        self._running: asyncio.Task[None] | None = None
        self._failed: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._restricting: set[asyncio.Task[None]] = set()
        self._since = asyncio.get_running_loop().time()

    @property
    def running(self) -> asyncio.Task[None] | None:
        """The command that runs, or ran."""
        return self._running

    async def until_over(self) -> Ending:
        """Serve until the session is to end."""
        session, decisions = self._session, self._session.decisions
        watchers = [
            asyncio.ensure_future(watcher)
            for watcher in (
                self._launcher(),
                _resolved("policy", session.records.stopped),
                _resolved("killed", session.records.lost),
                _resolved("policy", session.budget.spent),
                self._broker(),
                *(() if decisions is None else (_resolved("policy", decisions.failed),)),
                self._expiry(),
                self._wall(),
                self._failed,
            )
        ]
        try:
            done, _ = await asyncio.wait(watchers, return_when=asyncio.FIRST_COMPLETED)
            ending: Ending = next(watcher for watcher in watchers if watcher in done).result()
            if not ending.orphaned and self._session.restrictor.committing and self._restricting:
                await asyncio.wait(
                    self._restricting, timeout=_RESTRICTED_WITHIN_S
                )  # not by halves, if that can be had
            return ending
        finally:
            left = [*watchers, *self._restricting]
            for each in left:
                each.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _launcher(self) -> Ending:
        while (message := await self._received()) is not None:
            match message.members.get("op"):
                case "run":
                    self._start(message)
                case "signal":
                    self._signal(message)
                case "narrow":
                    self._restrict(message)
                case "finish":
                    why = message.members.get("why")
                    return Ending(why if isinstance(why, str) and why in _WHY else "killed")
                case other:
                    message.close()
                    refusal = MalformedError(
                        "unknown operation", found=ascii(str(other)[:40]), code="session.control"
                    )
                    return Ending("killed", refusal)
        return Ending("killed", orphaned=True)

    async def _received(self) -> Message | None:
        try:
            return await self._channel.receive()
        except AffiantError as error:  # what comes next on this socket is not known any more
            self._fail(Ending("killed", error))
            await asyncio.get_running_loop().create_future()
            raise AssertionError("nothing resolves that future") from error

    def _start(self, message: Message) -> None:
        descriptors = message.descriptors
        if self._running is not None or not {"stdout", "stderr"} <= set(descriptors):
            message.close()
            self._fail(
                Ending(
                    "killed",
                    MalformedError("a session runs one command, with its streams", code="session.control"),
                )
            )
            return
        user = UserStreams(descriptors.get("stdin"), descriptors["stdout"], descriptors["stderr"])
        session = self._session
        services = RunServices(
            session.runner, session.broker, session.records, session.provision.backend.value
        )
        try:
            self._run = AgentRun(services, self._command(message.members), user)
        except AffiantError as error:
            user.close()
            self._fail(Ending("killed", error))
            return
        self._running = asyncio.create_task(self._run_command(self._run))

    async def _run_command(self, run: AgentRun) -> None:
        telling = asyncio.create_task(self._tell_start(run))
        try:
            code = await run.run()
        except AffiantError as error:
            await asyncio.to_thread(run.user.close)
            self._fail(Ending("killed", error))
            return
        finally:
            telling.cancel()
        await self._tell({"event": "exited", "code": code})

    def _command(self, members: Mapping[str, object]) -> Command:
        argv, env, cwd = members.get("argv"), members.get("env"), members.get("cwd")
        texts = isinstance(argv, list) and all(isinstance(word, str) for word in argv)
        if not texts or not isinstance(argv, list) or not isinstance(env, Mapping):
            raise MalformedError(
                "not a command", expected="argv, env and cwd", where="run", code="session.control"
            )
        random = self._around.random_bytes
        environment = agent_environment(
            proxy_url=self._session.proxy_url,
            placeholders={
                variable: value
                for variables in self._session.placeholders.values()
                for variable, value in variables.items()
            },
            traceparent=f"00-{random(16).hex()}-{random(8).hex()}-01",
            with_runtime=self._session.provision.runtime is not None,
            user={str(name): str(value) for name, value in env.items()},
        )
        return Command(tuple(argv), environment, cwd if isinstance(cwd, str) else "/")

    async def _tell_start(self, run: AgentRun) -> None:
        await run.started.wait()
        await self._tell({"event": "started"})

    def _restrict(self, message: Message) -> None:
        """Have the profile restricted beside everything else; the answer names the request's number."""
        message.close()
        try:
            number = restriction_id(message.members)
        except AffiantError as error:
            self._fail(Ending("killed", error))
            return
        task = asyncio.create_task(self._restricted(number, message.members))
        self._restricting.add(task)
        task.add_done_callback(self._restricting.discard)

    async def _restricted(self, number: int, members: Mapping[str, object]) -> None:
        try:
            if len(self._restricting) > _RESTRICTIONS_AT_ONCE:
                raise StateError(
                    "too many requests to restrict at once",
                    expected=_RESTRICTIONS_AT_ONCE,
                    code="session.narrowing_busy",
                )
            result = await self._session.restrictor.restrict(parse_restriction_request(members))
        except RestrictionError as failed:
            await self._not_restricted(number, failed)
        except AffiantError as refusal:
            await self._tell(refused_answer(number, refusal))
        except Exception as error:  # noqa: BLE001 - a mistake of ours: what is in force now is not known for sure
            name = type(error).__name__
            await self._not_restricted(
                number, RestrictionError("the profile could not be restricted", found=name)
            )
        else:
            await self._tell(result.to_json(number))

    async def _not_restricted(self, number: int, failed: RestrictionError) -> None:
        await self._tell(refused_answer(number, failed))
        self._fail(Ending("policy", failed))

    def _signal(self, message: Message) -> None:
        number = message.members.get("number")
        if self._run is not None and isinstance(number, int):
            self._run.signal(number)

    async def _tell(self, event: Mapping[str, object]) -> None:
        with suppress(OSError):  # the launcher is gone: noticed by the one who reads
            await self._channel.send(event)

    def _fail(self, ending: Ending) -> None:
        if not self._failed.done():
            self._failed.set_result(ending)

    async def _broker(self) -> Ending:
        await self._session.broker.gone()
        return Ending("killed", BrokerLost("the secret broker is gone"))

    async def _wall(self) -> Ending:
        """The profile's own bound, from when commands can be run; one that comes later counts from there too."""
        loop, restrictor = asyncio.get_running_loop(), self._session.restrictor
        while True:
            wall, changed = restrictor.policy.limits.wall, restrictor.changed
            try:
                async with asyncio.timeout(None if wall is None else self._since + wall - loop.time()):
                    await changed.wait()
            except TimeoutError:
                break
        assert wall is not None
        spent = WallSpent(
            "the session has lasted as long as its profile lets it",
            rules=("limits/wall",),
            expected=most_words("wall", (Bound(wall),)),
        )
        return Ending("policy", spent)

    async def _expiry(self) -> Ending:
        left = (self._session.expires - self._around.clock()).total_seconds() - _BEFORE_EXPIRY_S
        await asyncio.sleep(max(left, 0.0))
        return Ending("killed", NotFreshError("the activation's time is over", code="session.expired"))


async def _resolved(why: str, reason: Awaitable[AffiantError]) -> Ending:
    return Ending(why, await asyncio.shield(reason))
