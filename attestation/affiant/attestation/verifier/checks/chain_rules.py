"""The rules of one signer's chain, each in one place: they take one link after another and remember almost nothing.

A :class:`Link` is a record, or what the log says of a record that is not here (then without ``prev``). A bundle of one
session gives the records of a list; a period bundle gives millions, as they come.
"""

from __future__ import annotations

from typing import NamedTuple

from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.verdict.errors import ChainBroken

__all__ = [
    "AfterEnd",
    "ChainGap",
    "EpochMissing",
    "InOrder",
    "InRhythm",
    "Link",
    "NoBoot",
    "NothingAfterEnd",
    "StartsWithBoot",
    "TimeBroken",
    "Unbroken",
    "link_of",
]


class ChainGap(ChainBroken):
    """Numbers are missing, repeated, or a link names another record."""

    code = "chain.gap"


class NoBoot(ChainBroken):
    """A chain does not begin with a boot record of its keyset."""

    code = "chain.no_boot"


class AfterEnd(ChainBroken):
    """A record stands after the end of its chain."""

    code = "chain.after_end"


class TimeBroken(ChainBroken):
    """A record is dated before the one that it follows, or after the instant judged at."""

    code = "chain.time"


class EpochMissing(ChainBroken):
    """An epoch record is missing: the signer was silent for longer than its keyset says."""

    code = "chain.missing_epoch"


class Link(NamedTuple):
    """What the rules look at.

    Args:
        prev: None where the record itself is not here, and its hash, kind and time are the log's word.
        jti: the receipt id, or how a record that is not here is named to a reader.
        named: of a boot the keyset digest, of an epoch the count that it names; else None.
    """

    chn: str
    seq: int
    rh: str
    kind: str
    iat: int
    prev: str | None
    jti: str
    named: object = None


def link_of(record: VerifiedReceipt) -> Link:
    """The link that a record is."""
    named = record.member({"boot": "ks", "epoch": "n"}.get(record.kind, "kind"))
    return Link(record.chn, record.seq, record.rh, record.kind, record.iat, record.prev, record.jti, named)


class StartsWithBoot:
    """``chain.boot``: the first record is a boot record that names its own keyset, and the only one."""

    __slots__ = ("_begun", "_keyset")

    def __init__(self, keyset: str) -> None:
        self._keyset = keyset
        self._begun = False

    def take(self, link: Link) -> None:
        """Raises :class:`NoBoot`."""
        if self._begun:
            if link.kind == "boot":
                raise NoBoot("a second boot record in one chain", where=link.chn)
            return
        self._begun = True
        if link.seq != 0 or link.kind != "boot":
            raise NoBoot("the chain does not begin with a boot record", where=link.chn)
        if link.named != self._keyset or link.prev != self._keyset:
            raise NoBoot("the boot record names another keyset", expected=self._keyset, where=link.jti)


class Unbroken:
    """``chain.contiguous``: no number missing or twice, each link names the record before it."""

    __slots__ = ("_rh", "_seq")

    def __init__(self) -> None:
        self._seq: int | None = None
        self._rh = ""

    @property
    def last(self) -> int | None:
        """The number of the link that was taken last; None before the first."""
        return self._seq

    def take(self, link: Link, *, may_skip: bool) -> int:
        """How many records were left out before ``link``: none, unless they may be.

        Raises:
            ChainGap: as named.
        """
        seq, rh = self._seq, self._rh
        self._seq, self._rh = link.seq, link.rh
        if seq is None:
            return 0
        if may_skip and link.seq > seq + 1:
            return link.seq - seq - 1
        if link.seq != seq + 1:
            raise ChainGap(
                "records are missing or repeated",
                expected=f"seq {seq + 1}",
                found=f"seq {link.seq}",
                where=link.jti,
            )
        if link.prev is not None and link.prev != rh:
            raise ChainGap("the link names another record", expected=rh, found=link.prev, where=link.jti)
        return 0


class NothingAfterEnd:
    """``chain.end``: nothing stands after an end record."""

    __slots__ = ("ended",)

    def __init__(self) -> None:
        self.ended = False

    def take(self, link: Link) -> None:
        """Raises :class:`AfterEnd`."""
        if self.ended:
            raise AfterEnd("a record after the end of its chain", where=link.jti)
        self.ended = link.kind == "end"


class InRhythm:
    """``chain.epochs``: between boot, epochs and end no more time than the keyset's cadence (and tolerance); each epoch
    record counts the records before it."""

    __slots__ = ("_allowed", "_epoch_s", "_last")

    def __init__(self, epoch_s: int, *, tolerance: int) -> None:
        self._epoch_s, self._allowed = epoch_s, epoch_s + tolerance
        self._last: int | None = None

    def take(self, link: Link, *, skipped: bool) -> None:
        """Raises :class:`EpochMissing`. ``skipped``: records before ``link`` were left out; the rhythm begins anew."""
        if self._last is None or skipped:
            self._last = link.iat
        if link.iat - self._last > self._allowed:
            raise EpochMissing("no epoch record in time", expected=f"every {self._epoch_s} s", where=link.jti)
        if link.kind == "epoch" and link.prev is not None and link.named != link.seq:
            raise EpochMissing(
                "an epoch record counts other records than there are",
                expected=link.seq,
                found=link.named,
                where=link.jti,
            )
        if link.kind in ("boot", "epoch"):
            self._last = link.iat


class InOrder:
    """``chain.time``: self-asserted times do not go back within a chain, and none lies after the instant judged at."""

    __slots__ = ("_highest", "_latest", "_tolerance")

    def __init__(self, latest: float, *, tolerance: int) -> None:
        self._latest, self._tolerance = latest + tolerance, tolerance
        self._highest: int | None = None

    def take(self, link: Link) -> None:
        """Raises :class:`TimeBroken`."""
        highest = link.iat if self._highest is None else self._highest
        if link.iat < highest - self._tolerance:
            raise TimeBroken("a record dated before the one it follows", where=link.jti)
        if link.iat > self._latest:
            raise TimeBroken(
                "a record dated after the time of judgement",
                found=link.iat,
                where=link.jti,
                hint="Judge at a later time with --at, if that is what you mean.",
            )
        self._highest = max(highest, link.iat)
