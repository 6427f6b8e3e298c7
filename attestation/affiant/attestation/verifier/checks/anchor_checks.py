"""Time by somebody who neither keeps the log nor watches it: anchors over checkpoints that hold the records.

An anchor counts for a record if the anchored checkpoint is of the record's log and signed by it, has more leaves than
the record's index, and is shown to be of one tree with the checkpoint of the record's proof. Then the record existed by
the anchor's time. Whoever the trust file does not name counts for nothing, and is refused only where no other
anchor holds; anything else that is wrong with an anchor is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from affiant.attestation.bundle.bundle_anchors import PublishedCheckpoint, StampedCheckpoint
from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.signatures.timestamps.errors import AnchorUnproven, ForeignLog, NotCovering
from affiant.attestation.tlog.checkpoint import Checkpoint, parse_checkpoint
from affiant.attestation.tlog.errors import ConsistencyInvalid, ProofMalformed
from affiant.attestation.tlog.note import Note, parse_note, verify_note
from affiant.attestation.tlog.note_keys import LogKey
from affiant.attestation.tlog.tree import verify_consistency
from affiant.attestation.verdict.errors import ChainBroken, NotAsked, NotMade
from affiant.attestation.verdict.time_bounds import BY_AUTHORITY, BY_SIGSTORE, shown
from affiant.attestation.verdict.verdict import Finding, Tier
from affiant.attestation.verifier.case.case import Case
from affiant.attestation.verifier.case.statement_verifiers import NotNamed, Word
from affiant.attestation.verifier.checks.chain_rules import Link
from affiant.attestation.verifier.checks.witness_checks import TimeBoundsBroken
from affiant.errors import AffiantError

__all__ = [
    "SIGSTORE",
    "TOKENS",
    "Kind",
    "TimeBoundsEmpty",
    "check_sigstore",
    "check_tokens",
    "demand_dated_within",
    "demand_not_empty",
    "of_this_log",
    "stamp_finding",
]


class TimeBoundsEmpty(ChainBroken):
    """An anchor is older than what witnesses saw before the record that it covers."""

    code = "time.empty"


def check_tokens(case: Case) -> Finding:
    """``time.tsa``: a timestamp authority that the trust file names says by when the records existed."""
    if case.trust.tsa_roots is None:
        raise NotAsked("the trust file names no timestamp authority")
    if not case.bundle.anchors.tsr:
        raise NotMade("the bundle has no timestamp token")
    anchors = [
        (each, partial(case.verifiers.anchors.stamped, each.tokens, trust=case.trust, at=case.at))
        for each in case.bundle.anchors.tsr
    ]
    return _examine(case, TOKENS, anchors)


def check_sigstore(case: Case) -> Finding:
    """``time.sigstore``: sigstore recorded that somebody whom the trust file names had signed the checkpoint."""
    if case.trust.sigstore_root is None:
        raise NotAsked("the trust file names no signer by sigstore")
    if not case.bundle.anchors.sigstore:
        raise NotMade("the bundle has no anchor by sigstore")
    anchors = [
        (each, partial(case.verifiers.anchors.published, each.bundle, trust=case.trust, at=case.at))
        for each in case.bundle.anchors.sigstore
    ]
    return _examine(case, SIGSTORE, anchors)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of anchors: its row, by whose word it is, what an anchor is called."""

    code: str
    by: str
    word: str


TOKENS: Final = Kind("time.tsa", BY_AUTHORITY, "token")
SIGSTORE: Final = Kind("time.sigstore", BY_SIGSTORE, "signature")


def _examine(
    case: Case,
    kind: Kind,
    anchors: Sequence[tuple[StampedCheckpoint | PublishedCheckpoint, Callable[[str], Word]]],
) -> Finding:
    """Each anchor: its checkpoint, the tree that it is of, whose word it is, the records that it covers."""
    case.need("log.inclusion", "log.consistency")
    stranger: AffiantError | None = None
    named: set[str] = set()
    for anchor, verify in anchors:
        note, checkpoint = _anchored(case, anchor)
        try:
            word = verify(note.text)
        except NotNamed as not_named:
            stranger = not_named.error
            continue
        _cover(case, kind, checkpoint, word.not_after)
        named.add(word.who)
    if stranger is not None and not named:
        raise stranger
    return _finding(case, kind, named)


def _finding(case: Case, kind: Kind, named: set[str]) -> Finding:
    stamps = case.stamps[kind.code]
    bare = [record.jti for record in case.records if record.rh not in stamps]
    return stamp_finding(
        kind, named, last=max(seconds for seconds, _ in stamps.values()), bare=bare, records=len(case.records)
    )


def stamp_finding(
    kind: Kind, named: Collection[str], *, last: int, bare: Sequence[str], records: int, uncovered: int = 0
) -> Finding:
    """What anchors amount to: by when all existed, or how many are covered by none.

    Args:
        bare: ids of records without one; uncovered: how many there are, if ``bare`` has not all of them.
    """
    names = " and ".join(sorted(repr(name) for name in named))
    if bare:
        text = f"{max(uncovered, len(bare))} of {records} records are covered by no {kind.word}"
        return Finding(
            f"{text}; the others existed by {shown(last)}, says {names}", Tier.WARNING, tuple(bare[:20])
        )
    return Finding(f"every record existed by {shown(last)}, says {names}")


def _anchored(case: Case, anchor: StampedCheckpoint | PublishedCheckpoint) -> tuple[Note, Checkpoint]:
    raw = case.bundle.checkpoints.get(anchor.checkpoint)
    if raw is None:
        raise NotMade("a checkpoint that an anchor names is not in the bundle")
    note = parse_note(raw)
    checkpoint = of_this_log(case, note)
    _demand_one_tree(case, checkpoint, anchor.consistency)
    return note, checkpoint


def of_this_log(case: Case, note: Note) -> Checkpoint:
    """The checkpoint, signed by a log that a gateway of this bundle names.

    Raises:
        ForeignLog, NoteSignatureInvalid, CheckpointMalformed: it is not.
    """
    keys: dict[str, list[LogKey]] = {}
    for party in case.gateways:
        if (log := party.statement.log) is not None:
            keys.setdefault(log.origin, []).append(log.key)
    checkpoint = parse_checkpoint(note.text)
    if checkpoint.origin not in keys:
        raise ForeignLog(
            "the anchored checkpoint is of another log",
            expected=" or ".join(map(repr, sorted(keys))),
            found=repr(checkpoint.origin[:60]),
        )
    verify_note(note, keys[checkpoint.origin])
    return checkpoint


def _demand_one_tree(case: Case, anchored: Checkpoint, path: tuple[bytes, ...]) -> None:
    """The anchored tree and that of the proofs: the larger begins with the smaller."""
    proven = next(each for each in case.checkpoints.values() if each.origin == anchored.origin)
    old, new = sorted((anchored, proven), key=lambda each: each.size)
    try:
        verify_consistency(old=old.size, old_root=old.root, new=new.size, new_root=new.root, path=path)
    except (ConsistencyInvalid, ProofMalformed) as error:
        raise AnchorUnproven(
            f"the anchored checkpoint is not shown to be of the tree of the proofs: {error}",
            found=f"{anchored.size} and {proven.size} leaves",
        ) from error


def _cover(case: Case, kind: Kind, checkpoint: Checkpoint, not_after: int) -> None:
    """Every record that the checkpoint has existed by then."""
    covered = list(_records_in(case, checkpoint))
    if not covered:
        raise NotCovering(
            "the anchored checkpoint has none of these records", found=f"{checkpoint.size} leaves"
        )
    _demand_not_empty(case, covered, not_after)
    _demand_dated_within(case, covered, not_after)
    stamps = case.stamps.setdefault(kind.code, {})
    for record in covered:
        known = stamps.get(record.rh)
        if known is None or not_after < known[0]:
            stamps[record.rh] = (not_after, kind.by)


def _records_in(case: Case, checkpoint: Checkpoint) -> Iterator[VerifiedReceipt]:
    for record in case.records:
        origin, index = case.places[record.rh]
        if origin == checkpoint.origin and index < checkpoint.size:
            yield record


def _demand_not_empty(case: Case, covered: Sequence[VerifiedReceipt], not_after: int) -> None:
    """Witnesses did not see what precedes a record after the token says that it existed."""
    time_bounds = case.time_bounds if "time.bracket" in case.established else {}
    for record in covered:
        found = time_bounds.get(record.rh)
        if found is not None and found.not_before is not None:
            demand_not_empty(record, found.not_before, not_after, case.trust.clock_tolerance_s)


def demand_not_empty(record: VerifiedReceipt | Link, floor: int, not_after: int, tolerance: int) -> None:
    """Raises :class:`TimeBoundsEmpty` where what precedes ``record`` is younger than an anchor over it."""
    if floor > not_after + tolerance:
        raise TimeBoundsEmpty(
            "a token is older than what witnesses saw before the record that it covers",
            expected=f"not before {shown(floor)}",
            found=shown(not_after),
            where=record.jti,
        )


def _demand_dated_within(case: Case, covered: Sequence[VerifiedReceipt], not_after: int) -> None:
    for record in covered:
        demand_dated_within(record, not_after, case.trust.clock_tolerance_s)


def demand_dated_within(record: VerifiedReceipt | Link, not_after: int, tolerance: int) -> None:
    """Raises :class:`~.witness_checks.TimeBoundsBroken` where ``record`` is younger than an anchor over it."""
    if record.iat > not_after + tolerance:
        raise TimeBoundsBroken(
            "a record is dated after a token that covers it",
            expected=f"to {shown(not_after)}",
            found=shown(record.iat),
            where=record.jti,
        )
