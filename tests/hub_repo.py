"""What a repository of the test Hub holds, and what it refuses to hold."""

import base64
import fnmatch
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

import yaml

LFS_RULES = b"".join(b"*.%s filter=lfs diff=lfs merge=lfs -text\n" % end for end in (b"parquet", b"bin", b"gz", b"safetensors"))
FRONT_MATTER = re.compile(r"\s*---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|$)", re.DOTALL)


@dataclass
class Reply:
    """What goes back to a client."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


class Refusal(Exception):
    """A reply other than success; `code` is the X-Error-Code that decides which exception the client raises."""

    def __init__(self, status: int, message: str, code: str = "", **more: Any) -> None:
        super().__init__(message)
        headers = {"X-Error-Message": ascii(message)[1:-1]} | ({"X-Error-Code": code} if code else {})
        self.reply = Reply(status, json.dumps({"error": message} | more).encode(), headers)


@dataclass(frozen=True)
class File:
    """One file of one commit."""

    data: bytes = field(repr=False)
    lfs: bool

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def pointer(self) -> bytes:
        return f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {len(self.data)}\n".encode()

    @property
    def oid(self) -> str:
        """Git's blob id: of the pointer, where the file is large."""
        blob = self.pointer if self.lfs else self.data
        return hashlib.sha1(b"blob %d\0" % len(blob) + blob).hexdigest()

    @property
    def etag(self) -> str:
        """What tells one content from another: the name of the blob in the clients' caches."""
        return self.sha256 if self.lfs else self.oid

    def entry(self, path: str) -> dict[str, Any]:
        """Its entry in a listing."""
        lfs = {"lfs": {"oid": self.sha256, "size": len(self.data), "pointerSize": len(self.pointer)}} if self.lfs else {}
        return {"type": "file", "path": path, "oid": self.oid, "size": len(self.data)} | lfs


class Commit(NamedTuple):
    """A whole tree, and whose it is."""

    oid: str
    title: str
    message: str
    author: str
    date: str
    parent: "Commit | None"
    files: dict[str, File]

    def entry(self) -> dict[str, Any]:
        """Its entry in a history."""
        return {"id": self.oid, "title": self.title, "message": self.message, "date": self.date, "authors": [{"user": self.author}]}


class Repo:
    """Commits, refs and large files of one repository; it begins with a .gitattributes, as on the real Hub."""

    def __init__(self, kind: str, repo_id: str, private: bool = False) -> None:
        self.kind, self.id, self.private = kind, repo_id, private
        self.commits: dict[str, Commit] = {}
        self.refs: dict[str, str] = {}  # refs/heads/main, refs/tags/v1, refs/pr/1 -> commit
        self.lfs: dict[str, bytes] = {}  # by sha256
        self.announced: dict[str, int] = {}  # sizes of the large files that clients said they would upload
        self.add("refs/heads/main", None, {".gitattributes": File(LFS_RULES, lfs=False)}, "initial commit", "", "me")

    @property
    def page(self) -> str:
        """Its path on the site."""
        return ("" if self.kind == "model" else f"{self.kind}s/") + self.id

    def ref(self, revision: str) -> str | None:
        """The whole name of a branch, tag or pull request."""
        return next((r for r in (f"refs/heads/{revision}", f"refs/tags/{revision}", revision) if r in self.refs), None)

    def at(self, revision: str) -> Commit:
        """The commit of a branch, tag, pull request, or commit id of 7 or more digits."""
        if ref := self.ref(revision):
            return self.commits[self.refs[ref]]
        for oid, commit in self.commits.items():
            if len(revision) >= 7 and oid.startswith(revision):
                return commit
        raise Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")

    def add(self, ref: str, parent: Commit | None, files: dict[str, File], title: str, message: str, author: str) -> Commit:
        """Put a commit on a branch or pull request."""
        seed = json.dumps([self.id, len(self.commits), title, {path: file.oid for path, file in files.items()}])
        date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        commit = Commit(hashlib.sha1(seed.encode()).hexdigest(), title, message, author, date, parent, files)
        self.commits[commit.oid] = commit
        self.refs[ref] = commit.oid
        return commit

    def list_refs(self) -> dict[str, list[dict[str, str]]]:
        """Every ref, sorted into kinds."""
        kinds = {"branches": "refs/heads/", "tags": "refs/tags/", "converts": "refs/convert/", "pullRequests": "refs/pr/"}
        return {
            kind: [{"name": r.removeprefix(start), "ref": r, "targetCommit": oid} for r, oid in self.refs.items() if r.startswith(start)]
            for kind, start in kinds.items()
        }

    def about(self, commit: Commit, blobs: bool) -> dict[str, Any]:
        """What the Hub tells of a repository at a commit; of its files only the names, unless asked for `blobs`."""
        siblings: list[dict[str, Any]] = []
        for path, file in sorted(commit.files.items()):
            entry = file.entry(path)
            lfs = {"lfs": entry["lfs"] | {"sha256": file.sha256}} if file.lfs else {}
            siblings.append({"rfilename": path} | ({"blobId": entry["oid"], "size": entry["size"]} | lfs if blobs else {}))
        readme = commit.files["README.md"].data.decode(errors="replace") if "README.md" in commit.files else ""
        card = FRONT_MATTER.match(readme)
        standing = {"private": self.private, "gated": False, "disabled": False, "tags": [], "lastModified": commit.date}
        return {"id": self.id, "sha": commit.oid, "siblings": siblings, "cardData": card and yaml.safe_load(card[1])} | standing

    def is_large(self, path: str, size: int, sample: bytes, limit: int) -> bool:
        """Whether a file goes to large storage: by size, by the repository's .gitattributes, or because it is binary."""
        rules = self.at("main").files.get(".gitattributes", File(b"", lfs=False)).data.decode().splitlines()
        patterns = [rule.split()[0] for rule in rules if "filter=lfs" in rule]
        return (
            size > limit
            or b"\0" in sample
            or any(fnmatch.fnmatch(path.rsplit("/", 1)[-1], p) or fnmatch.fnmatch(path, p) for p in patterns)
        )

    def changed(self, base: Commit, lines: Iterable[dict[str, Any]], limit: int) -> dict[str, File]:
        """The tree that the lines of a commit make out of another; no regular file may have more bytes than `limit`."""
        files = dict(base.files)
        for line in lines:
            key, value = line["key"], line["value"]
            path = checked_path(value["path"].removesuffix("/") if key == "deletedFolder" else value["path"])
            if key == "file":
                files[path] = regular_file(path, base64.b64decode(value["content"], validate=True), limit)
            elif key == "lfsFile":
                data = self.lfs.get(value["oid"])
                if data is None or len(data) != value.get("size", len(data)):
                    raise Refusal(400, f"LFS pointer pointed to a file that does not exist: {path}")
                files[path] = File(data, lfs=True)
            else:
                gone = [p for p in files if (p.startswith(f"{path}/") if key == "deletedFolder" else p == path)]
                if not gone:
                    raise Refusal(404, f"A file with this name doesn't exist: {path}", "EntryNotFound")
                files = {p: file for p, file in files.items() if p not in gone}
        folders = {folder for path in files for folder in parents(path)}
        if odd := folders & files.keys():
            raise Refusal(400, f"Both a file and a folder: {sorted(odd)}")
        return files


def parents(path: str) -> list[str]:
    """The folders that a path lies in, outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


def listing(files: dict[str, File], folder: str, recursive: bool) -> list[dict[str, Any]]:
    """What lies in a folder ("" is the root), with or without what lies in its folders."""
    prefix = f"{folder}/" if folder else ""
    entries: dict[str, dict[str, Any]] = {}
    for path, file in sorted(files.items()):
        if path.startswith(prefix):
            for name in [*parents(path), path]:
                if name.startswith(prefix) and (recursive or "/" not in name.removeprefix(prefix)):
                    entries[name] = file.entry(path) if name == path else folder_entry(name)
    return list(entries.values())


def paths_info(files: dict[str, File], paths: Iterable[str]) -> list[dict[str, Any]]:
    """Those of the paths that are files or folders."""
    folders = {folder for path in files for folder in parents(path)}
    return [files[p].entry(p) if p in files else folder_entry(p) for p in paths if p in files or p in folders]


def folder_entry(path: str) -> dict[str, Any]:
    """A folder in a listing; its oid is made up."""
    return {"type": "directory", "path": path, "oid": hashlib.sha1(path.encode()).hexdigest(), "size": 0}


def checked_path(path: str) -> str:
    """A path as git can hold it."""
    if any(part.lower() in ("", ".", "..", ".git") for part in path.split("/")):
        raise Refusal(400, f"Invalid path: {path!r}")
    if any(ord(char) < 32 or ord(char) == 127 for char in path):
        raise Refusal(400, f"Control character in path: {path!r}")
    return path


def regular_file(path: str, data: bytes, limit: int) -> File:
    """A file that came within the commit."""
    if len(data) > limit:
        raise Refusal(400, f"{path} is too large for a regular file")
    if path == "README.md" and (errors := metadata_errors(data.decode())):
        raise Refusal(400, f"Invalid metadata in README.md: {'; '.join(errors)}")
    return File(data, lfs=False)


def metadata_errors(readme: str) -> list[str]:
    """What the Hub would not take of the YAML in front of a README: syntax, a key twice, configs of a wrong shape."""
    front = FRONT_MATTER.match(readme)
    if front is None:
        return []
    try:
        node, data = yaml.compose(front[1], yaml.SafeLoader), yaml.safe_load(front[1])
    except yaml.YAMLError as error:
        return [f"YAML: {error}"]
    if data is None:
        return []
    if not isinstance(data, dict):
        return ["metadata is not a mapping"]
    errors = [f"duplicated mapping key {key!r}" for key, n in Counter(key.value for key, _ in node.value).items() if n > 1]
    configs = data.get("configs", [])
    if not isinstance(configs, list) or not all(isinstance(c, dict) and isinstance(c.get("config_name"), str) for c in configs):
        errors.append('"configs" is not a list of mappings with a config_name')
    return errors
