"""The sheet of options: its columns in the order in which a decision needs them, with their formulas."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

from xlsxwriter.utility import xl_col_to_name

from capplan.core.economics.decide import factor_of
from capplan.core.gpus.prices import Term
from capplan.core.serving.load import Job, OneGpu, TrainingPurchase
from capplan.report.procurement import figures
from capplan.report.procurement.choosable import choosable
from capplan.report.procurement.tables import latency_words
from capplan.report.procurement.types import ModelReport, Report
from capplan.report.procurement.workbook.book import LINE_POINTS, Book, cell_text, heading_height
from capplan.report.procurement.workbook.formulas import FIRST_ROW, Formulas
from capplan.shapes.procurement import has_reserve, is_bought
from capplan.shapes.types import OptionRow
from capplan.units import SECONDS

Value = float | int | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SheetColumn:
    """One column of the sheet of options: its heading, how its figures look, and its value.

    `is_printed` columns stand first; the others, which the first are worked out from, stay on the screen.
    """

    key: str
    title: str
    value: Callable[[OptionRow], Value]
    digits: str = ""
    width: float = 14.0
    is_printed: bool = False


def option_columns(report: Report, model: ModelReport) -> list[SheetColumn]:
    """Return the columns; those of a year come once for every year counted."""
    years = report.demand.money.years
    between = [column for year in range(years) for column in _year_columns(year)]
    printed = {"gpus0", f"gpus{years - 1}"}
    pool = choosable(report, model)
    return [
        *_offer_columns(report),
        *(replace(column, width=10, is_printed=True) for column in between if column.key in printed),
        *_result_columns(report, model, pool),
        *_speed_columns(report),
        *(column for column in between if column.key not in printed),
        *_working_columns(report, model, pool),
    ]


def _offer_columns(report: Report) -> Iterator[SheetColumn]:
    """Yield who offers which GPU at which price."""
    column = partial(SheetColumn, is_printed=True)
    yield column(key="gpu", title="GPU", value=lambda o: o.gpu_name, width=34)
    yield column(key="term", title="term", value=lambda o: figures.term_words(o.term), width=20)
    yield column(key="offer", title="offer", value=figures.offer, width=34)
    yield column(key="day", title="price of", value=lambda o: str(o.price_date or ""), width=11)
    price = partial(_listed, report)
    yield column(key="price", title="listed price, USD per GPU-hour or GPU", value=price, digits="0.0000", width=12)


def _result_columns(report: Report, model: ModelReport, pool: frozenset[str]) -> Iterator[SheetColumn]:
    """Yield what an option takes and costs, and whether it may be recommended, as those of the pool may."""
    column = partial(SheetColumn, is_printed=True)
    latency = partial(column, key="latency", title="latency, s", digits="0.000000", width=11)
    yield latency(value=lambda o: o.latency_s.expected)
    if isinstance(report.demand.load, Job | TrainingPurchase):
        finish = partial(column, key="finish", title="hours until a run is finished", digits="#,##0.00", width=11)
        yield finish(value=lambda o: None if o.finish_s is None else o.finish_s / SECONDS["h"])
    for key, title, field in (
        ("initial", "USD on the first day", "initial_usd"), ("annual", "USD per year", "cost_usd_per_year"),
        ("total", "USD in all", "total_usd"),
    ):  # fmt: skip
        yield column(key=key, title=title, value=partial(_field, field), digits="#,##0.00")
    if any(has_reserve(row) for row in model.options):
        yield column(key="fewer", title="GPUs as stated", value=lambda o: o.stated_gpus, digits="#,##0", width=10)
        stated = partial(column, key="less", title="USD per year as stated", digits="#,##0.00")
        yield stated(value=lambda o: o.stated_cost_usd_per_year)
    million = partial(_field, "usd_per_million")
    yield column(key="million", title=f"USD per million {model.items}", value=million, digits="0.0000", width=12)
    may = partial(column, key="may", title="may be recommended", width=14)
    yield may(value=lambda o: "yes" if o.key in pool else "no")


def _speed_columns(report: Report) -> Iterator[SheetColumn]:
    """Yield how fast one GPU is, and how GPUs are bought."""
    yield SheetColumn(key="batch", title="batch", value=lambda o: o.batch, digits="#,##0")
    rate = partial(SheetColumn, key="rate", title=f"{report.items}/s per GPU", digits="#,##0.00")
    yield rate(value=lambda o: o.rate_per_gpu_per_s)
    if isinstance(report.demand.load, TrainingPurchase):
        for key, title, field in (
            ("alone", "samples/s alone", "rate_alone_per_s"),
            ("within", "samples/s in one server", "rate_within_server_per_s"),
            ("across", "samples/s across servers", "rate_across_servers_per_s"),
        ):
            yield SheetColumn(key=key, title=title, value=partial(_field, field), digits="#,##0.00")
    if not isinstance(report.demand.load, OneGpu):
        reserve = partial(SheetColumn, key="reserve", title="sized for, × the load", digits="0.0000")
        yield reserve(value=lambda o: o.reserve_factor)
    slots = partial(SheetColumn, key="slots", title="GPUs per server or instance", digits="#,##0")
    yield slots(value=lambda o: o.server_slots)
    yield SheetColumn(key="full", title="comes only full", value=lambda o: "yes" if o.full_servers else "no")
    yield SheetColumn(key="tdp", title="power limit of a GPU, W", value=lambda o: o.tdp_w, digits="#,##0")


def _working_columns(report: Report, model: ModelReport, pool: frozenset[str]) -> Iterator[SheetColumn]:
    """Yield energy, the parts of the money, and what options of the pool are ranked by."""
    yield from _power_columns(model)
    kwh = partial(SheetColumn, key="kwh", title="kWh per year", digits="#,##0.00")
    yield kwh(value=lambda o: o.energy_kwh_per_year)
    for key, title, field in (
        ("running", "USD per year running (first year)", "running_usd_per_year"),
        ("residual", "USD residual value", "residual_usd"), ("present", "USD net present", "present_usd"),
    ):  # fmt: skip
        yield SheetColumn(key=key, title=title, value=partial(_field, field), digits="#,##0.00")
    yield SheetColumn(key="worth", title="ranked by", value=lambda o: _worth(report, o, pool), digits="#,##0.00")
    yield SheetColumn(key="name", title="option", value=figures.option_name, width=34)
    yield SheetColumn(key="best", title="cheapest of those", value=lambda _: 0, digits="#,##0")


def _power_columns(model: ModelReport) -> Iterator[SheetColumn]:
    """Yield what a GPU draws: idle, in use, and its curve over the rate as points and how the slope turns at each."""
    used = partial(SheetColumn, key="used", title="W of a GPU in use", digits="#,##0.00")
    yield used(value=lambda o: o.card_used_w)
    idle = partial(SheetColumn, key="idle", title="W of an idle GPU", digits="#,##0.00")
    yield idle(value=lambda o: o.card_watts[0] if o.card_watts else None)
    count = max((len(option.card_watts) for option in model.options), default=0)
    for place in range(count):
        title = f"samples/s at point {place + 1} of its power"
        yield SheetColumn(key=f"knot{place}", title=title, value=partial(_point, place), digits="#,##0.00")
    for place in range(count):
        title = f"W per sample/s that point {place + 1} adds to the slope"
        yield SheetColumn(key=f"turn{place}", title=title, value=partial(_turn, place), digits="0.000000")


def _point(place: int, option: OptionRow) -> Value:
    rates = option.card_rates_per_s
    return rates[place] if place < len(rates) else None


def _turn(place: int, option: OptionRow) -> Value:
    """Return by how much the slope of a GPU's power over its rate changes at a point; it is flat beyond the last."""
    points = list(zip(option.card_rates_per_s, option.card_watts, strict=True))
    if place >= len(points):
        return None
    slopes = [0.0, *((w - v) / (y - x) for (x, v), (y, w) in pairwise(points)), 0.0]
    return slopes[place + 1] - slopes[place]


def _field(field: str, option: OptionRow) -> Value:
    value: Value = getattr(option, field)
    return value


def _worth(report: Report, option: OptionRow, pool: frozenset[str]) -> Value:
    """Return what options are ranked by; a text, which MIN passes over, where an option may not be recommended."""
    if option.key not in pool:
        return "no"
    one_gpu = isinstance(report.demand.load, OneGpu)
    cost = option.usd_per_million if one_gpu else option.cost_usd_per_year
    return None if cost is None else cost * option.aged_factor


def _listed(report: Report, option: OptionRow) -> float | None:
    """Return an option's price as it is listed, before the factor of the assumptions."""
    kind = "purchase_price_factor" if option.term == Term.BUY else "rent_price_factor"
    return None if option.price_usd is None else option.price_usd / factor_of(report.assumptions, kind)


def _year_columns(year: int) -> list[SheetColumn]:
    name = f"year {year + 1}"

    def of_year(field: str, option: OptionRow) -> Value:
        value: Value = getattr(option, field)[year]
        return value

    pick = partial(partial, of_year)
    return [
        SheetColumn(key=f"need{year}", title=f"GPUs needed, {name}", value=pick("needs_by_year"), digits="#,##0"),
        SheetColumn(key=f"servers{year}", title=f"servers, {name}", value=pick("servers_by_year"), digits="#,##0"),
        SheetColumn(key=f"gpus{year}", title=f"GPUs, {name}", value=pick("gpus_by_year"), digits="#,##0"),
        SheetColumn(key=f"samples{year}", title=f"samples, {name}", value=pick("samples_by_year"), digits="0.00E+00"),
        SheetColumn(key=f"hours{year}", title=f"GPU-hours, {name}", value=pick("gpu_hours_by_year"), digits="#,##0.00"),
    ]


def places_of(report: Report, model: ModelReport) -> dict[str, str]:
    """Return the letters of each column of the sheet, by its key."""
    return {column.key: xl_col_to_name(place) for place, column in enumerate(option_columns(report, model))}


def formulas_of(report: Report, model: ModelReport, names: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the formulas of every option's row, by the key of their column."""
    places, last = places_of(report, model), FIRST_ROW - 1 + len(model.options)
    return [
        Formulas(report=report, option=option, row=row, places=places, names=names, last_row=last).of_row()
        for row, option in enumerate(model.options, start=FIRST_ROW)
    ]


def write_options(
    book: Book, report: Report, model: ModelReport, suffix: str, formulas: Sequence[Mapping[str, str]]
) -> None:
    """Write every option with its formulas; what is printed are the columns that a decision needs."""
    columns = option_columns(report, model)
    widths = [column.width for column in columns]
    sheet = book.sheet(f"Options{suffix}", widths)
    sheet.freeze_panes(FIRST_ROW - 1, 2)
    sheet.write_string(0, 0, cell_text(f"{model.plan.model.name}: latency is {latency_words(report)}"))
    head = heading_height([column.title for column in columns], widths)
    sheet.set_row(FIRST_ROW - 2, head)
    for place, column in enumerate(columns):
        follows = place > 0 and bool(columns[place - 1].digits)
        left = book.looks.head_after_number if follows else book.looks.head
        form = book.looks.head_right if column.digits else left
        sheet.write_string(FIRST_ROW - 2, place, column.title, form)
    for row, (option, cells) in enumerate(zip(model.options, formulas, strict=True), start=FIRST_ROW - 1):
        is_choice = option.key == model.verdict.choice
        for place, column in enumerate(columns):
            formula = cells.get(column.key)
            _write_value(book, sheet, (row, place), column=column, option=option, formula=formula, is_choice=is_choice)
    sheet.autofilter(FIRST_ROW - 2, 0, FIRST_ROW - 2 + len(model.options), len(columns) - 1)
    printed = [column.width for column in columns if column.is_printed]
    heights = [LINE_POINTS, LINE_POINTS, head, *[LINE_POINTS] * len(model.options)]
    book.print_one_page(sheet, printed, heights)


def _write_value(
    book: Book, sheet: Any, cell: tuple[int, int], *, column: SheetColumn, option: OptionRow, formula: str | None,
    is_choice: bool,
) -> None:  # fmt: skip
    looks, (row, place) = book.looks, cell
    value = int(is_choice) if column.key == "best" else column.value(option)
    form = looks.number.get(column.digits)
    if formula and value is not None:
        sheet.write_formula(row, place, formula, form, value)
    elif value is None:
        is_curve = column.key.startswith(("knot", "turn"))
        is_known_empty = not column.digits or is_curve or (column.key == "residual" and not is_bought(option))
        sheet.write_string(row, place, "" if is_known_empty else figures.UNKNOWN, looks.right)
    elif isinstance(value, str):
        sheet.write_string(row, place, cell_text(value), looks.left if place else looks.chosen if is_choice else None)
    elif column.key == "price":
        sheet.write_number(row, place, value, looks.inputs[0 if is_bought(option) else 4])
        message = {"error_title": "Not possible", "error_message": "A price must be a number above 0."}
        sheet.data_validation(
            row, place, row, place,
            {"validate": "decimal", "criteria": ">", "value": 0, **message},
        )  # fmt: skip
    else:
        sheet.write_number(row, place, value, form)
