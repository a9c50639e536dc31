"""Killed, interrupted, out of space, without permission, several at once: what was there stays whole.

Every run kills once, `nox -s nightly` twenty times, `CAPPLAN_FAULTS=100 pytest tests/faults` a hundred times.
"""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from capplan.core.trace.format import load_trace
from tests.cli.conftest import NET
from tests.nightly import mostly_nightly

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("CAPPLAN_FAULTS", "1"))
CAPPLAN = [sys.executable, "-m", "capplan"]

JOB = Path(__file__).parents[2] / "examples" / "nightly-job.load.yaml"


def _log_beside(trace: Path) -> Path:
    """Return a request log of an hour, in the form of OpenAI's usage."""
    lines = [
        {"created": 1790000000 + 7 * i, "model": "m", "usage": {"prompt_tokens": 100, "completion_tokens": 50}}
        for i in range(500)
    ]
    log = trace.with_name("log.jsonl")
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return log


ANSWERS: dict[str, Callable[[Path, Path], list[str]]] = {
    "plan.json": lambda trace, path: ["plan", str(trace), "--gpu", "l4", "--batch", "8", "-o", str(path)],
    "plan.csv": lambda trace, path: ["plan", str(trace), "--gpu", "l4", "--batch", "8", "-o", str(path)],
    "copy.trace.json.gz": lambda trace, path: ["trace", str(trace), "-o", str(path)],
    "analysis.md": lambda trace, path: ["analyze", str(trace), "-o", str(path)],
    "live.svg": lambda trace, path: ["memory", str(trace), "--plot", str(path)],
    "report.html": lambda trace, path: [
        "report",
        str(trace),
        "--load",
        str(JOB),
        "--gpu",
        "l4",
        "--force",
        "-o",
        str(path),
    ],
    "load.yaml": lambda trace, path: ["load", "--from-logs", str(_log_beside(trace)), "-o", str(path)],
}
"""A command for each kind of file that is written."""


def run(words: list[str], **more: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*CAPPLAN, *words], capture_output=True, text=True, check=False, timeout=300, **more)  # type: ignore[call-overload,no-any-return]


def leftovers(folder: Path, *known: str) -> list[str]:
    return sorted(each.name for each in folder.iterdir() if each.name not in known)


@pytest.mark.parametrize(
    "name", mostly_nightly(["plan.json", "copy.trace.json.gz", "report.html", "load.yaml"], daily=["plan.json"])
)
def test_an_answer_killed_at_any_moment_is_old_or_new_and_whole(name: str, net_trace: Path, tmp_path: Path) -> None:
    path = tmp_path / name
    words = ANSWERS[name](net_trace, path)
    began = time.monotonic()
    assert run(words).returncode == 0
    usual_s = time.monotonic() - began
    whole = path.read_bytes()
    chosen = random.Random(14)
    for _ in range(ROUNDS):
        process = subprocess.Popen([*CAPPLAN, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(usual_s * chosen.random())
        process.kill()
        process.wait(timeout=300)
        assert path.read_bytes() == whole
    time.sleep(1.1)  # a file that is younger may be of a writer that has not locked it yet
    assert run(words).returncode == 0
    assert leftovers(tmp_path, name) == []


def test_an_import_that_was_killed_is_finished_by_the_next(tmp_path: Path) -> None:
    table = tmp_path / "quotes.csv"
    rows = "".join(f"l4,on-demand,provider{i},0.{i + 10},2026-11-01\n" for i in range(30))
    table.write_text(f"gpu,term,provider,price,date\n{rows}")
    words = ["prices", "import", str(table), "-o", str(tmp_path / "specs")]
    assert run(words).returncode == 0
    files = sorted((tmp_path / "specs" / "prices").iterdir())
    contents = [path.read_bytes() for path in files]
    assert len(files) == 30
    for path in files[10:]:  # as a kill between two renames leaves it
        path.unlink()
    assert run(words).returncode == 0
    assert [path.read_bytes() for path in files] == contents
    files[0].write_bytes(b"quotes: []\n")
    refused = run(words)
    assert refused.returncode == 2
    assert "exists and is kept" in refused.stderr


def test_the_cache_survives_kills(tmp_path: Path) -> None:
    words = ["analyze", NET, "--input", "x=3x32x32", "--json"]
    environment = {**os.environ, "CAPPLAN_CACHE": str(tmp_path / "cache")}
    began = time.monotonic()
    expected = json.loads(run(words, env={**environment, "CAPPLAN_CACHE": "off"}).stdout)
    usual_s = time.monotonic() - began
    chosen = random.Random(15)
    for _ in range(ROUNDS):
        process = subprocess.Popen(
            [*CAPPLAN, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
        )
        time.sleep(usual_s * (0.6 + 0.5 * chosen.random()))
        process.kill()
        process.wait(timeout=300)
    done = run(words, env=environment)
    assert json.loads(done.stdout) == expected
    assert run(["cache", "clear"], env=environment).returncode == 0


@pytest.mark.parametrize("name", mostly_nightly(ANSWERS, daily=["plan.json", "live.svg"]))
def test_a_full_disk_leaves_what_was_there(name: str, net_trace: Path, tmp_path: Path) -> None:
    """Let no file grow beyond 100 bytes, which the system refuses in the same calls as a full disk."""
    path = tmp_path / name
    path.write_bytes(b"")

    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = run(ANSWERS[name](net_trace, path), preexec_fn=small_files, env=environment)
    assert done.returncode == 2, done.stderr
    assert f"cannot write {path}: File too large." in done.stderr
    assert path.read_bytes() == b""
    assert leftovers(tmp_path, name) == []


def test_a_full_standard_output_is_told(net_trace: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.txt"

    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    with target.open("wb") as stream:
        done = subprocess.run(
            [*CAPPLAN, "analyze", str(net_trace)], stdout=stream, stderr=subprocess.PIPE, text=True, check=False,
            preexec_fn=small_files, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "cannot write the answer: File too large." in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_named(net_trace: Path, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    folder.chmod(0o500)
    try:
        done = run(["plan", str(net_trace), "--gpu", "l4", "-o", str(folder / "plan.json")])
    finally:
        folder.chmod(0o700)
    assert (done.returncode, "Permission denied" in done.stderr) == (2, True)
    assert leftovers(folder) == []


@pytest.mark.nightly
def test_a_cache_that_cannot_be_made_costs_nothing_but_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    environment = {**os.environ, "CAPPLAN_CACHE": str(tmp_path / "file" / "cache")}
    done = run(["analyze", NET, "--input", "x=3x32x32"], env=environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.nightly
def test_several_at_once_write_one_whole_answer(net_trace: Path, tmp_path: Path) -> None:
    path = tmp_path / "copy.trace.json.gz"
    words = ANSWERS[path.name](net_trace, path)
    processes = [
        subprocess.Popen([*CAPPLAN, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for process in processes:
        _, told = process.communicate(timeout=300)
        assert process.returncode == 0, told
    assert load_trace(path.read_bytes(), where=str(path)) == load_trace(net_trace.read_bytes(), where="net")
    assert leftovers(tmp_path, path.name) == []


SLOW = """
import time
from torch import nn

class Net(nn.Linear):
    def __init__(self):
        print("building", flush=True)
        time.sleep(60)
        super().__init__(4, 4)
"""


def heed_interrupts() -> None:
    """Restore the default of Ctrl-C, which jobs in the background ignore and their children inherit."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_an_interrupt_ends_a_command_with_130_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    path = tmp_path / "slow.trace.json"
    words = ["trace", f"{tmp_path / 'slow.py'}:Net", "--input", "4", "-o", str(path)]
    process = subprocess.Popen(
        [*CAPPLAN, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        preexec_fn=heed_interrupts,  # noqa: PLW1509 - the child has no other thread yet
    )  # fmt: skip
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "building" in line
    os.killpg(process.pid, signal.SIGINT)
    rest, _ = process.communicate(timeout=300)
    assert process.returncode == 130, rest
    assert "interrupted" in rest
    assert "Traceback" not in rest
    assert not path.exists()
