"""Every Eval Ever 0.2-0.3: *_samples.jsonl, one row an item and metric, and the aggregate .json beside it.

Converted lm-eval logs hold the whole prompt as input.raw, so their items are known by prompt; others by question,
options and references. The converters' sample_hash differs between two prompts of one item; doc_hash does not, and
stands in for the source's id where the user trusts ids.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from catalog.identity import prompt_key, qog_key, src_key
from collect.importers import About, Log, Row, Tick, Told
from collect.importers.names import model_row, source_name, task_id_of
from collect.importers.own import Own
from collect.importers.reading import json_of, records
from collect.importers.values import gold_indices, option_named, whole, without_secrets


def fits(head: Mapping[str, Any]) -> bool:
    """Whether a first record is an instance of Every Eval Ever."""
    return "schema_version" in head and "evaluation" in head and "sample_id" in head


def open_log(path: Path, told: Told, tick: Tick) -> Log:
    """Rows of one instance file."""
    aggregate = json_of(path.with_name(path.name.removesuffix("_samples.jsonl") + ".json"))
    own, epochs = Own(path), set[int]()
    log = Log(
        "every-eval-ever",
        path,
        iter(()),
        lambda model, task: own.about(model, task) or about(aggregate, model, task, epochs),
        every_metric=True,
    )

    def rows() -> Iterator[Row]:
        for where, raw in records(path, told, tick, log.notes):
            row = row_of(where, raw, told)
            own.row(row, raw.get("metadata"), None if row.error else (raw.get("evaluation") or {}).get("is_correct"))
            epochs.add(row.replicate or 0)
            yield row

    log.rows = rows()
    return log


def row_of(where: str, raw: Mapping[str, Any], told: Told) -> Row:
    """One instance: one item, one metric."""
    metadata, graded, asked = raw.get("metadata") or {}, raw.get("evaluation") or {}, raw.get("input") or {}
    metric, task = names_of(raw)
    value = grade_of(graded, any(m.fits(metric) and m.sign for m in told.metrics))
    row = Row(where, "", {metric: value}, str(raw.get("model_id") or ""), task, str(raw["sample_id"]), whole(raw["sample_id"]))
    epoch = whole(metadata.get("epoch"))
    row.replicate = None if epoch is None else epoch - 1
    identify(row, asked, metadata, told)
    answered = (raw.get("answer_attribution") or [{}])[-1].get("extracted_value")
    texts = (raw.get("output") or {}).get("raw")
    row.text = texts[0] if isinstance(texts, list) and texts else texts if isinstance(texts, str) else None
    if row.n_options and (at := option_named(answered, [""] * row.n_options)) is not None:
        row.predicted = {metric: at}
    row.unread = {metric} if answered == "[invalid]" else set()
    row.error = without_secrets(str(raw["error"])) if raw.get("error") else None
    row.n_tokens = (raw.get("token_usage") or {}).get("output_tokens")
    return row


def grade_of(graded: Mapping[str, Any], bounded: bool) -> Any:
    """is_correct, or the score where that is missing, where a threshold was asked for, or where it lies between 0 and 1.

    Converters call any score above a limit of their own correct; such a score is no grade.
    """
    score, correct = graded.get("score"), graded.get("is_correct")
    between = isinstance(score, int | float) and score not in (0, 1)
    return score if correct is None or bounded or between else correct


def names_of(raw: Mapping[str, Any]) -> tuple[str, str]:
    """('exact_match,strict', 'gsm8k') from evaluation_result_id 'exact_match:strict' and evaluation_name 'gsm8k/strict'."""
    name = str(raw.get("evaluation_name") or "")
    result = str(raw.get("evaluation_result_id") or "score")
    metric, _, variant = result.partition(":")
    return f"{metric},{variant}" if variant else metric, name.removesuffix(f"/{variant}") if variant else name


def identify(row: Row, asked: Mapping[str, Any], metadata: Mapping[str, Any], told: Told) -> None:
    """Key, options and gold of an instance."""
    options = [str(c) for c in asked.get("choices") or []]
    reference = asked.get("reference")
    references = [str(r) for r in reference] if isinstance(reference, list) else [] if reference is None else [str(reference)]
    gold = gold_indices(references, options) if len(options) >= 2 else None
    if gold is not None:
        row.answer, row.n_options, row.gold = "choice" if len(gold) == 1 else "multi", len(options), [str(g) for g in gold]
    else:
        row.gold = references or None
    question = str(asked.get("raw") or "")
    if told.trust_ids:
        row.key = src_key(str(metadata.get("doc_hash") or row.source_id), row.gold, row.n_options)
    elif "prompt_hash" in metadata:
        row.key = prompt_key(question, options, gold if gold is not None else references)
    else:
        row.key = qog_key(question, options, gold if gold is not None else references)


def moment(time: Any) -> str | None:
    """Seconds since 1970, as text or number, or an ISO time; None if it is neither."""
    with contextlib.suppress(ValueError, TypeError, OverflowError, OSError):
        return datetime.fromtimestamp(float(time), UTC).strftime("%Y-%m-%d %H:%M:%S")
    with contextlib.suppress(ValueError, TypeError):
        return datetime.fromisoformat(str(time)).strftime("%Y-%m-%d %H:%M:%S")
    return None


def about(aggregate: Mapping[str, Any], model: str, task: str, epochs: set[int]) -> About:
    """Model, protocol and origin from the aggregate."""
    info = aggregate.get("model_info") or {}
    details = info.get("additional_details") or {}
    results = [
        r
        for r in aggregate.get("evaluation_results") or []
        if str(r.get("evaluation_name", "")).split("/")[0] == task.split("/", maxsplit=1)[0]
    ]
    generation = (results[0].get("generation_config") or {}) if results else {}
    arguments = generation.get("generation_args") or {}
    source = (results[0].get("source_data") or {}) if results else {}
    library = aggregate.get("eval_library") or {}
    temperature = arguments.get("temperature") or ((arguments.get("eval_plan") or {}).get("config") or {}).get("temperature")
    return About(
        model=model_row(str(info.get("id") or model), details.get("revision"), n_params=whole(details.get("num_parameters"))),
        task_id=task_id_of(task),
        protocol={
            "prompt_style": task, "shots": whole((generation.get("additional_details") or {}).get("num_fewshot")),
            "dtype": str(details.get("dtype") or "").removeprefix("torch.") or None,
            "temperature": float(temperature) if temperature is not None else None,
            "max_new_tokens": whole(arguments.get("max_tokens")),
            "decoding": "sampled" if len(epochs) > 1 or float(temperature or 0) > 0 else None,
            "details": json.dumps({"harness": "every-eval-ever", "library": library.get("name")}, sort_keys=True),
        },
        run={"engine": f"every-eval-ever {library.get('name', '')}".strip(),
             "versions": json.dumps({str(library["name"]): str(library.get("version"))}) if library.get("name") else None,
             "collected_at": moment(aggregate.get("evaluation_timestamp"))},
        itemset={"source": source_name(source.get("dataset_name"))},
    )  # fmt: skip
