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

ANSWERS: dict[str, Callable[[Path, Path], list[str]]] = {
    "plan.json": lambda trace, path: ["plan", str(trace), "--gpu", "l4", "--batch", "8", "-o", str(path)],
    "plan.csv": lambda trace, path: ["plan", str(trace), "--gpu", "l4", "--batch", "8", "-o", str(path)],
    "copy.trace.json.gz": lambda trace, path: ["trace", str(trace), "-o", str(path)],
    "analysis.md": lambda trace, path: ["analyze", str(trace), "-o", str(path)],
    "live.svg": lambda trace, path: ["memory", str(trace), "--plot", str(path)],
}
"""A command for each kind of file that is written."""


def run(words: list[str], **more: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*CAPPLAN, *words], capture_output=True, text=True, check=False, timeout=300, **more)  # type: ignore[call-overload,no-any-return]


def leftovers(folder: Path, *known: str) -> list[str]:
    return sorted(each.name for each in folder.iterdir() if each.name not in known)


@pytest.mark.parametrize("name", ["plan.json", pytest.param("copy.trace.json.gz", marks=pytest.mark.nightly)])
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
    assert [each for each in leftovers(tmp_path, name) if not each.endswith(".partial")] == []


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
