"""Decides which checkpoint of a log is stamped next, and verifies a new token before it is kept.

The clock, randomness and the authority are arguments. Nothing is kept that a reader with the same roots would refuse,
and nothing is stamped for a log that has contradicted what was stamped before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from affiant.attestation.anchors.anchor_files import AnchorFile, AnchorFolder
from affiant.attestation.anchors.continuing import note_to_keep
from affiant.attestation.anchors.timestamp_request import timestamp_request
from affiant.attestation.log_reading.log_trust import LogTrust
from affiant.attestation.log_reading.proving import prove_consistency
from affiant.attestation.log_reading.reader import LogTree, read_checkpoint
from affiant.attestation.log_reading.source import LogSource
from affiant.attestation.signatures.timestamps.imprint import Digest, message
from affiant.attestation.signatures.timestamps.renewal import AcceptedRoot, VerifiedStamp, verify_stamp
from affiant.attestation.signatures.timestamps.roots import TSARoot
from affiant.attestation.tlog.checkpoint import Checkpoint
from affiant.attestation.tlog.note import parse_note
from affiant.errors import NotFreshError

__all__ = ["Anchored", "Stamping", "anchor_newest", "judge_anchor", "renew"]

Roots = Sequence[tuple[AcceptedRoot, TSARoot]]


@dataclass(frozen=True, slots=True)
class Stamping:
    """How a checkpoint is stamped.

    Args:
        ask: an authority: request -> response.
        nonce: 16 fresh random bytes, each time.
        roots: who is believed, and when.
        now: the time, UTC.
    """

    ask: Callable[[bytes], bytes]
    nonce: Callable[[], bytes]
    roots: Roots
    now: datetime
    digest: Digest = Digest.SHA256

    def next_token(self, text: str, before: Sequence[bytes]) -> tuple[tuple[bytes, ...], VerifiedStamp]:
        """All tokens over ``text`` with a new one, each verified as a reader would now.

        Raises:
            ``anchor.nonce``: the answer is to another request.
            AffiantError: as the authority, or ``verify_stamp``, refuses.
        """
        nonce = self.nonce()
        response = self.ask(timestamp_request(message(text, before), digest=self.digest, nonce=nonce))
        tokens = (*before, response)
        stamp = verify_stamp(text, tokens, roots=self.roots, at=self.now)
        if stamp.tokens[-1].nonce != int.from_bytes(nonce, "big"):
            raise NotFreshError(
                "the token is not an answer to this request",
                expected="the request's nonce",
                code="anchor.nonce",
            )
        return tokens, stamp


@dataclass(frozen=True, slots=True)
class Anchored:
    """An anchor as it is now. ``new``: whether the authority was asked; ``why`` not."""

    checkpoint: Checkpoint
    stamp: VerifiedStamp
    new: bool
    why: str = ""


def anchor_newest(
    source: LogSource, trust: LogTrust, folder: AnchorFolder, stamping: Stamping, *, again: bool = False
) -> Anchored:
    """Stamp the log's newest checkpoint, and keep it; once a day unless ``again``, and never a size twice.

    Raises:
        AffiantError: the log, the anchors that are there, or the new token are refused; nothing is written.
    """
    note = read_checkpoint(source)
    newest = trust.verify(note).checkpoint
    LogTree(source, newest)  # its tiles lead to its root: what is stamped can be proven from
    raw = note_to_keep(source, trust, folder, note)
    if sizes := folder.sizes():
        kept = folder.read(sizes[-1])
        checkpoint, stamp = judge_anchor(trust, kept, roots=stamping.roots, at=stamping.now)
        prove_consistency(source, checkpoint, newest)
        if checkpoint.size == newest.size:
            return Anchored(checkpoint, stamp, new=False, why="the log has not grown since")
        if not again and stamp.tokens[0].at.astimezone(UTC).date() >= stamping.now.astimezone(UTC).date():
            return Anchored(checkpoint, stamp, new=False, why="there is one of today")
    tokens, stamp = stamping.next_token(note.text, ())
    folder.write(newest.size, raw, tokens)
    return Anchored(newest, stamp, new=True)


def renew(trust: LogTrust, folder: AnchorFolder, stamping: Stamping, sizes: Sequence[int]) -> list[Anchored]:
    """Stamp the anchors over checkpoints of ``sizes`` anew, each with all its tokens before.

    Raises:
        AffiantError: one is not there, or does not hold any more, or the new token is refused; those before are kept.
    """
    found = []
    for size in sizes:
        file = folder.read(size)
        checkpoint, _ = judge_anchor(trust, file, roots=stamping.roots, at=stamping.now)
        tokens, stamp = stamping.next_token(parse_note(file.note).text, file.tokens)
        folder.write(size, file.note, tokens)
        found.append(Anchored(checkpoint, stamp, new=True))
    return found


def judge_anchor(
    trust: LogTrust, file: AnchorFile, *, roots: Roots, at: datetime
) -> tuple[Checkpoint, VerifiedStamp]:
    """An anchor as a reader judges it: the log's signature, and every token.

    Raises:
        AffiantError: one of them does not hold.
    """
    note = parse_note(file.note)
    checkpoint = trust.verify_log(note).checkpoint  # by its own signature: a quorum may be another one today
    return checkpoint, verify_stamp(note.text, file.tokens, roots=roots, at=at)
