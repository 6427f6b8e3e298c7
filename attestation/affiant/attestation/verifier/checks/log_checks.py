"""L2: every receipt is in the transparency log that its gateway's keyset names, under a key that the reader accepts.

A proof is believed as far as the checkpoint that it carries, and that as far as the log's signature. The leaf is made
anew from the receipt that was verified: kind, chain, number, time and hash are those of the receipt or the proof fails.
"""

from __future__ import annotations

from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.statements.statement import LogIdentity
from affiant.attestation.tlog.checkpoint import Checkpoint, parse_checkpoint
from affiant.attestation.tlog.note import verify_note
from affiant.attestation.tlog.proof import LogProof, parse_log_proof
from affiant.attestation.tlog.tree import verify_inclusion
from affiant.attestation.verdict.accepted_values import ATTESTED, accepted_at
from affiant.attestation.verdict.errors import EvidenceUnbound, NotAccepted, NotMade
from affiant.attestation.verdict.verdict import Finding, Tier
from affiant.attestation.verifier.case.case import Case, Party
from affiant.errors import AffiantError

__all__ = [
    "LogUnbound",
    "SplitView",
    "accepted_log",
    "check_consistency",
    "check_inclusion",
    "demand_behind",
]


class LogNotAccepted(NotAccepted):
    """The keyset names a log that the trust file does not accept."""

    code = "log.not_accepted"


class LogUnbound(EvidenceUnbound):
    """Keyset and configuration name different logs, or a proof is of another one."""

    code = "log.unbound"


class SplitView(EvidenceUnbound):
    """The log has signed two roots over the same number of leaves, or two leaves at one index."""

    code = "log.split_view"


def check_inclusion(case: Case) -> Finding:
    """``log.inclusion``: each receipt's leaf is in the log of its gateway, by a checkpoint that the log has signed."""
    case.need("sig.receipts")
    logs = {party.statement.keyset_digest: accepted_log(case, party) for party in case.gateways}
    missing = [record for record in case.records if record.rh not in case.bundle.proofs]
    if missing:
        raise NotMade(f"{len(missing)} of {len(case.records)} receipts have no proof of inclusion")
    places: dict[tuple[str, int], str] = {}
    for party in case.parties:
        log = logs.get(party.statement.gks or party.statement.keyset_digest)
        if log is None:
            raise NotMade("the gateway that a session names is not in this bundle")
        for record in party.records:
            try:
                index = _included(case, record, log)
            except AffiantError as error:
                error.where = error.where or record.jti
                raise
            if places.setdefault((log.origin, index), record.rh) != record.rh:
                raise SplitView("two receipts at one index of the log", found=index, where=record.jti)
            case.places[record.rh] = (log.origin, index)
    sizes = {checkpoint.size for checkpoint in case.checkpoints.values()}
    names = ", ".join(sorted({log.origin for log in logs.values()}))
    text = f"{len(places)} leaves in {names}, under a checkpoint of {max(sizes, default=0)}"
    if case.trust.log is None:
        return Finding(f"{text}; the log is not pinned by the trust file", Tier.WARNING)
    return Finding(text)


def check_consistency(case: Case) -> Finding:
    """``log.consistency``: no two checkpoints here say something different of the same log, nor does a record."""
    case.need("log.inclusion")
    roots: dict[tuple[str, int], bytes] = {}
    for checkpoint in case.checkpoints.values():
        if roots.setdefault((checkpoint.origin, checkpoint.size), checkpoint.root) != checkpoint.root:
            raise SplitView(
                "two roots over the same number of leaves",
                found=f"{checkpoint.size} leaves",
                where=checkpoint.origin,
            )
    for record in case.records:
        demand_behind(record.member("cps"), case.places[record.rh][1], jti=record.jti)
    if len(roots) > len({origin for origin, _ in roots}):
        raise NotMade("checkpoints of several sizes, and no proof that they are of one tree")
    return Finding("one checkpoint for each log")


def demand_behind(size: object, index: int, *, jti: str) -> None:
    """Return unless a record names a checkpoint of ``size`` leaves, of which its own, at ``index``, would be one.

    Its signer had seen that many leaves before it signed: a log that has the record among them is another, or was set
    back since.

    Raises:
        SplitView: so.
    """
    if isinstance(size, int) and size > index:
        raise SplitView(
            "a record names a checkpoint of more leaves than stand before it: the log was set back, or is another",
            expected=f"at most {index} leaves",
            found=f"{size} leaves",
            where=jti,
        )


def accepted_log(case: Case, party: Party) -> LogIdentity:
    """The log that a gateway's keyset names, if the reader accepts it."""
    log = party.statement.log
    if log is None:
        raise NotMade("the keyset names no log")
    if case.trust.log is not None and not accepted_at(case.trust.log, log.key.vkey(), case.at):
        if not accepted_at(case.trust.log, ATTESTED, case.at):
            raise LogNotAccepted(
                "the trust file does not accept this log",
                expected=" or ".join(entry.value[:80] for entry in case.trust.log),
                found=log.key.vkey()[:80],
                where="log",
            )
        # Attested: the key counts as far as the quote that binds it.
        case.need("key.bound", "conf.bound", "tee.appraisal")
    return log


def _included(case: Case, record: VerifiedReceipt, log: LogIdentity) -> int:
    proof = parse_log_proof(case.bundle.proofs[record.rh].encode("utf-8", "surrogatepass"))
    checkpoint = _verified_checkpoint(case, proof, log)
    verify_inclusion(
        record.leaf.leaf_hash, index=proof.index, size=checkpoint.size, path=proof.path, root=checkpoint.root
    )
    case.proven[record.rh] = (proof.note, log)
    return proof.index


def _verified_checkpoint(case: Case, proof: LogProof, log: LogIdentity) -> Checkpoint:
    """The checkpoint of a proof, its signature verified once for each note and key."""
    name = (proof.note.to_bytes(), log.key.vkey())
    known = case.checkpoints.get(name)
    if known is None:
        verify_note(proof.note, [log.key])
        known = parse_checkpoint(proof.note.text)
        if known.origin != log.origin:
            raise LogUnbound(
                "a checkpoint of another log", expected=repr(log.origin), found=repr(known.origin[:60])
            )
        case.checkpoints[name] = known
    return known
