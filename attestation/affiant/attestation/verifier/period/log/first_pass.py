"""Every record of a period once, in log order: each beside its leaf, each chain by its rules, counted, and kept on disk
until its session is judged.

Leaves without a record go through the rules of their chain too: the log says their kind, number, time and hash, so that
a chain is whole over what was withheld, and a link over it is still compared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.tlog.entry import LogEntry, parse_entry
from affiant.attestation.verdict.actors import People
from affiant.attestation.verdict.errors import ChainBroken
from affiant.attestation.verdict.summary import Counting
from affiant.attestation.verifier.case.actors_met import PeopleMet
from affiant.attestation.verifier.case.signer import Signer
from affiant.attestation.verifier.checks.chain_rules import (
    ChainGap,
    InOrder,
    InRhythm,
    Link,
    NothingAfterEnd,
    StartsWithBoot,
    Unbroken,
)
from affiant.attestation.verifier.checks.log_checks import SplitView, demand_behind
from affiant.attestation.verifier.period.log.coverage import Coverage
from affiant.attestation.verifier.period.log.leaf_time_bounds import LeafTimeBounds
from affiant.attestation.verifier.period.log.log_view import Leaf, LogView
from affiant.attestation.verifier.period.log.own_times import OwnTimes
from affiant.attestation.verifier.period.log.period_signers import Signers
from affiant.attestation.verifier.period.log.population_rules import IdsOnce, OneSessionEach
from affiant.attestation.verifier.period.log.record_traces import TracedRecords
from affiant.attestation.verifier.period.log.seen import Refused, Seen
from affiant.attestation.verifier.period.log.spill import Spill
from affiant.attestation.verifier.period.log.stamps import Stamps
from affiant.attestation.verifier.period.log.tally import Exceptions
from affiant.errors import AffiantError, NotAuthenticError

__all__ = ["FirstPass", "LeafMissing", "LineRefused"]

_MAX_UNPLACED: Final = 20
"""Lines that are searched for in the rest of the log; beyond, the order of the lines is no log's."""
_MAX_GAPS: Final = 10_000
_MAX_ORDERS: Final = 10_000
_ORDERS: Final = ("erasure", "hold")


class LeafMissing(NotAuthenticError):
    """A receipt is not in the log, or not after the one that stands before it."""

    code = "log.not_included"


class LineRefused(AffiantError):
    """A receipt was refused in a worker process; carries its code on."""

    code = "sig.receipts"

    def __init__(self, refused: Refused, where: str) -> None:
        super().__init__(refused.text, where=where)
        self.reason = refused.code


@dataclass(slots=True)
class _Chain:
    """The state of one chain's rules. ``stretch``: number of the stretch of leaves that its last link stood in."""

    signer: Signer
    boot: StartsWithBoot
    unbroken: Unbroken
    end: NothingAfterEnd
    rhythm: InRhythm
    order: InOrder
    stretch: int = -1
    records: int = 0


@dataclass(slots=True)
class FirstPass:
    """Takes lines and leaves; what it found stands in its attributes.

    Args:
        judged: session id -> the key of its supervisor. only: the session that the reader asks for.
        time_bounds: None without witnesses. traced: None: no other bundles are compared with this one.
        times: None: what was then is not asked.
        split: takes what contradicts the log.
    """

    signers: Signers
    view: LogView | None
    coverage: Coverage
    time_bounds: LeafTimeBounds | None
    spill: Spill
    judged: dict[str, str]
    at: datetime
    tolerance: int
    only: str | None = None
    split: Exceptions = field(default_factory=Exceptions)
    traced: TracedRecords | None = None
    stamps: Sequence[Stamps] = ()
    times: OwnTimes | None = None
    latest: int = 0
    """The latest time that a record gives itself."""
    exceptions: dict[str, Exceptions] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    receipts: int = 0
    placed: int = 0
    withheld: int = 0
    foreign: set[str] = field(default_factory=set)
    boots: dict[str, tuple[str, str]] = field(default_factory=dict)
    gaps: list[tuple[str, str]] = field(default_factory=list)
    gap_ids: list[str] = field(default_factory=list)
    lost: list[tuple[str, int | None]] = field(default_factory=list)
    """Chain and number of the last record that each gap knows of."""
    orders: list[tuple[str, str]] = field(default_factory=list)
    """Erasures and holds, in the order of the log."""
    logged: dict[str, bool] = field(default_factory=dict)
    """Hash of each of those -> whether it has a leaf: else it excuses nothing."""
    chains: dict[bytes, _Chain] = field(default_factory=dict)
    """Along the log."""
    signed: set[bytes] = field(default_factory=set)
    """Chains of which an authentic record is here, also where the log is not."""
    ids: IdsOnce = field(default_factory=IdsOnce)
    counting: Counting = field(default_factory=Counting)
    _people: PeopleMet = field(default_factory=PeopleMet)
    _signed: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Key -> the id of its first record, and how many there are."""
    _owners: OneSessionEach = field(default_factory=OneSessionEach)
    _leaves: Iterator[Leaf] | None = None
    _next: Leaf | None = None
    _stretch: int = -1

    def __post_init__(self) -> None:
        if self.view is not None:
            self._leaves = self.view.leaves()
            self._advance()

    def refuse(self, refused: Refused, where: str) -> None:
        """A line that is no receipt of a signer here."""
        self.receipts += 1
        self._except(
            "sig.receipts", LineRefused(refused, where if not refused.where else f"{where}.{refused.where}")
        )

    def take(self, seen: Seen, text: str) -> None:
        """One verified receipt, and its text with its disclosures."""
        self.receipts += 1
        entry = parse_entry(seen.leaf)
        self.kinds[entry.kind] = self.kinds.get(entry.kind, 0) + 1
        self.signed.add(entry.chn)
        self.ids.take(seen.jti)
        self._meet(seen)
        signer = self.signers.by_kid[seen.kid]
        if self._is_in_question(signer.session or seen.ses):
            self.counting.take(entry.iat, seen.uses)
        self._keep(seen, entry.kind, signer, text)
        self.latest = max(self.latest, entry.iat)
        leaf = self._place(seen)
        if entry.kind in _ORDERS and len(self.orders) < _MAX_ORDERS:
            self.logged[seen.rh] = leaf is not None or self.logged.get(seen.rh, False)
        if self.times is not None and (name := self._name(seen, entry.kind, signer)) is not None:
            self.times.take(name, entry.iat, None if leaf is None else leaf.index)
        if self.traced is not None:
            self.traced.put(seen, entry, role=signer.role, index=None if leaf is None else leaf.index)
        if leaf is not None:
            self._follow(seen, entry, leaf)

    def finish(self) -> None:
        """The leaves after the last line."""
        while self._next is not None:
            self._pass_over(self._next)
        for error in self.ids.repeated():
            self._except("chain.ids", error)

    def people(self, appraised: Collection[str]) -> People:
        """Who started, signed, approved and erased; asked once. ``appraised``: keys whose quote was."""
        for each in sorted(self.signers.by_kid.values(), key=lambda signer: (signer.role, signer.keyset)):
            first, count = self._signed.get(each.kid, (None, 0))
            self._people.signer(each, first, count, appraised=each.kid in appraised)
        return self._people.people()

    # -- beside its leaf ---------------------------------------------------------------------------------------

    def _place(self, seen: Seen) -> Leaf | None:
        """The record's leaf; None where it has none here."""
        if self.view is None:
            return None
        missing = self.exceptions.get("log.inclusion")
        if self._next is None or self._next.data != seen.leaf:
            found = None
            if self._next is not None and (missing is None or missing.count < _MAX_UNPLACED):
                found = self.view.find(seen.leaf, self._next.index)
            if found is None:
                where = "a receipt that the log does not hold, or not after the one before it"
                self._except("log.inclusion", LeafMissing(where, where=seen.jti))
                return None
            while self._next is not None and self._next.index < found:
                self._pass_over(self._next)
        assert self._next is not None
        leaf = self._next
        self._stretch += leaf.new
        self._advance()
        self.placed += 1
        return leaf

    def _advance(self) -> None:
        assert self._leaves is not None
        self._next = next(self._leaves, None)

    def _pass_over(self, leaf: Leaf) -> None:
        """A leaf whose record is not here."""
        self._stretch += leaf.new
        self._advance()
        self.withheld += 1
        entry = parse_entry(leaf.data)
        name = f"{b64u(entry.chn)}:{entry.seq}"
        self.coverage.take(leaf.index, entry.iat, new=leaf.new, here=False, name=name, rh=b64u(entry.rh))
        self._along(entry, None, named=None, jti=name)

    def _follow(self, seen: Seen, entry: LogEntry, leaf: Leaf) -> None:
        self.coverage.take(leaf.index, entry.iat, new=leaf.new, here=True, name=seen.jti)
        link = self._along(entry, seen.prev, named=seen.named, jti=seen.jti)
        floor = None if self.time_bounds is None else self._time_bounds(seen, link, leaf, self.time_bounds)
        for stamps in self.stamps:
            stamps.take(link, leaf.index, floor)
        try:
            demand_behind(seen.cps, leaf.index, jti=seen.jti)
        except SplitView as error:
            self.split.add(error)

    def _time_bounds(self, seen: Seen, link: Link, leaf: Leaf, time_bounds: LeafTimeBounds) -> int | None:
        gateway = self.signers.by_kid[seen.kid].role == "gateway"
        if seen.cp and gateway:
            time_bounds.name(link, seen.cp, seen.cps)
        floor = time_bounds.take(link, leaf.index, key=None if gateway else seen.kid)
        if link.kind == "session-start":
            time_bounds.admit(link.chn, seen.key)
        return floor

    # -- along its chain ---------------------------------------------------------------------------------------

    def _along(self, entry: LogEntry, prev: str | None, *, named: object, jti: str) -> Link:
        link = Link(b64u(entry.chn), entry.seq, b64u(entry.rh), entry.kind, entry.iat, prev, jti, named)
        chain = self.chains.get(entry.chn) or self._begun(entry.chn, link.chn)
        if chain is None:  # of a signer that is not here
            return link
        skipped = 0
        if prev is not None:
            chain.records += 1
            self._rule("chain.boot", chain.boot.take, link)
        try:
            skipped = chain.unbroken.take(link, may_skip=chain.stretch != self._stretch)
        except ChainBroken as error:
            self._except("chain.contiguous", error)
        self._rule("chain.end", chain.end.take, link)
        self._rule("chain.time", chain.order.take, link)
        try:
            chain.rhythm.take(link, skipped=skipped > 0)
        except ChainBroken as error:
            self._except("chain.epochs", error)
        chain.stretch = self._stretch
        return link

    def _begun(self, raw: bytes, chn: str) -> _Chain | None:
        signer = self.signers.by_chain.get(chn)
        if signer is None:
            return None
        self.chains[raw] = chain = _Chain(
            signer,
            StartsWithBoot(signer.keyset),
            Unbroken(),
            NothingAfterEnd(),
            InRhythm(signer.epoch_s, tolerance=self.tolerance),
            InOrder(self.at.timestamp(), tolerance=self.tolerance),
        )
        return chain

    def _rule(self, code: str, rule: Callable[[Link], None], link: Link) -> None:
        try:
            rule(link)
        except ChainBroken as error:
            self._except(code, error)

    # -- who ---------------------------------------------------------------------------------------------------

    def _meet(self, seen: Seen) -> None:
        for met in seen.people:
            self._people.meet(met, seen.jti)
        first, count = self._signed.get(seen.kid, (seen.jti, 0))
        self._signed[seen.kid] = first, count + 1

    def _is_in_question(self, session: str) -> bool:
        """As of a single bundle: the sessions that are judged; where there is none, the one asked for, or all."""
        if not session:
            return True
        return session in self.judged if self.judged else self.only in (None, session)

    def _name(self, seen: Seen, kind: str, signer: Signer) -> str | None:
        """Whose own time it bounds: a session's, or a gateway's if it is its boot record."""
        session = signer.session or seen.ses
        if session:
            return session if session in self.judged else None
        return f":{seen.kid}" if kind == "boot" else None

    # -- kept --------------------------------------------------------------------------------------------------

    def _keep(self, seen: Seen, kind: str, signer: Signer, text: str) -> None:
        if kind == "boot":
            self.boots[seen.kid] = (seen.rh, text)
        elif kind == "gap":
            self.gap_ids.append(seen.jti)
            self.lost.append((seen.lost, seen.lost_seq))
            if len(self.gaps) < _MAX_GAPS:
                self.gaps.append((seen.rh, text))
        elif kind in _ORDERS:
            self._keep_order(seen.rh, text)
        if seen.ses:
            try:
                self._owners.take(seen.ses, seen.key, seen.evd, jti=seen.jti)
            except NotAuthenticError as error:
                self._except("peer.bound", error)
        if signer.role == "session":
            if signer.session in self.judged:
                self.spill.put(signer.session, seen.rh, text)
        elif seen.ses in self.judged:
            self.spill.put(seen.ses, seen.rh, text)
        else:
            if seen.ses:
                self.foreign.add(seen.ses)
            self.spill.put(f":{seen.kid}", seen.rh, text)

    def _keep_order(self, rh: str, text: str) -> None:
        if len(self.orders) < _MAX_ORDERS:
            self.orders.append((rh, text))
        else:  # one that is not judged would excuse nothing and could break a hold unseen
            refusal = ChainGap("more erasures and holds than are judged together", expected=_MAX_ORDERS)
            self._except("chain.contiguous", refusal)

    def _except(self, code: str, error: AffiantError) -> None:
        self.exceptions.setdefault(code, Exceptions()).add(error)
