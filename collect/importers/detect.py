"""Which format a file is, by its content; names only help. What is no log of answers is skipped with a reason."""

import csv
import json
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq

from catalog.errors import CatalogError
from collect.importers import NotALog, Told, every_eval_ever, inspect_ai, lighteval, lm_eval, lm_eval_v03, openai_jsonl, table
from collect.importers.reading import list_records

FORMATS: dict[str, ModuleType] = {
    "lm-eval": lm_eval, "lm-eval-v0.3": lm_eval_v03, "lighteval": lighteval, "inspect": inspect_ai, "every-eval-ever": every_eval_ever,
    "openai-jsonl": openai_jsonl, "table": table,
}  # fmt: skip
BY_RECORD = ("lm-eval", "lm-eval-v0.3", "every-eval-ever", "openai-jsonl")  # told by the fields of a record
HEAD = 1 << 16
SUMMARIES = {'"config_general"': "a results file of lighteval", '"evaluation_results"': "an aggregate of Every Eval Ever",
             '"n-shot"': "a results file of lm-eval", '"group_subtasks"': "a results file of lm-eval"}  # fmt: skip


def files_in(paths: Iterable[Path]) -> Iterator[tuple[Path, bool]]:
    """Every file named or lying in a named folder, sorted; and whether it was named itself.

    Raises:
        CatalogError: A path does not exist.
    """
    seen = set()
    for path in paths:
        if not path.exists():
            raise CatalogError(f"no log at {path}: wanted a file or a folder of logs")
        inside = sorted(p for p in path.rglob("*") if p.is_file() and not any(part.startswith(".") for part in p.relative_to(path).parts))
        for file in inside if path.is_dir() else [path]:
            if file.resolve() not in seen:
                seen.add(file.resolve())
                yield file, not path.is_dir()


def format_of(path: Path, told: Told) -> str:
    """The name of a file's format.

    Raises:
        NotALog: It holds no graded answers, or answers of a shape that needs a column mapping.
        CatalogError: It is empty, a Git LFS pointer, or damaged.
    """
    with path.open("rb") as file:
        head = file.read(HEAD)
    if not head.strip():
        raise CatalogError(f"{path.name} is empty")
    if head.startswith(b"version https://git-lfs"):
        raise CatalogError(f"{path.name} is a Git LFS pointer, not the log: fetch it with `git lfs pull`")
    suffix = path.suffix.lower()
    if suffix == ".json" and (kind := summary_kind(head)):
        raise NotALog(kind, "beside")
    if told.format:
        return told.format
    if head.startswith(b"PK"):
        return zip_format(path)
    if head.startswith(b"PAR1"):
        return parquet_format(path, told)
    if suffix in (".csv", ".tsv"):
        if head.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise CatalogError(f"{path.name} is UTF-16: save it as UTF-8")
        line = head.decode("utf-8-sig", "replace").splitlines()[0]
        return table_format(next(csv.reader([line], delimiter=table.delimiter_of(line))), told)
    if suffix not in (".json", ".jsonl", ".ndjson"):
        if suffix in (".eval", ".parquet"):
            raise CatalogError(f"{path.name} is damaged: it does not begin as a {suffix} file does")
        if suffix in (".gz", ".zst", ".bz2", ".xz"):
            raise NotALog(f"{suffix}: decompress it first")
        raise NotALog(f"{path.suffix or 'no suffix'}: not a suffix of logs", "other")
    return json_format(path, head, told)


def zip_format(path: Path) -> str:
    """inspect's .eval, or nothing known."""
    try:
        names = zipfile.ZipFile(path).namelist()
    except zipfile.BadZipFile as error:
        raise CatalogError(f"{path.name} is a damaged zip ({error}): a run that was killed, or a copy that was cut off") from error
    if "header.json" in names or "_journal/start.json" in names:
        return "inspect"
    raise NotALog("a zip that is no inspect log")


def parquet_format(path: Path, told: Told) -> str:
    """lighteval's details, a table, or a catalog's own file."""
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise CatalogError(f"{path.name} cannot be read as Parquet: {str(error).splitlines()[0]}") from error
    if b"schema_version" in (schema.metadata or {}):
        raise NotALog("a file of a catalog: open its folder with --from")
    return "lighteval" if lighteval.fits(schema.names) else table_format(schema.names, told)


def json_format(path: Path, head: bytes, told: Told) -> str:
    """The format of a JSON file, from its beginning: a log's first record, a list's first element, or a single object."""
    text = head.decode("utf-8-sig", "replace").lstrip()
    if text.startswith("["):
        with path.open("rb") as file:
            record = next(list_records(path, file, lambda _n: None), ("", ""))[1]
    else:
        with path.open("rb") as file:
            line = next((line for line in file if line.strip()), b"")
        try:
            record = json.loads(line.decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            record = object_kind(path, text, error)
    if isinstance(record, str) or not isinstance(record, dict):
        raise NotALog("JSON, but no records of answers")
    if inspect_ai.fits(record):
        return "inspect"
    return next((name for name in BY_RECORD if FORMATS[name].fits(record)), None) or table_format(list(record), told)


def summary_kind(head: bytes) -> str | None:
    """Which harness's summary a JSON object is, from its beginning."""
    text = head.decode("utf-8-sig", "replace").lstrip()
    inspect = '"eval"' in text and '"plan"' in text
    return next((kind for mark, kind in SUMMARIES.items() if mark in text), None) if text.startswith("{") and not inspect else None


def object_kind(path: Path, text: str, error: Exception) -> dict[str, object]:
    """What a JSON object spread over lines is, from the keys it begins with.

    Raises:
        CatalogError: A .jsonl file does not begin with a JSON record.
        NotALog: It is unknown.
    """
    if '"eval":' in text.replace('" :', '":') and '"version":' in text:
        return {"version": 2, "eval": {}, "plan": {}}
    if path.suffix != ".json":
        raise CatalogError(f"{path.name}:1: not JSON ({getattr(error, 'msg', error)}): {text[:60].splitlines()[0]}")
    raise NotALog("JSON, but no records of answers")


def table_format(names: list[str], told: Told) -> str:
    """A table with a column that says right or wrong, and one that tells items apart."""
    if table.fits(names, told):
        return "table"
    raise NotALog(f"a table without a column that says right or wrong, or that tells items apart (columns: {', '.join(names)[:100]})")
