"""Bounds in time when a period's records existed: from below by keysets and epochs, from above by what covers a leaf.

A single bundle has one checkpoint for each proof. A period bundle has the checkpoints that those name as well, each
shown to be of the same tree, so that a record's ceiling is the earliest of those that cover its leaf.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from affiant.attestation.encoding.binary_text import b64u_sha256
from affiant.attestation.statements.statement import LogIdentity
from affiant.attestation.verdict.errors import ChainBroken, NotMade
from affiant.attestation.verdict.time_bounds import Ceilings, TimeBounds, Unwitnessed
from affiant.attestation.verdict.verdict import Finding
from affiant.attestation.verifier.case.case import Case
from affiant.attestation.verifier.checks.chain_rules import Link
from affiant.attestation.verifier.checks.witness_checks import (
    TimeBoundsBroken,
    hold,
    time_bounds_finding,
    witnessed,
)
from affiant.attestation.verifier.period.log.log_view import Noted
from affiant.attestation.verifier.period.log.tally import Exceptions

__all__ = ["LeafTimeBounds", "Witnessing", "witnessing"]


@dataclass(frozen=True, slots=True)
class Witnessing:
    """The cosigned checkpoints.

    Args:
        ceilings: of every leaf under the newest.
        floors: digest of the note, as keysets and epochs name it -> size and not-before.
    """

    ceilings: Ceilings
    floors: Mapping[str, tuple[int, int]]


def witnessing(case: Case, log: LogIdentity, noted: Sequence[Noted]) -> Witnessing:
    """What the trust file's witnesses back among ``noted``; the last, the archive's own, must be backed.

    Raises:
        NotMade: it is not.
    """
    newest = noted[-1]
    found: dict[int, int] = {}
    floors: dict[str, tuple[int, int]] = {}
    for each in sorted(noted, key=lambda one: one.checkpoint.size):
        try:
            seen = witnessed(case, each.note, log)
        except NotMade:
            if each is newest:
                raise
            continue  # it bounds nothing; an epoch that names it will say so
        assert seen.not_before is not None, "a policy of the trust file has a quorum"
        assert seen.not_after is not None, "as above"
        size = each.checkpoint.size
        found[size] = min(seen.not_after, found.get(size, seen.not_after))
        floors[b64u_sha256(each.note.to_bytes())] = (size, seen.not_before)
    return Witnessing(Ceilings(found), floors)


@dataclass(slots=True)
class LeafTimeBounds:
    """``time.bracket``, record after record, in log order."""

    seen: Witnessing
    tolerance: int
    broken: Exceptions = field(default_factory=Exceptions)
    unnamed: int = 0
    unbounded: int = 0
    widest: int = 0
    begin: int | None = None
    end: int = 0
    longest: Unwitnessed = field(default_factory=lambda: Unwitnessed(None, None, None, 0))
    """As :mod:`~..unwitnessed`: a record's ceiling is already the earliest of those that cover it."""
    _floors: dict[str, int] = field(default_factory=dict)
    _admitted: dict[str, int | None] = field(default_factory=dict)

    def state(self, chn: str, cp: str) -> None:
        """The keyset of a chain names a checkpoint: the whole chain is not older."""
        known = self.seen.floors.get(cp)
        if known is None:
            self.unnamed += 1
        else:
            self._floors[chn] = known[1]

    def name(self, link: Link, cp: str, cps: int | None) -> None:
        """An epoch of a gateway names a checkpoint: what follows it in its chain is not older."""
        known = self.seen.floors.get(cp)
        if known is None:
            self.unnamed += 1
            return
        size, floor = known
        if cps not in (None, size):
            self.broken.add(
                TimeBoundsBroken(
                    "an epoch names a checkpoint of another size", expected=size, found=cps, where=link.jti
                )
            )
        self._floors[link.chn] = floor

    def admit(self, chn: str, key: str) -> None:
        """A gateway admits a session: its records are not older than that."""
        self._admitted[key] = self._floors.get(chn)

    def take(self, link: Link, index: int, *, key: str | None) -> int | None:
        """One record at its place in the log; its not-before.

        Args:
            key: of the session that signed it, None for a gateway's.
        """
        floor = self._floors.get(link.chn) if key is None else self._admitted.get(key)
        ceiling = self.ceiling(index)
        try:
            hold(link, floor, ceiling, self.tolerance)
        except ChainBroken as error:
            self.broken.add(error)
        if floor is None:
            self.unbounded += 1
        else:
            self.widest = max(self.widest, ceiling - floor)
            self.longest = self.longest.or_longer(floor, ceiling, link.jti)
            self.begin = floor if self.begin is None else min(self.begin, floor)
        self.end = max(self.end, ceiling)
        return floor

    def ceiling(self, index: int) -> int:
        """The earliest not-after of what covers a leaf; the newest checkpoint covers all."""
        found = self.seen.ceilings.of(index)
        assert found is not None, "the newest is backed"
        return found

    def around(self) -> TimeBounds | None:
        """Around every record."""
        return TimeBounds(None if self.unbounded else self.begin, self.end) if self.end else None

    def unwitnessed(self) -> Unwitnessed:
        """The longest stretch for which the operator's clock alone speaks."""
        return replace(self.longest, without_beginning=self.unbounded)

    def finding(self, case: Case) -> Finding:
        """What they amount to.

        Raises:
            NotMade: an epoch or a keyset names a checkpoint that is not here.
        """
        if self.unnamed:
            raise NotMade(
                f"{self.unnamed} checkpoints that epochs or keysets name are not in the bundle, or not cosigned"
            )
        return time_bounds_finding(case, unbounded=self.unbounded, widest=self.widest, last=self.end)
