"""Command line of `collect`: writes catalogs."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catalog.errors import CatalogError

if TYPE_CHECKING:
    from collect.config import Plan
    from collect.engines.choice import EngineChoice
    from collect.models import ModelSpec
    from collect.publishing.settling import Sent


def run(args: argparse.Namespace) -> int:
    """Run models on benchmark items and write what they got right, one Parquet file a run."""
    from rich.console import Console

    from collect.run import collect

    if args.dry_run:
        return show_dry_run(args)
    if args.ray is not None:
        return run_on_ray(args)
    if "://" in str(args.out):
        raise CatalogError(f"--out {args.out}: only --ray writes to a URL; name a folder, and send it with collect publish")
    from collect.work import shard_named

    shard = shard_named(args.shard) if args.shard else None
    done, there, elsewhere = collect(plan_of(args), Path(args.out), engine_maker(args), Console(stderr=True), shard)
    return told_of_runs(args, done, there, elsewhere)


def run_on_ray(args: argparse.Namespace) -> int:
    """Run the plan on the workers of a Ray cluster."""
    from rich.console import Console

    if args.shard:
        raise CatalogError("--ray shares the work out itself: leave out --shard")
    from collect.on_ray import Cluster, collect_on_ray

    cluster = Cluster(args.ray, args.workers, args.cpus_per_worker)
    plan = plan_of(args)  # a worker's current folder is another one: paths are told whole
    here = [replace(m, where=str(Path(m.where).resolve())) if Path(m.where).exists() else m for m in plan.models]
    out = str(args.out) if "://" in str(args.out) else str(Path(args.out).resolve())
    counts = collect_on_ray(replace(plan, models=here), out, engine_maker(args), Console(stderr=True), cluster)
    status = told_of_runs(args, counts.done, counts.there, counts.elsewhere, counts.aside)
    if counts.aside:
        print(f"{counts.aside} runs were set aside: their tracebacks are in {args.out}/set-aside", file=sys.stderr)
    return 1 if counts.aside else status


def told_of_runs(args: argparse.Namespace, done: int, there: int, elsewhere: int, aside: int = 0) -> int:
    """Say what came of a call."""
    if elsewhere:
        print(f"{elsewhere} runs are being collected by another process: collect status {args.out}", file=sys.stderr)
    if done:
        print(f"{done} runs collected into {args.out}, {there} were there already. Next: catalog pairs --from {args.out}", file=sys.stderr)
    elif not elsewhere and not aside:
        print(f"nothing to do: all {there} runs are in {args.out}", file=sys.stderr)
    return 0


def show_dry_run(args: argparse.Namespace) -> int:
    """Print what a plan would take: measured on models that are here, else estimated from constants, a row a run."""
    from rich.console import Console

    from collect import estimate

    plan = plan_of(args)
    if not estimate.away(plan):
        from collect.dry_run import COLUMNS, dry_run

        show(COLUMNS, dry_run(plan, Path(args.out), engine_maker(args), Console(stderr=True)))
        return 0
    rows = estimate.estimated(plan)
    show(estimate.COLUMNS, rows)
    print(estimate.closing(rows), file=sys.stderr)
    return 0


def status(args: argparse.Namespace) -> int:
    """Show how far a runs folder is: runs done, running, failed (or killed) and, with a plan, missing."""
    from collect.config import read_plan
    from collect.status import matrix, states

    found, reasons = states(args.runs, read_plan(args.plan) if args.plan else None)
    show(*matrix(found))
    for reason in reasons:
        print(reason, file=sys.stderr)
    return 0


def protocols(args: argparse.Namespace) -> int:
    """List every way of asking with the exact prompt of one example; --rules: the rules that read answers."""
    from collect.list_protocols import described, rule_lines

    print(rule_lines() if args.rules else described(args.names))
    return 0


def regrade(args: argparse.Namespace) -> int:
    """Read kept generations again with other rules; no model is asked. Counts what changed, by status before and after."""
    from collect.config import SHIPPED_ITEMS
    from collect.extract import EXTRACTION
    from collect.regrade import COLUMNS
    from collect.regrade import regrade as read_again

    rules = args.rules or EXTRACTION
    rows, n, why = read_again(args.runs, args.items or [SHIPPED_ITEMS], rules, args.setting, args.dry_run)
    show(COLUMNS, rows)
    for reason, count in why.items():
        print(f"left alone: {count} {reason}", file=sys.stderr)
    print(f"{n} runs read by rules {rules}{': nothing was written' if args.dry_run else f' in {args.runs}'}", file=sys.stderr)
    return 0


def tasks(args: argparse.Namespace) -> int:
    """List the benchmark tasks that `collect run` reads itself: items, options per item, categories, licence, source."""
    from collect.benchmarks.listing import COLUMNS, listing

    rows = listing(args.names)
    if sys.stdout.isatty():  # a terminal is narrow: source and revision are in the pipe's columns
        show(COLUMNS[:7], [row[:7] for row in rows])
    else:
        show(COLUMNS, rows)
    print(f"{len(rows)} tasks, {sum(row[1] for row in rows):,} items", file=sys.stderr)
    return 0


def show(columns: list[str], rows: list[list[Any]]) -> None:
    """A table on a terminal, CSV in a pipe."""
    from catalog.output import print_table, write_rows

    (print_table if sys.stdout.isatty() else write_rows)(columns, rows)


# of collect/importers/detect.py, which is not imported for a line of help
FORMAT_NAMES = ("lm-eval", "lm-eval-v0.3", "lighteval", "inspect", "every-eval-ever", "openai-jsonl", "table")
# options a plan takes the place of
MODELS = ("models", "lineage", "revisions")
HOW = ("temperature", "top_p", "max_new_tokens", "shots", "answer_with", "option_order", "template", "stop", "replicates", "examples",
       "match", "extraction")  # fmt: skip
ASKED = (*MODELS, "protocol", *HOW)
# of collect/protocols.py and collect/extract, which are not imported for a line of help
STYLE_NAMES = ("option-text", "option-letter", "cot", "cot-line", "direct")
RULE_VERSIONS = ("1", "2")


def engine_maker(args: argparse.Namespace) -> "EngineChoice":
    """How to make an engine, as the options say."""
    from collect.engines.choice import EngineChoice

    return EngineChoice(args.engine, args.device, args.dtype, args.trust_remote_code)


def models_of(args: argparse.Namespace) -> "tuple[list[ModelSpec], list[dict[str, Any]]]":
    """The models the options name, and the pairs of --lineage: from the one other model to each checkpoint, else from the first."""
    from collect.config import model_from_argument
    from collect.lineages import Lineage, expanded

    models = [model_from_argument(m) for m in args.models or []]
    if not args.lineage:
        if args.revisions:
            raise CatalogError("--revisions are those of a Hub id: add --lineage ORG/NAME")
        return models, []
    name = Path(args.lineage).expanduser().resolve().name
    checkpoints, pairs = expanded(Lineage(name, args.lineage, tuple(args.revisions or ()), start=models[0] if len(models) == 1 else None))
    return models + checkpoints, pairs


def plan_of(args: argparse.Namespace) -> "Plan":
    """The plan from a TOML file, or from the options."""
    from collect.config import SHIPPED_ITEMS, Plan, read_plan
    from collect.protocols import Ask

    if args.plan:
        if ignored := [f"--{name.replace('_', '-')}" for name in ASKED if getattr(args, name) is not None]:
            raise CatalogError(f"a plan says how to ask: leave away {', '.join(ignored)}, or write it into {args.plan}")
        plan = read_plan(args.plan)
    elif args.models or args.lineage:
        told = {name: getattr(args, name) for name in HOW if getattr(args, name) is not None}
        if args.stop:
            told["stop"] = tuple(s.replace("\\n", "\n") for s in args.stop)
        asks = [Ask(style=style, **told) for style in args.protocol or ["option-text"]]
        models, pairs = models_of(args)
        plan = Plan(models, asks, [SHIPPED_ITEMS], pairs=pairs)
    else:
        raise CatalogError("nothing to run: give a plan (collect run plan.toml), --models FOLDER or --lineage FOLDER [--items FILE.jsonl]")
    if args.items:
        plan.items = args.items
    plan.tasks = args.tasks or plan.tasks
    plan.from_jsonl = args.from_jsonl or plan.from_jsonl
    plan.limit = plan.limit if args.limit is None else args.limit
    plan.skip_bad = args.skip_bad or plan.skip_bad
    plan.check()
    return plan


def import_(args: argparse.Namespace) -> int:
    """Import per-sample logs of lm-eval, lighteval, inspect, Every Eval Ever, or plain tables; the format is detected."""
    from rich.console import Console

    from catalog.output import print_table, write_rows
    from collect.import_logs import closing, import_logs, notes_of, summary
    from collect.importers.mapping import told_of

    results = import_logs(args.paths, args.out, told_of(args), Console(stderr=True), args.jobs)
    for note in notes_of(results):
        print(note, file=sys.stderr)
    columns, rows = summary(results)
    if rows and sys.stdout.isatty():  # a terminal is narrow: the formats are in the closing line
        shown = [columns.index(name) for name in ("model", "setting", "runs", "items", "correct_pct", "new")]
        print_table([columns[at] for at in shown], [[row[at] for at in shown] for row in rows])
    elif rows:
        write_rows(columns, rows)
    print(closing(results, args.out), file=sys.stderr)
    if not rows:
        only = " Results files hold means only: run the harness again with --log_samples (lm-eval) or --save-details (lighteval)."
        beside = only if any(r.state == "beside" for r in results) else ""
        raise CatalogError(f"no log among them was taken.{beside} Formats and column mappings: docs/importing.md")
    models = sorted({str(row[1]).partition("@")[0] for row in rows})
    named = " ".join(models) if len(models) == 2 else "BEFORE AFTER"
    print(f"Next: catalog compare {named} --from {args.out}", file=sys.stderr)
    return 1 if any(r.state == "refused" for r in results) else 0


def pair(args: argparse.Namespace) -> int:
    """Declare a before/after pair of models, after telling how many of their items match."""
    from catalog.output import print_table, write_rows
    from collect.pair import declare, warnings_of

    told = {"pair_id": args.id, "regime": args.regime, "data_examples": args.data_examples, "data_tokens": args.data_tokens}
    declared, matches = declare(args.out, args.before, args.after, told)
    columns = ["setting", "task_id", "scheme", "n_before", "n_after", "n_common"]
    rows = [[row[name] for name in columns] for row in matches]
    if sys.stdout.isatty():
        print_table(columns, rows)
    else:
        write_rows(columns, rows)
    for warning in warnings_of(matches):
        print(f"warning: {warning}", file=sys.stderr)
    print(
        f"declared {declared['pair_id']!r} in {args.out}. Next: catalog compare {args.before} {args.after} --from {args.out}",
        file=sys.stderr,
    )
    return 0


def merge(args: argparse.Namespace) -> int:
    """Merge two checkpoints of one architecture into a new model folder; config and tokenizer are A's."""
    needs_torch("merge")
    from collect.config import model_from_argument
    from collect.shards import merge_folders

    merge_folders(model_from_argument(args.a), model_from_argument(args.b), args.method, args.weight, args.out)
    print(f"{args.out} is written. Next: collect run --models {args.out} ...", file=sys.stderr)
    return 0


def quantise(args: argparse.Namespace) -> int:
    """Round a model's matrices to 8 or 4 bits, stored as floats that every engine loads, into a new model folder."""
    needs_torch("quantise")
    from collect.config import model_from_argument
    from collect.shards import quantise_folder

    quantise_folder(model_from_argument(args.model), args.bits, args.out)
    print(f"{args.out} is written. Next: collect run --models {args.out} ...", file=sys.stderr)
    return 0


def needs_torch(command: str) -> None:
    """Refuse a command where the extra is not installed.

    Raises:
        CatalogError: It is not.
    """
    from importlib.util import find_spec

    if missing := next((name for name in ("torch", "safetensors") if find_spec(name) is None), None):
        raise CatalogError(f"collect {command} needs {missing}, which is not installed: pip install 'forgetting-catalog[collect]'")


def publish(args: argparse.Namespace) -> int:
    """Send what is new in a runs folder to a dataset on the Hub; a second call sends nothing."""
    from collect.publish import Told, plan
    from collect.publish import publish as send
    from collect.publishing.remote import Dataset

    only_terminals_see_bars()
    told = Told(args.with_text, args.license, tuple(args.allow_found))
    dataset = Dataset(args.repo, args.revision, args.pr, args.private, may_create=not args.dry_run)
    if args.dry_run:
        from catalog.output import print_table, write_rows

        sizes, commits = plan(args.runs, dataset, told)
        rows = [[path, size] for path, size in sizes.items()]
        (print_table if sys.stdout.isatty() else write_rows)(["path", "bytes"], rows)
        print(
            f"{len(sizes)} files, {sum(sizes.values()):,} bytes in {commits} commits would go to {args.repo}; nothing was sent",
            file=sys.stderr,
        )
        return 0
    return told_what_was_sent(send(args.runs, dataset, told), args.repo)


def only_terminals_see_bars() -> None:
    """The Hub's client draws its bars into log files too."""
    from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]

    if not sys.stderr.isatty():
        disable_progress_bars()


def told_what_was_sent(sent: "Sent", repo: str) -> int:
    """Say what came of it: addresses to standard output, the rest to standard error."""
    if not sent.urls:
        print(f"nothing to do: {repo} has it all", file=sys.stderr)
        return 0
    for url in dict.fromkeys(sent.urls):
        print(url)
    print(f"{len(sent.sizes)} files, {sum(sent.sizes.values()):,} bytes in {len(sent.urls)} commits to {repo}", file=sys.stderr)
    return 0


def compact(args: argparse.Namespace) -> int:
    """Few sorted files instead of many small ones: of a runs folder into a new folder, or of a dataset on the Hub in place."""
    if (args.repo is None) == (args.source is None) or (args.repo is None) == (args.out is None):
        raise CatalogError("compact wants either RUNS --out FOLDER, or --repo ORG/NAME")
    if args.repo:
        only_terminals_see_bars()
        from collect.publishing.compacting import compact_dataset
        from collect.publishing.remote import Dataset

        return told_what_was_sent(compact_dataset(Dataset(args.repo, args.revision, args.pr, may_create=False)), args.repo)
    from collect.compact import compact as write

    write([args.source], args.out)
    print(f"{args.source} compacted into {args.out}", file=sys.stderr)
    return 0


def add_hub_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The commands that gather runs into few files, here or on the Hub."""
    p = commands.add_parser("compact", help=compact.__doc__, description=compact.__doc__)
    p.set_defaults(call=compact)
    p.add_argument("source", type=Path, nargs="?", help="runs folder")
    p.add_argument("--out", type=Path, help="new catalog folder")
    p.add_argument("--repo", metavar="ORG/NAME", help="dataset on the Hub, instead of folders")
    p.add_argument("--revision", default="main", metavar="BRANCH", help="branch of it; default: main")
    p.add_argument("--pr", action="store_true", help="offer it as a pull request")
    p = commands.add_parser("publish", help=publish.__doc__, description=publish.__doc__)
    p.set_defaults(call=publish)
    p.add_argument("runs", type=Path, metavar="RUNS", help="catalog folder")
    p.add_argument("--repo", required=True, metavar="ORG/NAME", help="dataset on the Hub; made where it is not there")
    p.add_argument("--private", action="store_true", help="make it private when it is made")
    p.add_argument("--revision", default="main", metavar="BRANCH", help="branch, made where it is not there; default: main")
    p.add_argument("--pr", action="store_true", help="offer the runs as a pull request: takes no right to write")
    p.add_argument("--dry-run", action="store_true", help="print files and sizes, send nothing")
    p.add_argument("--with-text", action="store_true", help="publish generated texts too; they quote the items")
    p.add_argument("--license", metavar="ID", help="licence of the dataset, for example apache-2.0 or cc-by-4.0")
    p.add_argument(
        "--allow-found", nargs="+", default=[], metavar="TABLE.COLUMN", help="text there may look private: it is meant to be public"
    )


def add_model_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The commands that make models of models."""
    p = commands.add_parser("merge", help=merge.__doc__, description=merge.__doc__)
    p.set_defaults(call=merge)
    for name, weight in (("a", 0), ("b", 1)):
        p.add_argument(name, metavar=name.upper(), help=f"model at weight {weight}: folder or Hub id; ID=PATH names it in the catalog")
    p.add_argument("--method", choices=["lerp", "slerp"], default="lerp", help="along the line or the arc; default: lerp")
    p.add_argument("--weight", type=float, required=True, help="of B, between 0 and 1")
    p.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="new folder")
    p = commands.add_parser("quantise", help=quantise.__doc__, description=quantise.__doc__)
    p.set_defaults(call=quantise)
    p.add_argument("model", metavar="MODEL", help="folder or Hub id; ID=PATH names it in the catalog")
    p.add_argument("--bits", type=int, choices=[8, 4], required=True, help="8: one scale a row; 4: one scale each 32 of a row")
    p.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="new folder")


def add_status_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The commands that look: at the tasks there are, at a runs folder."""
    p = commands.add_parser("tasks", help=tasks.__doc__, description=tasks.__doc__)
    p.set_defaults(call=tasks)
    p.add_argument("names", nargs="*", metavar="NAME", help="only these: arc, bbh/navigate, 'mmlu/high_school_*'")
    p = commands.add_parser("status", help=status.__doc__, description=status.__doc__)
    p.set_defaults(call=status)
    p.add_argument("runs", type=Path, metavar="RUNS", help="catalog folder")
    p.add_argument("plan", type=Path, nargs="?", metavar="PLAN", help="TOML file whose runs are wanted: shows what is missing")


def add_answer_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The commands about how is asked and how answers are read."""
    p = commands.add_parser("protocols", help=protocols.__doc__, description=protocols.__doc__)
    p.set_defaults(call=protocols)
    p.add_argument("names", nargs="*", choices=[*STYLE_NAMES, []], metavar="NAME", help="; ".join(STYLE_NAMES))
    p.add_argument("--rules", action="store_true", help="the rules that read answers, instead")
    p = commands.add_parser("regrade", help=regrade.__doc__, description=regrade.__doc__)
    p.set_defaults(call=regrade)
    p.add_argument("runs", type=Path, metavar="RUNS", help="catalog folder that collect run wrote")
    p.add_argument("--items", nargs="+", type=Path, help="the items that were asked: .jsonl files or folders; default: the shipped set")
    p.add_argument("--rules", choices=RULE_VERSIONS, help="version of the rules; default: the newest (collect protocols --rules)")
    p.add_argument("--setting", metavar="NAME", help="keep what was there, and call what is read now by this name")
    p.add_argument("--dry-run", action="store_true", help="print what would change, write nothing")


def add_run_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command that asks models."""
    p = commands.add_parser("run", help=run.__doc__, description=run.__doc__)
    p.set_defaults(call=run)
    p.add_argument("plan", nargs="?", type=Path, help="TOML file with models, pairs, protocols (docs/collecting.md)")
    p.add_argument("--models", nargs="+", metavar="MODEL", help="folder, .gguf file or Hub id; ID=PATH names it in the catalog")
    p.add_argument("--lineage", metavar="FOLDER", help="checkpoint-<step> folders of one training run; or a Hub id with --revisions")
    p.add_argument("--revisions", nargs="+", metavar="REVISION", help="of the Hub id given as --lineage: step1000 step2000")
    p.add_argument("--items", nargs="+", type=Path, help=".jsonl files or folders; default: the shipped set")
    p.add_argument("--tasks", nargs="+", help="only these: of the items, or of benchmarks (collect tasks): arc, 'mmlu/high_school_*'")
    p.add_argument("--from-jsonl", type=Path, metavar="FOLDER", help="read benchmarks from FOLDER/BENCHMARK/*.jsonl, not from the Hub")
    p.add_argument("--protocol", nargs="+", choices=STYLE_NAMES, help="default: option-text; `collect protocols` shows them")
    p.add_argument("--out", default="runs", help="catalog folder; with --ray also a URL (s3://...); default: runs")
    p.add_argument("--dry-run", action="store_true", help="ask a few questions, print runs, tokens, time and memory, write nothing")
    p.add_argument("--limit", type=int, help="items per task, the same for every model")
    p.add_argument("--replicates", type=int, help="of sampled protocols")
    p.add_argument("--skip-bad", action="store_true", help="leave out items that cannot be asked, instead of stopping")
    for name, kind in (("temperature", float), ("top-p", float), ("max-new-tokens", int), ("shots", int)):
        p.add_argument(f"--{name}", type=kind)
    p.add_argument("--stop", nargs="+", help="strings that end an answer (few-shot generation)")
    p.add_argument("--answer-with", choices=["letters", "texts"], help="how options are listed and answered in cot")
    p.add_argument("--option-order", choices=["published", "shuffled"], help="shuffled: by item and replicate")
    p.add_argument("--examples", choices=["auto", "task", "worked", "dev"], help="solved examples: of the task, ours, the items' own")
    p.add_argument("--match", choices=["auto", "exact", "numeric"], help="how free-form answers are compared")
    p.add_argument("--extraction", choices=RULE_VERSIONS, help="version of the rules that read answers; default: the newest")
    p.add_argument("--template", choices=["auto", "none", "model"], help="chat template; auto: generation uses the model's if it has one")
    p.add_argument("--shard", metavar="I/N", help="only the I-th of N equal shares: for arrays of jobs (docs/scale.md)")
    p.add_argument(
        "--ray", nargs="?", const="local", metavar="ADDRESS", help="on the workers of a Ray cluster; without ADDRESS: on this machine"
    )
    p.add_argument("--workers", type=int, metavar="N", help="of --ray: how many; default: one a GPU, without GPUs as many as CPUs")
    p.add_argument("--cpus-per-worker", type=float, default=1, metavar="N", help="of --ray; default: 1")
    p.add_argument("--engine", choices=["transformers", "vllm"], default="transformers", help="what runs the models; default: transformers")
    p.add_argument("--device", help="cpu, cuda, cuda:1, mps; default: the best there is")
    p.add_argument("--dtype", help="float32, bfloat16, float16")
    p.add_argument("--trust-remote-code", action="store_true", help="run code that comes with the model")


def parser() -> argparse.ArgumentParser:
    """Every command with its options."""
    top = argparse.ArgumentParser(prog="collect", description="Write a forgetting catalog: run models on benchmark items.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_run_command(commands)
    add_status_command(commands)
    add_answer_commands(commands)
    p = commands.add_parser("import", help=import_.__doc__, description=import_.__doc__)
    p.set_defaults(call=import_)
    p.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="log files or folders of them")
    p.add_argument("--out", type=Path, default=Path("runs"), help="catalog folder; default: runs")
    p.add_argument("--format", choices=FORMAT_NAMES, help="do not detect it")
    p.add_argument("--model", help="org/name@revision, where the log does not name it (or names it badly)")
    p.add_argument("--task", help="task, where the log does not name it")
    p.add_argument(
        "--metric", action="append", metavar="NAME", help="what says right: acc, exact_match,strict-match, 'f1>=0.5'; repeatable"
    )
    p.add_argument("--replicate", type=int, help="number of this sampling of the same model and task: 0, 1, ...")
    p.add_argument("--trust-ids", action="store_true", help="equal ids of the source (with equal gold) are equal items")
    p.add_argument(
        "--column", action="append", metavar="FIELD=COLUMN", help="column of a table: correct=is_right, options=a,b,c; repeatable"
    )
    p.add_argument("--mapping", type=Path, help="TOML file that says the same as these options")
    p.add_argument("--skip-bad", action="store_true", help="leave out records that are no JSON, instead of refusing the file")
    p.add_argument("--no-text", action="store_true", help="do not keep generated texts")
    p.add_argument("--jobs", type=int, help="files read at once; default: all cores")
    p = commands.add_parser("pair", help=pair.__doc__, description=pair.__doc__)
    p.set_defaults(call=pair)
    p.add_argument("before", metavar="BEFORE", help="model_id, or the part of it that is enough")
    p.add_argument("after", metavar="AFTER")
    p.add_argument("--out", type=Path, default=Path("runs"), help="catalog folder with runs of both; default: runs")
    p.add_argument("--regime", help="kind of post-training, for example 'Instruction Tuning'")
    p.add_argument("--data-examples", type=int, help="training examples between the two")
    p.add_argument("--data-tokens", type=int, help="training tokens between the two")
    p.add_argument("--id", help="name of the pair; default: 'before -> after'")
    add_model_commands(commands)
    add_hub_commands(commands)
    return top


def main(argv: list[str] | None = None) -> int:
    """Exit status: 0; 1 if the user can mend it; 2 wrong usage; 130 interrupted."""
    args = parser().parse_args(argv)
    try:
        return int(args.call(args))
    except CatalogError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted: whole runs are kept, nothing is half-written. The same command goes on from here", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
