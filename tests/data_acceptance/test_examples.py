"""The reports and plans in examples/: today's program and data give the same shape.

The figures move with every refit and price; `python examples/renew.py` writes them anew. What is asked here is that the
texts still are what the program prints, but for figures, and that the saved plans are not stale.
"""

import json
import re
import shlex
from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from capplan.cli.main import app
from examples.renew import DAY, FOLDER, PLANS, REPORTS
from tests.nightly import mostly_nightly

pytestmark = pytest.mark.slow

RENEW = "run `python examples/renew.py` and read the diff"
FIGURE = re.compile(r"\d[\d.,]*|∞")


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Run a command in the examples' folder on their day, and return what it prints."""
    monkeypatch.chdir(FOLDER)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", DAY)

    def run(command: str) -> str:
        done = CliRunner().invoke(app, shlex.split(command))
        assert done.exit_code == 0, done.stderr
        return done.stdout

    return run


def shape(text: str) -> set[str]:
    """The headings and notes of an answer, figures masked; rows of tables are compared by what they name."""
    lines = (line for line in text.splitlines() if line.startswith(("#", "  · ")) or line.endswith(" inference"))
    return {FIGURE.sub("0", line) for line in lines}


def columns(text: str) -> list[str]:
    """The titles of the first table, whose rule of dashes stands below them."""
    lines = text.splitlines()
    rule = next(index for index, line in enumerate(lines) if set(line) == {"-", " "} or line.startswith("| ---"))
    return re.split(r"\s{2,}| \| ", lines[rule - 1].strip("| "))


@pytest.mark.parametrize("name", mostly_nightly(REPORTS, daily=["image-service", "embedding-service"]))
def test_an_example_report_has_the_shape_of_what_the_program_prints(name: str, printed: Callable[[str], str]) -> None:
    kept, now = (FOLDER / f"{name}.report.md").read_text(), printed(REPORTS[name])
    assert columns(now) == columns(kept), RENEW
    assert shape(now) == shape(kept), RENEW


@pytest.mark.zoo
@pytest.mark.parametrize("file", mostly_nightly(PLANS, daily=["resnet50.plan.json", "bert.plan.json"]))
def test_a_saved_plan_is_not_stale(file: str, printed: Callable[[str], str]) -> None:
    """Its latencies lie within what the shipped calibration gives today."""
    kept = {(fit["gpu"], fit["batch"]): fit for fit in json.loads((FOLDER / file).read_text())["fits"]}
    now = {(fit["gpu"], fit["batch"]): fit for fit in json.loads(printed(f"{PLANS[file]} --format json"))["fits"]}
    assert set(kept) == set(now), RENEW
    for key, fit in kept.items():
        interval = now[key]["latency_s"]
        assert interval["low"] <= fit["latency_s"]["expected"] <= interval["high"], (key, RENEW)
