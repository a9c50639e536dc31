"""Write the part of a documentation page that one script makes, and leave the rest as it is."""

from pathlib import Path

EVIDENCE = Path(__file__).resolve().parents[1] / "docs" / "evidence"
"""The folder of the pages that state how right the estimates are."""


def write_section(page: Path, name: str, text: str) -> None:
    """Replace what stands between `<!-- NAME -->` and `<!-- end of NAME -->`.

    Args:
        page: the Markdown page.
        name: the name of the part, such as the script that makes it.
        text: what the part holds from now on.

    Raises:
        LookupError: the page does not have the two marks.
    """
    head, start, rest = page.read_text(encoding="utf-8").partition(f"<!-- {name} -->\n")
    _, end, tail = rest.partition(f"<!-- end of {name} -->")
    if not end:
        raise LookupError(f"{page} does not have the marks <!-- {name} --> and <!-- end of {name} -->")
    page.write_text(f"{head}{start}\n{text.strip()}\n\n{end}{tail}", encoding="utf-8")
