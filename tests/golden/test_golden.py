"""Every output is what it was, byte for byte.

After a wanted change read `python -m tests.golden`, and run `python -m tests.golden --renew CASE ...`.
"""

import pytest

from tests.golden.cases import CASES
from tests.golden.kept import difference, kept, kept_names

pytestmark = pytest.mark.slow

LONGEST_DIFFERENCE = 60
"""Lines of a difference that a failure shows."""


MARKS = {"report-pdf/": [pytest.mark.poppler], "sweep/": [pytest.mark.slow]}
"""Marks of cases by the beginning of their names."""


def marked(name: str) -> object:
    marks = [mark for beginning, found in MARKS.items() if name.startswith(beginning) for mark in found]
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", [marked(name) for name in CASES])
def test_an_output_is_what_it_was(name: str) -> None:
    assert kept(name), f"nothing is kept of {name}: python -m tests.golden --renew {name}"
    lines = difference(name, CASES[name]())
    if lines:
        shown = "".join(lines[:LONGEST_DIFFERENCE])
        pytest.fail(f"{shown}... renew it if that is wanted: python -m tests.golden --renew {name}", pytrace=False)


def test_every_kept_output_has_a_case() -> None:
    assert len(CASES) > 150
    assert kept_names() == set(CASES)
