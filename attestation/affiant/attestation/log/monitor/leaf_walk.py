"""Checks the new leaves of a round: each belongs to this log, was added in time, and is at the next position of its
chain.
"""

from __future__ import annotations

from collections.abc import Callable

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.log.monitor.findings import MAX_FINDINGS, Findings
from affiant.attestation.log.monitor.signer_chains import Rules, next_of
from affiant.attestation.log.monitor.state import MonitorState
from affiant.attestation.log_reading.reader import LogTree
from affiant.attestation.tlog.entry import LogEntry, parse_entry
from affiant.attestation.tlog.errors import EntryMalformed
from affiant.attestation.tlog.tiles import TILE_WIDTH

__all__ = ["LeafWalk"]


class LeafWalk:
    """One walk.

    Args:
        found: gets what is found.
        progress: called with how many leaves were read, and of how many.
    """

    def __init__(
        self, state: MonitorState, rules: Rules, found: Findings, progress: Callable[[int, int], None]
    ) -> None:
        self._state = state
        self._rules = rules
        self._found = found
        self._progress = progress

    def run(self, tree: LogTree, start: int, *, earlier: int | None, until: int | None) -> int:
        """Judge the leaves of ``tree`` from ``start`` on; how many there were.

        Args:
            earlier: seconds since 1970 when the tree had ``start`` leaves; None where no witness backs a time.
            until: by when the whole tree was seen; None in the same way.

        Raises:
            AffiantError: the leaves cannot be read, or are not the tree's.
        """
        size = tree.checkpoint.size
        for index, leaf in tree.leaves(start):
            try:
                entry = parse_entry(leaf)
            except EntryMalformed as error:
                self._found.contradict(error.code, f"leaf {index}: {error}", leaves=(index,))
                continue
            self._place(entry, index)
            self._time(entry, index, earlier, until)
            if index % TILE_WIDTH == TILE_WIDTH - 1 or index + 1 == size:
                self._progress(index + 1, size)
        return size - start

    def silent(self, at: int) -> None:
        """Open chains that have stopped by ``at``, each reported once."""
        rules = self._rules
        patience = rules.epoch_s + rules.merge_delay_s + rules.slack_s
        for chn, chain in self._state.newly_silent(at - patience, MAX_FINDINGS):
            self._found.warn(
                "chain.silent",
                f"chain {b64u(chn)} is open and silent since place {chain.seq}, for {at - chain.iat} s: "
                "what it did after that is not provable",
            )

    def _place(self, entry: LogEntry, index: int) -> None:
        chain, found = next_of(self._state.chain(entry.chn), entry, index, self._rules)
        for finding in found:
            self._found.add(finding)
        self._state.keep(entry.chn, chain)

    def _time(self, entry: LogEntry, index: int, earlier: int | None, until: int | None) -> None:
        rules = self._rules
        if earlier is not None and entry.iat + rules.merge_delay_s + rules.slack_s < earlier:
            self._found.warn(
                "log.late", f"leaf {index} was added {earlier - entry.iat} s after its time, or later"
            )
        if until is not None and entry.iat > until + rules.slack_s:
            self._found.warn("log.future", f"leaf {index} is {entry.iat - until} s ahead of its witnesses")
