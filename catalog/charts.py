"""Altair charts of what a view has aggregated already; a few hundred rows at most."""

from collections.abc import Sequence
from typing import Any

import altair as alt

COLOURS = {"forgotten": "#b2432f", "gained": "#2a6f97"}


def beyond_luck(rows: Sequence[dict[str, Any]]) -> alt.FacetChart:
    """Forgotten and gained knowledge by category with 95% intervals, one panel a setting; the raw share as a tick.

    Args:
        rows: Rows of the macro `forgetting`, one map.
    """
    values = []
    for row in rows:
        for side, name in (("f", "forgotten"), ("bt", "gained")):
            shown = {
                "value": row[f"{side}_knowledge"],
                "low": row[f"{side}_knowledge_lo"],
                "high": row[f"{side}_knowledge_hi"],
                "raw": row[side],
            }
            values.append(
                {"setting": row["setting"], "category": row["category"], "what": name} | {k: v and 100 * v for k, v in shown.items()}
            )
    base = alt.Chart(alt.Data(values=values)).encode(
        y=alt.Y("category:N", title=None), yOffset=alt.YOffset("what:N"),
        color=alt.Color("what:N", title=None, scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values()))),
    )  # fmt: skip
    interval = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title="percent of items, 95% interval; tick: raw share"), x2="high:Q")
    point = base.mark_circle(size=60, opacity=1).encode(x="value:Q")
    raw = base.mark_tick(thickness=2, size=10, opacity=0.6).encode(x="raw:Q")
    zero = alt.Chart(alt.Data(values=[{"x": 0}])).mark_rule(color="#999").encode(x="x:Q")
    panel = alt.layer(zero, interval, point, raw, data=alt.Data(values=values)).properties(width=420, height=alt.Step(16))
    return panel.facet(row=alt.Row("setting:N", title=None, header=alt.Header(orient="top", labelAnchor="start")))
