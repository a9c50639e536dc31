"""Many people's results become one rate per GPU and kind."""

from capplan.core.gpus.rate_laws import MicrobenchRow, summarise
from capplan.core.gpus.spec import Microbenchmark, Quality, Regime


def row(value: float, *, source: str = "one", regime: Regime = Regime.SUSTAINED, quality: Quality = Quality.B):
    """A copy's rate on one GPU."""
    return MicrobenchRow(
        gpu="round", kind=Microbenchmark.COPY, value=value, quality=quality, regime=regime, source=source
    )


def summary(*rows: MicrobenchRow):
    """The only rate of the only GPU."""
    return summarise(rows)["round"][Microbenchmark.COPY]


def test_many_rows_of_one_source_count_once():
    # Medians by source are 100 and 200; their median is 150.
    found = summary(row(90), row(100), row(110), row(200, source="two"))
    assert found.rate.value == 150
    assert found.sources == ("one", "two")


def test_sustained_runs_come_before_bursts():
    found = summary(row(100), row(140, source="two", regime=Regime.BURST))
    assert (found.rate.value, found.rate.regime) == (100, Regime.SUSTAINED)
    assert summary(row(140, regime=Regime.BURST)).rate.regime is Regime.BURST


def test_upper_bounds_are_left_out():
    assert summary(row(100), row(900, source="two", quality=Quality.C)).rate.value == 100
    assert summarise([row(900, quality=Quality.C)]) == {}


def test_the_best_quality_among_the_rows_is_told():
    assert summary(row(1, quality=Quality.B), row(2, source="two", quality=Quality.A)).rate.quality is Quality.A
