"""Every command of the tutorials runs, in order, with the files that the tutorial shows."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
BLOCK = re.compile(r"^```(?P<kind>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE)


def run(command: str, folder: Path) -> None:
    assert command.startswith("capplan "), command
    words = [sys.executable, "-m", "capplan", *shlex.split(command)[1:]]
    if words[3] == "measure" and "--export" not in words:
        words += ["--warmup", "1", "--repetitions", "6"]  # what is measured does not matter here
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SOURCE_DATE_EPOCH": "1795219200"}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stderr}"


@pytest.mark.zoo
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda path: path.stem)
def test_every_command_of_a_tutorial_runs(page: Path, tmp_path: Path) -> None:
    commands = 0
    for block in BLOCK.finditer(page.read_text()):
        if block["title"]:
            (tmp_path / block["title"]).write_text(block["text"])
        elif block["kind"] == "sh":  # console blocks need a GPU or install something
            for line in block["text"].splitlines():
                run(line, tmp_path)
                commands += 1
    assert commands > 3
