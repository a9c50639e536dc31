from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from capplan.cli.main import app

EXAMPLES = Path(__file__).parents[2] / "examples"
NET = f"{EXAMPLES / 'net.py'}:Net"

Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    """Run `capplan` in this process; the result holds exit_code, stdout and stderr."""
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="session")
def net_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace file of the example network."""
    path = tmp_path_factory.mktemp("traces") / "net.trace.json"
    words = ["trace", f"{EXAMPLES / 'net.py'}:Net", "--input", "x=3x224x224", "-o", str(path)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.stderr
    return path
