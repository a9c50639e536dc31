"""Every page of a report, opened with its script in a browser and printed: nothing is lost, and weights are normal."""

import base64
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from capplan.verbs.llm.report import LLM_REPORT, LlmReportQuestion, answer_llm_report
from capplan.verbs.statement.local import LocalContext
from tests.nightly import mostly_nightly
from tests.report.procurement.test_boxes import DAY, MODELS, example
from tests.serve.browser import Browser, browsing

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.poppler]

LLM_LOAD = Path(__file__).parents[1] / "golden" / "inputs" / "llm.load.yaml"
PAGES = [*MODELS, "serving"]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsing(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


def page_of(name: str) -> str:
    if name != "serving":
        return example(name)
    question = LlmReportQuestion(model="qwen3-8b", load=LLM_LOAD)
    page = LLM_REPORT.files_in["html"]([answer_llm_report(question, LocalContext())], question)
    assert isinstance(page, str)
    return page


@pytest.mark.parametrize("name", mostly_nightly(PAGES, daily=["image-service"]))
def test_a_page_prints_what_it_shows(
    name: str, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script once hid the whole page on paper, and made every word bold."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", DAY)
    page = page_of(name)
    (tmp_path / "page.html").write_text(page)
    browser.open((tmp_path / "page.html").as_uri())
    if "<script>" in page:
        browser.wait("document.documentElement.classList.contains('is-drawn')")
    parts = "[...document.querySelectorAll('html, main p.small, main li, main td')]"
    assert set(browser.run(f"{parts}.map((part) => getComputedStyle(part).fontWeight)")) == {"400"}
    heading, sentence = browser.text("h1"), browser.text(".verdict") or browser.text("main h2")
    content = browser.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)["data"]
    paper = tmp_path / "page.pdf"
    paper.write_bytes(base64.b64decode(content))
    read = subprocess.run(["pdftotext", "-layout", str(paper), "-"], capture_output=True, text=True, check=True).stdout
    sheets = read.split("\f")[:-1]
    assert 2 <= len(sheets) <= 16
    assert all(sheet.strip() for sheet in sheets)
    words = " ".join(read.split())
    assert len(words) > 6000
    assert heading in words
    first = " ".join(sheets[0].split())
    assert " ".join(sentence.split()[:6]) in first
    assert "Approved by" in words or name == "serving"
