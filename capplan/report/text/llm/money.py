"""The money and the hand-over of a planned fleet in sentences and tables."""

from collections.abc import Iterator
from dataclasses import asdict

from capplan.core.economics.cost import OwnedCost
from capplan.core.formulas import HOURS_PER_YEAR
from capplan.llm.core.fleet.gpu_sharing import FleetPart
from capplan.llm.core.fleet.launch import Launch, LaunchOption
from capplan.llm.core.fleet.limits import PATIENCE_FILE_WORDS
from capplan.llm.core.fleet.money import FleetMoney, PlannedFleet
from capplan.llm.core.fleet.shared_fleet import FleetAnswer, SharedFleet
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
    shown_as_data,
    words,
)
from capplan.report.text.gpus import local_words
from capplan.units import counted, format_fraction, format_seconds, format_watts


def launch_blocks(launch: Launch) -> list[Block]:
    """Return a launch command, its options with their reasons, and its files."""
    return [
        *map(Listing, launch.commands),
        Table(LAUNCH_OPTIONS, launch.options),
        *(block for name, text in launch.files for block in (Lines([f"{name}:"]), Listing(text))),
        Lines(launch.notes, role=LineRole.NOTE, is_attached=True),
    ]


LAUNCH_OPTIONS: tuple[Column[LaunchOption], ...] = (
    words("option", lambda option: option.option),
    words("value", lambda option: option.value),
    words("why", lambda option: option.why),
)


def money_lines(fleet: PlannedFleet) -> Iterator[str]:
    """Yield the money of the recommended deployment in sentences."""
    best, money = fleet.plan.recommended, fleet.money
    if best is None or money is None:
        return
    split = best.split_usd_per_million
    if split is not None:
        yield (
            f"Money: {split[0]:.3g} USD per million input and {split[1]:.3g} per million output tokens, divided by "
            f"busy time; {best.usd_per_million_output_tokens:.3g} with all of it on the output"
        )
    if money.joules_per_output_token is not None:
        drawn, unit = "", "output token" if fleet.plan.load.task is ServingTask.GENERATE else "request"
        if money.energy is not None:
            power = money.energy.power_w
            ends = f"{format_watts(power.low)} to {format_watts(power.high)}"
            drawn = f"; the GPUs draw {format_watts(power.expected)} ({ends})"
        yield (
            f"Energy: {money.joules_per_output_token:.3g} J per {unit}, "
            f"{money.joules_per_output_token / 3.6:.3g} kWh per million, drawn from the wall, with cooling{drawn}"
        )
    if money.payments:
        first = money.payments[0]
        others = ", ".join(f"{payment.term.value} {payment.cost.per_year:,.0f}" for payment in money.payments[1:])
        yield (
            f"Paying over {counted(money.counted_years, 'year')}: {first.term.value} is cheapest at "
            f"{first.cost.per_year:,.0f} USD a year ({first.seller}){'; ' if others else ''}{others}"
            f"{_bought_words(money)}"
        )
    if money.use is not None:
        yield (
            f"Hours: {money.use.hours_per_year:,.0f} of {HOURS_PER_YEAR:,} hours a year have load; machines by "
            f"the hour are paid for {money.paid_hours:,.0f}, starts {format_seconds(money.start_up_s)} early; "
            "commitments and bought ones cost all hours"
        )
    if (job := fleet.plan.load.job) is not None:
        yield (
            f"The job of {job.prompts:,} requests is paid for as long as a run takes, {job.runs_per_year:g} runs a "
            "year (⟨runs-per-year⟩)"
        )
    last = money.years[-1]
    if money.growth_fraction:
        yield (
            f"Growth of {format_fraction(money.growth_fraction)} a year: {counted(last.gpus, 'GPU')} at the end of "
            f"year {last.year} for {last.rate_per_s:.3g} requests/s"
        )
    if money.api is not None:
        yield api_line(money)


def _bought_words(money: FleetMoney) -> str:
    """Return what a purchase consists of."""
    bought = [payment for payment in money.payments if isinstance(payment.cost, OwnedCost)]
    if not bought:
        return ""
    cost = bought[0].cost
    assert isinstance(cost, OwnedCost)
    parts = (
        ("GPUs", cost.gpus_usd), ("computer" if bought[0].is_workstation else "servers", cost.chassis_usd),
        ("network", cost.network),
    )  # fmt: skip
    yearly = [
        ("electricity" if part == "energy_usd" else part.removesuffix("_usd"), usd)
        for part, usd in asdict(cost.site).items()
    ]
    at_once, each_year = (
        ", ".join(f"{name} {usd:,.0f}" for name, usd in items if usd >= 1) for items in (parts, yearly)
    )
    kind = " as a workstation" if bought[0].is_workstation else ""
    return f" (bought{kind}: {at_once} at once; {each_year} a year)"


def api_line(money: FleetMoney) -> str:
    """Return how a fleet compares with an API, in one sentence."""
    api = money.api
    if api is None:
        return ""
    answer = (
        f"the fleet is cheaper from {api.break_even_per_s:.3g} requests/s on"
        if api.break_even_per_s is not None
        else "the fleet is never cheaper, because a full replica costs more than the API asks for what it serves"
    )
    return (
        f"API: {api.usd_per_hour:,.2f} USD/h at this load against {api.fleet_usd_per_hour:,.2f} for the fleet; {answer}"
    )


_SHOWN = 10


def shared_fleet_sections(answer: FleetAnswer) -> list[Section]:
    """Return fleets that serve several models, the cheapest first; or why there is none."""
    plans, fleets = answer.plans, answer.fleets
    if not fleets:
        missing = [f"{plan.model}: {plan.advice}" for plan in plans if not plan.fits]
        reasons = missing or ["No GPU carries all models, and no deployment of each does."]
        lines = [f"No fleet serves all {len(plans)} models within their limits.", *reasons]
        return [Section([Lines(lines, only=Format.TABLE), Table(_FLEETS, fleets, only=Format.MD)])]
    best = fleets[0]
    price = f", {best.usd_per_hour:,.2f} USD/h" if best.usd_per_hour is not None else ", no known price"
    local = answer.local_cost
    in_local = [] if local is None else [f"In {local.currency}: {local_words(local)}."]
    shares = any(fleet.shared for fleet in fleets)
    sharing = "" if shares else ", and no two models share a GPU"
    notes = [f"servers hold eight GPUs; no replica crosses two{sharing}"]
    if shares:
        notes.append(
            "models on the same GPUs take turns, and their memory adds up: an estimate, no such run was compared"
        )
    notes += sorted({note for plan in plans for note in plan.notes if note == PATIENCE_FILE_WORDS})
    notes += [
        f"{part.plan.model}: TTFT {format_seconds(part.ttft_s)}, TPOT {format_seconds(part.tpot_s)}, steps "
        f"{part.slowdown:.2f} times as long as on GPUs of its own, memory for {part.sequences} sequences"
        for group in best.shared
        for part in group.parts
    ]
    return [
        Section(
            [
                Lines([f"{best.words}{price}{_power_words(best)}.", *in_local], only=Format.TABLE),
                Table(_FLEETS, fleets, most=_SHOWN),
                Table(_PARTS, best.parts, caption="Each model of the cheapest fleet", only=Format.TABLE),
                Lines(notes, role=LineRole.NOTE, is_attached=True, only=Format.TABLE),
            ]
        )
    ]


def _power_words(fleet: SharedFleet) -> str:
    """Return what the GPUs of a fleet draw, where it is known of all models."""
    drawn = [part.fit.energy.power_w for part in fleet.parts if part.fit.energy is not None]
    if not drawn or len(drawn) < len(fleet.parts) or fleet.shared:
        return ""
    low, expected, high = (sum(getattr(power, end) for power in drawn) for end in ("low", "expected", "high"))
    return f", {format_watts(expected)} ({format_watts(low)} to {format_watts(high)}) without hosts"


def _models(fleet: SharedFleet) -> str:
    parts = (f"{part.plan.model} {part.fit.gpus}{'' if fleet.gpu else f' × {part.fit.gpu}'}" for part in fleet.parts)
    return ", ".join((*parts, *(group.words for group in fleet.shared)))


_COLUMNS: tuple[Column[SharedFleet], ...] = (
    words("GPU", lambda fleet: fleet.gpu or "mixed"),
    figure("GPUs", lambda fleet: fleet.gpus),
    figure("servers", lambda fleet: fleet.servers),
    figure("USD/h", lambda fleet: fleet.usd_per_hour, "{:,.2f}".format),
    words("models", _models),
)
_FLEETS = tuple(map(shown_as_data, _COLUMNS))


_PARTS: tuple[Column[FleetPart], ...] = (
    words("model", lambda part: part.plan.model),
    words("replicas", lambda part: f"{part.fit.replicas} × {part.fit.sharding.gpus} {part.fit.gpu}"),
    words("engine", lambda part: f"{part.fit.engine} {part.fit.weights}"),
    words("TTFT", lambda part: part.fit.ttft_s.to_text(format_seconds)),
    words("TPOT", lambda part: part.fit.tpot_s.to_text(format_seconds)),
    figure("USD per M out", lambda part: part.fit.usd_per_million_output_tokens, "{:.3g}".format),
    words("evidence", lambda part: part.fit.evidence),
)
