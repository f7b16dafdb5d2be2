"""What the test Hub answers to each request: accounts, repositories, writing, reading.

It refuses what the real Hub refuses, with the status and headers that make the clients raise the same exceptions.
Left out: Xet, multipart uploads, .gitignore, gated repositories, discussions, expand=.
"""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from email.message import Message
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlencode

from hub_repo import Commit, Refusal, Reply, Repo, listing, metadata_errors, paths_info

OWNER, READER, STRANGER = "hf_owner", "hf_reader", "hf_stranger"


class User(NamedTuple):
    """Whom a token belongs to, and what the token may do there: "write" or only "read"."""

    name: str
    role: str
    orgs: tuple[str, ...] = ()

    def owns(self, repo_id: str) -> bool:
        return repo_id.split("/", 1)[0] in (self.name, *self.orgs)


ANONYMOUS = User("", "none")


@dataclass
class Request:
    """What came in; also its line in `Hub.log`: `status` is 0 when the line went dead before an answer."""

    method: str
    path: str
    query: dict[str, str]
    headers: Message
    user: User = ANONYMOUS
    body: bytes = field(default=b"", repr=False)
    status: int = 0
    received: int = 0
    sent: int = 0


def as_json(data: object, status: int = 200) -> Reply:
    return Reply(status, json.dumps(data).encode(), {"Content-Type": "application/json"})


def in_range(request: Request, data: bytes, headers: dict[str, str]) -> Reply:
    """The bytes that the request's Range asks for."""
    headers = headers | {"Accept-Ranges": "bytes"}
    match = re.fullmatch(r"bytes=(\d*)-(\d*)", request.headers.get("Range", ""))
    if match is None or not any(match.groups()):
        return Reply(200, data, headers)
    start, end = (int(n) if n else None for n in match.groups())
    if start is None:
        start, end = max(len(data) - (end or 0), 0), None
    end = len(data) if end is None else min(end + 1, len(data))
    if start >= end:
        return Reply(416, b"", headers | {"Content-Range": f"bytes */{len(data)}"})
    return Reply(206, data[start:end], headers | {"Content-Range": f"bytes {start}-{end - 1}/{len(data)}"})


ROUTES: list[tuple[list[str], re.Pattern[str], Callable[..., Reply]]] = []
GROUPS = {"kind": "model|dataset|space", "repo": "[^/]+/[^/]+?", "rev": "[^/]+", "path": ".+", "oid": "[0-9a-f]{64}"}
API, PAGE = "/api/{kind}s/{repo}", "/(?:{kind}s/)?{repo}"


def route(methods: str, path: str) -> Callable[[Callable[..., Reply]], Callable[..., Reply]]:
    """Send requests to a function; the {groups} of the path become its arguments, unquoted."""
    pattern = re.compile(re.sub(r"\{(\w+)\}", lambda m: f"(?P<{m[1]}>{GROUPS[m[1]]})", path))

    def add(work: Callable[..., Reply]) -> Callable[..., Reply]:
        ROUTES.append((methods.split(), pattern, work))
        return work

    return add


class Site:
    """Repositories, and who may do what with them; `url` and `storage` are the two origins it is served at."""

    url: str
    storage: str

    def __init__(self) -> None:
        self.users = {OWNER: User("me", "write", ("org",)), READER: User("me", "read", ("org",)), STRANGER: User("other", "write")}
        self.repos: dict[tuple[str, str], Repo] = {}
        self.page = 1000  # entries of a listing before it goes on in the next page
        self.lfs_from = 10_000_000  # bytes from which a file is large whatever it holds
        self.lock = threading.RLock()

    def answer(self, request: Request) -> Reply:
        """Find the user and the route; a Refusal is an answer too."""
        with self.lock:
            try:
                token = request.headers.get("Authorization", "").removeprefix("Bearer ")
                if token and token not in self.users:
                    raise Refusal(401, "Invalid credentials in Authorization header")
                request.user = self.users.get(token, ANONYMOUS)
                for methods, pattern, work in ROUTES:
                    if request.method in methods and (match := pattern.fullmatch(request.path)):
                        groups = {name: unquote(text) if text else "" for name, text in match.groupdict().items()}
                        return work(self, request, **groups)
                raise Refusal(501, f"the test Hub does not speak {request.method} {request.path}")
            except Refusal as refusal:
                return refusal.reply

    def readable(self, request: Request, kind: str, repo_id: str) -> Repo:
        """A repository that the user may see."""
        repo = self.repos.get((kind or "model", repo_id))
        if repo is None or (repo.private and not request.user.owns(repo_id)):
            raise Refusal(404, "Repository not found", "RepoNotFound")
        return repo

    def writable(self, request: Request, kind: str, repo_id: str) -> Repo:
        """A repository that the user may change.

        A 401 without a code would be "repository not found" to the clients on https only; with it also on http.
        """
        if request.user is ANONYMOUS:
            raise Refusal(401, "Invalid username or password.", "RepoNotFound")
        repo = self.readable(request, kind, repo_id)
        self.may_write(request, repo_id)
        return repo

    def may_write(self, request: Request, repo_id: str) -> None:
        if request.user is ANONYMOUS:
            raise Refusal(401, "Invalid username or password.")
        if request.user.role != "write":
            raise Refusal(403, "Forbidden: you must use a write token to upload to a repository.")
        if not request.user.owns(repo_id):
            raise Refusal(403, f"You don't have the rights to write under the namespace {repo_id.split('/', 1)[0]!r}.")

    def paged(self, request: Request, entries: list[dict[str, Any]]) -> Reply:
        """One page of a listing, with a Link to the next."""
        start = int(request.query.get("cursor", 0))
        end = start + self.page
        reply = as_json(entries[start:end])
        if end < len(entries):
            reply.headers["Link"] = f'<{self.url}{request.path}?{urlencode(request.query | {"cursor": end})}>; rel="next"'
        return reply

    # ---- accounts and repositories ----

    @route("GET", "/api/whoami-v2")
    def whoami(self, request: Request) -> Reply:
        if request.user is ANONYMOUS:
            raise Refusal(401, "Invalid username or password.")
        name, role, orgs = request.user
        token = {"displayName": "test", "role": role}
        return as_json(
            {"type": "user", "name": name, "orgs": [{"name": org} for org in orgs], "auth": {"type": "access_token", "accessToken": token}}
        )

    @route("POST DELETE", "/api/repos/(?:create|delete)")
    def create_or_delete(self, request: Request) -> Reply:
        asked = json.loads(request.body)
        if request.user is ANONYMOUS:
            raise Refusal(401, "Invalid username or password.")
        kind, repo_id = asked.get("type", "model"), f"{asked.get('organization') or request.user.name}/{asked['name']}"
        if request.method == "DELETE":
            self.writable(request, kind, repo_id)
            del self.repos[kind, repo_id]
            return Reply()
        self.may_write(request, repo_id)
        repo = Repo(kind, repo_id, asked.get("private", False) or asked.get("visibility") == "private")
        if (kind, repo_id) in self.repos:
            raise Refusal(409, f"You already created this {kind} repo", url=f"{self.url}/{repo.page}")
        self.repos[kind, repo_id] = repo
        return as_json({"url": f"{self.url}/{repo.page}", "name": repo_id})

    @route("GET", API + "/auth-check(?P<write>/write)?")
    def auth_check(self, request: Request, kind: str, repo: str, write: str) -> Reply:
        (self.writable if write else self.readable)(request, kind, repo)
        return Reply()

    @route("GET", API + "(?:/revision/{rev})?")
    def info(self, request: Request, kind: str, repo: str, rev: str) -> Reply:
        found = self.readable(request, kind, repo)
        commit = found.at(rev or "main")
        return as_json(found.about(commit, blobs="blobs" in request.query))

    @route("GET", API + "/refs")
    def list_refs(self, request: Request, kind: str, repo: str) -> Reply:
        return as_json(self.readable(request, kind, repo).list_refs())

    @route("POST DELETE", API + "/(?P<what>branch|tag)/{rev}")
    def change_ref(self, request: Request, kind: str, repo: str, what: str, rev: str) -> Reply:
        """A branch is made by its name in the path; a tag by its name in the body, at the revision in the path."""
        found = self.writable(request, kind, repo)
        asked = json.loads(request.body or b"{}")
        tagging = what == "tag" and request.method == "POST"
        ref = f"refs/{'heads' if what == 'branch' else 'tags'}/{asked['tag'] if tagging else rev}"
        if request.method == "DELETE":
            if found.refs.pop(ref, None) is None:
                raise Refusal(404, f"Invalid rev id: {rev}", "RevisionNotFound")
        elif ref in found.refs:
            raise Refusal(409, f"Reference already exists: {ref}")
        else:
            found.refs[ref] = found.at(rev if tagging else asked.get("startingPoint", "main")).oid
        return Reply()

    # ---- writing ----

    @route("POST", "/api/validate-yaml")
    def validate_yaml(self, request: Request) -> Reply:
        errors = [{"message": message} for message in metadata_errors(json.loads(request.body)["content"])]
        return as_json({"errors": errors, "warnings": []}, 400 if errors else 200)

    @route("POST", API + "/preupload/{rev}")
    def preupload(self, request: Request, kind: str, repo: str, rev: str) -> Reply:
        found = self.target(request, kind, repo, rev)
        commit, files = found.at(rev), []
        for asked in json.loads(request.body)["files"]:
            path, size, sample = asked["path"], asked["size"], base64.b64decode(asked["sample"])
            mode = "lfs" if found.is_large(path, size, sample, self.lfs_from) else "regular"
            there = commit.files.get(path)
            files.append({"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": there.etag if there else None})
        return as_json({"files": files, "commitOid": commit.oid})

    def target(self, request: Request, kind: str, repo: str, rev: str) -> Repo:
        """The repository to write to; a pull request, a new one or one's own, only takes the right to read it, and a token that writes."""
        found = self.readable(request, kind, repo)
        own = rev.startswith("refs/pr/") and found.at(rev).author == request.user.name
        if ("create_pr" in request.query or own) and request.user.role == "write":
            return found
        return self.writable(request, kind, repo)

    @route("POST", PAGE + ".git/info/lfs/objects/batch")
    def lfs_batch(self, request: Request, kind: str, repo: str) -> Reply:
        asked, objects = json.loads(request.body), []
        found = self.target(request, kind, repo, unquote(asked["ref"]["name"])) if "ref" in asked else self.readable(request, kind, repo)
        for oid, size in ((o["oid"], o["size"]) for o in asked["objects"]):
            objects.append({"oid": oid, "size": size})
            if oid not in found.lfs:
                found.announced[oid] = size
                objects[-1]["actions"] = {"upload": {"href": f"{self.storage}/lfs/{found.kind}s/{repo}/{oid}"}}
        return as_json({"transfer": "basic", "objects": objects})

    @route("PUT GET HEAD", "/lfs/{kind}s/{repo}/{oid}")
    def large_file(self, request: Request, kind: str, repo: str, oid: str) -> Reply:
        found = self.repos.get((kind, repo))
        if found is None:
            raise Refusal(404, "Repository not found", "RepoNotFound")
        if "Authorization" in request.headers:
            raise Refusal(400, "Only one auth mechanism allowed")
        if request.method != "PUT":
            return in_range(request, found.lfs[oid], {"ETag": f'"{oid}"'})
        if len(request.body) != found.announced.get(oid):
            raise Refusal(400, f"{len(request.body)} bytes came, {found.announced.get(oid)} were announced")
        if hashlib.sha256(request.body).hexdigest() != oid:
            raise Refusal(400, "XAmzContentSHA256Mismatch")
        found.lfs[oid] = request.body
        return Reply()

    @route("POST", API + "/commit/{rev}")
    def take_commit(self, request: Request, kind: str, repo: str, rev: str) -> Reply:
        found = self.target(request, kind, repo, rev)
        head, *lines = [json.loads(line) for line in request.body.splitlines()] or [{}]
        about = head.get("value", {})
        if head.get("key") != "header" or not about.get("summary"):
            raise Refusal(400, "A commit begins with a header that has a summary")
        base, ref, parent = found.at(rev), found.ref(rev), about.get("parentCommit")
        if "create_pr" in request.query:
            base = found.at(parent or rev)
            ref = f"refs/pr/{sum(ref.startswith('refs/pr/') for ref in found.refs) + 1}"
        elif ref is None or ref.startswith("refs/tags/"):
            raise Refusal(400, f"Not a branch: {rev}")
        elif parent and not base.oid.startswith(parent):
            raise Refusal(412, "A commit has happened since. Please refresh and try again.")
        files = found.changed(base, lines, self.lfs_from)
        commit = found.add(ref, base, files, about["summary"], about.get("description", ""), request.user.name)
        pull = {"pullRequestUrl": f"{self.url}/{found.page}/discussions/{ref.split('/')[-1]}"} if "create_pr" in request.query else {}
        return as_json({"success": True, "commitOid": commit.oid, "commitUrl": f"{self.url}/{found.page}/commit/{commit.oid}"} | pull)

    # ---- reading ----

    @route("GET", API + "/tree/{rev}(?:/{path})?")
    def tree(self, request: Request, kind: str, repo: str, rev: str, path: str) -> Reply:
        commit = self.readable(request, kind, repo).at(rev)
        entries = listing(commit.files, path.strip("/"), request.query.get("recursive") == "true")
        if path and not entries:
            raise Refusal(404, f"{path} does not exist on {rev}", "EntryNotFound")
        return self.paged(request, entries)

    @route("POST", API + "/paths-info/{rev}")
    def paths_info(self, request: Request, kind: str, repo: str, rev: str) -> Reply:
        """Those of the paths that exist; the clients ask with a form, not JSON."""
        paths = parse_qs(request.body.decode()).get("paths", [])
        return as_json(paths_info(self.readable(request, kind, repo).at(rev).files, paths))

    @route("GET", API + "/commits/{rev}")
    def commits(self, request: Request, kind: str, repo: str, rev: str) -> Reply:
        commit: Commit | None = self.readable(request, kind, repo).at(rev)
        entries = []
        while commit:
            entries.append(commit.entry())
            commit = commit.parent
        return self.paged(request, entries)

    @route("GET HEAD", PAGE + "/resolve/{rev}/{path}")
    def resolve(self, request: Request, kind: str, repo: str, rev: str, path: str) -> Reply:
        found = self.readable(request, kind, repo)
        commit = found.at(rev)
        headers = {"X-Repo-Commit": commit.oid}
        if (file := commit.files.get(path)) is None:
            refusal = Refusal(404, "Entry not found", "EntryNotFound")
            refusal.reply.headers |= headers
            raise refusal
        if not file.lfs:
            return in_range(request, file.data, headers | {"ETag": f'"{file.etag}"'})
        headers |= {"X-Linked-Etag": f'"{file.etag}"', "X-Linked-Size": str(len(file.data))}
        return Reply(302, b"", headers | {"Location": f"{self.storage}/lfs/{found.kind}s/{quote(repo)}/{file.sha256}"})
