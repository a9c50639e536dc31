"""Decisions are dated pages of one form, and the page on the architecture lists each."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted((DOCS / "decisions").glob("*.md"))
SECTIONS = ["## Context", "## Decision", "## Consequences"]


def test_a_decision_has_a_number_a_day_and_three_sections() -> None:
    assert len(PAGES) >= 14
    assert [int(page.name[:4]) for page in PAGES] == list(range(1, len(PAGES) + 1))
    for page in PAGES:
        lines = page.read_text().splitlines()
        assert re.fullmatch(rf"# {page.name[:4]}\. [A-Z].+[^.]", lines[0]), page.name
        assert re.fullmatch(r"20\d\d-\d\d-\d\d\. (Accepted|Replaced by \[\d{4}\]\(\S+\))\.", lines[2]), page.name
        assert [line for line in lines if line.startswith("## ")] == SECTIONS, page.name
        assert 10 <= len(lines) <= 40, page.name


def test_the_architecture_lists_every_decision_in_order() -> None:
    listed = re.findall(
        r"^- \[(.+)\]\(decisions/(\S+)\) \((\S+)\)$", (DOCS / "architecture.md").read_text(), re.MULTILINE
    )
    stated = [page.read_text().splitlines() for page in PAGES]
    assert len(listed) >= 14
    assert listed == [(lines[0][2:], page.name, lines[2][:10]) for page, lines in zip(PAGES, stated, strict=True)]
