"""One plain HTML page that compares two models: a chart, the table behind it, the assumptions. No script, opens offline."""

import html
from pathlib import Path

import duckdb
import vl_convert

from catalog.charts import beyond_luck
from catalog.compare import COLUMNS, NOTES, cell, forgetting_rows, warnings_of

STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;font-size:.85rem;margin:1rem 0}th,td{padding:.2rem .6rem;text-align:right;border-bottom:1px solid #ddd}
th:first-child,td:first-child,th:last-child,td:last-child{text-align:left}code{background:#f3f3f3;padding:0 .2rem}
.note{color:#555;font-size:.85rem;white-space:pre-line}svg{max-width:100%;height:auto}"""


def write_report(con: duckdb.DuckDBPyConnection, before: str, after: str, chosen_map: str, out: Path) -> None:
    """Write the page for two models and one map of categories.

    Raises:
        CatalogError: The two models cannot be paired.
    """
    warnings = warnings_of(con, before, after)
    rows = forgetting_rows(con, before, after, chosen_map)
    svg = vl_convert.vegalite_to_svg(beyond_luck(rows).to_json())
    tables = ""
    for setting in sorted({row["setting"] for row in rows}):
        head = "".join(f"<th>{html.escape(name)}</th>" for name in COLUMNS)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell(row, source))}</td>" for source in COLUMNS.values()) + "</tr>"
            for row in rows if row["setting"] == setting
        )  # fmt: skip
        tables += f"<h2>{html.escape(setting)}</h2><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    said = "".join(f"<p><strong>Note:</strong> {html.escape(w)}</p>" for w in warnings)
    page = f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>What was forgotten</title><style>{STYLE}</style>
<h1>What did it forget, what did it gain?</h1>
<p>before <code>{html.escape(before)}</code><br>after <code>{html.escape(after)}</code><br>categories: {html.escape(chosen_map)}</p>
{said}<figure>{svg}</figure>{tables}<p class="note">{html.escape(NOTES)}</p>
<p class="note">SQL: <code>FROM forgetting('{html.escape(before)}', '{html.escape(after)}')</code></p></html>
"""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page, encoding="utf-8")
