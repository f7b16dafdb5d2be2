"""`catalog report`: one HTML file for two models, or a folder of them with an index. Each file is written whole or not at all."""

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from catalog.charts import the_theme
from catalog.compare import none_given, texts_of
from catalog.errors import CatalogError
from catalog.names import map_for
from catalog.report_data import Pair, Row, ask
from catalog.report_page import Html, code, escaped, page, table
from catalog.report_parts import body, interval, plural, share, short

if TYPE_CHECKING:
    from catalog.items import Item

INDEX = ["pair", "setting", "items", "lost [95%]", "gained [95%]", "less", "raw lost", "raw gained", "notes"]
BEYOND = {"f_exch_x": "own noise", "f_sym": "own noise", "f_known": "unchecked"}


def write_report(
    con: duckdb.DuckDBPyConnection, before: str, after: str, chosen_map: str, out: Path, items: list[Path] | None = None, limit: int = 20
) -> None:
    """Write the page for two models and one map of categories.

    Args:
        con: A catalog.
        before: model_id; after: the same.
        chosen_map: Map of categories.
        out: The file.
        items: The user's own item files, for the text of forgotten items.
        limit: Most forgotten items listed for a setting.

    Raises:
        CatalogError: The two models cannot be paired, or none of the forgotten items is in the given files.
    """
    if out.is_dir():
        raise CatalogError(f"{out} is a folder: wanted a file for the page, for example --out {out / 'report.html'}")
    texts = texts_of(items) if items else {}
    pair = ask(con, before, after, chosen_map)
    lost = [(row["task_id"], row["sample_key"]) for row in pair.rows["forgotten"]]
    if items and lost and not any(key in texts for key in lost):
        raise CatalogError(none_given(len(lost), items))
    write_whole(out, page_of(pair, texts, limit))


def page_of(pair: Pair, texts: "dict[tuple[str, str], Item]", limit: int) -> str:
    """The page of one pair."""
    with the_theme():
        return page(f"{short(pair.before)} → {short(pair.after)}: forgotten and gained", body(pair, texts, limit))


def write_whole(out: Path, text: str) -> None:
    """Write a file so that it is never seen half written."""
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f"{out.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8", newline="\n")
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)


def file_name(before: str, after: str) -> str:
    """A name that every file system takes and a link needs no quoting for; the hash tells apart what looks alike."""
    words = [re.sub(r"[^A-Za-z0-9]+", "-", short(model))[:40].strip("-").lower() or "model" for model in (before, after)]
    told_apart = hashlib.sha256("\0".join((before, after)).encode(errors="replace")).hexdigest()[:8]
    return f"{'-to-'.join(words)}-{told_apart}.html"


def write_all(
    con: duckdb.DuckDBPyConnection, wanted_map: str | None, out: Path, items: list[Path] | None = None, limit: int = 20
) -> tuple[int, list[str]]:
    """Write a page for every declared pair, and index.html with a row for each pair and setting.

    Args:
        con: A catalog.
        wanted_map: Map of categories; None chooses for each pair.
        out: Folder; pages of the same names in it are replaced.
        items: The user's own item files.
        limit: Most forgotten items listed for a setting.

    Returns:
        How many pages were written, and a line for each pair that cannot be compared.

    Raises:
        CatalogError: No pair is declared, or none can be compared.
    """
    declared = con.sql("SELECT before_id, after_id, min(regime) FROM pairs GROUP BY ALL ORDER BY ALL").fetchall()
    if not declared:
        raise CatalogError("no pair is declared in this catalog: declare one (collect pair BEFORE AFTER), or name two models")
    if out.exists() and not out.is_dir():
        raise CatalogError(f"{out} is a file: wanted a folder for the pages, for example --out {out}.d")
    texts, rows, skipped, n = texts_of(items) if items else {}, [], [], 0
    with folder_at_once(out) as folder:
        for before, after, regime in declared:
            try:
                pair = ask(con, before, after, map_for(con, before, after, wanted_map))
            except CatalogError as error:
                skipped.append(f"{before} → {after}: {error}")
                continue
            (folder / file_name(before, after)).write_text(page_of(pair, texts, limit), encoding="utf-8", newline="\n")
            rows += index_rows(pair, regime)
            n += 1
        if not n:
            raise CatalogError(f"none of the {plural(len(declared), 'declared pair')} can be compared:\n  " + "\n  ".join(skipped[:10]))
        (folder / "index.html").write_text(index_page(rows, skipped), encoding="utf-8", newline="\n")
    return n, skipped


@contextmanager
def folder_at_once(out: Path) -> Iterator[Path]:
    """A folder to fill; what it holds moves to `out` when all of it is there, the index last."""
    out.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f"{out.name}.", suffix=".part", dir=out.parent))
    try:
        yield part
        out.mkdir(exist_ok=True)
        for file in sorted(part.iterdir(), key=lambda file: (file.name == "index.html", file.name)):
            file.replace(out / file.name)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def index_rows(pair: Pair, regime: str | None) -> list[list[object]]:
    """A row for each setting of a pair."""
    about = f"{escaped(short(pair.before))} → {escaped(short(pair.after))}"
    link = f'<a href="{file_name(pair.before, pair.after)}">{about}</a>'
    kind = f'<br><span class="tag">{escaped(regime)}</span>' if regime else ""  # once, under the first setting
    rows: list[list[object]] = []
    for setting in pair.settings:
        found = pair.of("headline", setting)
        row: Row = found[0] if found else {}
        beyond = ["", ""] if row.get("lost") is None else [interval(row, "lost", ""), interval(row, "gained", "")]
        raw = [BEYOND[row["metric"]], share(row["f"]), share(row["bt"])] if row else ["no mean", "", ""]
        rows.append([Html(link + ("" if rows else kind)), setting, row.get("n_items"), *beyond, *raw, len(pair.warnings) or ""])
    return rows


def index_page(rows: list[list[object]], skipped: list[str]) -> str:
    """The page that links to all others."""
    left_out = "".join(f"<li>{code(line)}</li>" for line in skipped)
    without = f'<div class="warn"><p><strong>Cannot be compared</strong></p><ul>{left_out}</ul></div>' if skipped else ""
    return page(
        "Forgotten and gained: all pairs",
        f"""<h1>What was forgotten, what was gained: all pairs</h1>
<p>Percent of items, means over categories. <em>Lost</em> and <em>gained</em> are less both models' own noise where replicates tell it;
<em>unchecked</em>, less guessing only, which reads partial knowledge as change. <em>Raw</em> is as counted. <em>Notes</em>: how many things
must be known before a pair's numbers.</p>
{without}{table(INDEX, rows, left=2)}
<p class="note">These numbers are those of the view <code>pair_metrics</code>.</p>""",
        charts=False,
    )
