"""A small Hub in a thread, for the real clients: what huggingface_hub and datasets need to publish and to read.

    with Hub() as hub:  # or the fixture `hub`
        hub.commit("org/name", {"a.parquet": b"..."})  # somebody published
        hub.fault("GET /lfs/", cut=1000)  # and the line goes dead while we download
        subprocess.run(command, env=os.environ | hub.environment(tmp_path))

Large files live on a second origin, as on the real Hub: it takes no Authorization header, as presigned addresses do.
What is answered: hub_site.py. What repositories hold: hub_repo.py.
"""

import re
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs

from hub_repo import File, Refusal, Reply, Repo
from hub_site import OWNER, READER, STRANGER, Request, Site

__all__ = ["OWNER", "READER", "STRANGER", "Hub"]
BLOCK = 1 << 14


@dataclass
class Fault:
    """What goes wrong with the next `times` requests whose "METHOD /path" matches `on`; see `Hub.fault`."""

    on: str
    times: int = 1
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = None
    delay: float = 0
    done: bool = False
    before: Callable[[], object] | None = None
    body: bytes | None = None


class Hub(Site):
    """The server, from `with` to its end: its repositories, its log, and the faults it has been told to have."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[Request] = []
        self.faults: list[Fault] = []
        self.errors: list[BaseException] = []  # bugs of the test Hub itself, met while answering
        self.stopped = threading.Event()
        self.servers = [Server(self), Server(self)]
        self.url, self.storage = (f"http://127.0.0.1:{server.server_address[1]}" for server in self.servers)

    def __enter__(self) -> Self:
        for server in self.servers:
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def fault(self, on: str, **what: Any) -> Fault:
        """Have something go wrong with the next requests whose "METHOD /path" matches a regular expression.

        Args:
            on: The expression, searched for in the path as sent (quoted).
            what: `times` (1 unless told); then any of `status` and `headers` of the answer to give instead;
                `cut`, bytes after which the line goes dead: of what the client sends, or of the answer where it sends
                nothing; `body`, what is answered instead (with `status`, else 200); `delay`, seconds before each 16 KiB of the answer; `done=True`, the work is done first and only
                its answer is lost; `before`, called before the work (which then goes on, unless `status` or `cut` say otherwise).

        Returns:
            The fault, whose `times` counts down to 0.
        """
        self.faults.append(Fault(on, **what))
        return self.faults[-1]

    def meanwhile(self, repo_id: str, files: Mapping[str, bytes]) -> Fault:
        """Somebody else commits to a data set just before the next commit arrives."""
        return self.fault("^POST /api/.*/commit/", before=lambda: self.commit(repo_id, files))

    def commit(self, repo_id: str, files: Mapping[str, bytes], kind: str = "dataset", author: str = "other") -> str:
        """A commit to main out of thin air, no client needed; makes the repository if need be. Returns the commit id."""
        with self.lock:
            repo = self.repos.setdefault((kind, repo_id), Repo(kind, repo_id))
            new = {path: File(data, repo.is_large(path, len(data), data[:512], self.lfs_from)) for path, data in files.items()}
            repo.lfs |= {file.sha256: file.data for file in new.values() if file.lfs}
            head = repo.at("main")
            return repo.add("refs/heads/main", head, head.files | new, f"commit of {author}", "", author).oid

    def files(self, repo_id: str, revision: str = "main", kind: str = "dataset") -> dict[str, bytes]:
        """What a revision holds."""
        return {path: file.data for path, file in self.repos[kind, repo_id].at(revision).files.items()}

    def seen(self, pattern: str) -> list[Request]:
        """The requests so far whose "METHOD /path" matches."""
        return [request for request in self.log if re.search(pattern, f"{request.method} {request.path}")]

    def fault_of(self, request: Request) -> Fault | None:
        """The fault that is due, if any; it is used up by that."""
        with self.lock:
            for fault in self.faults:
                if fault.times > 0 and re.search(fault.on, f"{request.method} {request.path}"):
                    fault.times -= 1
                    return fault
        return None

    def environment(self, home: Path, token: str = OWNER) -> dict[str, str]:
        """What makes the clients of a new process use this Hub, and nothing else: caches, tokens or network."""
        nowhere = "http://127.0.0.1:9"
        hosts = {"HF_ENDPOINT": self.url, "https_proxy": nowhere, "http_proxy": nowhere, "no_proxy": "127.0.0.1"}
        caches = {"HF_HOME": home, "HF_HUB_CACHE": home / "hub", "HF_DATASETS_CACHE": home / "datasets", "HF_TOKEN_PATH": home / "token"}
        flags = dict.fromkeys(("HF_HUB_DISABLE_XET", "HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_PROGRESS_BARS"), "1")
        return (
            hosts
            | flags
            | {name: str(path) for name, path in caches.items()}
            | {"HF_TOKEN": token, "HUGGING_FACE_HUB_TOKEN": "", "HF_HUB_OFFLINE": "0"}
        )


class Server(ThreadingHTTPServer):
    """One origin of a Hub, on a free port."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        super().__init__(("127.0.0.1", 0), Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A dead line is no error, whichever end it was; anything else is a bug to show."""
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, ConnectionError):
            self.hub.errors.append(error)


class Handler(BaseHTTPRequestHandler):
    """HTTP itself, its log and its faults."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def serve(self) -> None:
        path, _, query = self.path.partition("?")
        request = Request(self.command, path, {key: values[0] for key, values in parse_qs(query).items()}, self.headers)
        hub = self.server.hub
        hub.log.append(request)
        fault = hub.fault_of(request) or Fault("")
        length = int(self.headers.get("Content-Length", 0))
        early = fault.cut if length and not fault.done else None
        request.body = self.rfile.read(length if early is None else early)
        request.received = len(request.body)
        if early is not None or request.received < length:  # cut by a fault, or the client is gone
            raise ConnectionAbortedError
        if fault.before:
            fault.before()
        instead = fault.status and Refusal(fault.status, f"fault {fault.status}").reply
        if fault.body is not None:
            instead = Reply(fault.status or 200, fault.body)
        reply = hub.answer(request) if fault.done or not instead else instead
        self.send(request, instead or reply, fault)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = serve

    def send(self, request: Request, reply: Reply, fault: Fault) -> None:
        """The answer, at the pace and up to the point that the fault allows."""
        if fault.cut == 0:
            raise ConnectionAbortedError
        request.status = reply.status
        self.send_response(reply.status)
        for name, value in {**reply.headers, "Content-Length": str(len(reply.body)), **fault.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        body = b"" if request.method == "HEAD" else reply.body[: fault.cut]
        for start in range(0, len(body), BLOCK):
            self.server.hub.stopped.wait(fault.delay)
            request.sent += len(body[start : start + BLOCK])
            self.wfile.write(body[start : start + BLOCK])
        if fault.cut is not None:
            raise ConnectionAbortedError

    def log_message(self, *_: object) -> None:
        """The log is `Hub.log`."""
