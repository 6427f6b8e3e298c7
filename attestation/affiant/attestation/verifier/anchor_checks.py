"""Time by somebody who neither keeps the log nor watches it: tokens over checkpoints that hold the records.

An anchor counts for a record if the anchored checkpoint is of the record's log and signed by it, has more leaves than
the record's index, and is shown to be of one tree with the checkpoint of the record's proof. Then the record existed by
the token's time. An authority that the trust file does not name counts for nothing, and is refused only where no other
anchor holds; anything else that is wrong with an anchor is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from affiant.attestation.anchors.errors import (
    AnchorExtraMissing,
    AnchorUnproven,
    AnchorUntrusted,
    ForeignLog,
    NotCovering,
)
from affiant.attestation.anchors.renewal import VerifiedStamp, verify_stamp
from affiant.attestation.bundle_anchors import StampedCheckpoint
from affiant.attestation.receipt import VerifiedReceipt
from affiant.attestation.tlog.checkpoint import Checkpoint, parse_checkpoint
from affiant.attestation.tlog.errors import ConsistencyInvalid, ProofMalformed
from affiant.attestation.tlog.note import Note, parse_note, verify_note
from affiant.attestation.tlog.note_keys import LogKey
from affiant.attestation.tlog.tree import verify_consistency
from affiant.attestation.verifier.bracket import BY_AUTHORITY, shown
from affiant.attestation.verifier.case import Case
from affiant.attestation.verifier.refusals import ChainBroken, NotAsked, NotMade
from affiant.attestation.verifier.verdict import Finding, Tier
from affiant.attestation.verifier.witness_checks import BracketBroken

__all__ = ["check_tokens"]


class BracketEmpty(ChainBroken):
    """An anchor is older than what witnesses saw before the record that it covers."""

    code = "time.empty"


def check_tokens(case: Case) -> Finding:
    """``time.tsa``: a timestamp authority that the trust file names says by when the records existed."""
    if case.trust.tsa_roots is None:
        raise NotAsked("the trust file names no timestamp authority")
    if not case.bundle.anchors.tsr:
        raise NotMade("the bundle has no timestamp token")
    case.need("log.inclusion", "log.consistency")
    untrusted: AnchorUntrusted | None = None
    authorities: set[str] = set()
    for anchor in case.bundle.anchors.tsr:
        try:
            checkpoint, stamp = _verified(case, anchor)
            _cover(case, checkpoint, stamp)
        except AnchorUntrusted as error:
            untrusted = error
            continue
        except AnchorExtraMissing as error:
            raise NotMade(str(error)) from error
        authorities.add(stamp.authority)
    if untrusted is not None and not authorities:
        raise untrusted
    return _finding(case, authorities)


def _finding(case: Case, authorities: set[str]) -> Finding:
    last = shown(max(seconds for seconds, _ in case.stamps.values()))
    bare = [record.jti for record in case.records if record.rh not in case.stamps]
    names = " and ".join(sorted(repr(name) for name in authorities))
    if bare:
        text = f"{len(bare)} of {len(case.records)} records are covered by no token; the others existed by {last}"
        return Finding(f"{text}, says {names}", Tier.WARNING, tuple(bare[:20]))
    return Finding(f"every record existed by {last}, says {names}")


def _verified(case: Case, anchor: StampedCheckpoint) -> tuple[Checkpoint, VerifiedStamp]:
    raw = case.bundle.checkpoints.get(anchor.checkpoint)
    if raw is None:
        raise NotMade("a checkpoint that an anchor names is not in the bundle")
    note = parse_note(raw)
    checkpoint = _of_this_log(case, note)
    _demand_one_tree(case, checkpoint, anchor.consistency)
    stamp = verify_stamp(note.text, anchor.tokens, roots=case.trust.tsa_roots or (), at=case.at)
    return checkpoint, stamp


def _of_this_log(case: Case, note: Note) -> Checkpoint:
    """The checkpoint, signed by a log that a gateway of this bundle names."""
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


def _cover(case: Case, checkpoint: Checkpoint, stamp: VerifiedStamp) -> None:
    """Every record that the checkpoint has existed by the stamp's time."""
    covered = list(_records_in(case, checkpoint))
    if not covered:
        raise NotCovering(
            "the anchored checkpoint has none of these records", found=f"{checkpoint.size} leaves"
        )
    _demand_not_empty(case, covered, stamp.not_after)
    _demand_dated_within(case, covered, stamp.not_after)
    for record in covered:
        known = case.stamps.get(record.rh)
        if known is None or stamp.not_after < known[0]:
            case.stamps[record.rh] = (stamp.not_after, BY_AUTHORITY)


def _records_in(case: Case, checkpoint: Checkpoint) -> Iterator[VerifiedReceipt]:
    for record in case.records:
        origin, index = case.places[record.rh]
        if origin == checkpoint.origin and index < checkpoint.size:
            yield record


def _demand_not_empty(case: Case, covered: Sequence[VerifiedReceipt], not_after: int) -> None:
    """Witnesses did not see what precedes a record after the token says that it existed."""
    brackets = case.brackets if "time.bracket" in case.established else {}
    for record in covered:
        bracket = brackets.get(record.rh)
        floor = None if bracket is None else bracket.not_before
        if floor is not None and floor > not_after + case.trust.clock_tolerance_s:
            raise BracketEmpty(
                "a token is older than what witnesses saw before the record that it covers",
                expected=f"not before {shown(floor)}",
                found=shown(not_after),
                where=record.jti,
            )


def _demand_dated_within(case: Case, covered: Sequence[VerifiedReceipt], not_after: int) -> None:
    for record in covered:
        if record.iat > not_after + case.trust.clock_tolerance_s:
            raise BracketBroken(
                "a record is dated after a token that covers it",
                expected=f"to {shown(not_after)}",
                found=shown(record.iat),
                where=record.jti,
            )
