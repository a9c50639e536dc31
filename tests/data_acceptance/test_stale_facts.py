"""CI's list of facts that nobody looked up for long: it names them by file and key, and fails nothing."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def run(day_s: int) -> list[str]:
    done = subprocess.run(
        [sys.executable, ROOT / ".ci" / "stale_facts.py"], capture_output=True, text=True, check=True, cwd=ROOT,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(day_s)},
    )  # fmt: skip
    return done.stdout.splitlines()


def test_nothing_is_old_on_the_day_that_it_was_looked_up() -> None:
    first, *_ = run(1795737600)  # 2026-11-27
    old, facts, undated = map(int, re.findall(r"\d+(?= of| dated| on no)", first))
    assert old == 0
    assert facts > 150
    assert undated < facts


def test_old_facts_are_named_by_file_and_key_with_their_day() -> None:
    # 200 days after the last facts were looked up, all that state a day are old, and what was expected in 2026 is past.
    first, *lines = run(1795737600 + 200 * 86_400)
    text = "\n".join(lines)
    old, facts, undated = map(int, re.findall(r"\d+(?= of| dated| on no)", first))
    assert old + undated == facts
    assert "  engines: engine-vllm.yaml: the file, formats.fp8[0]" in text
    assert "  frameworks: software-support.yaml: software.eager" in text
    assert "  sale of GPUs: mi455x.yaml: status, expected, the oldest of 2026-11-27" in text
    assert "rubin-nvl72-288gb was expected in the fourth quarter of 2026: look whether it is sold" in text
    assert "mi430x was expected" not in text  # in 2027, which is not over


def test_the_recipes_of_ci_hold_the_check() -> None:
    assert " facts" in (ROOT / ".ci" / "run").read_text()
    assert ".ci/stale_facts.py" in (ROOT / ".github" / "workflows" / "ci.yml").read_text()
