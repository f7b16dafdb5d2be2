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
    # no layer has data of its own: a facet divides only what is its
    base = alt.Chart().encode(
        y=alt.Y("category:N", title=None),
        yOffset=alt.YOffset("what:N"),
        color=alt.Color("what:N", title=None, scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values()))),
    )
    interval = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title="percent of items, 95% interval; tick: raw share"), x2="high:Q")
    point = base.mark_circle(size=60, opacity=1).encode(x="value:Q")
    raw = base.mark_tick(thickness=2, size=10, opacity=0.6).encode(x="raw:Q")
    zero = alt.Chart().mark_rule(color="#999").encode(x=alt.datum(0))
    panel = alt.layer(zero, interval, point, raw).properties(width=420, height=alt.Step(16))
    header = alt.Header(orient="top", labelAnchor="start")
    facet: alt.FacetChart = panel.facet(data=alt.Data(values=values), row=alt.Row("setting:N", title=None, header=header))
    facet = facet.resolve_scale(y="independent")
    return facet
