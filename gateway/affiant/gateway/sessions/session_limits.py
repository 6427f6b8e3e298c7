"""What one session may still do at this gateway: its profile's limits, in memory, from its admission to its end.

Every count is of one session, and nothing of it is ever read from a store (trust rules, 1). All of it is decided in one
turn of the event loop, so parallel requests cannot use what another has taken.

*Tokens.* Before a request goes upstream, the most that it can cost is taken from the budget: one token for each byte of
it, and as many as it asks for as answers (``n`` times ``max_completion_tokens``). When its answer is complete, what the
upstream says it was takes the place of that. Where the upstream does not say, or the answer was not complete, all of it
stays taken; where nothing was sent, or the upstream refused the request (400 to 499, but for 408), none. So as long as
the upstream does not state more than that most, the tokens that it states never exceed the budget; what it states
beyond is counted, and whatever follows waits or is refused. A request that went out twice, because a kept connection
broke under it, is two, and the cost of the first is not known.

*Restricted.* When the session's profile is restricted, what was used stays used (:meth:`SessionLimits.restricted`):
a limit of the whole profile holds for what came before it too, tokens as far as upstreams stated them; the rate of a
rule for what rules for that tool have counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from affiant.gateway.dialects.response_bound import ResponseBound
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.decision.limit_errors import (
    LimitReached,
    ModelRequestsSpent,
    ResponseTooLong,
    ResponseUnbounded,
    TokensSpent,
    ToolCallsSpent,
    ToolRateReached,
    limit_reached,
)
from affiant.policy.decision.meters import Charge, Meter
from affiant.policy.model.profile import ToolDenial, ToolRule

__all__ = ["CallMeters", "Reservation", "SessionLimits", "spent"]

_REFUSED: Final = frozenset(range(400, 500)) - {408}
"""Statuses by which an upstream says that it did nothing; some answer 408 when the model took too long."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """What one request has taken: a request, and tokens, each where there is a limit."""

    request: Charge
    tokens: Charge


class SessionLimits:
    """The meters of one session; calls are counted in models' answers, and with room of their own at the tool gate."""

    def __init__(self, policy: CompiledPolicy) -> None:
        self._policy = policy
        limits = policy.limits
        self._requests = Meter(limits.requests, remembers=True)
        self._tokens = Meter(limits.tokens, remembers=True)
        self.answered_calls = CallMeters(policy)
        self.gate_calls = CallMeters(policy)

    def restricted(self, policy: CompiledPolicy) -> SessionLimits:
        """The meters of the same session under a restricted profile; no request may be under way."""
        made = SessionLimits(policy)
        made._requests = self._requests.narrowed(policy.limits.requests)
        made._tokens = self._tokens.narrowed(policy.limits.tokens)
        made.answered_calls = self.answered_calls.restricted(policy)
        made.gate_calls = self.gate_calls.restricted(policy)
        return made

    def reserve(
        self, model: str, answer: ResponseBound, *, rules: Sequence[str], size: int, now: int
    ) -> Reservation:
        """Take what a request may cost, or nothing.

        Args:
            answer: how long its answers may be. rules: those that allow the model.
            size: bytes that go upstream. now: nanoseconds of a clock that never goes back.

        Raises:
            ResponseUnbounded, ResponseTooLong: it does not say, or asks for more than the profile lets this model give.
            TokensSpent, ModelRequestsSpent: there is no room.
        """
        tokens = self._policy.limits.tokens
        most = self._policy.max_tokens(model)
        asked = 0
        if tokens or most is not None:
            asked = _bounded(answer, most, rules or ("limits/tokens",))
        cost = size + asked * answer.answers
        wait = self._requests.wait(1, now=now)
        if wait != 0:
            raise limit_reached(
                ModelRequestsSpent,
                "the profile lets this session make no more requests now",
                name="requests",
                bounds=self._policy.limits.requests,
                wait=wait,
            )
        charge = self._tokens.take(cost, now=now)
        if charge is None:
            raise limit_reached(
                TokensSpent,
                f"the session's budget has no room for the {cost} tokens that this request could cost",
                name="tokens",
                bounds=tokens,
                wait=self._tokens.wait(cost, now=now),
            )
        return Reservation(self._requests.charge(1, now=now), charge)

    def settle(self, reservation: Reservation, *, sends: int, status: int, used: int | None) -> None:
        """What became of a request; see :func:`spent`."""
        self._requests.settle(reservation.request, sends)
        tokens = reservation.tokens
        self._tokens.settle(tokens, spent(tokens.amount, sends=sends, status=status, used=used))


def spent(most: int, *, sends: int, status: int, used: int | None) -> int:
    """The tokens that a request came to.

    Args:
        most: what it counted as until then, in each sending.
        sends: how often anything of it may have gone upstream.
        status: of the upstream's answer; 0: there was none.
        used: tokens that the upstream stated for a complete answer; None: it did not, or it was not.
    """
    if not sends:
        return 0
    last = used
    if last is None:
        last = 0 if status in _REFUSED else most
    return last + most * (sends - 1)


class CallMeters:
    """The meters of calls of tools, at one of the two places where they are let through."""

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
        """As :meth:`SessionLimits.restricted`."""
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

    def take(self, calls: Sequence[Sequence[str]], *, now: int) -> None:
        """Take room for calls, each given by the rules that it fits: for all of them or for none.

        A call needs room under one of its rules; a rule without a rate has room always.

        Raises:
            ToolCallsSpent, ToolRateReached: there is none for one of them.
        """
        wait = self._calls.wait(len(calls), now=now)
        if wait != 0:
            raise limit_reached(
                ToolCallsSpent,
                "the profile lets this session call no more tools now",
                name="tool_calls",
                bounds=self._bounds,
                wait=wait,
            )
        taken: list[tuple[str, Charge]] = []
        for rules in calls:
            if all(rule in self._rates for rule in rules):
                charged = self._charged(rules, now)
                if charged is None:
                    refusal = self._rate_reached(rules, now)
                    for rule, charge in taken:
                        self._rates[rule].settle(charge, 0)
                    raise refusal
                taken.append(charged)
        self._calls.charge(len(calls), now=now)
        for rule, _ in taken:
            tool = self._rules[rule].name
            self._of_tool.setdefault(tool, Meter((), remembers=True)).charge(1, now=now)

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


def _bounded(answer: ResponseBound, most: int | None, rules: Sequence[str]) -> int:
    """The tokens that each answer may have, which the request must say."""
    if answer.tokens is None:
        raise ResponseUnbounded(
            f"the profile bounds tokens, and the request does not say how many it asks for{answer.why}",
            rules=rules,
            expected="max_completion_tokens or max_tokens, a whole number of 1 or more",
            hint="The gateway does not rewrite requests: set it in the client",
        )
    if most is not None and answer.tokens > most:
        raise ResponseTooLong(
            "the request asks for longer answers than the profile lets this model give",
            rules=rules,
            expected=f"at most {most} tokens",
            found=answer.tokens,
        )
    return answer.tokens
