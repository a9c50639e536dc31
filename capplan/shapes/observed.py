"""The shape of what a running service was asked for."""

from typing import Final

from capplan.core.serving.observed import Broken, Growth, ObservedArrivals, ObservedLoad, RunningGpus, Spread
from capplan.shapes.common import VERSIONED
from capplan.shapes.shape import Shape, Typed, figure, reads


def _share(share: float) -> Typed:
    return reads(float | None, lambda spread: spread.quantiles.get(share))


# fmt: off
SPREAD: Final = Shape("SpreadDocument", Spread, "How a quantity of requests is distributed: tokens, or seconds.", (
    figure("requests", "count", "requests that state it"),
    figure("mean"),
    figure("cv", meaning="standard deviation ÷ mean; null where it is not known"),
    figure("p50", _share(0.5)),
    figure("p90", _share(0.9)),
    figure("p95", _share(0.95)),
    figure("p99", _share(0.99)),
    figure("is_binned", meaning="true: read from the buckets of a histogram"),
))
GROWTH: Final = Shape("GrowthDocument", Growth, "The trend of weekly requests, as a share per year.", (
    figure("per_year_fraction"),
    figure("low_fraction", meaning="at two standard errors"),
    figure("high_fraction", meaning="at two standard errors"),
    figure("weeks"),
))
ARRIVALS: Final = Shape("ArrivalsDocument", ObservedArrivals, "Requests over time; hours are those of UTC.", (
    figure("from_s", "first_s", "seconds since 1970; of the first request where the source has no dates"),
    figure("to_s", "last_s"),
    figure("has_dates"),
    figure("requests", "total"),
    figure("mean_per_s"),
    figure("busiest_hour_per_s", reads(float, lambda arrivals: arrivals.busiest[1])),
    figure("busiest_hour_from_s", reads(int, lambda arrivals: arrivals.busiest[0])),
    figure("daily_per_s", "daily_mean_per_s", "mean of each hour of a day"),
    figure("weekly_per_s", "weekly_mean_per_s", "mean of each hour of a week from Monday"),
    figure("burstiness", meaning="variance ÷ mean of the requests in short bins: 1 is Poisson"),
    figure("growth", GROWTH),
))
BROKEN: Final = Shape("BrokenLinesDocument", Broken, "Lines of a log that could not be read.", (
    *map(figure, ("reason", "lines", "first")),
))
RUNNING_GPUS: Final = Shape("RunningGpusDocument", RunningGpus, "GPUs that a service has; means over the window.", (
    *map(figure, ("name", "count", "utilisation_fraction", "power_w")),
))
OBSERVED_LOAD: Final = Shape("ObservedLoadDocument", ObservedLoad, "What `capplan load --json` writes: what a service was asked for in a window.", (
    *VERSIONED,
    figure("sources"),
    figure("form"),
    figure("arrivals", ARRIVALS),
    figure("input_tokens", SPREAD.at("prompt")),
    figure("output_tokens", SPREAD.at("answer")),
    figure("prefix_fraction", meaning="share of prompt tokens that a prefix cache held"),
    figure("ttft_s", SPREAD),
    figure("tpot_s", SPREAD),
    figure("e2e_s", SPREAD),
    figure("running", meaning="requests in work, mean and most"),
    figure("waiting", meaning="requests that wait, mean and most"),
    figure("failed", meaning="requests that failed"),
    figure("lines", meaning="lines of logs that were read"),
    figure("broken", BROKEN),
    figure("gpus", RUNNING_GPUS),
    figure("cautions"),
))
# fmt: on
