"""Links outside the documentation's site lead to files and headings that exist; mkdocs checks those of the site."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "benchmarks/README.md", "examples/README.md")


def headings(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    links = [
        (name, link) for name in PAGES for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", (ROOT / name).read_text())
    ]
    assert len(links) >= 20
    wrong = []
    for name, link in links:
        path, _, anchor = link.partition("#")
        target = (ROOT / name).parent / path if path else ROOT / name
        if not target.exists() or (anchor and anchor not in headings(target)):
            wrong.append((name, link))
    assert wrong == []
