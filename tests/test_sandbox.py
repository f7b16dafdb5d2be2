"""`catalog query --sandbox`: what strangers may try. Every attempt is refused inside and, where harmless, shown to work outside."""

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog import CatalogError, connect
from catalog.__main__ import main
from catalog.open import blank
from catalog.sandbox import Limits, Sandbox, printable
from catalog.sandboxed import lock

STRANGERS = pa.table({"a": [1]})  # what a replacement scan finds in this module

WORKS, FAILS = True, False  # outside; FAILS: it would need a network, or crash
SELECT_ONLY, NO_FUNCTION, NO_TABLE = "this is another statement", "the sandbox has no table function", "does not exist"
ATTEMPTS = {
    "copy to": ("COPY models TO 'out.csv'", SELECT_ONLY, WORKS),
    "copy of a query": ("COPY (SELECT 1) TO 'out.parquet' (FORMAT parquet)", SELECT_ONLY, WORKS),
    "copy from": ("COPY opened_from FROM 'two.csv'", SELECT_ONLY, WORKS),
    "export": ("EXPORT DATABASE 'exported'", SELECT_ONLY, FAILS),  # outside DuckDB cannot write every macro of schema.sql
    "import": ("IMPORT DATABASE 'exported'", SELECT_ONLY, FAILS),
    "attach a file": ("ATTACH 'other.duckdb' AS other", SELECT_ONLY, WORKS),
    "attach memory": ("ATTACH ':memory:' AS more", SELECT_ONLY, WORKS),
    "install": ("INSTALL httpfs", SELECT_ONLY, FAILS),
    "load": ("LOAD '/tmp/evil.duckdb_extension'", SELECT_ONLY, FAILS),
    "set": ("SET memory_limit = '100GB'", SELECT_ONLY, WORKS),
    "reset": ("RESET memory_limit", SELECT_ONLY, WORKS),
    "set variable": ("SET VARIABLE path = '/etc/passwd'", SELECT_ONLY, WORKS),
    "pragma": ("PRAGMA enable_profiling", SELECT_ONLY, WORKS),
    "pragma with a value": ("PRAGMA threads = 64", SELECT_ONLY, WORKS),
    "call": ("CALL pragma_version()", SELECT_ONLY, WORKS),
    "create a view of a file": ("CREATE VIEW passwords AS FROM read_csv('/etc/passwd', header = false)", SELECT_ONLY, WORKS),
    "create a macro": ("CREATE MACRO mine(x) AS x", SELECT_ONLY, WORKS),
    "create a secret": ("CREATE SECRET mine (TYPE http)", SELECT_ONLY, FAILS),
    "delete": ("DELETE FROM published_results", SELECT_ONLY, WORKS),
    "prepare": ("PREPARE later AS SELECT 1", SELECT_ONLY, WORKS),
    "two statements": ("SELECT 1; SELECT 2", "one statement at a time", WORKS),
    "a second statement that writes": ("SELECT 1; COPY models TO 'second.csv'", SELECT_ONLY, WORKS),
    "insert inside with": ("WITH x AS (INSERT INTO opened_from VALUES ('a', 'b') RETURNING *) FROM x", "INSERT inside WITH is refused", WORKS),
    "read_csv": ("FROM read_csv('/etc/passwd', header = false)", f"{NO_FUNCTION} read_csv", WORKS),
    "read_text": ("FROM read_text('/etc/hostname')", f"{NO_FUNCTION} read_text", WORKS),
    "read_blob, qualified": ("FROM system.main.Read_Blob('/etc/hostname')", f"{NO_FUNCTION} read_blob", WORKS),
    "read_parquet by glob": ("FROM read_parquet(['her*.parquet'])", f"{NO_FUNCTION} read_parquet", WORKS),
    "glob": ("FROM glob('/etc/*')", f"{NO_FUNCTION} glob", WORKS),
    "a file as table": ("FROM 'here.parquet'", "file system operations are disabled by configuration", WORKS),
    "a file in a subquery": ("SELECT (SELECT count(*) FROM read_text('/etc/host*'))", f"{NO_FUNCTION} read_text", WORKS),
    "a file beside a table": ("FROM models, LATERAL (FROM read_text('/etc/hostname'))", f"{NO_FUNCTION} read_text", WORKS),
    "sniff": ("FROM sniff_csv('/etc/passwd')", f"{NO_FUNCTION} sniff_csv", WORKS),
    "http": ("FROM 'http://127.0.0.1:9/x.parquet'", "file system operations are disabled", FAILS),
    "autoload by s3": ("FROM read_parquet('s3://bucket/x.parquet')", f"{NO_FUNCTION} read_parquet", FAILS),
    "autoload by a setting": ("SELECT current_setting('s3_region')", 'it exists in the httpfs extension', FAILS),
    "SQL as text": ("FROM query('FROM read_text(''/etc/hostname'')')", f"{NO_FUNCTION} query", WORKS),
    "a table by text": ("FROM query_table('here.parquet')", f"{NO_FUNCTION} query_table", FAILS),
    "SQL as JSON": ("FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))", f"{NO_FUNCTION} json_execute_serialized_sql", WORKS),
    "SQL planned from text": ("SELECT json_serialize_plan('FROM glob(''/etc/*'')')", "no function json_serialize_plan", WORKS),
    "log into a file": ("FROM enable_logging(storage = 'file', storage_path = 'logs')", f"{NO_FUNCTION} enable_logging", WORKS),
    "profile into a file": ("FROM enable_profiling(save_location = 'profile.txt')", f"{NO_FUNCTION} enable_profiling", WORKS),
    "pointers": ("FROM arrow_scan(NULL, NULL, NULL)", f"{NO_FUNCTION} arrow_scan", FAILS),
    "python objects": ("FROM python_map_function((FROM models))", f"{NO_FUNCTION} python_map_function", FAILS),
    "a Python variable": ("FROM STRANGERS", f"Table with name STRANGERS {NO_TABLE}", WORKS),
    "a Python variable of the sandbox": ("FROM tree", f"Table with name tree {NO_TABLE}", FAILS),
    "secrets": ("FROM duckdb_secrets()", f"{NO_FUNCTION} duckdb_secrets", WORKS),
    "where files lie": ("FROM duckdb_databases", "no view duckdb_databases", WORKS),
    "the environment": ("SELECT getenv('HOME')", f"Scalar Function with name getenv {NO_TABLE}", FAILS),
    "nesting": ("SELECT " + "(" * 5000 + "1" + ")" * 5000, "Max expression depth limit", FAILS),
    "a huge list": ("SELECT generate_series(1, 1000000000000)", "Lists larger than", FAILS),
    "too many rows": ("FROM range(10001)", "more than 10,000 rows", WORKS),
    "too many bytes": ("SELECT repeat('x', 3000000)", "the result has 2.9 MB, the sandbox gives 2", WORKS),
}  # fmt: skip


@pytest.fixture(scope="module")
def sandbox():
    """One process for every attempt that does not end it."""
    with Sandbox(limits=Limits(memory_mb=200, result_mb=2)) as opened:
        yield opened


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """The same catalog without a sandbox, in a folder of its own."""
    folder = tmp_path_factory.mktemp("outside")
    pq.write_table(STRANGERS, folder / "here.parquet")
    (folder / "two.csv").write_text("catalog,revision\na,b\n")
    with pytest.MonkeyPatch.context() as context, connect() as con:
        context.chdir(folder)
        yield con


@pytest.mark.parametrize("name", ATTEMPTS)
def test_attempts(sandbox, outside, name):
    """Refused with the reason; the process goes on; outside it works."""
    sql, reason, works = ATTEMPTS[name]
    with pytest.raises(CatalogError, match=re.escape(reason)):
        sandbox.query(sql)
    process = sandbox.process
    assert sandbox.query("SELECT count(*) AS n FROM models") == b"n\r\n15\r\n" and sandbox.process is process
    if works:
        outside.execute("BEGIN")
        try:
            outside.execute(sql).fetchall()
        finally:
            outside.abort()
            outside.execute("ROLLBACK")


MEMORY = {
    "a long text": "SELECT length(repeat('x', {}000000))",
    "a list": "SELECT len(list(i)) FROM range({}000000) t(i)",
    "a joined text": "SELECT length(string_agg(repeat('x', 1000), '')) FROM range({}000)",
    "a sort": "SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY hash(i)) AS n FROM range({}00000) t(i))",
}


@pytest.mark.parametrize("name", MEMORY)
def test_memory(sandbox, name):
    """Too much is refused; a small one of the same is answered."""
    assert len(sandbox.query(MEMORY[name].format(1)).splitlines()) == 2
    with pytest.raises(CatalogError, match="query needs more than 200 MB: ask for less, or allow more: --max-memory-mb"):
        sandbox.query(MEMORY[name].format(2000))


LONG = {
    "a sleep": "SELECT pg_sleep({})",
    "a series": "SELECT sum(i) FROM range({}00000000) t(i)",
    "endless recursion": "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < {}000) SELECT count(*) FROM t",
    "a product": "SELECT count(*) FROM range({}000) a, range({}000) b, range(100) c",
    "a regular expression": "SELECT sum(len(regexp_extract_all(repeat('ab', 200 + i % 9), '(a|b|ab)*?b'))) FROM range({}00) t(i)",
    "one call that is not interrupted": "SELECT length(printf('%{}d', 1))",
    "a lambda": "SELECT sum(list_reduce(range(1000 + i % 9), lambda x, y: x + y)) FROM range({}0) t(i)",
}
FAST = ("a sleep",)


@pytest.mark.parametrize("name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in LONG])
def test_time(name):
    """What runs on is stopped on time, whatever it does; the next question gets a new process. A small one is answered."""
    with Sandbox(limits=Limits(seconds=1 if name not in FAST else 0.3)) as sandbox:
        if name not in FAST:
            sandbox.query(LONG[name].replace("{}", "1"))
        sandbox.process or sandbox.start()
        began = time.monotonic()
        with pytest.raises(CatalogError, match=r"query ran past (1|0.3) s and was stopped: ask for less"):
            sandbox.query(LONG[name].replace("{}", "900000000" if "printf" in LONG[name] else "100000"))
        assert time.monotonic() - began < 5 and sandbox.process is None


def test_the_process_ends_by_itself():
    """Nobody holds the clock: the system's limit on processor time does. A process that was killed is told of, and not kept."""
    spin = "from catalog.sandboxed import limit_processor; limit_processor(-1.5)\nwhile True: pass"
    assert subprocess.run([sys.executable, "-c", spin], timeout=60, check=False).returncode == -signal.SIGXCPU
    with Sandbox(limits=Limits(seconds=60)) as sandbox:
        sandbox.start().kill()
        with pytest.raises(CatalogError, match=r"query ended its process \(signal 9\), most likely for want of memory"):
            sandbox.query("SELECT 1")
        assert sandbox.why_ended(code=-signal.SIGXCPU).startswith("query ran past 60 s")
        assert sandbox.process is None


def test_limits_of_whoever_started_it():
    """A lower limit of the shell stays; a limit that no system takes is refused."""
    code = "import resource as r; from catalog.sandboxed import *; r.setrlimit(r.RLIMIT_CPU, (9, 9)); limit_processor(99); print(r.getrlimit(r.RLIMIT_CPU))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "(9, 9)\n"
    for seconds in (float("inf"), float("nan"), 1e300):
        with pytest.raises(CatalogError, match=r"seconds is .*: a limit of the sandbox is more than 0"):
            Limits(seconds=seconds)


def test_threads_get_their_own_answers(sandbox):
    """One process, several askers: each has the answer to its own question."""
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda n: sandbox.query(f"SELECT {n} AS n"), range(60)))
    assert answers == [f"n\r\n{n}\r\n".encode() for n in range(60)]


def test_a_name_of_a_file_is_no_view(sandbox):
    """A macro that reads the view it is told would read a file."""
    with pytest.raises(CatalogError, match="the sandbox has no table function trends_of"):
        sandbox.query("FROM trends_of('/etc/x.parquet')")


LOCKED = ("copy to", "copy of a query", "attach a file", "load", "install", "set", "pragma with a value", "read_csv", "read_text", "glob",
          "a file as table", "sniff", "http", "create a view of a file", "SQL as text", "log into a file",
          "profile into a file", "a Python variable")  # fmt: skip


def test_duckdbs_locks_alone():
    """Were a statement let through, DuckDB itself refuses it."""
    with blank() as con:
        lock(con, 200, 1)
        for name in LOCKED:
            with pytest.raises(Exception, match=r"disabled|locked|does not exist"):
                con.execute(ATTEMPTS[name][0]).fetchall()


ALONE = """
import json, mmap, os, socket, sys, duckdb
from catalog.sandboxed import limit_process
answers = os.fdopen(os.dup(1), "w")
con = duckdb.connect()
def tried(call):
    try:
        call()
    except (OSError, MemoryError, duckdb.Error) as error:
        return type(error).__name__
    return "worked"
calls = [lambda: con.execute("FROM read_text('/etc/hostname')"), lambda: con.execute("COPY (SELECT 1) TO 'alone.csv'"),
         lambda: con.execute("ATTACH 'alone.duckdb'"), lambda: socket.socket(), lambda: open("/etc/hostname"),
         lambda: mmap.mmap(-1, 2 * 10**9)]
free = [tried(call) for call in calls]
con.execute("DETACH alone")
for name in os.listdir("."):
    os.remove(name)
limit_process(50)
print("noise")
limited = [tried(call) for call in calls]
print(json.dumps([free, limited]), file=answers, flush=True)
"""


def test_the_systems_limits_alone(tmp_path):
    """Were DuckDB's locks open, the system refuses files, sockets and memory; without limits all of it works."""
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, check=True, cwd=tmp_path, env=path())
    free, limited = json.loads(done.stdout)
    assert set(free) == {"worked"} and "worked" not in limited and not list(tmp_path.iterdir())


def path():
    """The environment with this checkout on the path, wherever the process begins."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def test_answers(sandbox, tmp_path, capsysbinary):
    """The same bytes as without a sandbox, in every form; the views of the catalog; exit codes; nothing half-written."""
    sql = "SELECT model_id, n_params / 3 AS f, chr(233) AS e, DATE '2020-01-01' AS d, now() > '2020-01-01' AS b, [1.5, NULL] AS l FROM models ORDER BY ALL LIMIT 3"
    for kind in ("csv", "json", "table"):
        assert main(["query", sql, "--format", kind, "--out", str(tmp_path / "out")]) == 0
        assert sandbox.query(sql, kind) == (tmp_path / "out").read_bytes()
    assert main(["query", sql, "--sandbox", "--format", "table", "--out", str(tmp_path / "again")]) == 0
    assert (tmp_path / "again").read_bytes() == (tmp_path / "out").read_bytes() and "\xe9" in (tmp_path / "out").read_text()
    assert pq.read_table(io.BytesIO(sandbox.query(sql, "parquet"))).num_rows == 3
    for good in ("DESCRIBE models", "WITH a AS (FROM models) FROM a", "VALUES (1)", "SHOW TABLES", "FROM transitions('large-base', 'x')",
                 "FROM forgetting('a', 'b')", "SELECT unnest([1, 2])", "FROM json_each('[1]')"):  # fmt: skip
        assert sandbox.query(good)
    for bad, reason in (("SELEC 1", "SQL: syntax error"), ("FROM no_view", "catalog tables")):
        with pytest.raises(CatalogError, match=reason):
            sandbox.query(bad)
    assert main(["query", "--sandbox", "SELECT 1", "--from", "ORG/NAME", "--no-download"]) == 1
    assert main(["query", "--sandbox", "SELECT 1", "--from", str(tmp_path / "nothing"), "--out", str(tmp_path / "never")]) == 1
    assert main(["query", "--sandbox", "SELECT 1", "--max-rows", "0"]) == 1
    assert b"a limit of the sandbox is more than 0" in capsysbinary.readouterr().err and not (tmp_path / "never").exists()
    with pytest.raises(SystemExit, match="2"):
        main(["query", "SELECT 1", "--max-rows", "5"])


def test_a_terminal_is_not_steered():
    """On a terminal an answer is a table, and holds no character that moves the cursor."""
    assert printable(b"a\x1b[2J\r\n\tb\x07") == "a\ufffd[2J\r\n\tb\ufffd".encode()
    main_end, command_end = pty.openpty()
    command = [sys.executable, "-m", "catalog", "query", "--sandbox", "SELECT 'x' || chr(27) || '[2J' AS a"]
    subprocess.run(command, stdout=command_end, check=True, env={**os.environ, "TERM": "dumb"})
    os.close(command_end)
    out = os.read(main_end, 10_000)
    assert b"\x1b" not in out and b"x" in out and b"," not in out
