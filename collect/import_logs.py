"""`collect import`: logs of other harnesses become runs of a catalog folder.

Every file is read by a worker into a staging folder; the parent alone moves finished runs into the catalog, in the
order of the files, so that a bad file, a killed import or two files of one run leave nothing half-written.
"""

import multiprocessing
import os
import shutil
import tempfile
import threading
import time
import zipfile
import zlib
from collections import Counter
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
from collect.importers import Log, NotALog, Told
from collect.importers.detect import FORMATS, files_in, format_of
from collect.importers.runs import DETERMINISTIC, Group, Run, group_runs
from collect.importers.spool import Spool, spooled
from collect.importers.values import encodable, stored_gold
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
                if row.gold is not None:
                    own = row.item is not None or row.n_options is not None
                    row.gold = [str(encodable(gold if own else stored_gold(gold))) for gold in row.gold]
                spool.add(row)
            refuse_merging(spool, told, path)
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
    except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
        room = f"in {tempfile.gettempdir()} (another folder: TMPDIR=...)"
        result.state, result.reason, result.runs = "refused", f"{path.name}: no room {room}: {str(error).splitlines()[0]}", []
    except SHAPES as error:
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        result.state, result.runs = "refused", []
        result.reason = f"{path.name}: at or after {last}, a record is not of the shape of {result.format or 'a log'} ({why})"
    return result


_read_bytes: Any = None  # shared counter of the workers


def start_worker(counter: Any) -> None:
    """Give a worker the counter its reading is added to."""
    global _read_bytes  # noqa: PLW0603 - a pool's initializer has no other way
    _read_bytes = counter
    if multiprocessing.parent_process() is not None:
        threading.Thread(target=die_with, args=(os.getppid(),), daemon=True).start()


def die_with(parent: int) -> None:
    """End this worker when its parent is gone: a killed import leaves nobody reading."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def tick(n: int) -> None:
    """Count bytes read."""
    if _read_bytes is not None:
        with _read_bytes.get_lock():
            _read_bytes.value += n


# what a file of somebody else may raise: a field may be missing, of another type, or out of range
SHAPES = (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError, EOFError, NotImplementedError, RuntimeError,
          zlib.error, duckdb.Error)  # fmt: skip


def refuse_merging(spool: Spool, told: Told, path: Path) -> None:
    """Refuse one told name for several models or tasks of a file.

    Raises:
        CatalogError: The file holds several, and the user gave one name for them.
    """
    for what, name, found in (("model", told.model, {m for m, _ in spool.groups}), ("task", told.task, {t for _, t in spool.groups})):
        if name and len(found) > 1:
            held = ", ".join(sorted(map(str, found)))[:200]
            raise CatalogError(f"{path.name} holds {len(found)} {what}s ({held}): one --{what} cannot name them all; leave it away")


def import_logs(paths: Iterable[Path], out: Path, told: Told, console: Console, jobs: int | None = None) -> list[Result]:
    """Import every log among `paths` into the catalog folder `out`.

    Returns:
        What became of every file, in order. A bad file is refused and the others go on.

    Raises:
        CatalogError: A path is missing, `out` is no catalog folder, or a worker died.
    """
    check_folder(out)
    files = list(files_in(paths))
    try:
        out.mkdir(parents=True, exist_ok=True)
        remove_stale(out)
        staging = Path(tempfile.mkdtemp(prefix=f".importing-{os.getpid()}-", dir=out))
    except OSError as error:
        raise CatalogError(f"cannot write into {out}: {error.strerror}") from error
    try:
        return [move(result, staging / str(n), out) for n, result in enumerate(read_all(files, told, staging, console, jobs))]
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def remove_stale(out: Path) -> None:
    """Remove staging folders of imports that were killed."""
    for folder in out.glob(".importing-*"):
        pid = folder.name.split("-")[1]
        if pid.isdigit() and not alive(int(pid), folder):
            shutil.rmtree(folder, ignore_errors=True)


def alive(pid: int, folder: Path) -> bool:
    """Whether an import may still be writing there: its process lives; where that cannot be asked safely, for a day."""
    if os.name != "posix":
        return time.time() - folder.stat().st_mtime < ABANDONED_S
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


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
                pool.shutdown(wait=True, cancel_futures=True)
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
    conflicts, kept = [], []
    for run in result.runs:
        found = run_file(out, "outcomes", run.model_id, run.run_id)
        new = run_file(staging, "outcomes", run.model_id, run.run_id)
        if found.exists():
            if new.exists() and (differ := differing(found, new)):
                source = read_card(found)["runs"][0].get("source")
                conflicts.append(f"{run.setting}, replicate {run.replicate}: {differ} (from {source}). {way_out(run)}")
            else:
                kept.append(run)
            continue
        itemset = out / "samples" / f"{run.itemset_id}.parquet"
        if not itemset.exists():
            place(staging / "samples" / itemset.name, itemset)
        elif (staged := staging / "samples" / itemset.name).exists() and (n := other_golds(itemset, staged)):
            result.notes.append(f"{run.task_id}: {n} items have another gold here than in the logs before; theirs is kept")
            staged.unlink()
        for table in ("option_scores", "generations", "outcomes"):
            part = run_file(staging, table, run.model_id, run.run_id)
            if part.exists():
                place(part, run_file(out, table, run.model_id, run.run_id))
        kept.append(run)
        result.new.add(run.run_id)
    if conflicts:
        result.state = "refused"
        result.reason = f"its model, items and protocol are those of a run that is there, its outcomes are not: {'; '.join(conflicts)}"
    result.runs = kept
    shutil.rmtree(staging, ignore_errors=True)
    return result


def way_out(run: Run) -> str:
    """What to type about a run that is there with other outcomes."""
    if run.decoding in DETERMINISTIC:
        return "Nothing was sampled, so one of the two is another model or setup: name it with --model, or import it into another --out"
    return "If it is another sampling of the same, number it: --replicate 1"


def other_golds(known: Path, new: Path) -> int:
    """How many items of one itemset have another gold in a second file of it."""
    one, two = (pq.read_table(path, columns=["gold"])["gold"].to_pylist() for path in (known, new))
    return sum(a != b for a, b in zip(one, two, strict=False))


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
    counted = [
        f"{n} file{'' if n == 1 else 's'} {word}"
        for state, word in words.items()
        if (n := sum(r.state == state for r in results)) or state == "imported"
    ]
    new = sum(len(r.new) for r in results)
    formats = Counter(r.format for r in results if r.state == "imported")
    if formats:
        counted[0] += f" ({', '.join(f'{n} {name}' for name, n in sorted(formats.items()))})"
    return f"{', '.join(counted)}; {new} new run{'' if new == 1 else 's'} in {out}"
