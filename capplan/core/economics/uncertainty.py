"""Quantify how certain a recommendation is: confidence over scenarios, sensitivity, switching points."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from zlib import crc32

import numpy as np

from capplan.core.assumed import SHARED_LATENCY_VARIANCE
from capplan.core.economics.constraints import Assumption
from capplan.core.economics.cost import OwnedCost
from capplan.core.economics.evidence import Standards
from capplan.core.economics.options import Case, ProcurementOption, Reserve, Scenario, evaluate, recosted, slots_of
from capplan.core.economics.recommend import ranking, worth
from capplan.core.numbers import NORMAL_90, FloatArray
from capplan.core.serving.load import Job, Service, TrainingPurchase
from capplan.core.serving.servers import replicas_for_rate
from capplan.core.serving.sizing import OperatingPoint, Sizing, best_in_servers


@dataclass(frozen=True, slots=True, kw_only=True)
class Confidence:
    """Shares of the scenarios, all uncertain inputs varied at once, in which the choice is best and suffices.

    Amounts are of a year; where no load is stated, of a million samples. [USD]

    Attributes:
        scenarios: Number of scenarios in which the contenders are costed.
        cheapest: Share of them in which the choice is still the cheapest.
        loads: Number of scenarios in which the fleet's size is checked; 0 where no load is stated.
        carried: Share of them in which the fleet carries the load within the limit.
        expected_excess_usd_per_year: What the choice costs more than the best option, on average. [USD]
        cost_p10_usd, cost_p90_usd: Percentiles of what the choice's fleet costs; its cost as expected lies between.
        wins: Share of scenarios in which each option is the cheapest, largest first.
        varies: Labels of what is drawn, the latency estimate among them.
    """

    scenarios: int
    cheapest: float
    loads: int
    carried: float
    expected_excess_usd_per_year: float
    cost_p10_usd: float
    cost_p90_usd: float
    wins: tuple[tuple[str, float], ...]
    varies: tuple[str, ...] = ()

    @property
    def carried_error(self) -> float:
        """Return the standard error of the share carried, √(p·(1 - p)/n)."""
        return math.sqrt(self.carried * (1 - self.carried) / self.loads) if self.loads else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceSpread:
    """How far the price of one option is uncertain: by its age, and for spot over the provider's zones.

    `sigma` is the spread of its logarithm; `low` and `high` are the logarithms of the zones' prices over the option's.
    """

    sigma: float = 0.0
    low: float = 0.0
    high: float = 0.0

    def at(self, normal: FloatArray) -> FloatArray:
        """Return the logarithm of the price's factor: the zones' ends hold the middle 90 % of a normal draw."""
        zones = np.where(normal > 0, self.high, -self.low) * normal / NORMAL_90
        return np.asarray(np.hypot(zones, self.sigma * normal) * np.sign(normal))


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncertainty:
    """Uncertain inputs: assumptions with their ranges, and each GPU's latency interval as factors of expected."""

    assumptions: tuple[Assumption, ...]
    latency: Mapping[str, tuple[float, float]]

    def of_keys(self, keys: Sequence[str]) -> tuple[Assumption, ...]:
        return tuple(
            assumption for assumption in self.assumptions if assumption.key in keys and assumption.low < assumption.high
        )


SCENARIO_KEYS = (
    "peak_factor", "limit_factor", "rent_price_factor", "purchase_price_factor", "start_up", "cpu_ms_per_sample",
)  # fmt: skip
_ONLY_ALONE = ("limit_factor", "cpu_ms_per_sample")
DRAWN_KEYS = tuple(key for key in SCENARIO_KEYS if key not in _ONLY_ALONE)
"""What scenarios draw besides money and latency.

The latency limit is a requirement and is taken as stated. How samples are read is the buyer's own choice; what it may
change is shown by moving it alone.
"""

MONEY_KEYS = (
    "discount_fraction", "residual_fraction", "chassis_usd_sxm", "chassis_usd_pcie", "network_fraction",
    "support_fraction", "space_usd_per_kw_month", "staff_usd_per_server_year",
    "licence_usd_per_gpu_year", "card_power_factor", "host_w_sxm", "host_w_pcie", "power_fraction", "pue",
    "usd_per_kwh",
)  # fmt: skip

_SCENARIO_FIELD = {
    "peak_factor": "load", "limit_factor": "limit", "rent_price_factor": "rent_price",
    "purchase_price_factor": "purchase_price",
}  # fmt: skip


def varied(case: Case, values: Mapping[str, float], latency: Mapping[str, float] | None = None) -> Scenario:
    """Return the scenario in which some assumptions have other values."""
    money = case.money
    for key, value in values.items():
        if key not in _SCENARIO_FIELD and key not in SCENARIO_KEYS:
            money = money.with_value(key, value)
    factors: dict[str, Any] = {_SCENARIO_FIELD[key]: value for key, value in values.items() if key in _SCENARIO_FIELD}
    return Scenario(
        **factors,
        latency=latency or {},
        money=money,
        start_up_s=values.get("start_up"),
        cpu_s_per_sample=values["cpu_ms_per_sample"] / 1e3 if "cpu_ms_per_sample" in values else None,
    )


LOADS = 2000
"""Scenarios in which the size of fleets is checked: nine of ten carried are known to 0.7 in a hundred."""
COSTED = 400
"""Scenarios in which the contenders are costed, the first of those."""
_GRID = 101
"""Latency factors at which a GPU's rate is worked out; between them it is interpolated."""
_BISECTIONS = 40
_INSIDE = 1 + 1e-6
"""Lifts a least load off the edge at which rounding decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """Scenarios of everything uncertain at once: values of assumptions and latency factors of GPUs, one a scenario.

    Each is drawn by its own name, so that what is drawn for one GPU or price does not depend on which others there are.
    """

    count: int
    seed: int
    assumptions: tuple[Assumption, ...]
    values: Mapping[str, FloatArray]
    latency: Mapping[str, FloatArray]

    def normal(self, name: str) -> FloatArray:
        """Return standard normal numbers that belong to a name."""
        return _stream(self.seed, name).standard_normal(self.count)

    def of(self, key: str) -> FloatArray:
        """Return the values of an assumption; 1 where it is not drawn."""
        return self.values.get(key, np.ones(self.count))


def draws_of(uncertainty: Uncertainty, *, count: int = LOADS, seed: int = 7) -> Draws:
    """Draw everything uncertain together; the same seed gives the same scenarios.

    Assumptions are triangular over their ranges; latency factors are lognormal with the interval as their middle
    90 %, half of their variance common to all GPUs. The peak is drawn only where it has a range of its own.
    """
    uncertain = uncertainty.of_keys((*DRAWN_KEYS, *MONEY_KEYS))
    common = _stream(seed, "latency of all GPUs").standard_normal(count)
    return Draws(
        count=count,
        seed=seed,
        assumptions=uncertain,
        values={
            each.key: _stream(seed, f"assumption {each.key}").triangular(each.low, each.value, each.high, count)
            for each in uncertain
        },
        latency={
            gpu: _factors(bounds, common, _stream(seed, f"latency of {gpu}").standard_normal(count))
            for gpu, bounds in uncertainty.latency.items()
        },
    )


def _stream(seed: int, name: str) -> np.random.Generator:
    return np.random.default_rng([seed, crc32(name.encode())])


def _factors(bounds: tuple[float, float], common: FloatArray, own: FloatArray) -> FloatArray:
    z = math.sqrt(SHARED_LATENCY_VARIANCE) * common + math.sqrt(1 - SHARED_LATENCY_VARIANCE) * own
    low, high = bounds
    return np.asarray(np.exp(z * np.where(z > 0, math.log(high), -math.log(low)) / NORMAL_90))


class LoadsToCarry:
    """The load that each scenario asks of a GPU as estimated: as a factor on the stated one, inf where none suffices.

    A GPU that is a tenth slower than estimated needs, for the load as stated, as many as the estimate does for a tenth
    more. So the fleet that carries a share of the scenarios is that of a larger load.
    """

    def __init__(self, case: Case, draws: Draws) -> None:
        self.case, self.draws = case, draws
        self._found: dict[tuple[str, int, bool], FloatArray] = {}

    def of(self, gpu: str, server_slots: int, full_servers: bool) -> FloatArray:
        """Return the factors of a GPU in servers of so many slots, one a scenario, smallest first."""
        is_training = isinstance(self.case.load, TrainingPurchase)
        key = (gpu, server_slots, full_servers) if is_training else (gpu, 1, True)
        if key not in self._found:
            made = self._training(*key) if is_training else self._alone(gpu)
            self._found[key] = np.sort(made)
        return self._found[key]

    def reserve(self, share: float) -> Reserve:
        """Return the factors on the load that carry a share of the scenarios; 1 where no number of a GPU does."""

        def of(gpu: str, server_slots: int, full_servers: bool) -> float:
            factor = self._at(share, gpu, server_slots, full_servers)
            return max(1.0, factor) if math.isfinite(factor) else 1.0

        return of

    def suffices(self, share: float, gpu: str) -> bool:
        """Return True if some number of a GPU carries a share of the scenarios."""
        return math.isfinite(self._at(share, gpu, 1, False))

    def _at(self, share: float, gpu: str, server_slots: int, full_servers: bool) -> float:
        factors = self.of(gpu, server_slots, full_servers)
        return float(factors[max(0, math.ceil(share * len(factors) - 1e-9) - 1)])

    def carried(self, option: ProcurementOption) -> float:
        """Return the share of the scenarios that an option's fleet carries, its spare servers aside."""
        factors = self.of(option.gpu, *slots_of(option, self.case.money))
        return float(np.mean(factors <= option.carried_factor * (1 + 1e-9)))

    def _sizing(self, gpu: str) -> Sizing:
        return next(sizing for sizing in self.case.sizings if sizing.gpu == gpu)

    def _demands(self) -> FloatArray:
        """Return the peak of each scenario over the stated one; a job has less time where machines start later."""
        load, start_s = self.case.load, self.draws.values.get("start_up")
        demands = self.draws.of("peak_factor")
        if isinstance(load, Job | TrainingPurchase) and start_s is not None:
            demands = demands * (load.deadline_s - load.start_up_s) / (load.deadline_s - start_s)
        return demands

    def _alone(self, gpu: str) -> FloatArray:
        load, capacity, factors = self.case.load, self._sizing(gpu).capacity, self.draws.latency[gpu]
        limit_s = load.latency_limit_s if isinstance(load, Service) else None
        grid = _grid(factors)

        def rate_per_s(factor: float) -> float:
            point = capacity.operate(limit_s=limit_s, latency_factor=factor)
            return point.rate_per_s if point else 0.0

        rates = np.interp(factors, grid, [rate_per_s(float(factor)) for factor in grid])
        with np.errstate(divide="ignore"):
            return np.asarray(self._demands() * rate_per_s(1.0) / rates)

    def _training(self, gpu: str, server_slots: int, full_servers: bool) -> FloatArray:
        """Return the factors for GPUs that train together: of the least load for which as many are needed."""
        load, capacity, factors = self.case.load, self._sizing(gpu).capacity, self.draws.latency[gpu]
        assert isinstance(load, TrainingPurchase)

        @cache
        def points(factor: float) -> tuple[OperatingPoint, ...]:
            return capacity.operating_points(limit_s=None, latency_factor=factor)

        def need(demand: float, factor: float) -> int:
            peak_per_s = demand * load.rate_per_s
            point = best_in_servers(points(factor), peak_per_s, server_slots=server_slots, full_servers=full_servers)
            return replicas_for_rate(rate_per_s=peak_per_s, per_replica_per_s=point.rate_per_s)

        @cache
        def least(count: int) -> float:
            low, high = 0.0, 1.0
            while need(high, 1.0) < count:
                low, high = high, 2 * high
            for _ in range(_BISECTIONS):
                middle = (low + high) / 2
                low, high = (low, middle) if need(middle, 1.0) >= count else (middle, high)
            return high * _INSIDE

        demands, grid = self._demands(), _grid(factors)
        # Demands differ by the start of machines alone unless the load has a range: the grid's point counts for both.
        near = np.clip(np.searchsorted(grid, factors), 0, len(grid) - 1)
        needs = {
            (place, demand): need(demand, float(grid[place]))
            for place, demand in {(int(p), float(f"{d:.3g}")) for p, d in zip(near, demands, strict=True)}
        }
        return np.array([least(needs[int(p), float(f"{d:.3g}")]) for p, d in zip(near, demands, strict=True)])


def _grid(factors: FloatArray) -> FloatArray:
    """Return latency factors between which a GPU's rate is interpolated, from the least drawn to the largest."""
    return np.unique(np.quantile(factors, np.linspace(0, 1, _GRID), method="higher"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What the contenders' fleets cost in scenarios drawn at random, everything uncertain varied together.

    `costs_usd` holds a year's cost of each, or that of a million samples where no load is stated; one entry a scenario.
    [USD]
    """

    contenders: tuple[ProcurementOption, ...]
    costs_usd: Mapping[str, FloatArray]
    varies: tuple[str, ...]


def cost_in_scenarios(
    case: Case,
    contenders: Sequence[ProcurementOption],
    *,
    draws: Draws,
    spreads: Mapping[str, PriceSpread] | None = None,
    count: int = COSTED,
) -> Drawn:
    """Cost every contender's fleet in the first scenarios drawn."""
    prices = {key: np.exp(spread.at(draws.normal(f"price of {key}"))) for key, spread in (spreads or {}).items()}
    costs = {option.key: np.empty(min(count, draws.count)) for option in contenders}
    for index in range(min(count, draws.count)):
        values = {key: float(sample[index]) for key, sample in draws.values.items()}
        latency = {option.gpu: float(draws.latency[option.gpu][index]) for option in contenders}
        scenario = replace(
            varied(case, values, latency), own_price={key: float(drawn[index]) for key, drawn in prices.items()}
        )
        for option in contenders:
            costs[option.key][index] = worth(case, recosted(case, option, scenario))
    return Drawn(
        contenders=tuple(contenders),
        costs_usd=costs,
        varies=(
            *(assumption.label for assumption in draws.assumptions),
            "Latency estimate",
            *(["Age of prices"] if spreads else []),
        ),
    )


def confidence(case: Case, drawn: Drawn, choice: ProcurementOption, loads: LoadsToCarry | None = None) -> Confidence:
    """Return how often a choice is the cheapest of the contenders, and how often its fleet suffices."""
    keys = sorted(drawn.costs_usd)
    table = np.array([drawn.costs_usd[key] for key in keys])
    best = Counter(keys[place] for place in table.argmin(axis=0))
    mine = drawn.costs_usd[choice.key]
    low, high = (float(value) for value in np.percentile(mine, [10, 90]))
    expected = worth(case, choice)
    return Confidence(
        scenarios=len(mine),
        cheapest=best[choice.key] / len(mine),
        loads=loads.draws.count if loads else 0,
        carried=loads.carried(choice) if loads else 1.0,
        expected_excess_usd_per_year=float(np.mean(mine - table.min(axis=0))),
        cost_p10_usd=min(low, expected),
        cost_p90_usd=max(high, expected),
        wins=tuple((key, count / len(mine)) for key, count in best.most_common()),
        varies=drawn.varies,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TornadoRow:
    """What one input alone does to the choice's cost; None where the load cannot be met at that end."""

    label: str
    unit: str
    low: float
    value: float
    high: float
    cost_low_usd: float | None
    cost_high_usd: float | None
    winner_low: str | None
    winner_high: str | None

    @property
    def size_usd(self) -> float:
        """Return how far apart the two ends are; infinite where one of them cannot be met."""
        if self.cost_low_usd is None or self.cost_high_usd is None:
            return math.inf
        return abs(self.cost_high_usd - self.cost_low_usd)


def sensitivity(
    case: Case, choice: ProcurementOption, *, uncertainty: Uncertainty, standards: Standards
) -> dict[str, TornadoRow]:
    """Move one input at a time to the ends of its range, by key, largest bar first; interactions are left out."""
    options = evaluate(case)
    keys = SCENARIO_KEYS if isinstance(case.load, Service) else tuple(k for k in SCENARIO_KEYS if k != "limit_factor")
    tornado_bars = {
        assumption.key: _tornado_bar(
            (case, options),
            choice,
            assumption,
            standards,
            [varied(case, {assumption.key: end}) for end in (assumption.low, assumption.high)],
        )
        for assumption in uncertainty.of_keys((*keys, *MONEY_KEYS))
    }
    if uncertainty.latency:
        bounds = uncertainty.latency.get(choice.gpu, (1.0, 1.0))
        ends = [varied(case, {}, {gpu: factors[end] for gpu, factors in uncertainty.latency.items()}) for end in (0, 1)]
        estimate = Assumption(
            key="latency", label="Latency estimate (all GPUs)", unit="× expected", value=1.0,
            low=min(1.0, bounds[0]), high=max(1.0, bounds[1]), basis="calibration", source="calibration",
        )  # fmt: skip
        tornado_bars[estimate.key] = _tornado_bar((case, options), choice, estimate, standards, ends)
    seen = {key: bar for key, bar in tornado_bars.items() if bar.size_usd > 1e-6 * worth(case, choice)}
    return dict(sorted(seen.items(), key=lambda one: -one[1].size_usd))


def _tornado_bar(
    decided: tuple[Case, Sequence[ProcurementOption]],
    choice: ProcurementOption,
    assumption: Assumption,
    standards: Standards,
    ends: Sequence[Scenario],
) -> TornadoRow:
    case, options = decided
    costs: list[float | None] = []
    winners: list[str | None] = []
    for scenario in ends:
        # Every option in a scenario: with the fleet that it has, or the one that the scenario needs if larger.
        needed = {option.key: option for option in evaluate(replace(case, reserve=None), scenario)}
        in_scenario = [
            other if other.fleets[-1].need > option.fleets[-1].need else recosted(case, option, scenario)
            for option in options
            if (other := needed.get(option.key)) is not None
        ]
        ranked = ranking(case, in_scenario, standards=standards)
        mine = [option for option in ranked if option.key == choice.key]
        costs.append(worth(case, mine[0]) if mine else None)
        winners.append(ranked[0].key if ranked else None)
    return TornadoRow(
        label=assumption.label, unit=assumption.unit, low=assumption.low, value=assumption.value, high=assumption.high,
        cost_low_usd=costs[0], cost_high_usd=costs[1], winner_low=winners[0], winner_high=winners[1],
    )  # fmt: skip


def switching_price_factor(case: Case, choice: ProcurementOption, runner_up: ProcurementOption | None) -> float | None:
    """Return the factor on the choice's price at which the runner-up is worth the same; None where there is none.

    Cost is linear in the price: rent entirely, buying in its hardware part.
    """
    if runner_up is None or choice.cost is None or runner_up.cost is None:
        return None
    extra_fraction = worth(case, runner_up) / worth(case, choice) - 1
    share = price_share(choice)
    return 1 + extra_fraction * choice.cost.per_year / share if share > 0 else None


def price_share(option: ProcurementOption) -> float:
    """Return the part of the yearly cost that is proportional to the option's price. [USD/year]"""
    if not isinstance(option.cost, OwnedCost):
        return option.cost.per_year if option.cost else 0.0
    site = replace(option.cost.site, support_usd=0.0)
    rest = replace(option.cost, gpus_usd=0.0, chassis_usd=0.0, network=0.0, site=site, residual=0.0)
    return (option.cost.per_year - rest.per_year) * option.cost.gpus_usd / option.cost.hardware


def load_switches(
    case: Case, choice: ProcurementOption, *, standards: Standards, factors: Sequence[float]
) -> dict[float, str]:
    """Return the multiples of the load from which another option is the cheapest, with its key, nearest first."""
    switches = {}
    for factor in sorted(factors, key=lambda factor: abs(math.log(factor))):
        ranked = ranking(case, evaluate(case, Scenario(load=factor)), standards=standards)
        if ranked and ranked[0].key != choice.key:
            switches[factor] = ranked[0].key
    return switches
