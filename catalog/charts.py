"""The recurring Altair charts, drawn from what a view has aggregated already: at most a few hundred rows.

Colours mean the same everywhere and differ in lightness, so that they are told apart in grey and by the colour-blind; where there
are too many for that, shapes or labels differ too. Backgrounds are transparent and ink is a middle grey, so that charts can be read
on light and on dark pages.
"""

from collections.abc import Iterable, Sequence
from math import log10
from typing import Any

import altair as alt

Row = dict[str, Any]
Drawing = alt.LayerChart | alt.FacetChart  # of alt.layer; none here has facets
INK = "#767676"  # 4.5 : 1 on white, 4.6 : 1 on black
TRANSITIONS = {"kept": "#2f6690", "forgotten": "#d95f02", "gained": "#81b7dd", "never": "#e3e3e3"}
SIDES = {name: TRANSITIONS[name] for name in ("forgotten", "gained")}
PARTS = {"own noise": "#e3e3e3", "not readable": "#e6b83c", "the rest": "#d95f02"}  # of what was forgotten
REGIMES = {
    "Domain-Continual Pretraining": "#0072b2", "Instruction Tuning": "#e69f00", "Trained from Base": "#009e73",
    "Trained from Instruct - Low Data Scenario": "#cc79a7", "Trained from Instruct - High Data Scenario": "#d55e00",
    "Model Merging": "#8c8c8c",
}  # fmt: skip
PERCENT = "percent of items"
WIDTH = 420


@alt.theme.register("forgetting", enable=False)
def theme() -> Any:
    """Font, ink and transparent background of every chart."""
    ink = {"labelColor": INK, "titleColor": INK}
    return {
        "config": {
            "background": "transparent", "font": "system-ui, sans-serif", "view": {"stroke": None},
            "axis": {**ink, "domainColor": INK, "tickColor": INK, "gridColor": INK, "gridOpacity": 0.2, "labelLimit": 220,
                     "titleFontWeight": "normal"},
            "legend": {**ink, "orient": "top", "title": None}, "header": {**ink, "labelAnchor": "start"},
            "title": {"color": INK, "anchor": "start"}, "text": {"color": INK},
        }
    }  # fmt: skip


def the_theme() -> Any:
    """Draw in the project's theme while a `with` block lasts."""
    return alt.theme.enable("forgetting")


def use_theme() -> None:
    """Draw in the project's theme, as SVG: code hosts show it, it stays small, and it needs no script."""
    alt.theme.enable("forgetting")
    alt.renderers.enable("svg")


def legend(colours: dict[str, str]) -> alt.Legend | None:
    """In one line, or in two columns where that would be too long; opaque where marks are pale; none for a single name."""
    columns = len(colours) if sum(len(name) + 4 for name in colours) <= 72 else 2
    return alt.Legend(columns=columns, labelLimit=300, symbolOpacity=1) if len(colours) > 1 else None


def coloured(field: str, colours: dict[str, str]) -> alt.Color:
    """A colour that means the same everywhere."""
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    return alt.Color(f"{field}:N", scale=scale, title=None, legend=legend(colours))


def percent(rows: Iterable[Row], *columns: str) -> list[Row]:
    """Rows with fractions turned into percent; NULL stays NULL."""
    return [row | {name: None if row[name] is None else 100 * row[name] for name in columns} for row in rows]


def quadrants(rows: Sequence[Row], by: str = "category") -> Drawing:
    """What happened to the items: one bar each category, kept, forgotten, gained, never; the share in the bar.

    Args:
        rows: With `by` and counts n11, n10, n01, n00, or any averages of them.
        by: Column that names the bars.
    """
    values = []
    for row in rows:
        counts = {name: row[column] for name, column in zip(TRANSITIONS, ("n11", "n10", "n01", "n00"), strict=True)}
        total, start = sum(counts.values()) or 1, 0.0
        for what, n in counts.items():
            share = 100 * n / total
            values.append(
                {by: row[by], "what": what, "items": n, "share": share, "from": start, "to": start + share, "middle": start + share / 2}
            )
            start += share
    base = alt.Chart(alt.Data(values=values)).encode(y=alt.Y(f"{by}:N", title=None, sort=None))
    bars = base.mark_bar().encode(
        x=alt.X("from:Q", title=PERCENT, scale=alt.Scale(domain=[0, 100])), x2="to:Q", color=coloured("what", TRANSITIONS),
        tooltip=[f"{by}:N", "what:N", alt.Tooltip("items:Q", format=".4~g"), alt.Tooltip("share:Q", format=".1f")],
    )  # fmt: skip
    ink = alt.Color("what:N", scale=alt.Scale(domain=list(TRANSITIONS), range=["white", "white", "black", "black"]), legend=None)
    shares = (
        base.transform_filter("datum.share >= 6").mark_text(size=10).encode(x="middle:Q", text=alt.Text("share:Q", format=".0f"), color=ink)
    )
    chart: Drawing = alt.layer(bars, shares).resolve_scale(color="independent").properties(width=WIDTH, height=alt.Step(20))
    return chart


def intervals(rows: Sequence[Row], by: str, colours: dict[str, str], x_title: str = PERCENT) -> Drawing:
    """Values with their intervals, a line each; in `rows`: `by`, `what` (which of `colours`), value, low, high, where known raw, ceiling.

    A tick marks `raw`, the uncorrected share; a pale bar reaches to `ceiling`, the most that the value could be. A row without
    a value is drawn by its tick alone.
    """
    known = [name for name in ("value", "low", "high", "raw", "ceiling") if any(row.get(name) is not None for row in rows)]
    known = known or ["value", "low", "high"]  # of nothing, an empty chart
    values = [{name: row.get(name) for name in (by, "what", *known)} for row in rows]
    base = alt.Chart(alt.Data(values=values)).encode(
        y=alt.Y(f"{by}:N", title=None, sort=None), yOffset=alt.YOffset("what:N", sort=list(colours)), color=coloured("what", colours),
        tooltip=[f"{by}:N", "what:N", *(alt.Tooltip(f"{name}:Q", format=".1f") for name in known)],
    )  # fmt: skip
    x = {name: alt.X(f"{name}:Q", title=x_title) for name in known}
    marks = [alt.Chart().mark_rule(color=INK).encode(x=alt.datum(0))]
    if "low" in x:  # an axis of nothing but NULL would be drawn wrong
        marks.append(base.mark_rule(strokeWidth=2).encode(x=x["low"], x2="high:Q"))
    if "value" in x:
        marks.append(base.mark_circle(size=60, opacity=1).encode(x=x["value"]))
    if "raw" in x:
        marks.append(base.mark_tick(thickness=2, size=10, opacity=0.7).encode(x=x["raw"]))
    if "ceiling" in x:  # under the rest; from 0, so that its length is what there was
        marks.insert(0, base.mark_bar(opacity=0.22, size=9).encode(x=x["ceiling"]))
    return alt.layer(*marks).properties(width=WIDTH, height=alt.Step(14))


def sides(rows: Iterable[Row], value: str, raw: str | None = None, ceiling: str | None = None) -> list[Row]:
    """Rows for `intervals` with a forgotten and a gained half, in percent.

    Args:
        rows: Of a metric view.
        value: Name of a metric without its f_: 'knowledge' reads f_knowledge, f_knowledge_lo, bt_knowledge ...; '' reads f, f_lo, bt ...
        raw: The same of an uncorrected metric, for the tick.
        ceiling: The same of the most it could be, for the pale bar: 'max' reads f_max, bt_max.
    """
    halves = []
    for row in rows:
        for side, what in (("f", "forgotten"), ("bt", "gained")):
            name = f"{side}_{value}" if value else side
            shown = {"value": row[name], "low": row[f"{name}_lo"], "high": row[f"{name}_hi"]}
            if raw is not None:
                shown["raw"] = row[f"{side}_{raw}" if raw else side]
            if ceiling is not None:
                shown["ceiling"] = row[f"{side}_{ceiling}"]
            halves.append(row | {"what": what} | {k: None if v is None else 100 * v for k, v in shown.items()})
    return halves


def beyond_luck(rows: Sequence[Row], setting: str | None = None) -> Drawing:
    """Forgotten and gained beyond luck by category, 95% intervals; a tick marks the raw share, a pale bar the ceiling where rows have one.

    Args:
        rows: Rows of the macro `forgetting`, one map; with f_max and bt_max of `category_metrics` for the ceilings.
        setting: Only these; None where there is one.
    """
    chosen = [row for row in rows if setting in (None, row["setting"])]
    ceiling = "max" if any("f_max" in row for row in chosen) else None
    return intervals(sides(chosen, "knowledge", "", ceiling), "category", SIDES, f"{PERCENT}, beyond luck; tick: raw share")


def parts(rows: Sequence[Row], by: str, colours: dict[str, str]) -> Drawing:
    """What a share is made of: stacked bars of `part` and `value` (percent) by `by`; negative parts go to the left of 0."""
    base = alt.Chart(alt.Data(values=list(rows))).encode(y=alt.Y(f"{by}:N", title=None, sort=None))
    bars = base.mark_bar().encode(
        x=alt.X("value:Q", title=PERCENT, stack="zero"), color=coloured("part", colours), order=alt.Order("rank:Q"),
        tooltip=[f"{by}:N", "part:N", alt.Tooltip("value:Q", format=".1f")],
    )  # fmt: skip
    zero = alt.Chart().mark_rule(color=INK).encode(x=alt.datum(0))
    return alt.layer(bars, zero).properties(width=WIDTH, height=alt.Step(20))


def grid(rows: Sequence[Row], x: str, y: str, value: str, title: str, form: str = ".1f") -> Drawing:
    """A table as a heat map with its numbers printed in it; empty cells stay empty. Columns and rows stand in the order they first come.

    Args:
        rows: One a cell.
        x: Column names; y: row names; value: percent, or another number from 0.
        title: What the colour means.
        form: How numbers are printed.
    """
    top = max((row[value] for row in rows if row[value] is not None), default=1)
    across, down = (list(dict.fromkeys(row[name] for row in rows)) for name in (x, y))
    base = alt.Chart(alt.Data(values=list(rows))).encode(
        x=alt.X(f"{x}:N", title=None, sort=across, axis=alt.Axis(orient="top", labelAngle=-35)), y=alt.Y(f"{y}:N", title=None, sort=down)
    )
    scale = alt.Scale(scheme="oranges", domain=[0, top], clamp=True)
    known = f"isValid(datum['{value}'])"
    cells = base.transform_filter(known).mark_rect().encode(
        color=alt.Color(f"{value}:Q", scale=scale, legend=alt.Legend(title=title, gradientLength=160)),
        tooltip=[f"{y}:N", f"{x}:N", alt.Tooltip(f"{value}:Q", format=form)],
    )  # fmt: skip
    # not filtered, or a row of nothing but unknown values would go; white where it is read better than black
    dark = alt.condition(f"datum['{value}'] > {0.8 * top}", alt.value("white"), alt.value("black"))
    text = alt.condition(known, alt.Text(f"{value}:Q", format=form), alt.value(""))
    numbers = base.mark_text(size=10).encode(text=text, color=dark)
    return alt.layer(cells, numbers).properties(width=alt.Step(52), height=alt.Step(24))


def trend(
    points: Sequence[Row], fits: Sequence[Row], colour: str, colours: dict[str, str], x_title: str, y_title: str = PERCENT
) -> Drawing:
    """Points over a logarithmic axis, with the lines that a trend view fitted; the axis says over how many distinct sizes.

    Args:
        points: With x, y, `colour`, pair_id, and where known low and high, the ends of the interval of y.
        fits: With `colour`, slope (per tenfold x) and intercept, as `scaling` has them; where slope is NULL no line is drawn.
    """
    sizes = sorted({row["x"] for row in points})
    lines = [
        {colour: fit[colour], "x": x, "y": fit["intercept"] + fit["slope"] * log10(x)}
        for fit in fits if fit["slope"] is not None
        for x in (f(row["x"] for row in points if row[colour] == fit[colour]) for f in (min, max))
    ]  # fmt: skip
    axis = alt.Axis(format="~s", tickCount=5, labelExpr="replace(datum.label, 'G', 'B')")
    x = alt.X("x:Q", scale=alt.Scale(type="log", nice=False, padding=20), title=f"{x_title} ({len(sizes)} distinct)", axis=axis)
    hue = coloured(colour, colours)
    base = alt.Chart(alt.Data(values=list(points))).encode(x=x, y=alt.Y("y:Q", title=y_title), color=hue)
    shape = alt.Shape(f"{colour}:N", scale=alt.Scale(domain=list(colours)), title=None, legend=legend(colours))
    dots = base.mark_point(size=60, opacity=0.9, filled=True).encode(
        shape=shape, tooltip=["pair_id:N", f"{colour}:N", "x:Q", alt.Tooltip("y:Q", format=".1f")]
    )
    errors = base.transform_filter("isValid(datum.low)").mark_rule(opacity=0.6).encode(y="low:Q", y2="high:Q")
    fitted = alt.Chart(alt.Data(values=lines)).mark_line(strokeDash=[4, 3]).encode(x=x, y="y:Q", color=hue)
    return alt.layer(errors, fitted, dots).properties(width=WIDTH, height=260)


def sequence(rows: Sequence[Row], x: str, y: str, colour: str, x_title: str, y_title: str = PERCENT) -> Drawing:
    """A value along checkpoints, one line each `colour`, which is written at the line's end."""
    base = alt.Chart(alt.Data(values=list(rows))).encode(
        x=alt.X(f"{x}:Q", title=x_title, axis=alt.Axis(values=sorted({row[x] for row in rows}))), y=alt.Y(f"{y}:Q", title=y_title)
    )
    hue = alt.Color(f"{colour}:N", legend=None, scale=alt.Scale(range=list(REGIMES.values())))
    tip = [f"{colour}:N", f"{x}:Q", alt.Tooltip(f"{y}:Q", format=".1f")]
    lines = base.mark_line(point=True).encode(color=hue, tooltip=tip)
    last = max((row[x] for row in rows), default=0)
    names = base.transform_filter(f"datum['{x}'] == {last}").mark_text(align="left", dx=8).encode(text=f"{colour}:N", color=hue)
    return alt.layer(lines, names).properties(width=WIDTH, height=260)


def pickable(chart: Drawing, by: str) -> Row:
    """A chart's Vega-Lite spec, as wide as its page, in which the parameter `picked` fades all but one name of `by`.

    A page sets `picked` in all its charts at once (`view.signal("picked", name)`): a selection of Vega-Lite's own stays in one chart.
    """
    spec: Row = chart.properties(width="container").to_dict(validate=False)  # checked when its parts were made; half the time of a page
    spec["data"] = spec.get("data") or next(layer["data"] for layer in spec["layer"] if "values" in layer["data"])
    drawn = [layer for layer in spec["layer"] if layer.get("data", spec["data"]) == spec["data"]]
    for layer in drawn:
        layer.pop("data", None)  # the same rows in every layer: once is enough
        test = f"picked === null || datum['{by}'] === picked"
        shown = layer["mark"].get("opacity", 1)
        layer["encoding"]["opacity"] = {"condition": {"test": test, "value": shown}, "value": 0.25 * shown}
    spec["params"] = [*spec.get("params", []), {"name": "picked", "value": None}]
    # a step has no place beside a width that follows the page: Vega-Lite warns, and so the height is worked out here
    offsets = len(drawn[0]["encoding"].get("yOffset", {}).get("sort", []))
    spec["height"] = spec["height"]["step"] * len({row[by] for row in spec["data"]["values"]}) * (1.25 * offsets if offsets > 1 else 1)
    spec.setdefault("config", {}).setdefault("axis", {})["labelSeparation"] = 6  # narrow screens
    return spec
