"""Several models on one fleet for people: the cheapest fleet, and the others beside it."""

from capplan.llm.core.fleet.deployment_plan import DeploymentPlan
from capplan.llm.core.fleet.gpu_sharing import SharedPart
from capplan.llm.core.fleet.shared_fleet import SharedFleet
from capplan.report.table import Table, render_text, table
from capplan.units import format_seconds

_SHOWN = 10


def fleets_text(plans: tuple[DeploymentPlan, ...], fleets: tuple[SharedFleet, ...]) -> str:
    """Lay the fleets out for the terminal."""
    missing = [f"{plan.model}: {plan.advice}\n" for plan in plans if not plan.fits]
    if not fleets:
        reason = "".join(missing) or "No GPU carries all models, and no deployment of each does.\n"
        return f"No fleet serves all {len(plans)} models within their limits.\n{reason}"
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
    lines = "".join(f"  · {note}\n" for note in notes)
    return f"{best.words}{price}.\n\n{render_text(fleet_table(fleets, most=_SHOWN))}{lines}"


def _shared_words(part: SharedPart) -> str:
    return (
        f"{part.plan.model}: TTFT {format_seconds(part.ttft_s)}, TPOT {format_seconds(part.tpot_s)}, steps "
        f"{part.slowdown:.2f} times as long as on GPUs of its own, memory for {part.sequences} sequences"
    )


def fleet_table(fleets: tuple[SharedFleet, ...], *, most: int | None) -> Table:
    """Lay fleets out, the cheapest first."""
    rows = [
        (
            fleet.gpu or "mixed",
            str(fleet.gpus),
            str(fleet.servers),
            f"{fleet.usd_per_hour:,.2f}" if fleet.usd_per_hour is not None else "",
            ", ".join(
                (
                    *(f"{part.plan.model} {part.fit.gpus} × {part.fit.gpu}" for part in fleet.parts),
                    *(group.words for group in fleet.shared),
                )
            ),
        )
        for fleet in fleets[:most]
    ]
    return table("GPU|GPUs>|servers>|USD/h>|models", rows)
