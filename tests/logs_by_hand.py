"""Minimal logs written by hand, one function a format, and ways to look at what became of them."""

import json
from pathlib import Path

from rich.console import Console

from catalog import connect
from collect.import_logs import Result, import_logs
from collect.importers import Told


def write_lines(path: Path, rows: list[dict], **dump) -> Path:
    """A JSON Lines file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, **dump) + "\n" for row in rows), encoding="utf-8")
    return path


def lm_row(n: int, acc: object = 1.0, lls: tuple[float, ...] | None = (-1.0, -2.0, -3.0), **changed) -> dict:
    """A record of lm-eval 0.4: item n, three options, the first is gold; acc as given."""
    options = ["one", "three3", "two"]
    row = {
        "doc_id": n, "doc": {"question": f"question {n}", "choices": options, "answer": 0}, "target": "0",
        "arguments": {f"gen_args_{i}": {"arg_0": f"Q: question {n}\nA:", "arg_1": f" {option}"} for i, option in enumerate(options)},
        "resps": [[[str(ll), "False"]] for ll in lls or ()], "filtered_resps": [[str(ll), "False"] for ll in lls or ()],
        "filter": "none", "metrics": ["acc"], "doc_hash": f"h{n}", "acc": acc,
    }  # fmt: skip
    return row | changed


def lm_log(folder: Path, rows: list[dict], task: str = "quiz", model: object = "org/model", results: dict | None = None, **dump) -> Path:
    """A samples file with its results file beside it."""
    time = "2026-01-02T03-04-05.000006"
    config = {
        "model": "hf",
        "model_args": {"pretrained": model},
        "model_sha": "a" * 40 if str(model).startswith("org/") else "",
        "model_dtype": "torch.float32",
    }
    results = (
        results
        if results is not None
        else {"configs": {task: {"task": task, "output_type": "multiple_choice"}}, "config": config, "n-shot": {task: 0}}
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"results_{time}.json").write_text(json.dumps(results))
    return write_lines(folder / f"samples_{task}_{time}.jsonl", rows, **dump)


def load(out: Path, *paths: Path, **told) -> list[Result]:
    """Import into `out`, one file after the other."""
    return import_logs(paths, out, Told(**told), Console(quiet=True), jobs=1)


def refusal(out: Path, *paths: Path, **told) -> str:
    """Why the one file was refused; nothing came of it."""
    (result,) = load(out, *paths, **told)
    assert result.state == "refused" and not result.new
    assert not list(out.rglob("*.parquet"))
    return result.reason


def answers(out: Path, setting: str | None = None) -> list[tuple]:
    """(model, task, setting, replicate, source_id, correct, predicted, status) of every outcome, by source_id."""
    return connect(out).execute(
        """SELECT model_id, task_id, setting, replicate, source_id, correct, predicted, status
           FROM outcomes JOIN run_facts USING (run_id) JOIN samples USING (itemset_id, item)
           WHERE $1 IS NULL OR setting = $1 ORDER BY setting, replicate, model_id, TRY_CAST(source_id AS INTEGER), source_id""", [setting]).fetchall()  # fmt: skip


def corrects(out: Path, setting: str | None = None) -> list[bool | None]:
    """Only whether the answers were right."""
    return [row[5] for row in answers(out, setting)]
