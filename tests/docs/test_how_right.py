"""The page of all claims of accuracy states what the pages behind it state."""

import re
from pathlib import Path

import pytest

from benchmarks import accuracy_summary
from benchmarks.accuracy_summary import COUNTS, MEMORY, PAGE, ROOT, TIMES, Row, figures, text

CLAIMS = (*TIMES, *MEMORY, *COUNTS)


def test_the_page_is_that_of_the_tables_behind_it() -> None:
    assert len(CLAIMS) >= 30
    assert PAGE.read_text() == text(), "run `python benchmarks/accuracy_summary.py`"


def test_every_page_about_accuracy_has_a_claim() -> None:
    pages = {path.name for path in PAGE.parent.glob("*.md")} - {PAGE.name}
    assert len(pages) >= 10
    assert pages <= {claim.page for claim in CLAIMS}


def test_the_readme_states_the_errors_of_models_and_gpus_that_no_fit_has_seen() -> None:
    stated = re.search(
        r"error of latency is about (\d+) % and the 90th percentile\s+(\d+) %", (ROOT / "README.md").read_text()
    )
    claims = [claim for claim in TIMES if claim.what == "Eager step, family and GPU left out"]
    assert stated
    assert len(claims) == 1
    found = figures(claims[0].page, claims[0].errors)
    assert [round(float(found[name])) for name in ("median", "p90")] == [int(figure) for figure in stated.groups()]


def test_every_command_is_a_script_or_a_command_of_capplan() -> None:
    scripts = {claim.command for claim in CLAIMS if claim.command.endswith(".py")}
    assert len(scripts) >= 15
    assert [name for name in scripts if not (ROOT / "benchmarks" / name).is_file()] == []


def test_figures_are_those_of_the_row_below_the_heading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["# One", "| a | rows | median |", "| --- | --- | --- |", "| x | 1 | 2 % |", "", "## Two"]
    lines += ["| a | b | n | error, median | p90 |", "|---|---|---|---|---|", "| **x** | y\\_z | 3 | 4 % | 5 % |"]
    (tmp_path / "page.md").write_text("\n".join(lines))
    monkeypatch.setattr(accuracy_summary, "DOCS", tmp_path)
    assert figures("page.md", Row("One", ("x",))) == {"rows": "1", "median": "2 %"}
    assert figures("page.md", Row("Two", ("x", "y_z"))) == {"rows": "3", "median": "4 %", "p90": "5 %"}
    with pytest.raises(LookupError, match=re.escape("page.md has no row ('z',) below 'Two'")):
        figures("page.md", Row("Two", ("z",)))
