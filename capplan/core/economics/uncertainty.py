"""Quantify how certain a recommendation is: confidence over scenarios, sensitivity, switching points."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from capplan.core.assumed import SHARED_LATENCY_VARIANCE
from capplan.core.economics.constraints import Assumption
from capplan.core.economics.cost import OwnedCost
from capplan.core.economics.evidence import Standards
from capplan.core.economics.options import Case, ProcurementOption, Scenario, evaluate, rent_key
from capplan.core.economics.recommend import ranking, worth
from capplan.core.gpus.prices import Term
from capplan.core.numbers import NORMAL_90, FloatArray
from capplan.core.serving.load import Service


@dataclass(frozen=True, slots=True, kw_only=True)
class Confidence:
    """Shares of the scenarios, all uncertain inputs varied at once, in which the choice is best and suffices.

    Amounts are of a year; where no load is stated, of a million samples. [USD]

    Attributes:
        scenarios: Number of scenarios.
        cheapest: Share of scenarios in which the choice is still the cheapest.
        carried: Share of scenarios in which the fleet as sized carries the load within the limit.
        expected_excess_usd_per_year: What the choice costs more than the best option, on average. [USD]
        cost_p10_usd, cost_p90_usd: Percentiles of the choice's cost, its fleet sized anew in each scenario.
        wins: Share of scenarios in which each option is the cheapest, largest first.
        needs: GPUs that the last year needs in each scenario, smallest first; None where no number suffices.
        varies: Labels of what is drawn, the latency estimate among them.
    """

    scenarios: int
    cheapest: float
    carried: float
    expected_excess_usd_per_year: float
    cost_p10_usd: float
    cost_p90_usd: float
    wins: tuple[tuple[str, float], ...]
    needs: tuple[int | None, ...] = ()
    varies: tuple[str, ...] = ()

    def need_for(self, share: float) -> int | None:
        """Return the fewest GPUs that suffice in a share of the scenarios; None where no number does."""
        return self.needs[max(0, math.ceil(share * len(self.needs) - 1e-9) - 1)] if self.needs else None


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
        """Return the assumptions that have a range."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What the contenders do in scenarios drawn at random, everything uncertain varied together.

    `needs` holds the GPUs that each contender's last year needs, None where no number suffices, `costs_usd` its cost of
    a year, or of a million samples where no load is stated, with its fleet sized anew; one entry a scenario. [USD]
    """

    contenders: tuple[ProcurementOption, ...]
    needs: Mapping[str, tuple[int | None, ...]]
    costs_usd: Mapping[str, tuple[float | None, ...]]
    varies: tuple[str, ...]

    def carried(self, option: ProcurementOption) -> float:
        """Return the share of the scenarios that an option's fleet as sized carries, its spare servers aside."""
        last = option.fleets[-1]
        most = last.gpus - last.spares * last.gpus_per_server
        needs = self.needs[option.key]
        return sum(need is not None and need <= most for need in needs) / len(needs)


def draw(
    case: Case,
    contenders: Sequence[ProcurementOption],
    *,
    uncertainty: Uncertainty,
    scenarios: int,
    seed: int = 7,
    spreads: Mapping[str, PriceSpread] | None = None,
) -> Drawn:
    """Draw everything uncertain together, and size and cost every contender in each scenario.

    Assumptions are triangular over their ranges; latency factors are lognormal with the interval as their middle
    90 %, half of their variance common to all GPUs. The peak is drawn only where it has a range of its own.
    """
    uncertain = uncertainty.of_keys((*DRAWN_KEYS, *MONEY_KEYS))
    narrow = _narrowed(case, contenders)
    gpus = sorted({option.gpu for option in contenders})
    sampled = _sampled(case, uncertainty, gpus, uncertain=uncertain, count=scenarios, seed=seed, spreads=spreads or {})
    keys = [option.key for option in contenders]
    needs: dict[str, list[int | None]] = {key: [] for key in keys}
    costs: dict[str, list[float | None]] = {key: [] for key in keys}
    for scenario in sampled:
        options = {option.key: option for option in evaluate(narrow, scenario)}
        for key in keys:
            option = options.get(key)
            needs[key].append(option.fleets[-1].need if option else None)
            costs[key].append(worth(case, option) if option else None)
    return Drawn(
        contenders=tuple(contenders),
        needs={key: tuple(counts) for key, counts in needs.items()},
        costs_usd={key: tuple(amounts) for key, amounts in costs.items()},
        varies=(
            *(assumption.label for assumption in uncertain),
            "Latency estimate",
            *(["Age of prices"] if spreads else []),
        ),
    )


def confidence(drawn: Drawn, choice: ProcurementOption) -> Confidence:
    """Return how often a choice is the cheapest of the contenders, and how often its fleet suffices."""
    keys = sorted(drawn.costs_usd)
    scenarios = len(drawn.costs_usd[choice.key])
    best: Counter[str] = Counter()
    excess: list[float] = []
    for index in range(scenarios):
        priced = {key: cost for key in keys if (cost := drawn.costs_usd[key][index]) is not None}
        if not priced:
            continue
        cheapest = min(priced, key=lambda key: priced[key])
        best[cheapest] += 1
        if choice.key in priced:
            excess.append(priced[choice.key] - priced[cheapest])
    costs = [cost for cost in drawn.costs_usd[choice.key] if cost is not None]
    low, high = (float(value) for value in np.percentile(costs, [10, 90])) if costs else (math.nan, math.nan)
    wins = [(key, best[key] / scenarios) for key in keys if best[key]]
    return Confidence(
        scenarios=scenarios,
        cheapest=best[choice.key] / scenarios,
        carried=drawn.carried(choice),
        expected_excess_usd_per_year=float(np.mean(excess)) if excess else 0.0,
        cost_p10_usd=low,
        cost_p90_usd=high,
        wins=tuple(sorted(wins, key=lambda win: -win[1])),
        needs=tuple(sorted(drawn.needs[choice.key], key=lambda need: math.inf if need is None else need)),
        varies=drawn.varies,
    )


def _narrowed(case: Case, contenders: Sequence[ProcurementOption]) -> Case:
    """Return the case with the sizings and prices of the contenders alone."""
    names, keys = {option.gpu for option in contenders}, {option.key for option in contenders}
    return replace(
        case,
        sizings=tuple(sizing for sizing in case.sizings if sizing.gpu in names),
        rents=tuple(rent for rent in case.rents if rent_key(rent) in keys),
        purchases=tuple(price for price in case.purchases if f"{price.gpu}/{Term.BUY.value}" in keys),
    )


def _sampled(
    case: Case,
    uncertainty: Uncertainty,
    gpus: Sequence[str],
    *,
    uncertain: Sequence[Assumption],
    count: int,
    seed: int,
    spreads: Mapping[str, PriceSpread],
) -> Iterator[Scenario]:
    """Yield random scenarios; the same seed gives the same ones."""
    source = np.random.default_rng(seed)
    values = {
        assumption.key: source.triangular(assumption.low, assumption.value, assumption.high, count)
        for assumption in uncertain
    }
    common = source.standard_normal(count)
    own = {gpu: source.standard_normal(count) for gpu in gpus}
    prices = {key: np.exp(spreads[key].at(source.standard_normal(count))) for key in sorted(spreads)}
    for index in range(count):
        latency = {gpu: _factor(uncertainty.latency.get(gpu, (1, 1)), common[index], own[gpu][index]) for gpu in own}
        drawn = varied(case, {key: float(sample[index]) for key, sample in values.items()}, latency)
        yield replace(drawn, own_price={key: float(factors[index]) for key, factors in prices.items()})


def _factor(bounds: tuple[float, float], common: float, own: float) -> float:
    z = math.sqrt(SHARED_LATENCY_VARIANCE) * common + math.sqrt(1 - SHARED_LATENCY_VARIANCE) * own
    low, high = bounds
    end = math.log(high) if z > 0 else -math.log(low)
    return math.exp(z * end / NORMAL_90)


@dataclass(frozen=True, slots=True, kw_only=True)
class TornadoBar:
    """Effect of one input alone on the choice's yearly cost, and the cheapest option at each end."""

    key: str
    label: str
    low: float
    value: float
    high: float
    unit: str
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
) -> tuple[TornadoBar, ...]:
    """Move one input at a time to the ends of its range, largest bar first; interactions are left out."""
    keys = SCENARIO_KEYS if isinstance(case.load, Service) else tuple(k for k in SCENARIO_KEYS if k != "limit_factor")
    tornado_bars = [
        _tornado_bar(
            case,
            choice,
            assumption,
            standards,
            [varied(case, {assumption.key: end}) for end in (assumption.low, assumption.high)],
        )
        for assumption in uncertainty.of_keys((*keys, *MONEY_KEYS))
    ]
    if uncertainty.latency:
        bounds = uncertainty.latency.get(choice.gpu, (1.0, 1.0))
        ends = [varied(case, {}, {gpu: factors[end] for gpu, factors in uncertainty.latency.items()}) for end in (0, 1)]
        estimate = Assumption(
            key="latency", label="Latency estimate (all GPUs)", unit="× expected", value=1.0,
            low=min(1.0, bounds[0]), high=max(1.0, bounds[1]), basis="calibration", source="calibration",
        )  # fmt: skip
        tornado_bars.append(_tornado_bar(case, choice, estimate, standards, ends))
    return tuple(
        sorted(
            (bar for bar in tornado_bars if bar.size_usd > 1e-6 * worth(case, choice)),
            key=lambda bar: -bar.size_usd,
        )
    )


def _tornado_bar(
    case: Case, choice: ProcurementOption, assumption: Assumption, standards: Standards, ends: Sequence[Scenario]
) -> TornadoBar:
    costs: list[float | None] = []
    winners: list[str | None] = []
    for scenario in ends:
        ranked = ranking(case, evaluate(case, scenario), standards=standards)
        mine = [option for option in ranked if option.key == choice.key]
        costs.append(worth(case, mine[0]) if mine else None)
        winners.append(ranked[0].key if ranked else None)
    return TornadoBar(
        key=assumption.key, label=assumption.label, low=assumption.low, value=assumption.value, high=assumption.high,
        unit=assumption.unit, cost_low_usd=costs[0], cost_high_usd=costs[1],
        winner_low=winners[0], winner_high=winners[1],
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
    rest = replace(option.cost, gpus_usd=0.0, chassis_usd=0.0, network=0.0, support_per_year=0.0, residual=0.0)
    return (option.cost.per_year - rest.per_year) * option.cost.gpus_usd / option.cost.hardware


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSwitch:
    """The load, as a multiple of today's, from which another option is the cheapest."""

    factor: float
    winner: str


def load_switches(
    case: Case, choice: ProcurementOption, *, standards: Standards, factors: Sequence[float]
) -> tuple[LoadSwitch, ...]:
    """Return the load multiples at which another option becomes the cheapest, nearest first."""
    switches = []
    for factor in factors:
        ranked = ranking(case, evaluate(case, Scenario(load=factor)), standards=standards)
        if ranked and ranked[0].key != choice.key:
            switches.append(LoadSwitch(factor=factor, winner=ranked[0].key))
    return tuple(sorted(switches, key=lambda switch: abs(math.log(switch.factor))))
