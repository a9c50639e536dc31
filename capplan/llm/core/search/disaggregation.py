"""Compare serving prefill and decode on the same replicas with serving them on replicas of their own."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import permutations, product

from capplan.core.assumed import NETWORK_BYTES_PER_S
from capplan.core.gpus.machines import GpuServer
from capplan.core.gpus.prices import Price
from capplan.llm.core.fleet.deployment_plan import DeploymentFit
from capplan.llm.core.fleet.disaggregated import DisaggregatedFit, Side, disaggregate
from capplan.llm.core.fleet.limits import expected_limits
from capplan.llm.core.fleet.rented import best_offer
from capplan.llm.core.search.search import Search
from capplan.llm.core.sharding import Sharding

_MOST_GPUS = 5
_MOST_ANSWERS = 5
_MOST_MIXED_SIDES = 2
"""Sides of each GPU that are tried with those of another GPU: its best ones."""


def disaggregated_fits(search: Search, fits: tuple[DeploymentFit, ...]) -> tuple[DisaggregatedFit, ...]:
    """Return the best disaggregated deployments on the GPUs of the best aggregated ones, the cheapest first.

    Every pair of ways in which the aggregated deployments of a GPU share the model is tried, one for the prompts and
    one for the answers. The best of these sides are then tried with those of other GPUs in the same engine and formats,
    where one provider rents both kinds at one place.
    """
    if search.question.load.rate_per_s is None or search.question.load.output_len <= 1:
        return ()
    by_gpu = {fit.gpu: fit for fit in reversed(fits)}
    best = [by_gpu[gpu] for gpu in dict.fromkeys(fit.gpu for fit in fits)][:_MOST_GPUS]
    sides = {fit.gpu: _sides(search, fit, fits) for fit in best}
    found: list[DisaggregatedFit] = []
    prefills, decodes = {}, {}
    for fit in best:
        alike = _pairs(search, fit, sides[fit.gpu], sides[fit.gpu])
        placed = _placing(search, fit.gpu, fit.gpu)
        own = _ranked(at_one for pair in alike for at_one in (*placed(pair), pair))
        found += own
        prefills[fit.gpu] = _first(sides[fit.gpu], [pair.prefill.sharding for pair in own])
        decodes[fit.gpu] = _first(sides[fit.gpu], [pair.decode.sharding for pair in own])
    for fit, other in permutations(best, 2):
        if (fit.engine, fit.weights, fit.kv) == (other.engine, other.weights, other.kv):
            mixed = _pairs(search, fit, prefills[fit.gpu], decodes[other.gpu])
            placed = _placing(search, fit.gpu, other.gpu)
            found += [at_one for pair in mixed for at_one in placed(pair)]
    kept: dict[tuple[str, str], DisaggregatedFit] = {}
    for pair in _ranked(found):
        kept.setdefault((pair.prefill.gpu, pair.decode.gpu), pair)
    return tuple(kept.values())[:_MOST_ANSWERS]


def _placing(search: Search, prefill: str, decode: str) -> Callable[[DisaggregatedFit], list[DisaggregatedFit]]:
    """Return what gives a deployment the offers of each place that has both GPUs: caches cross its network."""
    least = _network(search, prefill, decode)
    there: list[dict[tuple[str, str], list[Price]]] = [{}, {}]
    for known, gpu in zip(there, (prefill, decode), strict=True):
        for offer in search.question.offers_of(gpu):
            if (offer.server.network_bytes_per_s or 0.0) >= least:
                known.setdefault((offer.provider, offer.region), []).append(offer)
    places = sorted(there[0].keys() & there[1].keys())

    @cache
    def rent(place: tuple[str, str], at: int, replicas: int, sharding: Sharding, server: GpuServer) -> Price | None:
        return best_offer(there[at][place], sharding, replicas, timed=server)

    def placed(fit: DisaggregatedFit) -> list[DisaggregatedFit]:
        sides = (fit.prefill, fit.decode)
        rents = [
            [rent(place, at, side.replicas, side.sharding, side.server) for at, side in enumerate(sides)]
            for place in places
        ]
        return [
            replace(fit, prefill=replace(fit.prefill, rent=first), decode=replace(fit.decode, rent=second))
            for first, second in rents
            if first is not None and second is not None
        ]

    return placed


def _network(search: Search, *gpus: str) -> float:
    """Return the network over which caches move, that of one GPU: as stated, else the slowest known one of the offers.

    [bytes/s]
    """
    asked = search.question
    known = [network for gpu in gpus for offer in asked.offers_of(gpu) if (network := offer.server.network_bytes_per_s)]
    return asked.network_bytes_per_s or min(known, default=NETWORK_BYTES_PER_S)


def _ranked(found: Iterable[DisaggregatedFit]) -> list[DisaggregatedFit]:
    return sorted(found, key=lambda fit: (fit.usd_per_hour is None, fit.usd_per_hour or 0.0, fit.gpus))


def _first(sides: Sequence[Side], best: Sequence[Sharding]) -> list[Side]:
    wanted = list(dict.fromkeys(best))[:_MOST_MIXED_SIDES]
    return [side for side in sides if side.sharding in wanted]


def _sides(search: Search, best: DeploymentFit, fits: tuple[DeploymentFit, ...]) -> list[Side]:
    """Return the ways in which the aggregated deployments of a GPU share the model."""
    same = [fit for fit in fits if (fit.gpu, fit.engine, fit.weights) == (best.gpu, best.engine, best.weights)]
    found = {fit.sharding: fit for fit in reversed(same) if fit.sharding.pipeline == 1}
    return [_side(search, fit) for fit in reversed(found.values())]


def _pairs(
    search: Search, best: DeploymentFit, prefills: Sequence[Side], decodes: Sequence[Side]
) -> Iterator[DisaggregatedFit]:
    asked = search.question
    for prefill, decode in product(prefills, decodes):
        found = disaggregate(
            prefill,
            decode,
            load=asked.load,
            limits=expected_limits(
                asked.limits, certainty=asked.certainty_fraction, ttft=best.ttft_s, tpot=best.tpot_s
            ),
            names=(best.engine, best.weights),
            link_bytes_per_s=_network(search, prefill.gpu, decode.gpu),
            redundancy=asked.redundancy,
        )
        if found is not None:
            yield found


def _side(search: Search, fit: DeploymentFit) -> Side:
    deployment = search.find(search.words_of(fit))
    return Side(
        gpu=fit.gpu,
        service=search.service(deployment),
        sharding=fit.sharding,
        demand=search.demand(deployment, search.capacity(deployment)),
        kv_bytes_per_token=deployment.stage.cache.bytes_per_token,
        server=fit.server,
    )
