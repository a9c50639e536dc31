"""Fetching current prices from a server of this machine that behaves as servers do, well and badly.

Answers have the forms that gpu_specs/sources/prices.yaml documents; rows of the catalogue are those of
tests/specs/test_catalogue_exports.py.
"""

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from capplan.app.price_update.http import Fetcher, FetchError, FetchLimits
from capplan.app.price_update.update import Difference, PriceUpdate, update_prices
from capplan.core.gpus.prices import DateKind, PriceKind, Term
from capplan.errors import SpecError, UnknownNameError
from capplan.specs import load_gpus
from capplan.specs.fetched import fetched_folder, read_fetched
from capplan.specs.prices import load_prices, prices_of
from capplan.specs.providers import load_providers
from capplan.verbs.prices import PRICES, PricesQuestion
from capplan.verbs.statement.local import LocalContext
from tests.file_server import Answer, Handler, cut, in_turn, server, status, text

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
GPUS = load_gpus()

CATALOGUE = (
    "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice\n"
    "gpu-h200-sxm_1gpu-16vcpu-200gb,H200,1,16,200,3.50,eu-north1,,1.45\n"
    "gpu-l40s-a_1gpu-8vcpu-32gb,L40S,1,8,32,1.5484,eu-north1,,\n"
    "cpu-d3_4vcpu-16gb,,0,4,16,0.0992,eu-north1,,\n"
)
VAST = {
    "id": 17, "gpu_name": "RTX 4090", "num_gpus": 1, "gpu_ram": 24564, "dph_total": 0.4, "min_bid": 0.2,
    "geolocation": "Bavaria, DE", "rentable": True,
}  # fmt: skip
__all__ = ["server"]
ECB = (
    '<?xml version="1.0" encoding="UTF-8"?><gesmes:Envelope xmlns:gesmes="http://www.gesmes.org/xml/2002-08-01" '
    'xmlns="http://www.ecb.int/vocabulary/2002-08-01/eurofxref"><Cube><Cube time="2026-11-19">'
    '<Cube currency="USD" rate="1.1600"/><Cube currency="GBP" rate="0.8700"/></Cube></Cube></gesmes:Envelope>'
)


@pytest.fixture
def sources(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "sources.yaml"
    shared = "licence: none, documentation: 'https://example.com'"
    path.write_text(
        "sources:\n"
        f"  - {{id: catalogue, title: Catalogue, url: '{server}/v8/{{cloud}}/vms.csv', clouds: [nebius, vast],\n"
        f"     form: skypilot, dated_by: '{server}/commits?path={{cloud}}', at_most: 100000, {shared}}}\n"
        f"  - {{id: vast, title: Vast.ai, url: '{server}/bundles/', form: offers, at_most: 100000, {shared}}}\n"
        f"  - {{id: azure, title: Azure, url: '{server}/azure', form: Items, {shared},\n"
        "     pages: {next_link: NextPageLink, list: Items}}\n"
        f"  - {{id: gcp, title: GCP, url: '{server}/skus?pageSize=2', form: skus, {shared},\n"
        "     pages: {next_token: nextPageToken, token_as: pageToken, list: skus},\n"
        "     key: {variable: TEST_KEY, header: X-Key, value: 'is {key}'}}\n"
        f"  - {{id: aws, title: AWS, url: '{server}/aws/{{region}}.csv', form: aws-csv, {shared},\n"
        "     regions: [us-east-1], by_default: false}\n"
        f"  - {{id: ecb, title: ECB, url: '{server}/ecb.xml', form: ecb, {shared}}}\n"
    )
    monkeypatch.setenv("CAPPLAN_SOURCES", str(path))
    return path


FETCHER = Fetcher(limits=FetchLimits(socket_s=5, whole_s=10, wait_s=0), sleep=lambda _: None)


def update(*names: str, check: bool = False, regions: tuple[str, ...] = (), now: datetime = NOW) -> PriceUpdate:
    return update_prices(names, GPUS, now=now, regions=regions, check=check, fetcher=FETCHER)


def fetched_prices() -> set[tuple[str, str, str, float]]:
    held = prices_of(read_fetched(), GPUS).hourly
    return {(price.provider, price.gpu, price.term.value, price.usd_per_hour) for price in held}


OFFERS = {("vast.ai", "rtx-4090", "on-demand", 0.4), ("vast.ai", "rtx-4090", "spot", 0.2)}


@pytest.mark.usefixtures("sources")
def test_what_a_source_gives_stands_beside_the_built_in_prices_with_its_day() -> None:
    Handler.answers["/bundles/"] = text(json.dumps({"offers": [VAST]}))
    made = update("vast")
    assert (made.sources[0].difference.new, made.written) == (2, True)
    assert fetched_prices() == OFFERS
    listed = [price for price in load_prices(GPUS).hourly if price.instance == "offer 17"]
    assert {(price.term, price.date, price.date_is, price.kind) for price in listed} == {
        (Term.ON_DEMAND, date(2026, 11, 20), DateKind.STATED, PriceKind.READ),
        (Term.SPOT, date(2026, 11, 20), DateKind.STATED, PriceKind.READ),
    }
    assert {(price.is_marketplace, price.country) for price in listed} == {(True, "de")}
    assert len(load_prices(GPUS).hourly) > len(listed)


@pytest.mark.usefixtures("sources")
def test_a_catalogue_is_dated_by_its_last_change_and_one_cloud_s_fault_stops_no_other() -> None:
    Handler.answers["/v8/nebius/vms.csv"] = text(CATALOGUE)
    Handler.answers["/v8/vast/vms.csv"] = status(404)
    Handler.answers["/commits"] = text(json.dumps([{"commit": {"committer": {"date": "2026-09-01T10:00:00Z"}}}]))
    (made,) = update("catalogue").sources
    assert made.failures == ("vast: the server answered 404 Not Found",)
    assert [(skipped.rows, skipped.reason) for skipped in made.left_out] == [
        (1, "a machine without a GPU that is known")
    ]
    held = prices_of(read_fetched(), GPUS).hourly
    assert {(price.gpu, price.date, price.date_is, price.kind, price.country) for price in held} == {
        ("h200-sxm-141gb", date(2026, 9, 1), DateKind.NOT_BEFORE, PriceKind.COPY, "fi"),
        ("l40s", date(2026, 9, 1), DateKind.NOT_BEFORE, PriceKind.COPY, "fi"),
    }


@pytest.mark.usefixtures("sources")
def test_pages_are_joined_and_a_key_stays_in_its_header(monkeypatch: pytest.MonkeyPatch) -> None:
    assert update("gcp").sources[0].skipped == "needs a key in TEST_KEY"
    assert not Handler.asked
    monkeypatch.setenv("TEST_KEY", "secret")

    def sku(words: str, nanos: int) -> dict[str, object]:
        price = {"currencyCode": "USD", "units": "0", "nanos": nanos}
        return {
            "description": words, "category": {"usageType": "OnDemand"}, "serviceRegions": ["europe-west4"],
            "pricingInfo": [{"pricingExpression": {"tieredRates": [{"unitPrice": price}]}}],
        }  # fmt: skip

    first = {"skus": [sku("Nvidia L4 GPU running in Netherlands", 560_000_000)], "nextPageToken": "p2"}
    second = {
        "skus": [sku("G2 Instance Core in Netherlands", 25_000_000), sku("G2 Instance Ram in Netherlands", 3_000_000)]
    }
    Handler.answers["/skus"] = in_turn(text(json.dumps(first)), text(json.dumps(second)))
    update("gcp")
    # One L4, 4 processors, 16 GiB: 0.56 + 4 x 0.025 + 16 x 0.003, whose parts stand on two pages.
    assert ("gcp", "l4", "on-demand", 0.708) in fetched_prices()
    assert [path for path, _, _ in Handler.asked] == ["/skus?pageSize=2", "/skus?pageSize=2&pageToken=p2"]
    assert all(headers["X-Key"] == "is secret" for _, headers, _ in Handler.asked)
    assert "secret" not in next(fetched_folder().glob("*.json")).read_text()


def test_azure_s_pages_follow_its_links(sources: Path, server: str) -> None:
    def page(region: str, following: str | None) -> str:
        item = {
            "currencyCode": "USD", "armRegionName": region, "armSkuName": "Standard_NC24ads_A100_v4",
            "productName": "Virtual Machines NCADS_A100_v4 Series", "unitOfMeasure": "1 Hour", "type": "Consumption",
            "skuName": "NC24ads A100 v4", "retailPrice": 4.0, "effectiveStartDate": "2023-10-01T00:00:00Z",
        }  # fmt: skip
        return json.dumps({"Items": [item], "NextPageLink": following})

    Handler.answers["/azure"] = text(page("westeurope", f"{server}/azure2"))
    Handler.answers["/azure2"] = text(page("germanywestcentral", None))
    update("azure")
    held = prices_of(read_fetched(), GPUS).hourly
    # What the provider's own interface gives today is today's price, whenever it came into force.
    assert {(price.region, price.date) for price in held} == {
        ("westeurope", NOW.date()),
        ("germanywestcentral", NOW.date()),
    }
    Handler.answers["/azure2"] = text(page("germanywestcentral", f"{server}/azure2"))
    (made,) = update("azure").sources
    assert "pages do not end" in made.failures[0]
    assert len(prices_of(read_fetched(), GPUS).hourly) == 2


@pytest.mark.usefixtures("sources")
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (status(429, Retry_After="0"), "the server answered 429 Too Many Requests, after 3 attempts"),
        (status(500), "the server answered 500 Internal Server Error, after 3 attempts"),
        (status(403), "the server answered 403 Forbidden"),
        (cut(b'{"offers": [' + b" " * 5000), "broke off after 5,012 of 10,024 bytes, after 3 attempts"),
        (text(b"\x1f\x8b damaged", Content_Encoding="gzip"), "the answer is damaged"),
        (text(gzip.compress(b"{" + b" " * 10**7), Content_Encoding="gzip"), "more than the 100,000 bytes"),
        (text(gzip.compress(b" " * 5000)[:-20], Content_Encoding="gzip"), "the answer broke off, after 3 attempts"),
        (text(b" " * 200_000), "more than the 100,000 bytes that are read"),
        (text('{"offers": [{"card": "RTX 4090"}]}'), "its answer holds no price that could be taken"),
        (text('{"offers": [{"num_gpus": 1, "id": 3}]}'), "has offers, but not in its form ('gpu_name')"),
        (text('{"bids": []}'), "has offers, but not in its form"),
        (text("<html>moved</html>"), "is not JSON"),
        (status(302, Location="ftp://127.0.0.1/x"), "points to ftp"),
        (status(302, Location="/bundles/"), "points from address to address without an end"),
    ],
)  # fmt: skip
def test_a_source_that_fails_keeps_what_it_gave_before(answer: Answer, reason: str) -> None:
    Handler.answers["/bundles/"] = text(json.dumps({"offers": [VAST]}))
    update("vast")
    before = (fetched_folder() / "vast.json").read_bytes()
    Handler.answers["/bundles/"] = answer
    made = update("vast", now=NOW + timedelta(days=1))
    assert made.has_failed
    assert reason in made.sources[0].failures[0]
    assert (fetched_folder() / "vast.json").read_bytes() == before
    assert fetched_prices() == OFFERS
    assert [path.name for path in fetched_folder().iterdir()] == ["vast.json"]


@pytest.mark.usefixtures("sources")
def test_a_fault_that_passes_is_waited_out_and_a_redirect_is_followed() -> None:
    good = text(gzip.compress(json.dumps({"offers": [VAST]}).encode()), Content_Encoding="gzip")
    Handler.answers["/elsewhere"] = good
    Handler.answers["/bundles/"] = in_turn(status(503), cut(b"{"), status(302, Location="/elsewhere"))
    assert not update("vast").sources[0].failures
    assert fetched_prices() == OFFERS


def test_a_key_does_not_follow_to_another_host(sources: Path, server: str, tmp_path: Path) -> None:
    Handler.answers["/a"] = status(302, Location=server.replace("127.0.0.1", "localhost") + "/b")
    Handler.answers["/b"] = text("{}")
    FETCHER.fetch(f"{server}/a", tmp_path / "got", at_most=100, headers={"X-Key": "secret"})
    assert [headers.get("X-Key") or headers.get("X-key") for _, headers, _ in Handler.asked] == ["secret", None]
    with pytest.raises(FetchError, match="begins with https or http"):
        FETCHER.fetch("file:///etc/hostname", tmp_path / "got", at_most=100)


@pytest.mark.usefixtures("sources")
def test_an_unchanged_document_is_not_sent_again_and_counts_as_asked() -> None:
    Handler.answers["/bundles/"] = text(json.dumps({"offers": [VAST]}), ETag='"v1"')
    update("vast")
    Handler.answers["/bundles/"] = lambda handler: (
        status(304) if handler.headers.get("If-None-Match") == '"v1"' else status(500)
    )(handler)
    (made,) = update("vast", now=NOW + timedelta(days=3)).sources
    assert (made.unchanged, made.difference == Difference()) == (True, True)
    assert fetched_prices() == OFFERS
    (held,) = read_fetched()
    assert held.age_days(date(2026, 11, 24)) == 1


@pytest.mark.usefixtures("sources")
def test_check_says_what_would_change_and_writes_nothing() -> None:
    Handler.answers["/bundles/"] = text(json.dumps({"offers": [VAST]}))
    update("vast")
    dearer = [{**VAST, "dph_total": 0.5, "min_bid": 0}, {**VAST, "id": 18, "geolocation": "Sweden, SE", "min_bid": 0}]
    Handler.answers["/bundles/"] = text(json.dumps({"offers": dearer}))
    made = update("vast", check=True)
    found = made.sources[0].difference
    assert (found.new, found.changed, found.gone, made.written) == (1, 1, 1, False)
    assert fetched_prices() == OFFERS


@pytest.mark.usefixtures("sources")
def test_a_region_s_offer_file_is_fetched_by_its_name() -> None:
    head = (
        "SKU,OfferTermCode,TermType,Unit,PricePerUnit,Currency,LeaseContractLength,OfferingClass,Location,"
        "Instance Type,Tenancy,Operating System,CapacityStatus,Pre Installed S/W,Region Code"
    )
    row = "S,J,OnDemand,Hrs,1.0,USD,,,EU (Frankfurt),g6.xlarge,Shared,Linux,Used,NA,eu-central-1"
    Handler.answers["/aws/eu-central-1.csv"] = text(f'"Publication Date","2026-11-18T20:13:29Z"\n{head}\n{row}\n')
    update("aws", regions=("eu-central-1",))
    (price,) = prices_of(read_fetched(), GPUS).hourly
    assert (price.gpu, price.usd_per_hour, price.country, price.date) == ("l4", 1.0, "de", date(2026, 11, 18))
    assert [each.source.id for each in update().sources] == ["catalogue", "vast", "azure", "gcp", "ecb"]


@pytest.mark.usefixtures("sources")
def test_rates_of_exchange_are_those_of_the_newest_day() -> None:
    Handler.answers["/ecb.xml"] = text(ECB)
    update("ecb")
    load_providers.cache_clear()
    rates = load_providers().rates
    assert (rates.day, rates.usd_per_unit("EUR"), rates.usd_per_unit("GBP")) == (date(2026, 11, 19), 1.16, 1.16 / 0.87)
    for bad in ("<a/>", "{", ECB.replace("1.1600", "none"), f"<!DOCTYPE x [<!ENTITY e 'e'>]>{ECB}"):
        Handler.answers["/ecb.xml"] = text(bad)
        assert update("ecb").has_failed, bad


@pytest.mark.usefixtures("sources")
def test_an_unknown_source_is_named_with_those_that_are_known() -> None:
    with pytest.raises(UnknownNameError, match="unknown source 'vat'; did you mean vast"):
        update("vat")


@pytest.mark.usefixtures("sources")
def test_a_damaged_file_of_fetched_prices_is_refused_with_what_to_do() -> None:
    Handler.answers["/bundles/"] = text(json.dumps({"offers": [VAST]}))
    update("vast")
    (fetched_folder() / "vast.json").write_text('{"format"')
    with pytest.raises(SpecError, match=r"vast\.json: is not what `capplan prices update` writes .*remove it"):
        load_prices(GPUS)


@pytest.mark.slow
@pytest.mark.usefixtures("sources")
def test_an_update_that_is_killed_leaves_the_old_prices() -> None:
    Handler.answers["/bundles/"] = text(json.dumps({"offers": [VAST]}))
    update("vast")
    before = (fetched_folder() / "vast.json").read_bytes()
    reached, ended = threading.Event(), threading.Event()

    def stuck(handler: Handler) -> None:
        handler.send(b'{"offers": [', length=10**6)
        handler.wfile.flush()
        reached.set()
        ended.wait(60)

    Handler.answers["/bundles/"] = stuck
    command = [sys.executable, "-m", "capplan", "prices", "update", "vast"]
    started = subprocess.Popen(command, env=dict(os.environ), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert reached.wait(120)
        time.sleep(0.2)
        started.send_signal(signal.SIGKILL)
        assert started.wait(30) == -signal.SIGKILL
    finally:
        ended.set()
        started.kill()
    assert (fetched_folder() / "vast.json").read_bytes() == before
    assert fetched_prices() == OFFERS


@pytest.mark.usefixtures("sources")
def test_old_prices_say_once_how_to_get_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    def warnings(**asked: object) -> tuple[str, ...]:
        listed = PRICES.answer(PricesQuestion(**asked), LocalContext())  # type: ignore[arg-type]
        return PRICES.outcome(listed).warnings

    monkeypatch.setenv("SOURCE_DATE_EPOCH", f"{NOW.timestamp():.0f}")
    (warning,) = warnings(gpus=("l4",), providers=("gcp",), terms=(Term.ON_DEMAND,))
    # The newest built-in prices of Google are of 2026-08-03, 109 days before 2026-11-20.
    assert warning == "the newest of these rents is 109 days old; `capplan prices update` fetches today's."
    Handler.answers["/bundles/"] = text(json.dumps({"offers": [VAST]}))
    update("vast")
    assert warnings(gpus=("rtx-4090",)) == ()
