"""Decide on a served language model as on every load: its deployments are the GPUs that a decision chooses from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from capplan.app.procurement.build import Circumstances, Known, decided_model, whole_report
from capplan.clock import moment
from capplan.core.economics.constraints import Constraints, ExcludedOffer, ReportLoad
from capplan.core.economics.decide import Answer, decide_sized, not_considered
from capplan.core.economics.evidence import Standards
from capplan.core.economics.options import Case, Reserve
from capplan.core.gpus.attributes import driver_licence, porting_note
from capplan.core.gpus.prices import LASTING_TERMS, Price, PriceTier, current_offers
from capplan.core.gpus.sale import sale_note
from capplan.core.gpus.spec import GpuSpec, Segment, Status
from capplan.core.numbers import Interval
from capplan.core.power import PowerLaw
from capplan.core.serving.load import Job, Load, Service
from capplan.core.serving.response import BatchPoint, Candidate, Response, ResponseCurve, SpeedTier
from capplan.core.serving.sizing import Capacity, OperatingPoint, Sizing
from capplan.llm.core.fleet.deployment_plan import DeploymentFit, DeploymentPlan
from capplan.llm.core.fleet.money import PaymentOption, ServingReport, payment_options
from capplan.llm.core.fleet.rented import machines_for
from capplan.llm.core.search.search import Search
from capplan.report.procurement.types import AskedModel, InfeasibleGpu, Report
from capplan.report.sections import sentence
from capplan.report.text.llm.plan import nearest_rejections, why_rejected
from capplan.report.text.llm.report import DEFINITIONS, served_words, serving_figures
from capplan.specs.fitted import load_power_law
from capplan.specs.gpus.load import load_gpus
from capplan.specs.load import AS_MANY_AS_FIT, demand_without_load, load_defaults
from capplan.specs.prices import Prices
from capplan.specs.rate_laws import load_rate_laws
from capplan.units import counted

_NO_LIMIT_S = 1e9
"""What stands for the limit of a load without one, far above every time. [s]"""


def best_of_each_gpu(plan: DeploymentPlan) -> dict[str, DeploymentFit]:
    """Return the first deployment of each GPU, best first."""
    return {fit.gpu: fit for fit in reversed(plan.fits)}


def served_load(plan: DeploymentPlan, *, growth_fraction: float, week: tuple[float, ...], start_up_s: float) -> Load:
    """Return the load of a plan as one that fleets are sized and costed for; redundancy is that of the plan.

    `week` is 1 for each hour of a week with load, else 0.
    """
    peak_per_s = plan.fits[0].rate_per_s if plan.fits else plan.load.rate_per_s or 0.0
    days = sum(any(week[day * 24 : day * 24 + 24]) for day in range(7))
    if plan.load.job is not None:
        return Job(
            samples=plan.load.job.prompts,
            deadline_s=plan.load.job.within_s,
            runs_per_year=plan.load.job.runs_per_year,
            growth_per_year_fraction=growth_fraction,
            spares=0,
            utilization_ceiling_fraction=1.0,
        )
    limits = plan.limits
    stated_s = (limits.ttft_s or 0.0) + (limits.tpot_s or 0.0) * max(1.0, plan.load.output_len - 1.0)
    return Service(
        peak_per_s=peak_per_s,
        mean_per_s=peak_per_s * sum(week) / len(week),
        latency_limit_s=limits.e2e_s or stated_s or _NO_LIMIT_S,  # which scales how slow a whole answer is
        percentile=95.0,
        growth_per_year_fraction=growth_fraction,
        spares=0,
        utilization_ceiling_fraction=1.0,
        window_s=0.0,
        gap_scv=plan.load.gap_scv,
        daily_per_s=tuple(peak_per_s * share for share in week[:24]) if 0.0 in week else (),
        days_per_week=days,
        scales_by_hour=0.0 in week,
        start_up_s=start_up_s,
        words=served_words(plan),
    )


def served_demand(load: Load, *, years: int, constraints: Constraints, states_runs: bool) -> ReportLoad:
    """Return a load with the assumptions about money, without those about hosts, which serving does not count."""
    fitted = {} if states_runs else {"runs_per_year": ("derived", AS_MANY_AS_FIT)}
    plain = demand_without_load()
    runs = (load_defaults("job")["runs_per_year"],) if isinstance(load, Job) else ()
    kept = (each for each in plain.assumptions if each.key not in ("cpu_ms_per_sample", "cpu_cores_per_gpu"))
    own = {"years": float(years), "runs_per_year": load.runs_per_year if isinstance(load, Job) else None}
    stated = tuple(
        replace(each, value=value, low=value, high=value, basis=basis, source=source)
        if (value := own.get(each.key)) is not None and each.value != value
        else each
        for each in (*runs, *kept)
        for basis, source in [fitted.get(each.key, ("yours", "the load"))]
    )
    return replace(
        plain, load=load, money=replace(plain.money, years=years), assumptions=stated, constraints=constraints
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Buyer:
    """What a buyer admits of a served model, and whether machines may be taken back."""

    admitted: Constraints = field(default_factory=Constraints)
    allow_spot: bool = False

    def considers(self, gpu: GpuSpec) -> bool:
        """Return True if a GPU is denied neither by its name nor by its segment."""
        return gpu.id not in self.admitted.deny.gpus and gpu.segment not in self.admitted.deny.segments

    def searched(self, prices: Prices) -> Prices:
        """Return the prices that a search may plan with: those of denied GPUs and refused sellers are left out."""
        admitted = replace(self.admitted, terms=LASTING_TERMS)  # what is bought or reserved is searched by its rent
        kept = (price for price in prices.hourly if price.gpu not in admitted.deny.gpus)
        return replace(prices, hourly=tuple(price for price in kept if admitted.refusal_of_price(price) is None))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedCase:
    """What a decision on serving rests on: the search with its plan, the demand, prices, standards, and the power law.

    Fleets are those of the plan: as many replicas as keep the limits with its certainty, and the spare ones.
    """

    search: Search
    plan: DeploymentPlan
    demand: ReportLoad
    prices: Prices
    standards: Standards
    power_law: PowerLaw

    def decide(self) -> Answer:
        """Return the decision over all terms and the best deployment of each GPU."""
        fits = best_of_each_gpu(self.plan)
        sizings = [self._sizing(fit) for fit in fits.values()]
        refused = not_considered([sizing.capacity.candidate for sizing in sizings], self.standards.constraints)
        left = {each.candidate.gpu for each in refused}
        kept = [sizing for sizing in sizings if sizing.gpu not in left]
        offered = [(price, self._held(price, fits[price.gpu])) for price in self.prices.hourly if price.gpu in fits]
        answer = decide_sized(
            kept,
            demand=self.demand,
            rents=[held for _, held in offered if held is not None],
            purchases=[price for price in self.prices.purchase if price.gpu in fits],
            standards=replace(self.standards, certain_fits=frozenset(fits)),
            reserve=self._reserve(kept, fits),
        )
        parted = (
            ExcludedOffer(price=price, reason=_parted(price, fits[price.gpu].sharding.gpus))
            for price in current_offers(price for price, held in offered if held is None)
        )
        return replace(answer, not_considered=refused, left_out=(*answer.left_out, *parted))

    def ways_to_pay(self, fit: DeploymentFit) -> tuple[PaymentOption, ...]:
        """Return the cheapest way to pay for a deployment under every term, the cheapest first."""
        sizing = self._sizing(fit)
        bought = (price for price in self.prices.purchase if price.gpu == fit.gpu)
        cheapest = min(bought, key=lambda price: (price.tier is PriceTier.HEARSAY, price.usd), default=None)
        lasting = (price for price in current_offers(self.prices.hourly) if price.term in LASTING_TERMS)
        case = Case(
            load=self.demand.load,
            money=self.demand.money,
            sizings=(sizing,),
            rents=tuple(
                held for price in lasting if price.gpu == fit.gpu and (held := self._held(price, fit)) is not None
            ),
            purchases=() if cheapest is None else (cheapest,),
            reserve=self._reserve([sizing], {fit.gpu: fit}),
        )
        return payment_options(case, output_len=fit.output_len)

    def _reserve(self, sizings: Sequence[Sizing], fits: Mapping[str, DeploymentFit]) -> Reserve:
        """Return the factors that size fleets for what replicas carry with the plan's certainty."""
        factors = {
            each.gpu: each.operating_point.rate_per_s * fits[each.gpu].sharding.gpus / self._rate_per_s(fits[each.gpu])
            for each in sizings
        }
        return lambda gpu, _slots, _full: factors[gpu]

    def _held(self, price: Price, fit: DeploymentFit) -> Price | None:
        """Return an offer whose machines hold whole replicas as fast as they were timed; None for others."""
        offer = replace(price, own_network_bytes_per_s=self.search.question.network_bytes_per_s)
        sizes = sorted((fit.sharding.gpus, price.instance_gpus))
        is_held = machines_for(offer.server, fit.sharding, 1, timed=fit.server) is not None
        return offer if is_held and not sizes[1] % sizes[0] else None

    def _rate_per_s(self, fit: DeploymentFit) -> float:
        """Return what a replica carries of the load within the limits, with the plan's certainty. [1/s]

        Closed loops send as many requests as the deployment answers; a replica's share of the clients counts there.
        """
        peak_per_s = self.plan.fits[0].rate_per_s
        return peak_per_s * max(fit.max_rate_per_s / fit.rate_per_s, 1 / fit.needed)

    def _sizing(self, fit: DeploymentFit) -> Sizing:
        """Return a deployment as a sized GPU, whose rate falls with the slowness of its steps as its curve says."""
        size, batch, each_per_s = fit.sharding.gpus, max(1, fit.batch_limit), fit.rate_per_s / fit.gpus
        wanted_per_s = self._rate_per_s(fit) / size
        slowness = fit.e2e_s.not_exceeded(self.plan.certainty_fraction) / fit.e2e_s.expected
        curve, limit_s = self._curve(fit, batch), self._limit_s
        found_per_s = curve.highest_rate(limit_s / slowness) if limit_s is not None else 0.0
        if limit_s is not None and found_per_s <= 0:  # the mean times leave nothing: the rate is that of steps alone
            curve = replace(curve, percentiles_s=tuple(limit_s * 1e-3 for _ in curve.percentiles_s))
            found_per_s = curve.capacity_per_s
        expected_per_s = wanted_per_s * slowness
        correction = expected_per_s / found_per_s if found_per_s > 0 else 1.0
        if limit_s is not None:
            expected_per_s = curve.highest_rate(limit_s) * correction
        capacity = Capacity(
            candidate=self._candidate(fit, batch=batch, rate_per_s=each_per_s if limit_s else expected_per_s),
            curves=(curve,) if limit_s is not None else (),
            correction=correction,
        )
        response = Response(
            rate_per_s=each_per_s,
            load_fraction=min(1.0, each_per_s / wanted_per_s),
            percentile_s=fit.e2e_s,
            mean_s=None,
            batch=fit.running,
            busy_fraction=None,
        )
        return Sizing(
            capacity=capacity,
            operating_point=OperatingPoint(largest_batch=batch, rate_per_s=expected_per_s),
            need=fit.gpus,
            response=response if limit_s is not None else None,
        )

    @property
    def _limit_s(self) -> float | None:
        load = self.demand.load
        return load.latency_limit_s if isinstance(load, Service) else None

    def _curve(self, fit: DeploymentFit, batch: int) -> ResponseCurve:
        """Return how near a replica comes to its limits over its load, as the time of a whole answer. [s]"""
        limits, whole_s = self.plan.limits, self._limit_s or _NO_LIMIT_S
        rates: list[float] = []
        times: list[float] = []
        for point in fit.curve:
            shares = (
                (point.ttft_s, limits.ttft_s), (point.tpot_s, limits.tpot_s),
                (point.e2e_s(fit.output_len), limits.e2e_s or (None if limits.are_set else whole_s)),
            )  # fmt: skip
            near_s = whole_s * max(time_s / limit_s for time_s, limit_s in shares if limit_s is not None)
            if not rates or point.rate_per_s > rates[-1]:
                rates.append(point.rate_per_s)
                times.append(max(near_s, *times[-1:]) if times else near_s)
        most = rates[-1]
        return ResponseCurve(
            largest_batch=batch,
            capacity_per_s=most / fit.sharding.gpus,
            ceiling_fraction=1.0,
            loads=tuple(rate / most for rate in rates),
            percentiles_s=tuple(times),
        )

    def _candidate(self, fit: DeploymentFit, *, batch: int, rate_per_s: float) -> Candidate:
        """Return a deployment's GPU, which draws the power of the load at `rate_per_s`, what one GPU then serves."""
        spec, memory = self.search.find_gpu(fit.gpu), fit.memory
        energy = fit.energy or self.search.energy(self.search.find(self.search.words_of(fit)), fit, self.power_law)
        held = memory.weights_bytes + memory.activation_bytes + memory.other_bytes + memory.kv_pool_bytes
        point = BatchPoint(
            batch=batch,
            latency_s=fit.e2e_s * (batch / rate_per_s / fit.e2e_s.expected),
            memory_bytes=Interval.exact(float(held)),
            power_w=energy.power_w * (1 / fit.gpus) if energy else None,
        )
        return Candidate(
            gpu=fit.gpu,
            name=spec.name,
            tdp_w=spec.tdp_w,
            form_factor=spec.form_factor,
            points=(point,),
            speed=SpeedTier.TRANSFERRED if fit.is_transferred else SpeedTier.MEASURED,
            segment=spec.segment.value if spec.segment else None,
            is_end_of_sale=spec.status is Status.END_OF_SALE,
            not_sold=sale_note(spec),
            licence=driver_licence(spec),
            porting=porting_note(spec),
            path_was_timed=not fit.is_transferred,
            idle_w=self.power_law.of(spec).base_fraction * spec.tdp_w if spec.tdp_w else None,
            replica_gpus=fit.sharding.gpus,
            spare_replicas=fit.replicas - fit.needed,
            is_untried=fit.is_transferred,
            is_for_desks=spec.segment in (Segment.CONSUMER, Segment.WORKSTATION),
        )


def _parted(price: Price, replica_gpus: int) -> str:
    """Return why replicas do not run on an offer's machines."""
    machines, replicas = counted(price.instance_gpus, "GPU"), counted(replica_gpus, "GPU")
    if max(price.instance_gpus, replica_gpus) % min(price.instance_gpus, replica_gpus):
        return f"machines of {machines} do not hold replicas of {replicas} in whole numbers"
    return f"replicas of {replicas} across machines of {machines} are slower than they were timed, or do not run"


def serving_as_report(served: ServingReport) -> Report:
    """Return the decision on a served model as the report that every load has."""
    plan, answer, gpus = served.fleet.plan, served.decided, load_gpus()
    fits = best_of_each_gpu(plan)
    known = {
        (gpu, max(1, fit.batch_limit)): Known(
            SpeedTier.TRANSFERRED if fit.is_transferred else SpeedTier.MEASURED, fit.evidence, fit.memory.usable_bytes
        )
        for gpu, fit in fits.items()
    }
    model = decided_model(AskedModel(model=plan.model, item="request"), answer, known)
    refused = tuple(
        InfeasibleGpu(
            gpu=gpu, gpu_name=gpus[gpu].name if gpu in gpus else gpu, batch=None, constraint=miss.obstacle.value,
            reason=sentence(why_rejected(miss)),
        )
        for gpu, miss in nearest_rejections(plan).items()
    )  # fmt: skip
    notes = (*(sentence(told.rstrip(".")) for told in (*plan.assumptions, *plan.notes)), DEFINITIONS)
    model = replace(model, notes=notes, figures=serving_figures(served), refusals=(*model.refusals, *refused))
    if plan.advice and not plan.fits:
        model = replace(model, verdict=replace(model.verdict, warning=sentence(plan.advice.rstrip("."))))
    circumstances = Circumstances(
        today=date.fromisoformat(served.created),
        timestamp=moment()[1],
        command=served.command,
        title=served.title,
        load_file=served.load_file,
        power_law=load_power_law(),
        data_parallel=load_rate_laws().data_parallel,
        local=served.fleet.local,
    )
    return whole_report([model], demand=answer.demand, gpus=gpus, circumstances=circumstances)
