"""What a report says: numbers in words, charts with the tables behind them, items, assumptions, queries."""

import re
from typing import TYPE_CHECKING

from catalog import charts
from catalog.compare import COLUMNS, NOTES, cell, percent
from catalog.report_data import QUERIES, Pair, Row, as_typed
from catalog.report_page import code, escaped, figure, folded, table

if TYPE_CHECKING:
    from catalog.items import Item

    Texts = dict[tuple[str, str], Item]  # by task and sample_key

SHOWN_WARNINGS = 8
NOISE, UNREAD, REST = charts.PARTS
WRONG = "wrong, noise unknown"
UNCHECKED_COLOURS = {UNREAD: charts.PARTS[UNREAD], WRONG: charts.PARTS[REST]}
PARTS_CHECKED = (
    "Parts of the forgotten share. Own noise: what both models forget against their own replicates. Not readable: the answer after was "
    "there but could not be read. The two can overlap, so the rest errs low; left of 0 it means: less was forgotten than noise alone shows."
)
PARTS_UNCHECKED = (
    "Parts of the forgotten share. Not readable: the answer after was there but could not be read. With one replicate, how much is noise "
    "is not known."
)
MOVED = (
    "McNemar's exact test of <em>net</em> change in {tasks} (first replicate), q by Benjamini and Hochberg over them. "
    "A task that loses as much as it gains does not show here, however much it lost."
)
NET = {"net change": "#3f87bb"}  # 3 : 1 at least on a light and on a dark page
LARGEST = 60  # rows of a chart of tasks


def share(value: float | None) -> str:
    """A share in percent; a zero has no sign."""
    return percent(value).replace("-0.0", "0.0") if value is not None and abs(value) < 0.0005 else percent(value)


def interval(row: Row, name: str, sign: str = "%") -> str:
    """'24.2% [20.1, 28.7]'."""
    return f"{share(row[name])}{sign} [{share(row[f'{name}_lo'])}, {share(row[f'{name}_hi'])}]"


def plural(n: int, noun: str, many: str | None = None) -> str:
    """'1 task', '2 tasks'."""
    return f"{n} {noun if n == 1 else many or noun + 's'}"


def short(model_id: str) -> str:
    """A model's name without organisation and revision."""
    return model_id.split("@", 1)[0].rsplit("/", 1)[-1] or model_id


def named(categories: list[str], of: int) -> str:
    """Which categories a remark is about, where they are few enough to be read."""
    if len(categories) == of > 1:
        return "all categories"
    return escaped(", ".join(categories)) if len(categories) <= 6 else f"{len(categories)} of {of} categories"


def warnings(pair: Pair) -> str:
    """What must be known before the numbers."""
    if not pair.warnings:
        return '<p class="note">Both models were asked the same items in the same way.</p>'
    lines = [f"<li>{escaped(line)}</li>" for line in pair.warnings]
    first, rest = lines[:SHOWN_WARNINGS], lines[SHOWN_WARNINGS:]
    more = folded(f"{len(rest)} more", f"<ul>{''.join(rest)}</ul>") if rest else ""
    return f'<div class="warn"><p><strong>Before you read on</strong></p><ul>{"".join(first)}</ul>{more}</div>'


def in_words(row: Row) -> str:
    """One setting's headline as sentences: raw, then beyond noise or said to be unchecked."""
    return f"<p>{raw_words(row)} {beyond_words(row)}</p>"


def raw_words(row: Row) -> str:
    """Items lost and gained as they were counted."""
    mean = f" (mean of {plural(row['n_categories'], 'category', 'categories')})" if row["n_categories"] > 1 else ""
    asked = f"{plural(row['n_items'], 'item')} in {plural(row['n_tasks'], 'task')}, {plural(row['n_replicates'], 'replicate')}"
    return (
        f"Of {asked}, it lost <strong>{interval(row, 'f')}</strong> and gained <strong>{interval(row, 'bt')}</strong>{mean}; "
        f"accuracy went from {share(row['a_pre'])}% to {share(row['a_post'])}%."
    )


def beyond_words(row: Row) -> str:
    """What is left when luck, and where it is known noise, is taken off."""
    if row["lost"] is None:
        return "Beyond luck: not known for these items (several right answers, or options unknown)."
    numbers = f"lost <strong>{interval(row, 'lost', '')}</strong>, gained <strong>{interval(row, 'gained', '')}</strong> points"
    nothing = [word for word, name in (("loss", "lost"), ("gain", "gained")) if row[f"{name}_lo"] <= 0]
    reaches = "its interval reaches" if len(nothing) == 1 else "their intervals reach"
    may = f" The {' and the '.join(nothing)} may be nothing: {reaches} 0." if nothing else ""
    if row["metric"] == "f_known":
        why = "no item has replicates of both" if row["n_replicates"] > 1 else "with one replicate the models' own noise is not known"
        return f"<strong>Unchecked</strong>: {why}. Beyond guessing: {numbers}, which reads partial knowledge as change.{may}"
    part = ""
    if row["n_beyond"] < row["n_items"]:
        part = f", on the {row['n_beyond']} of {row['n_items']} items where that can be told (3 options or more, replicates of both)"
    return f"Beyond both models' own noise{part}: {numbers}.{may}"


def headline(pair: Pair) -> str:
    """Every setting in words."""
    blocks = []
    for at, setting in enumerate(pair.settings):
        rows = pair.of("headline", setting)
        words = in_words(rows[0]) if rows else f"<p>No task here is in a category of the map {code(pair.map)}: no mean is taken.</p>"
        blocks.append(f'<h3><a href="#s{at}">{escaped(setting)}</a></h3>{words}')
    return "".join(blocks)


def quadrants(pair: Pair, setting: str, chart_id: str) -> str:
    """Kept, forgotten, gained, never by category."""
    rows = pair.of("categories", setting)
    kinds = ("n11", "n10", "n01", "n00")
    behind = table(["category", "items", *(f"{name} %" for name in charts.TRANSITIONS)],
                   [[r["category"], r["n_items"], *(share(r[k] / r["n_items"]) for k in kinds)] for r in rows])  # fmt: skip
    caption = "Forgotten and gained cancel in accuracy: look at both. A click on a category finds it in the other charts."
    return figure(chart_id, charts.pickable(charts.quadrants(rows), "category"), "category", caption, behind)


def categories(pair: Pair, setting: str, chart_id: str) -> str:
    """Forgotten and gained beyond luck, with intervals, raw ticks and ceilings."""
    rows = pair.of("categories", setting)
    columns = [*COLUMNS, "could lose", "could gain"]
    behind = table(columns, [[*(cell(r, source) for source in COLUMNS.values()), share(r["f_max"]), share(r["bt_max"])] for r in rows])
    caption = (
        "Beyond luck. Dot and line: value and 95% interval over items. Tick: the raw share. Pale bar: the ceiling, "
        "accuracy above chance before (what there was to lose) and after (what can have been gained)."
    )
    if sparse := [row["category"] for row in rows if row["sparse"]]:
        caption += f" Few items or flips, not to be ranked: {named(sparse, len(rows))}."
    if unchecked := [row["category"] for row in rows if str(row["knowledge_method"]).endswith("unchecked")]:
        caption += f" Unchecked against own noise: {named(unchecked, len(rows))}."
    if unknown := [row["category"] for row in rows if row["f_knowledge"] is None]:
        caption += f" Not known beyond luck, tick only: {named(unknown, len(rows))}."
    return figure(chart_id, charts.pickable(charts.beyond_luck(rows), "category"), "category", caption, behind)


def parts(pair: Pair, setting: str, chart_id: str) -> str:
    """F in three parts: noise, format, the rest."""
    rows = pair.of("categories", setting)
    checked = any(row["noise"] is not None for row in rows)
    names = {"noise": NOISE, "unread": UNREAD, "rest": REST} if checked else {"unread": UNREAD, "rest": WRONG}
    values = [
        {"category": row["category"], "part": part, "rank": rank, "value": 100 * row[column]}
        for row in rows for rank, (column, part) in enumerate(names.items()) if row[column] is not None
    ]  # fmt: skip
    columns = ["category", "forgotten %", NOISE, UNREAD, REST if checked else WRONG]
    behind = table(columns, [[r["category"], *(share(r[name]) for name in ("f", "noise", "unread", "rest"))] for r in rows])
    caption = PARTS_CHECKED if checked else PARTS_UNCHECKED
    if checked and (unknown := [row["category"] for row in rows if row["noise"] is None]):
        caption += f" Noise not known for every item: {named(unknown, len(rows))}."
    spec = charts.pickable(charts.parts(values, "category", charts.PARTS if checked else UNCHECKED_COLOURS), "category")
    return figure(chart_id, spec, "category", caption, behind)


def tests(pair: Pair, setting: str, chart_id: str) -> str:
    """Tasks whose accuracy moved, after Benjamini-Hochberg; by q, then by name."""
    tested = pair.of("tests", setting)
    n_tests = tested[0]["n_tests"] if tested else 0
    rows = [row for row in tested if row["mcnemar_q"] is not None and row["mcnemar_q"] < 0.05]
    about = MOVED.format(tasks=plural(n_tests, "task"))
    if not rows:
        return f'<p class="note">{about}</p><p>No task moved with q below .05.</p>'
    points = charts.percent(rows[:LARGEST], "net", "net_lo", "net_hi")
    drawn = [{"task": r["task_id"], "what": "net change", "value": r["net"], "low": r["net_lo"], "high": r["net_hi"]} for r in points]
    spec = charts.pickable(charts.intervals(drawn, "task", NET, "percent of items, gained less lost"), "task")
    cells = [
        [
            r["task_id"] + "*" * r["sparse"],
            r["n"],
            r["n10"],
            r["n01"],
            interval(r, "net", ""),
            f"{r['mcnemar_p']:.2g}",
            f"{r['mcnemar_q']:.2g}",
        ]
        for r in rows
    ]
    behind = table(["task", "items", "forgotten", "gained", "net [95%]", "p", "q"], cells)
    drawn_of = f" The chart has the first {LARGEST}." if len(rows) > LARGEST else ""
    caption = f"{about} <strong>{len(rows)} of {n_tests}</strong> have q below .05, ordered by q.{drawn_of}"
    return figure(chart_id, spec, "task", caption, behind)


def options(item: "Item", predicted: int | None) -> str:
    """An item's options: the right one, and the one most often given after."""
    lines = []
    for at, choice in enumerate(item.choices):
        said = ["right"] * (at in item.gold) + ["after"] * (at == predicted)
        css = ' class="gold"' if at in item.gold else ""
        tag = f' <span class="tag">{", ".join(said)}</span>' if said else ""
        lines.append(f"<li{css}>{escaped(choice)}{tag}</li>")
    if not item.choices:
        lines = [f'<li class="gold">{escaped(", ".join(map(str, item.gold)))} <span class="tag">right</span></li>']
    return f"<ol>{''.join(lines)}</ol>"


def forgotten(pair: Pair, setting: str, texts: "Texts", limit: int) -> str:
    """Forgotten items by key, first those forgotten in most replicates; text where the user's own files have it."""
    rows = pair.of("forgotten", setting)
    if not rows:
        return "<p>No item was forgotten.</p>"
    known = [row for row in rows if (row["task_id"], row["sample_key"]) in texts]
    several = max(row["n"] for row in rows) > 1
    said = (
        f"{plural(len(rows), 'item')} forgotten"
        + several * " in at least one replicate; what is forgotten in all of several is less likely noise"
    )
    said += "."
    if texts:
        said += f" The text of {len(known)} is in the given files."
    if known:
        entries = "".join(entry(row, texts[row["task_id"], row["sample_key"]]) for row in known[:limit])
        listed = folded(f"The first {len(known[:limit])} with text", f'<ul class="items">{entries}</ul>')
    else:
        lines = [[r["task_id"], r["sample_key"], f"{r['lost']} of {r['n']}", r["predicted"]] for r in rows[:limit]]
        listed = folded(f"The first {len(lines)} by key", table(["task", "sample_key", "forgotten in", "option after"], lines, left=2))
        if not texts:
            listed += '<p class="note">A catalog holds no benchmark text: <code>--items FILES</code> fills it in from your own.</p>'
    return f"<p>{said}</p>{listed}"


def entry(row: Row, item: "Item") -> str:
    """One forgotten item with its text."""
    return f"""<li>{code(row["task_id"])} {escaped(item.source_id)}, forgotten in {row["lost"]} of {row["n"]}
<br><span class="tag">{escaped(row["sample_key"])}</span><div class="question">{escaped(item.question)}</div>
{options(item, row["predicted"])}</li>"""


def section(pair: Pair, setting: str, at: int, texts: "Texts", limit: int) -> str:
    """All about one setting."""
    by_category = f"""<h3>What became of the items</h3>{quadrants(pair, setting, f"c{at}q")}
<h3>Forgotten and gained, by category</h3>{categories(pair, setting, f"c{at}b")}
<h3>Noise, format, and the rest</h3>{parts(pair, setting, f"c{at}p")}"""
    if not pair.of("categories", setting):
        by_category = "<p>No item of this setting was measured on both sides: nothing to compare.</p>"
    return f"""<section><h2 id="s{at}">{escaped(setting)}</h2>{by_category}
<h3>Tasks that moved</h3>{tests(pair, setting, f"c{at}t")}
<h3>Forgotten items</h3>{forgotten(pair, setting, texts, limit)}</section>"""


def unwrapped(notes: str) -> str:
    """The notes of a terminal, without the line breaks that are only its width."""
    return re.sub(r"\n(?=[a-z])(?!net p)", " ", notes)


def assumptions(pair: Pair) -> str:
    """What the numbers assume, and how to ask for them."""
    queries = "".join(f"<h3>{escaped(name)}</h3><pre>{escaped(as_typed(name, pair))}</pre>" for name in QUERIES)
    return f"""<h2>What the numbers assume</h2><p class="note notes">{escaped(unwrapped(NOTES))}</p>
<h2>The queries</h2><p>Every number on this page, for <code>catalog query</code> or <code>con.sql</code>:</p>
{folded("SQL", queries, paper=False)}"""


def body(pair: Pair, texts: "Texts", limit: int) -> str:
    """A pair's page below its frame."""
    sections = "".join(section(pair, setting, at, texts, limit) for at, setting in enumerate(pair.settings))
    return f"""<h1>What did it forget, what did it gain?</h1>
<dl><dt>before</dt><dd>{code(pair.before)}</dd><dt>after</dt><dd>{code(pair.after)}</dd>
<dt>categories</dt><dd>{escaped(pair.map)}</dd></dl>
{warnings(pair)}{headline(pair)}{sections}{assumptions(pair)}"""
