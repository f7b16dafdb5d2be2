"""The frame of a report: escaping, tables, charts as data, style, and the one script that draws them. Nothing is fetched."""

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import vl_convert

from catalog.output import shown

STYLE = """
:root{color-scheme:light dark;--page:#fff;--ink:#1f1f1f;--soft:#5c5c5c;--line:#d9d9d9;--tint:#f4f4f4;--mark:#fff3d6;--link:#1f5f99}
@media screen and (prefers-color-scheme:dark){
:root{--page:#161616;--ink:#e8e8e8;--soft:#a8a8a8;--line:#3a3a3a;--tint:#232323;--mark:#3d3214;--link:#8ec1f0}}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;margin:0 auto;padding:1rem 1rem 4rem;background:var(--page);color:var(--ink)}
h1{font-size:1.6rem;line-height:1.2;margin:.5rem 0}
h2{margin:2.5rem 0 .5rem;padding-top:.5rem;border-top:2px solid var(--line)}h3{margin:1.6rem 0 .3rem}
p{max-width:46rem}a{color:var(--link)}ul{padding-left:1.2rem}
h2,h3,p,li,td,th,dd,summary{overflow-wrap:anywhere}
code,pre{font:.85em/1.4 ui-monospace,monospace;background:var(--tint)}code{padding:0 .2rem;unicode-bidi:isolate;overflow-wrap:anywhere}
pre{padding:.6rem;overflow-x:auto;margin:.3rem 0 1rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem .8rem;margin:.5rem 0}dt{color:var(--soft)}dd{margin:0}
.warn{background:var(--mark);padding:.5rem .8rem;border-left:4px solid #e69f00;margin:1rem 0}.warn p{margin:.2rem 0}.warn ul{margin:.2rem 0}
.note{color:var(--soft);font-size:.88rem}.notes{white-space:pre-wrap}
.scroll{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;font-size:.85rem;margin:.5rem 0}
th,td{padding:.2rem .6rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap;vertical-align:top}
th.left,td.left{text-align:left;white-space:normal;min-width:8rem}strong{white-space:nowrap}
thead th{color:var(--soft);font-weight:600}
figure{margin:.8rem 0;overflow-x:auto}.chart{display:block;width:100%;min-width:19rem}
.chart svg{display:block;max-width:100%;height:auto;font-family:system-ui,sans-serif}
.chart svg text{fill-opacity:1}.chart svg [fill="#767676"]{fill:var(--soft)}
.chart .mark-rect path,.chart .mark-symbol path{cursor:pointer}.chart .role-mark text{pointer-events:none}
#vg-tooltip-element{background:var(--page);color:var(--ink);border:1px solid var(--line);font:13px system-ui,sans-serif}
#vg-tooltip-element table{margin:0}#vg-tooltip-element td{border:0;color:var(--ink)}#vg-tooltip-element td.key{color:var(--soft)}
summary{cursor:pointer;color:var(--link);padding:.25rem 0}
.items>li{margin:.8rem 0}
.items ol{margin:.1rem 0;list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:.1rem 1.2rem}
.gold{font-weight:600}.tag{color:var(--soft);font-size:.8rem}
.question{white-space:pre-line}
@media (max-width:30rem){body{padding:.5rem .7rem 3rem}h1{font-size:1.35rem}h2{font-size:1.2rem}
dl{grid-template-columns:1fr}dt{margin-top:.3rem}}
@media print{body{max-width:none;font-size:11pt;padding:0}figure,tr,.items>li,.warn{break-inside:avoid}h2,h3,figcaption{break-after:avoid}
.scroll,figure,pre{overflow:visible}pre{white-space:pre-wrap}table{font-size:7pt}th,td{padding:.1rem .3rem}summary,a{color:inherit}}
"""

# A chart that fails says so in its place. Long names are cut on narrow screens, or they would leave no room for the bars.
# A click on a category fades the others in every chart; a click beside the bars ends it.
# On paper tables and items are open. A print in a dark scheme is light: the colours of STYLE are of the screen.
SCRIPT = """
const views = [];
const name = (item) => item && item.datum && (item.datum.category ?? (item.mark.role === "axis-label" ? item.datum.value : null)) || null;
const pick = (category) => views.forEach((view) => view.signal("picked", category).runAsync());
for (const box of document.querySelectorAll(".chart")) {
  const spec = JSON.parse(document.getElementById(box.dataset.spec).textContent);
  if (box.clientWidth < 480) spec.config.axis.labelLimit = 100;
  vegaEmbed(box, spec, {renderer: "svg", actions: false, ast: true, defaultStyle: false}).then(({view}) => {
    box.dataset.drawn = "yes";
    if (box.dataset.by !== "category") return;
    views.push(view);
    view.addEventListener("click", (event, item) => pick(name(item) === view.signal("picked") ? null : name(item)));
  }).catch((error) => { box.textContent = "This chart could not be drawn (" + error.message + "). The table below holds its numbers."; });
}
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details.paper:not([open])")];
  opened.forEach((d) => { d.open = true; });
});
addEventListener("afterprint", () => opened.forEach((d) => { d.open = false; }));
"""
LICENCES = """<!-- Vega, Vega-Lite, Vega-Embed, Vega-Tooltip: BSD-3-Clause, (c) University of Washington Interactive Data Lab.
D3: ISC, (c) Mike Bostock. -->"""
WITHOUT = '<noscript><p class="warn">The charts need JavaScript; the tables below them hold their numbers.</p></noscript>'


@cache
def vega() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script of 0.9 MB; seconds to bundle, so once a process."""
    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def escaped(value: object) -> str:
    """Text as HTML; half a Unicode character, which no file can hold, becomes a question mark."""
    return html.escape(str(value).encode(errors="replace").decode())


def code(value: object) -> str:
    """A name as code."""
    return f"<code>{escaped(value)}</code>"


class Html(str):
    """Text that is HTML already."""


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], left: int = 1) -> str:
    """A table in a box that scrolls by itself; the first `left` columns to the left. Cells are escaped unless they are Html."""
    side = [' class="left"' if at < left else "" for at in range(len(columns))]

    def line(tag: str, row: Sequence[Any]) -> str:
        cells = (cell if isinstance(cell, Html) else escaped(shown(cell)) for cell in row)
        return "<tr>" + "".join(f"<{tag}{css}>{cell}</{tag}>" for css, cell in zip(side, cells, strict=True)) + "</tr>"

    body = "".join(line("td", row) for row in rows)
    return f'<div class="scroll" tabindex="0"><table><thead>{line("th", columns)}</thead><tbody>{body}</tbody></table></div>'


def folded(title: str, content: str, paper: bool = True) -> str:
    """What is read by those who open it, and on paper."""
    kind = "paper" if paper else "screen"
    return f'<details class="{kind}"><summary>{escaped(title)}</summary>{content}</details>'


def as_data(value: object) -> str:
    """JSON that may stand in a script element: no character in it can end the element or begin a comment."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def figure(chart_id: str, spec: dict[str, Any], by: str, caption: str, behind: str) -> str:
    """A chart, what to look for in it, and the table behind it.

    Args:
        chart_id: Unique in the page.
        spec: Vega-Lite.
        by: Column whose names can be picked.
        caption: HTML.
        behind: HTML of the table.
    """
    return f"""<figcaption class="note">{caption}</figcaption>
<figure><div class="chart" id="{chart_id}" data-spec="{chart_id}-spec" data-by="{by}"></div></figure>
<script type="application/json" id="{chart_id}-spec">{as_data(spec)}</script>
{folded("The numbers of this chart", behind)}"""


def digest(script: str) -> str:
    """A script's name in a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def page(title: str, body: str, charts: bool = True) -> str:
    """A whole page. Its policy lets these two scripts run and nothing else, and forbids every request.

    Args:
        title: Text.
        body: HTML.
        charts: Whether there are any to draw.
    """
    scripts = [vega(), SCRIPT] if charts else []
    allowed = " ".join(map(digest, scripts)) or "'none'"
    policy = f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    drawn = "".join(f"<script>{script}</script>" for script in scripts)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,"><title>{escaped(title)}</title>
<style>{STYLE}</style></head>
<body>{WITHOUT if charts else ""}{body}
{LICENCES if charts else ""}{drawn}</body></html>
"""
