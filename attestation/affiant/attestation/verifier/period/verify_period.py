"""The order of a verification of a period bundle, and what becomes of each check.

1. The archive, the keysets, and the log part under the checkpoint that the gateways' log key has signed.
2. Every receipt once, in log order (:mod:`.first_pass`), verified by the crew.
3. Every session as a case of its own, by the checks of a single bundle, and gateways without one (:mod:`.judging`).
4. The log: accepted by the trust file (an attested key counts as far as 3 held), consistent, witnessed.
5. Files that nobody has asked for, against the manifest.

Memory grows with sessions and keysets, by some hundred bytes each, and by 16 bytes for each receipt; never with their
content. One session that is larger than :data:`MAX_SESSION` is not judged as a session, and the verdict says so.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import Final

from affiant.attestation.bundle import Bundle
from affiant.attestation.log_reading.errors import LeafWrong, TreeWrong
from affiant.attestation.period.reader import PeriodBundle
from affiant.attestation.period.zip_directory import ZIP_BOUNDS, ZipBounds
from affiant.attestation.statement import KeysetStatement, LogIdentity, parse_statement
from affiant.attestation.tlog.checkpoint import Checkpoint
from affiant.attestation.tlog.errors import EntryMalformed, TileMalformed
from affiant.attestation.trust_file import TrustFile
from affiant.attestation.verifier.bracket import Bracket
from affiant.attestation.verifier.case import Case, Party
from affiant.attestation.verifier.log_checks import accepted_log
from affiant.attestation.verifier.people import People
from affiant.attestation.verifier.period import judging
from affiant.attestation.verifier.period.brackets import Brackets, witnessing
from affiant.attestation.verifier.period.coverage import Coverage
from affiant.attestation.verifier.period.crew import Crew, crew
from affiant.attestation.verifier.period.first_pass import FirstPass, LineRefused
from affiant.attestation.verifier.period.judging import Judged, Setting, Work
from affiant.attestation.verifier.period.log_view import LogView, Noted, demand_one_tree, noted_at, open_log
from affiant.attestation.verifier.period.seen import Refused
from affiant.attestation.verifier.period.signers import Signers, read_signers
from affiant.attestation.verifier.period.spill import Spill
from affiant.attestation.verifier.period.stamps import Stamps, read_stamps
from affiant.attestation.verifier.period.tally import Exceptions, Tally
from affiant.attestation.verifier.period.traced import TracedRecords
from affiant.attestation.verifier.refusals import NoPin, NotAsked, NotMade
from affiant.attestation.verifier.timeline import Moment
from affiant.attestation.verifier.trace import NOTHING, Trace, TracedRoot
from affiant.attestation.verifier.verdict import Check, Finding, Population, State, Tier, Verdict
from affiant.attestation.verifier.verify_bundle import (
    BODIES,
    CHECKS,
    Examined,
    Row,
    make_check,
    not_made_check,
    refused_check,
    verifier_fault,
)
from affiant.attestation.verifier.witness_checks import needs_self, witnessed
from affiant.errors import AffiantError

__all__ = ["MAX_SESSION", "examine_period", "verify_period"]

MAX_SESSION: Final = 20_000
"""Records of one session that are judged together: some 100 MiB of memory in the process that does it."""
_CHUNK: Final = 500
_ALONE: Final = 5_000
"""Records of a gateway without a session that make one case."""
_SMALL: Final = 8 << 20
"""Bytes of receipts up to which one process is faster than to start others."""
_SHOWN: Final = 5_000
"""Records of the timeline."""

Progress = Callable[[str, int, int], None]
"""What is being done, how much of it is done, and how much there is."""


def verify_period(
    path: Path,
    trust: TrustFile,
    *,
    at: datetime,
    build: str,
    since: datetime | None = None,
    until: datetime | None = None,
    request: bytes | None = None,
    response: bytes | None = None,
    session: str | None = None,
    processes: int = 1,
    timeline: bool = False,
    progress: Progress = lambda *_: None,
    bounds: ZipBounds = ZIP_BOUNDS,
) -> Verdict:
    """Check one period bundle: the verdict of :func:`examine_period`, which has the same arguments."""
    return examine_period(
        path,
        trust,
        at=at,
        build=build,
        since=since,
        until=until,
        request=request,
        response=response,
        session=session,
        processes=processes,
        timeline=timeline,
        progress=progress,
        bounds=bounds,
    ).verdict


def examine_period(
    path: Path,
    trust: TrustFile,
    *,
    at: datetime,
    build: str,
    since: datetime | None = None,
    until: datetime | None = None,
    request: bytes | None = None,
    response: bytes | None = None,
    session: str | None = None,
    processes: int = 1,
    timeline: bool = False,
    held_against: bool = False,
    progress: Progress = lambda *_: None,
    bounds: ZipBounds = ZIP_BOUNDS,
) -> Examined:
    """Check one period bundle.

    Args:
        path: the archive. trust, at, build, request, response, session: as for a single bundle.
        since, until: the auditor's own range, from and to before; None for both: coverage is not made.
        processes: that verify, beside this one.
        timeline: keep the first 5,000 records for a report.
        held_against: keep, on disk, what other bundles are held against; else there is no trace.

    Returns:
        The verdict, also for an archive that cannot be read: the refusal is its first check.
    """
    asked = _Asked(trust, at, build, since, until, request, response, session)
    try:
        bundle = PeriodBundle(path, bounds=bounds)
    except AffiantError as error:
        return Examined(_unreadable(asked, path, error), NOTHING)
    with bundle, Spill() as spill:
        run = _Run(asked, bundle, spill, progress, processes, timeline, held_against)
        verdict = run.verdict()
        return Examined(verdict, run.trace())


@dataclass(frozen=True, slots=True)
class _Asked:
    trust: TrustFile
    at: datetime
    build: str
    since: datetime | None
    until: datetime | None
    request: bytes | None
    response: bytes | None
    session: str | None


@dataclass(slots=True)
class _Run:
    asked: _Asked
    bundle: PeriodBundle
    spill: Spill
    progress: Progress
    processes: int
    timeline: bool
    held_against: bool
    checks: dict[str, Check] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=dict)
    signers: Signers | None = None
    log: LogIdentity | None = None
    view: LogView | None = None
    noted: list[Noted] = field(default_factory=list)
    roots: list[Checkpoint] = field(default_factory=list)
    """What the log has signed, also where it is not of this tree."""
    traced: TracedRecords | None = None
    stamps: dict[str, Stamps | AffiantError] = field(default_factory=dict)
    """By the ending of their files: the anchors, or why they do not count."""
    log_error: AffiantError | None = None
    split: Exceptions = field(default_factory=Exceptions)
    undecided: int = 0
    first: FirstPass | None = None
    states: dict[str, int] = field(default_factory=dict)
    classes: set[str] = field(default_factory=set)
    appraised: set[str] = field(default_factory=set)
    erased: dict[str, str] = field(default_factory=dict)
    pruned: dict[str, tuple[int, str]] = field(default_factory=dict)
    shown: list[tuple[str, str]] = field(default_factory=list)
    moments: tuple[Moment, ...] = ()

    # -- the order ---------------------------------------------------------------------------------------------

    def verdict(self) -> Verdict:
        """All of it."""
        self.made("fmt.keysets", self._read_keysets)
        damage: AffiantError | None = None
        if self.signers is not None:
            try:
                self._open_log()
                self._verify()
            except (TreeWrong, LeafWrong, TileMalformed, EntryMalformed) as error:
                self.log_error, self.view, self.first = error, None, None
            except AffiantError as error:  # of the archive, where it was read: nothing is said about the rest
                damage, self.first = error, None
            except Exception as error:  # noqa: BLE001 - as in a single bundle: refused, never passed over
                damage, self.first = verifier_fault(error), None
        self._chain_rows()
        self._session_rows()
        self._log_rows()
        self.made("fmt.bundle", lambda: self._format(damage))
        return self._assembled()

    def _read_keysets(self) -> Finding:
        self.signers = read_signers(self.bundle.objects("keysets"))
        return Finding(f"{len(self.signers.by_kid)} keysets in their closed form")

    def _open_log(self) -> None:
        """The tree under the checkpoint, or why there is none."""
        assert self.signers is not None
        try:
            self.log = _one_log(self.signers)
            self.view = open_log(self.bundle, self.log)
        except AffiantError as error:
            self.log_error = error
            return
        for size in self.bundle.checkpoint_sizes:
            try:
                found = noted_at(self.bundle, self.log, size)
                self.roots.append(found.checkpoint)
                demand_one_tree(self.view, found)
                self.noted.append(found)
            except NotMade:
                self.undecided += 1
            except AffiantError as error:
                self.split.add(error)
        self.noted.append(self.view.newest)
        self.roots.append(self.view.newest.checkpoint)

    def _verify(self) -> None:
        assert self.signers is not None
        sessions = self.signers.sessions
        only = self.asked.session
        judged = {name: each.kid for name, each in sessions.items() if only is None or name == only}
        self._read_stamps()
        if self.held_against:
            self.traced = TracedRecords(None if self.view is None else self.view.newest.checkpoint.origin)
        self.first = FirstPass(
            signers=self.signers,
            view=self.view,
            coverage=Coverage(
                _seconds(self.asked.since),
                _seconds(self.asked.until),
                0 if self.view is None else self.view.size,
            ),
            brackets=self._brackets(),
            spill=self.spill,
            judged=judged,
            at=self.asked.at,
            tolerance=self.asked.trust.clock_tolerance_s,
            traced=self.traced,
            stamps=[each for each in self.stamps.values() if isinstance(each, Stamps)],
        )
        total = sum(self.bundle.archive.members[name].size for name in self.bundle.shards)
        asked = self.asked
        setting = Setting(
            self.bundle.path, asked.trust.raw, asked.at, self.signers.names, asked.request, asked.response
        )
        with crew(judging.begin, (setting,), processes=self.processes if total > _SMALL else 1) as hands:
            self._first_pass(hands, total)
            self._chain_rows()
            self._judge(hands)
            for found in hands.map(judging.moments, [self.shown] if self.shown else []):
                self.moments = found

    def _first_pass(self, hands: Crew, total: int) -> None:
        assert self.first is not None
        sent: deque[list[tuple[str, str]]] = deque()

        def chunks() -> Iterator[list[str]]:
            for shard in self.bundle.shards:
                numbered = ((f"{shard}:{n}", t) for n, t in enumerate(self.bundle.receipts_of(shard), 1))
                while piece := list(islice(numbered, _CHUNK)):
                    sent.append(piece)
                    yield [text for _, text in piece]

        done = 0
        for found in hands.map(judging.look_at, chunks()):
            for (where, text), seen in zip(sent.popleft(), found, strict=True):
                done += len(text)
                if isinstance(seen, Refused):
                    self.first.refuse(seen, where)
                    continue
                self.first.take(seen, text)
                if self.timeline and len(self.shown) < _SHOWN:
                    self.shown.append((seen.rh, text))
            self.progress("receipts", done, total)
        self.first.finish()

    def _judge(self, hands: Crew) -> None:
        assert self.first is not None
        held = {code for code, check in self.checks.items() if check.state is State.HELD}
        if "sig.receipts" not in held:
            return
        established = frozenset(held | {"fmt.bundle"})
        total, done = len(self.first.judged) or 1, 0
        for judged in hands.map(judging.judge, self._works(established)):
            self._take(judged)
            done += bool(judged.session)
            self.progress("sessions", done, total)

    def _works(self, established: frozenset[str]) -> Iterator[Work]:
        """Every case: sessions, then gateways alone; each gateway in one at least."""
        assert self.first is not None
        assert self.signers is not None
        gateways = {
            kid: boot for kid, boot in self.first.boots.items() if self.signers.by_kid[kid].role == "gateway"
        }
        for_sessions = [*gateways.values(), *self.first.gaps, *self.first.orders]
        for kid in sorted(gateways):
            name = f":{kid}"
            for begin in range(0, self.spill.count(name), _ALONE):
                kept = tuple(self.spill.texts(name, begin, _ALONE))
                yield Work("", "", kept, [*gateways.values(), *self.first.orders], established)
        for session, kid in sorted(self.first.judged.items()):
            if self.spill.count(session) > MAX_SESSION:
                self._too_large(session)
                continue
            yield Work(session, kid, tuple(self.spill.texts(session)), for_sessions, established)

    def _too_large(self, session: str) -> None:
        text = f"a session of {self.spill.count(session)} records: more than {MAX_SESSION} are not judged together"
        for row in judging.case_rows(with_session=True):
            check = Check(row.code, row.level, State.NOT_MADE, Tier.NONE, text)
            self._tally(row).add(check, case=session)

    def _take(self, judged: Judged) -> None:
        by_code = {row.code: row for row in (*CHECKS, *BODIES)}
        self.classes |= judged.cls
        self.appraised |= judged.appraised
        self.erased |= judged.erased
        for chn, last in judged.pruned.items():
            self.pruned[chn] = max(last, self.pruned.get(chn, last))
        if judged.state:
            self.states[judged.state] = self.states.get(judged.state, 0) + 1
        for check in judged.checks:
            self._tally(by_code[check.code]).add(check, case=judged.session or "gateway")

    def _tally(self, row: Row) -> Tally:
        return self.tallies.setdefault(
            row.code, Tally(row.code, row.level, any_suffices=row.code.startswith("body."))
        )

    def _brackets(self) -> Brackets | None:
        if self.view is None or self.log is None or self.asked.trust.witnesses is None:
            return None
        try:
            seen = witnessing(self._whole(), self.log, self.noted)
        except AffiantError:  # the row says why
            return None
        brackets = Brackets(seen, self.asked.trust.clock_tolerance_s)
        assert self.signers is not None
        for chn, signer in self.signers.by_chain.items():
            if signer.cp is not None:
                brackets.state(chn, signer.cp)
        return brackets

    # -- rows --------------------------------------------------------------------------------------------------

    def made(self, code: str, examine: Callable[[], Finding]) -> None:
        """Make one check of the whole archive."""
        trust, level = self.asked.trust, _LEVELS.get(code)
        try:
            self.checks[code] = make_check(code, level, examine(), trust)
        except NotAsked as unasked:
            self.checks[code] = Check(code, level, State.NOT_ASKED, None, unasked.message)
        except NotMade as missing:
            tier = None if isinstance(missing, NoPin) else Tier.NONE
            self.checks[code] = not_made_check(code, level, missing.message, trust, tier=tier)
        except _Many as error:
            self.checks[code] = error.row(code, trust)
        except AffiantError as error:
            self.checks[code] = refused_check(code, level, error, trust)
        except Exception as error:  # noqa: BLE001 - as in a single bundle: refused, never passed over
            self.checks[code] = refused_check(code, level, verifier_fault(error), trust)

    def _held(self, *codes: str) -> None:
        for code in codes:
            if code not in self.checks or self.checks[code].state is not State.HELD:
                raise NotMade(f"needs {code}, which did not hold")

    def _chain_rows(self) -> None:
        first = self.first
        self._ruled(
            "sig.receipts",
            ("fmt.keysets",),
            lambda: f"{_made(first).receipts} signatures hold, each in its closed form",
        )
        self._ruled("chain.ids", ("sig.receipts",), lambda: f"{_made(first).ids.count} ids, each once")
        along = ("sig.receipts",)
        self._ruled("chain.time", along, lambda: "self-asserted times in order", log=True)
        self._ruled(
            "chain.boot", along, lambda: "each chain begins with the boot record of its keyset", log=True
        )
        self._ruled("chain.contiguous", ("chain.boot",), self._contiguous, log=True)
        self._ruled("chain.end", ("chain.boot",), self._ended, log=True)
        self._ruled("chain.epochs", ("chain.contiguous",), lambda: "epoch records at their cadence", log=True)
        self.made("chain.gaps", self._gaps)

    def _ruled(
        self, code: str, needs: Sequence[str], good: Callable[[], str | Finding], *, log: bool = False
    ) -> None:
        def examine() -> Finding:
            self._held(*needs)
            first = _made(self.first)
            if log and self.view is None:
                raise NotMade("chains are judged along the log, which cannot be read")
            found = first.exceptions.get(code)
            if found is not None:
                raise _Many(found)
            text = good()
            return Finding(text) if isinstance(text, str) else text

        self.made(code, examine)

    def _contiguous(self) -> Finding:
        first = _made(self.first)
        text = f"{first.placed} records in {self._chains()} chains, links unbroken along the log"
        if first.withheld:
            return Finding(f"{text}; {first.withheld} leaves beside them without a record here", Tier.WARNING)
        return Finding(text)

    def _ended(self) -> str:
        chains = [each for each in _made(self.first).chains.values() if each.records]
        return f"{sum(each.end.ended for each in chains)} of {len(chains)} chains ended, the others are open"

    def _chains(self) -> int:
        return sum(1 for each in _made(self.first).chains.values() if each.records)

    def _gaps(self) -> Finding:
        self._held("sig.receipts")
        gaps = _made(self.first).gap_ids
        if gaps:
            return Finding(f"{len(gaps)} gaps disclosed after a crash", Tier.WARNING, tuple(gaps[:100]))
        return Finding("no gap disclosed")

    def _coverage(self) -> Finding:
        if self.asked.since is None and self.asked.until is None:
            raise NotMade("no range was asked for: say which with --from and --to")
        self._held("sig.receipts", "log.inclusion")
        return _made(self.first).coverage.finding(self.erased, self.pruned)

    def _session_rows(self) -> None:
        trust = self.asked.trust
        nothing = "no session whose supervisor's records are here"
        if "sig.receipts" not in self.checks or self.checks["sig.receipts"].state is not State.HELD:
            nothing = "needs sig.receipts, which did not hold"
        for row in judging.case_rows(with_session=True):
            required = trust.require is None or row.code in trust.require
            self.checks[row.code] = self._tally(row).to_check(required=required, nothing=nothing)
        found = None if self.first is None else self.first.exceptions.get("peer.bound")
        if found is not None:
            self.checks["peer.bound"] = _Many(found).row("peer.bound", trust)
        for row in BODIES:
            given = self.asked.request if row.code == "body.request" else self.asked.response
            if given is None:
                self.checks[row.code] = Check(
                    row.code, row.level, State.NOT_ASKED, None, "no body was given", required=False
                )
            else:
                self.checks[row.code] = self._tally(row).to_check(required=True, nothing=nothing)

    def _log_rows(self) -> None:
        if self.log_error is not None:
            self.made("log.inclusion", self._no_log)
        else:
            self._ruled("log.inclusion", ("sig.receipts",), self._included)
        self.made("log.consistency", self._consistent)
        self.made("chain.coverage", self._coverage)
        self.made("wit.quorum", self._quorum)
        self.made("time.bracket", self._times)
        self.made("time.tsa", self._anchored)
        self.made("time.sigstore", self._published)

    def _no_log(self) -> Finding:
        assert self.log_error is not None
        raise self.log_error

    def _included(self) -> Finding:
        assert self.view is not None
        assert self.signers is not None
        case, first = self._whole(), _made(self.first)
        for gateway in self.signers.gateways:
            accepted_log(case, Party(self._statement(gateway.name)))
        known = {each.keyset for each in self.signers.gateways}
        if any(
            each.session in first.judged and each.gks not in known for each in self.signers.sessions.values()
        ):
            raise NotMade("the gateway that a session names is not in this bundle")
        text = f"{first.placed} leaves in {self.view.newest.checkpoint.origin}, under a checkpoint of {self.view.size}"
        if self.asked.trust.log is None:
            return Finding(f"{text}; the log is not pinned by the trust file", Tier.WARNING)
        return Finding(text)

    def _consistent(self) -> Finding:
        self._held("log.inclusion")
        if self.split.first is not None:
            raise _Many(self.split)
        if self.undecided:
            raise NotMade(
                f"{self.undecided} checkpoints of which it cannot be told that they are of this tree"
            )
        return Finding(f"{len(self.noted)} checkpoints, all of one tree")

    def _quorum(self) -> Finding:
        if self.asked.trust.witnesses is None:
            raise NoPin("the trust file names no witnesses")
        self._held("log.inclusion")
        assert self.view is not None
        assert self.log is not None
        case = self._whole()
        names = sorted(witnessed(case, self.view.newest.note, self.log).times)
        if needs_self(case):
            text = "witness: self. A witness in the operator's own domain detects faults, not a determined operator"
            return Finding(text, Tier.WARNING)
        return Finding(f"the checkpoint is cosigned by {', '.join(names)}")

    def _times(self) -> Finding:
        if self.asked.trust.witnesses is None:
            raise NoPin("without witnesses there is no time but what signers assert")
        self._held("wit.quorum", "chain.contiguous")
        brackets = _made(self.first).brackets
        assert brackets is not None, "wit.quorum held"
        if brackets.broken.first is not None:
            raise _Many(brackets.broken)
        assert self.log is not None
        case = self._whole()
        for each in self.noted:
            try:
                witnessed(case, each.note, self.log)
            except NotMade:
                continue
        return brackets.finding(case)

    def _published(self) -> Finding:
        if self.asked.trust.sigstore_root is None:
            raise NotAsked("the trust file names no signer by sigstore")
        return self._stamped(".sigstore.json", "the bundle has no anchor by sigstore")

    def _anchored(self) -> Finding:
        if self.asked.trust.tsa_roots is None:
            raise NotAsked("the trust file names no timestamp authority")
        return self._stamped(".tsr", "the bundle has no timestamp token")

    def _stamped(self, ending: str, nothing: str) -> Finding:
        if not any(name.endswith(ending) for name in self.bundle.anchors):
            raise NotMade(nothing)
        self._held("log.inclusion", "log.consistency")
        found = self.stamps[ending]
        if isinstance(found, AffiantError):
            raise found
        if self.checks["time.bracket"].state is State.HELD and found.empty.first is not None:
            raise _Many(found.empty)
        if found.outside.first is not None:
            raise _Many(found.outside)
        return found.finding()

    def _read_stamps(self) -> None:
        """The anchors of the kinds that the trust file names somebody for."""
        trust = self.asked.trust
        texts = {each.checkpoint.size: each.note.text for each in self.noted}
        for ending, named in ((".tsr", trust.tsa_roots), (".sigstore.json", trust.sigstore_root)):
            if named is None or self.view is None:
                continue
            try:
                found = read_stamps(self.bundle, ending, texts, trust, at=self.asked.at)
            except AffiantError as error:  # the row says so
                self.stamps[ending] = error
            else:
                if found is not None:
                    self.stamps[ending] = found

    def _time(self, brackets: Brackets | None) -> Bracket | None:
        """Around every record: by witnesses, and no later than anchors over all of them say."""
        found = brackets.around() if brackets is not None and self._holds("time.bracket") else None
        for stamps in self.stamps.values():
            if isinstance(stamps, Stamps) and self._holds(stamps.kind.code) and not stamps.uncovered:
                found = (found or Bracket(None, None)).not_after_also(stamps.last, stamps.kind.by)
        return found

    def _holds(self, code: str) -> bool:
        return self.checks[code].state is State.HELD

    def _format(self, damage: AffiantError | None) -> Finding:
        if damage is not None:
            raise damage
        self.bundle.read_rest()
        text = f"{len(self.bundle.archive.members)} files, each as the manifest lists it"
        odd = []
        if self.bundle.unknown:
            odd.append(f"{len(self.bundle.unknown)} files that the layout does not have, not read")
        if self.bundle.absent:
            odd.append(f"{len(self.bundle.absent)} files that are listed and not there")
        if odd:
            where = (*self.bundle.unknown, *self.bundle.absent)[:100]
            return Finding("; ".join((text, *odd)), Tier.WARNING, where)
        return Finding(text)

    # -- the verdict -------------------------------------------------------------------------------------------

    def _whole(self) -> Case:
        """A case of the whole archive, for the rules that ask a trust file about a log."""
        case = Case(Bundle(()), self.asked.trust, self.asked.at, None, None, None)
        case.established = {code for code, check in self.checks.items() if check.state is State.HELD}
        return case

    def _statement(self, name: str) -> KeysetStatement:
        return parse_statement(self.bundle.objects("keysets")[name])

    def _assembled(self) -> Verdict:
        order = ["fmt.bundle", *(row.code for row in (*CHECKS, *BODIES)), "chain.coverage"]
        for row in CHECKS:
            if row.code not in self.checks:
                text = "not judged for a period bundle by this version"
                self.checks[row.code] = not_made_check(
                    row.code, row.level, text, self.asked.trust, tier=Tier.NONE
                )
        first, brackets = self.first, None if self.first is None else self.first.brackets
        held = self.checks["time.bracket"].state is State.HELD
        return Verdict(
            bundle=self.bundle.archive.digest(),
            at=_shown(self.asked.at),
            trust=self.asked.trust.digest,
            build=self.asked.build,
            evidence_class=self._class(),
            checks=tuple(self.checks[code] for code in dict.fromkeys(order)),
            population=Population() if first is None else self._population(first),
            time=self._time(brackets),
            unwitnessed=brackets.unwitnessed() if held and brackets is not None else None,
            people=self._people(first),
            timeline=self.moments,
        )

    def trace(self) -> Trace:
        """What is left behind of it; of a period that nobody is held against, nothing."""
        if self.traced is None or self.signers is None:
            return NOTHING
        held = {code for code, check in self.checks.items() if check.state is State.HELD}
        quorum = self.checks["wit.quorum"]
        return Trace(
            records=self.traced,
            keysets=self.signers.traced(),
            roots=[TracedRoot(each.origin, each.size, each.root) for each in self.roots],
            judged=frozenset(self.signers.sessions if self.first is None else self.first.judged),
            authentic=held >= {"fmt.keysets", "sig.receipts"},
            logged="log.inclusion" in held,
            witnessed=quorum.state is State.HELD and quorum.tier is Tier.AFFIRMING,
        )

    def _class(self) -> str | None:
        if self.signers is None:
            return None
        return "simulated" if self.signers.simulated or "simulated" in self.classes else "hardware"

    def _people(self, first: FirstPass | None) -> People:
        """Of receipts that are all authentic; else nobody is known."""
        if first is None or self.checks["sig.receipts"].state is not State.HELD:
            return People()
        return first.people(self.appraised)

    def _population(self, first: FirstPass) -> Population:
        return Population(
            receipts=first.receipts,
            chains=self._chains(),
            restarts=first.kinds.get("gap", 0),
            started=len(first.judged),
            closed=self.states.get("closed", 0),
            lost=self.states.get("lost", 0),
            open=self.states.get("open", 0),
            foreign=len(first.foreign),
            refusals=first.kinds.get("refusal", 0),
            kinds=dict(sorted(first.kinds.items())),
        )


_LEVELS: Final = {row.code: row.level for row in (*CHECKS, *BODIES)} | {
    "fmt.bundle": "L0",
    "chain.coverage": None,
}


class _Many(AffiantError):
    """Exceptions of one rule, raised as one."""

    code = "verifier.exceptions"

    def __init__(self, found: Exceptions) -> None:
        super().__init__(found.text)
        self.exceptions = found

    def row(self, code: str, trust: TrustFile) -> Check:
        """The row: the first one's code, the ids of all that are kept."""
        first = self.exceptions.first
        assert first is not None
        reason = first.reason if isinstance(first, LineRefused) else first.code
        check = refused_check(code, _LEVELS.get(code), self, trust)
        return replace(check, reason=reason, where=tuple(self.exceptions.where))


def _made(first: FirstPass | None) -> FirstPass:
    if first is None:
        raise NotMade("the receipts could not be read")
    return first


def _one_log(signers: Signers) -> LogIdentity:
    """The log that every gateway here names."""
    found = {
        (each.log.origin, each.log.key.vkey()): each.log for each in signers.gateways if each.log is not None
    }
    if not found or any(each.log is None for each in signers.gateways):
        raise NotMade("a keyset of a gateway names no log")
    if len(found) > 1:
        raise NotMade("gateways of several logs, or log keys, in one archive: this version judges one")
    return next(iter(found.values()))


def _seconds(instant: datetime | None) -> int | None:
    return None if instant is None else int(instant.timestamp())


def _shown(instant: datetime) -> str:
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _unreadable(asked: _Asked, path: Path, error: AffiantError) -> Verdict:
    """Of an archive that could not even be opened."""
    rows: Iterable[Row] = chain(CHECKS, BODIES)
    checks = [refused_check("fmt.bundle", "L0", error, asked.trust)]
    reason = "the bundle could not be read"
    checks += [not_made_check(row.code, row.level, reason, asked.trust, tier=Tier.NONE) for row in rows]
    checks.append(not_made_check("chain.coverage", None, reason, asked.trust, tier=Tier.NONE))
    return Verdict(
        bundle=_digest_of(path),
        at=_shown(asked.at),
        trust=asked.trust.digest,
        build=asked.build,
        evidence_class=None,
        checks=tuple(checks),
        population=Population(),
    )


def _digest_of(path: Path) -> str:
    with open(path, "rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
