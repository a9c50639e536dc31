"""The page: its figures worked out anew by the browser, its accessibility, its independence of the network."""

import json
import re
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from capplan.core.economics.options import Scenario, evaluate
from tests.nightly import mostly_nightly
from tests.report.procurement.made_up import html_of, made_answer, made_report, whole
from tests.seen import at_least
from tests.skips import find_chromium

pytestmark = pytest.mark.slow

LOADS = ["image-service", "nightly-job", "training", None]

DRIVER = """
<script>
(async () => {
  while (!document.documentElement.classList.contains("is-live")) await new Promise((done) => setTimeout(done, 20));
  const section = document.querySelector("section[data-model]"), form = section.querySelector("form.controls");
  const read = () => Object.fromEntries([...section.querySelectorAll("table.options tbody tr")].map((row) =>
    [row.dataset.key, Object.fromEntries([...row.querySelectorAll("[data-cell]")].map((cell) =>
      [cell.dataset.cell, {value: cell.dataset.value, words: cell.textContent}]))]));
  const steps = STEPS, seen = [read()];
  for (const changes of steps) {
    for (const [name, value] of Object.entries(changes)) {
      const input = name.includes("/") ? section.querySelector(`input[data-price="${name}"]`)
        : name.startsWith(".") ? section.querySelector(name) : form.elements[name];
      input.value = value;
      input.dispatchEvent(new Event("input", {bubbles: true}));
    }
    seen.push(read());
  }
  const heads = [...section.querySelectorAll("table.options thead button")];
  heads.find((head) => head.textContent === "Per year").click();
  const sorted = [...section.querySelectorAll("table.options tbody tr")].map((row) => row.dataset.key);
  const filter = section.querySelector("input.filter");
  filter.value = "h100";
  filter.dispatchEvent(new Event("input", {bubbles: true}));
  const filtered = [...section.querySelectorAll("table.options tbody tr")].filter((row) => row.offsetParent)
    .map((row) => row.dataset.key);
  filter.value = "speed: measured";
  filter.dispatchEvent(new Event("input", {bubbles: true}));
  const badged = [...section.querySelectorAll("table.options tbody tr")].filter((row) => row.offsetParent)
    .map((row) => row.dataset.key);
  filter.value = "h100";
  filter.dispatchEvent(new Event("input", {bubbles: true}));
  const result = document.createElement("pre");
  result.id = "driven";
  result.textContent = JSON.stringify({seen, sorted, filtered, badged, live: section.querySelector(".live").textContent,
    ready: performance.now(), errors: window.seenErrors, file: section.loadFile(),
      requests: performance.getEntriesByType("resource").length});
  document.body.append(result);
})();
</script>
"""
WATCHER = (
    "<script>window.seenErrors = []; addEventListener('error', (e) => window.seenErrors.push(e.message));</script>"
)


def drive(page: str, steps: list[dict], folder: Path) -> dict:
    """Open a page in headless Chromium, change its settings and read what it then says."""
    browser = find_chromium()
    assert browser, "a test that opens a page is marked `browser`"
    page = page.replace("<style>", WATCHER + "<style>", 1)
    page = page.replace("</body>", DRIVER.replace("STEPS", json.dumps(steps)) + "</body>")
    (folder / "page.html").write_text(page)
    ran = subprocess.run(
        [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--enable-logging=stderr",
            "--virtual-time-budget=20000", f"--user-data-dir={folder / 'profile'}", (folder / "page.html").as_uri(),
        ],
        check=True, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert "CONSOLE" not in ran.stderr, [line for line in ran.stderr.splitlines() if "CONSOLE" in line]
    found = re.search(r'<pre id="driven">(.*?)</pre>', ran.stdout, re.DOTALL)
    assert found, ran.stdout[-2000:]
    words = found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    result: dict = json.loads(words)
    assert result["errors"] == []
    assert result["requests"] == 0
    return result


def assert_same(cells: dict, options, *, latency: bool = True) -> None:
    """The page's figures equal Python's to 0.01 %; they are equal to rounding."""
    by_key = {option.key: option for option in options}
    assert any(option.cost is not None for option in options)
    for key, seen in cells.items():
        option = by_key.get(key)
        if option is None:
            assert seen["year"]["words"] == "–", key
            continue
        fleet = option.fleets[-1] if key.endswith("/buy") else option.fleet
        assert float(seen["gpus"]["value"]) == fleet.gpus, key
        if option.cost is not None:
            assert float(seen["year"]["value"]) == pytest.approx(option.cost.per_year, rel=1e-9), key
            assert float(seen["total"]["value"]) == pytest.approx(option.cost.total, rel=1e-9), key
            assert float(seen["million"]["value"]) == pytest.approx(option.cost_per_million, rel=1e-9), key


@pytest.mark.browser
@pytest.mark.parametrize("load", mostly_nightly(LOADS, daily=["image-service", "training"]))
def test_the_page_works_out_the_report_s_own_figures_and_leaves_the_words_as_python_wrote_them(load, tmp_path):
    report = made_report(load)
    page = html_of(report)
    driven = drive(page, [], tmp_path)
    for option in at_least(10, report.models[0].options):
        cells = driven["seen"][0][option.key]
        assert float(cells["latency"]["value"]) == pytest.approx(option.finish_s or option.latency_s.expected, rel=1e-9)
        assert float(cells["headroom"]["value"]) == pytest.approx(option.headroom_fraction, rel=1e-9, abs=1e-12)
        for name, value in (
            ("year", option.cost_usd_per_year), ("total", option.total_usd),
            ("million", option.usd_per_million),
        ):  # fmt: skip
            if value is not None:
                assert float(cells[name]["value"]) == pytest.approx(value, rel=1e-9)
    pattern = r'<tr data-key="([^"]+)"(.*?)</tr>'
    for key, row in at_least(10, re.findall(pattern, whole(page), re.DOTALL)):
        written = dict(re.findall(r'data-cell="(\w+)"[^>]*>([^<]*)<', row))
        for name, words in at_least(5, written.items()):
            if words not in ("unknown", ""):
                assert driven["seen"][0][key][name]["words"] == words, (key, name)


@pytest.mark.browser
@pytest.mark.parametrize("load", mostly_nightly(["image-service", "nightly-job"], daily=["image-service"]))
def test_changed_settings_give_python_s_figures(load, tmp_path):
    answer = made_answer(load)
    money = answer.case.money
    steps = [
        {"usd_per_kwh": "0.31", "discount_fraction": "0", "residual_fraction": "5", "pue": "1.6"},
        {"load": "3", "rentFactor": "1.2", "purchaseFactor": "0.9"},
        {"batch": "8", "network_fraction": "20", "staff_usd_per_server_year": "4000"},
    ]
    driven = drive(html_of(made_report(load)), steps, tmp_path)
    money = replace(money, usd_per_kwh=0.31, discount_fraction=0.0, residual_fraction=0.05, pue=1.6)
    assert_same(driven["seen"][1], evaluate(answer.case, Scenario(money=money)))
    scenario = Scenario(money=money, load=3, rent_price=1.2, purchase_price=0.9)
    assert_same(driven["seen"][2], evaluate(answer.case, scenario))
    money = replace(money, network_fraction=0.2, staff_usd_per_server_year=4000)
    assert_same(driven["seen"][3], evaluate(answer.case, replace(scenario, money=money, largest_batch=8)))


@pytest.mark.browser
def test_one_changed_price_moves_its_option_only(tmp_path):
    report = made_report("image-service")
    choice = report.models[0].option(report.models[0].verdict.choice)
    driven = drive(html_of(report), [{choice.key: str(2 * choice.price_usd)}], tmp_path)
    before, after = driven["seen"]
    assert float(after[choice.key]["year"]["value"]) == pytest.approx(2 * choice.cost_usd_per_year, rel=1e-9)
    assert [key for key in before if before[key] != after[key]] == [choice.key]
    other = report.models[0].option(report.models[0].verdict.runner_up)
    assert choice.gpu_name not in driven["live"] or 2 * choice.cost_usd_per_year < other.cost_usd_per_year


@pytest.mark.browser
def test_the_table_sorts_and_filters(tmp_path):
    report = made_report("image-service")
    driven = drive(html_of(report), [], tmp_path)
    cost = {option.key: option.cost_usd_per_year for option in report.models[0].options}
    priced = [key for key in driven["sorted"] if cost[key] is not None]
    assert priced == sorted(priced, key=lambda key: cost[key])
    assert driven["filtered"]
    assert all("h100" in key for key in driven["filtered"])
    measured = {option.key for option in report.models[0].options if option.speed_tier == "measured"}
    assert set(driven["badged"]) == measured  # badges are found by the filter, too


class Reader(HTMLParser):
    """Gathers what accessibility rules ask of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def of(self, tag: str) -> list[dict]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.mark.parametrize("load", mostly_nightly(LOADS, daily=["image-service"]))
def test_the_page_can_be_read_without_eyes(load):
    page = html_of(made_report(load, names=("toynet", "other")))
    reader = Reader(whole(page))
    assert reader.of("html")[0]["lang"] == "en"
    assert len(reader.of("title")) >= 1
    assert len(reader.of("h1")) == 1
    levels = [int(tag[1]) for tag, _ in reader.tags if re.fullmatch("h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert len(reader.of("table")) == len(reader.of("caption"))
    assert all(cell.get("scope") in ("col", "row") for cell in reader.of("th"))
    charts = [image for image in reader.of("svg") if image.get("role") == "img"]
    assert len(charts) == len(reader.of("svg")) == len(reader.of("desc"))
    identities = [attributes["id"] for _, attributes in reader.tags if "id" in attributes]
    assert len(identities) == len(set(identities))
    for image in charts:
        assert set(image["aria-labelledby"].split()) <= set(identities)
    labelled = [name for name in ("input", "select") for each in reader.of(name) if "aria-label" not in each]
    assert page.count("<label>") == len(labelled)


def test_the_page_asks_nothing_of_the_network():
    page = html_of(made_report("image-service"))
    assert "default-src 'none'" in page
    reader = Reader(page)
    for tag, attributes in reader.tags:
        assert "src" not in attributes, tag
        address = attributes.get("href", "#")
        is_source = tag == "a" and address.startswith("https://") and attributes["rel"] == "noreferrer"
        assert address.startswith("#") or is_source, tag  # a source is opened by whoever clicks on it
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert style
    assert "url(" not in style[1]
    assert "@import" not in style[1]
    assert len(page) < 1_500_000
