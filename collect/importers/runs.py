"""From one open log to runs in a staging folder: which metric says right, whose runs they are, what they are called."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catalog.errors import CatalogError
from catalog.identity import itemset_id_of, protocol_id_of, run_id_of
from collect.cards import BEHAVIOURAL
from collect.importers import About, Log, NotALog, Told
from collect.importers.names import model_row, task_id_of
from collect.importers.spool import OUTCOMES, Series, Spool
from collect.importers.values import CORRECTNESS, Metric
from collect.store import run_file, write_stream

DETERMINISTIC = ("scored", "greedy")


@dataclass(frozen=True)
class Run:
    """One run read from a log, in the staging folder."""

    run_id: int
    model_id: str
    task_id: str
    setting: str
    replicate: int
    itemset_id: str
    n_items: int
    n_measured: int
    n_correct: int
    decoding: str | None = None


@dataclass(frozen=True)
class Group:
    """The rows of one model on one task in a log, placed in the spool; what is known of them; where runs go."""

    spool: Spool
    log: Log
    about: About
    told: Told
    staging: Path


def group_runs(group: Group, number: int) -> Iterator[Run]:
    """Write the runs of a group, the spool's `number`-th: one a metric and replicate.

    Raises:
        CatalogError: Nothing in it says right or wrong, or its model or task has no name.
    """
    spool, log, told = group.spool, group.log, group.told
    model, task_id = named_model(group), task_id_of(told.task) if told.task else group.about.task_id
    if not task_id:
        raise CatalogError(f"{log.path.name} does not name its task: give it with --task NAME")
    spool.place(number)
    if repeated := spool.unnumbered(number):
        log.notes.append(f"{repeated} rows repeat an item: counted as items of their own; --column replicate=NAME numbers repeats")
    itemset = {
        **group.about.itemset,
        "itemset_id": itemset_id_of(task_id, spool.sample_keys()),
        "task_id": task_id,
        "n_items": spool.n_items(),
    }
    write_samples(group, itemset["itemset_id"])
    for series, bound in chosen(spool.series_of(number), log, told):
        protocol = protocol_row(group.about, series, bound)
        check_claims(group, series)
        for replicate in replicates(group, series, protocol):
            card = card_of(group, model, itemset, protocol, replicate + (told.replicate or 0))
            yield write_run(group, series, bound, replicate, card)


def named_model(group: Group) -> dict[str, Any]:
    """The model: as told, as logged, or as the folder is called, which is said."""
    if group.told.model:
        return model_row(group.told.model)
    if "model_id" in group.about.model:
        return group.about.model
    if guessed := group.about.model.get("name_guessed"):
        row = model_row(guessed)
        group.log.notes.append(f"the log names no model; from its folder: {row['model_id']} (--model says it better)")
        return row
    raise CatalogError(f"{group.log.path.name} does not name its model: give it with --model org/name@revision")


def chosen(found: list[Series], log: Log, told: Told) -> list[tuple[Series, Metric | None]]:
    """The metrics to import: those asked for, else those that say right or wrong; never averaged, never rounded.

    Raises:
        NotALog: No metric is named as one that says right or wrong.
        CatalogError: None of them is 0 or 1, or one asked for is missing or is neither and has no threshold.
    """
    if told.metrics:
        return asked_for(found, log, told)
    candidates = [s for s in found if CORRECTNESS.search(s.metric) or log.every_metric]
    if found and not candidates:
        names = ", ".join(s.metric for s in found)
        raise NotALog(f"no metric whose name says right or wrong ({names}): choose one with --metric NAME or --metric 'NAME>=X'")
    taken = [s for s in candidates if s.binary(None)]
    if not taken:
        why = ", ".join(f"{s.metric} ({s.why_not()})" for s in found) or "no metric, every answer is unscored"
        raise CatalogError(f"{log.path.name}: nothing says right or wrong: {why}. Choose with --metric NAME or --metric 'NAME>=X'")
    if left := [f"{s.metric} ({s.kind()})" if not s.binary(None) else s.metric for s in found if s not in taken]:
        log.notes.append(f"left out: {', '.join(left)}")
    return [(s, None) for s in taken]


def asked_for(found: list[Series], log: Log, told: Told) -> list[tuple[Series, Metric | None]]:
    """The metrics of --metric."""
    if missing := [m.name for m in told.metrics if not any(m.fits(s.metric) for s in found)]:
        raise CatalogError(f"{log.path.name} has no metric {', '.join(missing)}; it has {', '.join(s.metric for s in found) or 'none'}")
    wanted: list[tuple[Series, Metric | None]] = [(s, m) for s in found for m in told.metrics if m.fits(s.metric)]
    if bad := [f"{s.metric} ({s.why_not()})" for s, m in wanted if not s.binary(m)]:
        raise CatalogError(
            f"{log.path.name}: {', '.join(bad)} is neither right nor wrong: give a threshold, as in --metric '{bad[0].split()[0]}>=0.5'"
        )
    return wanted


def protocol_row(about: About, series: Series, bound: Metric | None) -> dict[str, Any]:
    """The protocol of a series; its setting is the metric with its filter and threshold."""
    if "setting" in about.protocol:  # our own export
        return about.protocol
    name, _, variant = series.metric.partition(",")
    limit = f"{bound.sign}{bound.bound:g}" if bound and bound.sign else ""
    row = {"setting": series.metric + limit, "scoring": name + limit, "extraction": variant or None, **about.protocol}
    return {"protocol_id": protocol_id_of(row), **row}


def replicates(group: Group, series: Series, protocol: dict[str, Any]) -> list[int]:
    """The replicates of a series. Rows that only say something again are no replicate.

    Raises:
        CatalogError: A replicate is told of something that was not sampled, or repeated rows contradict each other.
    """
    fixed = protocol.get("decoding") in DETERMINISTIC
    if fixed and group.told.replicate:
        raise CatalogError(
            f"--replicate {group.told.replicate}: nothing was sampled ({protocol['decoding']}), another replicate would say the same"
        )
    if (fixed or group.spool.uneven(series)) and (again := group.spool.drop_repeats(series)):
        group.log.notes.append(f"{series.metric}: {again} rows repeat an answer and were left out")
    found, n = group.spool.replicates(series), group.spool.n_items()
    if group.log.format == "every-eval-ever" and len(found) > 1 and one_score_an_item(group, series):
        group.log.notes.append(f"{series.metric}: all {len(found)} epochs carry one score an item (reduced by the converter): taken once")
        return [0]
    if partly := [f"{r} has {held}" for r, held in found.items() if held < n]:
        group.log.notes.append(f"{series.metric}: of {n} items, replicate {', '.join(partly)}; the others are not measured")
    return list(found)


def one_score_an_item(group: Group, series: Series) -> bool:
    """Whether the replicates of a series say the same of every item."""
    query = (
        "SELECT count(*) FROM (SELECT key, name FROM placed WHERE series = $1 GROUP BY ALL HAVING count(DISTINCT coalesce(value, -1)) > 1)"
    )
    return not group.spool.con.execute(query, [series.number]).fetchall()[0][0]


def check_claims(group: Group, series: Series) -> None:
    """Hold the rows against what the harness printed about them."""
    n_claimed, mean_claimed = group.about.claims.get(series.metric, (None, None))
    query = "SELECT count(*), avg(value) FROM placed WHERE series = $1 AND replicate = 0"
    n, mean = group.spool.con.execute(query, [series.number]).fetchall()[0]
    if n_claimed is not None and n_claimed != n:
        group.log.notes.append(f"{series.metric}: the results file speaks of {n_claimed} items, the log holds {n}")
    elif isinstance(mean_claimed, int | float) and mean is not None and abs(mean - mean_claimed) > 1e-6:
        group.log.notes.append(f"{series.metric}: the results file says {mean_claimed:.4f}, the rows give {mean:.4f}")


def card_of(group: Group, model: dict[str, Any], itemset: dict[str, Any], protocol: dict[str, Any], replicate: int) -> dict[str, Any]:
    """The rows a run adds to the small tables."""
    task_id = str(itemset["task_id"])
    benchmark, subset = task_id.split("/", 1)
    run_id = run_id_of(model["model_id"], itemset["itemset_id"], protocol["protocol_id"], replicate)
    run = {"run_id": run_id, "model_id": model["model_id"], "itemset_id": itemset["itemset_id"], "protocol_id": protocol["protocol_id"],
           "replicate": replicate, "source": f"{group.log.format}: {group.log.path.name}", **group.about.run}  # fmt: skip
    return {
        "models": [model],
        "tasks": [
            {"task_id": task_id, "benchmark": benchmark, "subset": subset, "behavioural": task_id in BEHAVIOURAL, **group.about.task}
        ],
        "categories": group.about.categories,
        "itemsets": [itemset],
        "protocols": [protocol],
        "runs": [run],
    }


def write_samples(group: Group, itemset_id: str) -> None:
    """The items of the placed group as a file of `samples`."""
    query = "SELECT $1 AS itemset_id, item, sample_key, answer, n_options, gold, source_id FROM items ORDER BY item"
    reader = group.spool.con.sql(query, params=[itemset_id]).to_arrow_reader(122_880)
    write_stream(group.staging / "samples" / f"{itemset_id}.parquet", "samples", reader)


def write_run(group: Group, series: Series, bound: Metric | None, replicate: int, card: dict[str, Any]) -> Run:
    """Write one run into the staging folder."""
    con, run = group.spool.con, card["runs"][0]
    right = f"p.value {bound.sign} {bound.bound!r}" if bound and bound.sign else "p.value = 1"
    con.execute(f"CREATE OR REPLACE TABLE answers AS {OUTCOMES.format(right=right)}", {"series": series.number, "replicate": replicate})
    queries = {
        "option_scores": "SELECT $1::BIGINT AS run_id, item, scores FROM answers WHERE scores IS NOT NULL ORDER BY item",
        "generations": "SELECT $1::BIGINT AS run_id, item, text FROM answers WHERE text IS NOT NULL ORDER BY item",
        "outcomes": "SELECT $1::BIGINT AS run_id, item, correct, predicted, status, reason, n_tokens FROM answers ORDER BY item",
    }
    n, n_measured, n_correct, n_scores, n_texts, n_lost = con.execute(
        "SELECT count(*), count(correct), count(*) FILTER (correct), count(scores), count(text), "
        "count(*) FILTER (had_prediction AND predicted IS NULL AND correct IS NOT NULL) FROM answers"
    ).fetchall()[0]
    if n_lost:
        group.log.notes.append(f"{series.metric}: on {n_lost} items the predicted option contradicts the grade; it is left unknown there")
    wanted = {"option_scores": n_scores, "generations": n_texts and group.told.keep_text, "outcomes": True}
    for table, query in queries.items():  # outcomes last: they make the run whole
        if wanted[table]:
            reader = con.sql(query, params=[run["run_id"]]).to_arrow_reader(122_880)
            path = run_file(group.staging, table, run["model_id"], run["run_id"])
            write_stream(path, table, reader, card if table == "outcomes" else None)
    return Run(run["run_id"], run["model_id"], card["itemsets"][0]["task_id"], card["protocols"][0]["setting"], run["replicate"],
               run["itemset_id"], n, n_measured, n_correct, card["protocols"][0].get("decoding"))  # fmt: skip
