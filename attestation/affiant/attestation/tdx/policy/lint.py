"""Warns about an appraisal policy before it decides anything: what ended, ends soon, or accepts much.

A finding is no error: every one of them can be meant. The order is that of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from affiant.attestation.tdx.policy.settings import AppraisalPolicy, Entry, counting
from affiant.attestation.tdx.tcb.tcb_status import TCBStatus

__all__ = ["LintFinding", "lint_policy"]

_LONG_GRACE_DAYS: Final = 90


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One thing to look at. ``code`` is stable."""

    code: str
    where: str
    """``file:line:column``; the file alone for what is not at one place."""
    text: str

    def to_json(self) -> Mapping[str, object]:
        """The finding for a JSON document."""
        return {"code": self.code, "where": self.where, "text": self.text}


def lint_policy(
    policy: AppraisalPolicy, *, at: datetime, soon: timedelta, source: str
) -> tuple[LintFinding, ...]:
    """The findings on ``policy`` at the time ``at``.

    Args:
        policy: as read.
        at: the time.
        soon: an entry that ends within this time is reported.
        source: the name of the file, for what is not at one place.
    """
    found = (
        *_ends(policy, at, soon),
        *_wide_entries(policy),
        *_never(policy, at, source),
        *_not_limited(policy, source),
    )
    return tuple(sorted(found, key=lambda finding: _place(finding.where)))


def _place(where: str) -> tuple[int, int]:
    parts = where.rsplit(":", 2)
    return (int(parts[1]), int(parts[2])) if len(parts) == 3 else (0, 0)


def _entries(policy: AppraisalPolicy) -> Iterator[tuple[str, Entry]]:
    lists: Iterable[tuple[str, Iterable[Entry]]] = (
        ("root", policy.roots),
        ("image", policy.images),
        ("status", policy.statuses),
        ("grace", policy.grace),
        ("advisory exception", policy.advisories or ()),
        ("TD_ATTRIBUTES value", policy.td_attributes),
        ("XFAM value", policy.xfam or ()),
        ("attribute exception", policy.exceptions),
        ("machine", policy.machines or ()),
        ("TDX module", policy.mrseam or ()),
    )
    for name, entries in lists:
        for entry in entries:
            yield name, entry


def _ends(policy: AppraisalPolicy, at: datetime, soon: timedelta) -> Iterator[LintFinding]:
    for name, entry in _entries(policy):
        lapse = entry.lapse(at)
        if entry.end is not None and at >= entry.end:
            yield LintFinding("ended", entry.where, f"{name}: {lapse}; it accepts nothing any more")
        elif entry.end is not None and entry.end - at < soon:
            yield LintFinding("ends_soon", entry.where, f"{name}: ends at {entry.end:%Y-%m-%dT%H:%M:%SZ}")


def _wide_entries(policy: AppraisalPolicy) -> Iterator[LintFinding]:
    for status in policy.statuses:
        if status.status is not TCBStatus.UP_TO_DATE and status.end is None:
            yield LintFinding("lax_status", status.where, f"{status.status.value} is accepted without an end")
    for grace in policy.grace:
        if grace.days > _LONG_GRACE_DAYS:
            yield LintFinding(
                "long_grace", grace.where, f"{grace.days} days of grace for {grace.status.value}"
            )
        if grace.end is None:
            yield LintFinding("open_exception", grace.where, f"grace of {grace.status.value} without an end")
    for exception in policy.exceptions:
        if exception.end is None:
            yield LintFinding("open_exception", exception.where, f"{exception.name} without an end")
    for image in policy.images:
        values = image.measurement
        if not any(values.rtmr0 + values.rtmr1 + values.rtmr2):
            yield LintFinding(
                "unmeasured_image",
                image.where,
                f"{image.name}: RTMR0-2 are zero, so only MRTD says what booted",
            )


def _never(policy: AppraisalPolicy, at: datetime, source: str) -> Iterator[LintFinding]:
    """Lists of which nothing counts: every quote is refused."""
    lists: Iterable[tuple[str, Iterable[Entry] | None]] = (
        ("roots", policy.roots),
        ("images", policy.images),
        ("tcb.statuses", policy.statuses),
        ("td_attributes", policy.td_attributes),
        ("xfam", policy.xfam),
        ("machines", policy.machines),
        ("mrseam", policy.mrseam),
    )
    for name, entries in lists:
        if entries is not None and not counting(entries, at):
            yield LintFinding("accepts_nothing", source, f"no entry of `{name}` counts at this time")


def _not_limited(policy: AppraisalPolicy, source: str) -> Iterator[LintFinding]:
    anything = (
        ("xfam", policy.xfam is None),
        ("machines", policy.machines is None),
        ("pck_flags", policy.flags.demands_nothing),
    )
    for name, is_any in anything:
        if is_any:
            yield LintFinding("not_limited", source, f"`{name}` is `any`")
    if policy.minimum_evaluation == 0:
        yield LintFinding("not_limited", source, "`minimum_evaluation` is 0, which any collateral reaches")
