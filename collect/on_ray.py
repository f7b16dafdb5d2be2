"""Collect on many GPUs or machines with Ray: an actor for each GPU (or for some CPUs), which writes what it collected itself.

The driver knows which runs there are and who is at them; no outcome passes through it. What fails or loses its worker is
tried once more, alone, on a new worker, and set aside with its traceback after that; the rest goes on.
"""

import gc
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from catalog.errors import CatalogError
from catalog.items import Itemset
from collect.cards import Job
from collect.claims import tidy
from collect.config import Plan
from collect.engines import Engine
from collect.engines.choice import EngineChoice
from collect.models import ModelSpec, locate
from collect.passes import pass_name, run_group
from collect.protocols import Ask, Protocol
from collect.run import check_settings, chosen_itemsets, grouped, jobs_of, missing_of, pair_rows, progress_bar
from collect.storage import Storage
from collect.store import check_folder, merge_pairs, run_file
from collect.work import Item, Schedule

COLOUR = re.compile(r"\x1b\[[\d;]*m")
PAIRS = "pairs/pairs.parquet"


@dataclass(frozen=True)
class Cluster:
    """Which Ray, and how it is cut into workers. address 'local' starts one here; workers None: as many as fit."""

    address: str = "local"
    workers: int | None = None
    cpus: float = 1


@dataclass
class Counts:
    """Runs written, there already, being collected by another process, and set aside."""

    done: int = 0
    there: int = 0
    elsewhere: int = 0
    aside: int = 0


class Worker:
    """What an actor does: holds one model at a time, collects, writes."""

    def __init__(self, make: EngineChoice, out: str) -> None:
        self.make, self.storage = make, Storage(out)
        self.model_id: str | None = None
        self.engine: Engine | None = None

    def jobs(self, spec: ModelSpec, sets: Sequence[Itemset], asks: Sequence[Ask]) -> tuple[str, list[Job], int]:
        """What a plan wants of a model, found where it will run: device and number format are this machine's.

        Returns:
            The model's id, jobs with runs that are missing, and the number of runs that are there.
        """
        located = locate(spec)
        engine = self.make(located)
        wanted = jobs_of(located, engine, sets, asks)
        missing = [(job, self.missing(job, engine)) for job in wanted]
        there = sum(len(job.protocols) - len(protocols) for job, protocols in missing)
        if spec.where == located.model_id.rpartition("@")[0]:  # of the Hub: every machine takes this commit
            spec = replace(spec, revision=located.model_id.rpartition("@")[2])
            located = replace(located, spec=spec)
        return located.model_id, [replace(job, located=located) for job, protocols in missing if protocols], there

    def missing(self, job: Job, engine: Engine) -> tuple[Protocol, ...]:
        """The job's protocols whose run is not whole in the storage."""
        if self.storage.here:
            return missing_of(self.storage.here, job, engine)
        path = {p: run_file(Path(), "outcomes", job.located.model_id, job.run_id(p)).as_posix() for p in job.protocols}
        return tuple(p for p in job.protocols if not self.storage.has(path[p]))

    def work(self, jobs: Sequence[Job], contributor: str | None) -> tuple[int, int]:
        """Collect jobs of one model and write their runs.

        Returns:
            Runs written, and runs that another process is collecting.

        Raises:
            CatalogError: The model is another one on this machine.
        """
        engine = self.engine_of(jobs[0])
        located = self.located
        with self.storage.folder() as folder:
            return run_group(folder, [replace(job, located=located) for job in jobs], engine, contributor, lambda n: None)

    def engine_of(self, job: Job) -> Engine:
        """The engine of a job's model: the one that is held, or a new one in its place."""
        if self.engine is None or self.model_id != job.located.model_id:
            self.engine = None
            free_memory()
            self.located = locate(job.located.spec)
            if self.located.model_id != job.located.model_id:
                raise CatalogError(
                    f"{job.located.spec.where} is {self.located.model_id} on this machine, {job.located.model_id} on another"
                )
            self.engine, self.model_id = self.make(self.located), job.located.model_id
        return self.engine


def free_memory() -> None:
    """Give back what the last model took."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


class Crew:
    """The actors, by number."""

    def __init__(self, ray: Any, cluster: Cluster, make: EngineChoice, out: str) -> None:
        found = ray.cluster_resources()
        gpus = int(found.get("GPU", 0))
        fit = gpus or max(1, int(found.get("CPU", 1) / cluster.cpus))
        if cluster.workers and cluster.workers > fit:
            raise CatalogError(
                f"--workers {cluster.workers}: {fit} fit ({gpus} GPUs, {found.get('CPU', 0):g} CPUs); the others would wait for ever"
            )
        n = cluster.workers or fit
        told = {"num_cpus": cluster.cpus, "num_gpus": 1 if gpus else 0}
        self.kind, self.task = ray.remote(**told)(Worker), (make, out)
        self.ray = ray
        self.actors: dict[int, Any] = {}
        for number in range(1, n + 1):
            self.hire(number)

    def hire(self, number: int) -> None:
        """A new worker of that number; the one there was is ended."""
        if number in self.actors:
            self.ray.kill(self.actors[number])
        self.actors[number] = self.kind.remote(*self.task)


def collect_on_ray(plan: Plan, out: str, make: EngineChoice, console: Console, cluster: Cluster) -> Counts:
    """Collect every run of the plan that is not there yet, on the workers of a Ray cluster.

    Args:
        plan: Models, items, protocols, pairs; paths must be the same on every machine.
        out: Catalog folder that every machine sees, or a URL that fsspec knows.
        make: Gives a worker its engine.
        console: Where progress goes (stderr).
        cluster: Which Ray, how many workers.

    Raises:
        CatalogError: Ray is not installed or out of reach, or anything a user can mend before the first run.
    """
    if cluster.cpus <= 0:
        raise CatalogError(f"--cpus-per-worker {cluster.cpus:g}: wanted more than 0")
    ray = imported()
    storage = Storage(out)
    sets = chosen_itemsets(plan, console.print)
    settings = check_folder(storage.here) if storage.here else {}
    begin(ray, cluster)
    try:
        crew, counts = Crew(ray, cluster, make, out), Counts()
        ids, jobs = planned(crew, plan, sets, counts)
        check_settings(jobs, settings)
        pairs = pair_rows(plan.pairs, ids)
        schedule = Schedule()
        schedule.add(grouped_by_model(jobs))
        drive(crew, schedule, plan.contributor, counts, console)
    finally:
        ray.shutdown()
    with storage.folder() as folder:
        storage.fetch(PAIRS, folder)
        merge_pairs(folder, pairs)
    put_aside(storage, schedule, console)
    counts.aside = sum(len(job.protocols) for job, _ in schedule.set_aside)
    if storage.here:
        tidy(storage.here)
    console.print(f"{len(crew.actors)} workers loaded {schedule.n_loads} models for {len(ids)}")
    return counts


def imported() -> Any:
    """Ray, or how to get it."""
    try:
        import ray
        import ray.exceptions
    except ModuleNotFoundError as error:
        raise CatalogError(f"--ray needs {error.name}, which is not installed: pip install 'forgetting-catalog[ray]'") from error
    return ray


def begin(ray: Any, cluster: Cluster) -> None:
    """Connect to a cluster, or start one on this machine.

    Raises:
        CatalogError: Nothing answers at the address.
    """
    if cluster.address == "local":
        ray.init(
            address="local",
            num_cpus=cluster.workers and math.ceil(cluster.workers * cluster.cpus),
            log_to_driver=False,
            include_dashboard=False,
        )
        return
    try:
        ray.init(address=cluster.address, log_to_driver=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        why = str(error).strip().splitlines()[0]
        raise CatalogError(
            f"no Ray cluster answers at {cluster.address} ({why:.200}): start one (ray start --head), or --ray alone"
        ) from error


def planned(crew: Crew, plan: Plan, sets: Sequence[Itemset], counts: Counts) -> tuple[dict[str, str], list[Job]]:
    """Have workers look what is missing of every model.

    Returns:
        Model name -> model_id, and the jobs to do.
    """
    numbers = list(crew.actors)
    items = crew.ray.put(sets)
    asked = [crew.actors[numbers[n % len(numbers)]].jobs.remote(spec, items, plan.asks) for n, spec in enumerate(plan.models)]
    try:
        answers = crew.ray.get(asked)
    except crew.ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, CatalogError):
            raise CatalogError(str(error.cause)) from error
        raise
    counts.there = sum(there for *_, there in answers)
    return {s.name: model_id for s, (model_id, *_) in zip(plan.models, answers, strict=True)}, [
        job for _, jobs, _ in answers for job in jobs
    ]


def grouped_by_model(jobs: Sequence[Job]) -> list[list[Job]]:
    """Jobs of one model that are asked together."""
    models = dict.fromkeys(job.located.model_id for job in jobs)
    return [group for model in models for group in grouped([job for job in jobs if job.located.model_id == model])]


def drive(crew: Crew, schedule: Schedule, contributor: str | None, counts: Counts, console: Console) -> None:
    """Keep every worker busy until nothing waits."""
    ray = crew.ray
    busy: dict[Any, tuple[int, Item]] = {}
    with progress_bar(console) as progress:
        total = sum(len(job.itemset.items) for items in schedule.waiting.values() for item in items for job in item.jobs)
        bar = progress.add_task(f"{len(crew.actors)} workers", total=total or None, visible=total > 0)
        while True:
            at_work = {number for number, _ in busy.values()}
            for number in crew.actors.keys() - at_work:
                if item := schedule.next(number):
                    busy[crew.actors[number].work.remote(item.jobs, contributor)] = (number, item)
            if not busy:
                return
            (ready,), _ = ray.wait(list(busy), num_returns=1)
            number, item = busy.pop(ready)
            over = finished(crew, schedule, ready, number, item, counts, console)
            progress.advance(bar, sum(len(job.itemset.items) for job in over))


def finished(crew: Crew, schedule: Schedule, ready: Any, number: int, item: Item, counts: Counts, console: Console) -> Sequence[Job]:
    """Take note of what became of an item. A worker whose work failed is replaced: a fault of its GPU would outlive the run.

    Returns:
        Jobs that are over.
    """
    faults = crew.ray.exceptions
    try:
        written, elsewhere = crew.ray.get(ready)
    except faults.RayActorError as error:
        what, why = "was lost", f"its worker was lost: {error}"
    except faults.RayTaskError as error:
        what, why = "failed", COLOUR.sub("", str(error))  # with the traceback of the worker
    else:
        counts.done, counts.elsewhere = counts.done + written, counts.elsewhere + elsewhere
        return item.jobs
    aside = schedule.failed(item, why)
    schedule.lost(number)
    crew.hire(number)
    n = sum(len(job.protocols) for job in item.jobs)
    then = "set aside" if aside else "tried again, pass by pass"
    console.print(f"worker {number} {what} at {n} runs of {item.model_id}: {then}", highlight=False, soft_wrap=True)
    return aside


def put_aside(storage: Storage, schedule: Schedule, console: Console) -> None:
    """Write down the traceback of every pass that failed for good, and say where."""
    for job, why in schedule.set_aside:
        protocols = ", ".join(p.setting for p in job.protocols)
        about = f"{job.located.model_id}\n{job.itemset.task_id}\n{protocols}, replicate {job.replicate}\n\n{why}\n"
        where = storage.note(f"set-aside/{pass_name(job)}.txt", about)
        last = why.strip().splitlines()[-1]
        console.print(
            f"set aside: {job.located.model_id} {job.itemset.task_id} ({last:.200}): {where}", highlight=False, soft_wrap=True, markup=False
        )
