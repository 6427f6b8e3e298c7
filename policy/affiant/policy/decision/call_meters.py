"""Counts calls of tools against a profile's limits: ``tool_calls`` for all of them, ``rate`` for those of one rule.

The gateway has meters for models' responses and for its tool gate, the supervisor for the tools that start sessions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.decision.limit_errors import LimitReached, ToolCallsSpent, ToolRateReached, limit_reached
from affiant.policy.decision.meters import Charge, Meter
from affiant.policy.model.profile import ToolDenial, ToolRule

__all__ = ["CallCharge", "CallMeters"]


@dataclass(frozen=True, slots=True)
class CallCharge:
    """What calls have taken."""

    parts: tuple[tuple[Meter, Charge], ...]

    def give_back(self) -> None:
        """Take it back: none of the calls is made."""
        for meter, charge in self.parts:
            meter.settle(charge, 0)


class CallMeters:
    """The meters of calls of tools of one session, at one of the places where they are let through."""

    def __init__(self, policy: CompiledPolicy) -> None:
        self._bounds = policy.limits.tool_calls
        self._rated = policy.tool_rates()
        self._rules = {f"tools/{at}": rule for at, rule in enumerate(policy.policy.tools)}
        self._calls = Meter(self._bounds, remembers=True)
        self._rates: Mapping[str, Meter] = {
            rule: Meter(rate, remembers=True) for rule, rate in self._rated.items()
        }
        self._of_tool: dict[str, Meter] = {}
        """By tool, what its rules with a rate have let through since the session's start, whichever they were."""

    def restricted(self, policy: CompiledPolicy) -> CallMeters:
        """The meters of the same session under a restricted profile: what was used stays used."""
        made = CallMeters(policy)
        made._calls = self._calls.narrowed(made._bounds)
        made._of_tool = self._of_tool
        made._rates = {
            rule: meter.narrowed(made._rated[rule], also=self._counted_for(made._rules[rule]))
            for rule, meter in made._rates.items()
        }
        return made

    def _counted_for(self, rule: ToolRule | ToolDenial) -> Sequence[Meter]:
        """The meters whose counts ``rule`` takes over: of the same rule but for its rate, else of all for that tool."""
        bare = _apart_from_rate(rule)
        same = [meter for old, meter in self._rates.items() if _apart_from_rate(self._rules[old]) == bare]
        if len(same) == 1:
            return same
        counted = self._of_tool.get(rule.name)
        return () if counted is None else (counted,)

    def take(self, calls: Sequence[Sequence[str]], *, now: int) -> CallCharge:
        """Take room for calls, each given by the rules that it fits: for all of them or for none.

        A call needs room under one of its rules; a rule without a rate has room always.

        Raises:
            ToolCallsSpent, ToolRateReached: there is none for one of them.
        """
        self._require_room(len(calls), now)
        taken: list[tuple[Meter, Charge]] = []
        rated: list[str] = []
        for rules in calls:
            if all(rule in self._rates for rule in rules):
                charged = self._charged(rules, now)
                if charged is None:
                    refusal = self._rate_reached(rules, now)
                    CallCharge(tuple(taken)).give_back()
                    raise refusal
                taken.append((self._rates[charged[0]], charged[1]))
                rated.append(charged[0])
        return self._counted(taken, rated, len(calls), now)

    def take_of_child(self, names: Sequence[str], *, now: int) -> CallCharge:
        """Take room for calls of a session that this one's agent started: for all of them or for none.

        Args:
            names: of the tools. A call counts under every rule for a tool of its name, because which of them it fits is
                not asked.

        Raises:
            ToolCallsSpent, ToolRateReached: there is none for one of them.
        """
        self._require_room(len(names), now)
        taken: list[tuple[Meter, Charge]] = []
        rated: list[str] = []
        for name in names:
            for rule, meter in self._rates.items():
                if self._rules[rule].name != name:
                    continue
                charge = meter.take(1, now=now)
                if charge is None:
                    refusal = self._rate_reached((rule,), now)
                    CallCharge(tuple(taken)).give_back()
                    raise refusal
                taken.append((meter, charge))
                rated.append(rule)
        return self._counted(taken, rated, len(names), now)

    def _require_room(self, count: int, now: int) -> None:
        wait = self._calls.wait(count, now=now)
        if wait != 0:
            raise limit_reached(
                ToolCallsSpent,
                "the profile lets this session call no more tools now",
                name="tool_calls",
                bounds=self._bounds,
                wait=wait,
            )

    def _counted(
        self, taken: list[tuple[Meter, Charge]], rated: Sequence[str], count: int, now: int
    ) -> CallCharge:
        """Count calls that have room under their rules."""
        taken.append((self._calls, self._calls.charge(count, now=now)))
        for rule in rated:
            meter = self._of_tool.setdefault(self._rules[rule].name, Meter((), remembers=True))
            taken.append((meter, meter.charge(1, now=now)))
        return CallCharge(tuple(taken))

    def _charged(self, rules: Sequence[str], now: int) -> tuple[str, Charge] | None:
        for rule in rules:
            charge = self._rates[rule].take(1, now=now)
            if charge is not None:
                return rule, charge
        return None

    def _rate_reached(self, rules: Sequence[str], now: int) -> LimitReached:
        waits = [self._rates[rule].wait(1, now=now) for rule in rules]
        return limit_reached(
            ToolRateReached,
            "a tool was called more often than the profile allows",
            name="rate",
            bounds=self._rated[rules[0]],
            wait=min((wait for wait in waits if wait is not None), default=None),
            rules=rules,
        )


def _apart_from_rate(rule: ToolRule | ToolDenial) -> ToolRule | ToolDenial:
    return replace(rule, rate=()) if isinstance(rule, ToolRule) else rule
