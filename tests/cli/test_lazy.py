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


def test_an_unknown_command_is_a_usage_error(run: Run) -> None:
    result = run("plna")
    assert result.exit_code == 2
    assert "No such command 'plna'" in result.stderr
