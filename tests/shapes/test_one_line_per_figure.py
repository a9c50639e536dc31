"""A figure that is added to the shape of a plan by one line appears at every door."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping

import pytest

from tests.golden.world import ROOT

_PLAN = "plan net.trace.json.gz --gpu t4 --batch 8"
_COMMANDS = {
    "answer": _PLAN,
    "table": f"{_PLAN} --all",
    "json": f"{_PLAN} --json",
    "csv": f"{_PLAN} --format csv",
    "markdown": f"{_PLAN} --format md",
    "schema": "schema plan",
    "compare": "compare net.trace.json.gz text.trace.json.gz --gpu t4 --batch 8",
    "sweep": "sweep sweep.yaml --workers 1 --progress none -o swept",
    "query": "query swept 'SELECT DISTINCT gpu, board_bytes FROM sweep' --format csv",
    "report": "report net.trace.json.gz --gpu t4 --batch 1,8 -o report.md",
}
_ADDED = """
from capplan.shapes import plan
from capplan.shapes.shape import column, figure

one = figure("board_bytes", "gpu.memory_bytes", "printed on the board",
    column("board", "{:,.0f} bytes".format, csv="expected").everywhere(), default=0)
object.__setattr__(plan.FIT, "figures", (*plan.FIT.figures, one))
"""
"""What every process of the program does first."""
_SCRIPT = f"""
import json, os, shlex
from pathlib import Path
from tests.golden import service, world

said = {{}}
with world.world():
    os.environ["PYTHONPATH"] = {{PATH!r}}
    for door, words in {_COMMANDS!r}.items():
        done = world.run(shlex.split(words))
        assert done.exit_code == 0, (door, done.stderr)
        said[door] = done.stdout
    said["report"] = Path("report.md").read_text()
said["page"] = service._page(*service.PAGES["plan"])
print(json.dumps(said))
"""
_T4_BYTES = 16 * 2**30
"""NVIDIA's data sheet of the T4 prints 16 GB of GDDR6, which are 2**34 bytes."""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    folder = tmp_path_factory.mktemp("added")
    (folder / "sitecustomize.py").write_text(_ADDED)
    path = f"{folder}{os.pathsep}{ROOT}"
    script = _SCRIPT.replace("{PATH!r}", repr(path))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    found: Mapping[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("door", ["answer", "table", "markdown", "compare", "page", "report"])
def test_people_see_it(said: Mapping[str, str], door: str) -> None:
    assert re.search(r"\bboard\b", said[door])
    assert f"{_T4_BYTES:,} bytes" in said[door]


def test_programs_read_it(said: Mapping[str, str]) -> None:
    assert json.loads(said["json"])["fits"][0]["board_bytes"] == _T4_BYTES
    assert json.loads(said["schema"])["$defs"]["PlannedFit"]["properties"]["board_bytes"]["description"]
    (row,) = csv.DictReader(io.StringIO(said["csv"]))
    assert row["board_bytes"] == str(_T4_BYTES)


def test_a_sweep_holds_it(said: Mapping[str, str]) -> None:
    assert f"t4,{_T4_BYTES}" in said["query"].replace(".0", "")
