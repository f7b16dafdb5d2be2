"""lm-evaluation-harness 0.4: a folder a setting and replicate, with a samples file a task and one results file."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb

from catalog.export import NO_TEXT, Asked, Export, Run, dumped, json_object, present, sha256, slug


def write_lm_eval(under_way: Export, model_id: str, run_ids: Sequence[int], runs: Iterable[Run]) -> None:
    """<org>__<name>/<setting>-r<replicate>/ with samples_<task>_<time>.jsonl and, once these are whole, results_<time>.json."""
    named = names_of(under_way.con, model_id, run_ids)
    for folder, group in itertools.groupby(runs, key=lambda run: named[run.run_id][0]):
        results: dict[str, Any] = {}
        for run in group:
            _, task, time = named[run.run_id]
            before = under_way.n_texts
            lines = (dumped(lm_row(run, *parts)) for parts in under_way.rows(run))
            under_way.write(under_way.out / folder / f"samples_{task}_{time}.jsonl", lines)
            add_results(results, run, task, under_way.n_texts - before)
        under_way.write(under_way.out / folder / f"results_{time}.json", [dumped(results, 2)])


def names_of(con: duckdb.DuckDBPyConnection, model_id: str, run_ids: Sequence[int]) -> dict[int, tuple[Path, str, str]]:
    """Folder, task and time of every run. Two protocols of one name, or two item lists of one task, carry their id in it."""
    query = """SELECT run_id, setting, protocol_id, replicate, task_id, itemset_id, collected_at
               FROM run_facts JOIN (SELECT run_id, collected_at FROM runs) USING (run_id) WHERE model_id = $1"""
    found = con.execute(query, [model_id]).fetchall()
    protocols, lists, times = defaultdict(set), defaultdict(set), defaultdict(list)
    for _, setting, protocol, _, task, items, _ in found:
        protocols[slug(setting)].add(protocol)
        lists[slug(task)].add(items)
    named, wanted = {}, set(run_ids)
    for run_id, setting, protocol, replicate, task, items, collected_at in found:
        which = f"-{protocol[:8]}" if len(protocols[slug(setting)]) > 1 else ""
        folder = Path(slug(model_id.partition("@")[0].replace("/", "__")), f"{slug(setting)}{which}-r{replicate}")
        named[run_id] = folder, slug(task) + (f"-{items[:8]}" if len(lists[slug(task)]) > 1 else "")
        if run_id in wanted:
            times[folder].append(collected_at or datetime(1970, 1, 1))
    return {
        run_id: (folder, task, f"{max(times[folder]):%Y-%m-%dT%H-%M-%S.%f}") for run_id, (folder, task) in named.items() if run_id in wanted
    }


def lm_row(run: Run, row: Mapping[str, Any], shown: Asked, own: Mapping[str, Any]) -> dict[str, Any]:
    """One sample: a request an option where options were scored, else one; the metric is null where nothing was measured."""
    protocol = run.row("protocols")
    generation = present(
        until=protocol.get("stop", []), do_sample=protocol.get("decoding") == "sampled", temperature=protocol.get("temperature"),
        top_p=protocol.get("top_p"), max_gen_toks=protocol.get("max_new_tokens"))  # fmt: skip
    requests = [f" {choice}" for choice in shown.choices] if run.scored else [generation]
    targets = row["gold"] or [] if run.scored else shown.golds
    target = targets[0] if len(targets) == 1 else f"[{', '.join(targets)}]" if run.scored else targets
    if row["text"] is None and row["scores"] is not None:
        lengths = [max(len(choice.encode() if protocol.get("scoring") == "per-byte" else choice), 1) for choice in shown.choices]
        sums = [score * n if run.metric == "acc_norm" else score for score, n in zip(row["scores"], lengths, strict=True)]
        filtered: list[Any] = [[repr(total), "False"] for total in sums]  # whether greedy decoding gives an option is not known
        responses = [[pair] for pair in filtered]
    else:
        filtered = [shown.answer] if shown.answer is not None else []
        responses = [[row["text"]]] if row["text"] is not None else []
    return {
        "doc_id": row["item"], "doc": {"id": row["source_id"], "question": shown.prompt, "choices": shown.choices, **own}, "target": target,
        "arguments": {f"gen_args_{at}": {"arg_0": shown.prompt, "arg_1": request} for at, request in enumerate(requests)},
        "resps": responses, "filtered_resps": filtered, "filter": "none", "metrics": [run.metric],
        "doc_hash": sha256(row["sample_key"]), "prompt_hash": sha256(shown.prompt), "target_hash": sha256(str(target)),
        run.metric: None if row["correct"] is None else float(row["correct"]),
    }  # fmt: skip


def add_results(results: dict[str, Any], run: Run, task: str, n_texts: int) -> None:
    """Add a run to the results of its folder."""
    told, model, protocol, itemset = run.row("runs"), run.row("models"), run.row("protocols"), run.row("itemsets")
    organisation, name, revision = run.model
    n, _, mean, error = run.figures
    versions = json_object(told.get("versions"))
    if not results:
        results |= {name: {} for name in ("results", "group_subtasks", "configs", "versions", "n-shot", "higher_is_better", "n-samples")}
        results |= {
            "config": {
                "model": told.get("engine"),
                "model_args": present(pretrained=f"{organisation}/{name}", revision=revision, dtype=protocol.get("dtype")),
                "model_num_parameters": model.get("n_params"), "model_dtype": protocol.get("dtype"), "model_revision": revision,
                "model_sha": revision or "", "random_seed": told.get("rng_seed")},
            "date": run.seconds, "transformers_version": versions.get("transformers"), "lm_eval_version": versions.get("lm-eval"),
            "model_source": told.get("engine"), "model_name": f"{organisation}/{name}", "model_name_sanitized": f"{organisation}__{name}",
            "chat_template_sha": told.get("chat_template_sha256"), "note": None}  # fmt: skip
    if n_texts < n:
        results["note"] = NO_TEXT
    metric = run.metric
    results["results"][task] = {"alias": run.task_id, "name": task, "sample_len": n, f"{metric},none": mean, f"{metric}_stderr,none": error}
    results["configs"][task] = present(
        task=task, dataset_path=itemset.get("source"), test_split=itemset.get("split"), num_fewshot=protocol.get("shots"), repeats=1,
        output_type="multiple_choice" if run.scored else "generate_until", target_delimiter=" ",
        metric_list=[{"metric": metric, "aggregation": "mean", "higher_is_better": True}],
        metadata={"version": 1.0, "setting": protocol["setting"], "scoring": protocol.get("scoring")})  # fmt: skip
    results["versions"][task], results["n-shot"][task] = 1.0, protocol.get("shots", 0)
    results["higher_is_better"][task] = {metric: True}
    results["n-samples"][task] = {"original": n, "effective": n}
