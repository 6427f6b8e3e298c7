"""The page's one style: light, dark and print.

Colours stand in pairs of text and ground, each of a contrast of 4.5 to 1 or more (WCAG 2.2, 1.4.3), which a test
computes. Every element overrides the direction of its text, so that letters of right-to-left scripts reorder nothing.
"""

from __future__ import annotations

from typing import Final

__all__ = ["DARK", "LIGHT", "PAIRS", "STYLE"]

LIGHT: Final = {
    "ink": "#17212b",
    "paper": "#ffffff",
    "soft": "#f4f6f8",
    "line": "#d5dce3",
    "strong": "#8794a1",
    "dim": "#52606d",
    "link": "#0b57a4",
    "bad": "#a3121f",
    "badbg": "#fdedef",
    "warn": "#7a4a00",
    "warnbg": "#fff4dd",
    "good": "#0b5d3b",
    "goodbg": "#e8f6ef",
    "sim": "#4b2a86",
    "simbg": "#f1ebfb",
    "full": "#1d4f91",
    "fullink": "#ffffff",
    "part": "#dbe8f7",
    "partink": "#123a6d",
}
DARK: Final = {
    "ink": "#e6ebf0",
    "paper": "#11171d",
    "soft": "#1a222b",
    "line": "#303c48",
    "strong": "#6b7a89",
    "dim": "#a2b0bd",
    "link": "#8cbcf5",
    "bad": "#ff9aa3",
    "badbg": "#3a1519",
    "warn": "#ffce7a",
    "warnbg": "#362506",
    "good": "#8fe0ba",
    "goodbg": "#0f2f22",
    "sim": "#cdb5ff",
    "simbg": "#2a1f43",
    "full": "#9cc4f7",
    "fullink": "#0b1a2c",
    "part": "#1d3350",
    "partink": "#cfe2fb",
}
PAIRS: Final = (
    *(("ink", ground) for ground in ("paper", "soft", "badbg", "warnbg", "goodbg")),
    *(("dim", ground) for ground in ("paper", "soft", "badbg", "warnbg", "goodbg")),
    *(("link", ground) for ground in ("paper", "soft", "badbg", "warnbg", "goodbg")),
    *(("bad", ground) for ground in ("paper", "badbg")),
    *(("warn", ground) for ground in ("paper", "soft", "warnbg")),
    *(("good", ground) for ground in ("paper", "goodbg")),
    *(("sim", ground) for ground in ("paper", "simbg")),
    ("fullink", "full"),
    ("partink", "part"),
)
"""Text and ground, as they meet on the page."""


def _variables(colours: dict[str, str]) -> str:
    return ";".join(f"--{name}:{value}" for name, value in colours.items())


_SCREEN: Final = """
*,*::before,*::after{box-sizing:border-box}
body *{direction:ltr;unicode-bidi:isolate-override}
[hidden]{display:none!important}
html{scroll-padding-top:1rem}
@media (prefers-reduced-motion:no-preference){html{scroll-behavior:smooth}}
body{margin:0 auto;max-width:1280px;padding:40px 32px 72px;background:var(--paper);color:var(--ink);
font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","DejaVu Sans",sans-serif}
h1{font-size:2rem;line-height:1.2;letter-spacing:-.015em;margin:0 0 .15em}
h2{font-size:1.35rem;line-height:1.3;letter-spacing:-.01em;margin:3.2rem 0 .5rem;padding-top:1.1rem;
border-top:2px solid var(--ink)}
h3{font-size:1.05rem;line-height:1.4;margin:1.8rem 0 .4rem}
p{margin:.35rem 0;max-width:88ch;text-wrap:pretty}
ul{padding-left:1.2rem}li{margin:.2rem 0}
a{color:var(--link);text-underline-offset:.15em;text-decoration-thickness:from-font}
a:hover{text-decoration-thickness:2px}
:focus-visible{outline:3px solid var(--link);outline-offset:2px;border-radius:2px}
code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:.89em;
overflow-wrap:anywhere}
.lead{font-size:1.1rem;color:var(--dim);margin-bottom:1.2rem}
.lead code{color:var(--ink)}
.dim{color:var(--dim)}
.digest{font-size:.8rem;color:var(--dim);overflow-wrap:anywhere}dd .digest{font-size:.84rem;color:inherit}
.notice{border-left:4px solid var(--warn);background:var(--warnbg);padding:.6rem .9rem}
.unseen{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.skip{position:absolute;left:-9999px}.skip:focus{left:1rem;top:1rem;background:var(--paper);padding:.4rem .8rem;
z-index:9}
main:focus{outline:none}
nav{display:flex;flex-wrap:wrap;gap:.3rem 1.4rem;margin:1.8rem 0 0;padding:.7rem 0;
border-block:1px solid var(--line)}
.tiles{display:flex;flex-wrap:wrap;gap:10px;list-style:none;margin:0 0 .4rem;padding:0}
.tiles li{flex:1 1 8.5rem;margin:0;border:1px solid var(--line);border-top:3px solid var(--strong);
border-radius:4px;background:var(--soft)}
.tiles .warn{border-top-color:var(--warn)}.tiles .bad{border-top-color:var(--bad);background:var(--badbg)}
.tiles a{display:block;height:100%;padding:.55rem .8rem .65rem;color:inherit;text-decoration:none;font-size:.84rem;
line-height:1.35}
.tiles a:hover{text-decoration:underline}
.tiles b{display:block;font-size:1.6rem;line-height:1.25;font-variant-numeric:tabular-nums}
.facts{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.35rem 1.6rem;margin:.8rem 0 0}
.facts dt{color:var(--dim)}.facts dd{margin:0;overflow-wrap:anywhere}
table{border-collapse:separate;border-spacing:0;width:100%;font-size:.93rem;margin:.6rem 0 1.2rem}
caption{text-align:left;color:var(--dim);font-size:.85rem;padding:.3rem 0}
th,td{text-align:left;vertical-align:top;padding:.42rem .7rem;border-bottom:1px solid var(--line);
overflow-wrap:anywhere}
thead th,thead td{color:var(--dim);font-weight:600;font-size:.85rem;border-bottom:2px solid var(--strong);
vertical-align:bottom}
tbody th{font-weight:600}
th:first-child{padding-left:.2rem}
.where{font-size:.92em}td .where{font-size:.92em}.place{margin-right:.35em;overflow-wrap:anywhere}
.short th:first-child{width:15rem}.short th .dim{display:block;font-weight:400;font-size:.92em}
.short p{margin:0 0 .3rem}
.tag{display:inline-block;border:1px solid;border-radius:3px;padding:0 .4em;font-size:.86em;font-weight:600;
line-height:1.5;white-space:nowrap}
.tag.bad{color:var(--bad);background:var(--badbg)}.tag.warn{color:var(--warn);background:var(--warnbg)}
.tag.good{color:var(--good);background:var(--goodbg)}.tag.sim{color:var(--sim);background:var(--simbg)}
.count{display:inline-block;min-width:1.6em;text-align:center;border-radius:1em;background:var(--soft);
color:var(--dim);
border:1px solid var(--line);font-size:.8em;font-weight:600;padding:0 .45em;line-height:1.6}
.kind{border-left:4px solid var(--strong);padding-left:1.1rem;margin:1.6rem 0}
.kind.bad{border-color:var(--bad)}.kind.warn{border-color:var(--warn)}.kind.good{border-color:var(--good)}
.kind h3{margin-top:0}.kind table{margin-bottom:0}
.kind table{table-layout:fixed}
.kind th:nth-child(1){width:22%}.those{list-style:none;margin:0;padding:0;display:flex;flex-wrap:wrap;
gap:.1rem 1.6rem}.those li{margin:0}
table.changes th:nth-child(1){width:16%}table.changes th:nth-child(2){width:21%}
table.changes th:nth-child(4){width:15%}table.changes th:nth-child(5){width:15%}
table.flows,table.vain,table.rules{table-layout:fixed}
table.flows th:nth-child(1),table.vain th:nth-child(1){width:17%}
table.flows th:nth-child(2),table.vain th:nth-child(2){width:15%}
table.flows th:nth-child(3){width:18%}table.flows th:nth-child(5){width:17%}
table.flows th:last-child,table.vain th:last-child{width:14%}
table.rules th:first-child{width:8.5rem}table.rules tbody th{font-weight:400;color:var(--dim)}
table.rules th:last-child{width:13rem}
.agent{padding-top:.4rem}.agent h3{font-size:1.12rem;border-bottom:1px solid var(--line);padding-bottom:.2rem}
.legend{display:flex;flex-wrap:wrap;gap:.3rem 1.4rem;list-style:none;padding:0;margin:.7rem 0;font-size:.88rem}
.legend li{margin:0}
#filter{display:flex;flex-wrap:wrap;gap:.6rem 1.4rem;align-items:center;background:var(--soft);
border:1px solid var(--line);
border-radius:4px;padding:.6rem .9rem;margin:.9rem 0 .3rem}
#filter label{font-size:.88rem}#filter input{font:inherit;font-size:.92rem;color:var(--ink);background:var(--paper);
border:1px solid var(--strong);border-radius:3px;padding:.25rem .5rem;width:14rem;max-width:100%}
output{font-size:.88rem;color:var(--dim)}
.matrix{table-layout:fixed}
.matrix thead th,.matrix thead td{position:sticky;top:0;background:var(--paper);z-index:2}
.matrix thead td{left:0;z-index:3}
.matrix tbody th[scope=row]{position:sticky;left:0;background:var(--paper);z-index:1;font-weight:400}
.matrix .plane th{background:var(--soft);font-size:.85rem;padding-top:.5rem;border-bottom-color:var(--strong)}
.matrix col,.matrix colgroup.things{width:26%}
.matrix tbody tr:hover>*{background:var(--soft)}
.wordy td{border-left:1px solid var(--line)}.wordy thead th{border-left:1px solid var(--line)}
.wordy td.A{background:var(--part);color:var(--partink)}.wordy td.A a{color:inherit}
.wordy td.N,.wordy td.U{background:var(--soft)}
.wordy td .sign{float:right;margin:0 0 0 .4em}.at{display:block;font-size:.9em}
.letters th,.letters td{padding:.22rem .1rem}.letters thead th{padding-bottom:.4rem}
.letters td{text-align:center;font-weight:700;font-variant-numeric:tabular-nums;border-left:1px solid var(--line);
font-size:.88rem;position:relative}
.letters thead th{border-left:1px solid var(--line);text-align:center}
.letters tr:not(.plane)>:nth-child(5n+2){border-left:2px solid var(--strong)}
.letters tbody th[scope=row]{padding-left:.2rem;padding-right:.6rem}
.letters .plane th{padding-left:.2rem}
.letters .up{writing-mode:vertical-rl;transform:rotate(180deg);display:inline-block;max-height:17rem;
white-space:nowrap;font-weight:500}
.letters td a{display:block;color:inherit;text-decoration:none}.letters td a:hover{text-decoration:underline}
td.A,td.W,.letter.A,.letter.W{background:var(--full);color:var(--fullink)}
.wordy td.W{background:var(--part);color:var(--partink)}.wordy td.W a,.wordy td.S a{color:inherit}
td.L,td.R,td.S,.letter.L,.letter.R,.letter.S{background:var(--part);color:var(--partink)}
.wordy td.L,.wordy td.R{background:none;color:inherit}
td.P,.letter.P{background:var(--warnbg);color:var(--warn)}.wordy td.P a{color:inherit}
.letters td.N,.letters td.U,.letter.N,.letter.U{background:var(--soft);color:var(--dim)}
.letter{display:inline-block;min-width:1.5em;text-align:center;border-radius:3px;border:1px solid var(--line)}
td.wider{box-shadow:inset 0 0 0 2px var(--bad)}td.narrower{box-shadow:inset 0 0 0 2px var(--good)}
.sign{display:inline-block;min-width:1.25em;margin-left:.3em;text-align:center;border-radius:3px;
background:var(--ink);color:var(--paper);
font-size:.8rem;line-height:1.35}
.letters td .sign{position:absolute;top:0;right:0;margin:0;min-width:.9em;font-size:.68rem;line-height:1.1;
border-radius:0 0 0 3px}
.letters .up .sign{transform:rotate(90deg)}
.graph{margin:1rem 0;max-width:1080px}.graph svg{display:block;width:100%;height:auto}
svg text{font-size:12.5px;fill:var(--ink);unicode-bidi:bidi-override;white-space:pre}
svg .named{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:12.4px}
svg .note{font-size:11.5px;fill:var(--dim)}svg .kind-of{font-size:11px;font-weight:700;letter-spacing:.06em;
fill:var(--dim)}
svg .node{fill:var(--paper);stroke:var(--strong);stroke-width:1.2}
svg .node.agent{fill:var(--part);stroke:var(--full);stroke-width:1.6}
svg .node.secret{fill:var(--warnbg);stroke:var(--warn)}svg .node.host{fill:var(--soft)}
svg .wire,svg .wire path{fill:none;stroke:var(--strong);stroke-width:1.4}
svg .wire.asks,svg .wire.asks path{stroke-dasharray:6 4}
svg .wire.carries,svg .wire.carries path{stroke:var(--warn);stroke-width:2.6}
svg .wire path.arrow{fill:var(--strong);stroke:none}svg .wire.carries path.arrow{fill:var(--warn)}
ol.source{list-style-position:outside;margin:.6rem 0 1.4rem;padding:.7rem .8rem .7rem 4.4rem;background:var(--soft);
border:1px solid var(--line);
border-radius:4px;font-size:.9rem;line-height:1.5}
ol.source li{margin:0;white-space:pre-wrap;padding-left:.5rem}ol.source li::marker{color:var(--dim);
font-variant-numeric:tabular-nums;font-size:.85em}
ol.source li:target{background:var(--warnbg);box-shadow:-4px 0 0 var(--warn)}
.agent h3:target,section>h3:target{background:var(--warnbg)}
footer{margin-top:3rem;padding-top:.8rem;border-top:1px solid var(--line);color:var(--dim);font-size:.85rem}
footer p{max-width:none;overflow-wrap:anywhere}
@media (max-width:900px){body{padding:24px 20px 48px}h1{font-size:1.7rem}.short th:first-child{width:11rem}
.facts{grid-template-columns:minmax(0,1fr);gap:0}.facts dd{margin-bottom:.5rem}.graph{overflow-x:auto}
.graph svg{min-width:740px}}
@media (max-width:700px){.wide{overflow-x:auto}.matrix{min-width:640px}section>table,.kind{overflow-x:auto}}
"""

_PRINT: Final = """
@page{margin:14mm 12mm}
@media print{
html{font-size:12px}
body{max-width:none;padding:0;font-size:9.5pt;line-height:1.4}
h1{font-size:18pt}h2{font-size:13pt;margin-top:16pt;padding-top:6pt;border-top-width:1pt}h3{font-size:10.5pt;
margin-top:9pt}
h1,h2,h3,caption,h2+p,h2+p+p,h3+p,.kind p,.legend,#filter,thead,thead tr{break-after:avoid}
#filter:has(output:empty){display:none}
table.flows th:nth-child(2),table.vain th:nth-child(2){width:19%}table.flows th:nth-child(3){width:17%}
table.flows th:nth-child(5){width:15%}
nav,#filter label,.skip{display:none!important}#filter{border:0;padding:0;background:none}
a{color:inherit;text-decoration:none}
tr,.tiles li,figure,.notice{break-inside:avoid}thead{display:table-header-group}
p{break-inside:avoid}
table{font-size:8.5pt}th,td{padding:2.5pt 5pt}thead th,thead td{font-size:8pt}
.matrix thead th,.matrix thead td,.matrix tbody th[scope=row]{position:static}
.letters{font-size:7pt}.letters td,.letters th{padding:1pt 0}.letters td{font-size:7.5pt}
.letters .up{max-height:none;font-size:7pt}.matrix .plane{break-after:avoid}
.wide{overflow:visible}.matrix{min-width:0}
.graph{max-width:none;overflow:visible}.graph svg{min-width:0;max-height:235mm}
.tiles{gap:5pt}.tiles b{font-size:14pt}.tiles a{padding:3pt 6pt;font-size:8pt}
.short th:first-child{width:9rem}.facts{grid-template-columns:max-content minmax(0,1fr);gap:2pt 12pt}
.facts dd{margin:0}
.kind{padding-left:8pt;margin:10pt 0}.digest,dd .digest{font-size:7.5pt}
ol.source{font-size:8pt;border:0;padding-left:3.6rem;background:none}
table.rules th:first-child{width:7rem}table.rules th:last-child{width:11rem}
table.changes th:last-child{width:18%}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}
}
"""

STYLE: Final = (
    f"\n:root{{color-scheme:light dark;{_variables(LIGHT)}}}\n"
    f"@media screen and (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}\n"
    f"@media print{{:root{{color-scheme:light}}}}{_SCREEN}{_PRINT}"
)
