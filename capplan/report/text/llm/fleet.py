"""Several models on one fleet as sections: the cheapest fleet, and the others beside it."""

from capplan.core.numbers import Interval
from capplan.llm.core.fleet.gpu_sharing import FleetPart, SharedPart
from capplan.llm.core.fleet.limits import PATIENCE_FILE_WORDS
from capplan.llm.core.fleet.shared_fleet import FleetAnswer, SharedFleet
from capplan.report.sections import Column, Format, LineRole, Lines, Section, Table, figure, shown_as_data, words
from capplan.report.text.prices import local_words
from capplan.units import format_seconds, format_watts

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
    notes += [_shared_words(part) for group in best.shared for part in group.parts]
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


def _shared_words(part: SharedPart) -> str:
    return (
        f"{part.plan.model}: TTFT {format_seconds(part.ttft_s)}, TPOT {format_seconds(part.tpot_s)}, steps "
        f"{part.slowdown:.2f} times as long as on GPUs of its own, memory for {part.sequences} sequences"
    )


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


def _range(times: Interval) -> str:
    return f"{format_seconds(times.expected)} ({format_seconds(times.low)} to {format_seconds(times.high)})"


_PARTS: tuple[Column[FleetPart], ...] = (
    words("model", lambda part: part.plan.model),
    words("replicas", lambda part: f"{part.fit.replicas} × {part.fit.sharding.gpus} {part.fit.gpu}"),
    words("engine", lambda part: f"{part.fit.engine} {part.fit.weights}"),
    words("TTFT", lambda part: _range(part.fit.ttft_s)),
    words("TPOT", lambda part: _range(part.fit.tpot_s)),
    figure("USD per M out", lambda part: part.fit.usd_per_million_output_tokens, "{:.3g}".format),
    words("evidence", lambda part: part.fit.evidence),
)
