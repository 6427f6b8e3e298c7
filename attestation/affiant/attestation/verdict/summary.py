"""What a verdict counts: who ran which agent under which profile, what it used, what was refused, how it ended; and
what checks found, so that the counts of several cases add up.

Counted from authentic records, and from what they disclose. Every name here was chosen by an agent, a user or an
operator: it is hostile, and is escaped where it is shown. Lists are bounded; what is left out is counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.schema.records import ENDS

__all__ = [
    "TASK_LABEL",
    "USES",
    "Answers",
    "Count",
    "Counted",
    "Counting",
    "Summary",
    "Use",
    "is_commitment",
    "uses_of",
]

TASK_LABEL: Final = ("workflow", "task", "attempt", "parent")
"""What a session belongs to, where its starter says so."""
_USED: Final = ("model", "host", "secret", "tool", "command", "file", "port")
USES: Final = ("user", "known_by", "agent", "profile", *TASK_LABEL, *_USED, "refused", "end")
"""What is counted, in the order of the result document."""
_BEGUN: Final[Mapping[str, tuple[str, str]]] = {
    "tool": ("tool", "act.name"),
    "exec": ("command", "act.name"),
    "file": ("file", "mov.dir"),
    "port": ("port", "prt.num"),
}
"""Acts that are counted where they begin: kind -> what it is counted as, and the member that names it."""
_MAX_EACH: Final = 100
_COMMITMENT: Final = re.compile("[A-Za-z0-9_-]{43}")
_END_OF_AUTHORITY: Final = re.compile("[/?#]")
_UNDISCLOSED: Final = "(not disclosed)"
_MAX_TEXT: Final = 255
_NAMES_SHOWN: Final = 4
_PAIRS_SHOWN: Final = 3


class Use(NamedTuple):
    """One thing that a record says was used, refused or ended: which of :data:`USES`, and its name."""

    what: str
    name: str


def uses_of(record: VerifiedReceipt) -> Iterator[Use]:
    """What one authentic record says; a name that is hidden and not disclosed is left out, but for its own sign."""
    hidden, kind = record.disclosed, record.kind
    if kind == "session-start":
        yield from _of_start(record)
    elif kind == "session-close":
        yield Use("end", _bounded(record.member("why")))
    elif kind == "inference":
        yield Use("model", _bounded(record.member("mdl", "id")))
    elif kind == "refusal":
        named = hidden.text("act.name") or hidden.text("act.tgt") or record.member("req", "p")
        yield Use("refused", _bounded(" ".join(map(str, filter(None, (record.member("rsn"), named))))))
    elif kind == "egress" and record.member("ph") != "intent":
        yield Use("host", _bounded(_host(hidden.text("act.tgt"))))
    elif kind == "secret":
        yield Use("secret", _bounded(hidden.text("act.name") or hidden.text("sec[0].ref") or _UNDISCLOSED))
    elif kind in _BEGUN and record.member("ph") not in ENDS:
        what, name = _BEGUN[kind]
        yield Use(what, _bounded(record.shown(name) or None))
        if kind == "exec":
            yield from _named(record, {"user": "agt.user", "agent": "agt.id"})


def _of_start(record: VerifiedReceipt) -> Iterator[Use]:
    yield Use("known_by", _bounded(record.member("ini", "method")))
    yield Use("profile", _bounded(record.member("pol", "dig")))
    for use in _named(record, {"user": "ini.sub", "agent": "agt.id"}):
        if not is_commitment(use.name):
            yield use
    yield from _named(record, {what: f"tsk.{what}" for what in TASK_LABEL})


def _named(record: VerifiedReceipt, members: Mapping[str, str]) -> Iterator[Use]:
    """What is disclosed of ``members``: what -> path."""
    for what, path in members.items():
        if (name := record.disclosed.get(path)) is not None:
            yield Use(what, _bounded(name))


@dataclass(frozen=True, slots=True)
class Summary:
    """What was counted.

    Args:
        began, ended: seconds since 1970 by the signers' own clocks; None: there is no record.
        uses: of each of :data:`USES`, name -> how many records. more: records whose names were left out.
    """

    began: int | None = None
    ended: int | None = None
    uses: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    more: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> Mapping[str, object]:
        """The member ``summary`` of the result document."""
        uses = {what: dict(self.uses[what]) for what in USES if self.uses.get(what)}
        return {"began": self.began, "ended": self.ended, "uses": uses, "more": dict(self.more)}


class Counting:
    """Counts records as they come, in bounded memory."""

    def __init__(self) -> None:
        self._began: int | None = None
        self._ended: int | None = None
        self._uses: dict[str, dict[str, int]] = {}
        self._more: dict[str, int] = {}

    def take(self, at: int, uses: tuple[Use, ...]) -> None:
        """One record: its own time, and what :func:`uses_of` found."""
        self._began = at if self._began is None else min(at, self._began)
        self._ended = at if self._ended is None else max(at, self._ended)
        for what, name in uses:
            counts = self._uses.setdefault(what, {})
            if name in counts or len(counts) < _MAX_EACH:
                counts[name] = counts.get(name, 0) + 1
            else:
                self._more[what] = self._more.get(what, 0) + 1

    def summary(self) -> Summary:
        """What was counted so far."""
        return Summary(self._began, self._ended, self._uses, self._more)


@dataclass(slots=True)
class Count:
    """How many of one thing a check found.

    Args:
        number: of what is one case's own. shared: names of what several cases may have, each counted once.
        what: the words behind the number. said: those before ``names``, of which the first are shown.
    """

    number: int
    what: str
    shared: set[str] = field(default_factory=set)
    said: str = ""
    names: set[str] = field(default_factory=set)

    @property
    def text(self) -> str:
        """The row's words."""
        text = f"{self.number + len(self.shared)} {self.what}"
        shown, more = sorted(self.names)[:_NAMES_SHOWN], len(self.names) - _NAMES_SHOWN
        text += f"{self.said}{', '.join(shown)}" if shown else ""
        return text + (f" and {more} more" if more > 0 else "")


@dataclass(slots=True)
class Answers:
    """Answers of models: that name one, that name none, that name another one than was asked for.

    ``pairs``: model asked for and model named -> how many; only the first pairs by their names, whose counts are whole.
    """

    named: int = 0
    unnamed: int = 0
    others: int = 0
    pairs: dict[tuple[str, str], int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The row's words."""
        rest = f"; answers that name no model: {self.unnamed}" if self.unnamed else ""
        if not self.others:
            return f"answers that name the model that was asked for: {self.named}{rest}"
        pairs = [f"asked {one[:80]}, answered {other[:80]}: {n}" for (one, other), n in self.pairs.items()]
        told = "; ".join((*pairs, *([f"others: {self.left}"] if self.left else ())))
        return f"answers that name another model than was asked for: {self.others} of {self.named} ({told}){rest}"

    @property
    def left(self) -> int:
        """How many of ``others`` are of pairs that are not kept."""
        return self.others - sum(self.pairs.values())

    def other(self, asked: str, answered: str, count: int = 1) -> None:
        """Count answers that name another model. A pair that is left out has smaller ones for good."""
        self.others += count
        self.pairs[asked, answered] = self.pairs.get((asked, answered), 0) + count
        # by code units, as another verifier sorts them
        kept = sorted(self.pairs, key=lambda pair: [part.encode("utf-16-be") for part in pair])[:_PAIRS_SHOWN]
        self.pairs = {pair: self.pairs[pair] for pair in kept}


Counted = Count | Answers
"""What a check counted. Of a period each case has its own; they add up, and no text is read for it."""


def is_commitment(name: str) -> bool:
    """Whether a gateway's record has a digest in a name's place: the gateway is not told names (ADR 0014)."""
    return _COMMITMENT.fullmatch(name) is not None


def _host(target: str | None) -> str:
    """The host of ``METHOD https://host/path`` or ``host:port``."""
    if target is None:
        return _UNDISCLOSED
    address = target.rpartition(" ")[2]
    authority = _END_OF_AUTHORITY.split(address.partition("://")[2] or address, maxsplit=1)[0].rpartition(
        "@"
    )[2]
    host = authority[1:].partition("]")[0] if authority.startswith("[") else authority.partition(":")[0]
    return host.lower() or address


def _bounded(value: object) -> str:
    return str(value)[:_MAX_TEXT] if value is not None else _UNDISCLOSED
