"""Bills over time spans: counts and sums of a span against those of the receipts signed inside of it. Pure.

A receipt's time is its signer's, a bill's is the upstream's: a receipt within the tolerance of a span's border may
belong to the next one. So each number of the receipts is an interval: without and with those at the borders, and with
those that were cut off before their end, and may not have been billed.

| the bill says | state |
|---|---|
| the number, everywhere that both sides have one | matched |
| more than the receipts can be | missing: something was billed that no receipt knows |
| less, or only inside of the interval | ambiguous |
| nothing that could be compared | ambiguous |

A number is compared only if every receipt of the span discloses it; else the row's note says how many do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from affiant.attestation.audit.reconcile.claims import Claim
from affiant.attestation.audit.reconcile.results import State
from affiant.attestation.audit.records_of_others.bill import BilledSpan

__all__ = ["SPANS", "BucketEnd", "judge_buckets"]

SPANS: Final[Mapping[str, int]] = {"hour": 3_600_000, "day": 86_400_000}
"""What a bill's row may cover, milliseconds; spans begin at whole hours or days, UTC."""


@dataclass(frozen=True, slots=True)
class BucketEnd:
    """What became of one span and model.

    Args:
        lines: of the bill, all rows of this span and model together; none: the bill has no such row.
        claims: those whose own time is inside of the span.
    """

    begun: int
    model: str
    lines: tuple[int, ...]
    state: State
    claims: tuple[Claim, ...]
    notes: tuple[str, ...]


_NUMBERS: Final = {"requests": "requests", "tokens_in": "input tokens", "tokens_out": "output tokens"}


@dataclass(frozen=True, slots=True)
class _Held:
    """A claim that a span may hold: ``inside`` by its own time, ``sure`` if no tolerance could move it out."""

    claim: Claim
    inside: bool
    sure: bool


@dataclass(frozen=True, slots=True)
class _Number:
    """One number of the receipts of a span: surely, by their own times, at most."""

    least: int
    exact: int
    most: int

    def state(self, billed: int) -> State:
        """What the bill's number is worth beside it."""
        if billed == self.exact:
            return State.MATCHED
        return State.MISSING if billed > self.most else State.AMBIGUOUS

    def __str__(self) -> str:
        if self.least == self.most:
            return str(self.exact)
        return f"{self.exact} ({self.least} to {self.most} with those that may count elsewhere)"


def judge_buckets(
    rows: Iterable[tuple[int, BilledSpan]], claims: Sequence[Claim], *, span: int, tolerance: int
) -> Iterator[BucketEnd]:
    """Each span and model, in order of time and model: of the bill, and without lines those that only receipts have.

    Args:
        claims: answered requests to models.
        span, tolerance: milliseconds.
    """
    billed: dict[tuple[int, str], list[tuple[int, BilledSpan]]] = {}
    for line, row in rows:
        billed.setdefault((row.begun, row.model), []).append((line, row))
    held = _held(claims, span, tolerance)
    own = {(_begin(claim.at, span), _model(claim)) for claim in claims if claim.expected}
    for key in sorted({*billed, *own}):
        if key in billed:
            yield _judge(key, billed[key], held.get(key, []))
        else:
            yield BucketEnd(*key, (), State.MATCHED, _inside(held[key]), ("the bill has no such row",))


def _begin(at: int, span: int) -> int:
    return at - at % span


def _model(claim: Claim) -> str:
    return claim.facts.model or ""


def _held(claims: Sequence[Claim], span: int, tolerance: int) -> Mapping[tuple[int, str], list[_Held]]:
    """Claims of each span and model, those within ``tolerance`` of its borders included."""
    held: dict[tuple[int, str], list[_Held]] = {}
    for claim in claims:
        own = _begin(claim.at, span)
        begins = {_begin(at, span) for at in (claim.at - tolerance, claim.at, claim.at + tolerance)}
        for begun in begins:
            inside = begun == own
            one = _Held(claim, inside, sure=inside and len(begins) == 1)
            held.setdefault((begun, _model(claim)), []).append(one)
    return held


def _judge(key: tuple[int, str], rows: Sequence[tuple[int, BilledSpan]], held: Sequence[_Held]) -> BucketEnd:
    notes: list[str] = []
    states: set[State] = set()
    for name, label in _NUMBERS.items():
        stated = [getattr(row, name) for _, row in rows]
        if None in stated:
            continue
        number = _number(name, held)
        if isinstance(number, str):
            notes.append(f"{label} not compared: {number}")
            continue
        total = sum(stated)
        states.add(number.state(total))
        notes.append(f"{label}: billed {total}, receipts {number}")
    if not states:
        notes.append("nothing could be compared")
    worst = next((each for each in (State.MISSING, State.AMBIGUOUS) if each in states), None)
    state = worst or (State.MATCHED if states else State.AMBIGUOUS)
    return BucketEnd(*key, tuple(line for line, _ in rows), state, _inside(held), tuple(notes))


def _inside(held: Sequence[_Held]) -> tuple[Claim, ...]:
    return tuple(each.claim for each in held if each.inside)


def _number(name: str, held: Sequence[_Held]) -> _Number | str:
    """The receipts' own number; or why there is none."""
    values = [1 if name == "requests" else getattr(each.claim.facts, name) for each in held]
    hidden = sum(value is None for value in values)
    if hidden:
        return f"{hidden} of {len(held)} receipts do not disclose theirs"
    counted = [(each, value) for each, value in zip(held, values, strict=True) if each.claim.expected]
    return _Number(
        least=sum(value for each, value in counted if each.sure),
        exact=sum(value for each, value in counted if each.inside),
        most=sum(values),
    )
