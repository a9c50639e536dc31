"""A service in a process of its own, as users start it, and a small HTTP client."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from capplan.cli.main import app

EXAMPLES = Path(__file__).parents[2] / "examples"

LONGEST_S = 500.0
"""How long an answer may take before a test is given up as hanging; a busy machine takes minutes. [s]"""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def detail(self) -> str:
        assert self.headers["content-type"] == "application/problem+json", self.headers
        assert self.json["status"] == self.status
        return self.json["detail"]


@dataclass
class Served:
    process: subprocess.Popen[str]
    port: int
    log: Path

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONGEST_S)
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        given = {"Content-Type": "application/json"} if content is not None else {}
        connection.request(method, path, content, {**given, **(headers or {})})
        answer = connection.getresponse()
        found = Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        connection.close()
        return found

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        return self.ask("POST", path, body, {name.replace("_", "-"): value for name, value in headers.items()})

    def greeting(self) -> str:
        """Return the rest of what the service printed at its start."""
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if line.startswith("Press"):
                break
        return "".join(lines)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=LONGEST_S)


@contextmanager
def serving(folder: Path, *options: str, **environment: str) -> Iterator[Served]:
    """Run `capplan serve` on a free port until the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log.jsonl"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "capplan", "serve", "--port", "0", *options],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=folder,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(EXAMPLES.parent), os.environ.get("PYTHONPATH", "")]),
                "XDG_CACHE_HOME": str(folder / "cache"),
                **environment,
            },
        )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        found = re.search(r"http://[^ ]+:(\d+)/", first)
        assert found, f"{first}\n{log.read_text()}"
        yield Served(process, int(found[1]), log)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service that all tests share; they change nothing but what is uploaded."""
    with serving(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture(scope="session")
def net_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace file of the example network."""
    path = tmp_path_factory.mktemp("traces") / "net.trace.json"
    variants = ["--precision", "fp32", "--precision", "fp16", "--precision", "amp-fp16"]
    words = ["trace", f"{EXAMPLES / 'net.py'}:Net", "--input", "x=3x224x224", *variants, "-o", str(path)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.stderr
    return path


@pytest.fixture(scope="session")
def net(served: Served, net_file: Path) -> str:
    """The words that name the example network's trace, uploaded."""
    kept = served.post("/api/v1/traces", net_file.read_bytes())
    assert kept.status == 201, kept.body
    return kept.json["model"]


def command(*words: object) -> str:
    """Return what the command line prints, run in this process."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code in (0, 1), result.stderr
    return result.stdout


def sentence(*words: object) -> str:
    """Return the error that the command line prints."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code >= 2
    return result.stderr.strip().removeprefix("capplan: ")
