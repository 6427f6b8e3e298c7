"""Time by somebody who neither keeps the log nor watches it: anchors over checkpoints that hold the records.

An anchor counts for a record if the anchored checkpoint is of the record's log and signed by it, has more leaves than
the record's index, and is shown to be of one tree with the checkpoint of the record's proof. Then the record existed by
the anchor's time. Whoever the trust file does not name counts for nothing, and is refused only where no other
anchor holds; anything else that is wrong with an anchor is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
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
from affiant.attestation.verdict.accepted_values import TrustFile
from affiant.attestation.verdict.errors import ChainBroken, NotAsked, NotMade
from affiant.attestation.verdict.time_bounds import BY_AUTHORITY, BY_SIGSTORE, Ceilings, shown
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
    "demand_asked",
    "demand_dated_within",
    "demand_not_empty",
    "of_this_log",
    "stamp_finding",
]


class TimeBoundsEmpty(ChainBroken):
    """An anchor is older than what witnesses saw before the record that it covers."""

    code = "time.empty"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of anchors: its row, by whose word it is, what an anchor is called, and why the row is not made."""

    code: str
    by: str
    word: str
    unasked: str
    absent: str


TOKENS: Final = Kind(
    "time.tsa",
    BY_AUTHORITY,
    "token",
    "the trust file names no timestamp authority",
    "the bundle has no timestamp token",
)
SIGSTORE: Final = Kind(
    "time.sigstore",
    BY_SIGSTORE,
    "signature",
    "the trust file names no signer by sigstore",
    "the bundle has no anchor by sigstore",
)


def demand_asked(kind: Kind, trust: TrustFile, *, here: bool) -> None:
    """Raises :class:`NotAsked` where ``trust`` names nobody for a kind, :class:`NotMade` without an anchor of it."""
    if (trust.tsa_roots if kind is TOKENS else trust.sigstore_root) is None:
        raise NotAsked(kind.unasked)
    if not here:
        raise NotMade(kind.absent)


def check_tokens(case: Case) -> Finding:
    """``time.tsa``: a timestamp authority that the trust file names says by when the records existed."""
    found, verify = case.bundle.anchors.tsr, case.verifiers.anchors.stamped
    return _examine(case, TOKENS, [(each, partial(verify, each.tokens)) for each in found])


def check_sigstore(case: Case) -> Finding:
    """``time.sigstore``: sigstore recorded that somebody whom the trust file names had signed the checkpoint."""
    found, verify = case.bundle.anchors.sigstore, case.verifiers.anchors.published
    return _examine(case, SIGSTORE, [(each, partial(verify, each.bundle)) for each in found])


def _examine(
    case: Case,
    kind: Kind,
    anchors: Sequence[tuple[StampedCheckpoint | PublishedCheckpoint, Callable[..., Word]]],
) -> Finding:
    """Each anchor: its checkpoint, the tree that it is of, whose word it is, the records that it covers."""
    demand_asked(kind, case.trust, here=bool(anchors))
    case.need("log.inclusion", "log.consistency")
    stranger: AffiantError | None = None
    named: set[str] = set()
    times: dict[str, dict[int, int]] = {}
    for anchor, verify in anchors:
        note, checkpoint = _anchored(case, anchor)
        try:
            word = verify(note.text, trust=case.trust, at=case.at)
        except NotNamed as not_named:
            stranger = not_named.error
            continue
        origin, size = checkpoint.origin, checkpoint.size
        if all(log != origin or index >= size for log, index in case.places.values()):
            raise NotCovering("the anchored checkpoint has none of these records", found=f"{size} leaves")
        of_log = times.setdefault(origin, {})
        of_log[size] = min(word.not_after, of_log.get(size, word.not_after))
        named.add(word.who)
    if stranger is not None and not named:
        raise stranger
    stamps = case.stamps[kind.code] = _stamped(
        case, kind, {log: Ceilings(each) for log, each in times.items()}
    )
    bare = [record.jti for record in case.records if record.rh not in stamps]
    last = max(seconds for seconds, _ in stamps.values())
    return stamp_finding(kind, named, last=last, bare=bare, records=len(case.records))


def _stamped(case: Case, kind: Kind, ceilings: Mapping[str, Ceilings]) -> dict[str, tuple[int, str]]:
    """Receipt hash -> by when it existed, of every record that one of the anchored checkpoints has."""
    places = ((record, *case.places[record.rh]) for record in case.records)
    found = [(record, ceilings[log].of(index)) for record, log, index in places if log in ceilings]
    covered = [(record, end) for record, end in found if end is not None]
    time_bounds = case.time_bounds if "time.bracket" in case.established else {}
    for record, end in covered:
        known = time_bounds.get(record.rh)
        if known is not None and known.not_before is not None:
            demand_not_empty(record, known.not_before, end, case.trust.clock_tolerance_s)
    for record, end in covered:
        demand_dated_within(record, end, case.trust.clock_tolerance_s)
    return {record.rh: (end, kind.by) for record, end in covered}


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


def demand_not_empty(record: VerifiedReceipt | Link, floor: int, not_after: int, tolerance: int) -> None:
    """Raises :class:`TimeBoundsEmpty` where what precedes ``record`` is younger than an anchor over it."""
    if floor > not_after + tolerance:
        raise TimeBoundsEmpty(
            "a token is older than what witnesses saw before the record that it covers",
            expected=f"not before {shown(floor)}",
            found=shown(not_after),
            where=record.jti,
        )


def demand_dated_within(record: VerifiedReceipt | Link, not_after: int, tolerance: int) -> None:
    """Raises :class:`~.witness_checks.TimeBoundsBroken` where ``record`` is younger than an anchor over it."""
    if record.iat > not_after + tolerance:
        raise TimeBoundsBroken(
            "a record is dated after a token that covers it",
            expected=f"to {shown(not_after)}",
            found=shown(record.iat),
            where=record.jti,
        )
