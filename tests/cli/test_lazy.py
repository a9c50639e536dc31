"""Commands that are imported when they are called."""

import pytest

from capplan.cli.main import COMMANDS
from tests.cli.conftest import Run


def test_help_lists_every_command_in_order(run: Run) -> None:
    result = run("--help")
    assert result.exit_code == 0
    listed = result.stdout.partition("Commands:")[2].splitlines()
    named = [
        line.split()[0] for line in listed if line.startswith("  ") and line.split() and line.split()[0] in COMMANDS
    ]
    assert named == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(run: Run, name: str) -> None:
    result = run(name, "--help")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith(f"Usage: capplan {name} ")


def test_a_mistyped_command_is_a_usage_error_with_the_one_meant(run: Run) -> None:
    result = run("plna", "resnet50")
    assert result.exit_code == 2
    assert "unknown command 'plna'; did you mean plan?" in result.stderr
    assert "shwo" not in run("gpus", "shwo").stdout
    assert "did you mean show?" in run("gpus", "shwo").stderr


def test_a_model_in_the_place_of_a_command_is_told_how_to_ask(run: Run) -> None:
    result = run("resnet50", "--batch", "32")
    assert result.exit_code == 2
    assert "For a model, write `capplan plan resnet50 --batch 32`" in result.stderr
