"""Several models on one fleet as sections: the cheapest fleet, and the others beside it."""

from collections.abc import Sequence

from capplan.llm.core.fleet.deployment_plan import DeploymentPlan
from capplan.llm.core.fleet.gpu_sharing import SharedPart
from capplan.llm.core.fleet.shared_fleet import SharedFleet
from capplan.report.sections import Column, Format, LineRole, Lines, Section, Table, figure, shown_as_data, words
from capplan.units import format_seconds

_SHOWN = 10


def shared_fleet_sections(plans: Sequence[DeploymentPlan], fleets: Sequence[SharedFleet]) -> list[Section]:
    """Return fleets that serve several models, the cheapest first; or why there is none."""
    if not fleets:
        missing = [f"{plan.model}: {plan.advice}" for plan in plans if not plan.fits]
        reasons = missing or ["No GPU carries all models, and no deployment of each does."]
        lines = [f"No fleet serves all {len(plans)} models within their limits.", *reasons]
        return [Section([Lines(lines, only=Format.TABLE), Table(_FLEETS, fleets, only=Format.MD)])]
    best = fleets[0]
    price = f", {best.usd_per_hour:,.2f} USD/h" if best.usd_per_hour is not None else ", no known price"
    shares = any(fleet.shared for fleet in fleets)
    sharing = "" if shares else ", and no two models share a GPU"
    notes = [f"servers hold eight GPUs; no replica crosses two{sharing}"]
    if shares:
        notes.append(
            "models on the same GPUs take turns, and their memory adds up: an estimate, no such run was compared"
        )
    notes += [_shared_words(part) for group in best.shared for part in group.parts]
    return [
        Section(
            [
                Lines([f"{best.words}{price}."], only=Format.TABLE),
                Table(_FLEETS, fleets, most=_SHOWN),
                Lines(notes, role=LineRole.NOTE, is_attached=True, only=Format.TABLE),
            ]
        )
    ]


def _shared_words(part: SharedPart) -> str:
    return (
        f"{part.plan.model}: TTFT {format_seconds(part.ttft_s)}, TPOT {format_seconds(part.tpot_s)}, steps "
        f"{part.slowdown:.2f} times as long as on GPUs of its own, memory for {part.sequences} sequences"
    )


def _models(fleet: SharedFleet) -> str:
    parts = (f"{part.plan.model} {part.fit.gpus} × {part.fit.gpu}" for part in fleet.parts)
    return ", ".join((*parts, *(group.words for group in fleet.shared)))


_COLUMNS: tuple[Column[SharedFleet], ...] = (
    words("GPU", lambda fleet: fleet.gpu or "mixed"),
    figure("GPUs", lambda fleet: fleet.gpus),
    figure("servers", lambda fleet: fleet.servers),
    figure("USD/h", lambda fleet: fleet.usd_per_hour, "{:,.2f}".format),
    words("models", _models),
)
_FLEETS = tuple(map(shown_as_data, _COLUMNS))
