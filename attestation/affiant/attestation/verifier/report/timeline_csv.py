"""The timeline of a page: who did what, when and under which rule, one row for each record."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from affiant.attestation.verdict.timeline import Moment
from affiant.attestation.verifier.report.page import hostile

__all__ = ["MAX_MOMENTS", "timeline_table"]

MAX_MOMENTS: Final = 5_000
"""Records that a page shows; it says how many it leaves out. A browser still opens such a page."""
_INDEX: Final = re.compile(r"\[[0-9]+\]")
_LABELS: Final[Mapping[str, str]] = {
    "act.arg": "arguments, by digest",
    "act.end": "ended",
    "act.name": "name",
    "act.out": "output, by digest",
    "act.tgt": "to",
    "agt.id": "agent",
    "agt.user": "on behalf of",
    "ini.method": "started by a user known by",
    "inp": "input files, by digest",
    "iso": "isolation",
    "limit": "limit",
    "mdl.id": "model",
    "out": "counts",
    "res.end": "ended",
    "res.st": "HTTP status",
    "rfs": "root file system",
    "rsn": "reason",
    "sec.ref": "secret",
    "up.bind": "how the model's host is known",
    "up.host": "model's host",
    "use.in": "tokens in",
    "use.out": "tokens out",
    "why": "why",
}


def timeline_table(moments: Sequence[Moment], *, untold: int = 0) -> Iterator[str]:
    """The rows of ``moments``; ``untold`` is how many more there are that were not kept."""
    untold += max(0, len(moments) - MAX_MOMENTS)
    if not moments and not untold:
        yield "<p>No record is authentic, so there is nothing to tell.</p>"
        return
    yield (
        '<p class="dim">By the signers\' own clocks. The gateway saw requests; the supervisor stood beside the agent. '
        "Texts in typewriter face come from the records and may have been chosen by the agent.</p>"
    )
    yield "<table><thead><tr><th>Time (UTC)</th><th>Who</th><th>What</th><th>Decision</th></tr></thead>"
    yield from map(_moment, moments[:MAX_MOMENTS])
    yield "</table>"
    if untold:
        yield f"<p><b>{untold} records more are not shown.</b> They were checked as all others.</p>"


def _moment(moment: Moment) -> str:
    who = "gateway" if moment.role == "gateway" else "supervisor"
    rules = "".join(f"<br><code>{hostile(rule)}</code>" for rule in moment.rules[:16])
    known = [(label, value) for name, value in moment.facts if (label := _label(name)) is not None]
    plain = "".join(f"<li>{label}: <code>{hostile(value)}</code></li>" for label, value in known)
    facts = "".join(
        f"<li>{hostile(name)}: <code>{hostile(value)}</code></li>" for name, value in moment.facts
    )
    more = f"<li>{moment.more} more</li>" if moment.more else ""
    deny = " deny" if moment.decision == "deny" or moment.kind == "refusal" else ""
    return (
        f'<tr class="lane-{"gateway" if who == "gateway" else "session"}{deny}">'
        f"<td>{_clock(moment.at)}</td><td>{who}<br><span class='dim'>no. {moment.seq}</span></td>"
        f"<td>{hostile(moment.title)}<ul class='facts'>{plain}</ul>"
        f"<details><summary>receipt {hostile(moment.jti)}, every member</summary>"
        f"<ul class='facts'>{facts}{more}</ul></details></td>"
        f"<td>{hostile(moment.decision)}{rules}</td></tr>"
    )


def _label(name: str) -> str | None:
    """What a member is called for a reader; None where only a specialist asks for it."""
    return _LABELS.get(_INDEX.sub("", name))


def _clock(seconds: int) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return "not a timestamp"
