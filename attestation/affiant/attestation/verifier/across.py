"""What several bundles say of each other: the contradictions that none of them shows alone.

| row | compares | a contradiction is |
|---|---|---|
| ``across.keysets`` | the keyset that claims a key, a chain or a session | ``chain.broken`` |
| ``across.chains`` | the record at each number of a chain, links to it included | ``chain.fork`` |
| ``across.ids`` | the record with each id | ``chain.repeated_id`` |
| ``across.sessions`` | each session's start and close | ``session.start``, ``session.close`` |
| ``across.places`` | the receipt at each index of a log | ``log.split_view`` |
| ``across.roots`` | the root of a log at each size, of anchored checkpoints too | ``log.split_view`` |

A fact is kept as 16 bytes of its name's digest and its value with the bundle that it is from; beyond ``MAX_FACTS`` no
more are kept, and the rows are *not made*. That trees of different sizes are one tree needs a consistency proof, or
witnesses: without either ``across.roots`` is a warning.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from affiant.attestation.verdict.verdict import Check, Population, State, Tier
from affiant.attestation.verifier.joint_population import JointPopulation
from affiant.attestation.verifier.trace import Trace, TracedRecord

__all__ = ["MAX_FACTS", "Across"]

MAX_FACTS: Final = 3_000_000
"""Facts that are kept, three of each record: about 450 MB, and a million records."""
_MAX_SHOWN: Final = 10
"""Contradictions that a row names; it counts the others."""
_NAME: Final = 60
"""Characters of a bundle's name in a row."""

_ROWS: Final = {
    "across.keysets": "no key, chain or session is claimed by two keysets",
    "across.chains": "no number of a chain has two records",
    "across.ids": "no id has two records",
    "across.sessions": "no session has two starts or two closes",
    "across.places": "no index of a log has two receipts",
    "across.roots": "no log has two roots at one size",
}
_OF_LOG: Final = frozenset({"across.places", "across.roots"})


class _Rule(NamedTuple):
    """What may be said once: the row that it belongs to, what a contradiction is, in words over the fact's names."""

    row: str
    reason: str
    words: str


_KEYSET: Final = _Rule("across.keysets", "chain.broken", "{0} {1} is claimed by two keysets")
_NUMBER: Final = _Rule("across.chains", "chain.fork", "two records at number {1} of chain {0}")
_LINK: Final = _Rule("across.chains", "chain.fork", "a link to another record at number {1} of chain {0}")
_ID: Final = _Rule("across.ids", "chain.repeated_id", "two records with the id {0}")
_OF_SESSION: Final = {
    "session-start": _Rule("across.sessions", "session.start", "session {0} has two starts"),
    "session-close": _Rule("across.sessions", "session.close", "session {0} has two closes"),
}
_PLACE: Final = _Rule("across.places", "log.split_view", "two receipts at index {1} of {0}")
_ROOT: Final = _Rule("across.roots", "log.split_view", "two roots over {1} leaves of {0}")


class _Fact(NamedTuple):
    """Something that one bundle says, and another could say otherwise."""

    rule: _Rule
    names: tuple[object, ...]
    value: str
    where: str = ""
    """The receipt's id."""

    @property
    def key(self) -> bytes:
        """What it is said of, in 16 bytes: links and numbers of a chain are of the same record."""
        kind = self.rule.reason if self.rule.row == "across.sessions" else self.rule.row
        named = repr((kind, self.names)).encode("utf-8", "backslashreplace")
        return hashlib.blake2b(named, digest_size=16).digest()


@dataclass(slots=True)
class _Contradictions:
    """Those of one row."""

    reason: str = ""
    shown: list[str] = field(default_factory=list)
    where: list[str] = field(default_factory=list)
    count: int = 0


class Across:
    """Holds bundles against each other, one after the other; keeps digests of what they said."""

    def __init__(self, *, limit: int = MAX_FACTS) -> None:
        self._limit = limit
        self._facts: dict[bytes, bytes] = {}
        self._full = False
        self._names: list[str] = []
        self._found = {code: _Contradictions() for code in _ROWS}
        self._unproven: dict[str, list[str]] = {"authentic": [], "logged": [], "witnessed": []}
        self._sizes: dict[str, set[int]] = {}
        self._population = JointPopulation()

    def add(self, name: str, trace: Trace) -> None:
        """Hold one bundle against those before it.

        Args:
            name: what the reader calls it.
        """
        self._names.append(name)
        for what, missing in self._unproven.items():
            if not getattr(trace, what):
                missing.append(name)
        for claimed in trace.keysets:
            self._hold(_Fact(_KEYSET, (claimed.what, claimed.name), claimed.keyset))
        for record in trace.records:
            self._population.count(record, new=self._record(record), judged=record.session in trace.judged)
        for root in trace.roots:
            self._sizes.setdefault(root.origin, set()).add(root.size)
            self._hold(_Fact(_ROOT, (root.origin, root.size), root.root.hex()))
        for (
            root
        ) in trace.anchored:  # no sizes: that they are of their bundles' trees, the rows of anchors say
            self._hold(_Fact(_ROOT, (root.origin, root.size), root.root.hex()))

    def _record(self, record: TracedRecord) -> bool:
        """Whether this very record was not here before."""
        self._hold(_Fact(_NUMBER, (record.chn, record.seq, record.key), record.rh, record.jti))
        if record.seq > 0:
            self._hold(_Fact(_LINK, (record.chn, record.seq - 1, record.key), record.prev, record.jti))
        if record.session is not None and record.kind in _OF_SESSION:
            self._hold(_Fact(_OF_SESSION[record.kind], (record.session,), record.rh, record.jti))
        if record.place is not None:
            self._hold(_Fact(_PLACE, record.place, record.rh, record.jti))
        return self._hold(_Fact(_ID, (record.jti,), record.rh, record.jti))

    def _hold(self, fact: _Fact) -> bool:
        """Keep a fact, or hold it against the one that is kept; whether it was not said before."""
        said = hashlib.sha256(fact.value.encode("utf-8", "backslashreplace")).digest()
        kept = self._facts.get(fact.key)
        if kept is None:
            if len(self._facts) >= self._limit:
                self._full = True
            else:
                self._facts[fact.key] = said + (len(self._names) - 1).to_bytes(4, "big")
            return True
        if kept[:32] == said:
            return False
        self._contradicted(fact, by=self._names[int.from_bytes(kept[32:], "big")])
        return True

    def _contradicted(self, fact: _Fact, *, by: str) -> None:
        found = self._found[fact.rule.row]
        found.count += 1
        if len(found.shown) < _MAX_SHOWN:
            found.reason = found.reason or fact.rule.reason
            text = fact.rule.words.format(*fact.names)
            found.shown.append(f"{text} ({_short(by)}, {_short(self._names[-1])})")
            if fact.where and fact.where not in found.where:
                found.where.append(fact.where)

    def population(self) -> Population:
        """Who is in all of them, a record that several carry counted once."""
        return self._population.total()

    def checks(self, *, required: bool) -> Sequence[Check]:
        """The rows.

        Args:
            required: whether a row that could not be made counts.
        """
        return [self._row(code, good, required=required) for code, good in _ROWS.items()]

    def _row(self, code: str, good: str, *, required: bool) -> Check:
        found = self._found[code]
        if found.count:
            more = "" if found.count <= len(found.shown) else f"; and {found.count - len(found.shown)} more"
            return Check(
                code,
                None,
                State.REFUSED,
                Tier.CONTRAINDICATED,
                "; ".join(found.shown) + more,
                reason=found.reason,
                where=tuple(found.where),
                required=required,
            )
        lacking = self._unproven["logged" if code in _OF_LOG else "authentic"]
        if self._full or lacking:
            reason = (
                f"more than {self._limit} facts: compare fewer bundles at once"
                if self._full
                else f"not comparable in whole: {_listed(lacking)}"
            )
            return Check(code, None, State.NOT_MADE, Tier.NONE, reason, required=required)
        tier = Tier.AFFIRMING
        if code == "across.roots":
            good, tier = self._roots(good)
        return Check(
            code, None, State.HELD, tier, f"{good}, in {len(self._names)} bundles", required=required
        )

    def _roots(self, good: str) -> tuple[str, Tier]:
        if all(len(sizes) == 1 for sizes in self._sizes.values()):
            return good, Tier.AFFIRMING
        if not self._unproven["witnessed"]:
            return f"{good}; that different sizes are one tree is the witnesses' word", Tier.AFFIRMING
        return f"{good}; nothing here says that different sizes are one tree", Tier.WARNING


def _short(name: str) -> str:
    return name if len(name) <= _NAME else f"...{name[-_NAME:]}"


def _listed(names: Sequence[str]) -> str:
    more = "" if len(names) <= _MAX_SHOWN else f" and {len(names) - _MAX_SHOWN} more"
    return ", ".join(map(_short, names[:_MAX_SHOWN])) + more
