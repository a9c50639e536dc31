"""docs/sweeps.md against the code: the table of columns, and the kinds of failure."""

from pathlib import Path

from capplan.app.sweep.schema import COLUMNS, FailureKind

PAGE = (Path(__file__).parents[3] / "docs" / "sweeps.md").read_text()


def test_the_page_lists_every_column_with_its_unit() -> None:
    listed = [line for line in PAGE.splitlines() if line.startswith("| `") and line.count("|") == 5]
    expected = [f"| `{each.name}` | {each.kind.value} | {each.unit} | {each.meaning} |" for each in COLUMNS]
    assert listed == expected


def test_the_page_explains_every_kind_of_failure() -> None:
    assert all(f"| `{kind.value}` |" in PAGE for kind in FailureKind)
