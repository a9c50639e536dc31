"""Compare serving prefill and decode on the same replicas with serving them on replicas of their own."""

from collections.abc import Iterator
from dataclasses import replace

from capplan.llm.core.deployment import DeploymentWords, ServingDeployment
from capplan.llm.core.fleet.deployment_plan import DeploymentFit
from capplan.llm.core.fleet.disaggregated import DisaggregatedFit, Offer, Side, disaggregate
from capplan.llm.core.search.search import Search
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.timing.machine import NETWORK_BYTES_PER_S

_MOST_GPUS = 5
_MOST_ANSWERS = 5


def disaggregated_fits(search: Search, fits: tuple[DeploymentFit, ...]) -> tuple[DisaggregatedFit, ...]:
    """Return the best disaggregated deployments on the GPUs of the best aggregated ones, the cheapest first.

    Every pair of ways in which the aggregated deployments of a GPU share the model is tried, one for the prompts and
    one for the answers.

    Args:
        search: The question and what it takes to judge.
        fits: The aggregated deployments, the best first.
    """
    if search.question.load.rate_per_s is None or search.question.load.output_len <= 1:
        return ()
    found = [each for best in _best_of_gpus(fits) for each in _pairs(search, best, fits)]
    found.sort(key=lambda each: (each.usd_per_hour is None, each.usd_per_hour or 0.0, each.gpus))
    kept: dict[str, DisaggregatedFit] = {}
    for each in found:
        kept.setdefault(each.gpu, each)
    return tuple(kept.values())[:_MOST_ANSWERS]


def _best_of_gpus(fits: tuple[DeploymentFit, ...]) -> list[DeploymentFit]:
    best: dict[str, DeploymentFit] = {}
    for fit in fits:
        best.setdefault(fit.gpu, fit)
    return list(best.values())[:_MOST_GPUS]


def _pairs(search: Search, best: DeploymentFit, fits: tuple[DeploymentFit, ...]) -> Iterator[DisaggregatedFit]:
    asked = search.question
    same = [fit for fit in fits if (fit.gpu, fit.engine, fit.weights) == (best.gpu, best.engine, best.weights)]
    sides = {fit.sharding: _side(search, words_of_fit(search, fit)) for fit in same if fit.sharding.pipeline == 1}
    offer = Offer(
        gpu=best.gpu,
        engine=best.engine,
        weights=best.weights,
        rent=best.rent,
        fast_gpus=best.fast_gpus,
        redundancy=asked.redundancy,
    )
    for prefill in sides.values():
        for decode in sides.values():
            found = disaggregate(
                prefill,
                decode,
                load=asked.load,
                limits=asked.limits,
                offer=offer,
                link_bytes_per_s=asked.network_bytes_per_s or NETWORK_BYTES_PER_S,
            )
            if found is not None:
                yield found


def words_of_fit(search: Search, fit: DeploymentFit) -> DeploymentWords:
    """Return the words that name the deployment of a fit.

    Args:
        search: The question.
        fit: A deployment that carries the load.
    """
    fast_gpus = search.fast_gpus(fit.gpu)
    words = search.question.words(
        gpu=fit.gpu, engine=fit.engine, sharding=fit.sharding, weights=fit.weights, fast_gpus=fast_gpus
    )
    return replace(words, kv=fit.kv)


def _side(search: Search, words: DeploymentWords) -> Side:
    deployment: ServingDeployment = search.find(words)
    sharding: Sharding = words.sharding
    return Side(
        service=search.service(deployment),
        sharding=sharding,
        capacity=deployment.sequences_that_fit(search.question.load.cached_len),
        kv_bytes_per_token=deployment.stage.cache.bytes_per_token,
    )
