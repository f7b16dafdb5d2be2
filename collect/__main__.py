"""Command line of `collect`: writes catalogs."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from catalog.errors import CatalogError

if TYPE_CHECKING:
    from collect.config import Plan
    from collect.engines import Engine
    from collect.models import Located
    from collect.run import MakeEngine


def run(args: argparse.Namespace) -> int:
    """Run models on benchmark items and write what they got right, one Parquet file a run."""
    from rich.console import Console

    from collect.run import collect

    done, there = collect(plan_of(args), args.out, engine_maker(args), Console(stderr=True))
    if done:
        print(f"{done} runs collected into {args.out}, {there} were there already. Next: catalog pairs --from {args.out}", file=sys.stderr)
    else:
        print(f"nothing to do: all {there} runs are in {args.out}", file=sys.stderr)
    return 0


# options a plan takes the place of
ASKED = ("models", "protocol", "temperature", "top_p", "max_new_tokens", "shots", "answer_with", "option_order", "template", "stop",
         "replicates")  # fmt: skip


def engine_maker(args: argparse.Namespace) -> "MakeEngine":
    """How to make an engine; torch is imported when the first is made, after items and models were found sound."""

    def make(located: "Located") -> "Engine":
        try:
            from collect.device import place
            from collect.engines.transformers import TransformersEngine
        except ModuleNotFoundError as error:
            raise CatalogError(
                f"collect run needs {error.name}, which is not installed: pip install 'forgetting-catalog[collect]'"
            ) from error
        return TransformersEngine(located, place(args.device, args.dtype), args.trust_remote_code)

    return make


def plan_of(args: argparse.Namespace) -> "Plan":
    """The plan from a TOML file, or from the options."""
    from collect.config import SHIPPED_ITEMS, Plan, model_from_argument, read_plan
    from collect.protocols import Ask

    if args.plan:
        if ignored := [f"--{name.replace('_', '-')}" for name in ASKED if getattr(args, name) is not None]:
            raise CatalogError(f"a plan says how to ask: leave away {', '.join(ignored)}, or write it into {args.plan}")
        plan = read_plan(args.plan)
    elif args.models:
        told = {name: getattr(args, name) for name in ASKED if name not in ("models", "protocol") and getattr(args, name) is not None}
        if args.stop:
            told["stop"] = tuple(s.replace("\\n", "\n") for s in args.stop)
        asks = [Ask(style=style, **told) for style in args.protocol or ["option-text"]]
        plan = Plan([model_from_argument(m) for m in args.models], asks, [SHIPPED_ITEMS])
    else:
        raise CatalogError("nothing to run: give a plan (collect run plan.toml) or --models FOLDER [--items FILE.jsonl]")
    if args.items:
        plan.items = args.items
    plan.tasks = args.tasks or plan.tasks
    plan.limit = plan.limit if args.limit is None else args.limit
    plan.skip_bad = args.skip_bad or plan.skip_bad
    plan.check()
    return plan


def compact(args: argparse.Namespace) -> int:
    """Copy a runs folder into a catalog of few files: small tables as one file each, outcomes by model."""
    from collect.compact import compact as write

    write(args.source, args.out)
    print(f"{args.source} compacted into {args.out}", file=sys.stderr)
    return 0


def parser() -> argparse.ArgumentParser:
    """Every command with its options."""
    top = argparse.ArgumentParser(prog="collect", description="Write a forgetting catalog: run models on benchmark items.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    p = commands.add_parser("run", help=run.__doc__, description=run.__doc__)
    p.set_defaults(call=run)
    p.add_argument("plan", nargs="?", type=Path, help="TOML file with models, pairs, protocols (docs/collecting.md)")
    p.add_argument("--models", nargs="+", metavar="MODEL", help="folder, .gguf file or Hub id; ID=PATH names it in the catalog")
    p.add_argument("--items", nargs="+", type=Path, help=".jsonl files or folders; default: the shipped set")
    p.add_argument("--tasks", nargs="+", help="only these: arc, bbh/navigate, 'mmlu/high_school_*'")
    p.add_argument("--protocol", nargs="+", choices=["option-text", "option-letter", "cot"], help="default: option-text")
    p.add_argument("--out", type=Path, default=Path("runs"), help="catalog folder; default: runs")
    p.add_argument("--limit", type=int, help="items per task, the same for every model")
    p.add_argument("--replicates", type=int, help="of sampled protocols")
    p.add_argument("--skip-bad", action="store_true", help="leave out items that cannot be asked, instead of stopping")
    for name, kind in (("temperature", float), ("top-p", float), ("max-new-tokens", int), ("shots", int)):
        p.add_argument(f"--{name}", type=kind)
    p.add_argument("--stop", nargs="+", help="strings that end an answer (few-shot generation)")
    p.add_argument("--answer-with", choices=["letters", "texts"], help="how options are listed and answered in cot")
    p.add_argument("--option-order", choices=["published", "shuffled"], help="shuffled: by item and replicate")
    p.add_argument("--template", choices=["auto", "none", "model"], help="chat template; auto: generation uses the model's if it has one")
    p.add_argument("--device", help="cpu, cuda, cuda:1, mps; default: the best there is")
    p.add_argument("--dtype", help="float32, bfloat16, float16")
    p.add_argument("--trust-remote-code", action="store_true", help="run code that comes with the model")
    p = commands.add_parser("compact", help=compact.__doc__, description=compact.__doc__)
    p.set_defaults(call=compact)
    p.add_argument("source", type=Path, help="runs folder")
    p.add_argument("--out", type=Path, required=True, help="new catalog folder")
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
