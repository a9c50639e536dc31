"""Work out what a report on serving a language model shows around its plan: a replica over its load, sensitivities."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from capplan.llm.core.fleet.deployment_plan import DeploymentFit, DeploymentPlan, rank_key
from capplan.llm.core.fleet.money import Variation
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.search.plan import plan_deployments
from capplan.llm.core.search.search import Search
from capplan.llm.core.search.simulate import SimulatedLoads, simulate_serving
from capplan.llm.core.sharding import ShardingChoice
from capplan.llm.core.simulation.load_answer import Simulation

_LOADS = (0.1, 0.25, 0.4, 0.55, 0.7, 0.8, 0.9, 0.95, 1.05)
"""Shares of the saturation rate at which the replica is simulated."""
_SIMULATED_REQUESTS = 3_000
_FACTORS = (0.5, 2.0)
_HITS = (0.0, 0.25, 0.5, 0.75, 0.9)
_PRICES = (0.7, 1.3, 2.0)
_RIVALS = 6
"""Kinds of GPU, the cheapest now, among which the cheapest deployment under a changed load is looked for."""


def over_load(search: Search, best: DeploymentFit) -> Simulation:
    """Simulate one replica of the recommended deployment from idle to beyond saturation."""
    question, calibration = search.question, search.calibration
    load = question.load
    full = max(point.rate_per_s for point in best.curve) * calibration.engines[best.engine].offline_scale
    words = question.words(
        gpu=best.gpu,
        engine=best.engine,
        sharding=best.sharding,
        weights=best.weights,
        server=best.server,
    )
    return simulate_serving(
        search.find,
        replace(words, kv=best.kv),
        SimulatedLoads(
            loads=tuple(replace(load, rate_per_s=share * full, concurrency=None) for share in _LOADS),
            limits=question.limits,
            requests=_SIMULATED_REQUESTS,
        ),
        calibration=calibration,
        power_law=search.power_law,
    )


def variations(search: Search, plan: DeploymentPlan, best: DeploymentFit) -> Iterator[Variation]:
    """Plan the recommended deployment again with another load, other lengths, hits and prices."""
    load = search.question.load
    carrying, refused = (fit.gpu for fit in plan.fits), (rejection.gpu for rejection in plan.rejections)
    rivals = tuple(dict.fromkeys((best.gpu, *carrying, *refused)))[:_RIVALS]
    varied = partial(_varied, search, best, rivals)
    for factor in _FACTORS:
        yield varied(_scaled(load, factor), group="load", label=f"× {factor:g}")
    for factor in _FACTORS:
        longer = replace(load, input_len=load.input_len * factor)
        yield varied(longer, group="length of prompts", label=f"{longer.input_len:g} tokens")
    for factor in _FACTORS:
        longer = replace(load, output_len=max(1.0, load.output_len * factor))
        yield varied(longer, group="length of answers", label=f"{longer.output_len:g} tokens")
    for share in _HITS:
        yield varied(replace(load, prefix_fraction=share), group="prefix-cache hits", label=f"{share:.0%}")
    for factor in _PRICES if best.rent is not None else ():
        yield _priced(plan, best, factor)


def _varied(
    search: Search, best: DeploymentFit, rivals: tuple[str, ...], load: TokenLoad, *, group: str, label: str
) -> Variation:
    """Plan the deployment for another load, and look for a cheaper one among some kinds of GPU."""
    own = best.sharding
    question = replace(
        search.question,
        load=load,
        gpus=(best.gpu,),
        engines=(best.engine,),
        weights=(best.weights,),
        kv=best.kv,
        choice=ShardingChoice(tensor=(own.tensor,), pipeline=(own.pipeline,), expert=(own.expert,), data=(own.data,)),
    )
    free = replace(search, adjustment=lambda _: None)
    found = plan_deployments(replace(free, question=question)).recommended
    others = replace(search.question, load=load, gpus=rivals, engines=(best.engine,))
    first = plan_deployments(replace(free, question=others)).recommended
    return Variation(group=group, label=label, fit=found, best=_named(first, best) if _is_less(first, found) else None)


def _scaled(load: TokenLoad, factor: float) -> TokenLoad:
    if load.rate_per_s is not None:
        return replace(load, rate_per_s=load.rate_per_s * factor)
    return replace(load, concurrency=(load.concurrency or 1.0) * factor)


def _priced(plan: DeploymentPlan, best: DeploymentFit, factor: float) -> Variation:
    """Change the rent of the recommended GPU, and name the deployment that is first then."""

    def changed(fit: DeploymentFit) -> DeploymentFit:
        if fit.gpu != best.gpu or fit.rent is None:
            return fit
        return replace(fit, rent=replace(fit.rent, usd_per_hour=fit.rent.usd_per_hour * factor))

    first = min(map(changed, plan.fits), key=rank_key)
    return Variation(group=f"rent of {best.gpu}", label=f"× {factor:g}", fit=changed(best), best=_named(first, best))


def _is_less(first: DeploymentFit | None, found: DeploymentFit | None) -> bool:
    """Return True if a deployment costs less than another, or carries a load that the other does not."""
    if first is None or found is None:
        return first is not None
    return first.cost_usd is not None and (found.cost_usd is None or first.cost_usd < found.cost_usd * (1 - 1e-9))


def _named(first: DeploymentFit | None, best: DeploymentFit) -> str | None:
    """Name the deployment that is first with its cost; None where it is the recommended one."""
    if first is None or (first.gpu, first.sharding, first.weights, first.engine) == (
        best.gpu,
        best.sharding,
        best.weights,
        best.engine,
    ):
        return None
    cost = "" if first.usd_per_hour is None else f", {first.usd_per_hour:,.2f} USD/h"
    return f"{first.gpu}, {first.words}{cost}"
