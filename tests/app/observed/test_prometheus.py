"""The load that a real Prometheus server shows of a replayed vLLM server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from capplan.app.observed.prometheus import PrometheusServer, checked_matcher, read_prometheus
from capplan.app.price_update.http import Fetcher, FetchLimits
from capplan.errors import UsageError
from tests.app.observed.prometheus_server import Replay, running_prometheus

MONDAY_S = 1_700_438_400
"""2023-11-20 00:00 UTC."""
BUSY_HOUR = 14
HOURS = 8 * 24


def replay() -> Replay:
    """Eight days of 30 requests a minute, 120 from 14 h to 15 h; buckets as vLLM's."""
    requests = [120 if place // 60 % 24 == BUSY_HOUR else 30 for place in range(HOURS * 60)]
    return Replay(
        end_s=MONDAY_S + HOURS * 3600,
        requests=requests,
        prompt_tokens={500.0: 0.25, 1000.0: 0.5, 2000.0: 0.25},
        prompt_mean=800.0,
        answer_tokens={100.0: 0.5, 200.0: 0.5},
        answer_mean=110.0,
        ttft_s={0.25: 0.5, 0.5: 0.45, 1.0: 0.05},
        ttft_mean_s=0.27,
        tpot_s={0.025: 0.9, 0.05: 0.1},
        tpot_mean_s=0.02,
        hit_fraction=0.3,
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    with running_prometheus(tmp_path_factory.mktemp("prometheus"), replay()) as url:
        yield PrometheusServer(url=url)


@pytest.mark.prometheus
@pytest.mark.slow
def test_rates_lengths_and_times_are_those_that_were_replayed(server: PrometheusServer) -> None:
    """By hand: 23 × 30 + 120 requests a minute a day; buckets interpolated as PromQL's histogram_quantile does."""
    observed = read_prometheus(server, end_s=MONDAY_S + HOURS * 3600, range_s=7 * 86400)
    arrivals = observed.arrivals
    assert observed.form == "vllm"
    assert arrivals.total == pytest.approx(7 * (23 * 1800 + 7200), rel=0.005)
    begin, busiest = arrivals.busiest
    assert begin % 86400 == BUSY_HOUR * 3600
    assert busiest == pytest.approx(2.0, rel=0.02)
    weekly = arrivals.weekly_mean_per_s
    assert weekly is not None
    assert [weekly[24 * day + BUSY_HOUR] for day in range(7)] == pytest.approx([2.0] * 7, rel=0.02)
    assert weekly[3] == pytest.approx(0.5, rel=0.02)
    assert observed.prompt is not None
    assert observed.prompt.mean == pytest.approx(800.0, rel=1e-3)
    assert observed.prompt.quantiles[0.5] == pytest.approx(750.0, rel=1e-3)  # 500 + 500 × 0.25 ÷ 0.5
    assert observed.answer is not None
    assert observed.answer.mean == pytest.approx(110.0, rel=1e-3)
    assert observed.ttft_s is not None
    assert observed.ttft_s.quantiles[0.95] == pytest.approx(0.5, rel=1e-3)
    assert observed.tpot_s is not None
    assert observed.tpot_s.mean == pytest.approx(0.02, rel=1e-3)
    assert observed.prefix_fraction == pytest.approx(0.3, rel=1e-3)
    assert observed.failed == pytest.approx(0.02 * arrivals.total, rel=0.005)
    assert observed.running == (12.0, 12.0)
    assert observed.waiting == (3.0, 3.0)
    [gpus] = observed.gpus
    assert (gpus.name, gpus.count) == ("NVIDIA H100 80GB HBM3", 6)
    assert gpus.utilisation_fraction == pytest.approx(0.55)
    assert gpus.power_w == pytest.approx(410.5)
    assert arrivals.burstiness is None or observed.cautions  # what counters do not show is said


@pytest.mark.prometheus
@pytest.mark.slow
def test_another_label_has_no_requests(server: PrometheusServer) -> None:
    with pytest.raises(UsageError, match="counted no request"):
        read_prometheus(server, end_s=MONDAY_S + HOURS * 3600, range_s=86400, where='model_name="other"')


@pytest.mark.parametrize("text", ['a="b"} or vector(1)', "a=b", 'a="b\\""', "1", 'a="}"'])
def test_matchers_are_labels_with_values_alone(text: str) -> None:
    with pytest.raises(UsageError, match="where"):
        checked_matcher(text)


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    del tmp_path
    gone = PrometheusServer(url="http://127.0.0.1:9", fetcher=Fetcher(limits=FetchLimits(attempts=1)))
    with pytest.raises(UsageError, match=r"http://127\.0\.0\.1:9: the connection failed"):
        read_prometheus(gone, end_s=MONDAY_S, range_s=86400)
