"""Judge the deployments of a language model one by one: what fits, how fast it answers, how many replicas it takes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from math import inf

import numpy as np

from capplan.core.assumed import NETWORK_BYTES_PER_S
from capplan.core.engine_names import Engine
from capplan.core.gpus.machines import GpuServer, usual_server
from capplan.core.gpus.prices import Price
from capplan.core.gpus.spec import GpuSpec
from capplan.core.numbers import End, Interval, ceil_guarded
from capplan.core.power import PowerLaw
from capplan.errors import CapplanError
from capplan.llm.core.deployment import NamedDeployment, ReplicaSettings, ServingDeployment
from capplan.llm.core.engines import LlmMemoryConstants
from capplan.llm.core.fleet.deployment_plan import (
    DeploymentFit,
    DeploymentRejection,
    Obstacle,
    ReplicaMemory,
    ReplicaShare,
)
from capplan.llm.core.fleet.limits import (
    BrokenLimit,
    broken_at,
    broken_limit,
    expected_limits,
    fullest_point,
    highest_point,
)
from capplan.llm.core.fleet.rented import best_offer, server_for
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.model_query import LanguageModel
from capplan.llm.core.search.measured_runs import serving_width
from capplan.llm.core.search.replica import Replica, request_demand
from capplan.llm.core.serving.asked import Statistic
from capplan.llm.core.serving.cases import Metric, Serving
from capplan.llm.core.serving.energy import ServedTokens, ServingEnergy, load_energy
from capplan.llm.core.serving.evidence import (
    MEASURED_HERE,
    Adjustment,
    ServingEvidence,
    deciding,
    interval,
    is_known,
    not_known_words,
    widened,
)
from capplan.llm.core.serving.load_curve import LoadPoint, load_curve, load_points, point_at_rate
from capplan.llm.core.serving.service import Demand, ServedDeployment
from capplan.llm.core.sharding import HostOffload, Sharding, ShardingChoice, shardings
from capplan.llm.core.simulation.load_answer import LatencyLimits, LoadAnswer
from capplan.llm.core.timing.calibration import LlmCalibration, Width
from capplan.llm.core.timing.constants import Constants
from capplan.units import format_watts

DEFAULT_ENGINES = ("vllm", "sglang", "trtllm")
"""Engines that are searched where none is named: those whose runs the constants were learnt from."""
SIMULATED_REQUESTS = 2_000
DRAW_OPTION = "⟨max-power-draw⟩"
PRICE_OPTION, OFFER_OPTION = "⟨max-price⟩", "⟨provider⟩"
_TOLERANCE = 1.02
"""A simulated mean within 2 % of a limit counts as kept: the random numbers of 2,000 requests move it by about that."""
_SEARCHED_WITHIN = 0.05
"""Share of the replicas within which their least number is searched for."""
_MOST_GROWTH = 4.0
"""Replicas over those that mean times need, beyond which a percentile is taken to be out of reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSpace(ReplicaSettings):
    """A model, a load and limits, and the deployments to search.

    Attributes:
        gpus: Ids of GPUs to consider.
        weights: Weight formats to consider; an empty word stands for the checkpoint's own.
        choice: Ways to share a model between the GPUs of a replica.
        batch_limits: Sequences at a time to consider; 0 stands for the engine's default.
        certainty_fraction: Probability with which the limits should be kept, as the intervals say.
        redundancy: Replicas beyond need (N+k).
        rents: The on-demand offers of GPUs, by id.
        offload: What llama.cpp leaves in host memory; None for nothing.
        max_power_draw_w: Most mean power of all GPUs; None for any. [W]
        max_usd_per_hour: Most rent of all machines; None for any. [USD/h]
        is_rented: True if only what the offers hold is asked for.
        states_spread: True if the load's spread is the user's.
        own_gpus: GPUs of the one machine that is planned for, which is not rented; None for any that can be rented.
    """

    load: TokenLoad
    limits: LatencyLimits
    gpus: tuple[str, ...]
    engines: tuple[str, ...] = DEFAULT_ENGINES
    weights: tuple[str, ...] = ("",)
    choice: ShardingChoice = field(default_factory=ShardingChoice)
    batch_limits: tuple[int, ...] = (0,)
    certainty_fraction: float = 0.5
    redundancy: int = 0
    rents: dict[str, tuple[Price, ...]] = field(default_factory=dict)
    offload: HostOffload | None = None
    max_power_draw_w: float | None = None
    max_usd_per_hour: float | None = None
    is_rented: bool = False
    states_spread: bool = False
    own_gpus: int | None = None

    @property
    def limits_of_answers(self) -> LatencyLimits:
        """Return the limits on times: no answer of a job takes longer than the job may."""
        job = self.load.job
        return self.limits if job is None else replace(self.limits, e2e_s=min(job.within_s, self.limits.e2e_s or inf))

    def offers_of(self, gpu: str) -> tuple[Price, ...]:
        """Return the offers of a GPU, in the network that is stated."""
        offers, stated = self.rents.get(gpu, ()), self.network_bytes_per_s
        if stated is None:
            return offers
        return tuple(replace(offer, own_network_bytes_per_s=stated) for offer in offers)

    def words(self, *, gpu: str, engine: str, sharding: Sharding, weights: str, server: GpuServer) -> NamedDeployment:
        """Return the words of a deployment of the model, with what is asked of all of them."""
        settings = {item.name: getattr(self, item.name) for item in fields(ReplicaSettings)}
        return NamedDeployment(
            **settings, gpu=gpu, engine=engine, sharding=sharding, weights=weights, server=server,
            drafter=self.load.speculation.drafter if self.load.speculation else None,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Search:
    """A question, and what it takes to judge deployments.

    Attributes:
        find: Returns the deployment that words name, or raises a CapplanError.
        find_gpu: Returns the GPU of an id.
        memory: Memory rules of the engines.
        calibration: Constants of the time model, as they were learnt.
        constants: The same in the form that predictions read.
        adjustment: Returns what measured runs say of a deployment; None where there is none of it.
        power_law: The law of power; None where energy is not asked for.
        checkpoint: Returns the repository of a known checkpoint of the model that is stored in a format.
        draft_model: The model or head that a drafter names; None for none.
    """

    question: SearchSpace
    model: LanguageModel
    find: Callable[[NamedDeployment], ServingDeployment]
    find_gpu: Callable[[str], GpuSpec]
    memory: LlmMemoryConstants
    calibration: LlmCalibration
    constants: Constants
    adjustment: Callable[[ServingDeployment], Adjustment | None] = lambda _: None
    power_law: PowerLaw | None = None
    checkpoint: Callable[[str], str | None] = lambda _: None
    draft_model: LanguageModel | None = None

    def candidates(self) -> Iterator[NamedDeployment]:
        asked = self.question
        for gpu in asked.gpus:
            for engine in asked.engines:
                for sharding in self._shardings(splits_once=engine == Engine.LLAMACPP):
                    server = self.server(gpu, sharding)
                    for weights in asked.weights:
                        words = asked.words(gpu=gpu, engine=engine, sharding=sharding, weights=weights, server=server)
                        yield from (replace(words, max_sequences=limit or None) for limit in asked.batch_limits)

    def _shardings(self, *, splits_once: bool) -> Iterator[Sharding]:
        """Yield the ways to share the model; GPUs beside a host that computes a part of it divide its layers."""
        choice, offload = self.question.choice, self.question.offload
        if offload is not None and choice.is_open:
            choice = replace(choice, tensor=(1,), pipeline=(1, 2, 4, 8))
        has_experts = self.model.architecture.is_moe
        for sharding in shardings(choice, has_experts=has_experts, splits_once=splits_once):
            yield replace(sharding, offload=offload)

    def server(self, gpu: str, sharding: Sharding) -> GpuServer:
        """Return the server in which a replica is timed: of those that are rented, else the usual one of the GPU."""
        network = self.question.network_bytes_per_s or NETWORK_BYTES_PER_S
        usual = usual_server(self.find_gpu(gpu), network_bytes_per_s=network)
        return server_for((offer.server for offer in self.question.offers_of(gpu)), sharding, usual=usual)

    def words_of(self, fit: DeploymentFit) -> NamedDeployment:
        words = self.question.words(
            gpu=fit.gpu,
            engine=fit.engine,
            sharding=fit.sharding,
            weights=fit.weights,
            server=fit.server,
        )
        return replace(words, kv=fit.kv, max_sequences=fit.max_sequences)

    def offer_for(self, fit: DeploymentFit) -> DeploymentFit:
        """Return a deployment with the offer whose machines hold all its replicas at the least cost."""
        offers = self.question.offers_of(fit.gpu)
        return replace(fit, rent=best_offer(offers, fit.sharding, fit.replicas, timed=fit.server))

    def judge(self, words: NamedDeployment) -> DeploymentFit | DeploymentRejection:
        """Return how a deployment carries the load by its mean times, or why it does not."""
        try:
            deployment = self.find(words)
        except CapplanError as error:
            return rejection(words, str(error), Obstacle.SETTING)
        load, capacity = self.question.load, self.capacity(deployment)
        if capacity < 1:
            return rejection(words, _memory_reason(deployment, load.cached_len), Obstacle.MEMORY)
        curve = load_curve(self.service(deployment), self.demand(deployment, capacity))
        limits = self.expected_limits(deployment)
        broken = broken_at(curve[0], limits, load.output_len)
        if broken is not None:
            return limit_rejection(words, self._asked(broken), "even with one request at a time")
        fit = self._fit(deployment, curve, capacity, limits)
        return self.over_limits(words, fit) or fit

    def over_limits(self, words: NamedDeployment, fit: DeploymentFit) -> DeploymentRejection | None:
        """Return a rejection if a fleet draws or costs more than it may, or no machine that is asked for holds it."""
        own = self.question.own_gpus
        if own is not None and fit.gpus > own:
            return rejection(words, f"{fit.words} are more than the {own} of this machine", Obstacle.LIMIT)
        return self._over_draw(words, fit) or self._over_price(words, fit)

    def _over_price(self, words: NamedDeployment, fit: DeploymentFit) -> DeploymentRejection | None:
        most, cost = self.question.max_usd_per_hour, fit.usd_per_hour
        if cost is None and (self.question.is_rented or most is not None):
            reason = f"no offer asked for holds {fit.words}"
            return replace(rejection(words, reason, Obstacle.LIMIT), broken_option=OFFER_OPTION)
        if most is None or cost is None or cost <= most:
            return None
        reason = f"{fit.words} cost {cost:,.2f} USD/h; at most {most:,.2f} may be spent{self._bought_for(fit, most)}"
        return replace(rejection(words, reason, Obstacle.LIMIT), broken_option=PRICE_OPTION, usd_per_hour=cost)

    def _bought_for(self, fit: DeploymentFit, most: float) -> str:
        """Return what of a fleet an amount an hour rents, and which share of the load that carries."""
        low, high = 0, fit.needed - 1
        while low < high:
            middle = (low + high + 1) // 2
            less = self.offer_for(replace(fit, replicas=middle, needed=middle))
            low, high = (middle, high) if (less.usd_per_hour or inf) <= most else (low, middle - 1)
        if low == 0:
            return ", less than one replica costs"
        return f", which rents {replace(fit, replicas=low).words} for {low / fit.needed:.0%} of the load"

    def _over_draw(self, words: NamedDeployment, fit: DeploymentFit) -> DeploymentRejection | None:
        """Return a rejection if all GPUs of a fleet draw more than they may, or their power is not known."""
        most = self.question.max_power_draw_w
        if most is None or (fit.energy is not None and fit.energy.power_w.expected <= most):
            return None
        drawn = "an unknown power" if fit.energy is None else format_watts(fit.energy.power_w.expected)
        reason = f"its GPUs draw {drawn}; {DRAW_OPTION} is {format_watts(most)}"
        return replace(rejection(words, reason, Obstacle.LIMIT), broken_option=DRAW_OPTION)

    def service(self, deployment: ServingDeployment) -> ServedDeployment:
        learnt = self.adjustment(deployment)
        return deployment.service(self.constants, time_factor=learnt.factor if learnt else 1.0)

    def capacity(self, deployment: ServingDeployment) -> float:
        """Return the requests that fit in a replica, at most as many as it may run at a time."""
        fitting = deployment.sequences_that_fit(self.question.load.cached_len)
        return min(fitting, float(deployment.words.max_sequences or inf))

    def expected_limits(self, deployment: ServingDeployment) -> LatencyLimits:
        """Return the limits on the expected times of a deployment with which it keeps those that are asked."""
        asked, evidence = self.question, self._evidence(deployment)
        ttft, tpot = (interval(1.0, width=width, evidence=evidence) for width in self._widths(deployment))
        limits, certainty = asked.limits_of_answers, asked.certainty_fraction
        return expected_limits(limits, certainty=certainty, ttft=deciding(ttft), tpot=tpot)

    def _asked(self, broken: BrokenLimit) -> BrokenLimit:
        """Return a broken limit as it was asked, beside the time that is not exceeded with the certainty asked for."""
        limits, job = self.question.limits_of_answers, self.question.load.job
        asked = {"⟨max-ttft⟩": limits.ttft_s, "⟨max-tpot⟩": limits.tpot_s}.get(broken.option, limits.e2e_s)
        if job is not None and asked == job.within_s:
            broken = replace(broken, option="⟨within⟩")
        assert asked is not None  # a limit that is not asked does not break
        return replace(broken, limit_s=asked, value_s=broken.value_s * asked / broken.limit_s)

    def _evidence(self, deployment: ServingDeployment) -> ServingEvidence:
        return MEASURED_HERE if self.adjustment(deployment) else deployment.evidence(self.calibration)

    def demand(self, deployment: ServingDeployment, capacity: float) -> Demand:
        return request_demand(deployment, self.constants, self.question.load, capacity=capacity)

    def _fit(
        self, deployment: ServingDeployment, curve: tuple[LoadPoint, ...], capacity: float, limits: LatencyLimits
    ) -> DeploymentFit:
        load = self.question.load
        best = highest_point(curve, limits, load.output_len) or curve[0]
        fullest = fullest_point(curve, limits, load.output_len) or curve[0]
        if load.concurrency is None:
            needed = max(1, ceil_guarded((load.rate_per_s or 0.0) / best.rate_per_s))
        else:
            needed = max(1, ceil_guarded(load.concurrency / max(1.0, np.floor(fullest.running + 1e-6))))
        replicas = needed + self.question.redundancy
        at = self._point(deployment, curve, capacity, replicas=replicas)
        whole_s = at.e2e_s(load.output_len)
        rate = load.rate_per_s if load.concurrency is None else load.concurrency / whole_s
        evidence = self._evidence(deployment)
        ttft, tpot, e2e = self._intervals(deployment, evidence, (at.ttft_s, at.tpot_s, whole_s), running=at.running)
        fit = DeploymentFit(
            gpu=deployment.gpu.id,
            sharding=deployment.words.sharding,
            engine=deployment.words.engine,
            weights=deployment.quantisation.format.name,
            kv=deployment.kv,
            needed=needed,
            replicas=replicas,
            max_rate_per_s=best.rate_per_s,
            rate_per_s=rate or 0.0,
            running=at.running if load.concurrency is None else load.concurrency / replicas,
            input_len=load.input_tokens,
            output_len=load.output_len,
            batch_limit=max(1, int(fullest.running + 1e-6)),
            memory=_replica_memory(deployment, capacity),
            curve=curve,
            server=deployment.words.server or usual_server(deployment.gpu),
            tdp_w=deployment.gpu.tdp_w,
            prompts=load.job.prompts if load.job else None,
            max_sequences=deployment.words.max_sequences,
            vendor=deployment.gpu.vendor,
            ttft_s=ttft,
            tpot_s=tpot,
            e2e_s=e2e,
            prefill_fraction=min(1.0, at.prefill_fraction),
            evidence=str(evidence) if is_known(ttft) else f"{evidence}; {not_known_words(ttft)}",
            is_transferred=evidence.is_transferred,
            holds_at_worst=broken_limit(deciding(ttft).high, tpot.high, e2e.high, self.question.limits) is None,
        )
        return self.offer_for(self._with_energy(deployment, fit))

    def _point(
        self, deployment: ServingDeployment, curve: tuple[LoadPoint, ...], capacity: float, *, replicas: int
    ) -> LoadPoint:
        load = self.question.load
        if load.concurrency is None:
            return point_at_rate(curve, (load.rate_per_s or 0.0) / replicas)
        clients = np.array([max(1.0, load.concurrency / replicas)])
        demand = self.demand(deployment, capacity)
        return load_points(self.service(deployment), demand, running=clients, seen=clients)[0]

    def _widths(self, deployment: ServingDeployment) -> list[Width]:
        metrics = Metric.TTFT, Metric.TPOT
        return [serving_width(metric, Serving.OPEN_LOAD, deployment, self.calibration) for metric in metrics]

    def _intervals(
        self, deployment: ServingDeployment, evidence: ServingEvidence, times: Sequence[float], *, running: float
    ) -> tuple[Interval, Interval, Interval]:
        """Return TTFT, TPOT and the time of a whole answer with their intervals. [s]"""
        ttft_s, tpot_s, e2e_s = times
        first, width = self._widths(deployment)
        ttft = interval(ttft_s, width=first, evidence=evidence)
        tpot, e2e = (interval(time_s, width=width, evidence=evidence) for time_s in (tpot_s, e2e_s))
        ends = self._ends_under_cap(deployment, running)
        if not ends:
            return ttft, tpot, e2e
        expected, *others = ends
        output_len = self.question.load.output_len
        return (
            widened(ttft, [end.ttft_s / expected.ttft_s for end in others]),
            widened(tpot, [end.tpot_s / expected.tpot_s for end in others]),
            widened(e2e, [end.e2e_s(output_len) / expected.e2e_s(output_len) for end in others]),
        )

    def _ends_under_cap(self, deployment: ServingDeployment, running: float) -> list[LoadPoint]:
        """Return a replica as expected and at both ends of what a power cap may cost; none without a cap."""
        cap = deployment.machine.cap
        if cap is None:
            return []
        demand = self.demand(deployment, self.capacity(deployment))
        ends = (cap.end, End.LOW, End.HIGH)
        machines = [replace(deployment.machine, cap=replace(cap, end=end)) for end in ends]
        services = [self.service(replace(deployment, machine=machine)) for machine in machines]
        return [load_points(service, demand, running=np.array([max(1.0, running)]))[0] for service in services]

    def sizing(self, fit: DeploymentFit, words: NamedDeployment) -> "ReplicaSizing":
        """Return a deployment of which no number of replicas was simulated yet."""
        deployment = self.find(words)
        replica = Replica.of(self.service(deployment), deployment, self.question.load)
        return ReplicaSizing(words=words, fit=fit, too_few=fit.needed - 1, replica=replica)

    def sized(self, sizing: "ReplicaSizing") -> "ReplicaSizing | DeploymentRejection":
        """Simulate a deployment once or twice more, so that the replicas that keep the limits are known better.

        First it is simulated with the replicas of the closed form, then with the most that are tried, then between
        what broke the limits and what kept them. The means of the last one replace those of the closed form.
        """
        needed = sizing.fit.needed
        if sizing.enough is not None:
            return self._probed(sizing, (sizing.too_few + sizing.enough.needed) // 2)[0]
        first, broken = self._probed(sizing, needed)
        if broken is None:
            return first
        most = int(_MOST_GROWTH * needed) + 8
        second, broken = self._probed(first, most)
        if broken is None:
            return second
        return limit_rejection(
            sizing.words, self._asked(broken), f"at {self.question.limits.statistic} with {most} replicas"
        )

    def _probed(self, sizing: "ReplicaSizing", needed: int) -> "tuple[ReplicaSizing, BrokenLimit | None]":
        """Simulate a deployment with so many replicas beside the redundancy."""
        replicas = needed + self.question.redundancy
        load = self.question.load
        rate = None if load.rate_per_s is None else load.rate_per_s / replicas
        clients = None if load.concurrency is None else max(1.0, load.concurrency / replicas)
        shared = replace(load, rate_per_s=rate, concurrency=clients)
        answer = sizing.replica.simulate(shared, limits=self.question.limits, requests=SIMULATED_REQUESTS)
        broken = self._broken(answer, sizing.replica.deployment)
        if broken is not None:
            return replace(sizing, too_few=needed), broken
        fit = self._with_simulation(sizing.replica.deployment, sizing.fit, needed, answer)
        return replace(sizing, enough=fit), None

    def at_least(self, sizing: "ReplicaSizing") -> DeploymentFit:
        """Return a deployment with the fewest replicas that no simulation has ruled out: it will not cost less."""
        if sizing.enough is not None and sizing.is_settled:
            return sizing.enough
        return self.offer_for(self._with_replicas(sizing.fit, sizing.too_few + 1))

    def holds(self, part: ReplicaShare) -> bool:
        """Return True if the replicas of one of two kinds of GPUs keep the limits at their share of the requests."""
        load, deployment = self.question.load, self.find(self.words_of(part.fit))
        replica = Replica.of(self.service(deployment), deployment, load)
        rate = part.share * (load.rate_per_s or 0.0) / part.fit.needed
        answer = replica.simulate(
            replace(load, rate_per_s=rate), limits=self.question.limits, requests=SIMULATED_REQUESTS
        )
        return self._broken(answer, deployment) is None

    def _with_replicas(self, fit: DeploymentFit, needed: int) -> DeploymentFit:
        """Return a deployment with more replicas than the closed form needs, each of which then carries less."""
        rate, most = self.question.load.rate_per_s, fit.max_rate_per_s
        if needed > fit.needed and rate is not None:
            most = min(most, rate / needed)
        return replace(fit, needed=needed, replicas=needed + self.question.redundancy, max_rate_per_s=most)

    def _with_energy(self, deployment: ServingDeployment, fit: DeploymentFit) -> DeploymentFit:
        return fit if self.power_law is None else replace(fit, energy=self.energy(deployment, fit, self.power_law))

    def energy(self, deployment: ServingDeployment, fit: DeploymentFit, law: PowerLaw) -> ServingEnergy | None:
        """Return the power of all replicas of a deployment at the load and the joules of an output token.

        Where it was not simulated, a replica without requests is as likely as with Poisson arrivals and no queue.
        Prompts whose answer is one token or one vector are taken one at a time. None where the GPU's power limit is
        not known.
        """
        busy = fit.simulated.busy_fraction if fit.simulated else -np.expm1(-fit.running)
        found = load_energy(
            deployment.kernels,
            deployment.gpu,
            fit.sharding,
            ServedTokens(
                running=fit.running if fit.output_len > 1 else busy,
                input_len=fit.input_len * (1.0 - self.question.load.prefix_fraction),
                output_len=fit.output_len,
                speculation=self.question.load.speculation,
                drafter=deployment.drafter,
            ),
            output_tokens_per_s=fit.output_tokens_per_s / fit.replicas,
            busy_fraction=busy,
            law=law,
        )
        return None if found is None else replace(found, power_w=found.power_w * fit.replicas)

    def _broken(self, answer: LoadAnswer, deployment: ServingDeployment) -> BrokenLimit | None:
        limits = self.expected_limits(deployment)
        ease = _TOLERANCE if limits.statistic is Statistic.MEAN else 1.0
        ttft, tpot, e2e = (times.at(limits.statistic) / ease for times in (answer.ttft_s, answer.tpot_s, answer.e2e_s))
        return broken_limit(ttft, tpot, e2e, limits)

    def _with_simulation(
        self, deployment: ServingDeployment, fit: DeploymentFit, needed: int, answer: LoadAnswer
    ) -> DeploymentFit:
        load, limits = self.question.load, self.question.limits
        replicas = needed + self.question.redundancy
        evidence = self._evidence(deployment)
        gaps = answer.tpot_s if load.output_len > 1 else answer.ttft_s
        means = [times.mean for times in (answer.ttft_s, gaps, answer.e2e_s)]
        if limits.statistic is Statistic.MEAN:
            held = self.expected_limits(deployment)
            kept = (held.ttft_s, held.tpot_s, held.e2e_s)
            means = [mean if most is None else min(mean, most) for mean, most in zip(means, kept, strict=True)]
        ttft, tpot, e2e = self._intervals(deployment, evidence, means, running=answer.mean_running)
        rate = load.rate_per_s if load.concurrency is None else answer.rate_per_s * replicas
        simulated = replace(
            self._with_replicas(fit, needed),
            rate_per_s=rate or fit.rate_per_s,
            running=answer.mean_running,
            ttft_s=ttft,
            tpot_s=tpot,
            e2e_s=e2e,
            simulated=answer,
            holds_at_worst=broken_limit(deciding(ttft).high, tpot.high, e2e.high, limits) is None,
        )
        return self.offer_for(self._with_energy(deployment, simulated))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSizing:
    """The number of replicas that a deployment needs, as simulations have found it so far.

    Attributes:
        fit: The deployment by the closed form.
        replica: One replica of it, ready to be simulated.
        too_few: The most replicas that broke a limit; one less than the closed form needs before any simulation.
        enough: The deployment with the fewest replicas that kept the limits; None before any did.
    """

    words: NamedDeployment
    fit: DeploymentFit
    replica: Replica
    too_few: int
    enough: DeploymentFit | None = None

    @property
    def is_settled(self) -> bool:
        """Return True if the least number of replicas is known within 5 %."""
        return self.enough is not None and self.enough.needed - self.too_few <= max(
            1.0, _SEARCHED_WITHIN * self.enough.needed
        )


def _memory_reason(deployment: ServingDeployment, tokens: float) -> str:
    missing = -deployment.stage.pool_bytes
    if missing > 0:
        return f"memory: the weights do not fit; {missing / 2**30:.3g} GiB per GPU are missing before any cache"
    pool = deployment.stage.pool_bytes / 2**30
    return f"memory: {pool:.3g} GiB per GPU are left for the cache, too little for one request of {tokens:.0f} tokens"


def rejection(words: NamedDeployment, reason: str, obstacle: Obstacle) -> DeploymentRejection:
    return DeploymentRejection(
        gpu=words.gpu,
        reason=reason,
        obstacle=obstacle,
        sharding=words.sharding,
        engine=words.engine,
        weights=words.weights or None,
    )


def limit_rejection(words: NamedDeployment, broken: BrokenLimit, when: str) -> DeploymentRejection:
    refused = rejection(words, f"{broken} {when}", Obstacle.LIMIT)
    return replace(refused, broken_option=broken.option, least_s=broken.value_s)


def _replica_memory(deployment: ServingDeployment, capacity: float) -> ReplicaMemory:
    stage = deployment.stage
    return ReplicaMemory(
        weights_bytes=round(stage.weight_bytes),
        activation_bytes=round(stage.activation_bytes),
        other_bytes=round(stage.other_bytes),
        kv_pool_bytes=max(0, round(stage.pool_bytes)),
        usable_bytes=deployment.gpu.usable_bytes,
        kv_bytes_per_token=stage.cache.bytes_per_token,
        sequences_that_fit=int(capacity),
    )
