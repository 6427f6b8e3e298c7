"""``time.tsa``, ``time.sigstore`` over a period: which anchors count, and what they say of each record along the log.

An anchor stands beside its checkpoint, and the archive's tiles show that this is of the log's tree: it covers every
leaf below its size. The rules are those of a single bundle (``anchor_checks``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Final

from affiant.attestation.bundle.period.archive_reader import PeriodBundle
from affiant.attestation.signatures.timestamps.errors import NotCovering
from affiant.attestation.signatures.timestamps.response import split_responses
from affiant.attestation.verdict.accepted_values import TrustFile
from affiant.attestation.verdict.errors import ChainBroken, NotMade
from affiant.attestation.verdict.time_bounds import Ceilings
from affiant.attestation.verdict.verdict import Finding
from affiant.attestation.verifier.case.statement_verifiers import AnchorVerifier, NotNamed, Word
from affiant.attestation.verifier.checks.anchor_checks import (
    SIGSTORE,
    TOKENS,
    Kind,
    demand_dated_within,
    demand_not_empty,
    stamp_finding,
)
from affiant.attestation.verifier.checks.chain_rules import Link
from affiant.attestation.verifier.period.log.tally import MAX_WHERE, Exceptions
from affiant.errors import AffiantError

__all__ = ["ENDINGS", "Stamps", "read_stamps"]

ENDINGS: Final = {".tsr": TOKENS, ".sigstore.json": SIGSTORE}
"""What files under ``anchors/`` end in, after the size of their checkpoint."""
_MAX_ANCHORS: Final = 4_096
"""Of each kind: one a day for eleven years. Each costs some milliseconds."""


@dataclass(slots=True)
class Stamps:
    """What the anchors of one kind say, and of which records; takes one after another, in log order.

    Args:
        words: size of a checkpoint -> what is said of it.
    """

    kind: Kind
    words: Mapping[int, Word]
    tolerance: int
    empty: Exceptions = field(default_factory=Exceptions)
    outside: Exceptions = field(default_factory=Exceptions)
    last: int = 0
    records: int = 0
    uncovered: int = 0
    bare: list[str] = field(default_factory=list)
    _least: int | None = None
    _ceilings: Ceilings = field(default_factory=lambda: Ceilings({}))

    def __post_init__(self) -> None:
        self._ceilings = Ceilings({size: word.not_after for size, word in self.words.items()})

    def take(self, link: Link, index: int, floor: int | None) -> None:
        """One record at its place in the log; ``floor``: its not-before, by witnesses."""
        self.records += 1
        self._least = index if self._least is None else min(self._least, index)
        not_after = self.ceiling(index)
        if not_after is None:
            self.uncovered += 1
            if len(self.bare) < MAX_WHERE:
                self.bare.append(link.jti)
            return
        self.last = max(self.last, not_after)
        try:
            demand_dated_within(link, not_after, self.tolerance)
        except ChainBroken as error:
            self.outside.add(error)
        try:
            if floor is not None:
                demand_not_empty(link, floor, not_after, self.tolerance)
        except ChainBroken as error:
            self.empty.add(error)

    def ceiling(self, index: int) -> int | None:
        """The earliest that is said of a leaf; None: no anchored checkpoint covers it."""
        return self._ceilings.of(index)

    def finding(self) -> Finding:
        """What they amount to, where nothing is wrong with any record.

        Raises:
            NotCovering: an anchored checkpoint has none of the records.
        """
        for size in sorted(self.words):
            if self._least is None or size <= self._least:
                raise NotCovering("an anchored checkpoint has none of these records", found=f"{size} leaves")
        return stamp_finding(
            self.kind,
            {word.who for word in self.words.values()},
            last=self.last,
            bare=self.bare,
            records=self.records,
            uncovered=self.uncovered,
        )


def read_stamps(
    bundle: PeriodBundle,
    ending: str,
    texts: Mapping[int, str],
    trust: TrustFile,
    verifier: AnchorVerifier,
    *,
    at: datetime,
) -> Stamps | None:
    """The anchors of one kind, each verified; None: there are none.

    Args:
        ending: of :data:`ENDINGS`. texts: of the checkpoints of the archive's tree that the log has signed, by size.

    Raises:
        NotMade: the checkpoint of one is not here, or the library is not installed, or there are too many.
        AffiantError: something is wrong with one; or nobody whom the trust file names issued any.
    """
    sizes = _sizes(bundle, ending)
    if not sizes:
        return None
    if len(sizes) > _MAX_ANCHORS:
        raise NotMade(f"more than {_MAX_ANCHORS} anchors of one kind are not judged")
    words: dict[int, Word] = {}
    stranger: AffiantError | None = None
    for size in sizes:
        if size not in texts:
            raise NotMade("a checkpoint that an anchor names is not in the bundle")
        verify = _verifier(bundle.read(f"anchors/{size}{ending}"), ending, trust, verifier, at)
        try:
            words[size] = verify(texts[size])
        except NotNamed as not_named:
            stranger = not_named.error
    if stranger is not None and not words:
        raise stranger
    return Stamps(ENDINGS[ending], words, trust.clock_tolerance_s)


def _verifier(
    raw: bytes, ending: str, trust: TrustFile, verifier: AnchorVerifier, at: datetime
) -> Callable[[str], Word]:
    if ENDINGS[ending] is TOKENS:
        return partial(verifier.stamped, split_responses(raw), trust=trust, at=at)
    return partial(verifier.published, raw, trust=trust, at=at)


def _sizes(bundle: PeriodBundle, ending: str) -> Sequence[int]:
    names = (name for name in bundle.anchors if name.endswith(ending))
    return sorted(int(name.removeprefix("anchors/").removesuffix(ending)) for name in names)
