"""Run a plan: every missing run once, one whole file each, with a progress bar; a second call does nothing and says so."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from catalog.errors import CatalogError
from catalog.items import Itemset, itemsets
from collect.benchmarks.choosing import chosen_items
from collect.cards import BEHAVIOURAL, Job
from collect.claims import forget, tidy
from collect.config import Plan
from collect.engines import Asked, Engine
from collect.extract.answers import numeric
from collect.models import Located, ModelSpec, locate
from collect.passes import pass_name, run_group
from collect.protocols import LETTERS, Ask, Protocol
from collect.shots import with_examples
from collect.store import check_folder, merge_pairs, read_card, run_file
from collect.work import Shard, share

MakeEngine = Callable[[Located], Engine]
GROUP = 512  # items asked together, unless one task has more


def chosen_itemsets(plan: Plan, say: Callable[[str], None]) -> list[Itemset]:
    """The plan's items, by task; what was left out is said.

    Raises:
        CatalogError: Items are bad, no task fits, or a task's items name several categories.
    """
    items, left_out = chosen_items(plan, say)
    if left_out:
        say(f"left out {len(left_out)} items that cannot be used:\n  " + "\n  ".join(left_out))
    sets = itemsets(items, plan.limit)
    if not sets:
        raise CatalogError("nothing to ask: every item is marked as an example")
    for itemset in sets:
        categories = sorted({item.category for item in itemset.items if item.category})
        if len(categories) > 1:
            raise CatalogError(
                f"task {itemset.task_id} has items of {len(categories)} categories ({', '.join(categories)}): one task, one category"
            )
    return sets


def jobs_of(located: Located, engine: Asked, sets: Sequence[Itemset], asks: Sequence[Ask]) -> list[Job]:
    """Every pass the plan wants of one model. Option scoring skips tasks that have free-form items."""
    jobs = []
    for ask in asks:
        for itemset in sets:
            if ask not in asked_of(located.spec, engine.has_template, itemset.task_id, asks):
                continue
            free = any(item.answer == "free" for item in itemset.items)
            if free and not ask.generates:
                continue
            protocols = tuple(settled(ask, engine, located, itemset))
            if protocols[0].lettered and (wide := [i for i in itemset.items if len(i.choices) > len(LETTERS)]):
                raise CatalogError(
                    f"{wide[0].where}: {len(wide[0].choices)} options, more than there are letters: use answer_with = 'texts'"
                )
            replicates = range(ask.replicates if protocols[0].varies else 1)
            jobs += [Job(located, itemset, protocols, replicate) for replicate in replicates]
    return jobs


def asked_of(spec: ModelSpec, has_template: bool, task_id: str, asks: Sequence[Ask]) -> list[Ask]:
    """The ways a model is asked a task: those made for its kind and the task, and one of them under one setting."""
    if task_id in BEHAVIOURAL and not spec.behavioural:
        return []
    kind = spec.description.get("kind") or ("instruct" if has_template else "base")
    fit = [ask for ask in asks if ask.wanted_of(kind, task_id)]
    return [ask for n, ask in enumerate(fit) if not any(a.narrowed and a.setting and a.setting == ask.setting for a in fit[:n])]


def settled(ask: Ask, engine: Asked, located: Located, itemset: Itemset) -> list[Protocol]:
    """The protocols of a pass. Where a task's gold always stands first, listed options are shuffled.

    A preference for the first position would otherwise pass for knowledge, and the exchangeable estimate would fail.
    """
    protocols = ask.settle(engine.has_template, engine.dtype, located.spec.where)
    protocols = [with_examples(protocol, ask, itemset) for protocol in protocols]
    if ask.match == "numeric" and (odd := [i for i in itemset.items if not i.choices and not numeric(i.gold)]):
        raise CatalogError(f"{odd[0].where}: match = 'numeric' wants numbers, its answer is {', '.join(map(str, odd[0].gold))!r:.60}")
    golds = {item.gold for item in itemset.items if item.choices}
    recorded = any(item.permutation_seed is not None for item in itemset.items)
    if recorded or (len(itemset.items) >= 20 and len(golds) == 1):
        protocols = [replace(p, option_order="shuffled") if p.lists_options else p for p in protocols]
    return protocols


def missing_of(out: Path, job: Job, engine: Engine) -> tuple[Protocol, ...]:
    """The job's protocols whose run is not whole on disk.

    Raises:
        CatalogError: A run of that id was made with another chat template.
    """
    missing = []
    for protocol in job.protocols:
        path = run_file(out, "outcomes", job.located.model_id, job.run_id(protocol))
        if not path.exists():
            missing.append(protocol)
            continue
        had = read_card(path)["runs"][0].get("chat_template_sha256")
        if protocol.template == "model" and had != engine.chat_template_sha256:
            raise CatalogError(
                f"{path} was collected from {job.located.model_id} with another chat template: the weights are the same, "
                "the tokenizer is not. Give the model another name (ID=PATH), or collect into another folder"
            )
    return tuple(missing)


def collect(plan: Plan, out: Path, make_engine: MakeEngine, console: Console, shard: Shard | None = None) -> tuple[int, int, int]:
    """Collect every run of the plan that is not there yet and that no other process is collecting.

    Args:
        plan: Models, items, protocols, pairs.
        out: Catalog folder; made where missing.
        make_engine: Gives the engine for a located model; weights load only if a run is missing.
        console: Where progress goes (stderr).
        shard: Only this share of the passes.

    Returns:
        Number of runs collected, of runs that were there already, and of runs that another process is collecting.

    Raises:
        CatalogError: Anything a user can mend; runs collected before stay.
    """
    sets = chosen_itemsets(plan, console.print)
    settings = check_folder(out)
    located = [locate(spec) for spec in plan.models]
    pairs = pair_rows(plan.pairs, {m.spec.name: m.model_id for m in located})
    mine = names_in(shard, [job for m in located for job in jobs_of(m, make_engine(m), sets, plan.asks)]) if shard else None
    done = there = elsewhere = 0
    with progress_bar(console) as progress:
        bar = progress.add_task("", total=None)
        for number, model in enumerate(located, 1):
            engine = make_engine(model)
            wanted = jobs_of(model, engine, sets, plan.asks)
            check_settings(wanted, settings)
            wanted = [job for job in wanted if mine is None or pass_name(job) in mine]
            jobs = [(job, missing_of(out, job, engine)) for job in wanted]
            todo = [(job, protocols) for job, protocols in jobs if protocols]
            for job in (job for job, protocols in jobs if not protocols):
                forget(out, pass_name(job))
            there += sum(len(job.protocols) for job, _ in jobs) - sum(len(protocols) for _, protocols in todo)
            progress.reset(
                bar,
                total=sum(len(job.itemset.items) for job, _ in todo) or None,
                description=f"{model.spec.name} ({number}/{len(located)})",
            )
            for group in grouped([job for job, _ in todo]):
                written, others = run_group(out, group, engine, plan.contributor, lambda n: progress.advance(bar, n))
                done, elsewhere = done + written, elsewhere + others
            progress.update(bar, visible=bool(todo))
    if not done + there + elsewhere and not shard:
        free = ", ".join(itemset.task_id for itemset in sets if any(item.answer == "free" for item in itemset.items))
        raise CatalogError(f"nothing to ask: options cannot be scored in tasks with free-form items ({free}). Ask them with --protocol cot")
    merge_pairs(out, pairs)
    tidy(out)
    return done, there, elsewhere


def names_in(shard: Shard, jobs: Sequence[Job]) -> set[str]:
    """Names of the passes of a share."""
    return {pass_name(job) for job in share(jobs, shard)}


def check_settings(jobs: Sequence[Job], settings: dict[str, str]) -> None:
    """One way of asking has one name: `setting` is no part of a protocol's id, two names would be two rows of one id.

    Raises:
        CatalogError: A protocol of the jobs has another setting in this plan, or in the folder.
    """
    for protocol in (protocol for job in jobs for protocol in job.protocols):
        had = settings.setdefault(protocol.protocol_id, protocol.setting)
        if had != protocol.setting:
            raise CatalogError(
                f"the same way of asking is called {had!r} and {protocol.setting!r}: give it one setting (there or in another folder)"
            )


def progress_bar(console: Console) -> Progress:
    """Model, bar, items done, items per second, time left."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("items"),
        Speed("{task.speed}"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    return Progress(*columns, console=console)


class Speed(TextColumn):
    """Items per second, two digits."""

    def render(self, task: Any) -> Any:
        """The speed of the bar's task, over its last finished batches."""
        speed = task.finished_speed or task.speed
        return f"{speed:.3g} items/s" if speed else "- items/s"


def pair_rows(pairs: Sequence[dict[str, Any]], ids: dict[str, str]) -> list[dict[str, Any]]:
    """Declared pairs as rows of `pairs`.

    Raises:
        CatalogError: A pair is of one model with itself, or declared twice.
    """
    rows: list[dict[str, Any]] = []
    for pair in pairs:
        told = {key: value for key, value in pair.items() if key not in ("before", "after")}
        ends = {"before_id": ids[pair["before"]], "after_id": ids[pair["after"]]}
        if ends["before_id"] == ends["after_id"]:
            raise CatalogError(f"[[pairs]] {pair['before']} -> {pair['after']} are the same weights ({ends['before_id']})")
        if any(row["before_id"] == ends["before_id"] and row["after_id"] == ends["after_id"] for row in rows):
            raise CatalogError(f"[[pairs]] {pair['before']} -> {pair['after']} is declared twice")
        rows.append({"pair_id": f"{pair['before']} -> {pair['after']}", **ends, **told})
    return rows


def grouped(jobs: Sequence[Job], size: int = GROUP) -> list[list[Job]]:
    """Jobs asked the same way, gathered up to `size` items: many small tasks fill batches that one would not."""
    groups: list[list[Job]] = []
    for job in sorted(jobs, key=lambda job: (job.protocols[0].decoding, job.protocols[0].protocol_id)):
        n = len(job.itemset.items)
        last = groups[-1] if groups else []
        if last and last[0].protocols[0] == job.protocols[0] and sum(len(j.itemset.items) for j in last) + n <= size:
            last.append(job)
        else:
            groups.append([job])
    return groups
