"""Every command of the tutorials runs, in order, with the files that the tutorial shows."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from capplan.cli.main import app
from tests.timed_cpu import timed_cpu  # noqa: F401 - a fixture

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
BLOCK = re.compile(r"^```(?P<kind>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE)


def run(command: str) -> None:
    assert command.startswith("capplan "), command
    words = shlex.split(command.removesuffix("; echo $?"), comments=True)[1:]
    if words[0] == "measure" and "--export" not in words:
        words += ["--warmup", "1", "--repetitions", "6"]  # what is measured does not matter here
    done = CliRunner().invoke(app, words)
    may_refuse = command.endswith("; echo $?")
    assert done.exit_code in ((0, 1) if may_refuse else (0,)), f"{command}\n{done.stderr}"
    if not any(word in words for word in ("-o", "--export")):
        assert done.stdout.strip(), f"{command} printed nothing"


@pytest.mark.zoo
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda path: path.stem)
def test_every_command_of_a_tutorial_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795219200")
    commands = 0
    for block in BLOCK.finditer(page.read_text()):
        if block["title"]:
            (tmp_path / block["title"]).write_text(block["text"])
        elif block["kind"] == "sh":  # console blocks need a GPU or install something
            for line in block["text"].replace("\\\n", " ").splitlines():
                run(line)
                commands += 1
    assert commands > 3
