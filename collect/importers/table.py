"""Any CSV, JSON Lines or Parquet table with one row an answer: its columns are named by the user, or name themselves."""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from catalog.errors import CatalogError
from catalog.identity import doc_key, prompt_key, qog_key, src_key
from collect.importers import About, Log, Row, Tick, Told
from collect.importers.names import model_row, task_id_of
from collect.importers.reading import records
from collect.importers.values import CORRECTNESS, at_path, gold_indices, listed, mark_of, option_named, whole

# field -> names under which tables have it; the user's --column wins
SELF_NAMED = {
    "model": ("model", "model_id", "model_name"), "revision": ("revision", "model_revision"), "task": ("task", "task_id", "task_name"),
    "id": ("id", "item_id", "sample_id", "doc_id", "question_id"), "question": ("question", "problem"), "options": ("options", "choices"),
    "gold": ("gold", "answer_index", "gold_index", "ground_truth", "reference", "correct_answer", "correct_option", "correct_index"),
    "doc": ("doc",), "prompt": ("prompt", "full_prompt"), "prediction": ("prediction", "predicted"), "scores": ("scores", "option_scores"),
    "replicate": ("replicate", "epoch"), "output": ("output", "raw_output", "response", "completion", "generation"),
    "n_tokens": ("n_tokens",), "n_options": ("n_options",),
}  # fmt: skip
FIELDS = (*SELF_NAMED, "correct")


def columns_for(names: Sequence[str], told: Told) -> dict[str, Any]:
    """Field -> column of a table with these columns; 'correct' is a list of them.

    Raises:
        CatalogError: A column asked for is not there, or a field is unknown.
    """
    chosen: dict[str, Any] = dict(told.columns)
    if unknown := [field for field in chosen if field not in FIELDS]:
        raise CatalogError(f"no field {', '.join(unknown)}; there are {', '.join(FIELDS)}")
    for field, aliases in SELF_NAMED.items():
        if field not in chosen and (found := next((a for a in aliases if a in names), None)):
            chosen[field] = found
    taken = {c for column in chosen.values() for c in (column if isinstance(column, list) else [column])}
    if lost := sorted(c for c in taken if c.split(".")[0] not in names and c not in names):
        raise CatalogError(f"no column {', '.join(lost)}; there are {', '.join(names)}")
    if "correct" not in chosen:
        asked = [m.name for m in told.metrics if m.name in names]
        chosen["correct"] = asked or [name for name in names if CORRECTNESS.search(name) and name not in taken]
    elif isinstance(chosen["correct"], str):
        chosen["correct"] = [chosen["correct"]]
    return chosen


def fits(names: Sequence[str], told: Told) -> bool:
    """Whether a table says of items whether they were answered correctly."""
    try:
        chosen = columns_for(names, told)
    except CatalogError:
        return bool(told.columns)  # let open_log say which column is missing
    return bool(chosen["correct"]) and any(field in chosen for field in ("id", "question", "doc", "prompt"))


def open_log(path: Path, told: Told, tick: Tick) -> Log:
    """Rows of one table."""
    log = Log("table", path, iter(()), about, every_metric=bool(told.columns.get("correct")))

    def rows() -> Iterator[Row]:
        raws = raw_rows(path, told, tick, log.notes)
        first = next(raws, None)
        if first is None:
            raise CatalogError(f"{path.name} is empty: it holds no row")
        chosen = columns_for(list(first[1]), told)
        if not chosen["correct"]:
            raise CatalogError(
                f"{path.name}: no column says right or wrong; name it with --column correct=NAME. It has {', '.join(first[1])}"
            )
        log.notes.append("columns: " + ", ".join(f"{f}={'+'.join(c) if isinstance(c, list) else c}" for f, c in chosen.items()))
        for n, (where, raw) in enumerate(chain([first], raws)):
            yield row_of(where, n, raw, chosen, told)

    log.rows = rows()
    return log


def raw_rows(path: Path, told: Told, tick: Tick, notes: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every row by column name, as the file has it."""
    if path.suffix.lower() == ".parquet":
        file, n = pq.ParquetFile(path), 0
        for batch in file.iter_batches(batch_size=1024):
            tick(path.stat().st_size * len(batch) // max(file.metadata.num_rows, 1))
            for raw in batch.to_pylist():
                n += 1
                yield f"{path.name}, row {n}", raw
    elif path.suffix.lower() in (".csv", ".tsv"):
        yield from csv_rows(path, tick)
    else:
        yield from records(path, told, tick, notes)


def delimiter_of(header: str) -> str:
    """The separator of a header line: the one of comma, semicolon and tab that occurs most."""
    return max(",;\t", key=header.count)


def csv_rows(path: Path, tick: Tick) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every row of a CSV file by column name; an empty cell is None."""
    csv.field_size_limit(1 << 27)
    n = 1
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = file.readline()
            file.seek(0)
            reader = csv.DictReader(file, delimiter=delimiter_of(header))
            names = list(reader.fieldnames or [])
            if twice := {name for name in names if names.count(name) > 1}:
                raise CatalogError(f"{path.name}:1: column {', '.join(sorted(twice))} occurs twice: rename one")
            for raw in reader:
                n = reader.line_num
                tick(sum(len(v) + 1 for v in raw.values() if isinstance(v, str)))
                if None in raw or None in raw.values():
                    raise CatalogError(f"{path.name}:{n}: wanted {len(names)} cells as in the header")
                yield f"{path.name}:{n}", {k: v if v != "" else None for k, v in raw.items()}
    except (csv.Error, UnicodeDecodeError) as error:
        raise CatalogError(f"{path.name}:{n + 1}: not readable as CSV in UTF-8 ({error}): save it as UTF-8") from error


def row_of(where: str, n: int, raw: Mapping[str, Any], chosen: Mapping[str, Any], told: Told) -> Row:
    """One answer, identified by the best scheme its columns allow."""
    cells = {f: at_path(raw, c) for f, c in chosen.items() if f not in ("correct", "options")}
    options = options_of(where, raw, chosen)
    source_id = None if cells.get("id") is None else str(cells["id"])
    row = Row(where, "", {c: at_path(raw, c) for c in chosen["correct"]}, str(cells.get("model") or ""), str(cells.get("task") or ""),
              source_id, n, text=None if cells.get("output") is None else str(cells["output"]))  # fmt: skip
    if cells.get("revision") and row.model and "@" not in row.model:
        row.model = f"{row.model}@{cells['revision']}"
    if cells.get("replicate") is not None:
        row.replicate = whole(cells["replicate"])
        if row.replicate is None or not 0 <= row.replicate < 1_000_000:
            raise CatalogError(f"{where}: replicate {cells['replicate']!r}: wanted 0, 1, ... below a million")
    scores = scores_of(cells.get("scores"))
    k = len(options) or len(scores) or whole(cells.get("n_options")) or 0
    golds = cells.get("gold")
    if k >= 2:
        choose(row, k, options or list(scores), golds, cells.get("prediction"))
        if scores and len(scores) == k:
            row.scores = {metric: list(scores.values()) for metric in row.values}
    else:
        row.gold = [str(g) for g in golds] if isinstance(golds, list) else None if golds is None else [str(golds)]
    row.n_tokens = whole(cells.get("n_tokens"))
    row.key = key_of(where, row, cells, options, told)
    return row


def choose(row: Row, k: int, options: list[str], golds: Any, predicted: Any) -> None:
    """Fill in what makes a row a choice of k."""
    names = options if len(options) == k else [""] * k
    gold = None if golds is None else gold_indices(golds, names)
    if golds is not None and gold is None:
        raise CatalogError(f"{row.where}: gold {golds!r:.40} is none of its {k} options: give its index, its letter or its text")
    row.answer, row.n_options = "multi" if gold and len(gold) > 1 else "choice", k
    row.gold = None if gold is None else [str(g) for g in gold]
    if (at := option_named(predicted, names)) is not None:
        row.predicted = dict.fromkeys(row.values, at)
    row.unread = set(row.values) if predicted is not None and at is None else set()


def options_of(where: str, raw: Mapping[str, Any], chosen: Mapping[str, Any]) -> list[str]:
    """The options, from one column with a list (or its JSON) or from one column each."""
    column = chosen.get("options")
    if isinstance(column, list):
        return [str(value) for c in column if (value := at_path(raw, c)) is not None]
    found = listed(at_path(raw, column)) if column else None
    if isinstance(found, str):
        raise CatalogError(f"{where}: options {found!r:.60} are no list: wanted a JSON or Python list, or a column each (options=a,b,c)")
    if isinstance(found, dict):  # {"text": [...], "label": [...]}
        found = found.get("text")
    return [str(o) for o in found] if isinstance(found, list | tuple) else []


def scores_of(scores: Any) -> dict[str, float]:
    """Option scores by option name, in the table's order; {} where there are none or one is not a number."""
    if isinstance(scores, str):
        try:
            scores = json.loads(scores)
        except ValueError:
            return {}
    pairs = scores.items() if isinstance(scores, dict) else ((str(at), s) for at, s in enumerate(scores or []))
    found = {str(name): mark_of(score).number for name, score in pairs}
    return {} if None in found.values() else {name: number for name, number in found.items() if number is not None}


def key_of(where: str, row: Row, cells: Mapping[str, Any], options: list[str], told: Told) -> str:
    """The best key the columns allow: question with options and gold, then raw row, then prompt, then a trusted id."""
    gold: list[int | str] = [int(g) if row.n_options else g for g in row.gold or []]
    if cells.get("question") is not None and gold and (options or not row.n_options):
        return qog_key(str(cells["question"]), options, gold)
    if cells.get("doc") is not None:
        return doc_key(cells["doc"], row.n_options, [int(g) for g in row.gold] if row.n_options and row.gold else None)
    if cells.get("prompt") is not None:
        return prompt_key(str(cells["prompt"]), options or [""] * (row.n_options or 0), gold)
    if row.source_id is not None and told.trust_ids:
        return src_key(row.source_id, row.gold, row.n_options)
    has = "only ids" if row.source_id is not None else "nothing"
    raise CatalogError(
        f"{where}: {has} to tell items apart by: wanted question with gold (and options), doc or prompt (--column question=NAME ...)"
        + (". If equal ids are equal items in all your files, say so: --trust-ids" if row.source_id is not None else "")
    )


def about(model: str, task: str) -> About:
    """A table says no more than its columns."""
    row = model_row(model) if model else {}
    return About(row, task_id_of(task) if task else "", {"prompt_style": task or None}, {"engine": "table"})
