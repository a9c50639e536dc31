"""Measured in a browser: no label of a chart covers another, wide and narrow, and what does not follow is greyed."""

import json
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from capplan.core.workload import BatchChoice, Batches
from capplan.verbs.report import ReportQuestion, answer_report
from capplan.verbs.statement.local import LocalContext
from tests.nightly import mostly_nightly
from tests.report.procurement.made_up import EXAMPLES, html_of
from tests.skips import find_chromium

pytestmark = [pytest.mark.slow, pytest.mark.browser]

DAY = "1795219200"
"""2026-11-21, as in the example reports. [s since 1970]"""
MODELS = {
    "image-service": "resnet50.plan.json",
    "nightly-job": "resnet50.plan.json",
    "embedding-service": "bert.plan.json",
    "training": "resnet50-training.plan.json",
    "text-to-image": "flux-schnell.plan.json",
    "three-services": None,
}
"""Every example report, with its saved plan."""

MEASURE = """
<script>
addEventListener("load", async () => {
  const pause = (ms) => new Promise((done) => setTimeout(done, ms));
  while (!document.documentElement.classList.contains("is-drawn")) await pause(50);
  await pause(300);
  const found = [], heads = [];
  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    const texts = [...figure.querySelectorAll(".picture svg text")].filter((text) => text.textContent.trim())
      .map((text) => ({ words: text.textContent, box: text.getBoundingClientRect() }))
      .filter((text) => text.box.width > 0);
    texts.forEach((one, place) => texts.slice(place + 1).forEach((other) => {
      const across = Math.min(one.box.right, other.box.right) - Math.max(one.box.left, other.box.left);
      const down = Math.min(one.box.bottom, other.box.bottom) - Math.max(one.box.top, other.box.top);
      if (across > 2 && down > 3) found.push([figure.dataset.chart, one.words, other.words, across, down]);
    }));
    heads.push(figure.dataset.chart);
  }
  CHANGE
  const result = document.createElement("pre"), wide = document.documentElement.scrollWidth;
  result.id = "measured";
  result.textContent = JSON.stringify({ found, heads, wide, room: innerWidth, changed });
  document.body.append(result);
});
</script>
"""
CHANGE = """
  const section = document.querySelector("section[data-model]");
  const words = (query) => section.querySelector(query).textContent;
  const shade = (held) => Number(getComputedStyle(held).opacity);
  const rent = section.querySelector("input[name=rentFactor]"), before = words(".verdict");
  rent.value = "9";
  rent.dispatchEvent(new Event("input", { bubbles: true }));
  const tiles = [...section.querySelectorAll(".summary .card")].map((card) =>
    [card.querySelector("dt").textContent, card.querySelector(".figure").textContent, shade(card)]);
  const changed = {
    before, after: words(".verdict"), written: words(".written"), live: words(".live"), tiles,
    why: shade(section.querySelector("div.generated:has(.why)")),
  };
"""


@cache
def example(name: str) -> str:
    """The page of an example, made as its command makes it."""
    model = MODELS[name]
    sizes = (32, 64, 128, 256) if name == "training" else (1, 2, 4, 8, 16, 32, 64)
    question = ReportQuestion(
        models=(str(EXAMPLES / model),) if model else (),
        batches=Batches(choice=BatchChoice.LISTED, sizes=sizes),
        load=EXAMPLES / f"{name}.load.yaml",
        providers=("aws", "gcp"),
    )
    return html_of(answer_report(question, LocalContext()))


def measured(page: str, folder: Path, *, width: int, change: bool = False) -> dict:
    """Open a page in a window and return what the boxes of its labels are."""
    browser = find_chromium()
    assert browser, "a test that opens a page is marked `browser`"
    script = MEASURE.replace("CHANGE", CHANGE if change else "const changed = null;")
    (folder / "page.html").write_text(page.replace("</body>", script + "</body>"))
    ran = subprocess.run(
        [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"--window-size={width},1400",
            "--virtual-time-budget=20000", f"--user-data-dir={folder / 'profile'}", (folder / "page.html").as_uri(),
        ],
        check=True, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    found = re.search(r'<pre id="measured">(.*?)</pre>', ran.stdout, re.DOTALL)
    assert found, ran.stderr[-1000:]
    result: dict = json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    return result


@pytest.mark.parametrize("name", mostly_nightly(MODELS, daily=list(MODELS)[:1]))
def test_no_label_of_a_chart_covers_another(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", DAY)
    for width in (1280, 500):
        seen = measured(example(name), tmp_path, width=width)
        assert len(seen["heads"]) > 4
        assert seen["found"] == [], width
        assert seen["wide"] <= seen["room"] + 1, width  # nothing is wider than the window


def test_a_page_of_three_services_can_be_sent_by_mail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", DAY)
    assert len(example("three-services").encode()) < 1_500_000


def test_a_changed_page_says_one_thing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With rents at nine times their price the page's headline, tiles and line agree, and the reasons are greyed."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", DAY)
    changed = measured(example("image-service"), tmp_path, width=1280, change=True)["changed"]
    assert changed["after"] == changed["live"] != changed["before"]
    assert changed["before"] in changed["written"]
    assert changed["why"] == 0.5
    tiles = {label: (figure, opacity) for label, figure, opacity in changed["tiles"]}
    figure, opacity = tiles["Cost per year"]
    assert opacity == 1
    assert figure.removesuffix(" USD") in changed["after"]
    assert tiles["Scenarios carried"][1] == 0.5
