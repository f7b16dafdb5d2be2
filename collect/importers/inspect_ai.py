"""inspect-ai: .eval (a zip of JSON members, stored, deflated or zstd) and .json logs.

Read directly: the format is documented JSON, and the harness's own reader brings its whole dependency tree. Scores are
C (correct), I (incorrect), P (partial), N (no answer), numbers, or dicts of them. Epochs are replicates. The sample's
input, choices and target are the item's identity; options that inspect shuffled are logged shuffled and do not pair.
"""

import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from catalog.errors import CatalogError
from catalog.identity import digest, qog_key
from collect.importers import About, Log, Row, Tick, Told
from collect.importers.names import model_row, source_name, task_id_of
from collect.importers.values import LETTERS, option_named, short_hash, whole, without_secrets

ZSTD = 93  # zipfile of Python 3.14 knows it, older ones refuse the member
GRADES = {"C": 1.0, "I": 0.0, "N": 0.0, "P": 0.5}


def fits(head: Mapping[str, Any]) -> bool:
    """Whether a JSON object is an inspect log."""
    return "eval" in head and "plan" in head and "version" in head


def open_log(path: Path, _told: Told, tick: Tick) -> Log:
    """Rows of one log: every sample, epoch by epoch."""
    seen: dict[str, Any] = {"snapshots": set(), "epochs": 1}
    header: dict[str, Any] = {}
    log = Log("inspect", path, iter(()), lambda _model, _task: about(header, seen), every_metric=True)

    def rows() -> Iterator[Row]:
        source = eval_samples(path, header, tick) if zipfile.is_zipfile(path) else json_samples(path, header, tick)
        for where, sample in source:
            if snapshot := (sample.get("output") or {}).get("model"):
                seen["snapshots"].add(snapshot)
            seen["epochs"] = max(seen["epochs"], sample.get("epoch") or 1)
            yield row_of(where, sample)
        status = header.get("status", "started")
        if status != "success":
            log.notes.append(f"the run ended as {status}: only the samples it had finished are in it")

    log.rows = rows()
    return log


def eval_samples(path: Path, header: dict[str, Any], tick: Tick) -> Iterator[tuple[str, dict[str, Any]]]:
    """Samples of a .eval file, a member at a time; fills `header` first."""
    with path.open("rb") as file, zipfile.ZipFile(file) as archive:
        members = {member.filename: member for member in archive.infolist()}
        top = members.get("header.json") or members.get("_journal/start.json")
        if top is None:
            raise CatalogError(f"{path.name}: a zip with neither header.json nor _journal/start.json is no inspect log")
        header.update(json.loads(member_bytes(archive, file, top)))
        samples = [member for name, member in members.items() if name.startswith("samples/") and name.endswith(".json")]
        if not samples:
            raise CatalogError(f"{path.name} is empty: it holds no sample (status {header.get('status', 'started')})")
        for member in samples:
            tick(member.compress_size)
            try:
                yield f"{path.name}, {member.filename}", json.loads(member_bytes(archive, file, member))
            except (ValueError, zipfile.BadZipFile, OSError, pa.ArrowException) as error:
                raise CatalogError(f"{path.name}, {member.filename}: damaged ({error})") from error


def member_bytes(archive: zipfile.ZipFile, file: BinaryIO, member: zipfile.ZipInfo) -> bytes:
    """A member's content, whatever its compression."""
    if member.compress_type != ZSTD:
        return archive.read(member)
    file.seek(member.header_offset)
    local = file.read(30)  # the local header's names may differ in length from the directory's
    file.seek(member.header_offset + 30 + int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little"))
    return bytes(pa.CompressedInputStream(pa.BufferReader(file.read(member.compress_size)), "zstd").read())


def json_samples(path: Path, header: dict[str, Any], tick: Tick) -> Iterator[tuple[str, dict[str, Any]]]:
    """Samples of a .json log; it is one object and is read whole."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise CatalogError(f"{path.name}: not JSON ({error})") from error
    tick(path.stat().st_size)
    samples = content.pop("samples", None) or []
    header.update(content)
    if not samples:
        raise CatalogError(f"{path.name} is empty: it holds no sample (status {header.get('status')})")
    for at, sample in enumerate(samples):
        yield f"{path.name}, sample {at}", sample


def row_of(where: str, sample: Mapping[str, Any]) -> Row:
    """One sample of one epoch with the value of every scorer."""
    question = plain_text(sample.get("input"), sample.get("attachments") or {})
    options = [str(c) for c in sample.get("choices") or []]
    targets = sample.get("target")
    targets = [str(t) for t in (targets if isinstance(targets, list) else [targets]) if t not in (None, "")]
    row = Row(where, "", {}, source_id=str(sample.get("id")), position=whole(sample.get("id")), replicate=(sample.get("epoch") or 1) - 1)
    if len(options) >= 2:
        gold = choice_gold(targets, options)
        row.answer, row.n_options = "multi" if gold and len(gold) > 1 else "choice", len(options)
        row.gold = [str(g) for g in gold] if gold else None
        row.key = qog_key(question, options, gold if gold else targets)
    else:
        row.gold = targets or None
        row.key = qog_key(question, options, targets)
    output = sample.get("output") or {}
    row.text = output.get("completion") or None
    row.n_tokens = (output.get("usage") or {}).get("output_tokens")
    error = sample.get("error")
    if error:
        row.error = f"error: {without_secrets(str(error.get('message') if isinstance(error, dict) else error))}"
    read_scores(row, sample.get("scores") or {})
    if not row.values and not row.error:
        row.error = "unscored"
    stopped = next((choice.get("stop_reason") for choice in output.get("choices") or []), None)
    row.truncated = stopped in ("max_tokens", "model_length")
    return row


def choice_gold(targets: list[str], options: list[str]) -> list[int] | None:
    """The gold options: letters (several in one target are several golds) or an option's text; None if one is neither."""
    found: set[int | None] = set()
    for target in targets:
        letters = [LETTERS.find(letter) for letter in target.strip()]
        if letters and all(0 <= at < len(options) for at in letters) and target not in options:
            found |= set(letters)
        else:
            found.add(option_named(target, options, index=False))
    return None if not found or None in found else sorted(at for at in found if at is not None)


def read_scores(row: Row, scores: Mapping[str, Any]) -> None:
    """Every scorer's value; a dict of values is one metric a key."""
    for name, score in scores.items():
        value, answer = score.get("value"), score.get("answer")
        parts = {f"{name}/{key}": part for key, part in value.items()} if isinstance(value, dict) else {name: value}
        for metric, part in parts.items():
            row.values[metric] = GRADES.get(part, part) if isinstance(part, str) else part
        letter = LETTERS.find(str(answer).strip()) if answer and len(str(answer).strip()) == 1 else -1
        if row.n_options and 0 <= letter < row.n_options:
            row.predicted |= dict.fromkeys(parts, letter)
        if value == "N" or (row.n_options and answer == ""):
            row.unread |= set(parts)


def plain_text(content: Any, attachments: Mapping[str, str]) -> str:
    """The input as text: itself, or its messages in order; long ones lie among the attachments."""
    if isinstance(content, str):
        return attachments.get(content.removeprefix("attachment://"), content) if content.startswith("attachment://") else content
    if isinstance(content, list):
        return "\n".join(part_text(part, attachments) for part in content)
    return "" if content is None else str(content)


def part_text(part: Any, attachments: Mapping[str, str]) -> str:
    """The text of a message or of a part of one; of an image or a file its hash, so that two of one text stay two items."""
    if not isinstance(part, dict):
        return plain_text(part, attachments)
    text = part.get("content", part.get("text"))
    return plain_text(text, attachments) if text is not None else digest({k: v for k, v in part.items() if k != "id"})


def about(header: Mapping[str, Any], seen: Mapping[str, Any]) -> About:
    """Model, protocol and origin of a log."""
    asked, plan = header.get("eval") or {}, header.get("plan") or {}
    config = {**(plan.get("config") or {}), **{k: v for k, v in (asked.get("model_generate_config") or {}).items() if v is not None}}
    name, told = str(asked.get("model") or ""), asked.get("model_args") or {}
    plain = name.partition("/")[2] if name.count("/") > 1 else name  # provider/org/name
    loaded = [f"{key}={told[key]}" for key in ("load_in_4bit", "load_in_8bit", "quantization") if told.get(key)]
    snapshots = seen["snapshots"] - {name, name.rsplit("/", 1)[-1], "local"}
    revision = [*snapshots] if len(snapshots) == 1 else ["unknown"] if loaded else []
    solvers = json.dumps([[s.get("solver"), s.get("params")] for s in plan.get("steps") or []], sort_keys=True)
    temperature = config.get("temperature")
    arguments = json.dumps(asked.get("task_args") or {}, sort_keys=True)  # may hold keys and paths: only their hash is kept
    details = {"harness": "inspect", "task": asked.get("task"), "version": asked.get("task_version"), "args": short_hash(arguments),
               "solvers": short_hash(solvers)}  # fmt: skip
    dataset = asked.get("dataset") or {}
    revised = "+".join([*revision, *loaded]) or None
    return About(
        model=model_row(str(told.get("model_path") or plain), revised, quantisation=",".join(loaded) or None),
        task_id=task_id_of(str(asked.get("task") or "")),
        protocol={
            "prompt_style": str(asked.get("task") or "") or None, "temperature": temperature, "top_p": config.get("top_p"),
            "max_new_tokens": config.get("max_tokens"), "details": json.dumps(details, sort_keys=True),
            # a provider's default samples; and a run that asks for epochs expects them to differ
            "decoding": "greedy" if temperature == 0 and seen["epochs"] == 1 else "sampled",
        },
        run={"engine": f"inspect {name.partition('/')[0]}", "rng_seed": config.get("seed"),
             "versions": json.dumps({k: str(v) for k, v in (asked.get("packages") or {}).items()}, sort_keys=True),
             "collected_at": str(asked.get("created") or "")[:19].replace("T", " ") or None},
        itemset={"source": source_name(dataset.get("name"))},
    )  # fmt: skip
