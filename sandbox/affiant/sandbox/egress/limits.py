"""What one session may still send: the egress limits of its profile, in memory, taken before the bytes go out.

A request needs room under one of the rules that let it through; a rule without limits has room always. It counts
against the first that has some, and so does what is sent of its body; the profile's own limit of bytes counts
besides. Bytes are those of the method, target, headers and body as they were judged (placeholders in the place of
secrets), or of a connection that is passed through whatever the agent sends. What a head announces is taken whole
before anything is sent, and not given back if it then is not sent; a body of unknown length piece by piece, each before
it goes on. What goes to the gateway's name is not counted here: the gateway counts it.

When the session's profile is restricted, what was sent stays counted (:meth:`EgressMeters.restricted`), once, however
often that happens: the profile's own limit holds for all that was sent before, a rule's for what rules with limits
have let through to its hosts.

All is decided in one turn of the event loop. No clock is read here: instants are an argument's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from affiant.errors import AffiantError
from affiant.policy.canonical.hosts import is_wildcard, suffix_of
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.decision.limit_errors import BytesSpent, EgressRequestsSpent, LimitReached, limit_reached
from affiant.policy.decision.meters import Meter
from affiant.policy.model.limits import NO_EGRESS_LIMITS, Bounds, EgressLimits
from affiant.policy.model.profile import EgressRule, Scheme
from affiant.sandbox.egress.http.errors import EgressDenied

__all__ = ["EgressMeters", "Passing", "counting"]


@contextmanager
def counting(rules: Sequence[str]) -> Iterator[None]:
    """What cannot be counted does not go out (negative test E21), whatever is wrong with its meters.

    Args:
        rules: those that let it through.

    Raises:
        EgressDenied: ``limit_unavailable``. Refusals pass as they are.
    """
    try:
        yield
    except AffiantError:
        raise
    except Exception as error:
        raise EgressDenied(
            "what would be sent could not be counted", reason="limit_unavailable", rules=tuple(rules)
        ) from error


class _Place(NamedTuple):
    """The hosts that rules speak of, where they are reached."""

    scheme: Scheme
    host: str
    port: int

    @classmethod
    def of(cls, rule: EgressRule) -> _Place:
        return cls(rule.scheme, rule.host, rule.port)


@dataclass(frozen=True, slots=True)
class _Counted:
    """What was let through, without a bound."""

    requests: Meter
    bytes_out: Meter


def _nothing() -> _Counted:
    return _Counted(Meter((), remembers=True), Meter((), remembers=True))


@dataclass(frozen=True, slots=True)
class _Rule:
    """The meters of one rule that has limits.

    ``at_place``: what rules with limits have let through to its place since the session's start, whichever they were.
    """

    id: str
    rule: EgressRule
    requests: Meter
    bytes_out: Meter
    at_place: _Counted

    @classmethod
    def of(cls, rule_id: str, rule: EgressRule, at_place: _Counted) -> _Rule:
        limits = rule.limits
        return cls(
            rule_id,
            rule,
            Meter(limits.requests, remembers=True),
            Meter(limits.bytes_out, remembers=True),
            at_place,
        )

    def counting(self, others: Sequence[_Rule | _Counted]) -> _Rule:
        """The same, having counted what ``others`` have."""
        requests = self.requests.narrowed(self.limits.requests, also=[each.requests for each in others])
        bytes_out = self.bytes_out.narrowed(self.limits.bytes_out, also=[each.bytes_out for each in others])
        return replace(self, requests=requests, bytes_out=bytes_out)

    @property
    def limits(self) -> EgressLimits:
        return self.rule.limits

    def refusal(self, size: int, *, requests: int, now: int) -> LimitReached | None:
        """Why there is no room for so much; None if there is."""
        if requests and (wait := self.requests.wait(requests, now=now)) != 0:
            return _no_more_requests(self.limits.requests, wait, self.id)
        if size and (wait := self.bytes_out.wait(size, now=now)) != 0:
            return _no_more_bytes(self.limits.bytes_out, wait, self.id)
        return None


class EgressMeters:
    """The meters of one session.

    Args:
        nanoseconds: a clock that never goes back.
    """

    def __init__(
        self,
        policy: CompiledPolicy,
        *,
        nanoseconds: Callable[[], int],
        places: Mapping[_Place, _Counted] | None = None,
    ) -> None:
        self._nanoseconds = nanoseconds
        self._places = defaultdict(_nothing, places or {})
        self._whole = policy.limits.bytes_out
        self._bytes_out = Meter(self._whole, remembers=True)
        self._rules: Mapping[str, _Rule] = {
            f"egress/{at}": _Rule.of(f"egress/{at}", rule, self._places[_Place.of(rule)])
            for at, rule in enumerate(policy.policy.egress)
            if isinstance(rule, EgressRule) and rule.limits != NO_EGRESS_LIMITS
        }

    def restricted(self, policy: CompiledPolicy) -> EgressMeters:
        """The meters of the same session under a narrower profile; nothing may be on its way."""
        made = EgressMeters(policy, nanoseconds=self._nanoseconds, places=self._places)
        made._bytes_out = self._bytes_out.narrowed(made._whole)
        made._rules = {
            rule_id: rule.counting(self._counted_for(rule.rule)) for rule_id, rule in made._rules.items()
        }
        return made

    def _counted_for(self, rule: EgressRule) -> Sequence[_Rule | _Counted]:
        """Whose counts ``rule`` takes over: of the same rule but for its limits, else of all that may share a host.

        The latter are each place's own: rules that took counts over before must not hand them on twice.
        """
        bare = replace(rule, limits=NO_EGRESS_LIMITS)
        same = [old for old in self._rules.values() if replace(old.rule, limits=NO_EGRESS_LIMITS) == bare]
        if len(same) == 1:
            return same
        place = _Place.of(rule)
        return [counted for old, counted in self._places.items() if _may_share(old, place)]

    def request(self, rules: Sequence[str], size: int) -> Passing:
        """Let one request through that is known to have ``size`` bytes.

        Args:
            rules: those that allow it.

        Raises:
            EgressRequestsSpent, BytesSpent: there is no room; nothing was taken.
        """
        return self._let_through(rules, size, requests=1)

    def connection(self, rules: Sequence[str]) -> Passing:
        """Let a connection through whose bytes are not read, while there is room for one of them.

        Raises:
            BytesSpent: there is none.
        """
        return self._let_through(rules, 0, requests=0)

    def _let_through(self, rules: Sequence[str], size: int, *, requests: int) -> Passing:
        now = self._nanoseconds()
        wait = self._bytes_out.wait(max(size, 1), now=now)
        if wait != 0:
            raise _no_more_bytes(self._whole, wait, "limits/bytes_out")
        chosen: _Rule | None = None
        if all(rule in self._rules for rule in rules):
            refusals: list[LimitReached] = []
            for rule in (self._rules[rule] for rule in rules):
                refusal = rule.refusal(max(size, 1), requests=requests, now=now)
                if refusal is None:
                    chosen = rule
                    break
                refusals.append(refusal)
            if chosen is None and refusals:
                raise min(refusals, key=_soonest)
        passing = Passing(self._nanoseconds, self._bytes_out, self._whole, chosen)
        passing.count(size, requests=requests, now=now)
        return passing


class Passing:
    """One request, or connection, on its way."""

    def __init__(
        self, nanoseconds: Callable[[], int], whole: Meter, bounds: Bounds, rule: _Rule | None
    ) -> None:
        self._nanoseconds = nanoseconds
        self._whole = whole
        self._bounds = bounds
        self._rule = rule

    def take(self, size: int) -> None:
        """Take room for ``size`` more bytes, before they go on.

        Raises:
            BytesSpent: there is none; they do not go on.
        """
        now = self._nanoseconds()
        wait = self._whole.wait(size, now=now)
        if wait != 0:
            raise _no_more_bytes(self._bounds, wait, "limits/bytes_out")
        if self._rule is not None and (refusal := self._rule.refusal(size, requests=0, now=now)) is not None:
            raise refusal
        self.count(size, requests=0, now=now)

    def count(self, size: int, *, requests: int, now: int) -> None:
        """Count what there was room for."""
        self._whole.charge(size, now=now)
        if self._rule is not None:
            for counted in (self._rule, self._rule.at_place):
                counted.bytes_out.charge(size, now=now)
                counted.requests.charge(requests, now=now)


def _may_share(old: _Place, new: _Place) -> bool:
    """Whether a request to a host of ``new`` may have been let through by ``old``."""
    if (old.port, old.scheme) != (new.port, new.scheme):
        return False
    if not is_wildcard(old.host):
        return old.host == new.host
    host = suffix_of(new.host) if is_wildcard(new.host) else new.host
    return f".{host}".endswith(f".{suffix_of(old.host)}")


def _no_more_requests(bounds: Bounds, wait: int | None, rule: str) -> LimitReached:
    text = "the profile lets this session make no more requests to this host now"
    return limit_reached(EgressRequestsSpent, text, name="requests", bounds=bounds, wait=wait, rules=(rule,))


def _no_more_bytes(bounds: Bounds, wait: int | None, rule: str) -> LimitReached:
    text = "the profile has no room for the bytes of this request now"
    return limit_reached(BytesSpent, text, name="bytes_out", bounds=bounds, wait=wait, rules=(rule,))


def _soonest(refusal: LimitReached) -> float:
    return float("inf") if refusal.retry_after_s is None else refusal.retry_after_s
