"""SECURITY.md states limits with their figures; each is the one in the code."""

import importlib
import re
from operator import attrgetter
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[2] / "SECURITY.md").read_text()
STATED = re.findall(r"<!-- ([\w.]+):([\w.]+) -->\s*([\d,.]+\d)", TEXT)


@pytest.mark.parametrize(("module", "name", "figure"), STATED, ids=[name for _, name, _ in STATED])
def test_a_stated_limit_is_that_of_the_code(module: str, name: str, figure: str) -> None:
    assert float(attrgetter(name)(importlib.import_module(module))) == float(figure.replace(",", ""))


def test_every_figure_of_the_table_is_checked() -> None:
    """A number of five digits or more in the document is a limit, and must name its place in the code."""
    marked = {figure for _, _, figure in STATED}
    found = set(re.findall(r"\d{1,3}(?:,\d{3})+", TEXT))
    assert found - marked <= {"20,000", "100,000"}  # cases of a search; a model's operators, named above
    assert len(STATED) > 25
