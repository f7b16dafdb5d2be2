"""Download a data set from the Hub, or the part of it that is about some models and tasks, as a catalog folder."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from catalog import hub
from catalog.errors import CatalogError
from catalog.guard import content_ids, unreadable
from catalog.identity import folder_of
from catalog.open import SCHEMA_VERSION, arrow_schema, blank, bounded, cache_folder, card_of_checked, columns_of, load
from catalog.sources import FAR_TABLES, SMALL_TABLES, Place

MODEL_FITS = "m = p OR m GLOB p OR split_part(m, '@', 1) GLOB p OR split_part(split_part(m, '@', 1), '/', -1) GLOB p"
TASK_FITS = "t = p OR t GLOB p OR t GLOB p || '/*'"
BATCH = {"outcomes": 122_880, "option_scores": 122_880, "generations": 4_096}  # rows in a row group; texts may be long


def download(
    repo: str, revision: str | None = None, models: Sequence[str] = (), tasks: Sequence[str] = (), to: str | Path | None = None
) -> Path:
    """Fetch a data set, or the runs of some models on some tasks, once; later calls only return the folder.

    Args:
        repo: ORG/NAME or ORG/NAME@REVISION.
        revision: Branch, tag or commit; default: main.
        models: Names or patterns: 'org/name', 'name', 'org/*'; all where empty.
        tasks: Names or patterns: 'arc', 'bbh/navigate', 'mmlu/high_*'; all where empty.
        to: New folder for it; default: the client's cache, a part of it the cache of `catalog`.

    Returns:
        A catalog folder: `catalog.connect(folder)`.

    Raises:
        CatalogError: As `connect`; nothing fits, or `to` is not empty.
    """
    found = hub.NAME.fullmatch(repo)
    if found is None:
        raise CatalogError(f"{repo} is no name of a data set: wanted ORG/NAME or ORG/NAME@REVISION")
    to = Path(to).expanduser() if to else None
    if to and to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise CatalogError(f"{to} is not empty: give --to a new folder")
    data = hub.dataset(found["repo"], revision or found["revision"])
    part: dict[str, object] = {"catalog": data.repo, "revision": data.commit}
    part |= {name: sorted(asked) for name, asked in (("models", models), ("tasks", tasks)) if asked}
    if not models and not tasks:
        whole = hub.fetch(data)
        return copied(data, whole, to, part) if to else whole
    name = hashlib.sha256(json.dumps(part).encode()).hexdigest()[:16]
    out = to or cache_folder() / "parts" / f"{data.repo.replace('/', '--')}-{name}"
    if not (out / hub.ORIGIN).exists():
        whole_or_nothing(out, part, lambda folder: write_part(data, folder, models, tasks))
    return out


def copied(data: hub.Dataset, whole: Path, to: Path, part: dict[str, object]) -> Path:
    """The whole data set in a folder of its own."""

    def copy(folder: Path) -> None:
        for path in data.files:
            take(whole / path, folder / path)

    whole_or_nothing(to, part, copy)
    return to


def take(source: Path, target: Path) -> None:
    """The same file at another place."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def whole_or_nothing(out: Path, part: dict[str, object], fill: Callable[[Path], None]) -> None:
    """Fill a folder beside `out` and rename it when it is whole, with a note of where it came from."""
    beside = out.with_name(f"{out.name}.{os.getpid()}.part")
    try:
        beside.mkdir(parents=True)
        fill(beside)
        (beside / hub.ORIGIN).write_text(json.dumps(part, indent=1) + "\n", encoding="utf-8")
        if out.is_dir():
            out.rmdir()
        beside.rename(out)
    except OSError as error:
        raise CatalogError(f"cannot write {out}: {error.strerror or error}. Make room and run the same command again") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def write_part(data: hub.Dataset, out: Path, models: Sequence[str], tasks: Sequence[str]) -> None:
    """Write the runs that fit: small tables first, which say whose outcomes to fetch."""
    if not any(path.startswith("runs/") for path in data.files):
        raise CatalogError(f"{data} has no runs/*.parquet that say what there is: download it whole, without --models and --tasks")
    near = hub.fetch(data, lambda path: path.split("/")[0] not in FAR_TABLES)
    con = blank()
    with bounded(con):
        load(con, [Place(data.repo, near, far=data)])
    others = folders(con)
    keep(con, data, models, tasks)
    others -= folders(con)  # what lies anywhere else may be of the runs that are kept
    for table in (*SMALL_TABLES, "samples"):
        if con.sql(f"FROM {table} LIMIT 1").fetchall():
            rows = con.sql(f"SELECT {columns_of(table)} FROM {table} ORDER BY ALL").to_arrow_reader(BATCH["outcomes"])
            write(out / table / f"{table}.parquet", rows.cast(arrow_schema(table)))
    wanted = [path for path in data.files if path.split("/")[0] in FAR_TABLES and path.split("/")[1] not in others]
    whole = hub.fetch(data, set(wanted).__contains__)
    for path in wanted:
        take_rows(con, path.split("/")[0], whole / path, out / path)


def folders(con: duckdb.DuckDBPyConnection) -> set[str]:
    """The folders in which `collect` puts the outcomes of the models that have runs."""
    return {folder_of(model) for (model,) in con.sql("SELECT DISTINCT model_id FROM runs").fetchall()}


def keep(con: duckdb.DuckDBPyConnection, data: hub.Dataset, models: Sequence[str], tasks: Sequence[str]) -> None:
    """Delete every run that does not fit, and what then belongs to none.

    Raises:
        CatalogError: A pattern fits nothing, or no run fits all of them.
    """
    found = con.sql("SELECT DISTINCT model_id AS m, task_id AS t FROM runs JOIN itemsets USING (itemset_id)").to_arrow_table()
    con.register("found", found)
    for what, fits, patterns in (("model", MODEL_FITS, models), ("task", TASK_FITS, tasks)):
        query = f"SELECT p FROM (SELECT unnest($1::VARCHAR[]) AS p) WHERE NOT EXISTS (FROM found WHERE {fits})"
        if lost := con.execute(query, [list(patterns)]).fetchall():
            there = con.sql(f"SELECT DISTINCT {what[0]} FROM found ORDER BY ALL LIMIT 10").fetchall()
            raise CatalogError(f"no run of {data} fits {what} {lost[0][0]}. There are\n  " + "\n  ".join(name for (name,) in there))
    con.execute(
        f"""DELETE FROM runs WHERE run_id NOT IN (
               SELECT run_id FROM (SELECT run_id, model_id AS m, task_id AS t FROM runs JOIN itemsets USING (itemset_id))
               WHERE (len($1::VARCHAR[]) = 0 OR EXISTS (FROM unnest($1::VARCHAR[]) AS u(p) WHERE {MODEL_FITS}))
                 AND (len($2::VARCHAR[]) = 0 OR EXISTS (FROM unnest($2::VARCHAR[]) AS u(p) WHERE {TASK_FITS})))""",
        [list(models), list(tasks)],
    )
    if not con.sql("FROM runs LIMIT 1").fetchall():
        raise CatalogError(f"no run of {data} fits models {', '.join(models)} and tasks {', '.join(tasks)} at once")
    con.execute("""
        DELETE FROM itemsets WHERE itemset_id NOT IN (SELECT itemset_id FROM runs);
        DELETE FROM samples WHERE itemset_id NOT IN (SELECT itemset_id FROM runs);
        DELETE FROM protocols WHERE protocol_id NOT IN (SELECT protocol_id FROM runs);
        DELETE FROM tasks WHERE task_id NOT IN (SELECT task_id FROM itemsets);
        DELETE FROM categories WHERE task_id NOT IN (SELECT task_id FROM itemsets) OR map = 'paper';
        DELETE FROM models WHERE model_id NOT IN (SELECT model_id FROM runs);
        DELETE FROM pairs WHERE before_id NOT IN (SELECT model_id FROM models) OR after_id NOT IN (SELECT model_id FROM models)""")


def take_rows(con: duckdb.DuckDBPyConnection, table: str, source: Path, target: Path) -> None:
    """Copy the rows of the runs that are kept; the file itself where it has no others. Never more than a batch in memory."""
    card_of_checked(table, str(source))
    kept = "FROM read_parquet($1) SEMI JOIN runs USING (run_id)"
    try:
        n = con.execute(f"SELECT count(*) {kept}", [str(source)]).fetchall()[0][0]
        if n == pq.read_metadata(source).num_rows:
            take(source, target)
        elif n:
            rows = con.sql(f"SELECT {columns_of(table)} {kept}", params=[str(source)]).to_arrow_reader(BATCH[table])
            write(target, rows.cast(arrow_schema(table)))
            target.rename(target.with_name(f"{content_ids(target)[0][:16]}.parquet"))  # other rows, another name
    except duckdb.Error as error:
        raise CatalogError(unreadable(table, [source], columns_of(table)) or str(error)) from error


def write(path: Path, rows: pa.RecordBatchReader) -> None:
    """One Parquet file as `collect` writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(path, rows.schema, compression="zstd", version="2.6", store_schema=False) as writer:
        for batch in rows:
            writer.write_batch(batch)
        writer.add_key_value_metadata({"schema_version": SCHEMA_VERSION})
