"""The session's decision log: lines of what was decided, appended to the file whose descriptor the launcher gave.

What is decided here is appended before it happens. What the gateway decides, about models and tools, is fetched from
it: before an answer of its reaches the agent, again before a stream ends, and when the session ends.

The file is another user's, in a folder that this process cannot see; it can append to it and not read it. Once a line
cannot be written, no decision is taken any more and the session ends: a log that was asked for and has holes would be
believed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from affiant.attestation.encoding.canonical import JSONError, canonical, parse_object
from affiant.errors import AffiantError, UnreachableError
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.decision.decide import Decision
from affiant.policy.decision.questions import PathQuestion, Question, SecretQuestion
from affiant.policy.decision_log.file import DecisionFile, DecisionsUnavailable
from affiant.policy.decision_log.record import DecidedBy, decision_line
from affiant.policy.model.profile import PathMode

__all__ = ["SessionDecisions"]

_MAX_LINE: Final = 64 * 1024


class SessionDecisions:
    """The decision log of one session; a ``DecisionSink``.

    Args:
        ask: has the gateway show its decisions from a number on.
        clock: the present time, UTC.
        nanoseconds: a clock that never goes back.
    """

    def __init__(
        self,
        file: DecisionFile,
        by: DecidedBy,
        *,
        ask: Callable[[int], Awaitable[Mapping[str, object]]],
        clock: Callable[[], datetime],
        nanoseconds: Callable[[], int],
    ) -> None:
        self._file = file
        self._by = by
        self._ask = ask
        self._next = 0
        self._following = asyncio.Lock()
        self._clock = clock
        self._nanoseconds = nanoseconds
        self.failed: asyncio.Future[DecisionsUnavailable] = asyncio.get_running_loop().create_future()
        """Resolves when the log cannot be kept any more."""

    def follow(self, policy: str) -> None:
        """The profile was restricted: the one with this digest decides from now on."""
        self._by = replace(self._by, policy_digest=policy)

    def instant(self) -> int:
        """Nanoseconds of a clock that never goes back."""
        return self._nanoseconds()

    def note(
        self,
        question: Question,
        decision: Decision,
        *,
        took_ns: int = 0,
        surface: str | None = None,
        target_hidden: bool = False,
        size: int | None = None,
    ) -> None:
        """Append one decision.

        Raises:
            DecisionsUnavailable: it is not in the file.
        """
        self.append(
            decision_line(
                self._by,
                question,
                decision,
                ts=int(self._clock().timestamp()),
                secret=question.name if isinstance(question, SecretQuestion) else None,
                surface=surface,
                target_hidden=target_hidden,
                size=size,
                latency_us=took_ns // 1000,
            )
        )

    async def follow_gateway(self) -> None:
        """Append what the gateway has decided since this was called last.

        Raises:
            DecisionsUnavailable: it is not in the file.
            UnreachableError: the gateway does not answer now. What it keeps is fetched the next time.
        """
        async with self._following:
            waiting = True
            while waiting:
                waiting = self._take(await self._asked())

    async def _asked(self) -> Mapping[str, object]:
        try:
            return await self._ask(self._next)
        except UnreachableError:
            raise
        except AffiantError as error:
            unavailable = DecisionsUnavailable(
                "the gateway does not show its decisions about this session", found=error.code
            )
            self.fail(unavailable)
            raise unavailable from error

    def _take(self, said: Mapping[str, object]) -> bool:
        """Append the lines of one answer; whether more wait at the gateway."""
        match said:
            case {"lines": list() as lines, "next": int() as following, "waiting": int() as waiting} if (
                following > self._next
                or (following == self._next and waiting <= 0)  # else it is asked for ever
            ):
                for line in lines:
                    self.append(self._named(line))
                self._next = following
                return waiting > 0
            case _:
                unavailable = DecisionsUnavailable("the gateway's decisions are not of their form")
                self.fail(unavailable)
                raise unavailable

    def _named(self, line: object) -> bytes:
        """A line of the gateway's, which does not know the agent, with the agent in it; another session's is none."""
        try:
            members = parse_object(line.encode("utf-8") if isinstance(line, str) else b"", limit=_MAX_LINE)
            if members.get("session") != self._by.session:
                raise JSONError("a decision about another session")
            return canonical({**members, "agent": self._by.agent}) + b"\n"
        except JSONError as error:
            unavailable = DecisionsUnavailable("the gateway's decisions are not of their form")
            self.fail(unavailable)
            raise unavailable from error

    def append(self, line: bytes) -> None:
        """Append one line that is one.

        Raises:
            DecisionsUnavailable: it is not in the file.
        """
        try:
            self._file.append(line)
        except DecisionsUnavailable as error:
            self.fail(error)
            raise

    def fail(self, error: DecisionsUnavailable) -> None:
        """Have the session end, and nothing be decided until it has."""
        self._file.close()
        if not self.failed.done():
            self.failed.set_result(error)

    def note_mounts(self, policy: CompiledPolicy) -> None:
        """Which files the sandbox was given: decided once, when it is made, and enforced by the kernel from then on.

        Raises:
            DecisionsUnavailable: it cannot be noted.
        """
        for mount in policy.mounts():
            mode = PathMode.READ if mount.mode is PathMode.NONE else mount.mode
            self.note(PathQuestion(mount.path, mode), policy.decide_path(mount.path, mode))
