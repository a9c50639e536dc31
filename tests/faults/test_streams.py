"""Standard streams that are closed or full, and pipes in the place of files: an exit code and a sentence."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.nightly import mostly_nightly

pytestmark = pytest.mark.slow

CAPPLAN = f"{sys.executable} -m capplan"
PLAN = "--gpu l4 --batch 1"
CLIENT = "echo '" + json.dumps({
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}},
}) + "'"  # fmt: skip
"""The first words of an assistant's client."""


def shell(command: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("plan {trace} --gpu l4 --batch 1 >&-", 2, "standard output is closed"),
        ("plan {trace} --gpu l4 --batch 1 2>&-", 0, ""),
        pytest.param("plan {trace} --gpu l4 --batch 1 >&- 2>&-", 2, "", marks=pytest.mark.nightly),
        ("plan {trace} --gpu l4 --batch 1 >/dev/full", 2, "No space left on device"),
        ("--help >/dev/full", 2, "No space left on device"),
        ("plan --help >/dev/full", 2, "No space left on device"),
        pytest.param("plan nosuch --gpu l4 2>/dev/full", 2, "", marks=pytest.mark.nightly),
        ("plan --nosuch 2>/dev/full", 2, ""),
        pytest.param("mcp >&-", 2, "a client opens both", marks=pytest.mark.nightly),
        pytest.param("mcp >/dev/full", 2, "No space left on device", marks=pytest.mark.nightly),
    ],
)
def test_a_stream_that_is_closed_or_full_leaves_the_exit_code(
    command: str, code: int, words: str, net_trace: Path, tmp_path: Path
) -> None:
    asked = f"{CLIENT} | " if command.startswith("mcp") else ""
    done = shell(f"{asked}{CAPPLAN} {command.format(trace=net_trace)}", tmp_path)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("name", "command"),
    mostly_nightly(
        [
            ("p.trace.json", f"plan p.trace.json {PLAN}"),
            ("p.pt2", f"plan p.pt2 {PLAN}"),
            ("p.onnx", f"plan p.onnx {PLAN}"),
            ("p.pt", f"plan p.pt {PLAN}"),
            ("p.csv", "validate p.csv"),
            ("p.parquet", "validate p.parquet"),
            ("p.jsonl", "measure --compare p.jsonl p.jsonl"),
            ("p.json", "diff p.json p.json"),
            ("p.yaml", f"plan resnet50 {PLAN} --load p.yaml"),
            ("p.txt", "sweep sweep.yaml -o results"),
        ],
        daily=["p.trace.json", "p.pt", "p.parquet", "p.json", "p.yaml"],
    ),
)
def test_a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for(name: str, command: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    (tmp_path / "sweep.yaml").write_text("models: [p.txt]\ngpus: [l4]\nworkloads: [{batch: 1}]\n")
    done = shell(f"{CAPPLAN} {command}", tmp_path)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) <= 4
    assert "Traceback" not in done.stderr


def test_a_list_of_models_that_names_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("b.txt\n")
    (tmp_path / "b.txt").write_text("a.txt\n")
    (tmp_path / "sweep.yaml").write_text("models: [a.txt]\ngpus: [l4]\nworkloads: [{batch: 1}]\n")
    done = shell(f"{CAPPLAN} sweep sweep.yaml -o results", tmp_path)
    assert (done.returncode, "names itself" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    "words",
    mostly_nightly(
        [
            "plan {long} --gpu l4",
            "plan /tmp/{long}.pt --gpu l4",
            "plan resnet50 --gpu {long}",
            "plan resnet50 --gpu l4 --batch {long}",
            "gpus --where {long}",
        ],
        daily=["plan resnet50 --gpu {long}", "gpus --where {long}"],
    ),
)
def test_a_message_does_not_echo_a_long_argument(words: str, tmp_path: Path) -> None:
    """A name of 100,000 characters was compared with all GPUs for 14 s of processor time."""
    began_s = os.times().children_user
    done = shell(f"{CAPPLAN} {words.format(long='a' * 100_000)}", tmp_path)
    assert os.times().children_user - began_s < 10
    assert done.returncode == 2
    [sentence] = done.stderr.splitlines()
    assert len(sentence.removeprefix("capplan: ")) <= 300
