"""An open session at the launcher's service, and everything whose loss ends it.

The launcher asks for acts (``acts``): commands to run, requests to restrict the profile. It sends signals to
commands, and says finish. The session ends too when the launcher's socket closes, when records can no longer be kept,
when the gateway is gone or about to be stopped, when the agent has caused too many records, when the broker is gone,
when a decision log that was asked for cannot be written, when the sandbox is lost, when a restriction that began fails,
and when its profile's or the activation's time is over. Whatever it is, :meth:`Serving.until_over` returns an
:class:`Ending`; ending the agent and closing the chain are ``closing``'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final

from affiant.errors import AffiantError, MalformedError, NotFreshError, StateError
from affiant.policy.decision.limit_errors import WallSpent
from affiant.policy.decision.limit_words import most_words
from affiant.policy.model.limits import Bound
from affiant.sandbox.supervisor.activating import OpenSession
from affiant.sandbox.supervisor.acts import Act, Acts, Ending, Handler
from affiant.sandbox.supervisor.agent_runs import Commands
from affiant.sandbox.supervisor.files import SessionFiles
from affiant.sandbox.supervisor.launch.control import ControlChannel, Message
from affiant.sandbox.supervisor.launch.errors import BrokerLost, RestrictionError
from affiant.sandbox.supervisor.launch.restriction_request import (
    parse_restriction_request,
    refused_answer,
)
from affiant.sandbox.supervisor.ports import SessionPorts
from affiant.sandbox.supervisor.starting import Surroundings

__all__ = ["Serving"]

_WHY: Final = frozenset({"done", "killed"})
_RESTRICTIONS_AT_ONCE: Final = 4
_RESTRICTED_WITHIN_S: Final = 10.0
"""So long a session that is being closed waits for a restriction that cannot be taken back any more."""
_BEFORE_EXPIRY_S: Final = 5.0
"""The agent is stopped so many seconds before the session's time limit: its last records must still be taken."""


class Serving:
    """Serves one launcher."""

    def __init__(self, session: OpenSession, channel: ControlChannel, around: Surroundings) -> None:
        self._session = session
        self._channel = channel
        self._around = around
        self._failed: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._restricting: set[asyncio.Task[None]] = set()
        self._since = asyncio.get_running_loop().time()
        self._acts = Acts(self._tell, self._fail)
        commands = Commands(session, around.random_bytes)
        self._ports = SessionPorts(session)
        self._handlers: Mapping[str, Handler] = {
            "run": commands.run,
            "metrics": commands.measure,
            "narrow": self._restricted,
            "files": SessionFiles(session).handle,
            "port": self._ports.handle,
        }
        self._notices: Mapping[str, Callable[[Mapping[str, object]], None]] = {
            **commands.notices,
            "port-close": self._ports.close,
            "answer": session.requests.answer,
        }

    @property
    def acts(self) -> tuple[asyncio.Task[None], ...]:
        """The acts under way."""
        return self._acts.tasks

    async def until_over(self) -> Ending:
        """Serve until the session is to end."""
        session, decisions = self._session, self._session.decisions
        watchers = [
            asyncio.ensure_future(watcher)
            for watcher in (
                self._launcher(),
                _resolved("policy", session.records.stopped),
                _resolved("killed", session.records.lost),
                _resolved("killed", session.drained),
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
            self._ports.close_all()
            left = [*watchers, *self._restricting]
            for each in left:
                each.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _launcher(self) -> Ending:
        while (message := await self._received()) is not None:
            asked = str(message.members.get("op"))
            try:
                if asked == "finish":
                    message.close()
                    why = message.members.get("why")
                    return Ending(why if isinstance(why, str) and why in _WHY else "killed")
                if asked in self._handlers:
                    self._acts.begin(message, self._handlers[asked])
                    await asyncio.sleep(0)  # its handler takes the act up before a notice about it is read
                elif asked in self._notices:
                    message.close()
                    await asyncio.sleep(
                        0
                    )  # the act that it is about may have come with it: that begins first
                    self._notices[asked](message.members)
                else:
                    message.close()
                    raise MalformedError("unknown operation", found=ascii(asked[:40]), code="session.control")
            except MalformedError as error:
                return Ending("killed", error)
        return Ending("killed", orphaned=True)

    async def _received(self) -> Message | None:
        try:
            return await self._channel.receive()
        except AffiantError as error:  # what comes next on this socket is not known any more
            self._fail(Ending("killed", error))
            await asyncio.get_running_loop().create_future()
            raise AssertionError("nothing resolves that future") from error

    async def _restricted(self, act: Act) -> Ending | None:
        """Have the profile restricted."""
        act.message.close()
        task = asyncio.current_task()
        assert task is not None
        self._restricting.add(task)
        task.add_done_callback(self._restricting.discard)
        try:
            if len(self._restricting) > _RESTRICTIONS_AT_ONCE:
                raise StateError(
                    "too many requests to restrict at once",
                    expected=_RESTRICTIONS_AT_ONCE,
                    code="session.narrowing_busy",
                )
            result = await self._session.restrictor.restrict(parse_restriction_request(act.message.members))
        except RestrictionError as failed:
            return await self._not_restricted(act.number, failed)
        except AffiantError as refusal:
            await self._tell(refused_answer(act.number, refusal))
        except Exception as error:  # noqa: BLE001 - a mistake of ours: what is in force now is not known for sure
            name = type(error).__name__
            mistake = RestrictionError("the profile could not be restricted", found=name)
            return await self._not_restricted(act.number, mistake)
        else:
            await self._tell(result.to_json(act.number))
        return None

    async def _not_restricted(self, number: int, failed: RestrictionError) -> Ending:
        await self._tell(refused_answer(number, failed))
        return Ending("policy", failed)

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
        return Ending("killed", NotFreshError("the session reached its time limit", code="session.expired"))


async def _resolved(why: str, reason: Awaitable[AffiantError]) -> Ending:
    return Ending(why, await asyncio.shield(reason))
