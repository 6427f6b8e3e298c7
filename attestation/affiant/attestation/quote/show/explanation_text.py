"""Formats an explanation as text and as a document: the level of each part, what decided it, what an update would
change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from affiant.attestation.tdx.pki.roots import EvidenceClass
from affiant.attestation.tdx.verify.explanation import Explanation, Gap, Ladder, Rung
from affiant.attestation.tdx.verify.verify import TCBStatuses
from affiant.attestation.verdict.lines import field, heading, one_line, prose

__all__ = ["explanation_document", "render_explanation"]


def explanation_document(explanation: Explanation) -> Mapping[str, object]:
    """The document ``affiant-quote-explanation/1``."""
    verified = explanation.verified
    return {
        "typ": "affiant-quote-explanation/1",
        "evidence_class": str(explanation.evidence_class),
        "simulated": explanation.evidence_class is EvidenceClass.SIMULATED,
        "refused": None if explanation.refusal is None else explanation.refusal.to_json(),
        "merged": None if verified is None else verified.statuses.merged.value,
        "ladders": [_ladder_document(ladder) for ladder in explanation.ladders],
    }


def _ladder_document(ladder: Ladder) -> Mapping[str, object]:
    above, better = ladder.above, ladder.better
    return {
        "name": ladder.name,
        "found": ladder.found,
        "matched": ladder.matched,
        "levels": [_rung_document(rung) for rung in ladder.rungs],
        "decided_by": [] if above is None else [gap.to_json() for gap in above.gaps],
        "next_better": None if better is None else _rung_document(better),
    }


def _rung_document(rung: Rung) -> Mapping[str, object]:
    return {
        "status": rung.status,
        "tcb_date": f"{rung.tcb_date:%Y-%m-%d}",
        "advisories": sorted(rung.advisories),
        "requires": rung.requires,
        "gaps": [gap.to_json() for gap in rung.gaps],
    }


def render_explanation(explanation: Explanation) -> str:
    """The whole text, with a final newline."""
    return "\n".join(_lines(explanation)) + "\n"


def _lines(explanation: Explanation) -> Iterator[str]:
    if explanation.verified is not None:
        statuses = explanation.verified.statuses
        yield f"TCB status {statuses.merged.value}"
        yield from _merging(statuses)
    elif explanation.refusal is not None:
        yield "TCB status: none, refused"
        yield from prose("refusal", f"[{explanation.refusal.code}] {explanation.refusal}")
    for ladder in explanation.ladders:
        yield from _ladder(ladder)
    yield ""
    if explanation.evidence_class is EvidenceClass.SIMULATED:
        yield "SIMULATED  nothing here is evidence of hardware"
    yield "An explanation is no verdict: `affiant quote verify` judges."


def _merging(statuses: TCBStatuses) -> Iterator[str]:
    """34 and 33, in words: nothing is ever better than its worst part."""
    module = "" if statuses.module is None else f", its TDX module {statuses.module.value}"
    yield field("platform", statuses.platform.value + module)
    if statuses.current_platform is not None:
        module = (
            "" if statuses.current_module is None else f", its TDX module {statuses.current_module.value}"
        )
        yield field("platform now", statuses.current_platform.value + module)
    yield field("quoting enclave", statuses.qe.value)
    yield field("merged", f"{statuses.merged.value}, never better than any part")
    if statuses.merged.value.startswith("TDRelaunchAdvised"):
        yield from prose(
            "relaunch", "the module was updated after this TD was launched: a new TD gets the current status"
        )


def _ladder(ladder: Ladder) -> Iterator[str]:
    matched = ladder.matched
    stands = "below every level" if matched is None else f"level {matched + 1} of {len(ladder.rungs)}"
    yield from heading(f"{ladder.name.upper()}  {stands}")
    yield from prose("found", ladder.found)
    for index, rung in enumerate(ladder.rungs):
        mark = "<- stands here" if index == matched else "" if not rung.gaps else "not reached"
        date = f"{rung.tcb_date:%Y-%m-%d}"
        yield one_line(f"  {index + 1:>2}  {date}  {rung.status:<34}{mark}").rstrip()
        yield from prose("", f"requires {rung.requires}", width=4)
        if rung.advisories:
            yield from prose("", f"advisories {', '.join(sorted(rung.advisories))}", width=4)
    yield from _decided(ladder)


def _decided(ladder: Ladder) -> Iterator[str]:
    above, better = ladder.above, ladder.better
    if above is None:
        yield field("an update", "would change nothing: this is the highest level")
        return
    if better is above:
        yield field("decided by", f"what {_level(above)}, the next level and the next better one, needs:")
        yield from _gaps(above)
        return
    yield field("decided by", f"what {_level(above)}, the next level, needs:")
    yield from _gaps(above)
    if better is None:
        yield field("an update", "would give no better status, by this document")
        return
    yield field("an update", f"to {_level(better)}, the next better one, needs exactly:")
    yield from _gaps(better)


def _level(rung: Rung) -> str:
    return f"{rung.status} of {rung.tcb_date:%Y-%m-%d}"


def _gaps(rung: Rung) -> Iterator[str]:
    for gap in rung.gaps:
        yield from prose("", _gap(gap))


def _gap(gap: Gap) -> str:
    index = "" if gap.index is None else f" {gap.index}"
    name = f" ({gap.name})" if gap.name else ""
    return f"{gap.kind}{index}{name}: {gap.found}, needs {gap.required}"
