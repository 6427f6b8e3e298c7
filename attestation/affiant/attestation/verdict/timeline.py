"""Who did what, when and under which rule, as authentic records say it: for a reader, after the checks.

Made of records whose signatures hold, and of nothing else. Order and times are the signers' own; what stands in a
record was chosen by code that was measured, or by an agent that was not: every text here is hostile, and is escaped by
whoever shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from affiant.attestation.records.receipt import VerifiedReceipt

__all__ = ["MAX_FACTS", "Moment", "timeline_of"]

MAX_FACTS: Final = 40
"""Facts that are kept of one record; a count says how many more it has."""

_TITLES: Final[Mapping[str, str]] = {
    "boot": "began a chain of records",
    "inference": "request to a model",
    "refusal": "refused",
    "tool": "let a tool call through",
    "secret": "is about to use a secret",
    "egress": "network request",
    "approval": "recorded an approval",
    "epoch": "was alive",
    "end": "ended its chain of records",
    "erasure": "recorded that something was erased",
    "session-start": "admitted the session",
    "session-close": "closed the session",
    "snapshot": "took a snapshot",
    "fork": "began a child session",
    "handoff": "handed something over",
    "policy": "narrowed the profile",
    "gap": "disclosed what a crash left unaccounted",
    "hold": "recorded a legal hold",
    "exec": "ran a command",
}
_COMMON: Final = frozenset(
    (
        *(
            "eat_profile",
            "iss",
            "jti",
            "iat",
            "kind",
            "cls",
            "role",
            "chn",
            "seq",
            "prev",
            "evd",
            "eat_nonce",
        ),
        *("trc", "par", "lim", "ext", "_sd", "_sd_alg", "agt", "peer", "att"),
    )
)


@dataclass(frozen=True, slots=True)
class Moment:
    """One record.

    Args:
        at: seconds since 1970, by the signer's own clock.
        role: ``gateway`` or ``session``; the supervisor signs as the session.
        title: what happened, in our words.
        decision: allow, deny, redact or ask; empty where the record has none.
        rules: the rules that decided, where they were disclosed.
        facts: member -> value, clear and disclosed ones, as text; hostile.
        more: how many facts were left out.
    """

    at: int
    role: str
    session: str
    seq: int
    kind: str
    title: str
    jti: str
    decision: str
    rules: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    more: int


def timeline_of(records: Sequence[VerifiedReceipt]) -> tuple[Moment, ...]:
    """The records by their own time; where two are of one second, each chain keeps its order."""
    return tuple(
        _moment(record) for record in sorted(records, key=lambda each: (each.iat, each.chn, each.seq))
    )


def _moment(record: VerifiedReceipt) -> Moment:
    phase = record.member("ph")
    title = _TITLES.get(record.kind, record.kind) + (f" ({phase})" if isinstance(phase, str) else "")
    if record.kind == "policy":
        title = f"{title}: epoch {record.member('pol', 'epoch')} from here on"
    rules = record.disclosed.get("pol.rules")
    facts = tuple(_facts(record))
    return Moment(
        at=record.iat,
        role=record.role,
        session=_text(record.member("agt", "ses")),
        seq=record.seq,
        kind=record.kind,
        title=title,
        jti=record.jti,
        decision=_text(record.member("pol", "dec")),
        rules=tuple(map(str, rules)) if isinstance(rules, list) else (),
        facts=facts[:MAX_FACTS],
        more=max(0, len(facts) - MAX_FACTS),
    )


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
        yield name, str(value)


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
