"""What stands first in every verdict: what was asked, what it comes to, on what platform, how sessions ended, what its
reader demands.

The same lines are in the text, on the page and in the second verifier.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from affiant.attestation.verdict.lines import asked_text
from affiant.attestation.verdict.outcome import Outcome, Platform
from affiant.attestation.verdict.verdict import BEYOND_VERIFIER, Check, State, Tier, Verdict
from affiant.attestation.verifier.combined import CombinedVerdict

__all__ = ["Banner", "banner_of", "banner_rows", "is_verified"]

_OUTCOMES: Final = {
    Outcome.HOLDS: "every required check was made and holds",
    Outcome.IN_PART: "nothing was rejected; required checks with a warning: {warned}, not made: {missing}",
    Outcome.UNJUDGED: "objects that the records name are not in the bundle, so nothing follows from what holds",
    Outcome.REJECTED: "refused checks: {refused}. Do not rely on these receipts",
}
_BEYOND: Final = "it holds more than this verifier judges together, so nothing follows from what holds"
"""Of an outcome that cannot be judged, where no object is known to be missing."""
_PLATFORMS: Final = {
    Platform.HARDWARE: "hardware: the quotes are of genuine TDX",
    Platform.CLAIMED: "hardware (claimed): no appraisal up to L4 confirms it",
    Platform.NONE: "no evidence: no signer's platform is known",
    Platform.SIMULATED: "SIMULATED: nothing here is evidence of hardware",
}
_NO_END: Final = "what a session without a signed end did after its last record here is not shown"


class Banner(NamedTuple):
    """The page's banner. ``look``: the class of its style."""

    title: str
    look: str
    rows: Sequence[tuple[str, str]]


def banner_of(verdict: Verdict | CombinedVerdict) -> Banner:
    """The banner of one verdict, or of several."""
    platform = verdict.platform.upper() if verdict.simulated else str(verdict.platform)
    return Banner(f"{verdict.outcome}, {platform}", _look(verdict), list(banner_rows(verdict)))


def is_verified(verdict: Verdict | CombinedVerdict) -> bool:
    """Whether a report may use that word: hardware was appraised, nothing was rejected, nothing falls short."""
    hardware = verdict.platform is Platform.HARDWARE
    return hardware and verdict.outcome is not Outcome.REJECTED and not verdict.short


def _look(verdict: Verdict | CombinedVerdict) -> str:
    if verdict.outcome is Outcome.REJECTED:
        return "bad"
    if verdict.short:
        return "warn"
    if verdict.simulated:
        return "sim"
    return "good" if verdict.outcome is Outcome.HOLDS else "warn"


def banner_rows(verdict: Verdict | CombinedVerdict) -> Iterator[tuple[str, str]]:
    """Name and value of each line."""
    if verdict.asked:
        yield "asked", asked_text(verdict.asked)
    yield "outcome", f"{verdict.outcome.upper()}: {_why(verdict)}"
    yield "platform", _PLATFORMS[verdict.platform]
    people = verdict.population
    short = people.open or people.lost
    yield "sessions", f"{people.ends}; {_NO_END}" if short else people.ends
    if verdict.unmet:
        yield "demanded", f"NOT REACHED: {'; '.join(verdict.unmet.values())}"


def _why(verdict: Verdict | CombinedVerdict) -> str:
    rows = _rows(verdict)
    lacking = [
        row for row in rows if row.code == "bundle.objects" and row.state is State.NOT_MADE and row.required
    ]
    limits = [row.reason == BEYOND_VERIFIER for row in lacking]
    if verdict.outcome is Outcome.UNJUDGED and limits and all(limits):
        return _BEYOND
    required = [check for check in rows if check.required]
    return _OUTCOMES[verdict.outcome].format(
        warned=sum(check.state is State.HELD and check.tier is Tier.WARNING for check in required),
        missing=sum(check.state is State.NOT_MADE for check in required),
        refused=sum(check.state is State.REFUSED for check in rows),
    )


def _rows(verdict: Verdict | CombinedVerdict) -> Sequence[Check]:
    if isinstance(verdict, Verdict):
        return verdict.checks
    return [*(check for each in verdict.judged for check in each.verdict.checks), *verdict.across]
