"""Every figure of the pages links to lines that hold this figure and say what it was worked out from."""

import json
import random
import re
from datetime import date
from html import unescape
from html.parser import HTMLParser
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import pytest

import capplan
from capplan.core.gpus.spec import Status
from capplan.report.text.answer import render_answer
from capplan.serve.mcp.abridged import abridged
from capplan.specs import load_gpus
from capplan.units import format_joules, format_watts
from capplan.verbs.statement.registry import find_verb
from tests.nightly import mostly_nightly
from tests.seen import at_least
from tests.serve.conftest import Served, command

pytestmark = pytest.mark.slow


class Links(HTMLParser):
    """Gathers the links of a piece of HTML with their texts."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self._open = False

    def handle_starttag(self, tag, attrs):
        if tag == "a":
            self.found.append((dict(attrs).get("href") or "", ""))
            self._open = True

    def handle_data(self, data):
        if self._open:
            self.found[-1] = (self.found[-1][0], self.found[-1][1] + data)

    def handle_endtag(self, tag):
        self._open = self._open and tag != "a"


def explained_links(html: str) -> list[tuple[str, str, str]]:
    """Return the figure, address and kind of every link that explains something."""
    parser = Links()
    parser.feed(html)
    found = [
        (text.strip(), href, parse_qs(urlsplit(href).query).get("explain", [""])[0]) for href, text in parser.found
    ]
    return [(text, href, asked.rpartition("/")[2]) for text, href, asked in found if asked]


def lines_of(served: Served, href: str) -> str:
    path, _, query = href.partition("?")
    answer = served.get(f"{'/llm' if path == '/llm' else ''}/answer?{query}")
    assert answer.status == 200, answer.body[:300]
    return unescape(re.search(r'id="explained".*?<pre>(.*?)</pre>', answer.body.decode(), re.DOTALL)[1])


PAGE = {"batch": 32, "gpus": "l4,t4,rtx-4090", "load": 5000}


def test_every_figure_of_an_answer_stands_in_its_explanation(served, net):
    html = served.get(f"/answer?model={quote(net)}&{urlencode(PAGE)}").body.decode()
    links = explained_links(html)
    kinds = {"latency", "throughput", "memory", "fits", "price", "load", "model"}
    assert {kind for _, _, kind in links} == kinds
    firsts = {}
    for figure, href, kind in links:
        firsts.setdefault((kind, re.sub(r"[\d.,]+", "0", figure)), (figure, href))
    for (kind, _), (figure, href) in firsts.items():
        lines = lines_of(served, href)
        numbers = re.findall(r"\d[\d.,]*", figure) if kind != "model" else []
        for number in numbers:
            assert number.rstrip(".,") in lines, (kind, figure, lines)


def test_cards_and_the_comparison_of_models_are_explained(served, net):
    html = served.get(f"/answer?model={quote(net)}&model={quote(net)}&{urlencode(PAGE)}").body.decode()
    cards = re.search(r'<dl class="cards">.*?</dl>', html, re.DOTALL)[0]
    assert {kind for _, _, kind in explained_links(cards)} == {"latency", "throughput", "memory", "price"}
    assert cards.count('class="figure swap"') == cards.count('class="figure')
    side_by_side = re.search(r'<section class="compare".*?</section>', html, re.DOTALL)[0]
    assert len(explained_links(side_by_side)) == 8
    assert len({href for _, href, _ in explained_links(side_by_side)}) == 8, "each model has explanations of its own"


def test_four_models_stand_side_by_side_and_a_fifth_is_refused(served, net):
    four = "&".join([f"model={quote(net)}"] * 4)
    html = served.get(f"/answer?{four}&{urlencode(PAGE)}").body.decode()
    assert len(re.findall(r'<section class="model" id="m[1-4]"', html)) == 4
    assert html.count("<svg") >= 4 * 3
    fifth = served.get(f"/answer?{four}&model={quote(net)}")
    assert fifth.status == 400
    assert "at most 4 items" in unescape(fifth.body.decode())


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        ({"providers": "runpod"}, ["--provider", "runpod"]),
        ({"gpus": "l4,t4,h100", "max_latency": "2ms"}, ["--gpu", "l4,t4,h100", "--max-latency", "2ms"]),
        ({"max_price": 0.5}, ["--max-price", "0.5"]),
    ],
)
def test_filters_of_the_page_are_those_of_the_command_line(served, net, net_file, asked, options):
    html = served.get(f"/answer?model={quote(net)}&batch=32&every=true&{urlencode(asked)}").body.decode()
    plan = json.loads(command("plan", net_file, "--batch", 32, *options, "--json"))
    assert re.findall(r'<tr[^>]* data-gpu="([^"]+)"', html) == [each["gpu"] for each in plan["fits"]]
    rejected = re.findall(r"<li><strong>([^<]+)</strong>", html)
    assert rejected == [each["gpu"] for each in plan["rejections"]]


def test_power_and_energy_stand_in_the_table_as_on_the_command_line(served, net, net_file):
    asked = {"batch": 32, "gpus": "l4", "energy": "true"}
    html = served.get(f"/answer?model={quote(net)}&{urlencode(asked)}").body.decode()
    fit = json.loads(command("plan", net_file, "--batch", 32, "--gpu", "l4", "--energy", "--format", "json"))["fits"][0]
    assert ">power<" in html
    assert f">{format_watts(fit['power_w']['expected'])}<" in html
    assert f">{format_joules(fit['joules_per_sample']['expected'])}<" in html
    assert "J/sample" not in served.get(f"/answer?model={quote(net)}&batch=32&gpus=l4").body.decode()


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"batch": 2**17, "gpus": "t4"}, "may be filled"),
        ({"batch": 512, "gpus": "t4", "max_latency": "1us"}, "bound, by the same rule"),
    ],
)
def test_a_rejection_is_explained_by_its_memory_or_its_time(served, net, asked, words):
    html = served.get(f"/answer?model={quote(net)}&{urlencode(asked)}").body.decode()
    (reason, href, kind), *_ = [each for each in explained_links(html) if each[2] == "rejected"]
    assert kind == "rejected"
    lines = lines_of(served, href)
    assert reason.partition(": ")[2] in lines
    assert words in lines


def test_figures_of_serving_are_explained(served):
    asked = {"model": "llama-3.1-8b-instruct", "gpus": "l40s", "tp": 2}
    html = served.get(f"/llm/answer?{urlencode(asked)}").body.decode()
    links = explained_links(html)
    assert {kind for _, _, kind in links} == {"ttft", "tpot", "tokens", "memory", "model"}
    for kind in ("ttft", "tpot", "tokens"):
        figure, href, _ = next(each for each in links if each[2] == kind and "%2F32%2F" in each[1])
        lines = lines_of(served, href)
        assert figure.partition(" (")[0] in lines, (figure, lines)
    words = "llm memory llama-3.1-8b-instruct --gpu l40s --tp 2 --max-len 1280 --json"
    document = json.loads(command(*words.split()))
    lines = lines_of(served, next(href for _, href, kind in links if kind == "memory"))
    assert f"{document['sequences_that_fit']:,} fit in 2 GPUs" in lines


def test_settings_of_both_verbs_reach_the_answers_about_serving(served):
    asked = {"model": "llama-3.1-8b-instruct", "gpus": "l40s", "energy": "true"}
    times = unescape(served.get(f"/llm/answer?{urlencode({**asked, 'prefix_hits': 0.5})}").body.decode())
    assert "J/token" in times
    assert "50% of each prompt in the prefix cache" in times
    search = {**asked, "find": "deployments", "rate": 4, "pp": 2, "engine": "sglang"}
    found = unescape(served.get(f"/llm/answer?{urlencode(search)}").body.decode())
    assert "J/token" in found
    link = re.search(r'href="/llm(\?[^"]*)" title="times over clients', found)[1]
    shown = parse_qs(link.removeprefix("?"))
    assert (shown["pp"], shown["engine"], shown["gpus"]) == (["2"], ["sglang"], ["l40s"])


@pytest.mark.parametrize("explain", ["l40s/0/tpot", "l40s/x/tpot", "l40s/8/nothing", "l40s", "h101/8/tpot"])
def test_what_is_no_figure_of_serving_is_refused(served, explain):
    asked = {"model": "llama-3.1-8b-instruct", "gpus": "l40s", "explain": explain}
    answer = served.get(f"/llm/answer?{urlencode(asked)}")
    assert answer.status == 400
    assert 'role="alert"' in answer.body.decode()


SEARCH = {"find": "deployments", "model": "llama-3.1-8b-instruct", "gpus": "l40s,t4", "rate": 4, "max_tpot": "60ms"}


def test_the_search_of_the_page_is_that_of_the_command_line(served):
    html = served.get(f"/llm/answer?{urlencode(SEARCH)}").body.decode()
    options = "--gpu l40s --gpu t4 --rate 4 --max-tpot 60ms"
    words = ["llm", "plan", "llama-3.1-8b-instruct", *options.split()]
    assert "capplan llm plan llama-3.1-8b-instruct --rate 4" in unescape(html)
    plan = json.loads(command(*words, "--json"))
    best, verdict = plan["recommended"], unescape(re.search(r'<p class="verdict">(.*?)</p>', html)[1])
    assert f"{best['gpu']}, {best['words']}" in verdict
    assert f"{best['usd_per_hour']:,.2f} USD/h" in verdict
    rows = re.findall(r'<tr[^>]* data-gpu="([^"]+)">(.*?)</tr>', html, re.DOTALL)
    assert [gpu for gpu, _ in rows] == [each["gpu"] for each in plan["fits"][: len(rows)]]
    explained = [unescape(each) for each in re.findall(r'<pre id="why-\d+"[^>]*>(.*?)</pre>', html, re.DOTALL)]
    assert len(explained) == len(rows)
    for (_, row), lines in zip(rows, explained, strict=True):
        figures = re.findall(r'<a class="why"[^>]*>([^<]*)</a>', row)
        shown = [each for place, each in enumerate(figures) if place != 4]  # the lines state one replica's requests
        assert [each for each in shown if each not in lines] == []
    downloads = re.findall(r'href="(/api/v1/llm/plan[^"]*format=json[^"]*)"', html)
    assert served.get(unescape(downloads[0])).json == plan


def test_a_search_without_a_load_says_what_is_missing(served):
    asked = {key: value for key, value in SEARCH.items() if key != "rate"}
    answer = served.get(f"/llm/answer?{urlencode(asked)}")
    assert answer.status == 400
    assert "state the load by one of" in answer.body.decode()


def test_the_form_of_served_models_names_its_own_fields_in_errors(served):
    # 70 billion weights of 16 bits do not fit on one card; two of 80 GB hold them
    html = unescape(
        served.get("/llm/answer?model=llama-3.1-70b-instruct&gpus=h100-sxm5-80gb&tp=1&input_len=1000").body.decode()
    )
    assert "“GPUs per replica”" in html
    assert "--" not in re.sub(r"<[^>]*>|<!--.*?-->|capplan llm[^<]*", "", html)


@pytest.mark.parametrize(
    "asked", [{"gpus": "l40s"}, {"model": "llama-3.1-70b-instruct", "gpus": "t4"}, {"gpus": "l40s", "max_tpot": "1us"}]
)
def test_notes_and_reasons_of_a_search_name_no_option(served, asked):
    html = unescape(served.get(f"/llm/answer?{urlencode({**SEARCH, **asked})}").body.decode())
    lists = re.findall(r'<ul class="plain[^"]*">.*?</ul>', html, flags=re.DOTALL)
    assert lists
    sentences = re.findall(r'<p class="(?:verdict|facts)">.*?</p>', html)
    assert [text for text in (*lists, *sentences) if "--" in text] == []


SOLD = (
    "l4", "t4", "a30", "l40s", "a100-sxm4-80gb", "h100-sxm5-80gb", "b200-sxm-180gb", "mi300x", "v100-sxm2-16gb",
    "rtx-3050-6gb", "rtx-3090", "rtx-4090", "rtx-5090",
)  # fmt: skip
"""GPUs of every kind of caution: licences, ends of sale, ports, marketplaces, old prices."""


@pytest.mark.parametrize("seed", mostly_nightly(range(200), daily=(0, 1, 2)))
def test_what_to_know_of_the_taken_gpus_is_said_at_every_door(served, net, net_file, seed):
    """A licence of drivers, an old price, a cheaper GPU: every door says what the terminal says, however narrow."""
    drawn = random.Random(seed)
    gpus = sorted(drawn.sample(SOLD, drawn.randint(2, 6)) if seed else ["l4", "rtx-4090", "t4"])
    batch = drawn.choice((1, 8, 32, 256)) if seed else 32
    plan = json.loads(command("plan", net_file, "--batch", batch, "--gpu", ",".join(gpus), "--format", "json"))
    said = plan["offer_cautions"]
    if not seed:
        assert any("GeForce drivers are not licensed for data centres" in each for each in at_least(1, said))
    asked = {"model": net, "batch": str(batch), "gpus": gpus}
    assert served.post("/api/v1/plan", asked).json["offer_cautions"] == said
    query = f"model={quote(net)}&batch={batch}&gpus={','.join(gpus)}"
    in_python = capplan.plan(str(net_file), batches=batch, gpus=gpus)
    assert list(in_python.offer_cautions) == said
    for_assistants, _ = abridged(plan, verdict=find_verb("plan").verdict, room=2_000)
    assert for_assistants["offer_cautions"] == said
    words = ("plan", net_file, "--batch", batch, "--gpu", ",".join(gpus))
    doors = {
        "page": served.get(f"/answer?{query}").body.decode(),
        "terminal": command(*words),
        "whole": command(*words, "--all"),
        "Markdown": command(*words, "--format", "md"),
        "CSV": command(*words, "--format", "csv"),
        "notebook": re.sub(r"<[^>]*>", "", in_python._repr_html_()),
        "print": str(in_python),
    }
    for width in (60, 80):
        doors[f"{width} columns"] = render_answer(in_python, width=width)
    for door, text in doors.items():
        flat = " ".join(unescape(text).replace('""', '"').replace("\\", "").split())
        assert [each for each in said if each not in flat] == [], door


@pytest.mark.parametrize("seed", mostly_nightly(range(200), daily=(0, 1)))
def test_what_speaks_against_the_choice_of_a_report_is_said_in_every_form(served, net, net_file, tmp_path, seed):
    """A licence, an end of sale, a marketplace, an old price: facts of the card and the offer, worded by the report."""
    drawn = random.Random(seed)
    gpus = sorted(drawn.sample(SOLD, drawn.randint(1, 4)) if seed else ["rtx-3090"])
    load = {"service": {"peak": f"{drawn.choice((5, 300, 4000))}/s", "latency": "80 ms"}, "terms": "rent"}
    written = tmp_path / "own.load.yaml"
    written.write_text(json.dumps(load))
    outs = {ending: tmp_path / f"r.{ending}" for ending in ("json", "md", "html", "csv")}
    to = [word for out in outs.values() for word in ("-o", out)]
    command("report", net_file, "--batch", 8, "--gpu", ",".join(gpus), "--load", written, *to)
    document = json.loads(outs["json"].read_text())
    asked = {"models": [net], "batches": [8], "gpus": gpus, "load": load}
    assert served.post("/api/v1/report", asked).json["models"][0]["options"] == document["models"][0]["options"]
    options = document["models"][0]["options"]
    if not options:
        return
    [choice] = [option for option in options if option["is_leading"]][:1] or [options[0]]
    card, said = load_gpus()[choice["gpu"]], choice["concerns"]
    day = choice["price_date"]  # None where no price is known, or its source states no day
    days = (date.fromisoformat(document["created"][:10]) - date.fromisoformat(day)).days if day else 0
    facts = {
        "driver licence excludes data centres": "GeForce" in card.name,
        "no longer sold by its vendor": card.status is Status.END_OF_SALE,
        "marketplace offer": choice["is_marketplace"],
        "old price": 180 < days < 700,
        "day of the price unknown": day is None and choice["price_usd"] is not None,
    }
    assert {words for words, holds in facts.items() if holds} <= set(said), (gpus, said)
    for ending, out in outs.items():
        flat = " ".join(unescape(out.read_text()).split())
        assert [words for words in said if words not in flat] == [], ending
