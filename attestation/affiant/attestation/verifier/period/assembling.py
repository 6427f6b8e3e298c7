"""From rows to the verdict: every check in its place, who is in the bundle, when it existed, what it leaves behind."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from affiant.attestation.verdict.actors import People
from affiant.attestation.verdict.summary import Summary
from affiant.attestation.verdict.time_bounds import TimeBounds
from affiant.attestation.verdict.verdict import Finding, Population, State, Tier, Verdict, witnesses_called
from affiant.attestation.verifier.case.question import Question
from affiant.attestation.verifier.check_rows import UNREADABLE, not_made_check
from affiant.attestation.verifier.period.log.first_pass import FirstPass
from affiant.attestation.verifier.period.log.run import Run
from affiant.attestation.verifier.period.log.stamps import Stamps
from affiant.attestation.verifier.trace import NOTHING, Trace, TracedRoot, keysets_of
from affiant.attestation.verifier.verify_bundle import BODIES, CHECKS, Examined, examine_case
from affiant.errors import AffiantError

__all__ = ["assembled", "check_format", "time_of", "traced", "unreadable", "witnesses_of"]


def check_format(run: Run, damage: AffiantError | None) -> Finding:
    """``fmt.bundle``: every file is as the manifest lists it; also those that nobody has asked for.

    Args:
        damage: what was refused where the archive was read.
    """
    if damage is not None:
        raise damage
    run.bundle.read_rest()
    text = f"{len(run.bundle.archive.members)} files, each as the manifest lists it"
    odd = []
    if run.bundle.unknown:
        odd.append(f"{len(run.bundle.unknown)} files that the layout does not have, not read")
    if run.bundle.absent:
        odd.append(f"{len(run.bundle.absent)} files that are listed and not there")
    if odd:
        where = (*run.bundle.unknown, *run.bundle.absent)[:100]
        return Finding("; ".join((text, *odd)), Tier.WARNING, where)
    return Finding(text)


def assembled(run: Run, *, name: str) -> Verdict:
    """The verdict on the archive with this ``sha256:`` name; rows that nothing made are not made."""
    order = ["fmt.bundle", *(row.code for row in (*CHECKS, *BODIES)), "chain.coverage"]
    for row in CHECKS:
        if row.code not in run.checks:
            text = "not judged for a period bundle by this version"
            run.checks[row.code] = not_made_check(row.code, row.level, text, run.asked.trust, tier=Tier.NONE)
    first, time_bounds = run.first, None if run.first is None else run.first.time_bounds
    return Verdict(
        bundle=name,
        at=run.asked.time,
        trust=run.asked.trust.digest,
        build=run.asked.build,
        evidence_class=_class(run),
        checks=tuple(run.checks[code] for code in dict.fromkeys(order)),
        population=Population() if first is None else _population(run, first),
        time=time_of(run),
        unwitnessed=time_bounds.unwitnessed()
        if run.holds("time.bracket") and time_bounds is not None
        else None,
        people=_people(run, first),
        summary=first.counting.summary() if first is not None and run.holds("sig.receipts") else Summary(),
        timeline=run.moments,
        demand=run.asked.demanded,
        asked=run.asked.about,
        of_all_sessions=run.asked.session is None,
    )


def time_of(run: Run) -> TimeBounds | None:
    """Around every record: by witnesses, and no later than anchors over all of them say."""
    time_bounds = None if run.first is None else run.first.time_bounds
    found = time_bounds.around() if time_bounds is not None and run.holds("time.bracket") else None
    for stamps in run.stamps.values():
        if isinstance(stamps, Stamps) and run.holds(stamps.kind.code) and not stamps.uncovered:
            found = (found or TimeBounds(None, None)).not_after_also(stamps.last, stamps.kind.by)
    return found


def witnesses_of(run: Run) -> str:
    """What to call those who cosigned."""
    return witnesses_called(run.checks["wit.quorum"])


def traced(run: Run) -> Trace:
    """What is left behind of it; of a period that nobody is held against, nothing."""
    if run.traced is None or run.signers is None:
        return NOTHING
    held, quorum = run.held, run.checks["wit.quorum"]
    return Trace(
        records=run.traced,
        keysets=keysets_of(run.signers.by_kid.values()),
        roots=[TracedRoot(each.origin, each.size, each.root) for each in run.roots],
        judged=frozenset(run.signers.sessions if run.first is None else run.first.judged),
        authentic=held >= {"fmt.keysets", "sig.receipts"},
        logged="log.inclusion" in held,
        witnessed=quorum.state is State.HELD and quorum.tier is Tier.AFFIRMING,
    )


def _class(run: Run) -> str | None:
    if run.signers is None:
        return None
    return "simulated" if run.signers.simulated or "simulated" in run.cases.classes else "hardware"


def _people(run: Run, first: FirstPass | None) -> People:
    """Of receipts that are all authentic; else nobody is known."""
    if first is None or not run.holds("sig.receipts"):
        return People()
    return first.people(run.cases.appraised)


def _population(run: Run, first: FirstPass) -> Population:
    found = Population.of(
        dict(sorted(first.kinds.items())),
        run.cases.states,
        chains=len(first.signed),
        started=len(first.judged),
        foreign=len(first.foreign),
    )
    return replace(found, receipts=first.receipts)


def unreadable(asked: Question, path: Path, error: AffiantError) -> Examined:
    """Of an archive that could not even be opened."""
    found = examine_case(error, asked, name=_digest_of(path))
    coverage = not_made_check("chain.coverage", None, UNREADABLE, asked.trust)
    return replace(found, verdict=replace(found.verdict, checks=(*found.verdict.checks[:-1], coverage)))


def _digest_of(path: Path) -> str:
    with open(path, "rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
