"""Judges several bundles one after the other, compares each with those before it, and then releases it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from affiant.attestation.verdict.accepted_values import TrustFile
from affiant.attestation.verifier.across import MAX_FACTS, Across
from affiant.attestation.verifier.case.question import told
from affiant.attestation.verifier.combined import CombinedVerdict, Judged
from affiant.attestation.verifier.trace import left_by
from affiant.attestation.verifier.verify_bundle import Examined

__all__ = ["judge_several"]


def judge_several(
    bundles: Sequence[tuple[str, Callable[[], Examined]]],
    trust: TrustFile,
    *,
    at: datetime,
    build: str,
    moments: int = 0,
    judged_one: Callable[[int], None] = lambda _: None,
    limit: int = MAX_FACTS,
) -> CombinedVerdict:
    """Judge bundles that are given by name, each with what examines it.

    Args:
        at: the instant that all of them are judged at.
        moments: records that all timelines together may keep, for a report; none without one.
        judged_one: told how many bundles were judged, after each.
        limit: facts that are kept to compare (``across``).
    """
    across = Across(limit=limit)
    judged: list[Judged] = []
    for count, (name, examine) in enumerate(bundles, start=1):
        examined = examine()
        across.add(name, left_by(examined))
        timeline = examined.verdict.timeline
        kept = timeline[:moments]
        moments -= len(kept)
        judged.append(Judged(name, replace(examined.verdict, timeline=kept), len(timeline) - len(kept)))
        judged_one(count)
    return CombinedVerdict(
        at=told(at),
        trust=trust.digest,
        build=build,
        judged=judged,
        across=across.checks(required=trust.require is None),
        population=across.population(),
    )
