"""The recurring charts: drawn from hand-made rows, empty ones and hostile names among them."""

import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

vl_convert = pytest.importorskip("vl_convert")

from catalog import charts  # noqa: E402

HOSTILE = 'a/b\'s "<script>alert(1)</script>" | &amp;'


def drawn(chart):
    """The texts of a chart as drawn, which must be well-formed SVG."""
    svg = vl_convert.vegalite_to_svg(chart.to_json())
    return svg, [text.text for text in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def forgetting_row(**told):
    """A row of the macro forgetting with nothing in it but what is told."""
    names = ["f", "bt", *(f"{side}_knowledge{end}" for side in ("f", "bt") for end in ("", "_lo", "_hi"))]
    return dict.fromkeys(names) | {"setting": "s", "category": "c"} | told


def test_quadrants_by_hand():
    """Of 20 items 11, 5, 1, 3: shares 55, 25, 5, 15, the 5 too narrow to be written; no items are a bar without length."""
    row = {"category": "c", "n11": 11, "n10": 5, "n01": 1, "n00": 3}
    svg, texts = drawn(charts.quadrants([row, {"category": "none", "n11": 0, "n10": 0, "n01": 0, "n00": 0}]))
    assert [text for text in texts if text in ("55", "25", "15", "5")] == ["55", "25", "15"] and "none" in texts
    for colour in charts.TRANSITIONS.values():
        assert colour in svg


def test_sides_are_percent_and_keep_null():
    """Fractions become percent, what is not known stays unknown, the raw share is a tick of its own."""
    rows = [forgetting_row(f=0.25, bt=0.5, f_knowledge=0.2, f_knowledge_lo=0.1, f_knowledge_hi=0.3)]
    forgotten, gained = charts.sides(rows, "knowledge", raw="")
    assert (forgotten["what"], forgotten["value"], forgotten["low"], forgotten["raw"]) == ("forgotten", 20, 10, 25)
    assert (gained["what"], gained["value"], gained["raw"]) == ("gained", None, 50)


@pytest.mark.parametrize("rows", [[], [{"x": 1.0, "y": 2.0, "what": HOSTILE, "category": HOSTILE, "part": HOSTILE, "value": None, "low": None,
                                        "high": None, "rank": 1, "pair_id": HOSTILE, "n11": 1, "n10": 0, "n01": 0, "n00": 0}]])  # fmt: skip
def test_nothing_and_hostile_names(rows):
    """No rows is an empty chart; a name is text, never markup, and an unknown value is no error."""
    colours = {HOSTILE: "#000000"}
    made = [
        charts.quadrants(rows),
        charts.intervals(rows, "category", colours),
        charts.beyond_luck([forgetting_row(category=HOSTILE)] if rows else []),
        charts.parts(rows, "category", colours),
        charts.grid(rows, "what", "category", "value", "title"),
        charts.trend(rows, [{"what": HOSTILE, "slope": 1.0, "intercept": 0.0}] if rows else [], "what", colours, "x"),
        charts.sequence(rows, x="x", y="y", colour="what", x_title="x"),
    ]
    for chart in made:
        svg, _ = drawn(chart)
        assert "<script" not in svg


def test_a_trend_draws_the_fitted_line_and_no_other():
    """From 10 to 1000 on y = 1 + 2 log10 x: 3 and 7 at its ends; without a slope no line; the axis counts distinct sizes."""
    points = [{"x": x, "y": 0.0, "what": what, "pair_id": "p"} for what in "ab" for x in (10, 10, 1000)]
    fits = [{"what": "a", "slope": 2.0, "intercept": 1.0}, {"what": "b", "slope": None, "intercept": None}]
    spec = charts.trend(points, fits, "what", {"a": "#000000", "b": "#111111"}, "parameters").to_dict()
    drawn = list(spec["datasets"].values()) if "datasets" in spec else [layer["data"]["values"] for layer in spec["layer"]]
    assert [{"what": "a", "x": 10, "y": 3.0}, {"what": "a", "x": 1000, "y": 7.0}] in drawn
    assert "parameters (2 distinct)" in str(spec)


def test_a_grid_keeps_order_and_leaves_unknown_cells_empty():
    """Rows and columns as they first come, also a row without any value; what is not known is not written."""
    rows = [{"x": x, "y": y, "n": n} for y, *ns in (("late", 3, None), ("early", None, None)) for x, n in zip(("b", "a"), ns, strict=True)]
    _, texts = drawn(charts.grid(rows, "x", "y", "n", "items", ".3~g"))
    assert [text for text in texts if text in ("late", "early", "a", "b", "null", "NaN")] == ["b", "a", "late", "early"]
    assert [text for text in texts if text == "3"] == ["3", "3"]  # its cell, and the end of the colours' scale


def luminance(colour):
    """Relative luminance of WCAG 2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colours", [charts.TRANSITIONS, charts.PARTS], ids=["transitions", "parts"])
def test_told_apart_in_grey(colours):
    """Neighbours in lightness differ by 1.25 : 1 at least, which neither grey nor colour blindness takes away; ink is 4.5 : 1 on either page."""
    light = sorted(luminance(colour) + 0.05 for colour in colours.values())
    assert all(high / low > 1.25 for low, high in pairwise(light))
    ink = luminance(charts.INK) + 0.05
    assert 1.05 / ink > 4.5 and ink / 0.05 > 4.5
