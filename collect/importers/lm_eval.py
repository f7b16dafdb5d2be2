"""lm-evaluation-harness: samples_<task>_<time>.jsonl of --log_samples (0.4), joined to its results_<time>.json by time.

Shapes seen: 0.4.2 to 0.4.13. `arguments` is a dict or a list of lists, metrics are top-level columns, `filter` names
the variant of a metric. The doc is the raw row of the benchmark: its canonical JSON is the item's identity.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from catalog.identity import doc_key, prompt_key
from collect.importers import About, Log, Row, Tick, Told
from collect.importers.names import model_row, task_id_of
from collect.importers.own import Own
from collect.importers.reading import json_of, records
from collect.importers.values import LETTERS, best, gold_indices, mark_of, option_named, whole

NOT_METRICS = frozenset(
    ("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash", "prompt_hash", "target_hash")
)
NAMED = re.compile(r"samples_(?P<task>.+?)_(?P<time>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d[.\d]*)\.jsonl")
UNREAD = "[invalid]"  # what the harness's regex filters leave where nothing matched


def fits(head: Mapping[str, Any]) -> bool:
    """Whether a first record is one of lm-eval 0.4."""
    return "doc_id" in head and ("resps" in head or "filtered_resps" in head) and "prompt_0" not in head


def open_log(path: Path, told: Told, tick: Tick) -> Log:
    """Rows of one samples file; the results file lies beside it, or is missing."""
    results, task = results_of(path)
    config = results.get("configs", {}).get(task, {})
    own, seen = Own(path), dict[str, Any]()
    log = Log("lm-eval", path, iter(()), lambda model, name: own.about(model, name) or about(path, results, task, config, seen))

    def rows() -> Iterator[Row]:
        for where, raw in records(path, told, tick, log.notes):
            if not seen:
                seen.update(first=generation_arguments(raw), scored=bool(option_lls(raw)))
            row = row_of(where, raw, config)
            own.row(row, raw.get("doc"), next(iter(row.values.values()), None))
            yield row

    log.rows = rows()
    return log


def results_of(path: Path) -> tuple[dict[str, Any], str]:
    """The results file of a samples file ({} where there is none) and the task's name."""
    named = NAMED.fullmatch(path.name)
    if named:
        return json_of(path.with_name(f"results_{named['time']}.json")), named["task"]
    for beside in sorted({*path.parent.glob("results*.json"), *path.parent.glob("*_results.json")}):
        results = json_of(beside)
        tasks = [task for task in results.get("configs", {}) if task in path.stem]
        if tasks:
            return results, max(tasks, key=len)
    return {}, re.sub(r"^samples_", "", path.stem)


def row_of(where: str, raw: Mapping[str, Any], config: Mapping[str, Any]) -> Row:
    """One record: what was asked, and every metric with its filter."""
    doc, filter_name = raw.get("doc"), raw.get("filter")
    suffix = "" if filter_name in (None, "none") else f",{filter_name}"
    names = raw.get("metrics") or [name for name in raw if name not in NOT_METRICS]
    values = {f"{name}{suffix}": raw.get(name) for name in names}
    k, gold, predicted, scores = choice_of(raw, config, values)
    row = Row(where, "", values, source_id=str(raw["doc_id"]), position=whole(raw["doc_id"]), predicted=predicted, scores=scores)
    if k:
        row.answer, row.n_options = "multi" if gold and len(gold) > 1 else "choice", k
        row.gold = [str(g) for g in gold] if gold is not None else None
    else:
        row.gold = free_gold(raw.get("target"))
    row.key = doc_key(doc, k, gold) if doc is not None else prompt_key(prompt_of(raw), [], row.gold or [])
    if not scores:
        row.text = first_text(raw.get("resps"))
        row.parsed = first_text(raw.get("filtered_resps")) != UNREAD
    return row


def choice_of(
    raw: Mapping[str, Any], config: Mapping[str, Any], values: Mapping[str, Any]
) -> tuple[int | None, list[int] | None, dict[str, int], dict[str, Sequence[float]]]:
    """Number of options, gold, and by metric the predicted option and the options' scores; unknown where the log has none."""
    lls = option_lls(raw)
    if lls is None:
        return generated_choice(raw, values)
    texts = continuations(raw, config)
    if "acc_mutual_info" in values and len(lls) % 2 == 0:  # the second half has no context
        lls, texts = lls[: len(lls) // 2], texts[: len(lls) // 2]
    if len(lls) < 2:
        return None, None, {}, {}
    scores: dict[str, Sequence[float]] = {"acc": lls}
    if len(texts) == len(lls) and all(texts):
        scores["acc_norm"] = [ll / len(text) for ll, text in zip(lls, texts, strict=True)]
        scores["acc_bytes"] = [ll / len(text.encode("utf-8", "surrogatepass")) for ll, text in zip(lls, texts, strict=True)]
    scores = {name: found for name, found in scores.items() if name in values}
    predicted = {name: at for name, found in scores.items() if (at := best(found)) is not None}
    gold = choice_gold(raw.get("target"), texts if len(texts) == len(lls) else [""] * len(lls), predicted.get("acc"), values.get("acc"))
    return len(lls), gold, predicted, scores


def choice_gold(target: Any, texts: Sequence[str], predicted: int | None, acc: Any) -> list[int] | None:
    """The gold options. A target is an index ("0", 0, "[0, 2]") or a text; acc tells the two apart where they differ."""
    right = mark_of(acc).number
    readings = [found for reading in (listed(target), target) if (found := gold_indices(reading, texts)) is not None]
    if predicted is None or right is None:
        return readings[0] if readings else None
    if not readings and len(texts) == 2:  # winogrande logs no index: of two options it follows
        return [predicted if right else 1 - predicted]
    return next((gold for gold in readings if (predicted in gold) == bool(right)), readings[0] if readings else None)


def generated_choice(
    raw: Mapping[str, Any], values: Mapping[str, Any]
) -> tuple[int | None, list[int] | None, dict[str, int], dict[str, Sequence[float]]]:
    """A generated answer to an item whose doc lists its options and whose target is a letter: still one of k."""
    doc, target = raw.get("doc"), raw.get("target")
    options = next((doc[name] for name in ("choices", "options", "endings") if name in doc), None) if isinstance(doc, dict) else None
    options = options.get("text") if isinstance(options, dict) else options
    if not (isinstance(options, list) and len(options) >= 2 and all(isinstance(o, str) for o in options) and isinstance(target, str)):
        return None, None, {}, {}
    letter = target.strip().strip("()")
    if len(letter) != 1 or not 0 <= LETTERS.find(letter) < len(options):
        return None, None, {}, {}
    answered = option_named(first_text(raw.get("filtered_resps")), options)
    return len(options), [LETTERS.index(letter)], dict.fromkeys(values, answered) if answered is not None else {}, {}


def option_lls(raw: Mapping[str, Any]) -> list[float] | None:
    """Log-likelihood of every option in nats, from [["-6.5", "False"], ...]; None if the answer was generated."""
    found = raw.get("filtered_resps") or [r[0] if isinstance(r, list) and r else None for r in raw.get("resps") or []]
    if not all(isinstance(r, list) and len(r) == 2 and str(r[1]) in ("True", "False") for r in found):
        return None
    numbers = [mark_of(r[0]).number for r in found]
    return [n if n is not None else float("nan") for n in numbers]


def continuations(raw: Mapping[str, Any], config: Mapping[str, Any]) -> list[str]:
    """The options' texts as scored, without the delimiter before them."""
    arguments = raw.get("arguments") or {}
    pairs = [list(a.values()) for a in arguments.values()] if isinstance(arguments, dict) else arguments
    delimiter = str(config.get("target_delimiter", " "))
    return [str(pair[1]).removeprefix(delimiter) if isinstance(pair, list) and len(pair) > 1 else "" for pair in pairs]


def listed(target: Any) -> Any:
    """The golds of a target: an index, the string of one, or of a list of them."""
    if isinstance(target, str) and target.startswith("["):
        try:
            return json.loads(target)
        except ValueError:
            return target
    return whole(target) if whole(target) is not None else target


def free_gold(target: Any) -> list[str] | None:
    """Accepted texts of a free-form item."""
    if target is None:
        return None
    return [str(t) for t in target] if isinstance(target, list) else [str(target)]


def first_text(responses: Any) -> str | None:
    """The first generated text under any nesting of lists."""
    while isinstance(responses, list) and responses:
        responses = responses[0]
    return responses if isinstance(responses, str) else None


def prompt_of(raw: Mapping[str, Any]) -> str:
    """The text put to the model."""
    arguments = raw.get("arguments") or {}
    pairs = [list(a.values()) for a in arguments.values()] if isinstance(arguments, dict) else arguments
    return str(pairs[0][0]) if pairs and pairs[0] else ""


def generation_arguments(raw: Mapping[str, Any]) -> dict[str, Any]:
    """How the answer was generated, as sent with the request; {} for scored options."""
    arguments = raw.get("arguments") or {}
    pairs = [list(a.values()) for a in arguments.values()] if isinstance(arguments, dict) else arguments
    last = pairs[0][-1] if pairs and pairs[0] else None
    return last if isinstance(last, dict) else {}


def about(path: Path, results: Mapping[str, Any], task: str, config: Mapping[str, Any], seen: Mapping[str, Any]) -> About:
    """Model, protocol and origin of a samples file."""
    general = results.get("config", {})
    time = (named := NAMED.fullmatch(path.name)) and datetime.strptime(named["time"][:19], "%Y-%m-%dT%H-%M-%S").replace(tzinfo=UTC)
    n = (results.get("n-samples", {}).get(task) or {}).get("effective")
    printed = results.get("results", {}).get(task, {})
    claims = {name.removesuffix(",none"): (n, value) for name, value in printed.items() if "," in name and "stderr" not in name}
    return About(
        model=model_of(path, results),
        task_id=task_id_of(task),
        protocol=protocol_of(results, task, config, seen),
        run={
            "engine": f"lm-eval {general.get('model', '')}".strip(), "rng_seed": general.get("random_seed"),
            "versions": versions_of(results), "chat_template_sha256": results.get("chat_template_sha"),
            "collected_at": time.strftime("%Y-%m-%d %H:%M:%S") if time else None,
        },
        itemset={
            "source": "/".join(filter(None, (config.get("dataset_path"), config.get("dataset_name")))) or None,
            "split": config.get("test_split") or config.get("validation_split"),
        },
        claims=claims if n is None or isinstance(n, int) else {},
    )  # fmt: skip


def model_of(path: Path, results: Mapping[str, Any]) -> dict[str, Any]:
    """The model: what it was loaded from; an adapter counts as the model, its base as a parent; else the folder's name."""
    general = results.get("config", {})
    told = arguments_of(general.get("model_args"))
    name = told.get("pretrained") or told.get("model") or told.get("path") or results.get("model_name")
    sha = general.get("model_sha") or told.get("revision") or general.get("model_revision")
    if not name:
        return {"name_guessed": path.parent.name.replace("__", "/")}
    loaded = [f"{key}={told[key]}" for key in ("load_in_4bit", "load_in_8bit", "quantization", "gguf_file", "subfolder") if told.get(key)]
    rest = {"n_params": whole(general.get("model_num_parameters")), "quantisation": ",".join(loaded) or None}
    if adapter := told.get("peft") or told.get("delta"):
        return model_row(str(adapter), None, parents=[model_row(str(name), sha)["model_id"]], **rest)
    return model_row(str(name), "+".join(filter(None, (sha or ("unknown" if loaded else None), *loaded))) or None, **rest)


def arguments_of(model_args: Any) -> dict[str, Any]:
    """'pretrained=a/b,dtype=float16' or a dict, as a dict."""
    if isinstance(model_args, dict):
        return model_args
    return dict(part.split("=", 1) for part in str(model_args or "").split(",") if "=" in part)


def protocol_of(results: Mapping[str, Any], task: str, config: Mapping[str, Any], seen: Mapping[str, Any]) -> dict[str, Any]:
    """How the task was asked: everything that can change an outcome but the model, as far as the log says."""
    asked = seen.get("first") or config.get("generation_kwargs") or {}
    scored = seen.get("scored")
    until = asked.get("until")
    texts = {
        "harness": "lm-eval", "task": task, "version": results.get("versions", {}).get(task),
        "prompt": short_hash(config.get("doc_to_text")), "system": results.get("system_instruction_sha"),
        "multiturn": results.get("fewshot_as_multiturn") or None,
    }  # fmt: skip
    sampled = bool(asked.get("do_sample")) or (asked.get("temperature") or 0) > 0
    protocol: dict[str, Any] = {
        "prompt_style": task, "shots": whole(results.get("n-shot", {}).get(task)),
        "template": ("model" if results.get("chat_template") else "none") if results else None,
        "dtype": str(results.get("config", {}).get("model_dtype") or "").removeprefix("torch.") or None,
        "details": json.dumps({k: v for k, v in texts.items() if v is not None}, sort_keys=True),
        "decoding": "scored" if scored else "sampled" if sampled else "greedy",
    }  # fmt: skip
    if not scored:
        protocol |= {
            "temperature": asked.get("temperature"), "top_p": asked.get("top_p"), "stop": [until] if isinstance(until, str) else until,
            "max_new_tokens": whole(asked.get("max_gen_toks") or asked.get("max_new_tokens")),
        }  # fmt: skip
    return protocol


def short_hash(text: Any) -> str | None:
    """12 hex digits for a text, so that two templates are told apart without repeating them."""
    return hashlib.sha256(str(text).encode("utf-8", "surrogatepass")).hexdigest()[:12] if text is not None else None


def versions_of(results: Mapping[str, Any]) -> str | None:
    """Versions of what decided an outcome."""
    found = {"lm-eval": results.get("lm_eval_version") or results.get("git_hash"), "transformers": results.get("transformers_version")}
    return json.dumps({k: str(v) for k, v in found.items() if v}, sort_keys=True) if any(found.values()) else None
