"""How many records an agent may cause in a time: a flood of them would fill the journals and hide what matters.

A denied request costs an agent nothing and costs the session a record, here or at the gateway. So both are counted.
What was counted is forgotten evenly, all of it within an hour, so that a session may last as long as it is let.
When the budget is spent, the agent is stopped and the session is closed as ``policy``; what was begun before still gets
its outcome, and one last ``refusal`` says ``session.budget`` (``closing``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from affiant.errors import AffiantError
from affiant.sandbox.egress.http.errors import RecordBudgetSpent, RecordsUnavailable
from affiant.sandbox.egress.records_of_egress import Hidden, RecordSink

__all__ = ["RecordBudget", "RecordLimits"]

_REFUSALS: Final = 4_000
"""An agent that was refused so often does not work, it attacks: 4,000 are far beyond any retry loop."""

_RECORDS: Final = 12_000
"""Three requests each second, all day. A usual record takes 3 to 5 KiB, so that is 60 MiB an hour at most."""

_REFILL_NS: Final = 3600 * 10**9
"""Nanoseconds after which a spent budget would be whole again."""


@dataclass(frozen=True, slots=True)
class RecordLimits:
    """At once, and again each hour. ``refusals``: of what the agent asked for; ``records``: of all that it causes."""

    refusals: int = _REFUSALS
    records: int = _RECORDS

    def lowered(self, refusals: int | None) -> RecordLimits:
        """These limits, or fewer refusals: never more."""
        return self if refusals is None else RecordLimits(min(self.refusals, refusals), self.records)


class _Level:
    """How many of ``most`` are counted now: each count adds one, and ``most`` are forgotten in an hour."""

    def __init__(self, most: int, nanoseconds: Callable[[], int]) -> None:
        self._most, self._nanoseconds = most, nanoseconds
        self._then = nanoseconds()
        self.count = 0

    def add(self) -> bool:
        """Count one more; whether that was the last."""
        forgotten = (self._nanoseconds() - self._then) * self._most // _REFILL_NS
        self._then += forgotten * _REFILL_NS // self._most
        self.count = max(0, self.count - forgotten) + 1
        return self.count >= self._most


class RecordBudget:
    """The session's chain as the proxy sees it, until the budget is spent (:class:`~.records_of_egress.RecordSink`).

    Args:
        nanoseconds: a clock that never goes back.
    """

    def __init__(self, sink: RecordSink, limits: RecordLimits, *, nanoseconds: Callable[[], int]) -> None:
        self._sink = sink
        self._limits = limits
        self._refusals = _Level(limits.refusals, nanoseconds)
        self._records = _Level(limits.records, nanoseconds)
        self.spent: asyncio.Future[AffiantError] = asyncio.get_running_loop().create_future()
        """Done when the agent must be stopped, with the reason."""

    async def record(
        self,
        kind: str,
        members: Mapping[str, object],
        hidden: Hidden,
        *,
        acknowledged: bool = False,
        cseq: int | None = None,
    ) -> str:
        """Write one record. What ends something that was begun is written also when the budget is spent.

        Raises:
            RecordsUnavailable: as the chain; and for everything new once the budget is spent.
        """
        if cseq is None and members.get("ph") != "outcome":
            self._require()
        self._count(refused=kind == "refusal")
        return await self._sink.record(kind, members, hidden, acknowledged=acknowledged, cseq=cseq)

    def begin_counted(self) -> None:
        """A request that the gateway will have a record of is about to be sent.

        Raises:
            RecordsUnavailable: the budget is spent, so it is not sent.
        """
        self._require()
        self._count(refused=False)

    def refused_by_gateway(self) -> None:
        """The gateway has refused a request of the agent's, and perhaps recorded that."""
        self._count(refused=True)

    def _require(self) -> None:
        if self.spent.done():
            raise RecordsUnavailable("the session's budget of records is spent")

    def _count(self, *, refused: bool) -> None:
        over = self._records.add()
        if refused:
            over = self._refusals.add() or over
        if over and not self.spent.done():
            limits = self._limits
            self.spent.set_result(
                RecordBudgetSpent(
                    "the agent has caused too many records, so it was stopped",
                    expected=f"fewer than {limits.refusals} refusals and {limits.records} records in an hour",
                    found=f"{self._refusals.count} refusals, {self._records.count} records",
                )
            )
