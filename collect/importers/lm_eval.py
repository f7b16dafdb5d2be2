"""lm-evaluation-harness: samples_<task>_<time>.jsonl of --log_samples (0.4), joined to its results_<time>.json by time.

Shapes seen: 0.4.2 to 0.4.13. `arguments` is a dict or a list of lists, metrics are top-level columns, `filter` names
the variant of a metric. The doc is the raw row of the benchmark: its canonical JSON is the item's identity.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from catalog.identity import doc_key, prompt_key
from collect.importers import About, Log, Row, Tick, Told
from collect.importers.names import model_row, source_name, task_id_of
from collect.importers.own import Own
from collect.importers.reading import json_of, records
from collect.importers.values import LETTERS, best, gold_indices, listed, mark_of, option_named, short_hash, whole

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
    asked = choice_of(raw, config, values)
    row = Row(
        where, "", values, source_id=str(raw["doc_id"]), position=whole(raw["doc_id"]), predicted=asked.predicted, scores=asked.scores
    )
    if asked.k:
        row.answer, row.n_options = "multi" if asked.gold and len(asked.gold) > 1 else "choice", asked.k
        row.gold = [str(g) for g in asked.gold or asked.inferred] or None
    else:
        row.gold = free_gold(raw.get("target"))
    row.key = doc_key(doc, asked.k, asked.gold) if doc is not None else prompt_key(prompt_of(raw), [], row.gold or [])
    if option_lls(raw) is None:
        row.text = first_text(raw.get("resps"))
        row.unread = set(values) if first_text(raw.get("filtered_resps")) == UNREAD else set()
    return row


@dataclass
class Choice:
    """What a record says of its options: their number k (None: no choice), gold, and by metric the predicted one and all scores.

    inferred: gold that follows from the grade alone; it is shown, but no part of the item's identity.
    """

    k: int | None = None
    gold: list[int] | None = None
    inferred: list[int] = field(default_factory=list)
    predicted: dict[str, int] = field(default_factory=dict)
    scores: dict[str, Sequence[float]] = field(default_factory=dict)


def choice_of(raw: Mapping[str, Any], config: Mapping[str, Any], values: Mapping[str, Any]) -> Choice:
    """The options of a record; unknown where the log has none."""
    lls = option_lls(raw)
    if lls is None:
        return generated_choice(raw, values)
    texts = continuations(raw, config)
    if "acc_mutual_info" in values and len(lls) % 2 == 0:  # the second half has no context
        lls, texts = lls[: len(lls) // 2], texts[: len(lls) // 2]
    if len(lls) < 2:
        return Choice()
    told = len(texts) == len(lls) and all(texts)
    lengths = {"acc": [1] * len(lls)}
    if told:
        lengths |= {"acc_norm": [len(t) for t in texts], "acc_bytes": [len(t.encode("utf-8", "surrogatepass")) for t in texts]}
    named = {metric: lengths[name] for metric in values if (name := metric.partition(",")[0]) in lengths}
    choice = Choice(len(lls), target_gold(raw.get("target"), texts if told else [""] * len(lls)))
    choice.scores = {metric: [ll / n for ll, n in zip(lls, over, strict=True)] for metric, over in named.items()}
    choice.predicted = {metric: at for metric, found in choice.scores.items() if (at := best(found)) is not None}
    right = mark_of(values.get("acc")).number
    if choice.gold is None and len(lls) == 2 and "acc" in choice.predicted and right is not None:
        at = choice.predicted["acc"]  # winogrande logs no index: of two options it follows
        choice.inferred = [at if right else 1 - at]
    return choice


def target_gold(target: Any, texts: Sequence[str]) -> list[int] | None:
    """The gold options of a target: digits are an index, as the harness itself reads them, else it is an option's text."""
    golds = listed(target)
    return gold_indices(
        [at if (at := whole(gold)) is not None else gold for gold in (golds if isinstance(golds, list) else [golds])], texts
    )


def generated_choice(raw: Mapping[str, Any], values: Mapping[str, Any]) -> Choice:
    """A generated answer to an item whose doc lists its options and whose target is a letter: still one of k."""
    doc, target = raw.get("doc"), raw.get("target")
    options = next((doc[name] for name in ("choices", "options", "endings") if name in doc), None) if isinstance(doc, dict) else None
    options = options.get("text") if isinstance(options, dict) else options
    if not (isinstance(options, list) and len(options) >= 2 and all(isinstance(o, str) for o in options) and isinstance(target, str)):
        return Choice()
    letter = target.strip().strip("()")
    if len(letter) != 1 or not 0 <= LETTERS.find(letter) < len(options):
        return Choice()
    answered = option_named(first_text(raw.get("filtered_resps")), options, index=False)
    return Choice(len(options), [LETTERS.index(letter)], predicted=dict.fromkeys(values, answered) if answered is not None else {})


def option_lls(raw: Mapping[str, Any]) -> list[float] | None:
    """Log-likelihood of every option in nats, from [["-6.5", "False"], ...]; None if the answer was generated."""
    found = raw.get("filtered_resps") or [r[0] if isinstance(r, list) and r else None for r in raw.get("resps") or []]
    if not all(isinstance(r, list) and len(r) == 2 and str(r[1]) in ("True", "False") for r in found):
        return None
    numbers = [mark_of(r[0]).number for r in found]
    return [n if n is not None else float("nan") for n in numbers]


def requests(raw: Mapping[str, Any]) -> list[list[Any]]:
    """The arguments of every request of a record: a dict of dicts, in older files a list of lists."""
    arguments = raw.get("arguments") or {}
    return [list(a.values()) for a in arguments.values()] if isinstance(arguments, dict) else [list(a) for a in arguments]


def continuations(raw: Mapping[str, Any], config: Mapping[str, Any]) -> list[str]:
    """The options' texts as scored, without the delimiter before them."""
    delimiter = str(config.get("target_delimiter", " "))
    return [str(pair[1]).removeprefix(delimiter) if len(pair) > 1 else "" for pair in requests(raw)]


def free_gold(target: Any) -> list[str] | None:
    """Accepted texts of a free-form item."""
    golds = listed(target)
    return None if golds is None else [str(g) for g in golds] if isinstance(golds, list) else [str(golds)]


def first_text(responses: Any) -> str | None:
    """The first generated text under any nesting of lists."""
    while isinstance(responses, list) and responses:
        responses = responses[0]
    return responses if isinstance(responses, str) else None


def prompt_of(raw: Mapping[str, Any]) -> str:
    """The text put to the model."""
    pairs = requests(raw)
    return str(pairs[0][0]) if pairs and pairs[0] else ""


def generation_arguments(raw: Mapping[str, Any]) -> dict[str, Any]:
    """How the answer was generated, as sent with the request; {} for scored options."""
    pairs = requests(raw)
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
            "source": "/".join(filter(None, (source_name(config.get("dataset_path")), config.get("dataset_name")))) or None,
            "split": config.get("test_split") or config.get("validation_split"),
        },
        claims=claims if n is None or isinstance(n, int) else {},
    )  # fmt: skip


LOADED = ("load_in_4bit", "load_in_8bit", "quantization", "gptqmodel", "autogptq", "gguf_file", "subfolder")  # other weights
ADAPTERS = ("peft", "delta", "lora_local_path")
ASKED = ("enable_thinking", "think_end_token", "add_bos_token", "system_instruction")  # another way of asking
UNSET = (None, "", "None", "False", "false", "0", False, 0)


def model_of(path: Path, results: Mapping[str, Any]) -> dict[str, Any]:
    """The model: what it was loaded from; an adapter counts as the model, its base as a parent; else the folder's name."""
    general = results.get("config", {})
    told = arguments_of(general.get("model_args"))
    name = told.get("pretrained") or told.get("model") or told.get("path") or results.get("model_name")
    sha = general.get("model_sha") or told.get("revision") or general.get("model_revision")
    if not name:
        return {"name_guessed": path.parent.name.replace("__", "/")}
    loaded = [f"{key}={told[key]}" for key in LOADED if key in told]
    rest = {"n_params": whole(general.get("model_num_parameters")), "quantisation": ",".join(loaded) or None}
    if adapter := next((told[key] for key in ADAPTERS if key in told), None):
        return model_row(str(adapter), None, parents=[model_row(str(name), sha)["model_id"]], **rest)
    return model_row(str(name), "+".join(filter(None, (sha or ("unknown" if loaded else None), *loaded))) or None, **rest)


def arguments_of(model_args: Any) -> dict[str, Any]:
    """'pretrained=a/b,dtype=float16' or a dict, as a dict; what is set to nothing is left out."""
    found = model_args if isinstance(model_args, dict) else dict(p.split("=", 1) for p in str(model_args or "").split(",") if "=" in p)
    return {key: value for key, value in found.items() if value not in UNSET}


def protocol_of(results: Mapping[str, Any], task: str, config: Mapping[str, Any], seen: Mapping[str, Any]) -> dict[str, Any]:
    """How the task was asked: everything that can change an outcome but the model, as far as the log says."""
    asked = seen.get("first") or config.get("generation_kwargs") or {}
    scored = seen.get("scored")
    until = asked.get("until")
    texts = {
        "harness": "lm-eval", "task": task, "version": results.get("versions", {}).get(task),
        "prompt": short_hash(config.get("doc_to_text")), "system": results.get("system_instruction_sha"),
        "multiturn": results.get("fewshot_as_multiturn") or None,
        **{key: str(value)[:40] for key, value in arguments_of(results.get("config", {}).get("model_args")).items() if key in ASKED},
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


def versions_of(results: Mapping[str, Any]) -> str | None:
    """Versions of what decided an outcome."""
    found = {"lm-eval": results.get("lm_eval_version") or results.get("git_hash"), "transformers": results.get("transformers_version")}
    return json.dumps({k: str(v) for k, v in found.items() if v}, sort_keys=True) if any(found.values()) else None
