"""A Hugging Face Hub on this machine: the forms of its interface that capplan asks, over repositories of small files.

The forms are those that huggingface_hub 2.4 asks for and reads (hf_api.py, file_download.py and utils/_http.py).
"""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


@dataclass(kw_only=True)
class Repository:
    """What a repository holds, and whom it is shown to.

    Attributes:
        files: content by name.
        library: the library that it states.
        gated: files are given to those alone whose token is accepted.
        private: it is shown to those alone whose token is accepted.
        moved_to: the repository that it is called by now.
        earlier: files at other revisions than main.
    """

    files: dict[str, bytes]
    library: str = ""
    gated: bool = False
    private: bool = False
    moved_to: str = ""
    earlier: dict[str, dict[str, bytes]] = field(default_factory=dict)

    def at(self, revision: str) -> dict[str, bytes] | None:
        """Return the files of a branch, tag or commit; None where there is no such revision."""
        known = {"main": self.files, commit_of(self.files): self.files}
        for name, files in self.earlier.items():
            known |= {name: files, commit_of(files): files}
        return known.get(revision)


def commit_of(files: dict[str, bytes]) -> str:
    """Return the commit that stands for a state of files."""
    digest = hashlib.sha1()
    for name, content in sorted(files.items()):
        digest.update(name.encode() + hashlib.sha1(content).digest())
    return digest.hexdigest()


@dataclass
class LocalHub:
    """A hub, what it was asked for, and how much of files it has sent.

    Attributes:
        token: the one token that is accepted.
        fault: what goes wrong with every answer: "429", "503", "cut", "slow", "whole" (no ranges), "html".
    """

    address: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    token: str = "hf_accepted"
    fault: str = ""
    asked: list[str] = field(default_factory=list)
    sent_bytes: int = 0

    def add(self, name: str, files: dict[str, bytes | dict], **facts) -> str:
        """Add a repository, and return its commit."""
        content = {file: data if isinstance(data, bytes) else json.dumps(data).encode() for file, data in files.items()}
        self.repositories[name] = Repository(files=content, **facts)
        return commit_of(content)


class _Handler(BaseHTTPRequestHandler):
    hub: LocalHub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path).strip("/")
        self.hub.asked.append(path)
        if self.hub.fault in ("429", "503"):
            return self._say(int(self.hub.fault), b"", {"Retry-After": "7"})
        if self.hub.fault == "html":
            return self._say(200, b"<html>sign in</html>")
        parts = path.split("/")
        if len(parts) < 4:
            return self._say(404, b"")
        if parts[:2] == ["api", "models"]:
            return self._list("/".join(parts[2:4]), "/".join(parts[5:]) or "main")
        return self._give("/".join(parts[:2]), parts[3], "/".join(parts[4:]))

    def _list(self, name: str, revision: str) -> None:
        repository = self._shown(name)
        if repository is None:
            return None
        if repository.moved_to:
            return self._say(
                307, b"", {"Location": f"/api/models/{repository.moved_to}/revision/{revision}?blobs=true"}
            )
        files = repository.at(revision)
        if files is None:
            return self._say(404, b"", {"X-Error-Code": "RevisionNotFound"})
        siblings = [{"rfilename": file, "size": len(content)} for file, content in files.items()]
        answer = {
            "_id": "0", "id": name, "modelId": name, "sha": commit_of(files), "private": repository.private,
            "gated": "manual" if repository.gated else False, "siblings": siblings, "tags": [],
        }  # fmt: skip
        if repository.library:
            answer["library_name"] = repository.library
        return self._say(200, json.dumps(answer).encode())

    def _give(self, name: str, revision: str, file: str) -> None:
        repository = self._shown(name)
        if repository is None:
            return None
        if repository.moved_to:
            return self._say(307, b"", {"Location": f"/{repository.moved_to}/resolve/{revision}/{file}"})
        if repository.gated and not self._is_known:
            return self._say(403 if self._token else 401, b"", {"X-Error-Code": "GatedRepo"})
        files = repository.at(revision)
        if files is None:
            return self._say(404, b"", {"X-Error-Code": "RevisionNotFound"})
        if file not in files:
            return self._say(404, b"", {"X-Error-Code": "EntryNotFound"})
        content, span = files[file], self.headers.get("Range")
        facts = {
            "X-Repo-Commit": commit_of(files), "ETag": f'"{hashlib.sha1(content).hexdigest()}"',
            "X-Linked-Size": str(len(content)), "Accept-Ranges": "bytes",
        }  # fmt: skip
        if span is None or self.hub.fault == "whole":
            return self._say(200, content, facts)
        first, last = map(int, span.removeprefix("bytes=").split("-"))
        part = content[first : last + 1]
        if not part:
            return self._say(416, b"", {"Content-Range": f"bytes */{len(content)}"})
        return self._say(206, part, facts | {"Content-Range": f"bytes {first}-{first + len(part) - 1}/{len(content)}"})

    @property
    def _token(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ")

    @property
    def _is_known(self) -> bool:
        return self._token == self.hub.token

    def _shown(self, name: str) -> Repository | None:
        repository = self.hub.repositories.get(name)
        if repository is None or (repository.private and not self._is_known):
            self._say(404 if self._is_known else 401, b"", {"X-Error-Code": "RepoNotFound"} if self._token else {})
            return None
        return repository

    def _say(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(content)))
        if self.hub.fault == "cut":
            content = content[: len(content) // 2]
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command == "GET":
            self.hub.sent_bytes += len(content)  # before the client can have read it
            self.wfile.write(content)
        if self.hub.fault == "cut":
            self.close_connection = True

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def running_hub() -> Iterator[LocalHub]:
    """Run a hub until the block ends."""
    hub = LocalHub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # a client that has read enough closes the connection
    hub.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
