"""The session's decision log: lines of what was decided, appended to the file whose descriptor the launcher gave.

The file is another user's, in a folder that this process cannot see; it can append to it and not read it. Once a line
cannot be written, no decision is taken any more and the session ends: a log that was asked for and has holes would be
believed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.decision.decide import Decision
from affiant.policy.decision.questions import PathQuestion, Question, SecretQuestion
from affiant.policy.decision_log.file import DecisionFile, DecisionsUnavailable
from affiant.policy.decision_log.record import DecidedBy, decision_line
from affiant.policy.model.profile import PathMode

__all__ = ["SessionDecisions"]


class SessionDecisions:
    """The decision log of one session; a ``DecisionSink``.

    Args:
        clock: the present time, UTC.
        nanoseconds: a clock that never goes back.
    """

    def __init__(
        self,
        file: DecisionFile,
        by: DecidedBy,
        *,
        clock: Callable[[], datetime],
        nanoseconds: Callable[[], int],
    ) -> None:
        self._file = file
        self._by = by
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
