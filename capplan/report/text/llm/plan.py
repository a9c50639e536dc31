"""Plans of LLM serving as sections: the recommendation, the deployments, what else was compared, and the money."""

from capplan.core.formulas import SECONDS_PER_HOUR
from capplan.llm.core.fleet.deployment_plan import (
    DeploymentFit,
    DeploymentPlan,
    DeploymentRejection,
    FrontPoint,
    Obstacle,
    different_choices,
    load_front,
)
from capplan.llm.core.fleet.money import PlannedFleet
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.serving.asked import ServingTask
from capplan.report.sections import (
    Block,
    Column,
    Format,
    LineRole,
    Lines,
    Listing,
    Section,
    Table,
    figure,
    read_from,
    shape_columns,
    shape_data,
    shown_as_data,
    words,
)
from capplan.report.text.llm.money import launch_blocks, money_lines
from capplan.report.text.ways import ways_section
from capplan.shapes.llm_plan import DEPLOYMENT, GENERATED, alone
from capplan.shapes.llm_serving import shared_words
from capplan.units import counted, format_fraction, format_rate, format_seconds

SHOWN = 10
_REJECTED_GPUS = 5
_SAME_COST = 0.005
"""Relative difference of rents below which they are said to be equal."""


def llm_plan_sections(fleet: PlannedFleet, *, everything: bool = False, launch: bool = False) -> list[Section]:
    """Return a plan: the recommendation, the best deployments, why GPUs carry nothing, money, and the launch."""
    if fleet.ways is not None and not everything:
        return [ways_section(fleet.ways)]
    plan = fleet.plan
    blocks: list[Block] = [Lines([headline(plan)])]
    if cheaper := _cheaper(plan):
        blocks.append(Lines([cheaper], is_attached=True, only=Format.TABLE))
    if not plan.fits:
        blocks.append(Table(plan_columns(plan), [], only=Format.MD))
    else:
        shown = plan.fits if everything else different_choices(plan.fits)[:SHOWN]
        blocks.append(Table(plan_columns(plan), shown))
        hidden = len(plan.fits) - len(shown)
        if hidden > 0:
            more = f"{hidden} more deployments carry the load; ⟨all⟩ shows them."
            blocks.append(Lines([more], is_attached=True, only=Format.TABLE))
        several = [line for line in (disaggregation_line(plan), mixed_line(plan)) if line is not None]
        blocks.append(Lines(several, only=Format.TABLE))
        if everything:
            blocks.append(Lines(["Output tokens/s per GPU against per user, the best of all loads"], only=Format.TABLE))
            blocks.append(Table(FRONT, load_front(plan.fits), is_attached=True, only=Format.TABLE))
    blocks += _rejected(plan, everything=everything)
    blocks.append(Lines([*plan.assumptions, *plan.notes], role=LineRole.NOTE, is_attached=len(blocks) > 1))
    blocks.append(Lines([f"  {line}" for line in money_lines(fleet)], is_attached=True, only=Format.TABLE))
    if fleet.replan is not None:
        blocks += [Lines(fleet.replan.sentences), Listing(fleet.replan.change)]
    if launch and fleet.launch is not None:
        blocks += launch_blocks(fleet.launch)
    return [Section(blocks), *([] if fleet.ways is None else [ways_section(fleet.ways)])]


def long_time(time_s: float) -> str:
    """Return a time in hours where it is an hour and more: 8 h."""
    return f"{time_s / SECONDS_PER_HOUR:.3g} h" if time_s >= SECONDS_PER_HOUR else format_seconds(time_s)


def _clients(many: float) -> str:
    return counted(int(many), "client") if many == int(many) else f"{many:g} clients"


def load_words(load: TokenLoad) -> str:
    """Return a load in words: how many requests of which lengths."""
    many = f"{load.rate_per_s:g} requests/s" if load.concurrency is None else _clients(load.concurrency)
    if load.job is not None:
        many = f"a job of {load.job.prompts:,} requests within {long_time(load.job.within_s)}"
    if load.task is ServingTask.EMBED:
        return f"{many} of {load.input_len:g} tokens to embed"
    if load.task is ServingTask.RERANK:
        return f"{many} of {load.documents} documents to rank, {load.input_len:g} tokens each"
    pictures = f", {load.images.count} images among them" if load.images else ""
    return f"{many} of {load.input_len:g} tokens in{pictures}, {load.output_len:g} out"


def headline(plan: DeploymentPlan) -> str:
    """Return the recommendation in one sentence, or why there is none."""
    best, asked = plan.recommended, f"{plan.model} at {load_words(plan.load)}"
    if best is None:
        return f"No deployment searched carries {asked} within the limits: {plan.advice}"
    generates = plan.load.task is ServingTask.GENERATE
    cost = best.usd_per_million_output_tokens if generates else best.usd_per_million_tokens
    kind = "output tokens" if generates else "tokens"
    money = f": {best.usd_per_hour:,.2f} USD/h, {cost:.3g} USD per million {kind}" if cost else ""
    spare = best.replicas - best.needed
    redundancy = f" ({best.needed} needed, {spare} spare)" if spare else ""
    return (
        f"{asked}: {best.gpu}, {best.words}{redundancy}, {shared_words(best.sharding)}, "
        f"{best.engine}, weights {best.weights}. {'. '.join(plan.machine) or offer_words(best)}{money}."
    )


def offer_words(fit: DeploymentFit) -> str:
    """Return the machines that are rented, such as "Rent 2 × aws g6.12xlarge, us-east-1 (8 GPUs)"."""
    rent, machines = fit.rent, fit.machines
    if rent is None or machines is None:
        return "No offer of the price list holds it"
    held = machines * rent.instance_gpus
    unused = f", {held - fit.gpus} unused" if held > fit.gpus else ""
    return f"Rent {machines} × {rent.machine_words} ({counted(held, 'GPU')}{unused}; {rent.known_by}, {rent.date})"


def _cheaper(plan: DeploymentPlan) -> str:
    other, best = plan.cheaper, plan.recommended
    if other is None or best is None or other.usd_per_hour is None or best.usd_per_hour is None:
        return ""
    saving = format_fraction(1 - other.usd_per_hour / best.usd_per_hour)
    return f"{other.gpus} × {other.gpu} would be {saving} cheaper, on weaker evidence: {other.evidence}."


def disaggregation_line(plan: DeploymentPlan) -> str:
    """Return how separate prefill and decode replicas compare with the recommended deployment, in one line."""
    best = plan.recommended
    if not plan.disaggregated or best is None:
        return "Separate prefill and decode replicas were not compared: no load at a rate, or none keeps the limits."
    split = plan.disaggregated[0]
    price = f"{split.usd_per_hour:,.2f} USD/h" if split.usd_per_hour is not None else "no known price"
    verdict = ""
    if split.usd_per_hour is not None and best.usd_per_hour is not None:
        change = split.usd_per_hour / best.usd_per_hour - 1
        verdict = f", {format_fraction(abs(change))} {'more' if change >= 0 else 'less'} than together"
        if abs(change) < _SAME_COST:
            verdict = ", as much as together"
    times = f"TTFT {format_seconds(split.ttft_s)}, TPOT {format_seconds(split.tpot_s)}"
    moved = format_seconds(split.transfer_s)
    where = f"{split.gpu_words}, {split.words}"
    return f"Prefill and decode apart: {where}, cache moved in {moved}, {times}, {price}{verdict}."


def mixed_line(plan: DeploymentPlan) -> str | None:
    """Return what replicas on two kinds of GPUs save, in one line; None where they save nothing."""
    mixed, best = plan.mixed, plan.recommended
    if mixed is None or best is None or best.usd_per_hour is None:
        return None
    saving = format_fraction(1 - mixed.usd_per_hour / best.usd_per_hour)
    return f"Mixed: {mixed.words}: {mixed.usd_per_hour:,.2f} USD/h, {saving} less than the first."


def _rejected(plan: DeploymentPlan, *, everything: bool) -> list[Block]:
    gpus = plan.gpus_without_fit
    if not plan.rejections or not (gpus or everything):
        return []
    nearest = nearest_rejections(plan)
    shown = list(nearest) if everything or not plan.fits else list(nearest)[:_REJECTED_GPUS]
    does = "does" if len(gpus) == 1 else "do"
    lines = [f"{counted(len(gpus), 'GPU')} {does} not carry it:"] if gpus else []
    lines += [f"  {gpu}: {why_rejected(nearest[gpu])}" for gpu in shown]
    if len(shown) < len(gpus):
        lines.append(f"  {len(gpus) - len(shown)} more; ⟨all⟩ shows them.")
    blocks: list[Block] = [Lines(lines, only=Format.TABLE)]
    if everything:
        blocks.append(Lines([f"{len(plan.rejections)} deployments fail"], only=Format.TABLE))
        blocks.append(Table(_REJECTIONS, plan.rejections, is_attached=True, only=Format.TABLE))
    return blocks


_REJECTIONS: tuple[Column[DeploymentRejection], ...] = (
    words("GPU", lambda rejection: rejection.gpu),
    words("shared", lambda rejection: shared_words(rejection.sharding)),
    words("engine", lambda rejection: rejection.engine),
    words("weights", lambda rejection: rejection.weights),
    words("why it fails", lambda rejection: rejection.reason),
    words("what would rescue it", lambda rejection: rejection.rescue),
)


def nearest_rejections(plan: DeploymentPlan) -> dict[str, DeploymentRejection]:
    """Return the rejection that came nearest of each GPU that carries nothing.

    A broken limit comes before memory, the least time first, then the largest replica that lacks memory, and the
    smallest of other settings.
    """

    def distance(miss: DeploymentRejection) -> tuple[int, float, int]:
        size = -miss.sharding.gpus if miss.obstacle is Obstacle.MEMORY else miss.sharding.gpus
        return _ORDER[miss.obstacle], miss.least_s or 0.0, size

    of_gpu = {gpu: [miss for miss in plan.rejections if miss.gpu == gpu] for gpu in plan.gpus_without_fit}
    return {gpu: min(misses, key=distance) for gpu, misses in of_gpu.items()}


_ORDER = {Obstacle.LIMIT: 0, Obstacle.MEMORY: 1, Obstacle.SETTING: 2}


def why_rejected(rejection: DeploymentRejection) -> str:
    """Return why a deployment fails, and what would rescue it."""
    rescue = f"; would do: {rejection.rescue}" if rejection.rescue else ""
    return f"{shared_words(rejection.sharding)}: {rejection.reason.rstrip('.')}{rescue}"


def plan_columns(plan: DeploymentPlan) -> list[Column[DeploymentFit]]:
    """Return the columns of a plan's deployments; tasks without tokens to decode have no TPOT."""
    generates = plan.load.task is ServingTask.GENERATE
    fits = [alone(fit) for fit in plan.fits]
    first, left = ("TTFT", "usd_per_million_tokens") if generates else ("latency", "usd_per_million_output_tokens")
    without = (left,) if generates else (left, *GENERATED)
    percentile = f"{first} p99" if generates else "p99"
    shown = shape_columns(DEPLOYMENT, fits, order=_COLUMN_ORDER, without=without, first=first, percentile=percentile)
    found = [*map(shown_as_data, shown), *shape_data(DEPLOYMENT, fits, whole=plan)]
    return [read_from(column, alone) for column in found]


_COLUMN_ORDER = (
    "gpu", "replicas", "shared", "gpus", "engine", "weights", "ttft_expected_s", "ttft_p99_s", "tpot_expected_s",
    "tpot_p99_s", "max_rate_per_s", "output_tokens_per_s_per_gpu", "output_tokens_per_s_per_user", "usd_per_hour",
    "usd_per_million_output_tokens", "usd_per_million_tokens", "power_w", "joules_per_output_token", "evidence_words",
)  # fmt: skip
"""The order of these columns; others stand where the shape has them."""


FRONT: tuple[Column[FrontPoint], ...] = (
    words("GPU", lambda point: point.fit.gpu),
    words("shared", lambda point: shared_words(point.fit.sharding)),
    words("engine", lambda point: point.fit.engine),
    words("weights", lambda point: point.fit.weights),
    figure("running", lambda point: point.running, "{:.0f}".format),
    figure("per user", lambda point: point.per_user, format_rate),
    figure("per GPU", lambda point: point.per_gpu, format_rate),
)
