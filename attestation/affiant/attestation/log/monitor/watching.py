"""Runs one round of a monitor: it compares what a log shows now with what it showed before and to others.

1. The checkpoint is the log's own, by its signature.
2. It does not contradict the one that was verified last: no smaller tree, no other root, the same beginning.
3. Its quorum has cosigned it, not too long ago.
4. No other checkpoint that the log has signed, at a witness or in a file, contradicts it.
5. Every new leaf is one of this log, added in time, at the next place of its chain.

What holds is remembered, all of it or nothing: a tree that contradicts, or lacks its quorum, is never the one that the
next round starts from. Leaves say nothing of content, so a monitor needs no receipt, no key and no personal data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.log.monitor.findings import Findings
from affiant.attestation.log.monitor.leaf_walk import LeafWalk
from affiant.attestation.log.monitor.proof_files import ProofFiles
from affiant.attestation.log.monitor.report import Report
from affiant.attestation.log.monitor.signer_chains import Rules
from affiant.attestation.log.monitor.state import MonitorState
from affiant.attestation.log_reading.errors import LeafWrong, ResourceMissing, ResourceTooLarge, TreeWrong
from affiant.attestation.log_reading.log_trust import LogTrust, SignedCheckpoint
from affiant.attestation.log_reading.reader import LogTree, read_checkpoint
from affiant.attestation.log_reading.severity import Severity
from affiant.attestation.log_reading.source import LogSource
from affiant.attestation.tlog.checkpoint import Checkpoint, parse_checkpoint
from affiant.attestation.tlog.errors import (
    CheckpointMalformed,
    NoteSignatureInvalid,
    QuorumMissed,
    TileMalformed,
)
from affiant.attestation.tlog.note import Note
from affiant.attestation.tlog.quorum import WitnessPolicy
from affiant.errors import StateError, UnreachableError

__all__ = ["Round"]

_LISTED: Final = 20
"""Open chains that a report names."""


class Round:
    """One round.

    Args:
        others: name -> another checkpoint, fetched before this round reads the log, so that an honest log is no
            smaller; nothing in it is verified.
        not_made: checks that the caller could not make.
        now: seconds since 1970.
        progress: called with how many leaves were read, and of how many.

    Raises:
        ``monitor.state``: the state is another log's.
    """

    def __init__(
        self,
        source: LogSource,
        *,
        trust: LogTrust,
        policy: WitnessPolicy,
        state: MonitorState,
        files: ProofFiles,
        rules: Rules,
        others: Sequence[tuple[str, Note]],
        not_made: Sequence[str],
        now: int,
        progress: Callable[[int, int], None],
    ) -> None:
        self._source = source
        self._trust = trust
        self._policy = policy
        self._state = state
        self._files = files
        self._rules = rules
        self._others = others
        self._not_made = list(not_made)
        self._now = now
        self._progress = progress
        self._found = Findings()
        self._read = 0
        self._tree: LogTree | None = None

    def run(self) -> Report:
        """The round's report; its contradictions are written as files, and what holds is remembered.

        Raises:
            UnreachableError: the log cannot be read now, and nothing was found; nothing is remembered.
            MonitorBusy: another monitor works with the state.
        """
        with self._state.round():
            signed = self._signed(read_checkpoint(self._source))
            remembered = signed is not None and self._judge(signed)
            for finding in self._found.all():
                if finding.severity is Severity.CONTRAINDICATED:
                    self._files.write(finding, self._tree, None if signed is None else signed.note)
                if finding.lasting:
                    self._state.record(finding, self._now)
            return self._report(signed, remembered=remembered)

    def _signed(self, note: Note) -> SignedCheckpoint | None:  # 1
        try:
            return self._trust.verify_log(note)
        except (NoteSignatureInvalid, CheckpointMalformed) as error:
            self._found.contradict(error.code, str(error), ("log.note", note.to_bytes()))
            return None

    def _judge(self, signed: SignedCheckpoint) -> bool:
        """Whether ``signed`` is the checkpoint that the next round starts from."""
        held = self._state.seen()
        before = None if held is None else parse_checkpoint(held[0].text)
        if before is not None and before.origin != signed.checkpoint.origin:
            raise StateError(
                "the state is another log's",
                expected=repr(signed.checkpoint.origin),
                found=repr(before.origin),
                code="monitor.state",
            )
        if held is not None and before is not None and not self._grows(held[0], before, signed):  # 2
            return False
        try:
            self._tree = LogTree(self._source, signed.checkpoint)
            if held is not None and before is not None and self._tree.root_at(before.size) != before.root:
                self._found.contradict(
                    "log.consistency",
                    f"the tree of {signed.checkpoint.size} leaves does not begin with that of {before.size}",
                    ("held.note", held[0].to_bytes()),
                    ("seen.note", signed.note.to_bytes()),
                    subject=f"{before.size} {before.root.hex()}",
                )
                return False
            self._compare_others(signed, self._tree)  # 4
            witnessed = self._witnessed(signed)  # 3
            if witnessed is None:
                return False
            with self._state.attempt():  # 5
                until = self._policy.not_after(witnessed.times)
                walk = LeafWalk(self._state, self._rules, self._found, self._progress)
                start, earlier = (0, None) if before is None or held is None else (before.size, held[1])
                self._read = walk.run(self._tree, start, earlier=earlier, until=until)
                walk.silent(self._now if until is None else until)
        except (TreeWrong, LeafWrong) as error:
            self._found.contradict(error.code, str(error), ("seen.note", signed.note.to_bytes()))
            return False
        except (ResourceMissing, ResourceTooLarge, TileMalformed) as error:
            self._found.warn(error.code, str(error))
            return False
        except UnreachableError as error:
            if not self._found.contradicted:
                raise
            self._found.warn(error.code, str(error))  # going silent does not take back what was seen
            return False
        self._state.remember(signed.note, self._policy.not_before(witnessed.times))
        return True

    def _grows(self, held: Note, before: Checkpoint, signed: SignedCheckpoint) -> bool:
        now, both = signed.checkpoint, (("held.note", held.to_bytes()), ("seen.note", signed.note.to_bytes()))
        if now.size < before.size:
            self._found.contradict(
                "log.rollback",
                f"the log shows {now.size} leaves after {before.size}",
                *both,
                subject=f"{now.size} {now.root.hex()}",
            )
            return False
        if now.size == before.size and now.root != before.root:
            self._found.contradict(
                "log.split_view",
                f"two roots over {now.size} leaves",
                *both,
                subject=f"{now.size} {before.root.hex()} {now.root.hex()}",
            )
            return False
        return True

    def _compare_others(self, signed: SignedCheckpoint, tree: LogTree) -> None:
        for name, note in self._others:
            try:
                other = self._trust.verify_log(note).checkpoint
            except (NoteSignatureInvalid, CheckpointMalformed) as error:
                self._not_made.append(f"comparison with {name}: {error.message}")
                continue
            both = (("log.note", signed.note.to_bytes()), ("other.note", note.to_bytes()))
            if other.origin != signed.checkpoint.origin:
                self._not_made.append(f"comparison with {name}: another log's checkpoint")
            elif other.size > signed.checkpoint.size:
                self._found.warn(
                    "log.behind",
                    f"{name} has {other.size} leaves, the log shows {signed.checkpoint.size}",
                    *both,
                )
            elif tree.root_at(other.size) != other.root:
                self._found.contradict(
                    "log.split_view",
                    f"{name} has another tree of {other.size} leaves than the log",
                    *both,
                    subject=f"{name} {other.size} {other.root.hex()}",
                )

    def _witnessed(self, signed: SignedCheckpoint) -> SignedCheckpoint | None:
        try:
            witnessed = self._trust.verify(signed.note)
        except QuorumMissed as error:
            self._found.warn(error.code, str(error))
            return None
        except NoteSignatureInvalid as error:  # a line of a known witness that does not hold
            self._found.warn("wit.quorum", str(error))
            return None
        time = self._policy.not_before(witnessed.times)
        if time is None:
            self._not_made.append("age of the checkpoint and times of leaves: the policy has no witnesses")
        elif self._now - time > self._rules.stale_s:
            self._found.warn(
                "log.stale",
                f"the newest cosigned checkpoint is {self._now - time} s old; expected at most {self._rules.stale_s}",
            )
        elif time > self._now + self._rules.slack_s:
            self._found.warn("wit.future", f"witnesses' clocks are {time - self._now} s ahead")
        return witnessed

    def _report(self, signed: SignedCheckpoint | None, *, remembered: bool) -> Report:
        running, ended = self._state.counts()
        tails = tuple((b64u(chn), seq, iat) for chn, seq, iat in self._state.open_tails(_LISTED))
        time = None
        if signed is not None and remembered:
            time = self._policy.not_before(self._trust.verify(signed.note).times)
        return Report(
            None if signed is None else signed.checkpoint,
            time,
            remembered,
            self._read,
            running,
            ended,
            tails,
            self._found.all(),
            dict(self._found.counts),
            self._state.contradictions(),
            tuple(self._not_made),
        )
