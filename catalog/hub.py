"""Data sets on the Hub: a name becomes a commit, the commit a listing that is looked at, the listing a folder in the client's cache.

Everything is pinned to the commit: what is opened again later, with or without the Hub, is the same bytes or an error.
"""

import glob
import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from urllib.parse import quote

from catalog.errors import CatalogError
from catalog.guard import content_ids, first_line, refuse_paths, refuse_patterns
from catalog.hub_cache import Entry, cache_of, cached_ref, cached_tree, memory_of, remember, remembered

NAME = re.compile(r"(?P<repo>\w[\w.-]*/\w[\w.-]*)(?:@(?P<revision>[\w.][\w./-]*))?")
COMMIT = re.compile(r"[0-9a-f]{40}")
TIMEOUT = 10  # seconds until the Hub counts as out of reach
ORIGIN = "downloaded.json"  # in a downloaded folder: the data set and commit it came from
MOST_FILES = 1_000_000
LOGIN = "If it is private: hf auth login, or set HF_TOKEN"


@dataclass(frozen=True)
class Dataset:
    """A data set at a commit. `offline` says why the Hub was not asked, where it was not."""

    repo: str
    commit: str
    files: Mapping[str, Entry] = field(default_factory=dict)
    offline: str = ""

    def __str__(self) -> str:
        return f"{self.repo} at {self.commit[:12]}"


def named(source: str | Path) -> tuple[str, str | None] | None:
    """(ORG/NAME, revision) if that is what a source looks like; None for anything else. A folder of that name wins."""
    found = NAME.fullmatch(str(source))
    if found is None or Path(source).expanduser().is_dir() or ".." in str(source):
        return None
    return found["repo"], found["revision"]


def dataset(repo: str, revision: str | None) -> Dataset:
    """Find the commit of a revision, and what it holds; from the cache where the Hub is out of reach.

    Raises:
        CatalogError: There is no such data set or revision, it is private, its listing cannot be trusted, or the Hub is
            out of reach and the cache has nothing.
    """
    commit, offline = resolve(repo, revision)
    files = remembered(repo, commit)
    if files is None:
        files, offline = listed(repo, commit, offline)
    tables = {path: entry for path, entry in files.items() if is_ours(path)}
    refuse_patterns(f"{repo} at {commit[:12]}", tables)
    if not any(path.startswith("outcomes/") for path in tables):
        raise CatalogError(f"{repo} at {commit[:12]} holds no outcomes/*.parquet: it is no catalog as `collect publish` writes it")
    return Dataset(repo, commit, tables, offline)


def is_ours(path: str) -> bool:
    """Whether a path of a listing is a Parquet file of one of our tables."""
    from catalog.sources import LARGE_TABLES, SMALL_TABLES

    return path.endswith(".parquet") and path.split("/", maxsplit=1)[0] in (*SMALL_TABLES, *LARGE_TABLES) and "/" in path


def resolve(repo: str, revision: str | None) -> tuple[str, str]:
    """The commit of a revision (none is main), and why it comes from the cache, "" where the Hub said it."""
    from huggingface_hub import HfApi

    if revision and COMMIT.fullmatch(revision):
        return revision, ""
    ref = quote(revision or "main", safe="")
    try:
        with answers(repo, revision):
            commit = HfApi().repo_info(repo, repo_type="dataset", revision=revision, timeout=TIMEOUT).sha
    except OutOfReach as error:
        path = memory_of(repo) / ref
        commit = path.read_text(encoding="utf-8").strip() if path.is_file() else cached_ref(repo, revision)
        if commit is None:
            raise nothing_cached(repo, revision, error) from error
        age = f", as it was {days(time.time() - path.stat().st_mtime)} ago" if path.is_file() else ""
        say(f"note: the Hub is out of reach ({error}); {repo} is opened from the cache at {commit}{age}")
        return checked_commit(repo, commit), str(error)
    commit = checked_commit(repo, commit)
    remember(repo, ref, commit)
    return commit, ""


def checked_commit(repo: str, commit: str | None) -> str:
    """A commit id becomes the name of a folder: nothing else may."""
    if commit is None or not COMMIT.fullmatch(commit):
        raise CatalogError(f"{repo}: the Hub names a commit {commit!r}, which is none: nothing was downloaded")
    return commit


class OutOfReach(Exception):
    """The Hub does not answer, or only that it cannot now."""


@contextmanager
def answers(repo: str, revision: str | None) -> Iterator[None]:
    """Turn what the client raises into what a user can mend; OutOfReach where the cache may help.

    The client's texts name addresses and request ids, never tokens.
    """
    from httpx2 import TransportError  # comes with huggingface_hub
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    where = f"{constants.ENDPOINT}/datasets/{repo}"
    try:
        yield
    except RevisionNotFoundError as error:
        raise CatalogError(f"{repo} has no revision {revision}: give a branch, tag or commit of {where}, or none for main") from error
    except GatedRepoError as error:
        raise CatalogError(f"{repo} is gated: ask for access at {where}, then hf auth login") from error
    except RepositoryNotFoundError as error:
        raise CatalogError(f"no folder {repo} here, and no data set {where} that you may see. {LOGIN}") from error
    except HFValidationError as error:
        raise CatalogError(f"{repo} is neither a folder nor a name that a data set can have: {first_line(error)}") from error
    except OfflineModeIsEnabled as error:
        raise OutOfReach("HF_HUB_OFFLINE is set") from error
    except HfHubHTTPError as error:
        if (status := error.response.status_code) in (401, 403):
            raise CatalogError(
                f"no folder {repo} here, and the Hub refuses {repo} ({status}): the token is wrong or may not read it. {LOGIN}"
            ) from error
        raise OutOfReach(first_line(error)) from error
    except TransportError as error:
        raise OutOfReach(f"{constants.ENDPOINT}: {first_line(error)}") from error
    except (ValueError, TypeError, LookupError, AttributeError) as error:  # a page that asks to log in to the network, say
        raise OutOfReach(f"{constants.ENDPOINT} answers what the Hub would not: {first_line(error)}") from error


def nothing_cached(repo: str, revision: str | None, error: object) -> CatalogError:
    """What to say when neither the Hub nor the cache has it."""
    at = f"@{revision}" if revision else ""
    return CatalogError(
        f"the Hub is out of reach ({error}) and the cache has nothing of {repo}{at}; nor is there a folder {repo} here. "
        f"Online, run: catalog download {repo}{f' --revision {revision}' if revision else ''}"
    )


def listed(repo: str, commit: str, offline: str) -> tuple[dict[str, Entry], str]:
    """What a commit holds, as the Hub tells it or the client's cache remembers it; and why the Hub does not, if so.

    Raises:
        CatalogError: A path would lie outside the folder, there is no end to them, or nobody knows.
    """
    if not offline:
        try:
            files = asked(repo, commit)
            remember(repo, f"{commit}.json", json.dumps(files))
            return files, ""
        except OutOfReach as error:
            offline = str(error)
    if (tree := cached_tree(repo, commit)) is None:
        raise nothing_cached(repo, commit, offline)
    return tree, offline


def asked(repo: str, commit: str) -> dict[str, Entry]:
    """What the Hub says that a commit holds."""
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile

    with answers(repo, commit):
        tree = HfApi().list_repo_tree(repo, repo_type="dataset", revision=commit, recursive=True)
        entries = list(islice(tree, MOST_FILES + 1))
        refuse_paths(f"{repo} at {commit[:12]}", (entry.path for entry in entries))
        files = [entry for entry in entries if isinstance(entry, RepoFile)]
        listing = {f.path: Entry(int(f.size), f.lfs.sha256 if f.lfs else None, None if f.lfs else f.blob_id) for f in files}
    if len(entries) > MOST_FILES:
        raise CatalogError(f"{repo} lists more than {MOST_FILES} files: nothing was downloaded")
    return listing


# ---- download ----


def fetch(data: Dataset, wanted: Callable[[str], bool] = lambda path: True) -> Path:
    """The folder in the client's cache with the wanted files of a data set, each as the Hub's listing says it is.

    Raises:
        CatalogError: There is no room, a file is not what was listed, or one is missing and the Hub is out of reach.
    """
    from huggingface_hub import snapshot_download

    files = {path: entry for path, entry in data.files.items() if wanted(path)}
    folder = cache_of(data.repo) / "snapshots" / data.commit
    missing = {path: entry for path, entry in files.items() if not (folder / path).exists()}
    if missing:
        if data.offline:
            raise CatalogError(
                f"the Hub is out of reach ({data.offline}) and the cache lacks {len(missing)} of {len(files)} files of {data}. "
                f"Online, run: catalog download {data.repo} --revision {data.commit}"
            )
        announce(data, missing, len(files))
        try:
            with answers(data.repo, data.commit):
                snapshot_download(data.repo, repo_type="dataset", revision=data.commit, allow_patterns=patterns(missing))
        except (OutOfReach, OSError, RuntimeError) as error:
            raise CatalogError(f"{data} did not arrive whole ({first_line(error)}): run the same command again, it goes on") from error
    for path, entry in files.items():
        verify(data, folder / path, path, entry)
    return folder


def patterns(paths: Iterable[str]) -> list[str]:
    """Patterns of the client that fit the folders of the paths: few, since it tries each on each path of the listing."""
    wanted = set()
    for path in paths:
        folder, _, name = path.rpartition("/")
        # a pattern reaches into the folders of a folder: a table's own folder is not named by one
        wanted.add(f"{glob.escape(folder)}/{'*.parquet' if '/' in folder else glob.escape(name)}")
    return sorted(wanted)


def announce(data: Dataset, missing: Mapping[str, Entry], n_files: int) -> None:
    """Say how much is to come, and refuse more than there is room for."""
    total = sum(entry.size for entry in missing.values())
    if any(entry.size < 0 for entry in missing.values()):
        raise CatalogError(f"{data} lists files of less than 0 bytes: nothing was downloaded")
    room = cache_of(data.repo)
    while not room.exists():
        room = room.parent
    free = shutil.disk_usage(room).free
    if total > free:
        raise CatalogError(
            f"{data} needs {amount(total)}, {room} has {amount(free)} free: nothing was downloaded. "
            f"Make room, set HF_HOME to another disk, or take a part: catalog download {data.repo} --models ..."
        )
    say(f"{data}: {len(missing)} of {n_files} files to download, {amount(total)}")


def verify(data: Dataset, file: Path, path: str, entry: Entry) -> None:
    """Refuse a file that is not what the listing says; it leaves the cache, so that the next call fetches it anew."""
    size = file.stat().st_size if file.exists() else None
    sha256, git_id = content_ids(file) if entry.sha256 or entry.git_id else (None, None)
    if size == entry.size and (entry.sha256 or sha256) == sha256 and (entry.git_id or git_id) == git_id:
        return
    found = "is missing" if size is None else f"has {size} bytes" if size != entry.size else "has another sha256"
    for place in (file.resolve(), file):
        place.unlink(missing_ok=True)
    raise CatalogError(
        f"{data}: {path} {found}, which is not the file of {entry.size} bytes that the Hub lists. "
        "What was there was taken out of the cache: run the same command again, online"
    )


def origin_of(root: Path, name: str) -> tuple[str, Path, str | None]:
    """Name, folder and commit of a catalog folder: those of the data set it was downloaded from, if it was."""
    try:
        found = json.loads((root / ORIGIN).read_text(encoding="utf-8"))
        commit = found["revision"]
    except (OSError, ValueError, TypeError, KeyError):
        return name, root, None
    return (name, root, commit) if isinstance(commit, str) and COMMIT.fullmatch(commit) else (name, root, None)


def amount(n_bytes: float) -> str:
    """Bytes for people."""
    units = ["bytes", "kB", "MB", "GB", "TB"]
    while n_bytes >= 1000 and len(units) > 1:
        n_bytes /= 1000
        del units[0]
    return f"{n_bytes:.1f} {units[0]}" if units[0] != "bytes" else f"{n_bytes:.0f} bytes"


def days(seconds: float) -> str:
    """An age for people."""
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} seconds"


def say(text: str) -> None:
    """Talk goes to stderr."""
    print(text, file=sys.stderr)
