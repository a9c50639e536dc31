"""Search deployments of a language model for a load under limits: which GPUs, how many, at what cost."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import ceil

from capplan.app.llm.deployments import Deployments, DeploymentWords, ServingDeployment
from capplan.app.llm.simulate_serving import simulate_replica
from capplan.app.llm.validate_serving import constants_of, width_name
from capplan.core.llm.serving.cases import Metric, Serving
from capplan.core.llm.serving.deployment_plan import (
    DeploymentFit,
    DeploymentPlan,
    DeploymentRejection,
    RentedGpu,
    TokenLoad,
    rank_deployments,
)
from capplan.core.llm.serving.evidence import Adjustment, Evidence, evidence_of, half_width, interval
from capplan.core.llm.serving.load_answer import LatencyLimits
from capplan.core.llm.serving.service import Demand, LoadPoint, Service, load_curve
from capplan.core.llm.sharding import Sharding
from capplan.core.llm.tensors import count_active_parameters, count_parameters
from capplan.core.llm.timing.calibration import LlmCalibration, Width
from capplan.core.llm.timing.constants import Constants
from capplan.core.llm.timing.work import kernel_classes
from capplan.core.numbers import Interval
from capplan.errors import CapplanError, UsageError

TENSOR_SIZES = (1, 2, 4, 8)
MOST_SIMULATED = 12
"""Deployments whose percentiles are simulated: the best ones."""
SIMULATED_REQUESTS = 2_000
_SATURATION = 0.95
"""Highest share of the rate of a full replica that is planned with: beyond it, waits grow without end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanQuestion:
    """A model, a load and limits, and the deployments to search.

    Attributes:
        gpus: Ids of GPUs to consider.
        weights: Weight formats to consider; an empty word stands for the checkpoint's own.
        tensor_sizes: GPUs per replica to consider.
        redundancy: Replicas beyond need (N+k).
        rents: What GPUs cost per hour, by id.
    """

    model: str
    load: TokenLoad
    limits: LatencyLimits
    gpus: tuple[str, ...]
    engines: tuple[str, ...] = ("vllm",)
    weights: tuple[str, ...] = ("",)
    kv: str = ""
    tensor_sizes: tuple[int, ...] = TENSOR_SIZES
    redundancy: int = 0
    rents: dict[str, RentedGpu] = field(default_factory=dict)


def plan_serving(question: PlanQuestion, *, deployments: Deployments, calibration: LlmCalibration) -> DeploymentPlan:
    """Judge every deployment that the question names, and rank those that carry the load.

    Args:
        question: The model, the load, the limits, and what to search.
        deployments: Where deployments are found.
        calibration: The constants of the time model.

    Raises:
        CapplanError: The model is not known, or the load is empty.
    """
    if not question.load.rate_per_s > 0:
        raise UsageError("--rate must be above 0 requests per second; a load of zero needs no GPU.")
    search = _Search(question, deployments, calibration, constants_of(calibration))
    architecture = deployments.model(question.model).architecture
    fits: list[DeploymentFit] = []
    words_of: dict[DeploymentFit, DeploymentWords] = {}
    rejections: list[DeploymentRejection] = []
    for words in search.candidates():
        try:
            judged = search.judge(words)
        except CapplanError as error:
            judged = DeploymentRejection(
                gpu=words.gpu, reason=str(error), sharding=words.sharding, weights=words.weights or None
            )
        if isinstance(judged, DeploymentFit):
            fits.append(judged)
            words_of[judged] = words
        else:
            rejections.append(judged)
    ranked = rank_deployments(fits)
    simulated = [search.simulated(fit, words_of[fit]) for fit in ranked[:MOST_SIMULATED]]
    return DeploymentPlan(
        model=architecture.name,
        params=count_parameters(architecture),
        active_params=count_active_parameters(architecture),
        load=question.load,
        limits=question.limits,
        fits=(*simulated, *ranked[MOST_SIMULATED:]),
        rejections=_of_gpus_without_fit(rejections, fits),
        assumptions=_assumptions(question),
    )


def _of_gpus_without_fit(
    rejections: Sequence[DeploymentRejection], fits: Sequence[DeploymentFit]
) -> tuple[DeploymentRejection, ...]:
    """Keep, for each GPU that carries nothing, the rejection of its largest replica: the nearest miss."""
    fitting = {fit.gpu for fit in fits}
    nearest: dict[str, DeploymentRejection] = {}
    for each in rejections:
        held = nearest.get(each.gpu)
        if each.gpu in fitting:
            continue
        if held is None or _size(each) > _size(held):
            nearest[each.gpu] = each
    return tuple(nearest.values())


def _size(rejection: DeploymentRejection) -> int:
    return rejection.sharding.gpus if rejection.sharding else 0


def _assumptions(question: PlanQuestion) -> tuple[str, ...]:
    load = question.load
    return (
        f"requests arrive at random (Poisson) at {load.rate_per_s:g}/s and are spread evenly over the replicas",
        f"{load.input_len:g} tokens in and {load.output_len:g} tokens out on average; no prefix cache, no speculation",
        "limits are held by the expected mean; percentiles of the best deployments are simulated, request by request",
        f"a replica is planned with up to {_SATURATION:.0%} of the rate at which it is full",
        "rent is the lowest current on-demand price per GPU-hour, however many GPUs an instance holds",
    )


@dataclass(frozen=True, slots=True)
class _Search:
    question: PlanQuestion
    deployments: Deployments
    calibration: LlmCalibration
    constants: Constants

    def candidates(self) -> Iterator[DeploymentWords]:
        asked = self.question
        for gpu in asked.gpus:
            for engine in asked.engines:
                for weights in asked.weights:
                    for tensor in asked.tensor_sizes:
                        yield DeploymentWords(
                            model=asked.model, gpu=gpu, engine=engine, sharding=Sharding(tensor=tensor),
                            weights=weights, kv=asked.kv,
                        )  # fmt: skip

    def judge(self, words: DeploymentWords) -> DeploymentFit | DeploymentRejection:
        deployment, load = self.deployments.find(words), self.question.load
        capacity = deployment.sequences_that_fit(load.input_len + load.output_len)
        if capacity < 1:
            return _rejection(words, "memory: the weights and one request do not fit; use more GPUs per replica (--tp)")
        demand = Demand(input_len=load.input_len, output_len=load.output_len, capacity=capacity, spread=load.spread)
        curve = load_curve(self._service(deployment), demand)
        limits, output_len = self.question.limits, load.output_len
        broken = _broken(curve[0], limits, output_len)
        if broken is not None:
            return _rejection(words, f"{broken} even with one request at a time")
        most = _highest_rate(curve, limits, output_len)
        needed = max(1, ceil(load.rate_per_s / most - 1e-9))
        replicas = needed + self.question.redundancy
        at = _at_rate(curve, load.rate_per_s / replicas)
        return self._fit(deployment, at, most=most, needed=needed, capacity=capacity)

    def _service(self, deployment: ServingDeployment) -> Service:
        return Service(
            kernels=deployment.kernels, machine=deployment.machine, engine=deployment.engine, constants=self.constants
        )

    def _fit(
        self, deployment: ServingDeployment, at: LoadPoint, *, most: float, needed: int, capacity: float
    ) -> DeploymentFit:
        evidence = evidence_of(
            self.calibration,
            model=deployment.model.architecture.name,
            gpu=deployment.gpu.id,
            vendor=deployment.gpu.vendor,
            engine=deployment.engine,
            segment=str(deployment.gpu.segment) if deployment.gpu.segment else None,
            kernels=kernel_classes(deployment.kernels),
        )
        ttft = interval(
            at.ttft_s, width=self._width(Metric.TTFT, deployment), evidence=evidence, adjustment=Adjustment()
        )
        width = self._width(Metric.TPOT, deployment)
        tpot = interval(at.tpot_s, width=width, evidence=evidence, adjustment=Adjustment())
        factor = half_width(width, evidence)
        whole = at.e2e_s(self.question.load.output_len)
        e2e = Interval(low=whole / factor, expected=whole, high=whole * factor)
        return DeploymentFit(
            gpu=deployment.gpu.id,
            sharding=deployment.words.sharding,
            engine=deployment.engine,
            weights=deployment.quantisation.format.name,
            kv=deployment.kv,
            needed=needed,
            replicas=needed + self.question.redundancy,
            max_rate_per_s=most,
            ttft_s=ttft,
            tpot_s=tpot,
            e2e_s=e2e,
            sequences_that_fit=capacity,
            weights_bytes=deployment.weights_bytes,
            usable_bytes=deployment.gpu.usable_bytes,
            evidence=str(evidence),
            holds_at_worst=_holds(self.question.limits, ttft.high, tpot.high, e2e.high),
            is_transferred=evidence is Evidence.TRANSFER,
            rent=self.question.rents.get(deployment.gpu.id),
        )

    def _width(self, metric: Metric, deployment: ServingDeployment) -> Width:
        name = width_name(metric, Serving.OPEN_LOAD, has_experts=deployment.model.architecture.is_moe)
        return self.calibration.widths[name]

    def simulated(self, fit: DeploymentFit, words: DeploymentWords) -> DeploymentFit:
        """Add percentiles of one replica at its share of the load."""
        asked = self.question
        deployment, load = self.deployments.find(words), asked.load
        demand = Demand(
            input_len=load.input_len, output_len=load.output_len, capacity=fit.sequences_that_fit, spread=load.spread
        )
        answer = simulate_replica(
            self._service(deployment),
            demand,
            replace(load, rate_per_s=load.rate_per_s / fit.replicas),
            limits=asked.limits,
            requests=SIMULATED_REQUESTS,
        )
        return replace(fit, simulated=answer)


def _rejection(words: DeploymentWords, reason: str) -> DeploymentRejection:
    return DeploymentRejection(gpu=words.gpu, reason=reason, sharding=words.sharding, weights=words.weights or None)


def _holds(limits: LatencyLimits, ttft_s: float, tpot_s: float, e2e_s: float) -> bool:
    pairs = ((ttft_s, limits.ttft_s), (tpot_s, limits.tpot_s), (e2e_s, limits.e2e_s))
    return all(limit is None or value <= limit for value, limit in pairs)


def _broken(point: LoadPoint, limits: LatencyLimits, output_len: float) -> str | None:
    """Name the first limit that a load point breaks, with by how much; None where it keeps all."""
    checks = (
        ("TTFT", point.ttft_s, limits.ttft_s),
        ("TPOT", point.tpot_s, limits.tpot_s),
        ("time of a whole answer", point.e2e_s(output_len), limits.e2e_s),
    )
    for name, value, limit in checks:
        if limit is not None and value > limit:
            return f"{name}: {value:.3g} s exceeds the limit of {limit:.3g} s"
    return None


def _highest_rate(curve: Sequence[LoadPoint], limits: LatencyLimits, output_len: float) -> float:
    """Return the highest rate of one replica whose expected times keep the limits. [1/s]"""
    full = max(point.rate_per_s for point in curve) * _SATURATION
    best = min(curve[0].rate_per_s, full)
    for below, above in pairwise(curve):
        if _broken(above, limits, output_len) is None:
            best = max(best, min(above.rate_per_s, full))
            continue
        low, high = 0.0, 1.0
        for _ in range(30):
            share = (low + high) / 2
            broken = _broken(_between(below, above, share), limits, output_len) is not None
            low, high = (low, share) if broken else (share, high)
        return min(max(best, _between(below, above, low).rate_per_s), full)
    return best


def _between(below: LoadPoint, above: LoadPoint, share: float) -> LoadPoint:
    def mixed(name: str) -> float:
        one, other = float(getattr(below, name)), float(getattr(above, name))
        return one + share * (other - one)

    return LoadPoint(
        running=mixed("running"), rate_per_s=mixed("rate_per_s"), ttft_s=mixed("ttft_s"), tpot_s=mixed("tpot_s")
    )


def _at_rate(curve: Sequence[LoadPoint], rate_per_s: float) -> LoadPoint:
    """Return what a replica does at a rate, between the points of its curve."""
    for below, above in pairwise(curve):
        if above.rate_per_s >= rate_per_s:
            span = above.rate_per_s - below.rate_per_s
            share = (rate_per_s - below.rate_per_s) / span if span > 0 else 1.0
            return _between(below, above, min(1.0, max(0.0, share)))
    return curve[-1]
