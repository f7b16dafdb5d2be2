"""lm-evaluation-harness v0.3: <task>_write_out_info.json, one JSON list a task, every value a string.

It holds no model and no raw row: the prompt with its gold is the item's identity, and the model is told by the user or
taken from the folder's name.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from catalog.identity import prompt_key
from collect.importers import About, Log, Row, Tick, Told
from collect.importers.names import task_id_of
from collect.importers.reading import records
from collect.importers.values import best, mark_of, whole

NUMBERED = re.compile(r"(prompt|logit)_\d+")


def fits(head: Mapping[str, Any]) -> bool:
    """Whether a first record is one of lm-eval v0.3."""
    return "doc_id" in head and "prompt_0" in head


def open_log(path: Path, told: Told, tick: Tick) -> Log:
    """Rows of one task of one model."""
    task = path.stem.removesuffix("_write_out_info")
    folder = next((p for p in path.resolve().parents if p.name != task), path.parent)
    described = About({"name_guessed": folder.name}, task_id_of(task), {"prompt_style": task, "details": '{"harness": "lm-eval 0.3"}'},
                      {"engine": "lm-eval 0.3"})  # fmt: skip
    log = Log("lm-eval v0.3", path, iter(()), lambda _model, _task: described)

    def rows() -> Iterator[Row]:
        for where, raw in records(path, told, tick, log.notes):
            row = row_of(where, raw)
            if row.n_options:
                described.protocol["decoding"] = "scored"
            yield row

    log.rows = rows()
    return log


def row_of(where: str, raw: Mapping[str, Any]) -> Row:
    """One record: a generated answer (one logit, its text), or one log-likelihood an option."""
    values = {name: value for name, value in raw.items() if name not in ("doc_id", "truth") and not NUMBERED.fullmatch(name)}
    logits = [raw[f"logit_{i}"] for i in range(len(raw)) if f"logit_{i}" in raw]
    scores = [mark_of(logit).number for logit in logits]
    gold = whole(raw.get("truth"))
    row = Row(where, "", values, source_id=str(raw["doc_id"]), position=whole(raw["doc_id"]))
    if len(scores) >= 2 and gold is not None and gold < len(scores) and None not in scores:
        lls = [score for score in scores if score is not None]
        row.answer, row.n_options, row.gold, row.scores = "choice", len(lls), [str(gold)], {"acc": lls}
        row.predicted = {"acc": found} if (found := best(lls)) is not None else {}
    else:
        row.gold = [str(raw["truth"])] if raw.get("truth") is not None else None
        row.text = str(logits[0]) if logits else None
    row.key = prompt_key(str(raw["prompt_0"]), [""] * (row.n_options or 0), row.gold or [])
    return row
