"""Command line of `catalog`: reads catalogs, never writes to one."""

import argparse
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from catalog.errors import CatalogError

if TYPE_CHECKING:
    import duckdb

EXAMPLES = """\
examples:
  catalog pairs                                   what the shipped catalog compares
  catalog compare large-base large-domain         what was forgotten, what gained, beyond luck
  catalog report large-base large-domain          the same and more as one HTML page with charts: report.html
  catalog query "FROM category_metrics LIMIT 5"   any SQL; CSV in a pipe
  catalog compare A B --from runs/                your own runs (collect run ... --out runs/)
"""


def opened(args: argparse.Namespace, check: bool = True) -> "duckdb.DuckDBPyConnection":
    """The catalogs the command is about."""
    from catalog.open import connect

    con = connect(*(args.sources or []), check=check, download=args.download)
    for name, revision in con.sql("FROM opened_from WHERE revision IS NOT NULL").fetchall():
        print(f"{name} at {revision}", file=sys.stderr)
    return con


def tables(args: argparse.Namespace) -> int:
    """List tables, views and macros with their meaning, or the columns of one."""
    from catalog.output import write

    con = opened(args)
    if args.name:
        query = """SELECT e.column_name, e.data_type, e.meaning FROM columns_explained AS e
                   JOIN duckdb_columns() AS c USING (table_name, column_name) WHERE table_name = $1 ORDER BY c.column_index"""
        found = con.sql(query, params=[args.name])
        if not found.fetchall():
            raise CatalogError(f"no table or view {args.name}: catalog tables lists them")
        write(found, args.format)
        return 0
    query = """
        SELECT 'table' AS kind, table_name AS name, comment AS meaning FROM duckdb_tables() WHERE NOT internal
        UNION ALL SELECT 'view', view_name, comment FROM duckdb_views() WHERE NOT internal
        UNION ALL SELECT CASE function_type WHEN 'table_macro' THEN 'table macro' ELSE 'macro' END,
                         function_name || '(' || array_to_string(parameters, ', ') || ')', comment
                  FROM duckdb_functions() WHERE NOT internal ORDER BY kind = 'macro', kind = 'table macro', kind, name"""
    write(con.sql(query), args.format)
    return 0


def query(args: argparse.Namespace) -> int:
    """Run one SQL statement: a table on a terminal, CSV in a pipe; with --sandbox also a stranger's."""
    limits = {name: value for name in LIMITS if (value := getattr(args, f"max_{name}")) is not None}
    if args.sandbox:
        return query_sandboxed(args, limits)
    if limits:
        parser().error("query: --max-... are limits of --sandbox: add it")
    import duckdb

    from catalog.output import write

    con = opened(args)
    try:
        relation = con.sql(args.sql)
        if relation is None:
            raise CatalogError("the statement gives no rows: catalog reads, it changes nothing. Start with SELECT or FROM")
        write(relation, args.format, args.out)
    except duckdb.Error as error:
        raise CatalogError(f"SQL: {error}\nTables and views: catalog tables") from error
    return 0


def query_sandboxed(args: argparse.Namespace, limits: dict[str, float]) -> int:
    """Have a process without files, network or Python answer; write the whole answer or nothing."""
    from catalog.sandbox import Limits, printable
    from catalog.sandbox import query as answer

    shown = sys.stdout.isatty() and args.out is None
    kind = args.format or ("table" if shown else "csv")
    if not args.download:
        raise CatalogError("--sandbox has no network: leave out --no-download, or download first (catalog download ORG/NAME)")
    if kind == "parquet" and shown:
        raise CatalogError("Parquet is no text for a terminal: name a file with --out FILE.parquet, or pipe it")
    width = shutil.get_terminal_size().columns if shown else 200
    data = answer(args.sources or [], args.sql, kind, Limits(**limits), width)  # type: ignore[arg-type]
    if args.out:
        args.out.write_bytes(data)
    else:
        sys.stdout.buffer.write(printable(data) if shown else data)
        sys.stdout.flush()
    return 0


def two_models(con: "duckdb.DuckDBPyConnection", args: argparse.Namespace) -> tuple[str, str]:
    """The model_ids of BEFORE and AFTER."""
    from catalog.names import model_named

    before, after = model_named(con, args.before), model_named(con, args.after)
    if before == after:
        raise CatalogError("before and after are the same model: see the view noise_floor for a model against itself")
    return before, after


def compare(args: argparse.Namespace) -> int:
    """Compare two models: forgotten and gained by category, raw and beyond luck, with intervals."""
    from catalog.compare import print_compare, print_forgotten, warnings_of
    from catalog.names import map_for
    from catalog.output import write

    con = opened(args)
    before, after = two_models(con, args)
    for warning in warnings_of(con, before, after):
        print(f"warning: {warning}", file=sys.stderr)
    chosen = map_for(con, before, after, args.map)
    if args.format or not (args.text or sys.stdout.isatty()):
        rows = con.sql("SELECT * FROM forgetting($1, $2) WHERE map = $3 ORDER BY setting, category", params=[before, after, chosen])
        write(rows, args.format)
    else:
        print_compare(con, before, after, chosen)
    if args.items:
        print_forgotten(con, before, after, args.items, args.limit)
    return 0


def pairs(args: argparse.Namespace) -> int:
    """List declared pairs and what of them can be compared."""
    from catalog.output import write

    con = opened(args)
    query = """
        SELECT pair_id, before_id, after_id, any_value(d.regime) AS regime, setting, count(DISTINCT task_id) AS n_tasks,
               count(DISTINCT replicate) AS n_replicates
        FROM run_pairs JOIN pairs AS d USING (pair_id, before_id, after_id)
        WHERE run_pairs.kind = 'pair' GROUP BY ALL ORDER BY ALL"""
    write(con.sql(query), args.format)
    if not con.sql("FROM pairs LIMIT 1").fetchall():
        models = con.sql("SELECT model_id FROM models ORDER BY ALL LIMIT 10").fetchall()
        print(
            "no pair is declared; any two of these can be compared (catalog compare BEFORE AFTER):\n  " + "\n  ".join(m for (m,) in models),
            file=sys.stderr,
        )
    return 0


def check(args: argparse.Namespace) -> int:
    """Name everything wrong with a catalog, with counts and examples; exit status 1 if there is anything."""
    from catalog.output import write

    con = opened(args, check=False)
    con.execute("CREATE TEMP TABLE faults AS FROM integrity")
    for map_, n, examples in con.sql("FROM unsorted_maps").fetchall():
        print(f"note: map {map_} sorts {n} tasks that no run was asked: {examples}", file=sys.stderr)
    grouped = con.sql("""SELECT problem, count(*) AS n, list(detail ORDER BY detail)[:3] AS examples FROM faults
                         GROUP BY problem ORDER BY n DESC, problem""")  # fmt: skip
    n = con.sql("SELECT count(*) FROM faults").fetchall()[0][0]
    if n:
        write(con.sql("FROM faults ORDER BY ALL") if args.all else grouped, args.format)
        more = "" if args.all else "; every one: catalog check --all"
        print(f"{n} fault{'' if n == 1 else 's'}{more}", file=sys.stderr)
        return 1
    counts = con.sql("SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM outcomes)").fetchall()[0]
    print(f"sound: {counts[0]} runs, {counts[1]} outcomes", file=sys.stderr)
    return 0


def report(args: argparse.Namespace) -> int:
    """Write one HTML page that compares two models, with charts, offline; or with --all a folder of them, with an index."""
    from catalog.names import map_for

    if args.all == bool(args.after):
        parser().error("report: give two models (catalog report BEFORE AFTER), or --all for every declared pair")
    try:
        from catalog.report import write_all, write_report
    except ModuleNotFoundError as error:
        raise CatalogError(
            f"catalog report needs {error.name}, which is not installed: pip install 'forgetting-catalog[report]'"
        ) from error
    con = opened(args)
    if args.all:
        out = args.out or Path("report")
        n, skipped = write_all(con, args.map, out, args.items, args.limit)
        for line in skipped:
            print(f"warning: cannot be compared: {line}", file=sys.stderr)
        print(f"wrote {out / 'index.html'} and {n} pages", file=sys.stderr)
        return 0
    before, after = two_models(con, args)
    out = args.out or Path("report.html")
    write_report(con, before, after, map_for(con, before, after, args.map), out, args.items, args.limit)
    print(f"wrote {out}", file=sys.stderr)
    return 0


def export(args: argparse.Namespace) -> int:
    """Write a model's runs as logs of Every Eval Ever or lm-eval, which `collect import` reads back whole."""
    from catalog.export import NO_TEXT, Wanted
    from catalog.export import export as write_logs
    from catalog.names import model_named

    con = opened(args)
    wanted = Wanted(args.task or (), args.setting or (), args.replicate)
    done = write_logs(con, model_named(con, args.model), args.out, kind=args.format, wanted=wanted, items=args.items or ())
    if done.n_texts < done.n_items:
        of = f"text of {done.n_texts} of {done.n_items} items filled in. " if args.items else ""
        print(f"note: {of}{NO_TEXT} Fill them in: --items FILE.jsonl", file=sys.stderr)
    there = f", {done.n_same} of them were there already" if done.n_same else ""
    print(f"exported {done.n_runs} runs, {done.n_items} answers, into {done.n_files} files in {args.out}{there}", file=sys.stderr)
    print(f"Back into a catalog: collect import {args.out} --out runs", file=sys.stderr)
    return 0


def download(args: argparse.Namespace) -> int:
    """Download a data set from the Hub, or a part of it, and print its folder; what is there is not fetched again."""
    from catalog.partial import download as fetch

    print(fetch(args.repo, args.revision, args.models or (), args.tasks or (), args.to))
    return 0


def notebook(args: argparse.Namespace) -> int:
    """List the notebooks, or copy one to start from."""
    from catalog.notebooks import copy_notebook, notebooks, question

    if args.name is None:
        for path in notebooks():
            print(f"{path.stem:32} {question(path)}")
        print("copy one: catalog notebook 03 DEST", file=sys.stderr)
        return 0
    print(f"wrote {copy_notebook(args.name, args.dest)}. Open it with: jupyter lab", file=sys.stderr)
    return 0


# of catalog/sandbox.py, which is not imported for a line of help
LIMITS = {
    "seconds": (float, "time of the query; default: 10"),
    "memory_mb": (int, "memory of it; default: 1024"),
    "rows": (int, "rows of the result; default: 10000"),
    "result_mb": (float, "size of the result; default: 10"),
}
# of catalog/export.py, which is not imported for a line of help
EXPORTS = ("every-eval-ever", "lm-eval")


def add_sandbox_options(p: argparse.ArgumentParser) -> None:
    """The options of a stranger's query."""
    p.add_argument("--sandbox", action="store_true", help="untrusted SQL: reads, without files or network, within limits (docs/sandbox.md)")
    for name, (of, default) in LIMITS.items():
        p.add_argument(f"--max-{name.replace('_', '-')}", type=of, metavar="N", help=f"of --sandbox: {default}")


def parser() -> argparse.ArgumentParser:
    """Every command with its options."""
    about = "Which items a model forgot in post-training, which it gained, and how much of it is luck."
    top = argparse.ArgumentParser(prog="catalog", description=about, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(call: object, *formats: str) -> argparse.ArgumentParser:
        name, text = call.__name__, call.__doc__  # type: ignore[attr-defined]
        p = commands.add_parser(name, help=text, description=text)
        p.set_defaults(call=call)
        p.add_argument(
            "--from",
            dest="sources",
            action="append",
            metavar="FOLDER",
            help="catalog folder, or ORG/NAME[@REVISION] on the Hub; several times: together; default: the shipped one",
        )
        p.add_argument("--no-download", dest="download", action="store_false", help="leave the outcomes of ORG/NAME on the Hub")
        if formats:
            p.add_argument("--format", choices=formats, help="default: a table on a terminal, csv in a pipe")
        return p

    command(tables, "table", "csv", "json").add_argument("name", nargs="?", help="show the columns of this one")
    p = command(query, "table", "csv", "json", "parquet")
    p.add_argument("sql", help='one statement, for example "FROM pair_metrics"')
    p.add_argument("--out", type=Path, help="write to this file")
    add_sandbox_options(p)
    p = command(compare, "csv", "json")
    p.add_argument("--text", action="store_true", help="the blocks of a terminal in a pipe, too")
    command(pairs, "table", "csv", "json")
    command(check, "table", "csv", "json").add_argument("--all", action="store_true", help="every fault, not three examples of each kind")
    p = command(report)
    p.add_argument("-o", "--out", type=Path, help="file; default: report.html. With --all a folder; default: report")
    p.add_argument("--all", action="store_true", help="every declared pair, a page each, and index.html")
    p = command(export)
    p.add_argument("model", metavar="MODEL", help="model_id, or the part of it that is enough")
    p.add_argument("--format", choices=EXPORTS, default=EXPORTS[0], help=f"default: {EXPORTS[0]}")
    p.add_argument("--task", nargs="+", help="only these: arc, bbh/navigate, 'mmlu/high_school_*'")
    p.add_argument("--setting", nargs="+", help="only these, as `catalog query 'FROM protocols'` names them")
    p.add_argument("--replicate", type=int, metavar="N", help="only this one")
    p.add_argument("--items", nargs="+", type=Path, help="your item files: fill in the text of questions and options")
    p.add_argument("--out", type=Path, required=True, help="folder; files that are there already stay")
    p = commands.add_parser("download", help=download.__doc__, description=download.__doc__)
    p.set_defaults(call=download)
    p.add_argument("repo", metavar="ORG/NAME")
    p.add_argument("--revision", help="branch, tag or commit; default: main")
    p.add_argument("--models", nargs="+", help="only these: name, org/name, 'org/*'")
    p.add_argument("--tasks", nargs="+", help="only these: arc, bbh/navigate, 'mmlu/high_school_*'")
    p.add_argument("--to", type=Path, metavar="FOLDER", help="new folder for it; default: the cache")
    p = commands.add_parser("notebook", help=notebook.__doc__, description=notebook.__doc__)
    p.set_defaults(call=notebook)
    p.add_argument("name", nargs="?", help="number or part of the name; without: list them")
    p.add_argument("dest", nargs="?", type=Path, default=Path(), help="file or folder; default: here")
    for name, models in (("compare", None), ("report", "?")):
        p = commands.choices[name]
        p.add_argument("before", metavar="BEFORE", nargs=models, help="model_id, or the part of it that is enough")
        p.add_argument("after", metavar="AFTER", nargs=models)
        p.add_argument("--map", help="map of categories; default: paper where it fits, else the items' own")
        p.add_argument("--items", nargs="+", type=Path, help="your item files: show the text of forgotten items")
        p.add_argument("--limit", type=int, default=20, help="forgotten items to show; default 20")
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
        return 130
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError) as error:  # of --out
        print(f"error: cannot write {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # `catalog query ... | head`
        sys.stderr.close()
        return 0


if __name__ == "__main__":
    sys.exit(main())
