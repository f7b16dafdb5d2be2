"""lighteval details: details_<task>|<shots>_<time>.parquet, structs since 0.11, flat columns before.

Null-typed columns and lists of null are what Arrow writes where a file has no value; they read as None. The prompt as
logged (0.11 on: without template and shots; before: with both) with options and gold is the item's identity.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from catalog.errors import CatalogError
from catalog.identity import prompt_key
from collect.importers import About, Log, Row, Tick, Told
from collect.importers.names import model_row, source_name, task_id_of
from collect.importers.reading import json_of
from collect.importers.values import best, listed, option_named, short_hash, whole

NAMED = re.compile(r"details_(?P<task>.+?)_(?P<time>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d[.\d]*)\.parquet")
STRUCTS = ["doc.query", "doc.choices", "doc.gold_index", "doc.id", "metric", "model_response.text",
           "model_response.text_post_processed", "model_response.logprobs", "model_response.output_tokens"]  # fmt: skip
FLAT = ["full_prompt", "choices", "gold_index", "gold", "predictions", "metrics"]


def fits(columns: Sequence[str]) -> bool:
    """Whether a Parquet file's columns are those of lighteval's details."""
    return {"doc", "metric"} <= set(columns) or {"full_prompt", "metrics"} <= set(columns)


def open_log(path: Path, _told: Told, tick: Tick) -> Log:
    """Rows of one details file."""
    named = NAMED.fullmatch(path.name)
    task = named["task"] if named else path.stem.removeprefix("details_")
    results = results_of(path, named["time"] if named else "")
    seen: dict[str, bool] = {}
    log = Log("lighteval", path, iter(()), lambda _model, _task: about(path, results, task, seen))

    def rows() -> Iterator[Row]:
        file = pq.ParquetFile(path)
        structs = "doc" in file.schema_arrow.names
        if not file.metadata.num_rows:
            raise CatalogError(f"{path.name} is empty: it holds no row")
        n = 0
        for batch in file.iter_batches(batch_size=256, columns=STRUCTS if structs else FLAT):
            tick(path.stat().st_size * len(batch) // file.metadata.num_rows)
            for raw in batch.to_pylist():
                row = struct_row(raw, results, task) if structs else flat_row(raw)
                row.where, n = f"{path.name}, row {n}", n + 1
                seen["scored"] = bool(row.scores) or seen.get("scored", False)
                yield row

    log.rows = rows()
    return log


def struct_row(raw: Mapping[str, Any], results: Mapping[str, Any], task: str) -> Row:
    """A row since 0.11: doc, metric, model_response."""
    doc, response = raw["doc"], raw.get("model_response") or {}
    options, gold = [str(c) for c in doc.get("choices") or []], indices(doc.get("gold_index"))
    text = next(iter(response.get("text_post_processed") or response.get("text") or []), None)
    row = graded(str(doc["query"]), options, gold, dict(raw["metric"] or {}), text)
    row.source_id, row.position = doc.get("id"), whole(doc.get("id"))
    lls = response.get("logprobs") or []
    if row.n_options and len(lls) == row.n_options and None not in lls:
        spaces = "ignore_first_space=True" in str(mapping(mapping(results.get("config_tasks")).get(task)).get("metrics"))
        lengths = [max(len(o.removeprefix(" ") if spaces else o), 1) for o in options]
        scores: dict[str, Sequence[float]] = {"acc": lls, "acc_norm": [ll / n for ll, n in zip(lls, lengths, strict=True)]}
        row.scores = {name: found for name, found in scores.items() if name in row.values}
        row.predicted = {name: at for name, found in row.scores.items() if (at := best(found)) is not None}
        row.text = None
    else:
        row.n_tokens = sum(map(len, (response.get("output_tokens") or [])[:1])) or None
    return row


def flat_row(raw: Mapping[str, Any]) -> Row:
    """A row before 0.11: full_prompt, choices, gold_index, predictions, metrics."""
    options, gold = texts(raw.get("choices")), indices(listed(raw.get("gold_index")))
    if not gold:
        options, gold = [], []
    predictions = texts(raw.get("predictions"))
    metrics = raw["metrics"] if isinstance(raw["metrics"], dict) else ast.literal_eval(str(raw["metrics"]))
    row = graded(str(raw["full_prompt"]), options, gold, metrics, predictions[0] if predictions else None)
    if not row.gold:
        row.gold = texts(raw.get("gold")) or None
    return row


def graded(prompt: str, options: list[str], gold: list[int], values: dict[str, Any], text: str | None) -> Row:
    """A row whose item is a choice if it lists two options or more and not all of them are accepted."""
    row = Row("", prompt_key(prompt, options, gold), {k: v for k, v in values.items() if v is not None}, text=text)
    inside = [g for g in gold if 0 <= g < len(options)]
    if len(options) >= 2 and inside and len(set(inside)) < len(options):
        row.answer, row.n_options = "choice" if len(set(inside)) == 1 else "multi", len(options)
        row.gold = [str(g) for g in sorted(set(inside))]
        if (answered := option_named(text, options, index=False)) is not None:
            row.predicted = dict.fromkeys(row.values, answered)
    else:
        row.gold = [options[g] for g in inside] or None
    return row


def indices(gold: Any) -> list[int]:
    """gold_index, logged as a number or a list of them."""
    return [g for value in (gold if isinstance(gold, list) else [gold]) if (g := whole(value)) is not None]


def texts(value: Any) -> list[str]:
    """A list of texts, which some versions logged as its JSON or Python text."""
    found = listed(value)
    return [str(v) for v in found] if isinstance(found, list) else [] if found is None else [str(found)]


def mapping(value: Any) -> Mapping[str, Any]:
    """A part of a results file, which older versions wrote as the text of a Python object or left out."""
    return value if isinstance(value, dict) else {}


def results_of(path: Path, time: str) -> dict[str, Any]:
    """results_<time>.json beside the details, or in the results/ tree beside details/."""
    for folder in list(path.parents)[:5]:
        found = [folder / f"results_{time}.json", *folder.glob(f"results/**/results_{time}.json")]
        if results := next((json_of(p) for p in found if p.exists()), {}):
            return results
    return {}


def about(path: Path, results: Mapping[str, Any], task: str, seen: Mapping[str, bool]) -> About:
    """Model, protocol and origin of a details file."""
    general = results.get("config_general", {})
    config = mapping(general.get("model_config"))
    parameters = mapping(config.get("generation_parameters"))
    named = NAMED.fullmatch(path.name)
    time = datetime.strptime(named["time"][:19], "%Y-%m-%dT%H-%M-%S").replace(tzinfo=UTC) if named else None
    shots = whole(task.rsplit("|", 1)[-1]) if "|" in task else None
    tasks = mapping(results.get("config_tasks"))
    settings = mapping(tasks.get(task) or tasks.get(task.rsplit("|", 1)[0]))
    protocol: dict[str, Any] = {
        "prompt_style": task, "shots": shots,
        "dtype": str(config.get("dtype") or general.get("model_dtype") or "").removeprefix("torch.") or None,
        "details": json.dumps({"harness": "lighteval", "prompt": settings.get("prompt_function"),
                               "system": short_hash(config.get("system_prompt"))}),
        "decoding": "scored" if seen.get("scored") else "sampled" if (parameters.get("temperature") or 0) > 0 else "greedy",
    }  # fmt: skip
    if not seen.get("scored"):
        protocol |= {"temperature": parameters.get("temperature"), "top_p": parameters.get("top_p"),
                     "max_new_tokens": whole(parameters.get("max_new_tokens") or settings.get("generation_size"))}  # fmt: skip
    printed = (results.get("results") or {}).get(task) or {}
    return About(
        model=model_of(path, general),
        task_id=task_id_of(task),
        protocol=protocol,
        run={"engine": "lighteval", "rng_seed": parameters.get("seed"),
             "collected_at": time.strftime("%Y-%m-%d %H:%M:%S") if time else None},
        itemset={"source": source_name(settings.get("hf_repo")), "split": next(iter(settings.get("evaluation_splits") or []), None)},
        claims={name: (None, value) for name, value in printed.items() if not name.endswith("_stderr")},
    )  # fmt: skip


def model_of(path: Path, general: Mapping[str, Any]) -> dict[str, Any]:
    """The model as the results name it, else by the folders between details/ and the time."""
    config = mapping(general.get("model_config"))
    name = config.get("model_name") or general.get("model_name")
    if name:
        return model_row(str(name), general.get("model_sha") or config.get("revision"))
    parts = path.resolve().parts
    if "details" in parts:
        between = (
            parts[parts.index("details") + 1 : -2] if re.match(r"\d{4}-", path.parent.name) else parts[parts.index("details") + 1 : -1]
        )
        if between:
            return {"name_guessed": "/".join(between[-2:]).replace("___", "/").replace("__", "/")}
    return {"name_guessed": path.parent.name.replace("__", "/")}
