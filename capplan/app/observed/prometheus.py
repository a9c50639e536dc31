"""Read the load of a service from a Prometheus server by its HTTP API, over PromQL."""

import math
import re
import tempfile
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from capplan import strict_json
from capplan.app.feedback import SILENCE, Feedback
from capplan.app.price_update.http import Fetcher, FetchError
from capplan.core.serving.observed import HOUR_S, ObservedArrivals, ObservedLoad, RunningGpus, Spread, spread_of_buckets
from capplan.errors import UsageError
from capplan.files import read_file
from capplan.specs.engine_metrics import EngineMetric, EngineMetrics, load_engine_metrics, load_gpu_metrics
from capplan.strict_json import LARGEST_TEXT_BYTES, JsonError

_MOST_POINTS = 10_000
"""Points of a series in one answer; Prometheus gives 11,000 at most."""
_STEPS_S = (300, 900, 3600)
"""Steps in which requests are counted: the first that holds two samples of a server, which reads each minute or so."""
_LABEL = re.compile(r'[A-Za-z_]\w*\s*(=|!=|=~|!~)\s*"[^"\\{}]*"')
_NAME = re.compile(r"[A-Za-z_:][\w:]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSeries:
    """One series of an answer: its labels, and times [s] with values."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusServer:
    """A server that is asked; its token is sent as a bearer token, none if empty."""

    url: str
    token: str = ""
    fetcher: Fetcher = field(default_factory=Fetcher)

    def _get(self, path: str, query: Mapping[str, str]) -> Any:
        address = f"{self.url.rstrip('/')}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "answer.json"
            try:
                self.fetcher.fetch(address, target, at_most=LARGEST_TEXT_BYTES, headers=headers)
                document = strict_json.read_json(read_file(target, at_most=LARGEST_TEXT_BYTES))
            except FetchError as error:
                raise UsageError(f"{self.url}: {error}; give the address of a Prometheus server.") from error
            except JsonError as error:
                raise UsageError(f"{self.url}: its answer {error}; give the address of a Prometheus server.") from error
        if not isinstance(document, dict) or document.get("status") != "success" or "data" not in document:
            raise UsageError(f"{self.url}: its answer is not one of Prometheus; give the address of such a server.")
        return document["data"]

    def names(self, prefixes: Sequence[str], *, begin_s: float, end_s: float) -> frozenset[str]:
        """Return the metrics that exist in a window and begin with one of some prefixes."""
        known = "|".join(f"{re.escape(prefix)}.*" for prefix in prefixes)
        query = {"match[]": f'{{__name__=~"{known}"}}', "start": f"{begin_s:.0f}", "end": f"{end_s:.0f}"}
        found = self._get("label/__name__/values", query)
        return frozenset(name for name in found if isinstance(name, str) and _NAME.fullmatch(name))

    def at(self, query: str, time_s: float) -> tuple[MetricSeries, ...]:
        return _series(self.url, self._get("query", {"query": query, "time": f"{time_s:.0f}"}), several=False)

    def over(self, query: str, *, begin_s: float, end_s: float, step_s: int) -> tuple[MetricSeries, ...]:
        """Return the values of an expression over a window, asked in as many parts as the server allows."""
        points: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
        part_s = _MOST_POINTS * step_s
        start_s = begin_s
        while start_s <= end_s:
            stop_s = min(end_s, start_s + part_s - step_s)
            window = {"start": f"{start_s:.0f}", "end": f"{stop_s:.0f}", "step": str(step_s)}
            answer = self._get("query_range", {"query": query, **window})
            for series in _series(self.url, answer, several=True):
                points.setdefault(tuple(sorted(series.labels.items())), []).extend(series.points)
            start_s = stop_s + step_s
        return tuple(MetricSeries(labels=dict(labels), points=tuple(found)) for labels, found in points.items())


def _series(url: str, data: Any, *, several: bool) -> tuple[MetricSeries, ...]:
    try:
        return tuple(
            MetricSeries(
                labels={str(name): str(value) for name, value in row["metric"].items()},
                points=tuple((float(at), float(value)) for at, value in (row["values"] if several else [row["value"]])),
            )
            for row in data["result"]
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{url}: its answer is not one of Prometheus; give the address of such a server.") from error


def checked_matcher(text: str) -> str:
    """Return matchers of labels such as model_name="llama", which narrow what is read."""
    parts = [part.strip() for part in re.split(r",(?=\s*[A-Za-z_])", text)] if text.strip() else []
    for part in parts:
        if not _LABEL.fullmatch(part):
            raise UsageError(f'⟨where⟩ {text}: write labels with values, such as model_name="qwen3-32b",namespace="a".')
    return ",".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _AskedWindow:
    server: PrometheusServer
    begin_s: int
    end_s: int
    where: str
    engine: EngineMetrics
    names: frozenset[str]

    @property
    def window(self) -> str:
        return f"{self.end_s - self.begin_s}s"

    def metric(self, quantity: str, suffix: str = "") -> EngineMetric | None:
        known = self.engine.metrics.get(quantity, ())
        return next((metric for metric in known if metric.name + suffix in self.names), None)

    def series(self, metric: EngineMetric, suffix: str = "") -> str:
        matchers = ",".join(part for part in (metric.where, self.where) if part)
        return f"{metric.name}{suffix}{{{matchers}}}"

    def total(self, metric: EngineMetric, suffix: str = "") -> float | None:
        """Return by how much a counter grew over the window, restarts left out; None without samples."""
        found = self.server.at(f"sum(increase({self.series(metric, suffix)}[{self.window}]))", self.end_s)
        value = found[0].points[0][1] if found else math.nan
        return value if math.isfinite(value) else None


def read_prometheus(
    server: PrometheusServer, *, end_s: float, range_s: float, where: str = "", feedback: Feedback = SILENCE
) -> ObservedLoad:
    """Read the load that the metrics of a serving engine show."""
    step_s = _STEPS_S[0]
    end = int(end_s) // step_s * step_s
    begin = end - max(step_s, int(range_s) // step_s * step_s)
    engines = load_engine_metrics()
    with feedback.progress(f"asking {urllib.parse.urlsplit(server.url).netloc}"):
        names = server.names([engine.prefix for engine in engines] + ["DCGM_FI_"], begin_s=begin, end_s=end)
        found = [engine for engine in engines if any(m.name in names for m in engine.metrics["requests"])]
        if not found:
            known = ", ".join(engine.engine for engine in engines)
            raise UsageError(f"{server.url}: has no metrics of a known engine ({known}) in this window.")
        matcher = checked_matcher(where)
        asked = _AskedWindow(server=server, begin_s=begin, end_s=end, where=matcher, engine=found[0], names=names)
        return _observed(asked, _arrivals(asked), step_s, others=[engine.engine for engine in found[1:]])


def _observed(asked: _AskedWindow, arrivals: ObservedArrivals, step_s: int, *, others: Sequence[str]) -> ObservedLoad:
    used: dict[str, str] = {}
    spreads = {
        name: _spread(asked, name, used) for name in ("prompt_tokens", "answer_tokens", "ttft_s", "tpot_s", "e2e_s")
    }
    for name, counter in (("prompt_tokens", "prompt_total"), ("answer_tokens", "answer_total")):
        if spreads[name] is None:
            spreads[name] = _mean_only(asked, counter, arrivals.total, used)
    hits, of = asked.metric("prefix_hits"), asked.metric("prefix_asked")
    prefix = None
    if hits is not None and of is not None:
        held, looked = asked.total(hits), asked.total(of)
        prefix = min(1.0, held / looked) if held is not None and looked else None
        used["prefix_fraction"] = f"{hits.name} / {of.name}"
    failed = asked.metric("failed")
    cautions = [f"metrics of {', '.join(others)} are there, too, and not read; narrow by ⟨where⟩"] if others else []
    cautions.append("burstiness is not seen in counters that are read every few seconds; request logs show it")
    return ObservedLoad(
        sources=(asked.server.url,),
        form=asked.engine.engine,
        arrivals=arrivals,
        prompt=spreads["prompt_tokens"],
        answer=spreads["answer_tokens"],
        prefix_fraction=prefix,
        ttft_s=spreads["ttft_s"],
        tpot_s=spreads["tpot_s"],
        e2e_s=spreads["e2e_s"],
        running=_gauge(asked, "running", step_s, used),
        waiting=_gauge(asked, "waiting", step_s, used),
        failed=None if failed is None else asked.total(failed),
        gpus=_gpus(asked),
        cautions=tuple(cautions),
        metrics=used,
    )


def _arrivals(asked: _AskedWindow) -> ObservedArrivals:
    """Return the requests of each step, from the first step with any."""
    metric = asked.metric("requests")
    assert metric is not None  # the engine was chosen by it
    points: list[tuple[float, float]] = []
    for step_s in _STEPS_S:
        query = f"sum(increase({asked.series(metric)}[{step_s}s]))"
        begin_s = -(-asked.begin_s // step_s) * step_s + step_s
        found = asked.server.over(query, begin_s=begin_s, end_s=asked.end_s, step_s=step_s)
        points = [(at, value) for at, value in (found[0].points if found else ()) if math.isfinite(value)]
        if points:
            break
    if not any(value > 0 for _, value in points):
        raise UsageError(f"{asked.server.url}: {metric.name} counted no request in this window.")
    first_s, last_s = points[0][0] - step_s, points[-1][0]
    begin = int(first_s) // HOUR_S * HOUR_S
    counts = np.zeros((-(-int(last_s - begin) // HOUR_S)) * (HOUR_S // step_s))
    for at, value in points:
        counts[int(at - begin) // step_s - 1] = value
    return ObservedArrivals(begin_s=begin, first_s=first_s, last_s=last_s, bin_s=step_s, counts=counts)


def _spread(asked: _AskedWindow, quantity: str, used: dict[str, str]) -> Spread | None:
    metric = asked.metric(quantity, "_bucket")
    if metric is None:
        return None
    query = f"sum by (le) (increase({asked.series(metric, '_bucket')}[{asked.window}]))"
    rows = [(float(row.labels.get("le", "nan")), row.points[0][1]) for row in asked.server.at(query, asked.end_s)]
    rows = sorted((bound, value) for bound, value in rows if not math.isnan(bound) and math.isfinite(value))
    total, sum_of = asked.total(metric, "_count"), asked.total(metric, "_sum")
    if len(rows) < 2 or not math.isinf(rows[-1][0]) or not total or sum_of is None:
        return None
    used[quantity] = metric.name
    reached = np.maximum.accumulate([value for _, value in rows])
    counts = np.diff(reached, prepend=0.0)
    return spread_of_buckets(
        [bound for bound, _ in rows[:-1]],
        counts.tolist(),
        total=float(reached[-1]),
        sum_of_values=sum_of * reached[-1] / total,
    )


def _mean_only(asked: _AskedWindow, quantity: str, requests: float, used: dict[str, str]) -> Spread | None:
    """Return the mean of tokens that are counted as a sum alone."""
    metric = asked.metric(quantity)
    total = None if metric is None else asked.total(metric)
    if metric is None or not total or not requests:
        return None
    used[quantity] = metric.name
    return Spread(count=requests, mean=total / requests, cv=None, quantiles={})


def _gauge(asked: _AskedWindow, quantity: str, step_s: int, used: dict[str, str]) -> tuple[float, float] | None:
    """Return mean and most of a gauge over the window."""
    metric = asked.metric(quantity)
    if metric is None:
        return None
    found = asked.server.over(
        f"sum({asked.series(metric)})", begin_s=asked.begin_s + step_s, end_s=asked.end_s, step_s=step_s
    )
    values = [value for series in found for _, value in series.points if math.isfinite(value)]
    used[quantity] = metric.name
    return (float(np.mean(values)), max(values)) if values else None


def _gpus(asked: _AskedWindow) -> tuple[RunningGpus, ...]:
    """Return the GPUs whose exporter the server reads: how many of each, how busy, how much power each takes."""
    known = load_gpu_metrics()
    if known.utilisation_percent not in asked.names:
        return ()
    by, window = f"by ({known.model_label})", asked.window

    def each(expression: str) -> dict[str, float]:
        rows = asked.server.at(expression, asked.end_s)
        return {row.labels.get(known.model_label, ""): row.points[0][1] for row in rows}

    counts = each(f"count {by} (avg_over_time({known.utilisation_percent}[{window}]))")
    busy = each(f"avg {by} (avg_over_time({known.utilisation_percent}[{window}]))")
    power = each(f"avg {by} (avg_over_time({known.power_w}[{window}]))") if known.power_w in asked.names else {}
    return tuple(
        RunningGpus(
            name=name,
            count=int(count),
            utilisation_fraction=busy[name] / 100 if name in busy else None,
            power_w=power.get(name),
        )
        for name, count in sorted(counts.items())
    )
