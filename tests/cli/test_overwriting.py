"""What commands may overwrite, on the command line."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import NET, Run


@pytest.fixture
def own_trace(net_trace: Path, tmp_path: Path) -> Path:
    path = tmp_path / "own.trace.json"
    path.write_bytes(net_trace.read_bytes())
    return path


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "{}", "--gpu", "t4", "--format", "json", "-o", "{}"),
        ("plan", "{}", "--gpu", "t4", "--format", "json", "-o", "{}", "--force"),
        ("analyze", "{}", "--json", "-o", "{}"),
        ("memory", "{}", "--json", "-o", "{}"),
        ("estimate", "{}", "--gpu", "t4", "--json", "-o", "{}"),
        ("report", "{}", "--gpu", "t4", "--batch", "8", "-o", "{}", "--force"),
        ("trace", "{}", "-o", "{}", "--force"),
    ],
)
def test_a_command_never_overwrites_its_input(words: tuple[str, ...], own_trace: Path, run: Run) -> None:
    before = own_trace.read_bytes()
    result = run(*(word.format(own_trace) for word in words))
    assert result.exit_code == 2, result.output
    assert "is an input of this command and is kept" in result.stderr
    assert own_trace.read_bytes() == before


def test_an_input_behind_a_colon_or_an_equals_sign_is_kept(run: Run, tmp_path: Path) -> None:
    code = tmp_path / "net.py"
    code.write_text("from torch import nn\n\ndef make():\n    return nn.Linear(4, 3)\n")
    result = run("analyze", f"{code}:make", "--input", "4", "--format", "md", "-o", code, "--force")
    assert (result.exit_code, code.read_text()[:4]) == (2, "from")


def test_an_answer_of_another_kind_wants_force(run: Run, net_trace: Path, tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    assert run("analyze", net_trace, "-o", path).exit_code == 0
    analysis = path.read_bytes()
    assert run("analyze", net_trace, "--batch", "2", "-o", path).exit_code == 0
    assert path.read_bytes() != analysis
    result = run("plan", net_trace, "--gpu", "t4", "--batch", "8", "-o", path)
    assert result.exit_code == 2
    assert "add --force" in result.stderr
    assert run("plan", net_trace, "--gpu", "t4", "--batch", "8", "-o", path, "--force").exit_code == 0
    assert "fits" in json.loads(path.read_text())


def test_a_trace_of_another_model_wants_force(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.trace.json"
    other = tmp_path / "other.py"
    other.write_text(
        "from torch import nn\n\nclass Net(nn.Linear):\n    def __init__(self):\n        super().__init__(4, 3)\n"
    )
    assert run("trace", NET, "--input", "x=3x64x64", "-o", path).exit_code == 0
    assert run("trace", NET, "--input", "x=3x32x32", "-o", path).exit_code == 0
    result = run("trace", f"{other}:Net", "--input", "4", "-o", path)
    assert (result.exit_code, "add --force" in result.stderr) == (2, True)
    assert run("trace", f"{other}:Net", "--input", "4", "-o", path, "--force").exit_code == 0


def test_a_plot_does_not_overwrite_the_trace_it_draws(run: Run, own_trace: Path, tmp_path: Path) -> None:
    link = tmp_path / "plot.svg"
    link.symlink_to(own_trace)
    before = own_trace.read_bytes()
    assert run("memory", own_trace, "--plot", link).exit_code == 2
    assert own_trace.read_bytes() == before


@pytest.mark.parametrize("command", ["plan", "analyze", "memory", "trace", "estimate", "validate", "gpus", "schema"])
def test_every_command_that_writes_explains_force(command: str, run: Run) -> None:
    assert "--force" in run(command, "--help").stdout


def test_a_subcommand_that_writes_explains_force(run: Run) -> None:
    assert "--force" in run("calibrate", "fit", "--help").stdout
    assert "--force" in run("gpus", "new", "--help").stdout
    assert "--force" not in run("cache", "clear", "--help").stdout
