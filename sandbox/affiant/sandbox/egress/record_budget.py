"""How many records an agent may cause: evidence that grows without bound could not be carried out at its end.

A denied request costs an agent nothing and costs the session a record, here or at the gateway. So both are counted.
When the budget is spent, the agent is stopped and the session is closed as ``policy``; what was begun before still gets
its outcome, and one last ``refusal`` says ``session.budget`` (``closing``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from affiant.errors import AffiantError
from affiant.sandbox.egress.http.errors import RecordBudgetSpent, RecordsUnavailable
from affiant.sandbox.egress.records_of_egress import Hidden, RecordSink

__all__ = ["RecordBudget", "RecordLimits"]

_REFUSALS: Final = 4_000
"""An agent that was refused so often does not work, it attacks: 4,000 are far beyond any retry loop."""

_RECORDS: Final = 12_000
"""A record of the worst kind (256 rules, a sealed opening of 16 KiB) takes about 20 KiB in a bundle of at most
256 MiB; a usual one takes 3 to 5 KiB."""


@dataclass(frozen=True, slots=True)
class RecordLimits:
    """Of one session. ``refusals``: of what the agent asked for; ``records``: of all that it causes."""

    refusals: int = _REFUSALS
    records: int = _RECORDS

    def lowered(self, refusals: int | None) -> RecordLimits:
        """These limits, or fewer refusals: never more."""
        return self if refusals is None else RecordLimits(min(self.refusals, refusals), self.records)


class RecordBudget:
    """The session's chain as the proxy sees it, until the budget is spent (:class:`~.records_of_egress.RecordSink`)."""

    def __init__(self, sink: RecordSink, limits: RecordLimits) -> None:
        self._sink = sink
        self._limits = limits
        self._refusals = 0
        self._records = 0
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
        self._records += 1
        self._refusals += refused
        over = self._refusals >= self._limits.refusals or self._records >= self._limits.records
        if over and not self.spent.done():
            self.spent.set_result(
                RecordBudgetSpent(
                    "the agent has caused too many records, so it was stopped",
                    expected=f"fewer than {self._limits.refusals} refusals and {self._limits.records} records",
                    found=f"{self._refusals} refusals, {self._records} records",
                )
            )
