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

*Children.* A session that another session's agent started takes from that session's limits too, and so on upwards: a
request or call takes from all of them or from none. Above, a call counts under every rule for a tool of its name.

*Restricted.* When the session's profile is restricted, what was used stays used (:meth:`SessionLimits.restricted`):
a limit of the whole profile holds for what came before it too, tokens as far as upstreams stated them; the rate of a
rule for what rules for that tool have counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from affiant.gateway.dialects.response_bound import ResponseBound
from affiant.policy.decision.call_meters import CallMeters
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.decision.limit_errors import (
    LimitReached,
    ModelRequestsSpent,
    ResponseTooLong,
    ResponseUnbounded,
    TokensSpent,
    limit_reached,
)
from affiant.policy.decision.meters import Charge, Meter

__all__ = ["CountedCall", "Reservation", "SessionLimits", "spent"]

_REFUSED: Final = frozenset(range(400, 500)) - {408}
"""Statuses by which an upstream says that it did nothing; some answer 408 when the model took too long."""


class CountedCall(Protocol):
    """A call that is let through."""

    @property
    def name(self) -> str:
        """The tool."""
        ...

    @property
    def rules(self) -> Sequence[str]:
        """The rules that allow it."""
        ...


@dataclass(frozen=True, slots=True)
class Reservation:
    """What one request has taken: a request, and tokens, each where there is a limit."""

    request: Charge
    tokens: Charge
    above: tuple[SessionLimits, Reservation] | None = None
    """What it has taken of the limits of the session that started this one."""


class SessionLimits:
    """The meters of one session; calls are counted in models' answers, and with room of their own at the tool gate.

    Args:
        above: the limits of the session that started this one, from which everything is taken too; None: of none.
    """

    def __init__(self, policy: CompiledPolicy, *, above: Callable[[], SessionLimits] | None = None) -> None:
        self._policy = policy
        self.above = above
        limits = policy.limits
        self._requests = Meter(limits.requests, remembers=True)
        self._tokens = Meter(limits.tokens, remembers=True)
        self.answered_calls = CallMeters(policy)
        self.gate_calls = CallMeters(policy)

    def restricted(self, policy: CompiledPolicy) -> SessionLimits:
        """The meters of the same session under a restricted profile; no request of its own may be under way.

        What a child's request under way has taken stays taken, also what it gives back later.
        """
        made = SessionLimits(policy, above=self.above)
        made._requests = self._requests.narrowed(policy.limits.requests)
        made._tokens = self._tokens.narrowed(policy.limits.tokens)
        made.answered_calls = self.answered_calls.restricted(policy)
        made.gate_calls = self.gate_calls.restricted(policy)
        return made

    def reserve(
        self, model: str, answer: ResponseBound, *, rules: Sequence[str], size: int, now: int
    ) -> Reservation:
        """Take what a request may cost, here and from the limits above, or nothing.

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
        taken = Reservation(self._requests.charge(1, now=now), charge)
        if self.above is None:
            return taken
        above = self.above()
        try:
            return replace(
                taken, above=(above, above.reserve(model, answer, rules=rules, size=size, now=now))
            )
        except LimitReached as error:
            self.settle(taken, sends=0, status=0, used=None)
            raise _of_parent(error) from None

    def settle(self, reservation: Reservation, *, sends: int, status: int, used: int | None) -> None:
        """What became of a request; see :func:`spent`."""
        self._requests.settle(reservation.request, sends)
        tokens = reservation.tokens
        self._tokens.settle(tokens, spent(tokens.amount, sends=sends, status=status, used=used))
        if reservation.above is not None:
            limits, taken = reservation.above
            limits.settle(taken, sends=sends, status=status, used=used)

    def take_answered(self, calls: Sequence[CountedCall], *, now: int) -> None:
        """Take room for calls in a model's answer, here and from the limits above, for all of them or for none.

        Raises:
            ToolCallsSpent, ToolRateReached: there is none for one of them.
        """
        self._take(lambda limits: limits.answered_calls, calls, now=now)

    def take_gate(self, calls: Sequence[CountedCall], *, now: int) -> None:
        """The same for calls at the tool gate."""
        self._take(lambda limits: limits.gate_calls, calls, now=now)

    def _take(
        self, meters: Callable[[SessionLimits], CallMeters], calls: Sequence[CountedCall], *, now: int
    ) -> None:
        taken = [meters(self).take([call.rules for call in calls], now=now)]
        above = self.above
        try:
            while above is not None:
                limits = above()
                taken.append(meters(limits).take_of_child([call.name for call in calls], now=now))
                above = limits.above
        except LimitReached as error:
            for each in taken:
                each.give_back()
            raise _of_parent(error) from None


def _of_parent(error: LimitReached) -> LimitReached:
    """``error``, which says whose limit it is."""
    error.hint = "It is a limit of the session that started this one"
    return error


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


def _bounded(answer: ResponseBound, most: int | None, rules: Sequence[str]) -> int:
    """The tokens that each answer may have, which the request must say."""
    if answer.tokens is None:
        raise ResponseUnbounded(
            f"the profile bounds tokens, and the request does not say how many it asks for{answer.why}",
            rules=rules,
            expected="max_completion_tokens, max_output_tokens or max_tokens, a whole number of 1 or more",
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
