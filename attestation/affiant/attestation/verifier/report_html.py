"""The verdict as one page for somebody who has never seen a terminal: open it, read it, print it.

Self-contained: no script at all, one style, and a policy in the page that forbids everything else (``default-src
'none'``), so that nothing in it can load, run or send. Every string that comes from a bundle is escaped, bounded and
marked as such. What is *not* proven stands before what is.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

from affiant.attestation.verifier.timeline import Moment
from affiant.attestation.verifier.verdict import LEVELS, Check, State, Tier, Verdict
from affiant.command_line import printable

__all__ = ["MAX_MOMENTS", "render_html"]

MAX_MOMENTS: Final = 5_000
"""Records that a page shows; it says how many it leaves out. A browser still opens such a page."""
_MAX_TEXT: Final = 400

_STYLE: Final = """
:root{color-scheme:light dark;--ink:#16202b;--paper:#fff;--soft:#f2f5f8;--line:#c9d2dc;--dim:#51606f;
--bad:#a3121f;--badbg:#fdecee;--warn:#7a4a00;--warnbg:#fff5e0;--good:#0b5d3b;--goodbg:#e8f6ef;--sim:#4b2a86;--simbg:#f1ebfb}
@media (prefers-color-scheme:dark){:root{--ink:#e8edf2;--paper:#12181f;--soft:#1b242e;--line:#3a4754;--dim:#a3b1bf;
--bad:#ff9aa3;--badbg:#3a1519;--warn:#ffce7a;--warnbg:#362506;--good:#8fe0ba;--goodbg:#0f2f22;--sim:#cdb5ff;--simbg:#2a1f43}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1120px;padding:24px 32px 64px;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
h1{font-size:1.7rem;margin:.2em 0}
h2{font-size:1.2rem;margin:2.2em 0 .6em;border-bottom:2px solid var(--line);padding-bottom:.2em}
.banner{border:2px solid;border-radius:8px;padding:16px 20px;margin:16px 0}
.banner p{margin:.3em 0}.banner strong{font-size:1.25rem}
.bad{color:var(--bad);background:var(--badbg)}.warn{color:var(--warn);background:var(--warnbg)}
.good{color:var(--good);background:var(--goodbg)}.sim{color:var(--sim);background:var(--simbg)}
table{border-collapse:collapse;width:100%;font-size:.93rem}
th,td{text-align:left;vertical-align:top;padding:6px 10px;border-bottom:1px solid var(--line)}
th{color:var(--dim);font-weight:600}
code,.mono{font-family:ui-monospace,"DejaVu Sans Mono",Consolas,monospace;font-size:.87em;overflow-wrap:anywhere}
.tag{display:inline-block;border:1px solid;border-radius:4px;padding:0 6px;font-size:.82rem;white-space:nowrap}
.dim{color:var(--dim)}summary{cursor:pointer;color:var(--dim);font-size:.82rem;margin-top:.3em;overflow-wrap:anywhere}
.facts{margin:.2em 0 0;padding:0;list-style:none;font-size:.87rem}
.facts li{overflow-wrap:anywhere}.lane-session td:first-child{border-left:4px solid var(--sim)}
.lane-gateway td:first-child{border-left:4px solid var(--good)}
tr.deny td{background:var(--badbg)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:4px 18px;margin:0}
dt{color:var(--dim)}dd{margin:0;overflow-wrap:anywhere}
@media print{body{max-width:none;padding:0;font-size:10.5pt}h2{break-after:avoid}tr{break-inside:avoid}
.banner{break-inside:avoid}a{color:inherit}}
@page{margin:16mm}
"""
_LIMITS: Final = (
    "A receipt says what the measured gateway code saw, did and decided; not that a model computed the answer.",
    "No claim is made against whoever holds the machine (physical attacks on TDX are known).",
    "Times are the signers' own clocks until witnesses have cosigned the log.",
)
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
_MARKS: Final = {
    State.HELD: ("held", "good"),
    State.REFUSED: ("REFUSED", "bad"),
    State.NOT_MADE: ("not made", "warn"),
    State.NOT_ASKED: ("not asked", "dim"),
}


def render_html(verdict: Verdict) -> str:
    """The whole page."""
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode("utf-8")).digest()).decode("ascii")
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    body = "\n".join(_body(verdict))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy, quote=True)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>affiant: {_outcome(verdict)[0]}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _body(verdict: Verdict) -> Iterator[str]:
    yield "<main>"
    yield "<h1>Receipts of an AI agent's session, checked offline</h1>"
    yield from _banner(verdict)
    yield from _not_proven(verdict)
    yield from _facts(verdict)
    yield from _population(verdict)
    yield from _levels(verdict)
    yield from _timeline(verdict.timeline)
    yield from _checks(verdict.checks)
    yield "</main>"


def _outcome(verdict: Verdict) -> tuple[str, str, str]:
    """Title, class of the banner, one sentence."""
    if verdict.tier is Tier.CONTRAINDICATED:
        return "refused", "bad", "At least one check was refused. Do not rely on these receipts."
    if verdict.simulated:
        return (
            "SIMULATED",
            "sim",
            "Everything that could be checked holds, on a simulated platform. Nothing here is evidence of hardware.",
        )
    match verdict.tier:
        case Tier.AFFIRMING:
            return "affirming", "good", "Every required check was made and holds, on genuine hardware."
        case Tier.WARNING:
            return "warning", "warn", "Nothing was refused, but something that you require was not affirmed."
        case _:
            return "none", "warn", "Something that you require could not be checked. This affirms nothing."


def _banner(verdict: Verdict) -> Iterator[str]:
    title, look, sentence = _outcome(verdict)
    yield f'<div class="banner {look}" role="status"><p><strong>{title}</strong></p><p>{sentence}</p>'
    level = verdict.level or "none reached"
    yield (
        f"<p>Tier <b>{verdict.tier}</b>, level <b>{level}</b>, exit code <b>{verdict.exit_code}</b>. "
        f"Judged at {escape(verdict.at)}.</p></div>"
    )


def _not_proven(verdict: Verdict) -> Iterator[str]:
    yield "<h2>What is not proven</h2><ul>"
    for check in verdict.checks:
        if check.state is State.REFUSED:
            yield f'<li><b class="bad">{_hostile(check.code)}</b>: {_hostile(check.detail)}</li>'
    for check in verdict.checks:
        if check.state is State.NOT_MADE:
            yield f"<li><b>{_hostile(check.code)}</b> was not checked: {_hostile(check.detail)}</li>"
    for check in verdict.checks:
        if check.state is State.NOT_ASKED:
            yield f"<li><b>{_hostile(check.code)}</b> was not asked: {_hostile(check.detail)}</li>"
    yield from (f"<li>{text}</li>" for text in _LIMITS)
    yield "</ul>"


def _facts(verdict: Verdict) -> Iterator[str]:
    optional = (each for each in verdict.checks if not each.required and each.state is not State.NOT_ASKED)
    off = ", ".join(check.code for check in optional) or "none"
    rows = (
        ("Bundle", verdict.bundle),
        ("Judged at", verdict.at),
        ("Time", verdict.whose_time),
        ("Verifier build", verdict.build),
        ("Your trust file", verdict.trust),
        ("Requirements switched off", off),
    )
    yield "<h2>What was judged</h2><dl>"
    yield from (f"<dt>{name}</dt><dd><code>{_hostile(value)}</code></dd>" for name, value in rows)
    yield "</dl>"


def _population(verdict: Verdict) -> Iterator[str]:
    people = verdict.population
    yield "<h2>Who is in it</h2><table><tr><th>Sessions</th><th>Receipts</th><th>By kind</th></tr><tr>"
    yield (
        f"<td>{people.started} started, {people.closed} closed, {people.lost} lost, {people.open} open"
        + (f", {people.foreign} not judged" if people.foreign else "")
        + "</td>"
    )
    counts = f"{people.receipts} in {people.chains} chains, {people.restarts} restarts"
    yield f"<td>{counts}, {people.refusals} refusals</td>"
    kinds = ", ".join(f"{count} {_hostile(kind)}" for kind, count in sorted((people.kinds or {}).items()))
    yield f"<td>{kinds or 'nothing'}</td></tr></table>"


def _levels(verdict: Verdict) -> Iterator[str]:
    yield "<h2>Levels</h2><table>"
    for level, meaning in LEVELS.items():
        mark, look = _MARKS[verdict.level_state(level)]
        yield f'<tr><td><b>{level}</b></td><td><span class="tag {look}">{mark}</span></td><td>{meaning}</td></tr>'
    yield "</table>"


def _checks(checks: Sequence[Check]) -> Iterator[str]:
    yield "<h2>Every check</h2><table><tr><th>Check</th><th>Result</th><th>Tier</th><th>What was found</th></tr>"
    for check in checks:
        mark, look = _MARKS[check.state]
        reason = "" if check.reason is None else f" <code>[{_hostile(check.reason)}]</code>"
        where = (
            "" if not check.where else f'<br><span class="dim">{", ".join(map(_hostile, check.where))}</span>'
        )
        tier = "" if check.tier is None else str(check.tier)
        required = "" if check.required else ' <span class="dim">(not required)</span>'
        yield (
            f"<tr><td><code>{_hostile(check.code)}</code>{required}</td>"
            f'<td><span class="tag {look}">{mark}</span></td><td>{tier}</td>'
            f"<td>{_hostile(check.detail)}{reason}{where}</td></tr>"
        )
    yield "</table>"


def _timeline(moments: Sequence[Moment]) -> Iterator[str]:
    yield "<h2>Who did what, under which rule</h2>"
    if not moments:
        yield "<p>No record is authentic, so there is nothing to tell.</p>"
        return
    yield (
        '<p class="dim">By the signers\' own clocks. The gateway saw requests; the supervisor stood beside the agent. '
        "Texts in typewriter face come from the records and may have been chosen by the agent.</p>"
    )
    yield "<table><tr><th>Time (UTC)</th><th>Who</th><th>What</th><th>Decision</th></tr>"
    yield from map(_moment, moments[:MAX_MOMENTS])
    yield "</table>"
    if len(moments) > MAX_MOMENTS:
        yield f"<p><b>{len(moments) - MAX_MOMENTS} records more are not shown.</b> They were checked as all others.</p>"


def _moment(moment: Moment) -> str:
    who = "gateway" if moment.role == "gateway" else "supervisor"
    rules = "".join(f"<br><code>{_hostile(rule)}</code>" for rule in moment.rules[:16])
    known = [(label, value) for name, value in moment.facts if (label := _label(name)) is not None]
    plain = "".join(f"<li>{label}: <code>{_hostile(value)}</code></li>" for label, value in known)
    facts = "".join(
        f"<li>{_hostile(name)}: <code>{_hostile(value)}</code></li>" for name, value in moment.facts
    )
    more = f"<li>{moment.more} more</li>" if moment.more else ""
    deny = " deny" if moment.decision == "deny" or moment.kind == "refusal" else ""
    return (
        f'<tr class="lane-{"gateway" if who == "gateway" else "session"}{deny}">'
        f"<td>{_clock(moment.at)}</td><td>{who}<br><span class='dim'>no. {moment.seq}</span></td>"
        f"<td>{_hostile(moment.title)}<ul class='facts'>{plain}</ul>"
        f"<details><summary>receipt {_hostile(moment.jti)}, every member</summary>"
        f"<ul class='facts'>{facts}{more}</ul></details></td>"
        f"<td>{_hostile(moment.decision)}{rules}</td></tr>"
    )


def _label(name: str) -> str | None:
    """What a member is called for a reader; None where only a specialist asks for it."""
    return _LABELS.get(_INDEX.sub("", name))


def _clock(seconds: int) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return "not a time"


def _hostile(text: str) -> str:
    """Escaped for the terminal's tricks first, then for HTML, and bounded."""
    shown = printable(text, limit=_MAX_TEXT)
    return escape(shown, quote=True)
