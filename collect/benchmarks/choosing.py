"""Which tasks of a plan its own items hold, and which come from the benchmarks that `collect` reads itself."""

from collections.abc import Callable, Iterable
from pathlib import Path

from catalog.errors import CatalogError
from catalog.items import canonical_task, fits, item_files, read_items, read_lines
from collect.benchmarks.loading import Chosen, Found, benchmark_items, tasks_named
from collect.benchmarks.table import Benchmark, Task
from collect.config import Plan


def item_tasks(paths: Iterable[Path]) -> set[str]:
    """The tasks that files and folders of items hold."""
    return {
        canonical_task(str(line.get("task") or "?"), str(line.get("subset") or ""))[0]
        for file in item_files(paths)
        for _, line in read_lines(file)
    }


def parted(plan: Plan) -> tuple[list[str], Chosen]:
    """The plan's task patterns that its own items fit (or nothing fits), and the benchmark tasks of the others.

    With from_jsonl a benchmark's name means the benchmark, whatever the items hold.
    """
    if not any(tasks_named(pattern) for pattern in plan.tasks):
        return plan.tasks, []
    names = set() if plan.from_jsonl else item_tasks(plan.items)
    own: list[str] = []
    brought: dict[str, tuple[Benchmark, Task]] = {}
    for pattern in plan.tasks:
        held = any(fits(name, pattern) for name in names)
        if held or not tasks_named(pattern):
            own.append(pattern)
        else:
            brought |= {b.task_id(task): (b, task) for b, task in tasks_named(pattern)}
    return own, list(brought.values())


def chosen_items(plan: Plan, say: Callable[[str], None]) -> Found:
    """Every item of the plan's tasks, and what was left out.

    Raises:
        CatalogError: No task fits a pattern, items are bad, or the Hub or a folder lacks them.
    """
    own, brought = parted(plan)
    if plan.from_jsonl and not brought:
        raise CatalogError(
            f"from_jsonl = {plan.from_jsonl} wants tasks of benchmarks, found {', '.join(plan.tasks) or 'none'}: `collect tasks`"
        )
    if plan.from_jsonl and not plan.from_jsonl.is_dir():
        raise CatalogError(f"from_jsonl: no folder at {plan.from_jsonl}; wanted one with BENCHMARK/*.jsonl (docs/benchmarks.md)")
    items, left_out = read_items(plan.items, plan.skip_bad, own) if own or not brought else ([], [])
    more, refused = benchmark_items(brought, plan.from_jsonl, plan.skip_bad, say)
    return items + more, left_out + refused
