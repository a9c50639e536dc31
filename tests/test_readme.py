"""What the README says of commands. What it shows is compared in tests/data_acceptance/test_pages.py."""

import os
import re
import shlex
import subprocess
import sys

import pytest

from examples.renew import DAY, EXAMPLE, README
from tests.snapshot import assert_is_snapshot


def printed(command: str) -> str:
    words = [sys.executable, "-m", "capplan", *shlex.split(command)[1:]]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": DAY}  # prices have the same age every day
    return subprocess.run(words, capture_output=True, text=True, check=True, env=environment).stdout


@pytest.mark.zoo
def test_the_worked_examples_command_with_the_fixture_data() -> None:
    found = EXAMPLE.search(README.read_text())
    assert found
    assert_is_snapshot("plan-resnet50.txt", printed(found["command"]))


@pytest.mark.slow
def test_every_command_named_in_the_readme_exists() -> None:
    named = set(re.findall(r"^capplan ([a-z]+)", README.read_text(), re.MULTILINE))
    assert {"plan", "analyze", "trace", "gpus"} <= named
    for name in sorted(named):
        assert "Usage" in printed(f"capplan {name} --help")


def test_the_readme_fits_a_hundred_lines() -> None:
    assert 50 <= len(README.read_text().splitlines()) <= 100
