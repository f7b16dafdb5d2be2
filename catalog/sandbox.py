"""Untrusted SQL: a process of its own answers it, with limits that hold whatever the SQL says; this side holds the clock.

catalog/sandboxed.py is that process: it opens the catalog, locks itself, then answers. What this promises, and what it does
not: docs/sandbox.md.
"""

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from catalog.errors import CatalogError

HEADER = 1 << 16  # bytes of the line before an answer, at most
STATEMENT = 1 << 20  # bytes of a statement, at most
LIMIT = 10**7  # no limit may be that high: the system would not take it


@dataclass(frozen=True)
class Limits:
    """What one query may take. memory_mb is what DuckDB gets; the whole process may grow by twice that and 512 MB."""

    seconds: float = 10
    memory_mb: int = 1024
    rows: int = 10_000
    result_mb: float = 10
    threads: int = 2

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not 0 < value < LIMIT:
                raise CatalogError(f"{name.replace('_', ' ')} is {value}: a limit of the sandbox is more than 0, and less than {LIMIT:,}")


class Sandbox:
    """A catalog that answers untrusted SQL. A query that must be stopped ends the process; the next one gets a new one.

    Threads may share it: their queries are answered in turn.
    """

    def __init__(self, *sources: str | Path, limits: Limits | None = None) -> None:
        """Begin nothing yet.

        Args:
            sources: Catalog folders and data sets on the Hub, as of `catalog.connect`.
            limits: What one query may take.
        """
        self.sources, self.limits = [str(source) for source in sources], limits or Limits()
        self.process: subprocess.Popen[bytes] | None = None
        self.turn = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> int | None:
        """End the process. Returns how it ended, where it had done so by itself."""
        if self.process is None:
            return None
        code = self.process.poll()
        self.process.kill()
        self.process.communicate()
        self.process = None
        return code

    def query(self, sql: str, kind: str = "csv", width: int = 200) -> bytes:
        """Answer one SELECT.

        Args:
            sql: One statement; nothing about it is trusted.
            kind: table, csv, json or parquet.
            width: Columns of a table.

        Returns:
            The whole answer in that form.

        Raises:
            CatalogError: The catalog does not open; the statement is no SELECT, uses what the sandbox lacks, or is wrong; it
                takes more than its limits.
        """
        if len(sql) > STATEMENT:
            raise CatalogError(f"the statement has {len(sql):,} characters: the sandbox reads {STATEMENT:,}")
        with self.turn:
            return self.asked(sql, kind, width)

    def asked(self, sql: str, kind: str, width: int) -> bytes:
        """The answer to one query; nobody else asks meanwhile."""
        process = self.process or self.start()
        try:
            answer, refusal = ask(process, {"sql": sql, "kind": kind, "width": width}, time.monotonic() + self.limits.seconds)
        except TimeoutError:
            self.close()
            raise CatalogError(self.why_ended(late=True)) from None
        except EOFError:
            with suppress(subprocess.TimeoutExpired):
                process.wait(1)
            raise CatalogError(self.why_ended(code=self.close())) from None
        except BaseException:  # interrupted, perhaps: what is in the pipe belongs to no later question
            self.close()
            raise
        if refusal is not None:
            raise CatalogError(refusal)
        return answer

    def start(self) -> subprocess.Popen[bytes]:
        """Begin the process; wait until it has opened the catalog and locked itself."""
        here = str(Path(__file__).parent.parent)
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))}
        command = [sys.executable, "-m", "catalog.sandboxed"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        try:
            _, refusal = ask(self.process, {"sources": self.sources, **asdict(self.limits)}, None)
        except EOFError:
            refusal = "the sandbox did not begin; what it said stands above. Does the same query run without --sandbox?"
        except BaseException:
            self.close()
            raise
        if refusal is not None:
            self.close()
            raise CatalogError(refusal)
        return self.process

    def why_ended(self, late: bool = False, code: int | None = None) -> str:
        """Why the process is gone, and what helps."""
        if late or code == -signal.SIGXCPU:
            return f"query ran past {self.limits.seconds:g} s and was stopped: ask for less (WHERE, LIMIT), or allow more: --max-seconds"
        how = f"signal {-code}" if code is not None and code < 0 else f"status {code}"
        return (
            f"query ended its process ({how}), most likely for want of memory ({self.limits.memory_mb:,} MB): ask for less, "
            "or allow more: --max-memory-mb"
        )


def ask(process: subprocess.Popen[bytes], question: object, deadline: float | None) -> tuple[bytes, str | None]:
    """Put a question to the process.

    Returns:
        The answer, and why it was refused instead.

    Raises:
        TimeoutError: The deadline passed.
        EOFError: The process ended, or said what it never says.
    """
    if process.stdin is None or process.stdout is None:
        raise EOFError
    try:
        process.stdin.write(json.dumps(question).encode() + b"\n")
        process.stdin.flush()
    except BrokenPipeError:
        raise EOFError from None
    head, _, body = read_until(process.stdout, deadline, lambda data: b"\n" in data or len(data) > HEADER).partition(b"\n")
    try:
        said = json.loads(head)
        size, refusal = int(said["size"]), None if said["refusal"] is None else str(said["refusal"])
    except (ValueError, KeyError, TypeError):
        raise EOFError from None
    more = read_until(process.stdout, deadline, lambda data: len(body) + len(data) >= size)
    return body + more, refusal


def read_until(pipe: IO[bytes], deadline: float | None, enough: Callable[[bytearray], bool]) -> bytes:
    """What comes through a pipe until it is enough."""
    data = bytearray()
    while not enough(data):
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not select.select([pipe], [], [], left)[0]:
            raise TimeoutError
        piece = os.read(pipe.fileno(), 1 << 16)
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


def query(sources: Sequence[str | Path], sql: str, kind: str, limits: Limits, width: int = 200) -> bytes:
    """One query in a process of its own."""
    with Sandbox(*sources, limits=limits) as sandbox:
        return sandbox.query(sql, kind, width)


def printable(data: bytes) -> bytes:
    """Text for a terminal: characters that would steer it are replaced."""
    return "".join(c if c.isprintable() or c in "\r\n\t" else "\N{REPLACEMENT CHARACTER}" for c in data.decode("utf-8", "replace")).encode()
