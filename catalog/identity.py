"""Identity: what makes two items the same item and two runs the same run.

Everything pairs on these functions. `run_id_of` and `itemset_id_of` stand in schema.sql too, where the view
`integrity` recomputes them; a test holds the two to the same values.
"""

import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence


def tidy(text: str) -> str:
    """Unicode NFC, LF line ends, no outer white space; case and inner white space are content and stay.

    The same item read from two copies of a benchmark differs in exactly these and nothing else; folding more would
    merge different items (options that differ in case only exist in ARC).
    """
    return unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\r", "\n")).strip()


def digest(content: object, length: int = 32) -> str:
    """First `length` hex digits of sha256 over canonical JSON: sorted keys, no spaces, UTF-8."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]


def qog_key(question: str, options: Sequence[str], gold: Iterable[int | str]) -> str:
    """Key of an item whose question, options in published order and gold are known; occurrence not yet added.

    Args:
        question: Text asked, without the options.
        options: In published order, never in a shuffled one; empty for a free-form item.
        gold: Indices into `options`, or the accepted texts of a free-form item.

    Returns:
        "qog:" and 32 hex digits.
    """
    answers = sorted((g if isinstance(g, int) else tidy(g) for g in gold), key=str)
    return "qog:" + digest([tidy(question), [tidy(o) for o in options], answers])


def doc_key(doc: object, n_options: int | None = None, gold: Sequence[int] | None = None) -> str:
    """Key of an item known by the raw row a harness logged, whatever the order of its fields.

    Number and index of its options are part of the key where the item was asked as a choice: the same row asked with
    other options, or free-form, is another item with other luck.
    """
    return "doc:" + digest([doc, n_options, sorted(gold) if gold is not None else None])


def prompt_key(prompt: str, options: Sequence[str] = (), gold: Iterable[int | str] = ()) -> str:
    """Key of an item known only as it was put to a model; two templates make two items. Gold where the log has it."""
    return "prompt" + qog_key(prompt, options, gold).removeprefix("qog")


def src_key(source_id: str, gold: object, n_options: int | None = None) -> str:
    """Key of an item known by its source's own id (or hash) and its gold: only as good as that id."""
    return "src:" + digest([source_id, tidy(gold) if isinstance(gold, str) else gold, n_options])


def with_occurrences(keys: Iterable[str]) -> list[str]:
    """Append '#0', '#1' ... to equal keys in order: real tasks repeat items, each repeat is an item of its own."""
    seen: Counter[str] = Counter()
    numbered = []
    for key in keys:
        numbered.append(f"{key}#{seen[key]}")
        seen[key] += 1
    return numbered


def itemset_id_of(task_id: str, sample_keys: Iterable[str]) -> str:
    """16 hex digits naming a task's list of sample_keys in order: sha256 of them all, joined by LF, of any number of keys.

    The task is part of it: one benchmark's rows are asked under several task names (letters, texts, generated).
    """
    hashed = hashlib.sha256(task_id.encode())
    for key in sample_keys:
        hashed.update(f"\n{key}".encode())
    return hashed.hexdigest()[:16]


def protocol_id_of(content: Mapping[str, object]) -> str:
    """16 hex digits naming a way of asking; `setting`, the comparable name, and empty fields are no part of it.

    A temperature of 1 is one of 1.0: it is text in one log, an integer in another and a DOUBLE in the table.
    """
    told = {k: v for k, v in content.items() if k not in ("setting", "protocol_id") and v is not None}
    return digest({k: int(v) if isinstance(v, float) and v.is_integer() else v for k, v in told.items()}, 16)


def run_id_of(model_id: str, itemset_id: str, protocol_id: str, replicate: int) -> int:
    """First 53 bits of sha256 over the four parts: exact in JSON, JavaScript and pandas."""
    text = "\n".join([model_id, itemset_id, protocol_id, str(replicate)])
    return int(hashlib.sha256(text.encode()).hexdigest()[:14], 16) >> 3


def folder_of(model_id: str) -> str:
    """A model's folder name: org--name@revision; what some file system refuses becomes a hyphen.

    So does what would make it another folder (`..`), one that `datasets` passes over (`.name`, `__name`), or a file's name.
    """
    return re.sub(r"^(\.+|__|$)|\.(?=parquet$)", "-", re.sub(r"[^\w.@+=-]+", "-", model_id.replace("/", "--")))
