"""The changelog has one line an item, under headings of releases."""

import re
from pathlib import Path

LINES = (Path(__file__).parents[2] / "CHANGELOG.md").read_text().splitlines()
ITEMS = [line for line in LINES if line.startswith("- ")]
KINDS = {"### Added", "### Changed", "### Fixed", "### Removed"}


def test_an_item_is_one_line_of_at_most_120_characters() -> None:
    assert len(ITEMS) >= 200
    assert [line for line in ITEMS if len(line) > 120] == []
    assert [line for line in LINES if line.startswith(" ")] == []  # an item that goes on in the next line


def test_no_release_states_an_item_twice() -> None:
    assert len(ITEMS) >= 200
    assert {line for line in ITEMS if ITEMS.count(line) > 1} == set()


def test_headings_are_releases_with_their_day_and_kinds_of_changes() -> None:
    releases = [line for line in LINES if line.startswith("## ")]
    assert releases[0] == "## Unreleased"
    days = [re.fullmatch(r"## \d+\.\d+\.\d+ \((\d{4}-\d{2}-\d{2})\)", line) for line in releases[1:]]
    assert len(days) >= 7
    assert all(days)
    written = [day[1] for day in days if day]
    assert written == sorted(written, reverse=True)
    assert {line for line in LINES if line.startswith("### ")} <= KINDS
