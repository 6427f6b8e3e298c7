"""Who did what, when and under which rule, as authentic records say it: for a reader, after the checks.

Made of records whose signatures hold, and of nothing else. Records are grouped by session, and ordered by cause within
it: after those before them in their chain, and after the record of the other signer that they name (``peer``). Only
what no link orders is ordered by the signers' own clocks.

What a record says was chosen by code that was measured, or by an agent that was not. Every text here is hostile, and is
escaped where it is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.verdict.words import words

__all__ = ["MAX_FACTS", "Moment", "moment_of", "ordered", "timeline_of"]

MAX_FACTS: Final = 40
"""Facts that are kept of one record; a count says how many more it has."""

_COMMON: Final = frozenset(
    (
        *("eat_profile", "iss", "jti", "iat", "kind", "cls", "role", "chn", "seq", "prev", "evd"),
        *("eat_nonce", "trc", "par", "lim", "ext", "_sd", "_sd_alg", "agt", "peer", "att"),
    )
)


@dataclass(frozen=True, slots=True)
class Moment:
    """One record.

    Args:
        at: seconds since 1970, by the signer's own clock.
        role: ``gateway`` or ``session``; the supervisor signs as the session.
        session: empty where a gateway's record belongs to none.
        chain, seq: the chain, and the number in it.
        peer: chain and number of the other signer's record that came before this one; None: it names none.
        title: what happened, in our words.
        decision: allow, deny, redact or ask; empty where the record has none.
        rules: the rules that decided, where they were disclosed.
        facts: member -> value, clear and disclosed ones, as text; hostile.
        more: how many facts were left out.
    """

    at: int
    role: str
    session: str
    chain: str
    seq: int
    peer: tuple[str, int] | None
    kind: str
    title: str
    jti: str
    decision: str
    rules: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    more: int


def timeline_of(records: Iterable[VerifiedReceipt]) -> tuple[Moment, ...]:
    """The records, session by session in the order in which these began; within a session by cause."""
    return ordered(map(moment_of, records))


def ordered(moments: Iterable[Moment]) -> tuple[Moment, ...]:
    """``moments`` as :func:`timeline_of` orders records."""
    sessions: dict[str, list[Moment]] = {}
    for moment in sorted(moments, key=lambda each: (each.at, each.chain, each.seq)):
        sessions.setdefault(moment.session, []).append(moment)
    return tuple(moment for those in sessions.values() for moment in _by_cause(those))


def _by_cause(moments: Sequence[Moment]) -> Iterator[Moment]:
    """Each after its causes. Where links run in a circle, which no honest signer makes, the clock decides."""
    places = {(each.chain, each.seq): number for number, each in enumerate(moments)}
    effects: list[list[int]] = [[] for _ in moments]
    causes = [0] * len(moments)
    last: dict[str, int] = {}
    for number in sorted(range(len(moments)), key=lambda each: (moments[each].chain, moments[each].seq)):
        moment = moments[number]
        named = None if moment.peer is None else places.get(moment.peer)
        for cause in (last.get(moment.chain), named):
            if cause is not None and cause != number:
                effects[cause].append(number)
                causes[number] += 1
        last[moment.chain] = number
    ready = [number for number, count in enumerate(causes) if not count]  # their order is the clock's
    done = [False] * len(moments)
    waiting = 0
    for _ in moments:
        if not ready:
            waiting = next(number for number in range(waiting, len(moments)) if not done[number])
            ready.append(waiting)
        number = heappop(ready)
        done[number] = True
        yield moments[number]
        for effect in effects[number]:
            causes[effect] -= 1
            if not causes[effect] and not done[effect]:
                heappush(ready, effect)


def moment_of(record: VerifiedReceipt) -> Moment:
    """One record for a reader."""
    phase = record.member("ph")
    title = words("titles").get(record.kind, record.kind) + (f" ({phase})" if isinstance(phase, str) else "")
    if record.kind == "policy":
        title = f"{title}: epoch {record.member('pol', 'epoch')} from here on"
    rules = record.disclosed.get("pol.rules")
    facts = tuple(_facts(record))
    return Moment(
        at=record.iat,
        role=record.role,
        session=_session(record),
        chain=record.chn,
        peer=_peer(record),
        seq=record.seq,
        kind=record.kind,
        title=title,
        jti=record.jti,
        decision=_text(record.member("pol", "dec")),
        rules=tuple(map(str, rules)) if isinstance(rules, list) else (),
        facts=facts[:MAX_FACTS],
        more=max(0, len(facts) - MAX_FACTS),
    )


def _session(record: VerifiedReceipt) -> str:
    named = _text(record.member("agt", "ses"))
    return named or (_text(record.member("iss")).rpartition(":")[2] if record.role == "session" else "")


def _peer(record: VerifiedReceipt) -> tuple[str, int] | None:
    chain, number = record.member("peer", "chn"), record.member("peer", "seq")
    return (chain, number) if isinstance(chain, str) and isinstance(number, int) else None


def _facts(record: VerifiedReceipt) -> Iterator[tuple[str, str]]:
    for name, value in record.payload.items():
        if name not in _COMMON:
            yield from _flat(name, value)
    for name, value in record.disclosed.values.items():
        if name != "pol.rules":
            yield from _flat(name, value)
    for limit in _list(record.member("lim")):
        yield "limit", str(limit)


def _flat(name: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for inner, each in value.items():
            if inner != "_sd":
                yield from _flat(f"{name}.{inner}", each)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _flat(f"{name}[{index}]", each)
    else:
        yield name, "not named" if value is None else str(value)


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
