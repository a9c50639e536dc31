"""CI's list of stale prices: it counts by provider, and fails nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_stale_prices_are_reported_by_provider_and_fail_nothing() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / ".ci" / "stale_prices.py"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    first, *lines = done.stdout.splitlines()
    assert " prices are older than 180 days or of unknown age" in first
    stale, every = int(first.split()[0]), int(first.split()[2])
    counts = [int(line.rsplit(": ", 1)[1].split(",")[0]) for line in lines]
    assert sum(counts) == stale <= every


def test_the_recipes_of_ci_hold_the_check() -> None:
    assert " prices" in (ROOT / ".ci" / "run").read_text()
