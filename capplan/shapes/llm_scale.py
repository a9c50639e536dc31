"""The shapes of starts of replicas, and of fleets that follow their load. Money in USD, shares as fractions, times in seconds."""

from typing import Final

from capplan.core.numbers import Interval
from capplan.core.scaling.fleet import WEEKS_PER_MONTH, ScalingSetting, StandingFleet
from capplan.llm.core.elastic.answer import ElasticAnswer
from capplan.llm.core.elastic.burst import BurstSeen
from capplan.llm.core.simulation.load_answer import Percentiles
from capplan.llm.core.start.answer import StartAnswer, TimedPart
from capplan.shapes.common import VERSIONED, in_words
from capplan.shapes.shape import CSV, Shape, column, figure, reads
from capplan.units import format_fraction, format_seconds

# fmt: off
SETTING: Final = Shape("ScalingSettingDocument", ScalingSetting, "Bounds and target of an autoscaler, and what they lead to.", (
    figure("min_replicas", "minimum", show=column("at least", csv="expected")),
    figure("target", meaning="of the signal, for one replica", show=column("target", "{:.3g}".format, csv="expected")),
    figure("usd_per_week", meaning="the interval is that of the start time"),
    figure("usd_per_month", reads(Interval, lambda one: one.usd_per_week * WEEKS_PER_MONTH), show=CSV),
    figure("inside_fraction", "inside", "share of a week's requests that keep the limits, with the certainty asked for", show=column("inside", format_fraction, csv="expected")),
    figure("worst_minute_fraction", "worst_minute", "that of the worst minute of the week", show=column("worst minute", format_fraction, csv="expected")),
    figure("mean_replicas", show=column("mean replicas", "{:.2f}".format, csv="expected")),
    figure("starts", meaning="replicas that are started in a week", show=column("starts a week", csv="expected")),
    figure("asleep_fraction", meaning="share of the week without any replica", show=column("asleep", format_fraction, csv="expected")),
))
STANDING: Final = Shape("StandingFleetDocument", StandingFleet, "The fleet that carries the peak all week.", (
    figure("replicas"),
    figure("usd_per_week"),
    figure("usd_per_month", reads(float, lambda one: one.usd_per_week * WEEKS_PER_MONTH)),
    figure("inside_fraction", "inside"),
))
BURST: Final = Shape("BurstDocument", BurstSeen, "The peak that comes at once on the least replicas, request by request.", (
    figure("requests", reads(int, lambda burst: len(burst.at_s))),
    figure("ttft_s", reads(Percentiles, lambda burst: Percentiles.of(burst.ttft_s))),
    figure("inside_fraction"),
    figure("worst_minute_fraction", "worst_minute"),
    figure("settled_s", meaning="time after which every request kept the limits"),
    figure("most_replicas"),
))
SCALE: Final = Shape("LlmScaleDocument", ElasticAnswer, "What `capplan llm scale --format json` writes.", (
    *VERSIONED,
    figure("model"),
    figure("gpu"),
    figure("gpus", meaning="of one replica"),
    figure("engine"),
    figure("scaler", "asked.name"),
    figure("signal", in_words("asked.signal")),
    figure("start_s", "asked.start_s"),
    figure("requests_per_week", "load.requests"),
    figure("peak_per_s", "load.peak_per_s"),
    figure("offer", reads(str | None, lambda answer: answer.offer and answer.offer.machine_words)),
    figure("offer_day", reads(str | None, lambda answer: answer.offer and answer.offer.date.isoformat())),
    figure("usd_per_machine_hour", reads(float | None, lambda answer: answer.offer and answer.offer.usd_per_machine_hour)),
    figure("keeps", meaning="true if the share asked for keeps the limits with the first setting"),
    figure("standing", STANDING.at("standing")),
    figure("settings", SETTING.at("settings"), "the cheapest that keeps the share first"),
    figure("burst", BURST.at("burst")),
    figure("notes"),
))
PART: Final = Shape("StartPartDocument", TimedPart, "The time of one part of a start.", (
    figure("part", in_words("part"), show=column("part", csv="expected")),
    figure("time_s", meaning="nine of ten starts lie within, as public logs say", show=column("time", format_seconds, csv="expected low high")),
    figure("kind", meaning="what kind of figure it is", show=column("kind", csv="expected")),
    figure("source", show=column("from", csv="expected", rank=2)),
))
START: Final = Shape("LlmStartDocument", StartAnswer, "What `capplan llm start --format json` writes.", (
    *VERSIONED,
    figure("model"),
    figure("gpu"),
    figure("gpus"),
    figure("engine"),
    figure("weight_bytes", "size.weight_bytes", "of the whole replica"),
    figure("layers", "size.layers"),
    figure("parts", PART.at("parts")),
    figure("whole_s", meaning="from the order to the first answer"),
    figure("notes"),
))
# fmt: on
