"""What is meant to be copied comes out whole: launch files of training and of serving, wherever they are written."""

import json
import os
import pty
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from capplan.cli.main import app
from capplan.llm.core.training.frameworks import FRAMEWORKS
from tests.cli.conftest import Run

SHELL = ("torchtitan", "megatron", "torchtune", "bridge", "maxtext")
"""Writers of commands; the others write YAML."""
WRITTEN = {framework.launch: framework.name for framework in FRAMEWORKS if framework.launch}
ESTIMATE = (
    "llm", "train", "estimate", "llama-3.1-8b-instruct", "--gpu", "h100-sxm5-80gb", "--gpus", "16", "--launch",
)  # fmt: skip


def through_a_pipe(words: list[str], _: Path) -> str:
    """Return what a pipe receives."""
    return CliRunner().invoke(app, words).stdout


def into_a_file(words: list[str], folder: Path) -> str:
    """Return what `-o` writes."""
    file = folder / "answer.txt"
    CliRunner().invoke(app, [*words, "-o", str(file)])
    return file.read_text(encoding="utf-8")


def on_a_terminal(words: list[str], _: Path) -> str:
    """Return what a terminal of 60 columns receives."""
    parent, child = pty.openpty()
    environment = {**os.environ, "COLUMNS": "60", "LINES": "40", "NO_COLOR": "1"}
    process = subprocess.Popen([sys.executable, "-m", "capplan", *words], stdout=child, stdin=child, env=environment)
    os.close(child)
    found = b""
    while True:
        try:
            part = os.read(parent, 65536)
        except OSError:  # Linux reports the closed end of a terminal so
            break
        if not part:
            break
        found += part
    process.wait()
    os.close(parent)
    return found.decode().replace("\r\n", "\n")


WAYS = (through_a_pipe, into_a_file, on_a_terminal)
TRAINING_CASES = [
    pytest.param(way, kind, marks=[pytest.mark.nightly] if way is on_a_terminal and kind in repeated else [])
    for repeated in [set(WRITTEN) - {"torchtitan", "axolotl"}]
    for way in WAYS
    for kind in WRITTEN
]
"""A terminal, which takes a process of its own, shows one launch file of commands and one of YAML in every run."""


def parse(text: str, *, is_shell: bool) -> None:
    """Read a launch file as its reader does."""
    if is_shell:
        checked = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, "")
    else:
        assert isinstance(yaml.safe_load(text), dict)


@pytest.mark.parametrize(("way", "kind"), TRAINING_CASES)
def test_launch_files_of_training_come_out_whole(
    kind: str, way: Callable[[list[str], Path], str], run: Run, tmp_path: Path
) -> None:
    asked = [*ESTIMATE, "--framework", WRITTEN[kind], "--offload", "optimizer"]
    document = json.loads(run(*asked, "--json").stdout)
    launch = document["estimate"]["launch"]
    shown = way(asked, tmp_path)
    assert shown.endswith(f"Launch\n\n{launch}")
    parse(launch, is_shell=kind in SHELL)


@pytest.mark.parametrize("kind", WRITTEN)
@pytest.mark.parametrize("method", ["full", "lora", "qlora"])
@pytest.mark.parametrize("gpus", [1, 8, 24])
def test_launch_files_of_every_method_are_read(kind: str, method: str, gpus: int, run: Run) -> None:
    asked = ["--framework", WRITTEN[kind], "--method", method, "--gpus", gpus, "--json"]
    launch = json.loads(run(*ESTIMATE[:6], *asked).stdout)["estimate"]["launch"]
    parse(launch, is_shell=kind in SHELL)
    if gpus == 24 and kind != "unsloth":  # which trains on one GPU, as its file says
        # three servers meet at one address, or are told which they are
        assert "MASTER_ADDR" in launch


@pytest.mark.parametrize("way", WAYS)
def test_the_launch_of_a_served_model_is_one_command(
    way: Callable[[list[str], Path], str], run: Run, tmp_path: Path
) -> None:
    asked = ["llm", "plan", "qwen3-8b", "--gpu", "h100-sxm5-80gb", "--rate", "5", "--engine", "vllm", "--launch"]
    words = json.loads(run(*asked, "--json").stdout)["launch"]["command"]
    shown = way(asked, tmp_path)
    start = shown.index("vllm serve ")  # not "vllm server", which sentences name
    lines = shown[start:].splitlines()
    last = next(number for number, line in enumerate(lines) if not line.endswith("\\"))
    command = "\n".join(lines[: last + 1])
    parse(command, is_shell=True)
    assert shlex.split(command.replace("\\\n", "")) == shlex.split(words)
