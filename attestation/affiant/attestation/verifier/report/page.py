"""The frame of every verdict's page: one style, a policy that forbids everything else.

No script at all: ``default-src 'none'`` lets nothing load, run or send, and the one style is named by its digest
(trust rules, 15).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from affiant import html_page
from affiant.html_page import hostile

__all__ = ["hostile", "whole_page"]

_STYLE: Final = """
:root{color-scheme:light dark;--ink:#16202b;--paper:#fff;--soft:#f2f5f8;--line:#c9d2dc;--dim:#51606f;
--bad:#a3121f;--badbg:#fdecee;--warn:#7a4a00;--warnbg:#fff5e0;--good:#0b5d3b;--goodbg:#e8f6ef;--sim:#4b2a86;--simbg:#f1ebfb}
@media (prefers-color-scheme:dark){:root{--ink:#e8edf2;--paper:#12181f;--soft:#1b242e;--line:#3a4754;--dim:#a3b1bf;
--bad:#ff9aa3;--badbg:#3a1519;--warn:#ffce7a;--warnbg:#362506;--good:#8fe0ba;--goodbg:#0f2f22;--sim:#cdb5ff;--simbg:#2a1f43}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1120px;padding:24px 32px 64px;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
h1{font-size:1.7rem;margin:.2em 0}
h2{font-size:1.2rem;margin:2.2em 0 .6em;border-bottom:2px solid var(--line);padding-bottom:.2em;overflow-wrap:anywhere}
h3{font-size:1.05rem;margin:1.8em 0 .5em}.bundle{margin-top:3.5em}a{color:inherit}
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
td.code{white-space:nowrap}tr.deny td{background:var(--badbg)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:4px 18px;margin:0}
dt{color:var(--dim)}dd{margin:0;overflow-wrap:anywhere}
@media print{body{max-width:none;padding:0;font-size:10.5pt}h2,h3{break-after:avoid}
.bundle{break-before:page}tr{break-inside:avoid}
.banner{break-inside:avoid}}
@page{margin:16mm}
"""


def whole_page(title: str, body: Iterable[str]) -> str:
    """The page around ``body``; ``title`` is our own text."""
    inside = "\n".join(body)
    return html_page.whole_page(f"affiant: {title}", style=_STYLE, body=f"<main>\n{inside}\n</main>")
