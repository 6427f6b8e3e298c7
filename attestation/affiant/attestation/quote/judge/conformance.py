"""Runs this verifier on a folder of test vectors: it judges every case and names every disagreement.

A case is judged as docs/formats/conformance.md says: the quote is parsed and verified with the collateral, under
the root and at the time of the case; then the rules that no reference value can relax are applied to the TD's
attributes. A verdict agrees if it accepts with exactly the expected status and set of advisories, or refuses.
Anything but a typed error is a fault of this verifier, and counts as a disagreement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from affiant.attestation.quote.collateral.single_file import parse_collateral_file
from affiant.attestation.quote.judge.event_log_file import parse_event_log_file
from affiant.attestation.quote.judge.pins import parse_root_file
from affiant.attestation.quote.judge.quote_file import read_quote_file
from affiant.attestation.quote.judge.vector_folder import (
    EventLogCase,
    QuoteCase,
    VectorFolder,
    VectorUnreadable,
)
from affiant.attestation.tdx.event_log.measured_log import MeasuredLog, verify_replay
from affiant.attestation.tdx.pki.roots import TrustRoots
from affiant.attestation.tdx.quote.attributes import appraise_td_configuration
from affiant.attestation.tdx.quote.quote import dissect_quote, parse_quote
from affiant.attestation.tdx.tcb.collateral_verification import verify_collateral
from affiant.attestation.tdx.verify.verify import VerifiedQuote, verify_quote
from affiant.attestation.verdict.lines import heading, one_line, prose
from affiant.errors import AffiantError

__all__ = ["Conformance", "Outcome", "Result", "render_conformance", "run_conformance"]


_Answer = TypeVar("_Answer")


class Outcome(StrEnum):
    """How this verifier's answer compares."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    UNDECIDED = "undecided"
    """The collection allows either answer."""
    NOT_RUN = "not run"
    """A file of the case cannot be read. Counts against the run: what was not compared did not agree."""


@dataclass(frozen=True, slots=True)
class Result:
    """One case and what came of it."""

    identifier: str
    group: str
    outcome: Outcome
    expected: str
    found: str

    def to_json(self) -> Mapping[str, object]:
        """The result for a JSON document."""
        return {
            "id": self.identifier,
            "group": self.group,
            "outcome": str(self.outcome),
            "expected": self.expected,
            "found": self.found,
        }


_AGAINST: Final = (Outcome.DISAGREES, Outcome.NOT_RUN)


@dataclass(frozen=True, slots=True)
class Conformance:
    """All results, in the order of the collection."""

    results: tuple[Result, ...]

    @property
    def disagreements(self) -> tuple[Result, ...]:
        """What stands against agreement: disagreements, and cases that could not be run."""
        return tuple(result for result in self.results if result.outcome in _AGAINST)

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Group -> outcome -> number."""
        found = Counter((result.group, str(result.outcome)) for result in self.results)
        groups = dict.fromkeys(result.group for result in self.results)
        return {group: {str(outcome): found[group, outcome] for outcome in Outcome} for group in groups}

    def to_json(self) -> Mapping[str, object]:
        """The document ``affiant-quote-conformance/1``."""
        return {
            "typ": "affiant-quote-conformance/1",
            "cases": len(self.results),
            "agrees": not self.disagreements,
            "counts": self.counts(),
            "disagreements": [result.to_json() for result in self.disagreements],
            "results": [result.to_json() for result in self.results],
        }


def run_conformance(folder: VectorFolder) -> Conformance:
    """Judge every case of ``folder``, and replay every event log."""
    quotes = tuple(_compare(folder, case) for case in folder.cases)
    return Conformance((*quotes, *(_compare_log(folder, case) for case in folder.event_logs)))


def _compare(folder: VectorFolder, case: QuoteCase) -> Result:
    return _answered(
        case.identifier,
        case.group,
        _expected(case),
        lambda: _judge(folder, case),
        outcome=lambda accepted: _outcome(case, accepted),
        describe=lambda found: f"accepts {found.statuses.merged.value} {_advisories(found.advisories)}",
    )


def _compare_log(folder: VectorFolder, case: EventLogCase) -> Result:
    def outcome(replayed: _Replayed | None) -> Outcome:
        agrees = (replayed is not None) == case.accepted
        if replayed is not None and case.accepted:
            agrees = replayed.matches == case.matches and all(
                replayed.log.replay()[rtmr] == value for rtmr, value in case.registers.items()
            )
        return Outcome.AGREES if agrees else Outcome.DISAGREES

    return _answered(
        case.identifier,
        "event logs",
        ("replays" + _matching(case.matches)) if case.accepted else "refuses",
        lambda: _replay(folder, case),
        outcome=outcome,
        describe=lambda found: (
            "replays to "
            + " ".join(value.hex()[:16] for value in found.log.replay())
            + _matching(found.matches)
        ),
    )


def _matching(matches: tuple[bool, ...] | None) -> str:
    if matches is None:
        return ""
    equal = ", ".join(f"RTMR{rtmr}" for rtmr, same in enumerate(matches) if same)
    return f", equal to the quote: {equal or 'none'}"


@dataclass(frozen=True, slots=True)
class _Replayed:
    """A log, and which registers replay to the quote's; None: the case does not say which must."""

    log: MeasuredLog
    matches: tuple[bool, ...] | None


def _answered(
    identifier: str,
    group: str,
    expected: str,
    judge: Callable[[], _Answer],
    *,
    outcome: Callable[[_Answer | None], Outcome],
    describe: Callable[[_Answer], str],
) -> Result:
    """What became of one case: an answer, a typed error, a file that is not there, or a fault."""
    answer: _Answer | None = None
    try:
        answer = judge()
        found = describe(answer)
    except VectorUnreadable as error:
        return Result(identifier, group, Outcome.NOT_RUN, expected, str(error))
    except AffiantError as refusal:
        found = f"refuses [{refusal.code}] {refusal}"
    except Exception as fault:  # noqa: BLE001 - a fault of the verifier is a result here, and the worst one
        return Result(identifier, group, Outcome.DISAGREES, expected, f"FAULT: {type(fault).__name__}")
    return Result(identifier, group, outcome(answer), expected, found)


def _replay(folder: VectorFolder, case: EventLogCase) -> _Replayed:
    log = parse_event_log_file(folder.read(case.identifier))
    if case.quote is None:
        return _Replayed(log, None)
    body = dissect_quote(read_quote_file(folder.read(case.quote)).data).body
    if case.matches is None:
        verify_replay(log, body)
        return _Replayed(log, None)
    return _Replayed(log, tuple(one == other for one, other in zip(log.replay(), body.rtmrs, strict=True)))


def _judge(folder: VectorFolder, case: QuoteCase) -> VerifiedQuote:
    content, items = folder.read(case.quote), folder.read(case.collateral)
    intel = case.root == "intel"
    trust = TrustRoots.intel() if intel else parse_root_file(folder.read(case.root))
    quote = parse_quote(read_quote_file(content).data)
    collateral = verify_collateral(parse_collateral_file(items), now=case.now, trust=trust)
    verified = verify_quote(quote, collateral, now=case.now)
    appraise_td_configuration(verified.quote.body)
    return verified


def _outcome(case: QuoteCase, accepted: VerifiedQuote | None) -> Outcome:
    if case.accepted is None:
        return Outcome.UNDECIDED
    if accepted is None or not case.accepted:
        return Outcome.AGREES if (accepted is not None) == case.accepted else Outcome.DISAGREES
    same = accepted.statuses.merged.value == case.status and accepted.advisories == case.advisories
    return Outcome.AGREES if same else Outcome.DISAGREES


def _expected(case: QuoteCase) -> str:
    if case.accepted is None:
        return "either"
    if not case.accepted:
        return "refuses" if case.reason is None else f"refuses ({case.reason})"
    return f"accepts {case.status} {_advisories(case.advisories or frozenset())}"


def _advisories(identifiers: frozenset[str]) -> str:
    return f"[{', '.join(sorted(identifiers))}]"


def render_conformance(conformance: Conformance) -> str:
    """The whole text, with a final newline."""
    return "\n".join(_lines(conformance)) + "\n"


def _lines(conformance: Conformance) -> Iterator[str]:
    columns = "".join(f"{outcome!s:>12}" for outcome in Outcome)
    yield f"{'group':<28}{'cases':>8}{columns}"
    for group, counts in conformance.counts().items():
        numbers = "".join(f"{counts[outcome]:>12}" for outcome in Outcome)
        yield f"{one_line(group, limit=26):<28}{sum(counts.values()):>8}{numbers}"
    for result in conformance.disagreements:
        yield from heading(f"{result.outcome}: {one_line(result.identifier, limit=120)}")
        yield from prose("expected", result.expected, width=10)
        yield from prose("found", result.found, width=10)
    yield ""
    count = len(conformance.disagreements)
    undecided = sum(result.outcome is Outcome.UNDECIDED for result in conformance.results)
    agreed = len(conformance.results) - count - undecided
    yield f"{agreed} of {len(conformance.results)} cases agree, {undecided} undecided, {count} disagree or did not run"
