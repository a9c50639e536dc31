"""Read LOAD.yaml: the load of the GPUs, over stated, sourced defaults."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from capplan.core.economics.constraints import Assumption, CostAssumptions, ReportLoad
from capplan.core.economics.fleet import Owned
from capplan.core.serving.load import (
    DAYS_PER_WEEK,
    HOURS_PER_DAY,
    Job,
    Load,
    OneGpu,
    Service,
    TrainingPurchase,
    fitting_runs,
    runs_refusal,
)
from capplan.specs.strict_yaml import Tree, read_yaml
from capplan.specs.values import ValueReader
from capplan.units import SECONDS

_MOST_YEARS = 50
_MOST_STARTING = 0.9
"""The share of a deadline that may pass before machines work."""
_MOST_GPUS_PER_SERVER = 1024
_MOST_ZONES = 12
CONSTRAINT_KEYS = (
    "terms", "allow", "deny", "marketplaces", "any_vendor", "budget", "site", "certainty", "max_price_age",
)  # fmt: skip
"""The keys that state what a buyer admits, which are read as the options of `capplan report`."""
LOAD_PARTS = ("llm", "running", "observed")
"""The parts of a file of `capplan load` that are not about `capplan report`, which reads `service` alone."""
AS_MANY_AS_FIT = "as many as fit into a year"
"""The source of the runs a year of a job longer than a night."""
_DEFAULTS = Path(__file__).with_name("load_defaults.yaml")

_MOST_OWNED = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedLoad:
    """One load of a load file; `name` and `model` are those of a service among several, else empty and None."""

    name: str
    model: str | None
    demand: ReportLoad


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFile:
    """What a load file states: one load or several services, the GPUs that are owned already, and own prices.

    `prices` are sections in the form of a price file, not read yet: names of GPUs are known later. `admitted` holds the
    keys that state what the buyer admits, as they are written: they are options of a report.
    """

    loads: tuple[NamedLoad, ...]
    admitted: Tree = field(default_factory=dict)
    inventory: tuple[Owned, ...] = ()
    prices: tuple[Tree, ...] = ()

    @property
    def is_fleet(self) -> bool:
        """Return True if the file lists services or GPUs that are owned."""
        return bool(self.inventory) or self.loads[0].model is not None


_KEYS: Mapping[str, Sequence[str]] = {
    "service": (
        "peak", "mean", "daily", "growth_per_year", "latency", "percentile", "spares", "utilization_ceiling",
        "batching_window", "burstiness", "allow_spot", "availability", "zones", "hours", "days_per_week",
        "scale_by_hour", "start_up",
    ),
    "job": (
        "samples", "deadline", "runs_per_year", "growth_per_year", "spares", "utilization_ceiling", "allow_spot",
        "start_up",
    ),
    "training": (
        "samples", "epochs", "deadline", "runs_per_year", "scaling", "spares", "utilization_ceiling", "allow_spot",
        "start_up",
    ),
}  # fmt: skip


def load_defaults(kind: str | None) -> dict[str, Assumption]:
    """Return the default assumptions: those of a kind of load, of costs, and of uncertainty."""
    tree = read_yaml(_DEFAULTS, shown=_DEFAULTS.name)
    groups = [tree[name] for name in (kind, "host", "money", "uncertainty") if name]
    ends = ("value", "low", "high")
    return {
        key: Assumption(key=key, **{**row, **{name: float(row[name]) for name in ends}})
        for group in groups
        for key, row in group.items()
    }


def demand_without_load() -> ReportLoad:
    """Return the demand without a load: one GPU of each kind, always busy."""
    reader = _LoadReader("defaults", load_defaults(None))
    return ReportLoad(
        load=OneGpu(utilization_ceiling_fraction=1.0), money=reader.money(), assumptions=tuple(reader.assumed.values())
    )


_NO_RATE = re.compile(r"0+(\.0*)?(\s*/.+)?")
_HOURS = re.compile(r"(?P<first>\d{1,2})(:00)?\s*(-|–|to)\s*(?P<last>\d{1,2})(:00)?")


def hours_of_use(words: str) -> frozenset[int] | None:
    """Return the hours of a day that words such as 8-18 or 22-6 name; None for other words."""
    match = _HOURS.fullmatch(words.strip())
    first, last = (int(match["first"]), int(match["last"])) if match else (0, 0)
    if first == last or max(first, last) > HOURS_PER_DAY:
        return None
    length = (last - first) % HOURS_PER_DAY or HOURS_PER_DAY
    return frozenset((first + hour) % HOURS_PER_DAY for hour in range(length))


STREAMS = ("images", "videos", "clips", "documents", "requests")
"""What a service may be asked for in one sentence: `images: 3 per second, p95 under 8 s`."""
_STREAM = re.compile(
    r"(?P<rate>\d+(?:\.\d+)?(?:e\d{1,2})?)\s*(?:per |/\s*)(?P<unit>s|second|min|minute|h|hour|d|day)"
    r"(?:,\s*p(?P<percentile>\d+(?:\.\d+)?))?,?\s*(?:under|within|<)\s*(?P<latency>[0-9.]+\s*[a-zµ]+)"
)
_STREAM_SECONDS = {
    "s": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86400, "day": 86400,
}  # fmt: skip


def with_stream(tree: Tree) -> Tree:
    """Return a load with a stream in one sentence as the service that it stands for; others as they are.

    >>> with_stream({"images": "3 per second, p95 under 8 s"})
    {'service': {'peak': '3/s', 'latency': '8 s', 'percentile': 95.0}}
    """
    stream = next((name for name in STREAMS if name in tree), None)
    match = _STREAM.fullmatch(str(tree[stream]).strip()) if stream is not None else None
    if match is None:
        return tree
    rate_per_s = float(match["rate"]) / _STREAM_SECONDS[match["unit"]]
    service: Tree = {"peak": f"{rate_per_s:.12g}/s", "latency": match["latency"]}
    if match["percentile"]:
        service["percentile"] = float(match["percentile"])
    stated = tree.get("service", {})
    if not isinstance(stated, dict):
        return tree
    return {**{key: value for key, value in tree.items() if key != stream}, "service": {**service, **stated}}


def read_load_fields(path: Path) -> Tree:
    """Read what a LOAD.yaml holds, as it is written: a service checks it as this machine would.

    Raises:
        SpecError: the file cannot be read, or is not strict YAML.
    """
    return _report_part(read_yaml(path))


def _report_part(tree: Tree) -> Tree:
    """Return a load without the parts of other commands, which a file of `capplan load` has."""
    return {key: value for key, value in tree.items() if key not in LOAD_PARTS} if "observed" in tree else tree


def read_demand(path: Path) -> ReportLoad:
    """Read a LOAD.yaml that states one load.

    Raises:
        SpecError: the file is refused, with all that is wrong with it.
    """
    return _demand(
        with_stream(_report_part(read_yaml(path))),
        str(path),
        known=(*_KEYS, "assumptions", *CONSTRAINT_KEYS, "inventory", "prices"),
    )


def read_load_file(path: Path) -> LoadFile:
    """Read a LOAD.yaml that states one load, or several services on one fleet.

    Raises:
        SpecError: the file is refused, with all that is wrong with it.
    """
    tree = with_stream(_report_part(read_yaml(path)))
    reader = _LoadReader(str(path), {})
    inventory = _inventory(reader, _listed(reader, tree, "inventory", "with gpu and count"))
    prices = _listed(reader, tree, "prices", "in the form of a price file")
    admitted = {key: tree[key] for key in CONSTRAINT_KEYS if key in tree}
    if "services" not in tree:
        reader.finish({})
        loads = (NamedLoad(name="", model=None, demand=read_demand(path)),)
        return LoadFile(loads=loads, admitted=admitted, inventory=inventory, prices=prices)
    reader.unknown_keys(tree, ["services", "inventory", "prices", "assumptions", *CONSTRAINT_KEYS], "")
    items = tree["services"]
    if not isinstance(items, list) or not items or not all(isinstance(item, dict) for item in items):
        reader.refuse("services", "must be a list, each item with name, model, and service or job")
        items = []
    items = [with_stream(item) for item in items]
    names = [item.get("name") for item in items]
    for index, item in enumerate(items):
        where = f"services[{index}]."
        reader.unknown_keys(item, ["name", "model", "service", "job"], where)
        for key in ("name", "model"):
            if not isinstance(item.get(key), str) or not item[key]:
                reader.refuse(f"{where}{key}", "is missing; write a text")
        if names.count(names[index]) > 1:
            reader.refuse(f"{where}name", f"{names[index]!r} stands twice")
    reader.finish({})
    shared = {key: value for key, value in tree.items() if key == "assumptions"}
    return LoadFile(
        loads=tuple(
            NamedLoad(
                name=item["name"],
                model=item["model"],
                demand=_demand(
                    {**{kind: item[kind] for kind in ("service", "job") if kind in item}, **shared},
                    f"{path}: services[{index}]",
                    known=("service", "job", "assumptions"),
                ),
            )
            for index, item in enumerate(items)
        ),
        admitted=admitted,
        inventory=inventory,
        prices=prices,
    )


def _listed(reader: "_LoadReader", tree: Tree, name: str, form: str) -> tuple[Tree, ...]:
    """Return a list of mappings; empty where it is absent or refused."""
    given = tree.get(name, [])
    if not isinstance(given, list) or not all(isinstance(item, dict) for item in given):
        reader.refuse(name, f"must be a list, each item {form}")
        return ()
    return tuple(given)


def _inventory(reader: "_LoadReader", items: Sequence[Tree]) -> tuple[Owned, ...]:
    """Read the GPUs that are owned: a list of gpu, count, and the servers that they stand in."""
    inventory = []
    for index, item in enumerate(items):
        where = f"inventory[{index}]."
        reader.unknown_keys(item, ["gpu", "count", "servers"], where)
        gpu, count, servers = item.get("gpu"), item.get("count"), item.get("servers")
        if not isinstance(gpu, str) or not gpu:
            reader.refuse(f"{where}gpu", "is missing; write a GPU's id")
        elif type(count) is not int or not 1 <= count <= _MOST_OWNED:
            reader.refuse(f"{where}count", f"must be a whole number from 1 to {_MOST_OWNED}, not {count!r}")
        elif servers is not None and (type(servers) is not int or not 1 <= servers <= count):
            reader.refuse(f"{where}servers", f"must be a whole number from 1 to the count of {count}, not {servers!r}")
        else:
            inventory.append(Owned(gpu=gpu, count=count, servers=servers))
    return tuple(inventory)


def _demand(tree: Tree, shown: str, *, known: Sequence[str]) -> ReportLoad:
    reader = _LoadReader(shown, {})
    for stream in STREAMS:
        if stream in tree:
            wanted = "write a rate and a limit, such as 3 per second, p95 under 8 s"
            reader.refuse(stream, f"{tree[stream]!r} cannot be read; {wanted}")
            reader.finish({})
    kinds = [kind for kind in _KEYS if kind in tree]
    reader.unknown_keys(tree, list(known), "")
    if len(kinds) != 1:
        reader.refuse("", f"must hold exactly one of {', '.join(kind for kind in _KEYS if kind in known)}")
        reader.finish({})
    [kind] = kinds
    reader.assumed = load_defaults(kind)
    reader.override(reader.mapping(tree, "assumptions"), settings=_KEYS[kind])
    given = reader.mapping(tree, kind)
    reader.unknown_keys(given, list(_KEYS[kind]), f"{kind}.")
    reader.begin(kind, given)
    load = reader.service() if kind == "service" else reader.run()
    money = reader.money()
    reader.finish({})
    assert load is not None
    return ReportLoad(load=load, money=money, assumptions=tuple(reader.assumed.values()))


class _LoadReader(ValueReader):
    """Gathers a load and the problems of its file."""

    def __init__(self, file: str, assumed: dict[str, Assumption]) -> None:
        super().__init__(file, file)
        self.assumed = assumed
        self._kind = ""
        self._given: Tree = {}

    def begin(self, kind: str, given: Tree) -> None:
        """Select one section of the file."""
        self._kind, self._given = kind, given

    def override(self, given: Tree, *, settings: Sequence[str]) -> None:
        """Replace the defaults by the user's values and ranges; `settings` have a place of their own."""
        known = [key for key in self.assumed if key not in settings]
        self.unknown_keys(given, known, "assumptions.")
        for key, value in given.items():
            if key in known:
                self._override_one(key, value)

    def _override_one(self, key: str, value: object) -> None:
        where, default = f"assumptions.{key}", self.assumed[key]
        row = value if isinstance(value, dict) else {"value": value}
        self.unknown_keys(row, ["value", "low", "high", "source"], f"{where}.")
        numbers = {name: self.number(f"{where}.{name}", row[name]) for name in ("value", "low", "high") if name in row}
        if "value" not in numbers:
            self.refuse(f"{where}.value", "is missing")
        if any(number is None for number in numbers.values()) or "value" not in numbers:
            return
        middle = numbers["value"] or 0.0
        low, high = numbers.get("low", middle), numbers.get("high", middle)
        if not (low or 0.0) <= middle <= (high or 0.0):
            self.refuse(where, f"the range {low} to {high} must hold the value {middle}")
            return
        source = row.get("source", "stated in the load file")
        if not isinstance(source, str):
            self.refuse(f"{where}.source", f"must be text, not {source!r}")
            return
        self.assumed[key] = replace(
            default, value=middle, low=low or 0.0, high=high or 0.0, basis="yours", source=source
        )

    def service(self) -> Load | None:
        """Read a stream of samples with a service level."""
        daily = self._daily()
        peak = max(daily, default=None)
        if not daily and self._required("peak", "samples per second such as 500/s, or daily with 24 hourly rates"):
            peak = self.rate("service.peak", self._given["peak"])
        if daily and "peak" in self._given:
            self.refuse("service.peak", "contradicts daily, whose highest hour is the peak; keep one")
        mean = sum(daily) / sum(rate > 0 for rate in daily) if any(daily) else None
        if mean is None and "mean" in self._given:
            mean = self.rate("service.mean", self._given["mean"])
        if daily and "mean" in self._given:
            self.refuse("service.mean", "contradicts daily, which has its own mean; keep one")
        daily, days = self._hours_of_use(daily, peak)
        scales, start_s = self._scaling(has_profile=bool(daily))
        if peak and mean is None and "mean" not in self._given:
            mean = peak / self.assumed["peak_to_mean"].value
        else:
            self.assumed.pop("peak_to_mean", None)
        if peak and mean and mean > peak:
            self.refuse("service.mean", f"{mean:g}/s is above the peak of {peak:g}/s; a mean cannot be")
        latency = self._duration("latency")
        percentile = self._setting("percentile", low=1, high=99.9)
        window = self._setting("batching_window", read=self.duration, high=60)
        if latency and window is not None and window >= latency:
            self.refuse("service.batching_window", "takes the whole latency limit; make it shorter")
        common = self._common(ceiling_high=0.95)
        burstiness = self._setting("burstiness", low=0.05, high=1000)
        availability, zones = self._availability()
        if availability is not None and "spares" not in self._given:
            common["spares"] = 0
            source = "as many as the availability takes"
            self.assumed["spares"] = replace(
                self.assumed["spares"], value=0, low=0, high=0, basis="yours", source=source
            )
        if self.problems or not (peak and mean and latency) or None in (percentile, window, burstiness):
            return None
        in_use = sum(rate > 0 for rate in daily) * days / (HOURS_PER_DAY * DAYS_PER_WEEK) if daily else 1.0
        return Service(
            peak_per_s=peak, mean_per_s=mean * in_use, latency_limit_s=latency, percentile=percentile or 0.0,
            window_s=window or 0.0, gap_scv=burstiness or 1.0, daily_per_s=daily,
            days_per_week=days, scales_by_hour=scales, start_up_s=start_s,
            availability_fraction=availability, zones=zones, **common,
        )  # fmt: skip

    def _hours_of_use(self, daily: tuple[float, ...], peak: float | None) -> tuple[tuple[float, ...], int]:
        """Read the hours of a day and the days of a week in use: the rate to carry in each hour, and the days.

        Where no profile is stated, every hour of use must carry the peak.
        """
        days = self._whole("days_per_week", default=DAYS_PER_WEEK, most=DAYS_PER_WEEK)
        if "hours" in self._given:
            given = self._given["hours"]
            used = hours_of_use(str(given))
            if daily:
                self.refuse("service.hours", "contradicts daily, whose hours without a rate are out of use; keep one")
            elif used is None:
                self.refuse("service.hours", f"must be whole hours of a day such as 8-18 or 22-6, not {given!r}")
            else:
                return tuple((peak or 0.0) * (hour in used) for hour in range(HOURS_PER_DAY)), days
        if not daily and days < DAYS_PER_WEEK:
            daily = (peak or 0.0,) * HOURS_PER_DAY
        return daily, days

    def _scaling(self, *, has_profile: bool) -> tuple[bool, float]:
        """Read whether machines rented by the hour follow the hours of use, and how long they start. [s]"""
        scales = self._flag("scale_by_hour", default=has_profile)
        if not has_profile and (scales or "start_up" in self._given):
            which = "scale_by_hour" if scales else "start_up"
            self.refuse(
                f"service.{which}", "needs hours to follow; state hours: 8-18, days_per_week: 5, or daily rates"
            )
        if scales and has_profile:
            return True, self._setting("start_up", read=self.duration, high=SECONDS["h"]) or 0.0
        self.assumed.pop("start_up", None)
        return False, 0.0

    def _availability(self) -> tuple[float | None, int]:
        """Read the share of time that the service must be up, and over how many zones its servers are spread."""
        zones = self._whole("zones", default=1, most=_MOST_ZONES)
        if "availability" not in self._given:
            return None, zones
        share = self.fraction("service.availability", self._given["availability"])
        if share is None:
            return None, zones
        most = 1 - self.assumed["zone_down_fraction"].value ** zones
        if not 0.5 <= share < most:
            where = "one zone is" if zones == 1 else f"{zones} zones are"
            self.refuse(
                "service.availability",
                f"must lie between 50 % and {100 * most:.6g} %, which {where} up, not {100 * share:.6g} %; more zones "
                "allow more",
            )
            return None, zones
        return share, zones

    def run(self) -> Load | None:
        """Read a batch job or a training purchase, which has epochs and a loss by scaling beside it."""
        trains = self._kind == "training"
        samples, deadline = self._count("samples"), self._duration("deadline")
        epochs = self._count("epochs") if trains else 1.0
        runs, start_s = self._setting("runs_per_year", low=1e-3, high=1e6), self._start_up(deadline)
        scaling = self._setting("scaling", low=0.01, high=1, read=self.fraction) if trains else 1.0
        common = self._common(with_growth=not trains)
        if "runs_per_year" in self._given:
            if deadline and runs and (refusal := runs_refusal(runs, deadline)):
                self.refuse(f"{self._kind}.runs_per_year", refusal)
        elif deadline and runs and (most := fitting_runs(deadline)) < runs:
            runs = most
            self.assumed["runs_per_year"] = replace(
                self.assumed["runs_per_year"], value=most, low=most, high=most, basis="derived", source=AS_MANY_AS_FIT
            )
        if self.problems or not (samples and deadline and epochs and runs and scaling):
            return None
        common |= {"samples": samples, "deadline_s": deadline, "runs_per_year": runs, "start_up_s": start_s}
        return TrainingPurchase(epochs=epochs, scaling_fraction=scaling, **common) if trains else Job(**common)

    def _start_up(self, deadline: float | None) -> float:
        """Read how long machines take until they work; even at its longest it leaves time within the deadline. [s]"""
        start_s = self._setting("start_up", read=self.duration, high=SECONDS["d"]) or 0.0
        if deadline is None:
            return start_s
        if start_s > _MOST_STARTING * deadline:
            self.refuse(
                f"{self._kind}.start_up",
                f"machines start for {start_s:g} s, which leaves too little of the deadline of {deadline:g} s; "
                "state a shorter start_up, such as 0 s for machines that already run",
            )
        elif self.assumed["start_up"].high > _MOST_STARTING * deadline:
            self.assumed["start_up"] = replace(self.assumed["start_up"], high=_MOST_STARTING * deadline)
        return start_s

    def _common(self, *, with_growth: bool = True, ceiling_high: float = 1.0) -> dict[str, Any]:
        ceiling = self._setting("utilization_ceiling", low=0.01, high=ceiling_high, read=self.fraction)
        spares = self._setting("spares", high=100)
        if spares is not None and spares != int(spares):
            self.refuse(f"{self._kind}.spares", f"must be a whole number of servers, not {spares:g}")
        spot = self._flag("allow_spot")
        common = {"utilization_ceiling_fraction": ceiling, "spares": int(spares or 0), "allow_spot": spot}
        if with_growth:
            common["growth_per_year_fraction"] = self._setting("growth_per_year", high=10, read=self.change)
        return common

    def money(self) -> CostAssumptions:
        """Gather the assumptions that the formulas of cost take."""
        values: dict[str, Any] = {}
        for item in fields(CostAssumptions):
            value = self.assumed[item.name].value
            whole = item.type is int
            most = _MOST_YEARS if item.name == "years" else _MOST_GPUS_PER_SERVER
            if whole and (value != int(value) or not 1 <= value <= most):
                self.refuse(f"assumptions.{item.name}", f"must be a whole number from 1 to {most}, not {value:g}")
            if value < 0 or (item.name.endswith("_fraction") and value > 1):
                self.refuse(f"assumptions.{item.name}", f"must lie between 0 and 1, not {value:g}")
            values[item.name] = int(value) if whole else value
        if values["pue"] < 1:
            self.refuse("assumptions.pue", f"cannot be below 1, not {values['pue']:g}")
        if values["card_power_factor"] <= 0:
            self.refuse("assumptions.card_power_factor", f"must be above 0, not {values['card_power_factor']:g}")
        if self.assumed["cpu_ms_per_sample"].value < 0:
            self.refuse("assumptions.cpu_ms_per_sample", "cannot be below 0")
        for key in ("cpu_cores_per_gpu", "network_gbit_per_gpu", "network_gbit_per_gpu_sxm"):
            if key in self.assumed and self.assumed[key].value <= 0:
                self.refuse(f"assumptions.{key}", f"must be above 0, not {self.assumed[key].value:g}")
        return CostAssumptions(**values)

    def _setting(
        self, name: str, *, low: float = 0.0, high: float, read: Callable[[str, object], float | None] | None = None
    ) -> float | None:
        """Read a key that has a default; either way it becomes an assumption that the report prints."""
        if name not in self._given:
            return self.assumed[name].value
        where, given = f"{self._kind}.{name}", self._given[name]
        value = (read or self.number)(where, given)
        if value is None:
            return None
        if not low <= value <= high:
            self.refuse(where, f"must lie between {low:g} and {high:g}, not {value:g}")
            return None
        self.assumed[name] = replace(
            self.assumed[name], value=value, low=value, high=value, basis="yours", source="stated in the load file"
        )
        return value

    def _daily(self) -> tuple[float, ...]:
        """Read 24 hourly rates."""
        given = self._given.get("daily")
        if given is None:
            return ()
        if not isinstance(given, list) or len(given) != HOURS_PER_DAY:
            self.refuse("service.daily", f"must be a list of {HOURS_PER_DAY} rates, one an hour")
            return ()
        rates = [
            0.0 if _NO_RATE.fullmatch(str(rate)) else self.rate(f"service.daily[{hour}]", rate)
            for hour, rate in enumerate(given)
        ]
        known = [rate for rate in rates if rate is not None]
        if known and not any(known):
            self.refuse("service.daily", "is all zero; some hour must have a load")
        return tuple(known) if len(known) == len(rates) else ()

    def _flag(self, name: str, *, default: bool = False) -> bool:
        given = self._given.get(name, default)
        if isinstance(given, bool):
            return given
        self.refuse(f"{self._kind}.{name}", f"must be true or false, not {given!r}")
        return default

    def _whole(self, name: str, *, default: int, most: int) -> int:
        given = self._given.get(name, default)
        if type(given) is int and 1 <= given <= most:
            return given
        self.refuse(f"{self._kind}.{name}", f"must be a whole number from 1 to {most}, not {given!r}")
        return default

    def _required(self, name: str, what: str) -> bool:
        """Return True if the section holds a key, which is refused as missing otherwise."""
        if name not in self._given:
            self.refuse(f"{self._kind}.{name}", f"is missing; write {what}")
        return name in self._given

    def _duration(self, name: str) -> float | None:
        where = f"{self._kind}.{name}"
        if not self._required(name, "a time such as 50 ms or 6 h"):
            return None
        return self.positive(where, self.duration(where, self._given[name]))

    def _count(self, name: str) -> float | None:
        is_given = self._required(name, "a number such as 50M")
        return self.count(f"{self._kind}.{name}", self._given[name]) if is_given else None
