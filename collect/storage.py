"""Where runs go: a folder, or a URL that fsspec knows (s3://, gs://, hf://, file://). A run appears there whole or not at all."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from catalog.errors import CatalogError


class Storage:
    """A catalog folder wherever it lies. Of a folder on this machine nothing is copied."""

    def __init__(self, where: str) -> None:
        """Find it.

        Raises:
            CatalogError: fsspec or its part for this kind of URL is not installed.
        """
        self.where = where.rstrip("/")
        self.here = None if "://" in where else Path(where)
        self.fs: Any = None
        if self.here is None:
            try:
                from fsspec.core import url_to_fs

                self.fs, self.root = url_to_fs(self.where)
            except (ImportError, ValueError) as error:
                raise CatalogError(f"{where} cannot be reached: {error}. Install what fsspec wants for it, or give a folder") from error

    def has(self, path: str) -> bool:
        """Whether a file lies there."""
        return (self.here / path).exists() if self.here else bool(self.fs.exists(f"{self.root}/{path}"))

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """A folder to collect into; what lies in it at the end is sent.

        Raises:
            CatalogError: It cannot be sent.
        """
        if self.here:
            yield self.here
            return
        with tempfile.TemporaryDirectory(prefix="forgetting-catalog-") as name:
            yield Path(name)
            self.send(Path(name))

    def send(self, folder: Path) -> None:
        """Send a folder's files: outcomes last, as they make a run whole; each under another name, then renamed."""
        files = [path for path in folder.rglob("*") if path.is_file() and not path.relative_to(folder).parts[0].startswith(".")]
        for path in sorted(files, key=lambda path: (path.relative_to(folder).parts[0] == "outcomes", path)):
            relative = path.relative_to(folder).as_posix()
            if relative.startswith("samples/") and self.has(relative):
                continue
            target = f"{self.root}/{relative}"
            try:
                self.fs.makedirs(target.rpartition("/")[0], exist_ok=True)
                self.fs.put_file(str(path), f"{target}.part")
                self.fs.mv(f"{target}.part", target)
            except OSError as error:
                with suppress(OSError):
                    self.fs.rm_file(f"{target}.part")
                raise CatalogError(
                    f"cannot write {self.where}/{relative}: {error.strerror or error}. Nothing is half-written; run the same command again"
                ) from error

    def fetch(self, path: str, folder: Path) -> None:
        """Bring one file, where it lies there, into a folder."""
        if self.here is None and self.has(path):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            self.fs.get_file(f"{self.root}/{path}", str(folder / path))

    def note(self, path: str, text: str) -> str:
        """Write a text file. Returns where."""
        with self.folder() as folder:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        return f"{self.where}/{path}"
