"""Any file of any reader ends a whole command in a documented way: a slice of what `tests.fuzz.readers` can try."""

import os
import subprocess
import sys

import pytest

from tests.fuzz.readers import READERS, case
from tests.limits import within

FIRST = int(os.environ.get("CAPPLAN_FUZZ_SEED", "0"))
"""From where the nightly run counts its seeds: another number tries other cases."""


def test_a_seed_always_makes_the_same_case_and_every_reader_has_its_turn() -> None:
    assert [case(seed) for seed in range(8)] == [case(seed) for seed in range(8)]
    assert {case(seed)[0] for seed in range(len(READERS))} == set(READERS)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("first", range(FIRST, FIRST + 2000, 500))
def test_hostile_files_end_whole_commands_as_documented(first: int) -> None:
    with within(cpu_s=900):
        tried = subprocess.run(
            [sys.executable, "-m", "tests.fuzz.readers", str(first), str(first + 500)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    assert "'passed': 500" in tried.stdout, tried.stdout
