"""Rank the deployments of a language model that carry a load within limits, and simulate the best ones."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations
from math import inf, sqrt

from capplan.core.assumed import NETWORK_BYTES_PER_S
from capplan.core.gpus.prices import Price
from capplan.core.numbers import ceil_guarded
from capplan.errors import UsageError
from capplan.llm.core.deployment import NamedDeployment
from capplan.llm.core.fleet.deployment_plan import (
    DeploymentFit,
    DeploymentPlan,
    DeploymentRejection,
    MixedFleet,
    Obstacle,
    ReplicaShare,
    rank_key,
)
from capplan.llm.core.fleet.limits import DEFAULT_CERTAINTY, PATIENCE, SATURATION
from capplan.llm.core.fleet.rented import machines_for
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.quantisation import half_note
from capplan.llm.core.search.disaggregation import disaggregated_fits
from capplan.llm.core.search.rescue import advice, near_misses, with_rescues
from capplan.llm.core.search.room import SHORTER
from capplan.llm.core.search.search import DEFAULT_ENGINES, ReplicaSizing, Search, SearchSpace
from capplan.llm.core.serving.asked import ServingTask, Statistic, drafting_words
from capplan.llm.core.sharding import ShardingChoice
from capplan.llm.core.simulation.arrivals import cached_tokens, session_arrivals
from capplan.llm.core.simulation.load_answer import LatencyLimits
from capplan.llm.core.tensors import count_active_parameters, count_parameters
from capplan.llm.core.yarn import check_length
from capplan.units import counted

MOST_SIMULATED = 24
"""Deployments whose percentiles are simulated: the best ones."""
MOST_NEAR_MISSES = 3
"""Deployments that the notes name because they may be cheaper than estimated."""
MOST_FAILED = 60
"""Deployments that may fail in the simulation before the search ends, so that it ends in time."""
_MOST_MIXED = 4
"""Pairs of kinds of GPUs that are simulated: the cheapest ones."""
_MOST_KINDS = 12
"""GPUs whose best deployments are combined: the cheapest ones."""
_LEAST_SAVING = 0.01
"""Share of the rent that two kinds must save to be named."""
_MOST_DRAWN = 20_000
"""Requests that are drawn to see what a cache keeps of conversations."""
_ENOUGH = 1e6
"""How many times its room a cache is enlarged to lose nothing: what is left then is lost to whole blocks."""
_TWO_SERVERS = ShardingChoice(tensor=(8,), pipeline=(2, 4))
"""What is tried on GPUs of which eight do not hold the model: a pipeline over servers."""


def plan_deployments(search: Search) -> DeploymentPlan:
    """Judge every deployment that a question names, and rank those that carry the load.

    Where the caches of the best one lose conversations, the plan is made again with the hits that are left.
    """
    plan, load = _planned(search), search.question.load
    hits = _hits(load, plan.fits[0]) if load.sessions and plan.fits else 1.0
    if hits > 0.95 * load.prefix_fraction:  # what is lost is less than the estimates are known to
        return plan
    return _planned(replace(search, question=replace(search.question, load=replace(load, prefix_fraction=hits))))


def _hits(load: TokenLoad, best: DeploymentFit) -> float:
    """Return the share of prompts that a replica's cache holds, by conversations that are drawn for it.

    They come at the replica's rate; the middle half of them counts, while as many begin as end.
    """
    assert load.sessions is not None
    rate_per_s = best.rate_per_s / best.needed
    message = replace(load.lengths, input_len=load.input_len - load.prefix_len, prefix_fraction=0.0, input_cv=0.0)
    wanted = 4 * load.sessions.turns * (1 + int(rate_per_s * load.sessions.period_s))
    drawn = session_arrivals(
        load.sessions, rate_per_s=rate_per_s, count=min(wanted, _MOST_DRAWN), lengths=message, longest=inf
    )
    middle = slice(len(drawn.prompts) // 4, 3 * len(drawn.prompts) // 4)
    room = best.memory.sequences_that_fit * load.cached_len
    cache = partial(cached_tokens, drawn.blocks, drawn.prompts, block_tokens=drawn.block_tokens)
    found, said = (cache(capacity_tokens=tokens)[middle].sum() for tokens in (room, _ENOUGH * room))
    return load.prefix_fraction * float(found / said) if said else 0.0


def _planned(search: Search) -> DeploymentPlan:
    question, architecture = search.question, search.model.architecture
    check_length(architecture, question.load.input_len + question.load.output_len, what=SHORTER)
    judged = {words: search.judge(words) for words in search.candidates()}
    judged |= _over_servers(search, judged)
    settled, failed, unranked_gpus = _settle(search, judged)
    over = [found for fit in settled if (found := search.over_limits(search.words_of(fit), fit))]
    fits = tuple(fit for fit in settled if not over or search.over_limits(search.words_of(fit), fit) is None)
    rejections = [judgement for judgement in judged.values() if isinstance(judgement, DeploymentRejection)]
    rescued = with_rescues(search, [*rejections, *failed, *over], fits)
    # Notes on deployments that would be cheaper if a measurement found them faster than estimated.
    unit = " requests/s" if question.load.concurrency is None else " clients"
    near_miss_notes = tuple(
        f"{miss.fit.gpu} with {miss.fit.engine}, {miss.words}, would cost {miss.usd_per_hour:.4g} instead of "
        f"{fits[0].usd_per_hour:.4g} USD/h: it carries {miss.expected:.3g}{unit} by the estimate, and "
        f"{miss.best:.3g} at the good end of its 90 % interval; a measurement would decide"
        for miss in near_misses(fits, question.load, question.limits, certainty=question.certainty_fraction)[
            :MOST_NEAR_MISSES
        ]
    )
    return DeploymentPlan(
        model=architecture.name,
        params=count_parameters(architecture),
        active_params=count_active_parameters(architecture),
        load=question.load,
        limits=question.limits,
        certainty_fraction=question.certainty_fraction,
        fits=fits,
        rejections=rescued,
        unranked_gpus=unranked_gpus,
        assumptions=_assumptions(question),
        disaggregated=disaggregated_fits(search, fits),
        mixed=_mixed(search, fits),
        notes=(
            *(note for fit in fits[:1] if (note := half_note(search.find_gpu(fit.gpu), fit.weights, fit.kv))),
            *(note for fit in fits[:1] for note in search.find(search.words_of(fit)).notes),
            *_offer_notes(question, fits),
            *_notes(question),
            *_cost_notes(question, fits),
            *near_miss_notes,
        ),
        advice=None if fits else advice(question.limits_of_answers, rescued),
    )


def check_load(load: TokenLoad) -> None:
    if (load.rate_per_s is None) == (load.concurrency is None):
        raise UsageError("state the load by one of ⟨rate⟩ (requests per second) and ⟨concurrency⟩ (clients).")
    if load.rate_per_s is not None and not 1e-9 <= load.rate_per_s < float("inf"):
        raise UsageError("⟨rate⟩ must be at least 1e-9 requests per second; a load of zero needs no GPU.")
    if load.concurrency is not None and not load.concurrency > 0:
        raise UsageError("⟨concurrency⟩ must be at least 1 client; a load of zero needs no GPU.")


_Judged = dict[NamedDeployment, DeploymentFit | DeploymentRejection]


def _over_servers(search: Search, judged: _Judged) -> _Judged:
    """Judge pipelines over two and four servers on GPUs of which eight lack the memory."""
    if not search.question.choice.is_open or search.question.offload is not None:
        return {}
    fitting = {
        words.gpu
        for words, judgement in judged.items()
        if isinstance(judgement, DeploymentFit) or judgement.obstacle is Obstacle.LIMIT
    }
    lacking = tuple(gpu for gpu in search.question.gpus if gpu not in fitting)
    wider = replace(search, question=replace(search.question, gpus=lacking, choice=_TWO_SERVERS))
    return {words: wider.judge(words) for words in wider.candidates()}


def _settle(
    search: Search, judged: _Judged
) -> tuple[tuple[DeploymentFit, ...], list[DeploymentRejection], tuple[str, ...]]:
    """Rank the deployments and simulate the best ones, which may take more replicas than the closed form says.

    Return them in order, those that failed in the simulation, and the GPUs of those that were not simulated.

    A simulation never makes a deployment cheaper, so that the cheapest one is always simulated next, with as many
    replicas as narrow down most how many it takes; no more is simulated of one that has become dearer than others. With
    limits at a percentile, deployments that were not simulated are left out: nothing is known of their percentiles.
    """
    fits = [(words, judgement) for words, judgement in judged.items() if isinstance(judgement, DeploymentFit)]
    least = {index: fit for index, (_, fit) in enumerate(fits)}
    sizings: dict[int, ReplicaSizing] = {}
    heap = [(rank_key(fit), index) for index, fit in least.items()]
    heapq.heapify(heap)
    settled: list[DeploymentFit] = []
    failed: list[DeploymentRejection] = []
    while heap and len(settled) < MOST_SIMULATED and len(failed) < MOST_FAILED:
        _, index = heapq.heappop(heap)
        if index in sizings and sizings[index].is_settled:
            settled.append(least[index])
            continue
        found = search.sized(sizings.get(index) or search.sizing(fits[index][1], fits[index][0]))
        if isinstance(found, DeploymentRejection):
            failed.append(found)
            continue
        sizings[index], least[index] = found, search.at_least(found)
        heapq.heappush(heap, (rank_key(least[index]), index))
    left = [index for _, index in heap]
    if search.question.limits.statistic is Statistic.MEAN:
        least |= {index: search.at_least(_finished(search, sizings[index])) for index in left if index in sizings}
        return (*settled, *_ranked(least, left)), failed, ()
    known = [index for index in left if index in sizings and sizings[index].is_settled]
    unranked = dict.fromkeys(least[index].gpu for index in sorted(left))
    return (*settled, *_ranked(least, known)), failed, tuple(unranked)


def _mixed(search: Search, fits: tuple[DeploymentFit, ...]) -> MixedFleet | None:
    """Return the cheapest two kinds of GPUs whose replicas keep the limits in the simulation, too."""
    load = search.question.load
    if load.rate_per_s is None or load.job is not None:
        return None
    found = mixed_fleets(fits, rate_per_s=load.rate_per_s, offered=search.offer_for)
    return next((mixed for mixed in found[:_MOST_MIXED] if all(map(search.holds, mixed.parts))), None)


def _finished(search: Search, sizing: ReplicaSizing) -> ReplicaSizing:
    while not sizing.is_settled:
        found = search.sized(sizing)
        if isinstance(found, DeploymentRejection):
            return sizing
        sizing = found
    return sizing


def _ranked(fits: dict[int, DeploymentFit], places: list[int]) -> list[DeploymentFit]:
    return [fits[index] for index in sorted(places, key=lambda index: (rank_key(fits[index]), index))]


def _assumptions(question: SearchSpace) -> tuple[str, ...]:
    load = question.load
    if load.concurrency is None:
        comes = "bursts" if load.gap_scv > 1 else "at random (Poisson)"
        arrivals = f"requests arrive {comes} at {load.rate_per_s:g}/s and are spread evenly over the replicas"
    else:
        arrivals = f"{load.concurrency:g} clients send the next request when they have their answer; all are in memory"
    statistic = question.limits.statistic
    held = "mean over requests" if statistic is Statistic.MEAN else f"{statistic.value[1:]}th percentile of requests"
    assumed = []
    if question.limits.are_set and question.certainty_fraction != 0.5:
        assumed.append(
            f"the intervals keep the limits with a probability of {question.certainty_fraction:.0%} (⟨certainty⟩): "
            "expected times lie below them"
        )
    if question.network_bytes_per_s is None:
        assumed.append(
            "replicas over several rented machines are timed in the network that their provider states; where none "
            f"is rented, {NETWORK_BYTES_PER_S / 1e9:g} GB/s for each GPU, one direction, are assumed (⟨network⟩ states "
            "yours)"
        )
    return (
        arrivals,
        f"{load.input_len:g} tokens in and {load.output_len:g} tokens out on average; {_reuse(load)}",
        f"limits are held by the {held}; the best deployments are simulated, request by "
        "request, and the simulation decides",
        *assumed,
        f"a replica is planned with up to {SATURATION:.0%} of the rate at which it is full",
        "rent is that of whole machines on demand, of the offer that holds all replicas at the least cost: a replica "
        "stands in one machine, within the fast links that its times assume, or in several with a known network",
    )


def _offer_notes(question: SearchSpace, fits: tuple[DeploymentFit, ...]) -> tuple[str, ...]:
    """Return notes on the cheapest price per GPU that looks cheaper than the recommended fleet, and why it is none."""
    if not fits or question.own_gpus is not None:
        return ()
    best = fits[0]
    if best.rent is None:
        return (f"no offer of the price list holds {best.words}: ask for a quote before deciding",)
    seeming = [
        (fit.gpus * offer.usd_per_hour, fit, offer)
        for fit in fits
        for offer in question.offers_of(fit.gpu)
        if machines_for(offer.server, fit.sharding, fit.replicas, timed=fit.server) is None
    ]
    usd_per_hour, fit, offer = min(seeming, key=lambda seemed: seemed[0], default=(inf, best, best.rent))
    if usd_per_hour >= (best.usd_per_hour or inf):
        return ()
    return (
        f"{fit.gpus} × {fit.gpu} at {offer.usd_per_hour:.4g} USD per GPU-hour would be {usd_per_hour:.4g} USD/h, but a "
        f"machine of that offer ({offer.machine_words}) has {_lacking(offer, fit)}",
    )


def _lacking(offer: Price, fit: DeploymentFit) -> str:
    """Return what the machine of an offer has too little of for a replica."""
    server, group = offer.server, fit.sharding.tensor * fit.sharding.data
    held, exchange = counted(server.gpus, "GPU"), f"and {group} exchange data in every layer"
    if server.gpus < fit.sharding.gpus and server.network_bytes_per_s is None:
        return (
            f"{held} and no known network to others, and {fit.sharding.gpus} are one replica (⟨network⟩ states yours)"
        )
    if server.gpus < group:
        return f"{held}, {exchange}"
    if server.joined < group <= fit.server.joined:
        joined = "joined by no fast link" if server.joined == 1 else f"of which fast links join {server.joined}"
        return f"{held}, {joined}, {exchange}"
    return f"{held} and a slower network than is timed, and {fit.sharding.gpus} are one replica"


def _notes(question: SearchSpace) -> tuple[str, ...]:
    """Return notes on what was not searched, and on why a measured run can be cheaper than the fleet."""
    engines = [engine for engine in DEFAULT_ENGINES if engine not in question.engines]
    notes = []
    if engines:
        notes.append(f"not searched: {', '.join(engines)} (⟨engine⟩), which may carry the load on fewer GPUs")
    if question.weights == ("",):
        notes.append("weights are in the checkpoint's own format; narrower ones (⟨weights⟩ fp8, awq) were not searched")
    if question.limits.statistic is not Statistic.MEAN:
        notes.append(f"the {MOST_SIMULATED} best deployments stand here; percentiles of others were not simulated")
    notes.append(
        "a run that was measured at full load can cost less per token than this fleet, which keeps the limits with "
        f"whole replicas and {1 - SATURATION:.0%} of headroom at this very load"
    )
    return tuple(notes)


def _cost_notes(question: SearchSpace, fits: tuple[DeploymentFit, ...]) -> tuple[str, ...]:
    """Return the range of a token's cost where a fixed number of clients gets what the estimated speed gives."""
    cost = fits[0].usd_per_million_output_tokens if fits else None
    if question.load.concurrency is None or cost is None:
        return ()
    tpot = fits[0].tpot_s
    low, high = cost * tpot.low / tpot.expected, cost * tpot.high / tpot.expected
    return (
        f"cost follows the estimated speed: {low:.3g} to {high:.3g} USD per million output tokens in its interval, "
        "so that a measured run of the same deployment may cost less",
    )


def _reuse(load: TokenLoad) -> str:
    held = load.prefix_fraction or load.sessions
    prefix = f"{load.prefix_fraction:.0%} of a prompt in the prefix cache" if held else "no prefix cache"
    if load.sessions is not None:  # what was said follows from the mean and the variance of prompts
        said = load.input_cv * sqrt(3 * (load.sessions.turns - 1) / (load.sessions.turns + 1))
        prefix += f", of {said:.0%} that were said before"
    if load.speculation is None:
        return f"{prefix}, no speculation"
    drafts, acceptance = load.speculation.drafts, load.speculation.acceptance
    drafted = f"{prefix}, {drafts} drafted tokens of which each is accepted with {acceptance:.0%}"
    words = drafting_words(load.speculation.drafter)
    return f"{drafted}; {words[0].lower()}{words[1:]}"


def mixed_fleets(
    fits: Sequence[DeploymentFit], *, rate_per_s: float, offered: Callable[[DeploymentFit], DeploymentFit]
) -> list[MixedFleet]:
    """Return two kinds of replicas that carry a load together for less than one kind, the cheapest first.

    Replicas are filled up to the rate that one of their kind carries within the limits, all by the same share. Spare
    replicas are of the kind that carries more.
    """
    if not fits or fits[0].usd_per_hour is None:
        return []
    kinds: dict[str, DeploymentFit] = {}
    for fit in fits:
        if fit.simulated is not None and fit.rent is not None and fit.is_transferred <= fits[0].is_transferred:
            kinds.setdefault(fit.gpu, fit)
    found = [
        mixed
        for first, second in permutations(list(kinds.values())[:_MOST_KINDS], 2)
        for count in range(1, first.needed)
        if (mixed := _two_kinds(first, count, second, rate_per_s, offered)) is not None
    ]
    most = (1.0 - _LEAST_SAVING) * fits[0].usd_per_hour
    return sorted((mixed for mixed in found if mixed.usd_per_hour < most), key=lambda mixed: mixed.usd_per_hour)


def _two_kinds(
    one: DeploymentFit,
    count: int,
    other: DeploymentFit,
    rate_per_s: float,
    offered: Callable[[DeploymentFit], DeploymentFit],
) -> MixedFleet | None:
    rest = rate_per_s - count * one.max_rate_per_s
    if rest <= 0:
        return None
    counts = (count, ceil_guarded(rest / other.max_rate_per_s))
    carried = sum(number * fit.max_rate_per_s for fit, number in zip((one, other), counts, strict=True))
    spare = one.replicas - one.needed
    spares = (spare, 0) if one.max_rate_per_s >= other.max_rate_per_s else (0, spare)
    parts = tuple(
        ReplicaShare(
            fit=offered(replace(fit, needed=number, replicas=number + extra)),
            share=number * fit.max_rate_per_s / carried,
        )
        for fit, number, extra in zip((one, other), counts, spares, strict=True)
    )
    costs = [part.fit.usd_per_hour for part in parts]
    priced = [cost for cost in costs if cost is not None]
    return MixedFleet(parts=(parts[0], parts[1]), usd_per_hour=sum(priced)) if len(priced) == len(costs) else None


def is_read_by_people(load: TokenLoad, limits: LatencyLimits) -> bool:
    """Return True if a load is a stream of requests for text without limits, which is held to a reader's patience."""
    is_stream = load.rate_per_s is not None and load.job is None
    return is_stream and load.task == ServingTask.GENERATE and not limits.are_set


def with_patience(question: SearchSpace, *, certainty_fraction: float | None) -> SearchSpace:
    """Return a search with the limits and the certainty that hold where they are not stated."""
    if not is_read_by_people(question.load, question.limits):
        return replace(question, certainty_fraction=certainty_fraction or DEFAULT_CERTAINTY)
    patience = replace(PATIENCE, statistic=question.limits.statistic)
    return replace(question, limits=patience, certainty_fraction=certainty_fraction or 0.5)


def with_patience_note(plan: DeploymentPlan, stated: LatencyLimits, *, words: str) -> DeploymentPlan:
    """Return a plan that says first that a reader's patience was held, where it was."""
    return replace(plan, notes=(words, *plan.notes)) if is_read_by_people(plan.load, stated) else plan
