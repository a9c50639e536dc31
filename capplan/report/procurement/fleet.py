"""One fleet for several services, in words and tables."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from capplan.core.economics.fleet import FleetDecision, FleetOption, InventoryRow, concerns_of, violations_of
from capplan.core.economics.packing import ShareRow
from capplan.core.gpus.prices import Term
from capplan.report.narrow import Grid
from capplan.report.procurement import figures
from capplan.report.procurement.money_tables import local_cards, obligation_card, total_card
from capplan.report.procurement.types import FleetRow, Report
from capplan.report.render import grid
from capplan.report.sections import Column, KeyFigure, figure, words
from capplan.shapes.procurement import FLEET_OPTION
from capplan.shapes.types import FleetOptionRow
from capplan.units import counted, format_bytes, format_rate

_SHOWN = 12


def fleet_row(answer: FleetDecision) -> FleetRow:
    """Describe the decision for all services together."""
    return FleetRow(
        sentence=_sentence(answer),
        services=tuple(service.name for service in answer.services),
        choice=answer.choice.key if answer.choice else None,
        separate_usd_per_year=answer.separate_usd_per_year,
        options=tuple(FLEET_OPTION.document(option, answer) for option in answer.options),
        inventory=answer.inventory,
    )


def _sentence(answer: FleetDecision) -> str:
    choice, names = answer.choice, ", ".join(service.name for service in answer.services)
    if choice is None or choice.cost is None:
        capped = [option for option in answer.options if violations_of(option, answer.services)]
        if capped:
            broken = "; ".join(violations_of(capped[0], answer.services))
            return f"No fleet of one kind of GPU carries {names} within the caps stated: {_what(capped[0])}, {broken}."
        return f"No fleet of one kind of GPU with a known price carries {names} together."
    option, name = choice.option, choice.option.sizing.capacity.candidate.name
    total, added = choice.gpus_by_year[0], choice.added_by_year
    doubt = concerns_of(choice, answer.services)
    weak = f" (weak evidence: {', '.join(doubt)})" if doubt else ""
    if not any(added):
        keep = f" Keeping them costs {_kept_words(choice)}" if choice.kept.total_usd else ""
        carry = "carries" if choice.owned == 1 else "carry"
        return f"The {choice.owned} owned {name}{weak} {carry} {names}: nothing has to be bought or rented.{keep}"
    verb = "Buy" if choice.term is Term.BUY else "Rent"
    count = added[-1] if choice.term is Term.BUY else added[0]
    where = option.rent.offer_words if option.rent else option.purchase.seller if option.purchase else ""
    name = f"{name} {figures.term_words(choice.term or '')} ({where})" if where else name
    owned = f" in addition to the {choice.owned} owned" if choice.owned else ""
    words = (
        f"{verb} {count} × {name}{weak}{owned} for {names}: {figures.headline_money(choice.cost.per_year)} USD per year"
    )
    separate, beside = answer.separate_usd_per_year, _beside_words(answer)
    if separate is None or len(answer.services) < 2:
        return f"{words}; {counted(total, 'GPU')} in all.{beside}"
    difference = separate - choice.cost.per_year
    more = "less" if difference >= 0 else "more"
    return (
        f"{words}, {figures.headline_money(abs(difference))} USD {more} than a fleet for each "
        f"({figures.headline_money(separate)} USD).{beside}"
    )


def _kept_words(made: FleetOption) -> str:
    """Write what owned servers cost a year, and for what."""
    kept = made.kept
    parts = (
        ("energy", kept.energy_usd),
        ("space", kept.space_usd),
        ("staff", kept.staff_usd),
        ("licences", kept.licences_usd),
    )
    written = ", ".join(f"{figures.headline_money(usd)} of {name}" for name, usd in parts if usd)
    return f"{figures.headline_money(kept.total_usd)} USD a year ({written})."


def _beside_words(answer: FleetDecision) -> str:
    """Describe what the owned GPUs of the choice cost, or those that are not used would."""
    choice, unused = answer.choice, answer.keeping
    if choice is not None and choice.owned and choice.kept.total_usd:
        return f" Of it, keeping those owned costs {_kept_words(choice)}"
    if unused is None or unused.cost is None:
        return ""
    name = unused.option.sizing.capacity.candidate.name
    staff = "; that is more even without staff"
    if answer.staff_usd is not None:
        staff = f"; that is less where a server takes under {figures.headline_money(answer.staff_usd)} USD of staff"
    return f" The {unused.owned} owned {name} would carry them for {_kept_words(unused)[:-1]}{staff}."


def _what(made: FleetOption) -> str:
    """Name a fleet by its count and GPU."""
    term = figures.term_words(made.term or "")
    return f"{made.added_by_year[-1]} × {made.option.sizing.capacity.candidate.name} {term}".rstrip()


def fleet_cards(report: Report) -> tuple[KeyFigure, ...]:
    """Return the key figures of the decision for all services; none where no fleet can be chosen."""
    chosen = report.fleet.option(report.fleet.choice) if report.fleet else None
    if chosen is None or chosen.cost_usd_per_year is None:
        return ()
    years = report.demand.money.years
    owned = f", {chosen.owned} owned" if chosen.owned else ""
    gpus = KeyFigure(
        label="GPUs",
        figure=figures.whole(chosen.gpus_by_year[0]),
        note=f"{chosen.needed} needed{owned}; {chosen.gpus_by_year[-1]} in year {years}",
    )
    year = KeyFigure(
        label="Cost per year",
        figure=f"{figures.headline_money(chosen.cost_usd_per_year)} USD",
        note=f"{figures.term_words(chosen.term)}, {chosen.provider or 'no provider named'}",
    )
    if not any(chosen.added_by_year):
        nothing = KeyFigure(label="To be bought or rented", figure="nothing", note="what is owned suffices")
        year = replace(year, note="energy, space, staff and licences of what is owned")
        return (nothing, year, gpus)
    return (
        year,
        total_card(chosen.total_usd or 0.0, chosen.present_usd, report.demand.money),
        obligation_card(
            chosen.term, chosen.yearly_usd,
            upfront_fraction=chosen.upfront_fraction, residual_usd=chosen.residual_usd,
        ),
        gpus,
        *local_cards(report.local, chosen.cost_usd_per_year, chosen.country),
    )  # fmt: skip


def fleet_table(fleet: FleetRow) -> Grid:
    """List the fleets that carry all services, best first; columns that say nothing of any are left out."""
    shown = fleet.options[:_SHOWN]
    columns: list[Column[FleetOptionRow]] = [
        words(
            "fleet",
            lambda row: (
                f"{row.gpu_name} {figures.term_words(row.term) if any(row.added_by_year) else 'owned'}"
                f"{' (recommended)' if row.key == fleet.choice else ''}"
            ),
        ),
        words("provider", lambda row: row.provider if any(row.added_by_year) else None),
        words("weak evidence", lambda row: "; ".join(row.concerns)),
        words("sharing", lambda row: row.sharing),
        figure("GPUs needed", lambda row: row.needed),
        figure("with redundancy", lambda row: row.gpus_by_year[0]),
        figure("owned", lambda row: row.owned),
        figure("added", lambda row: row.added_by_year[0]),
        figure("USD per year", lambda row: figures.whole(row.cost_usd_per_year)),
        figure("USD in all", lambda row: figures.whole(row.total_usd)),
        figure("kWh per year", lambda row: figures.whole(row.energy_kwh_per_year)),
        figure("kW bought", lambda row: row.power_w, lambda power_w: f"{power_w / 1000:.1f}"),
        figure("rack units bought", lambda row: row.rack_units or None),
        words("exceeds", lambda row: "; ".join(row.violations)),
    ]
    return grid([column for column in columns if any(column.cell(row) for row in shown)], shown)


def sharing_table(fleet: FleetRow) -> Grid | None:
    """Show where each service runs in the recommended fleet, and what sharing does to its latency."""
    chosen = fleet.option(fleet.choice) or (fleet.options[0] if fleet.options else None)
    if chosen is None:
        return None
    scale = figures.time_scale(share.alone_s for shares in chosen.shared for share in shares)
    rows = [_Place(f"{count} whole", name) for name, count in chosen.whole.items()]
    rows += [
        _Place(f"shared GPU {index}{f', slice {share.profile}' if share.profile else ''}", share.service, share)
        for index, shares in enumerate(chosen.shared, start=1)
        for share in shares
    ]

    def of_share(title: str, cell: Callable[[ShareRow], str]) -> Column[_Place]:
        return figure(title, lambda row: cell(row.share) if row.share else "")

    columns: list[Column[_Place]] = [
        words("where", lambda row: row.where),
        words("service", lambda row: row.service),
        of_share("samples per s", lambda share: format_rate(share.rate_per_s)),
        of_share("share of GPU time", lambda share: figures.percent(share.utilization_fraction, 1)),
        of_share("memory", lambda share: format_bytes(share.memory_bytes)),
        of_share("latency alone", lambda share: "" if share.alone_s is None else scale.write(share.alone_s)),
        of_share("latency when shared", lambda share: "" if share.alone_s is None else scale.write(share.latency_s)),
    ]
    return grid(columns, rows)


class _Place(NamedTuple):
    """Where a service runs: on whole GPUs, or with others on one, of which it has a share."""

    where: str
    service: str
    share: ShareRow | None = None


def inventory_table(fleet: FleetRow) -> Grid | None:
    """Show what owned GPUs carry, how much more they could, and when they are full."""
    return grid(_INVENTORY, fleet.inventory) if fleet.inventory else None


_INVENTORY: tuple[Column[InventoryRow], ...] = (
    words("owned GPU", lambda row: row.gpu),
    figure("count", lambda row: row.count),
    words("carries", lambda row: ", ".join(row.services) or "none of the services"),
    figure("GPUs needed, with a spare", lambda row: row.needed),
    figure("load that fits, × today's", lambda row: row.load_factor, "{:.2f}".format),
    figure("months until full", lambda row: row.months_until_full, unknown="not within 10 years"),
)


SHARING_WORDS = (
    "Whole GPUs serve one service each; what is left of each peak shares a GPU. In turns (time-sliced), a service's "
    "batches take 1 / (1 - the others' share of the time) as long; on a MIG slice they take as long as its share of "
    "arithmetic or bandwidth makes them, whatever the neighbours do."
)
