"""What must not leave by accident: secrets, e-mail addresses, paths of the machine, in any text that would be published."""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

from catalog.errors import CatalogError
from catalog.open import LARGE_TABLES, SMALL_TABLES, arrow_schema

# kind -> shape; also RE2, which DuckDB reads
SHAPES = {
    "Hugging Face token": r"\b(?:hf|api_org)_[A-Za-z0-9]{20,}",
    "OpenAI or Anthropic key": r"\bsk-[A-Za-z0-9_-]{20,}",
    "AWS key": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|aws_secret_access_key\s*[=:]",
    "GitHub token": r"\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_[A-Za-z0-9_]{20,}",
    "Google or Slack key": r"\bAIza[0-9A-Za-z_-]{30,}|\bxox[abeoprs]-[0-9A-Za-z-]{10,}",
    "bearer token": r"(?i:\bbearer\s+)[A-Za-z0-9._~+/-]{16,}|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.",
    "private key": r"-----BEGIN [A-Z ]*PRIVATE KEY",
    "password in an address": r"\w://[^/\s:@]+:[^/\s:@]+@",
    "e-mail address": r"(?:^|[^/\w.%+-])[A-Za-z0-9._%+-]+@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}\b",  # not org/name@revision
    "local path": r"(?:^|[^\w.~/-])(?:~|/(?:home|Users|root|mnt|media|scratch|gpfs|lustre|data|workspace|tmp|var|opt|srv|Volumes))/[^\s/]"
                  r"|(?:^|[^A-Za-z0-9])[A-Za-z]:\\[^\s\\]|\bfile://",
}  # fmt: skip
OWN_TOKEN, OWN_HOME = "your own Hugging Face token", "path of your home folder"
KEYS = {**SMALL_TABLES, "samples": "itemset_id, item", **dict.fromkeys(("outcomes", "generations"), "run_id, item")}
NEVER_LEAVES = ("option_scores", "published_results")  # no text, or not published


class Leak(NamedTuple):
    """One place: which column of which row holds what kind of thing; never the thing itself."""

    table: str
    column: str
    row: str
    kind: str

    @property
    def place(self) -> str:
        """What --allow-found names."""
        return f"{self.table}.{self.column}"


def shapes() -> dict[str, str]:
    """Kinds with their regular expressions, the user's own token and home folder among them."""
    from huggingface_hub import get_token

    own = {}
    if (token := get_token()) and len(token) >= 8:
        own[OWN_TOKEN] = re.escape(token)
    if len(home := str(Path.home())) > 1:
        own[OWN_HOME] = re.escape(home) + r"\b"
    return own | SHAPES


def refuse_leaks(con: duckdb.DuckDBPyConnection, allowed: Collection[str], with_text: bool) -> None:
    """Refuse to publish a catalog whose text holds what looks private.

    Args:
        con: The catalog.
        allowed: "table.column" that may hold such text; the user's own token may nowhere.
        with_text: Generated texts are published too.

    Raises:
        CatalogError: Something was found, or `allowed` names a column that does not exist.
    """
    columns = text_columns(with_text)
    if unknown := sorted(set(allowed) - {f"{table}.{name}" for table, names in columns.items() for name in names}):
        raise CatalogError(f"--allow-found wants TABLE.COLUMN of published text such as runs.source, found {', '.join(unknown)}")
    known = shapes()
    leaks = [leak for table, names in columns.items() for leak in leaks_of(con, table, names, known)]
    if held := [leak for leak in leaks if leak.kind == OWN_TOKEN or leak.place not in allowed]:
        shown = "\n  ".join(f"{leak.place}, row {leak.row}: {leak.kind}" for leak in held[:10])
        more = f"\n  ... and {len(held) - 10} more" if len(held) > 10 else ""
        places = " ".join(dict.fromkeys(leak.place for leak in held if leak.kind != OWN_TOKEN))
        right = f"; where they are meant to be public, add: --allow-found {places}" if places else ""
        raise CatalogError(
            f"nothing was sent, {len(held)} texts look private:\n  {shown}{more}\nCollect or import those runs again without them{right}"
        )


def text_columns(with_text: bool) -> dict[str, list[str]]:
    """Table -> every column of text, or of lists of it, that publishing sends."""
    tables = [t for t in (*SMALL_TABLES, *LARGE_TABLES) if t not in NEVER_LEAVES and (with_text or t != "generations")]
    return {table: [field.name for field in arrow_schema(table) if "string" in str(field.type)] for table in tables}


def leaks_of(con: duckdb.DuckDBPyConnection, table: str, columns: Sequence[str], known: dict[str, str]) -> Iterator[Leak]:
    """Leaks in one table: DuckDB finds the rows; then each text is looked at, what JSON holds unescaped."""
    key = ", ".join(f"CAST({name} AS VARCHAR)" for name in KEYS[table].split(", "))
    lists = {field.name for field in arrow_schema(table) if "list" in str(field.type)}
    texts = [f"array_to_string({name}, chr(10))" if name in lists else f"CAST({name} AS VARCHAR)" for name in columns]
    wide = "|".join(f"(?:{shape})" for shape in known.values())
    query = f"""SELECT concat_ws(' ', {key}), {", ".join(texts)} FROM {table}
                WHERE regexp_matches(concat_ws(chr(10), {", ".join(texts)}), $1) ORDER BY ALL"""
    for row, *found in con.execute(query, [wide]).fetchall():
        for column, text in zip(columns, found, strict=True):
            kinds = (kind for kind, shape in known.items() if any(re.search(shape, leaf) for leaf in leaves(text or "")))
            if kind := next(kinds, None):
                yield Leak(table, column, re.sub(wide, "***", row), kind)


def leaves(text: str) -> Iterator[str]:
    """The strings that a text holds: those inside where it is JSON (`\\\\n` is no folder there), else itself."""
    try:
        value = json.loads(text) if text[:1] in "{[" else text
    except ValueError:
        value = text
    yield from strings(value)


def strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value, keys too."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)
    elif isinstance(value, str):
        yield value
