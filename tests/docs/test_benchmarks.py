"""The list of benchmarks names every script, and files that exist."""

import re
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "benchmarks"
ROWS = [line.strip("| ").split(" | ") for line in (FOLDER / "README.md").read_text().splitlines() if "| `" in line]


def test_every_script_is_listed_once_and_nothing_else_is() -> None:
    scripts = sorted(path.name for path in FOLDER.glob("*.py"))
    assert len(scripts) >= 40
    assert sorted(row[0].strip("`") for row in ROWS) == scripts


def test_a_row_says_what_the_script_makes_what_it_needs_and_what_it_writes() -> None:
    assert len(ROWS) >= 40
    assert [row for row in ROWS if len(row) != 4 or not all(row)] == []


def test_files_that_scripts_write_exist() -> None:
    named = [name for row in ROWS for name in re.findall(r"`([\w./-]+\.(?:md|csv|yaml))`", row[3])]
    assert len(named) >= 20
    folders = [FOLDER.parent, FOLDER.parent / "capplan" / "calibrations"]
    assert [name for name in named if not any((folder / name).is_file() for folder in folders)] == []
