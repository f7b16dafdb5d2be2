"""Every Eval Ever 0.3: a file of instances and its aggregate a run."""

import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from catalog.export import NO_TEXT, OWN, UNREAD, Asked, Export, Run, dumped, json_object, present, sha256, slug


def write_every_eval_ever(under_way: Export, runs: Iterable[Run]) -> None:
    """<task>/<org>/<name>/<uuid>_samples.jsonl and, once that is whole, its aggregate <uuid>.json."""
    for run in runs:
        organisation, name, _ = run.model
        before = under_way.n_texts
        # the format wants version 4 in the name, where chance picks the digits; here the run does
        stem = str(uuid.UUID(bytes=uuid.uuid5(uuid.NAMESPACE_OID, f"{OWN} {run.run_id}").bytes, version=4))
        folder = Path(slug(run.task_id), slug(organisation), slug(name))
        lines = (dumped(eee_row(run, *parts)) for parts in under_way.rows(run))
        checksum = under_way.write(under_way.out / folder / f"{stem}_samples.jsonl", lines)
        details = {"format": "jsonl", "file_path": f"data/{folder.as_posix()}/{stem}_samples.jsonl", "hash_algorithm": "sha256",
                   "checksum": checksum, "total_rows": run.figures[0]}  # fmt: skip
        aggregate = {**eee_aggregate(run, under_way.n_texts - before), "detailed_evaluation_results": details}
        under_way.write(under_way.out / folder / f"{stem}.json", [dumped(aggregate, 2)])


def eee_name(run: Run) -> dict[str, str]:
    """What instances and aggregate are joined by."""
    return {"schema_version": "0.3.0", "evaluation_id": f"{run.task_id}/{'/'.join(run.model[:2])}/{run.run_id}"}


def eee_row(run: Run, row: Mapping[str, Any], shown: Asked, own: Mapping[str, Any]) -> dict[str, Any]:
    """One instance. Not measured is `error`: the format's score and is_correct cannot be empty."""
    correct = bool(row["correct"])
    answers = [row["text"]] if row["text"] is not None else [shown.answer] if shown.answer not in (None, UNREAD) else []
    read = [{"turn_idx": 0, "source": "output.raw", "extracted_value": shown.answer, "extraction_method": row["reason"] or "none",
             "is_terminal": True}]  # fmt: skip
    return {
        **eee_name(run), "model_id": "/".join(run.model[:2]), "evaluation_name": run.task_id, "evaluation_result_id": run.metric,
        "sample_id": row["source_id"] or row["sample_key"], "sample_hash": sha256(shown.prompt + "".join(shown.golds)),
        "interaction_type": "single_turn",
        "input": {"raw": shown.prompt, "formatted": None, "reference": shown.golds, "choices": shown.choices or None},
        "output": {"raw": answers, "reasoning_trace": None}, "messages": None,
        "answer_attribution": read if shown.answer is not None else [],
        "evaluation": {"score": float(correct), "is_correct": correct, "num_turns": None, "tool_calls_count": None},
        "token_usage": None, "performance": None,
        "error": (row["reason"] or "not measured") if row["correct"] is None else None,
        "metadata": {"epoch": str(run.row("runs")["replicate"] + 1), **{key: dumped(value) for key, value in own.items()}},
    }  # fmt: skip


def eee_aggregate(run: Run, n_texts: int) -> dict[str, Any]:
    """The aggregate of a run: model, metric and mean; all further details are text."""
    told, model, protocol = run.row("runs"), run.row("models"), run.row("protocols")
    organisation, name, revision = run.model
    n, _, mean, error = run.figures
    versions, seconds = json_object(told.get("versions")), str(run.seconds)
    # of versions the one that sorts first: `collect` writes its own there, an import the harness's
    library, version = next(iter(versions.items()), ("forgetting-catalog", "unknown"))
    note = {"note": NO_TEXT} if n_texts < n else {}
    return {
        **eee_name(run), "evaluation_timestamp": seconds, "retrieved_timestamp": seconds,
        "source_metadata": {"source_name": "forgetting-catalog", "source_type": "evaluation_run", "evaluator_relationship": "other",
                            "source_organization_name": told.get("contributor", "unknown"), "additional_details": note},
        "eval_library": {"name": library, "version": version, "additional_details": versions},
        "model_info": {
            "name": name, "id": f"{organisation}/{name}", "developer": organisation,
            "inference_engine": {"name": told.get("engine", "unknown")},
            "additional_details": {
                **texts(num_parameters=model.get("n_params"), dtype=protocol.get("dtype"), revision=revision, kind=model.get("kind"),
                        quantisation=model.get("quantisation")),
                "deployment_type": "unknown", "model_availability": "unknown"}},
        "evaluation_results": [] if mean is None else [{
            "evaluation_result_id": run.metric, "evaluation_name": run.task_id, "evaluation_timestamp": seconds,
            "source_data": {"dataset_name": run.row("itemsets").get("source", run.task_id), "source_type": "other"},
            "metric_config": {
                "evaluation_description": f"{run.metric} ({protocol['setting']})", "metric_name": run.metric, "metric_kind": "accuracy",
                "metric_unit": "proportion", "lower_is_better": False, "score_type": "continuous", "min_score": 0.0, "max_score": 1.0},
            "score_details": {"score": mean, "uncertainty": present(
                standard_error=None if error is None else {"value": error, "method": "analytic"}, num_samples=run.figures[1])},
            "generation_config": {
                "generation_args": present(temperature=protocol.get("temperature"), top_p=protocol.get("top_p"),
                                           max_tokens=protocol.get("max_new_tokens")),
                "additional_details": texts(num_fewshot=protocol.get("shots"), until=protocol.get("stop"), setting=protocol["setting"],
                                            decoding=protocol.get("decoding"), prompt_style=protocol.get("prompt_style"))},
        }],
    }  # fmt: skip


def texts(**values: Any) -> dict[str, str]:
    """The values that are there, each as text."""
    return {name: value if isinstance(value, str) else dumped(value) for name, value in present(**values).items()}
