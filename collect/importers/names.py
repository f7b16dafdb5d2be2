"""Names in logs: a model as the catalog names it, a harness's task as the catalog's task_id. Never a path."""

import hashlib
import re
from functools import cache
from typing import Any

import pyarrow.parquet as pq

from catalog.errors import CatalogError
from catalog.open import SHIPPED

GENERIC = re.compile(r"(?:checkpoint|step|epoch|global_step)[-_]?\d*|final|last|best|model|hf|merged|output|weights|[0-9a-f]{40}")
CACHED = re.compile(r"models--([^/\\]+?)--([^/\\]+)[/\\]snapshots[/\\]([0-9a-f]{40})")
BENCHMARKS = {"hendryckstest": "mmlu", "bigbench_hard": "bbh", "ai2_arc": "arc", "siqa": "social_iqa", "social_i_qa": "social_iqa",
              "commonsenseqa": "commonsense_qa", "csqa": "commonsense_qa"}  # fmt: skip
# ways of asking that harnesses write into a task's name; they belong to the protocol
ASKING = re.compile(r"[_:-](?:cot|zeroshot|fewshot|\d+_?shot|n_shot|generative|loglikelihood|continuation|flan)(?=[_:-]|$)")
OUTSIDE_THE_MAP = ("gsm8k/main", "boolq/main", "winogrande/main")


def model_id_of(name: str, revision: str | None = None) -> str:
    """`org/name@revision` of what a log calls its model; of a path, its last part and a hash of the rest.

    The hash keeps two checkpoints of one name apart and gives no path away.

    Raises:
        CatalogError: The name is empty.
    """
    name = name.strip().rstrip("/\\")
    if not name:
        raise CatalogError("the model's name is empty: give it with --model org/name@revision")
    if cached := CACHED.search(name):
        return f"{cached[1]}/{cached[2]}@{cached[3]}"
    if is_path(name):
        return f"local/{path_name(name)}@path-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    named = name if "@" in name else f"{name}@{revision or 'unknown'}"
    return named if "/" in named.partition("@")[0] or re.fullmatch(r"[0-9a-f]{40}", revision or "") else f"local/{named}"


def is_path(name: str) -> bool:
    """Whether a name lies in somebody's file system or on a host, and must not be stored."""
    return name.startswith(("/", ".", "~")) or "\\" in name or name.count("/") > 1 or bool(re.search(r"[:@][^@]*/", name))


def source_name(name: Any) -> str | None:
    """A dataset's name; of a path only the last part."""
    if not name:
        return None
    return path_name(str(name)) if is_path(str(name)) else str(name)


def path_name(path: str) -> str:
    """The part of a path that names a model: the last one, with those before it while they say nothing by themselves."""
    parts = [p for p in re.split(r"[/\\]+", path) if p not in ("", ".", "..", "~")]
    kept = parts[-1:]
    while GENERIC.fullmatch(kept[0]) and len(kept) < len(parts):
        kept.insert(0, parts[-len(kept) - 1])
    return "-".join(kept).replace("@", "-")


def model_row(name: str, revision: str | None = None, **told: Any) -> dict[str, Any]:
    """A row of `models`, {} without a name; `told`: n_params, parents, quantisation where the log has them."""
    if not name.strip():
        return {}
    return {"model_id": model_id_of(name, revision), **{k: v for k, v in told.items() if v is not None}}


@cache
def known_tasks() -> dict[str, str]:
    """Names by which harnesses call the tasks of the paper's map -> task_id."""
    ids = {*pq.read_table(SHIPPED / "categories" / "paper.parquet")["task_id"].to_pylist(), *OUTSIDE_THE_MAP}
    names: dict[str, str] = {}
    for task_id in ids:
        benchmark, subset = task_id.split("/")
        names |= {f"{benchmark}{sep}{subset}": task_id for sep in "_:-/"}
        if subset == "main":
            names[benchmark] = task_id
    return names


def task_id_of(name: str) -> str:
    """'leaderboard|mmlu:anatomy|5', 'mmlu_anatomy', 'hendrycksTest-anatomy' -> 'mmlu/anatomy'; '' where there is no name.

    Known are the tasks of the paper's map; any other keeps its name: 'mmlu_pro_law' -> 'mmlu_pro_law/main'.
    """
    if not name.strip():
        return ""
    parts = name.split("|")
    plain = next((p for p in (parts[1:2] if len(parts) > 2 else parts[:1])), name)  # suite|task|shots, task|shots
    plain = plain.rsplit("/", 1)[-1] if plain.startswith("inspect_evals/") else plain
    asked = ASKING.sub("", plain.lower().removeprefix("leaderboard_").removesuffix("_test").removesuffix("_validation"))
    for old, new in BENCHMARKS.items():
        asked = re.sub(rf"^{old}(?=[_:-]|$)", new, asked)
    if task_id := known_tasks().get(asked):
        return task_id
    benchmark, _, subset = plain.replace("/", ":", 1).partition(":")
    return f"{benchmark}/{subset or 'main'}"
