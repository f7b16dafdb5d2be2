"""`collect import`: logs of other harnesses become runs of a catalog folder.

Every file is read by a worker into a staging folder; the parent alone moves finished runs into the catalog, in the
order of the files, so that a bad file, a killed import or two files of one run leave nothing half-written.
"""

import multiprocessing
import os
import shutil
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from catalog.errors import CatalogError
from collect.importers import Log, Told
from collect.importers.detect import FORMATS, NotALog, files_in, format_of
from collect.importers.runs import Group, Run, group_runs
from collect.importers.spool import spooled
from collect.importers.values import encodable
from collect.store import check_folder, read_card, run_file

ABANDONED_S = 86_400  # a staging folder untouched for a day belongs to no import that is alive


@dataclass
class Result:
    """What became of one file. state: imported, beside (read along), skipped (no log) or refused (cannot be taken)."""

    path: Path
    format: str = ""
    state: str = "imported"
    reason: str = ""
    runs: list[Run] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    new: set[int] = field(default_factory=set)  # run ids that were not there before


def read_log(path: Path, named: bool, told: Told, staging: Path) -> Result:
    """Read one file into the staging folder; what is wrong with it becomes its reason."""
    result, last = Result(path), "its first record"
    try:
        result.format = format_of(path, told)
        log: Log = FORMATS[result.format].open_log(path, told, tick)
        with spooled() as spool:
            for row in log.rows:
                last = row.where
                row.text, row.source_id, row.error = (encodable(text) for text in (row.text, row.source_id, row.error))
                row.gold = None if row.gold is None else [str(encodable(gold)) for gold in row.gold]
                spool.add(row)
            for (model, task), number in spool.groups.items():
                result.runs += group_runs(Group(spool, log, log.about(model, task), told, staging), number)
        result.notes = log.notes
    except NotALog as error:
        result.state, result.reason = "refused" if named and error.kind == "shape" else "skipped", str(error)
        result.state = "beside" if error.kind == "beside" else result.state
    except CatalogError as error:
        result.state, result.reason, result.runs = "refused", str(error), []
    except (UnicodeDecodeError, OSError, pa.ArrowException, zipfile.BadZipFile) as error:
        result.state, result.reason, result.runs = "refused", f"{path.name} cannot be read: {str(error).splitlines()[0]}", []
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, duckdb.Error) as error:  # somebody else's file: anything may lack
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        result.state, result.runs = "refused", []
        result.reason = f"{path.name}: at or after {last}, a record is not of the shape of {result.format or 'a log'} ({why})"
    return result


_read_bytes: Any = None  # shared counter of the workers


def start_worker(counter: Any) -> None:
    """Give a worker the counter its reading is added to."""
    global _read_bytes  # noqa: PLW0603 - a pool's initializer has no other way
    _read_bytes = counter


def tick(n: int) -> None:
    """Count bytes read."""
    if _read_bytes is not None:
        with _read_bytes.get_lock():
            _read_bytes.value += n


def import_logs(paths: Iterable[Path], out: Path, told: Told, console: Console, jobs: int | None = None) -> list[Result]:
    """Import every log among `paths` into the catalog folder `out`.

    Returns:
        What became of every file, in order. A bad file is refused and the others go on.

    Raises:
        CatalogError: A path is missing, `out` is no catalog folder, or a worker died.
    """
    check_folder(out)
    files = list(files_in(paths))
    out.mkdir(parents=True, exist_ok=True)
    remove_stale(out)
    staging = Path(tempfile.mkdtemp(prefix=".importing-", dir=out))
    try:
        return [move(result, staging / str(n), out) for n, result in enumerate(read_all(files, told, staging, console, jobs))]
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def remove_stale(out: Path) -> None:
    """Remove staging folders of imports that were killed."""
    for folder in out.glob(".importing-*"):
        if time.time() - folder.stat().st_mtime > ABANDONED_S:
            shutil.rmtree(folder, ignore_errors=True)


def read_all(files: list[tuple[Path, bool]], told: Told, staging: Path, console: Console, jobs: int | None) -> Iterator[Result]:
    """Results in the order of the files, read by several processes, with a bar over the bytes."""
    jobs = min(jobs or os.cpu_count() or 1, len(files))
    context = multiprocessing.get_context("spawn")
    counter = context.Value("q", 0)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("reading", total=sum(path.stat().st_size for path, _ in files))
        if jobs <= 1:
            start_worker(counter)
            for n, (path, named) in enumerate(files):
                yield read_log(path, named, told, staging / str(n))
                progress.update(bar, completed=counter.value)
            return
        with ProcessPoolExecutor(jobs, mp_context=context, initializer=start_worker, initargs=(counter,)) as pool:
            futures = [pool.submit(read_log, path, named, told, staging / str(n)) for n, (path, named) in enumerate(files)]
            try:
                for future in futures:
                    yield waited(future, lambda: progress.update(bar, completed=counter.value))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def waited(future: "Future[Result]", meanwhile: Any) -> Result:
    """The future's result; the bar moves while it is waited for."""
    while not future.done():
        time.sleep(0.05)
        meanwhile()
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise CatalogError("a worker died, probably for want of memory: what was finished is kept; try again with --jobs 1") from error


def move(result: Result, staging: Path, out: Path) -> Result:
    """Move a file's runs into the catalog; a run that is there with other outcomes refuses them by name."""
    conflicts = []
    for run in result.runs:
        found = run_file(out, "outcomes", run.model_id, run.run_id)
        new = run_file(staging, "outcomes", run.model_id, run.run_id)
        if found.exists():
            if differ := differing(found, new):
                conflicts.append(f"{run.setting}, replicate {run.replicate}: {differ} (from {read_card(found)['runs'][0].get('source')})")
            continue
        itemset = out / "samples" / f"{run.itemset_id}.parquet"
        if not itemset.exists():
            place(staging / "samples" / itemset.name, itemset)
        for table in ("option_scores", "generations", "outcomes"):
            part = run_file(staging, table, run.model_id, run.run_id)
            if part.exists():
                place(part, run_file(out, table, run.model_id, run.run_id))
        result.new.add(run.run_id)
    if conflicts:
        result.state = "refused"
        result.reason = f"its model, items and protocol are those of a run that is there, its outcomes are not: {'; '.join(conflicts)}. " \
                        "If it is another sampling of the same, number it: --replicate 1"  # fmt: skip
    shutil.rmtree(staging, ignore_errors=True)
    return result


def place(part: Path, path: Path) -> None:
    """Move a whole file to where it belongs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part.replace(path)


def differing(found: Path, new: Path) -> str | None:
    """How two files of outcomes differ; None if they say the same."""
    names = ["item", "correct", "predicted", "status"]
    one, two = (pq.read_table(path, columns=names).sort_by("item").to_pylist() for path in (found, new))
    n = sum(a != b for a, b in zip(one, two, strict=False)) + abs(len(one) - len(two))
    return f"{n} of {max(len(one), len(two))} outcomes differ" if n else None


def summary(results: Iterable[Result]) -> tuple[list[str], list[list[Any]]]:
    """Columns and rows of the closing table: one row a format, model and setting."""
    columns = ["format", "model", "setting", "tasks", "runs", "items", "measured", "correct_pct", "new", "already_there"]
    groups: dict[tuple[str, str, str], list[tuple[Run, Result]]] = {}
    for result in results:
        for run in result.runs:
            groups.setdefault((result.format, run.model_id, run.setting), []).append((run, result))
    rows = []
    for key, found in sorted(groups.items()):
        runs = [run for run, _ in found]
        measured = sum(r.n_measured for r in runs)
        percent = round(100 * sum(r.n_correct for r in runs) / measured, 1) if measured else None
        new = sum(run.run_id in result.new for run, result in found)
        rows.append(
            [*key, len({r.task_id for r in runs}), len(runs), sum(r.n_items for r in runs), measured, percent, new, len(runs) - new]
        )
    return columns, rows


def notes_of(results: Iterable[Result]) -> list[str]:
    """Notes and refusals, file by file; equal ones once, with the number of files."""
    said: dict[str, list[Path]] = {}
    for result in results:
        for note in result.notes:
            said.setdefault(f"note: {note}", []).append(result.path)
        if result.state in ("skipped", "refused"):
            said.setdefault(f"{result.state}: {result.reason}", []).append(result.path)
    return [f"{text}\n    {paths[0]}" + (f" and {len(paths) - 1} more" if len(paths) > 1 else "") for text, paths in said.items()]


def closing(results: list[Result], out: Path) -> str:
    """The last line: how many files became what, and how many runs are new."""
    words = {"imported": "imported", "beside": "read along", "skipped": "skipped", "refused": "refused"}
    counted = [f"{n} files {word}" for state, word in words.items() if (n := sum(r.state == state for r in results)) or state == "imported"]
    return f"{', '.join(counted)}; {sum(len(r.new) for r in results)} new runs in {out}"
