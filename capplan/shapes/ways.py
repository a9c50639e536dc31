"""The shapes of ways to serve the load of a week. Money in US dollars."""

from typing import Final

from capplan.core.scaling.answer import Crossing, ServingWays, WayCost, WayCurve
from capplan.shapes.common import in_words
from capplan.shapes.shape import Shape, Show, column, figure
from capplan.units import format_fraction

# fmt: off
WAY: Final = Shape("ServingWayDocument", WayCost, "What one way to serve the load of a week costs.", (
    figure("way", in_words("way"), show=column("way", csv="expected")),
    figure("usd_per_month", meaning="null where no price is known", show=Show(csv=("expected", "low", "high"))),
    figure("inside_fraction", "inside", "share of the requests that keep the limits; null where nothing is known",
           show=column("inside", format_fraction, csv="expected", unknown="unknown")),
    figure("keeps", meaning="true if the share asked for keeps the limits",
           show=column("limits", lambda keeps: "kept" if keeps else "broken", csv="expected", unknown="unknown")),
    figure("words", show=column("what", csv="expected")),
    figure("source", show=column("price", csv="expected", rank=1)),
))
CROSSING: Final = Shape("WayCrossingDocument", Crossing, "A load from which one way costs less than another.", (
    figure("requests_per_day"),
    figure("below", in_words("below"), "the cheaper one below"),
    figure("above", in_words("above"), "the cheaper one above"),
))
WAY_CURVE: Final = Shape("WayCurveDocument", WayCurve, "What one way costs a month over the requests of a day.", (
    figure("way", in_words("way")),
    figure("points", meaning="requests of a day, and USD of a month"),
))
WAYS: Final = Shape("ServingWaysDocument", ServingWays, "Ways to serve the load of a week, the cheapest that keeps the limits first.", (
    figure("requests_per_day"),
    figure("peak_per_s"),
    figure("share"),
    figure("start_s"),
    figure("costs", WAY.at("costs")),
    figure("crossings", CROSSING.at("crossings")),
    figure("curves", WAY_CURVE.at("curves"), "over the load"),
    figure("notes"),
))
# fmt: on
