"""Who is collecting what, and how far it is: one file a pass in `<runs>/.collecting`, gone when its runs are whole.

The file is locked while a process works on the pass. The system takes the lock away when that process ends, however it
ends, so that nothing has to be cleaned up after a kill. Results are appended as they come; whoever takes the pass up
again goes on after the last whole line, and gets what an uninterrupted run would have got.
"""

import contextlib
import errno
import json
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from catalog.errors import CatalogError

FOLDER = ".collecting"


class Claim:
    """A pass that this process holds. results: what is known of its items already."""

    def __init__(self, path: Path, file: BinaryIO, header: Mapping[str, Any]) -> None:
        self.path, self.file = path, file
        self.results = self.take_up(dict(header))
        self.over = False

    def take_up(self, header: dict[str, Any]) -> dict[int, list[Any]]:
        """Results of an earlier try of the same pass under the same conditions; the file begins anew without one.

        What is known stays where it is, even if the disk has no room for another line; a torn last line is closed.
        """
        known, results = read(self.path)
        line = json.dumps({**header, "host": socket.gethostname(), "pid": os.getpid(), "failed": None}) + "\n"
        same = known.get("conditions") == header["conditions"]
        self.write("\n" + line if same else line, anew=not same)
        return results if same else {}

    def write(self, text: str, anew: bool = False) -> None:
        """Append, and leave it to the system: what a kill of this process cannot take back."""
        try:
            if anew:
                self.file.truncate(0)
            self.file.write(text.encode())
            self.file.flush()
        except OSError as error:
            raise unwritable(self.path, error) from error

    def keep(self, at: int, result: list[Any]) -> None:
        """Note the result of one item."""
        self.results[at] = result
        self.write(json.dumps([at, result]) + "\n")

    def done(self) -> None:
        """The pass's runs are whole: nothing is left to remember."""
        self.path.unlink(missing_ok=True)
        self.over = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if not self.over and error is not None:
                self.file.write(
                    json.dumps({"failed": f"{str(error).splitlines()[0]:.300}" if str(error) else type(error).__name__}).encode() + b"\n"
                )
                self.file.flush()
        except OSError:
            pass  # the disk is full: the error on its way says so
        finally:
            close(self.file)


def unwritable(path: Path, error: OSError) -> CatalogError:
    """A folder that cannot be written, in words."""
    what = "the disk is full" if error.errno == errno.ENOSPC else f"{error.strerror or error}"
    return CatalogError(f"cannot write {path}: {what}. Nothing is half-written; make room and run the same command again")


def close(file: BinaryIO) -> None:
    """Close a file whose last bytes may not fit on the disk."""
    with contextlib.suppress(OSError):
        file.close()


def claim(out: Path, name: str, header: Mapping[str, Any]) -> Claim | None:
    """Hold a pass, or None where another process does.

    Args:
        out: Catalog folder.
        name: The pass's own name.
        header: What the file says of it; `conditions` decide whether an earlier try's results are used.

    Raises:
        CatalogError: The folder cannot be written.
    """
    path = out / FOLDER / f"{name}.jsonl"
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("ab")
        except FileNotFoundError:  # the folder was tidied away in between
            continue
        except OSError as error:
            raise unwritable(path, error) from error
        if not locked(file):
            time.sleep(0.02)  # `collect status` may be looking, for a moment
            if not locked(file):
                file.close()
                return None
        if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return Claim(path, file, header)
        file.close()  # the one who held it was done and removed it


def locked(file: BinaryIO) -> bool:
    """Lock a file for this process, if no other holds it."""
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows
        import msvcrt

        try:
            file.seek(2**40)  # beyond the content, which others may read
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def tidy(out: Path) -> None:
    """Remove the folder of claims when it is empty."""
    with contextlib.suppress(OSError):
        (out / FOLDER).rmdir()


def read(path: Path) -> tuple[dict[str, Any], dict[int, list[Any]]]:
    """A claim's header and results. `failed` in the header: why its last try ended; a torn line counts for nothing."""
    header: dict[str, Any] = {}
    results = {}
    for line in path.read_bytes().split(b"\n")[:-1]:
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            header.update(value)
        else:
            results[value[0]] = value[1]
    return header, results


def claims(out: Path) -> list[dict[str, Any]]:
    """Every pass that was begun and is not done: its header, `state` ('running' or 'failed') and `n_results`."""
    found = []
    for path in sorted((out / FOLDER).glob("*.jsonl")):
        try:
            with path.open("ab") as file:
                state = "failed" if locked(file) else "running"
            header, results = read(path)
        except FileNotFoundError:  # done in between
            continue
        if header:
            found.append({**header, "state": state, "n_results": len(results)})
    return found
