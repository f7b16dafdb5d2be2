"""The one engine of the benchmarks: rows of a Hub dataset, or lines of a local folder, become items.

Both end in `finished`: refusals by id, order of options, category, source. Nothing is downloaded until a row is asked for.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from catalog.errors import CatalogError
from catalog.items import Item, canonical_task, fits, item_files, parse_item, read_lines
from collect.benchmarks import BENCHMARKS
from collect.benchmarks.table import Benchmark, Row, Task

Line = tuple[str, dict[str, Any]]  # where it stands, and the line
Found = tuple[list[Item], list[str]]  # items, and what was left out
Chosen = list[tuple[Benchmark, Task]]


def tasks_named(pattern: str) -> Chosen:
    """The tasks that a pattern fits: 'mmlu', 'mmlu/*', 'arc/challenge', '*'."""
    return [(b, task) for b in BENCHMARKS for task in b.tasks if fits(b.task_id(task), pattern)]


def benchmark_items(chosen: Chosen, from_jsonl: Path | None, skip_bad: bool, say: Callable[[str], None]) -> Found:
    """Items of benchmark tasks, from the Hub or from a local folder.

    Args:
        chosen: Tasks, as tasks_named gives them.
        from_jsonl: Folder with a folder of JSON Lines for every benchmark; None reads the Hub.
        skip_bad: Leave out items that cannot be asked, besides those a benchmark refuses by id.
        say: Takes a line for the user.

    Raises:
        CatalogError: The Hub is out of reach, the folder lacks a task, or items are bad.
    """
    items: list[Item] = []
    left_out: list[str] = []
    folders: dict[str, dict[str, list[Line]]] = {}
    revisions: dict[str, str] = {}
    for benchmark, task in chosen:
        if from_jsonl is None:
            revision = revisions.get(benchmark.name) or revisions.setdefault(benchmark.name, resolved(benchmark, say))
            lines: Iterable[Line] = hub_lines(benchmark, task, revision)
        else:
            revision = ""
            if benchmark.name not in folders:
                folders[benchmark.name] = local_lines(from_jsonl, benchmark)
            lines = lines_of_task(folders[benchmark.name], benchmark, task, from_jsonl)
        found, refused = finished(benchmark, task, lines, revision or None, skip_bad)
        items += found
        left_out += refused
    return items, left_out


def finished(benchmark: Benchmark, task: Task, lines: Iterable[Line], revision: str | None, skip_bad: bool = False) -> Found:
    """Items of one task, checked, with what the benchmark's file says about them.

    Raises:
        CatalogError: Items are bad that the benchmark does not refuse by id, an id is there twice, or one that it refuses is
            sound, so that the ids are not those the refusals were written for.
    """
    task_id, refusals = benchmark.task_id(task), benchmark.refused.get(task.subset, {})
    items: list[Item] = []
    left_out: list[str] = []
    bad: list[str] = []
    seen = set[tuple[str, bool]]()
    for where, line in lines:
        item_id = str(line.get("item_id"))
        try:
            item = parse_item(where, line)
        except CatalogError as error:
            expected = refusals.get(item_id)
            (left_out if expected else bad).append(f"{task_id} {item_id}: {expected}" if expected else str(error))
            continue
        if item_id in refusals:
            raise CatalogError(
                f"{where}: item {item_id} of {task_id} is refused by id ({refusals[item_id]}), but this one is sound: "
                "these rows are not in the published order. Read them with items = [...] instead"
            )
        if (item_id, item.example) in seen:
            bad.append(f"{where}: item {item_id} of {task_id} was there before")
            continue
        seen.add((item_id, item.example))
        items.append(
            replace(
                item,
                task_id=task_id,
                category=task.category,
                source=benchmark.hub if revision else item.source,
                split=task.split,
                source_revision=revision,
                permutation_seed=benchmark.permutation_seed,
                several=benchmark.several,
            )
        )
    if bad and not skip_bad:
        shown = "\n  ".join(bad[:20]) + (f"\n  and {len(bad) - 20} more" if len(bad) > 20 else "")
        raise CatalogError(f"{len(bad)} items of {task_id} cannot be used:\n  {shown}\nLeave them out with --skip-bad")
    return items, left_out + bad


# ---- a local folder ----------------------------------------------------------


def local_lines(folder: Path, benchmark: Benchmark) -> dict[str, list[Line]]:
    """task_id -> its lines, of all files in the benchmark's folder."""
    lines: dict[str, list[Line]] = {}
    if (folder / benchmark.name).is_dir():
        for file in item_files([folder / benchmark.name]):
            for where, line in read_lines(file):
                task_id, _ = canonical_task(str(line.get("task") or "?"), str(line.get("subset") or ""))
                lines.setdefault(task_id, []).append((where, line))
    return lines


def lines_of_task(lines: dict[str, list[Line]], benchmark: Benchmark, task: Task, folder: Path) -> list[Line]:
    """The task's lines, or an error that says what the folder has instead."""
    task_id = benchmark.task_id(task)
    if task_id not in lines:
        has = ", ".join(sorted(lines)[:10]) or f"no {benchmark.name}/*.jsonl"
        raise CatalogError(
            f"no items of {task_id} in {folder}: it has {has}. Leave the task out, or leave out from_jsonl to read {benchmark.hub}"
        )
    return lines[task_id]


# ---- the Hub -----------------------------------------------------------------


def mapped(benchmark: Benchmark, task: Task, rows: Iterable[Row], config: str = "") -> Iterator[Line]:
    """Rows of the Hub dataset in the shape of lines of items. Rows of a second configuration have ids of their own."""
    own = benchmark.columns.item_id
    prefix = f"{config}-" if len(task.configs) > 1 else ""
    for n, row in enumerate(rows):
        item_id = f"{prefix}{row[own] if own else n}"
        yield (
            f"{benchmark.hub} {config or task.subset} row {n}",
            {"task": benchmark.name, "subset": task.subset, "item_id": item_id, **benchmark.columns.item(row)},
        )


def hub_lines(benchmark: Benchmark, task: Task, revision: str) -> Iterator[Line]:
    """The task's rows from the Hub or its cache, then its solved examples."""
    for config in task.configs:
        yield from mapped(benchmark, task, hub_rows(benchmark, task, config, task.split, revision), config)
        if benchmark.examples_split:
            rows = hub_rows(benchmark, task, config, benchmark.examples_split, revision)
            yield from ((where, {**line, "example": True}) for where, line in mapped(benchmark, task, rows, config))


def hub_rows(benchmark: Benchmark, task: Task, config: str, split: str, revision: str) -> Iterable[Row]:
    """Rows of one split of one configuration at a commit.

    Raises:
        CatalogError: `datasets` is not installed, or the Hub gave no such rows.
    """
    try:
        import datasets
    except ModuleNotFoundError as error:
        raise CatalogError(
            "benchmarks from the Hub need datasets, which is not installed: pip install 'forgetting-catalog[collect]'"
        ) from error
    from httpx2 import TransportError  # comes with huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError

    files = {split: task.files.format(config=config)} if task.files else None
    name = None if files else config or None
    try:
        rows: Iterable[Row] = datasets.load_dataset(benchmark.hub, name, data_files=files, split=split, revision=revision)
    except (OSError, ValueError, HfHubHTTPError, TransportError, datasets.exceptions.DatasetsError) as error:
        raise unreachable(benchmark, error) from error
    return rows


def resolved(benchmark: Benchmark, say: Callable[[str], None]) -> str:
    """The commit to read: the pinned one, else the newest of its branch, which is said."""
    if benchmark.revision:
        return benchmark.revision
    from httpx2 import TransportError
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        commit = HfApi().dataset_info(benchmark.hub, revision=benchmark.branch).sha
    except (OSError, ValueError, HfHubHTTPError, TransportError) as error:
        raise unreachable(benchmark, error) from error
    say(f"{benchmark.hub}: no revision is pinned; this run reads and records commit {commit} of {benchmark.branch}")
    return str(commit)


def unreachable(benchmark: Benchmark, error: Exception) -> CatalogError:
    """What a user can do without the Hub."""
    reason = (str(error).strip().splitlines() or [""])[0]
    return CatalogError(
        f"the Hub gave no rows of {benchmark.hub} for {benchmark.name} ({type(error).__name__}: {reason:.200}). Gated datasets need their "
        "terms accepted and `hf auth login`; offline, give a folder of JSON Lines with from_jsonl (docs/benchmarks.md)"
    )
