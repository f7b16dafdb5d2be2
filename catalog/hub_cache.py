"""What is remembered of data sets between calls: refs and listings, kept inside the Hub client's cache so that they go with it."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from catalog.guard import refuse_paths


class Entry(NamedTuple):
    """A file of a listing: bytes, sha256 where the Hub keeps it as a large file, git's id where it does not."""

    size: int
    sha256: str | None
    git_id: str | None


def cache_of(repo: str) -> Path:
    """Where the client keeps a data set."""
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    return Path(constants.HF_HUB_CACHE).expanduser() / repo_folder_name(repo_id=repo, repo_type="dataset")


def memory_of(repo: str) -> Path:
    """Where we keep refs (their age is when the Hub last confirmed them) and listings."""
    return cache_of(repo) / "forgetting-catalog"


def remember(repo: str, name: str, text: str) -> None:
    """Write one small file, whole or not at all; a cache that cannot be written only forgets."""
    path = memory_of(repo) / name
    part = path.with_name(f"{name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def remembered(repo: str, commit: str) -> dict[str, Entry] | None:
    """The listing of a commit, which never changes; None if it was never read."""
    try:
        found = json.loads((memory_of(repo) / f"{commit}.json").read_text(encoding="utf-8"))
        files = {str(path): Entry(*entry) for path, entry in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    refuse_paths(f"{repo} at {commit[:12]}", files)
    return files


def cached_tree(repo: str, commit: str) -> dict[str, Entry] | None:
    """The listing that another program left in the client's cache, if any; it has no sha256."""
    from huggingface_hub import get_cached_repo_tree
    from huggingface_hub.errors import CachedRepoTreeNotFoundError

    try:
        tree = get_cached_repo_tree(repo, repo_type="dataset", revision=commit)
    except CachedRepoTreeNotFoundError:
        return None
    refuse_paths(f"{repo} at {commit[:12]}", (file.path for file in tree))
    return {file.path: Entry(file.size, None, None) for file in tree}


def cached_ref(repo: str, revision: str | None) -> str | None:
    """The commit that another program of this user left in the client's cache for the revision."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import RevisionResolutionError

    try:
        return HfApi().resolve_revision(repo, repo_type="dataset", revision=revision, local_files_only=True).resolved
    except RevisionResolutionError:
        return None
