"""The report on LLM serving as a PDF by Typst: its figures travel as data, so nothing in a name can become markup."""

import json
from importlib import resources
from typing import Any

import typst

from capplan.llm.core.fleet.serving_report import ServingReport
from capplan.report.documents.codec import to_plain
from capplan.report.serving.sections import cards, sections


def serving_pdf(report: ServingReport) -> bytes:
    """Return the report as a PDF; the same report gives the same bytes."""
    pictures: dict[str, bytes] = {}
    parts = []
    for section in sections(report):
        names: list[dict[str, str]] = []
        for picture in section.pictures:
            name = f"{section.key}-{len(names)}.svg"
            pictures[name] = picture.svg.encode()
            names.append({"file": name, "alt": picture.shows})
        parts.append(
            {
                "title": section.title,
                "lines": list(section.lines),
                "pictures": names,
                "sheets": [{"caption": sheet.caption, "content": to_plain(sheet.content)} for sheet in section.sheets],
                "code": list(section.code),
            }
        )
    data = {
        "title": report.title,
        "day": report.created,
        "cards": [to_plain(card) for card in cards(report)],
        "sections": parts,
    }
    template = resources.files("capplan.report.serving") / "templates" / "serving.typ"
    files = {"main.typ": template.read_bytes(), "data.json": json.dumps(data).encode(), **pictures}
    # The stubs of typst 0.15 leave out that the input may be a mapping of files.
    options: Any = {"format": "pdf", "timestamp": 0, "ignore_system_fonts": True}
    source: Any = files
    return bytes(typst.compile(source, **options))
