"""`catalog compare`: one block a setting, one row a category; what was not paired is said first."""

import sys
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
from rich.console import Console

from catalog.errors import CatalogError
from catalog.output import print_table, records

if TYPE_CHECKING:
    from catalog.items import Item

Cell = str | tuple[str, str, str]
COLUMNS: dict[str, Cell] = {
    "category": "category", "n": "n_items", "before": "a_pre", "after": "a_post", "F": "f", "BT": "bt", "F_true": "f_true",
    "lost [95%]": ("f_knowledge", "f_knowledge_lo", "f_knowledge_hi"),
    "gained [95%]": ("bt_knowledge", "bt_knowledge_lo", "bt_knowledge_hi"),
    "net p": "mcnemar_p_pooled", "method": "knowledge_method",
}  # fmt: skip
TOTALS = {"F": "f", "BT": "bt", "F_true": "f_true", "f_known": "f_known"}
NOTES = """\
Percent of items; a category is the mean of its tasks, then of replicates.
F: right before, wrong after. BT: the reverse. F_true: F less luck as arXiv 2510.17776 counts it; assumes that errors
before and after are independent. lost, gained: F and BT beyond luck, with 95% intervals over items. Methods:
  exch-x  f_exch less both models' own noise: 0 in expectation when nothing changed; free-x: F of free-form items, likewise
  exch?   assumes wrong options exchangeable; unchecked (one replicate): reads partial knowledge as change
  latent? assumes uniform, independent guesses; its interval ends where guesses repeat; mixed? by number of options
net p: exact McNemar of NET change, pooled over tasks, replicate 0; a large p does not mean that nothing was forgotten.
* a task with fewer than 30 items or 5 flips: shown, not to be ranked."""


def warnings_of(con: duckdb.DuckDBPyConnection, before: str, after: str) -> list[str]:
    """What a reader must know before the numbers: little overlap, items measured on one side only, tasks left out.

    Raises:
        CatalogError: Nothing of the two models can be paired; the reason is given.
    """
    query = """
        WITH counted AS (
            SELECT setting, task_id, sum(n) AS n, sum(n_unpaired_before) AS only_before, sum(n_unpaired_after) AS only_after
            FROM transition_counts_of($1, $2, ['pair']) GROUP BY ALL),
        asked AS (
            SELECT setting, task_id, max(n_common) AS n_common, max(n_before) AS n_before, max(n_after) AS n_after
            FROM run_pairs_of($1, $2) WHERE kind = 'pair' GROUP BY ALL)
        SELECT setting, task_id, n, only_before, only_after, n_common, n_before, n_after
        FROM asked LEFT JOIN counted USING (setting, task_id) ORDER BY ALL"""
    rows = con.execute(query, [before, after]).fetchall()
    if not any(n for _, _, n, *_ in rows):
        raise CatalogError(f"{before} and {after} cannot be paired: {reason_unpaired(con, before, after)}")
    found = []
    for setting, task, n, only_before, only_after, common, n_before, n_after in rows:
        if common < 0.9 * max(n_before, n_after):
            found.append(f"{setting}, {task}: only {common} items are common to the {n_before} before and the {n_after} after")
        elif (unpaired := (only_before or 0) + (only_after or 0)) > 0.1 * ((n or 0) + unpaired):
            found.append(f"{setting}, {task}: {only_before} answers measured before only, {only_after} after only, {n} on both sides")
    found += asked_differently(con, before, after)
    return found + tasks_left_out(con, before, after, {(setting, task) for setting, task, *_ in rows})


def asked_differently(con: duckdb.DuckDBPyConnection, before: str, after: str) -> list[str]:
    """In what the two sides of each setting were asked or graded differently; legitimate or not, a reader must know."""
    query = """
        SELECT setting, string_agg(
                   CASE WHEN field = 'details' THEN 'prompt text or other details'
                        ELSE concat_ws(' ', field, coalesce(before_value, 'unknown'), 'before,', coalesce(after_value, 'unknown'), 'after')
                   END,
                   '; ' ORDER BY field = 'details', field), max(n_tasks)
        FROM protocol_differences($1, $2) GROUP BY setting ORDER BY setting"""
    rows = con.execute(query, [before, after]).fetchall()
    return [f"{setting}, {n} task{'' if n == 1 else 's'}: not asked alike: {fields}" for setting, fields, n in rows]


def tasks_left_out(con: duckdb.DuckDBPyConnection, before: str, after: str, paired: set[tuple[str, str]]) -> list[str]:
    """Tasks that only one of two models was asked, or that both were asked but are not compared."""
    query = """SELECT setting, task_id, list(DISTINCT model_id), bool_or(behavioural) FROM run_facts
               WHERE model_id IN ($1, $2) GROUP BY ALL ORDER BY ALL"""
    lines = []
    for setting, task, models, behavioural in con.execute(query, [before, after]).fetchall():
        if (setting, task) in paired:
            continue
        if len(models) == 1:
            lines.append(f"{setting}, {task}: only {models[0]} was asked")
        elif behavioural:
            lines.append(f"{setting}, {task}: asks for behaviour, left out where a base model is in the pair")
        else:
            lines.append(f"{setting}, {task}: no item and replicate in common")
    return lines if len(lines) <= 12 else [*lines[:12], f"and {len(lines) - 12} more tasks are not compared"]


def reason_unpaired(con: duckdb.DuckDBPyConnection, before: str, after: str) -> str:
    """Why no run of one model has a partner among the other's."""
    query = "SELECT DISTINCT setting, task_id FROM run_facts WHERE model_id = $1"
    asked = {model: set(con.execute(query, [model]).fetchall()) for model in (before, after)}
    if asked[before] & asked[after]:
        return "; ".join(mismatches(con, before, after)[:5])
    described = [f"{model} has {', '.join(sorted(f'{t} ({s})' for s, t in found)[:5]) or 'no runs'}" for model, found in asked.items()]
    return "they share no task under one setting. " + "; ".join(described)


SHUFFLED = {
    "qog": "question, options in order or gold differ (shuffled options, another revision)",
    "doc": "the logged rows differ (shuffled options, another revision of the benchmark)",
    "prompt": "the prompts differ (another template or few-shot prefix)", "src": "the golds differ",
}  # fmt: skip


def mismatches(con: duckdb.DuckDBPyConnection, before: str, after: str) -> list[str]:
    """Per task open to both models, why no item of one is an item of the other."""
    query = """
        SELECT setting, task_id, list(scheme ORDER BY scheme) FILTER (n_before > 0), list(scheme ORDER BY scheme) FILTER (n_after > 0),
               sum(n_before), sum(n_after), sum(n_common), sum(n_same_id)
        FROM item_matches($1, $2) GROUP BY ALL HAVING sum(n_before) > 0 AND sum(n_after) > 0 ORDER BY ALL"""
    lines = []
    for setting, task, schemes_b, schemes_a, n_before, n_after, common, same_id in con.execute(query, [before, after]).fetchall():
        if common:
            why = f"{common} items in common, but no replicate, nothing measured, or a base model is asked for behaviour"
        elif not set(schemes_b) & set(schemes_a):
            kinds = f"{', '.join(schemes_b)} before and by {', '.join(schemes_a)} after"
            why = f"items known by {kinds} never match: use logs of one kind for both"
        else:
            why = f"0 items in common of {n_before} and {n_after}"
            if same_id:
                why += f": {same_id} ids are the same, but {SHUFFLED[schemes_b[0]]}"
        lines.append(f"{task} ({setting}): {why}")
    return lines


def percent(value: float | None) -> str:
    """A share as percent with one digit."""
    return "" if value is None else f"{100 * value:.1f}"


def cell(row: dict[str, Any], source: Cell) -> str:
    """One cell of a block."""
    if isinstance(source, tuple):
        middle, low, high = (row[name] for name in source)
        return "" if middle is None else f"{percent(middle)} [{percent(low)}, {percent(high)}]"
    value = row[source]
    if source == "mcnemar_p_pooled":
        return "" if value is None else f"{value:.2g}"
    if source == "knowledge_method":
        short = {"exchangeable": "exch", "free-form": "free", ", unchecked": "?", ", against itself": "-x"}
        return reduce(lambda text, pair: text.replace(*pair), short.items(), str(value or ""))
    if source == "category":
        return f"{value}{'*' if row['sparse'] else ''}"
    return percent(value) if isinstance(value, float) else str(value or "")


def forgetting_rows(con: duckdb.DuckDBPyConnection, before: str, after: str, chosen_map: str) -> list[dict[str, Any]]:
    """Rows of the macro `forgetting` for one map."""
    query = "SELECT * FROM forgetting($1, $2) WHERE map = $3 ORDER BY setting, category"
    return records(con.sql(query, params=[before, after, chosen_map]))


def print_compare(con: duckdb.DuckDBPyConnection, before: str, after: str, chosen_map: str) -> None:
    """Print a block per setting to the terminal, with the assumptions under the last one."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(f"before  {before}\nafter   {after}\nmap     {chosen_map}", highlight=False)
    settings = con.execute("SELECT DISTINCT setting FROM run_pairs_of($1, $2) WHERE kind = 'pair' ORDER BY ALL", [before, after]).fetchall()
    rows = forgetting_rows(con, before, after, chosen_map)
    totals = records(con.sql("SELECT * FROM pair_metrics_of($1, $2) WHERE map = $3", params=[before, after, chosen_map]))
    for (setting,) in settings:
        block = [row for row in rows if row["setting"] == setting]
        replicates = max((int(row["n_replicates"]) for row in block), default=0)
        title = f"\n{setting} ({replicates} replicate{'s' if replicates > 1 else ''})"
        print_table(list(COLUMNS), [[cell(row, source) for source in COLUMNS.values()] for row in block], title, console)
        for total in (t for t in totals if t["setting"] == setting):
            shown = ", ".join(f"{name} {percent(total[column])}" for name, column in TOTALS.items())
            interval = f"[{percent(total['f_known_lo'])}, {percent(total['f_known_hi'])}]"
            console.print(f"mean of {total['n_categories']} categories: {shown} {interval}", highlight=False)
    console.print("\n" + NOTES, highlight=False, style="dim")


FORGOTTEN = """
    SELECT setting, task_id, sample_key, count(*) FILTER (transition = '1->0') AS lost, count(transition) AS n,
           mode(after_predicted) FILTER (transition = '1->0') AS predicted
    FROM transitions($1, $2) GROUP BY ALL HAVING lost > 0
    ORDER BY lost / n DESC, setting, task_id, sample_key"""


def texts_of(paths: list[Path]) -> "dict[tuple[str, str], Item]":
    """The user's own items by task and sample_key: the catalog holds identities, not text.

    Raises:
        CatalogError: A file is missing, empty or not JSON.
    """
    from catalog.items import itemsets, read_items

    items, _ = read_items(paths, skip_bad=True)
    return {(s.task_id, key): item for s in itemsets(items) for item, key in zip(s.items, s.keys, strict=True)}


def print_forgotten(con: duckdb.DuckDBPyConnection, before: str, after: str, paths: list[Path], limit: int) -> None:
    """Print the text of forgotten items from the user's own files."""
    text = texts_of(paths)
    rows = con.execute(FORGOTTEN, [before, after]).fetchall()
    found = [(row, text[row[1], row[2]]) for row in rows if (row[1], row[2]) in text]
    if not found:
        raise CatalogError(none_given(len(rows), paths))
    console = Console()
    console.print(
        f"\n{len(found)} of {len(rows)} forgotten items are in the given files; the first {min(limit, len(found))}:", highlight=False
    )
    for (setting, task, _, lost, n, predicted), item in found[:limit]:
        console.print(f"\n{task} {item.source_id}, {setting}, forgotten in {lost} of {n}", style="bold", highlight=False)
        console.print(item.question, markup=False, highlight=False)
        for at, choice in enumerate(item.choices):
            mark = "gold" if at in item.gold else "after" if at == predicted else ""
            console.print(f"  {mark:5} {choice}", markup=False, highlight=False)
        if not item.choices:
            console.print(f"  gold  {', '.join(map(str, item.gold))}", markup=False, highlight=False)


def none_given(n: int, paths: list[Path]) -> str:
    """The message where the user's files hold none of the forgotten items."""
    return f"none of the {n} forgotten items is in {', '.join(map(str, paths))}: give the files the runs were collected on"
