"""An empty catalog, and ways to fill it with rows in sight."""

import hashlib
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hub import Hub

from catalog.identity import itemset_id_of, run_id_of
from catalog.open import blank
from catalog.pack import pack

RIGHT, WRONG, UNPARSED, MISSING = "1", "0", "u", "-"


class Packing:
    """A connection that packs what its tables hold before every question, as a packed catalog does once."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self.con = con

    def __getattr__(self, name: str) -> Any:
        return getattr(self.con, name)

    def sql(self, query: str, *args: Any, **kwargs: Any) -> Any:
        self.pack(query)
        return self.con.sql(query, *args, **kwargs)

    def execute(self, query: str, *args: Any, **kwargs: Any) -> Any:
        self.pack(query)
        return self.con.execute(query, *args, **kwargs)

    def pack(self, query: str) -> None:
        """Pack anew where a question follows."""
        if any(
            word in query
            for word in ("task_", "category_", "pair_metrics", "transition_counts", "forgetting", "noise_floor", "seed_consistent")
        ):
            for (table,) in self.con.sql("SELECT table_name FROM duckdb_tables() WHERE table_name LIKE 'packed!_%' ESCAPE '!'").fetchall():
                self.con.execute(f"DELETE FROM {table}")
            pack(self.con)


PACKED_TOO = ("test_metrics", "test_against_reference", "test_packed")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The metric tests run on rows and on packed catalogs."""
    if "con" in metafunc.fixturenames and metafunc.module.__name__ in PACKED_TOO:
        # packed against the reference is slow: test_packed and test_properties compare packed with rows, and rows with the reference
        packed = pytest.param("packed", marks=[pytest.mark.slow] * (metafunc.module.__name__ == "test_against_reference"))
        metafunc.parametrize("con", ["rows", packed], indirect=True)


@pytest.fixture
def con(request: pytest.FixtureRequest) -> Any:
    """An empty catalog in memory."""
    return Packing(blank()) if getattr(request, "param", "rows") == "packed" else blank()


def key(text: object) -> str:
    """A well-formed sample_key made from any text."""
    return "qog:" + hashlib.sha256(str(text).encode()).hexdigest()[:32] + "#0"


class Filler:
    """Fills a catalog: items of tasks, then answers of models, one character an item.

    Characters: digit = predicted option (gold is 0: '0' is right), 'u' unparsed, '-' not measured; free-form and
    multi items: '1' right, '0' wrong.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self.con = con
        self.itemsets: dict[str, tuple[str, Sequence[Any]]] = {}
        self.insert("protocols", protocol_id="p", setting="s", decoding="sampled")

    def insert(self, table: str, **values: Any) -> None:
        """One row."""
        marks = ", ".join(f"${i + 1}" for i in range(len(values)))
        self.con.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", list(values.values()))

    def task(self, task_id: str, options: Sequence[int | str], names: Sequence[object] | None = None) -> str:
        """A task with one item per element: a number of options, 'free', or 'multi'. Returns its itemset_id."""
        names = names or range(len(options))
        keys = [key(f"{task_id} {name}") for name in names]
        itemset_id = itemset_id_of(task_id, keys)
        if self.con.execute("SELECT count(*) FROM tasks WHERE task_id = $1", [task_id]).fetchall()[0][0] == 0:
            benchmark, subset = task_id.split("/")
            self.insert("tasks", task_id=task_id, benchmark=benchmark, subset=subset, behavioural=False)
        self.insert("itemsets", itemset_id=itemset_id, task_id=task_id, n_items=len(keys))
        rows = [
            (itemset_id, item, k, "choice" if isinstance(o, int) else o, o if isinstance(o, int) else 4 if o == "multi" else None,
             ["x"] if o == "free" else ["0", "1"] if o == "multi" else ["0"])
            for item, (k, o) in enumerate(zip(keys, options, strict=True))
        ]  # fmt: skip
        self.con.executemany("INSERT INTO samples VALUES ($1, $2, $3, $4, $5, $6, NULL)", rows)
        self.itemsets[task_id] = (itemset_id, options)
        return itemset_id

    def answers(self, model: str, task_id: str, answers: str, replicate: int = 0, kind: str = "base", protocol: str = "p") -> int:
        """One run of a model on the task's last itemset. Returns its run_id."""
        itemset_id, options = self.itemsets[task_id]
        if self.con.execute("SELECT count(*) FROM models WHERE model_id = $1", [model]).fetchall()[0][0] == 0:
            self.insert("models", model_id=model, kind=kind)
        run_id = run_id_of(model, itemset_id, protocol, replicate)
        self.insert("runs", run_id=run_id, model_id=model, itemset_id=itemset_id, protocol_id=protocol, replicate=replicate)
        rows = []
        for item, (answer, option) in enumerate(zip(answers, options, strict=True)):
            if answer == MISSING:
                rows.append((run_id, item, None, None, "error"))
            elif answer == UNPARSED:
                rows.append((run_id, item, False, None, "unparsed"))
            elif isinstance(option, int):
                rows.append((run_id, item, answer == "0", int(answer), "ok"))
            else:
                rows.append((run_id, item, answer == "1", None, "ok"))
        self.con.executemany("INSERT INTO outcomes VALUES ($1, $2, $3, $4, $5, NULL, NULL)", rows)
        return run_id

    def pair(self, before: str = "A", after: str = "B") -> None:
        """Declare a pair."""
        self.insert("pairs", pair_id=f"{before}>{after}", before_id=before, after_id=after)


@pytest.fixture
def fill(con: duckdb.DuckDBPyConnection) -> Filler:
    """A filler of the empty catalog `con`."""
    return Filler(con)


@pytest.fixture
def one(con: duckdb.DuckDBPyConnection) -> Callable[..., dict[str, Any]]:
    """Run a query that gives one row; return it by column."""

    def ask(sql: str, params: Mapping[str, Any] | Sequence[Any] | None = None) -> dict[str, Any]:
        relation = con.sql(sql, params=params)
        rows = relation.fetchall()
        assert len(rows) == 1, rows
        return dict(zip(relation.columns, rows[0], strict=True))

    return ask


ONE_SSL_CONTEXT = cache(ssl.create_default_context)  # every client reads all certificates, three times


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A Hub of our own, which huggingface_hub in this process and in new ones uses as its owner, with caches in tmp_path."""
    from huggingface_hub import HfFileSystem, close_session, constants, hf_api

    with Hub() as server:
        for name, value in server.environment(tmp_path / "hf").items():
            monkeypatch.setenv(name, value)
            if hasattr(constants, name):  # read from the environment when it was imported
                monkeypatch.setattr(constants, name, value == "1" if value in ("0", "1") else value)
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", server.url + "/{repo_id}/resolve/{revision}/{filename}")
        monkeypatch.setattr(hf_api.api, "endpoint", server.url)
        monkeypatch.setattr("ssl.create_default_context", ONE_SSL_CONTEXT)
        HfFileSystem.clear_instance_cache()
        close_session()
        yield server
        close_session()
    assert not server.errors


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Nobody sleeps before the next try: the seconds that they would have slept."""
    seconds: list[float] = []
    monkeypatch.setattr("time.sleep", seconds.append)
    return seconds
