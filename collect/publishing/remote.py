"""A dataset on the Hub: what one commit of it holds, and one commit more."""

import glob
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.parquet as pq

from catalog.errors import CatalogError
from catalog.hub import COMMIT
from catalog.open import SCHEMA_VERSION, SMALL_TABLES, card_of_checked, columns_of, load_small, schema_sql, told_by
from collect.publishing.faults import Again, explained

if TYPE_CHECKING:
    from huggingface_hub import HfApi

KIND = "dataset"
DIGESTS = "forgetting_catalog_digests"  # Parquet metadata key: id -> digest of the rows it names
SMALL_LIMIT = 2_000_000_000  # bytes of all small tables together, the cards of runs among them
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class State:
    """What one commit holds; `oid` is None where there is no dataset yet."""

    oid: str | None
    files: Mapping[str, int] = field(default_factory=dict)  # path -> bytes
    rows: Mapping[str, Rows] = field(default_factory=lambda: {table: [] for table in SMALL_TABLES})
    digests: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # "runs", "itemsets" -> id -> digest
    readme: str | None = None
    newer: Collection[str] = ()  # paths of small files that a newer minor version of the package wrote

    def of_table(self, table: str) -> list[str]:
        """Paths of a table's files."""
        return sorted(path for path in self.files if path.startswith(f"{table}/") and path.endswith(".parquet"))


@dataclass
class Change:
    """What one commit does: files to add by their path in the dataset (a local file, or bytes), files to delete."""

    message: str
    adds: dict[str, Path | bytes] = field(default_factory=dict)
    deletes: list[str] = field(default_factory=list)

    def sizes(self) -> dict[str, int]:
        """Bytes of every added file."""
        return {path: len(c) if isinstance(c, bytes) else c.stat().st_size for path, c in self.adds.items()}


@dataclass
class Dataset:
    """One branch of a dataset; with `pull` a pull request against it, once the first commit has opened that."""

    repo: str
    revision: str = "main"
    pull: bool = False
    private: bool = False
    may_create: bool = True
    api: "HfApi" = field(init=False)

    def __post_init__(self) -> None:
        """Check the name; endpoint and token are those of the environment."""
        from huggingface_hub import HfApi
        from huggingface_hub.errors import HFValidationError
        from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

        try:
            validate_repo_id(self.repo)
        except HFValidationError as error:
            raise CatalogError(f"--repo wants ORG/NAME: {error}") from error
        if "/" not in self.repo:
            raise CatalogError(f"--repo wants ORG/NAME, found {self.repo!r}")
        if COMMIT.fullmatch(self.revision):
            raise CatalogError(f"--revision wants a branch, found the commit {self.revision}: nothing can be added to that")
        self.api = HfApi()

    def head(self) -> str | None:
        """Commit id of the branch; repository and branch are made where they are missing and may be made."""
        from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

        try:
            info = self.api.repo_info(self.repo, repo_type=KIND)
        except RepositoryNotFoundError as error:
            if not self.may_create and error.response.status_code == 404:
                return None
            if self.pull or not self.may_create:
                raise
            self.create()
            info = self.api.repo_info(self.repo, repo_type=KIND)
        if self.private and not info.private:
            raise CatalogError(f"{self.repo} is there already and is public: make it private in its settings, or leave --private away")
        if self.revision == "main":
            return info.sha
        try:
            return self.api.repo_info(self.repo, repo_type=KIND, revision=self.revision).sha
        except RevisionNotFoundError as error:
            if self.revision.startswith("refs/"):
                raise CatalogError(f"{self.repo} has no {self.revision}: name a branch, or a pull request as refs/pr/NUMBER") from error
            if self.may_create and not self.pull:
                self.api.create_branch(self.repo, branch=self.revision, repo_type=KIND, exist_ok=True)
            return info.sha

    def create(self) -> None:
        """Make the dataset.

        Raises:
            CatalogError: The token may not; a pull request needs a dataset that is there.
        """
        from huggingface_hub.errors import HfHubHTTPError

        try:
            self.api.create_repo(self.repo, repo_type=KIND, private=self.private or None, exist_ok=True)
        except HfHubHTTPError as error:
            if error.response.status_code != 403:
                raise
            raise CatalogError(
                f"there is no dataset {self.repo}, and your token may not make one ({error.server_message or 403}): "
                "give --repo a name of your own, or log in with a token that may: `hf auth login`"
            ) from error

    def state(self) -> State:
        """What the head of the branch holds, its small tables downloaded and checked."""
        from huggingface_hub.hf_api import RepoFile

        with explained(self.repo):
            oid = self.head()
            if oid is None:
                return State(None)
            tree = self.api.list_repo_tree(self.repo, recursive=True, revision=oid, repo_type=KIND)
            files = {entry.path: entry.size for entry in tree if isinstance(entry, RepoFile)}
        if (size := sum(size for path, size in files.items() if is_small(path))) > SMALL_LIMIT:
            raise CatalogError(
                f"the small tables of {self.repo} are {size:,} bytes: `collect publish` did not write those, look at them on the Hub"
            )
        found = self.fetch(oid, [path for path in files if is_small(path)])
        if not found:
            return State(oid, files)
        readme = found.pop("README.md", None)
        rows, digests = read_small(found)
        newer = [path for path, copy in found.items() if is_newer(copy)]
        try:
            return State(oid, files, rows, digests, readme.read_text(encoding="utf-8") if readme else None, newer)
        except UnicodeDecodeError as error:
            raise CatalogError(f"README.md of {self.repo} is not UTF-8: mend it on the Hub, then run the same command again") from error

    def fetch(self, oid: str, paths: list[str]) -> dict[str, Path]:
        """Files of a commit, from the cache where they are there; path -> local file."""
        from huggingface_hub import snapshot_download

        if not paths:
            return {}
        # each pattern is tried on each file: a whole folder is one pattern
        whole = {f"{path.split('/')[0]}/*.parquet" for path in paths if path.split("/")[0] in SMALL_TABLES}
        patterns = [*whole, *(glob.escape(path) for path in paths if path.split("/")[0] not in SMALL_TABLES)]
        with explained(self.repo):
            folder = Path(
                snapshot_download(self.repo, repo_type=KIND, revision=oid, allow_patterns=sorted(patterns), tqdm_class=silent_bar())
            )
        if missing := [path for path in paths if not (folder / path).exists()]:
            raise Again(f"{missing[0]} could not be downloaded")
        return {path: folder / path for path in paths}

    def send(self, change: Change, parent: str | None) -> str:
        """One atomic commit on top of `parent`, and a look at whether its small files arrived as they were sent.

        Returns:
            The address to look at.

        Raises:
            CatalogError: A small file has other bytes there.
        """
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        additions = [CommitOperationAdd(path, content) for path, content in change.adds.items()]
        deletions = [CommitOperationDelete(path, is_folder=False) for path in change.deletes]
        with explained(self.repo):
            info = self.api.create_commit(
                self.repo, [*additions, *deletions], commit_message=change.message, repo_type=KIND, revision=self.revision,
                create_pr=self.pull, parent_commit=parent,
            )  # fmt: skip
        if info.pr_revision:  # what follows goes into the same pull request
            self.revision, self.pull = info.pr_revision, False
        if odd := self.altered(info.oid, change):
            raise CatalogError(
                f"{', '.join(odd)} of {self.repo} came back other than it was sent (commit {info.oid}): something on the way changes it. "
                "Compare it with your own, and revert that commit on the Hub if it is damaged"
            )
        return info.pr_url or str(info.commit_url)

    def altered(self, oid: str, change: Change) -> list[str]:
        """Small files of a commit that, downloaded, have other bytes than were sent."""
        sent = {path: content for path, content in change.adds.items() if is_small(path)}
        wanted = {path: content if isinstance(content, bytes) else content.read_bytes() for path, content in sent.items()}
        copies = self.fetch(oid, list(sent))
        return [path for path, copy in copies.items() if sha256(copy.read_bytes()).digest() != sha256(wanted[path]).digest()]

    def requests(self) -> set[str]:
        """Pull requests that are there."""
        with explained(self.repo):
            refs = self.api.list_repo_refs(self.repo, repo_type=KIND, include_pull_requests=True)
        return {ref.ref for ref in refs.pull_requests or []}


def silent_bar() -> Any:
    """A progress bar that shows nothing: small tables are many files and few bytes."""
    from tqdm import tqdm

    class Silent(tqdm):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **{**kwargs, "disable": True})

    return Silent


def is_small(path: str) -> bool:
    """The card, a small table's file, or a run's own file: its metadata holds rows of small tables."""
    table, _, name = path.partition("/")
    own = table == "outcomes" and Path(name).stem.isdigit()
    return path == "README.md" or (path.endswith(".parquet") and (table in SMALL_TABLES or own))


def read_small(found: Mapping[str, Path]) -> tuple[dict[str, Rows], dict[str, dict[str, str]]]:
    """Rows of the small tables in downloaded files, and the digests that their files carry.

    Raises:
        CatalogError: A file is no Parquet, of another major version, or of other columns.
    """
    files: dict[str, list[str]] = {table: [] for table in SMALL_TABLES}
    digests: dict[str, dict[str, str]] = {}
    cards = {}
    for path, copy in sorted(found.items()):
        table = path.split("/")[0]
        if card := card_of_checked(table, str(copy)):
            cards[path] = card
        digests.setdefault(table, {}).update(digests_of(copy))
        if table in files:
            files[table].append(str(copy))
    con = empty_tables().cursor()
    con.execute("BEGIN")
    load_small(con, files, told_by(cards))
    rows = {table: con.sql(f"SELECT {columns_of(table)} FROM {table} ORDER BY {key}").to_arrow_table().to_pylist()
            for table, key in SMALL_TABLES.items()}  # fmt: skip
    con.execute("ROLLBACK")
    return rows, digests


def is_newer(file: Path) -> bool:
    """Whether a newer minor version of the package wrote it, which may say more than this one can write."""
    version = (pq.read_schema(file).metadata or {}).get(b"schema_version", b"").decode()
    return [int(n) for n in re.findall(r"\d+", version)] > [int(n) for n in SCHEMA_VERSION.split(".")]


def refuse_to_rewrite(repo: str, newer: Collection[str]) -> None:
    """Refuse to replace what a newer minor version wrote.

    Raises:
        CatalogError: There is any such file.
    """
    if newer:
        raise CatalogError(
            f"{min(newer)} of {repo} was written by a newer version of this package, which may say more than this one knows; to write it "
            "again would lose that: pip install --upgrade forgetting-catalog"
        )


@cache
def empty_tables() -> duckdb.DuckDBPyConnection:
    """The tables of a catalog without its views, which take longer to make."""
    con = duckdb.connect()
    con.execute(schema_sql().split("-- ==== 2.")[0])
    return con


def digests_of(file: Any) -> dict[str, str]:
    """The digests in a Parquet file's metadata; none where another program wrote it, or wrote something else there."""
    try:
        told = json.loads((pq.read_schema(file).metadata or {}).get(DIGESTS.encode(), b"{}"))
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}
