"""Which options a page or a workbook may recommend when figures change: the rule of `core.economics.recommend`."""

from capplan.core.gpus.prices import COMMITMENT_YEARS, Term
from capplan.report.procurement.types import ModelReport, OptionRow, Report


def choosable(report: Report, model: ModelReport) -> frozenset[str]:
    """Return the keys of the options that may be recommended: of full evidence, of any evidence where none is.

    An option needs a price, an allowed term and all caps kept; memory that certainly suffices, where any has it.
    """
    allowed = [option for option in model.options if _is_allowed(report, option)]
    certain = [option for option in allowed if option.firm_fit] or allowed
    full = [option for option in certain if not option.concerns] or certain
    return frozenset(option.key for option in full)


def _is_allowed(report: Report, option: OptionRow) -> bool:
    load, money = report.demand.load, report.demand.money
    if option.cost_usd_per_year is None or option.violations:
        return False
    if option.term == Term.SPOT and not load.allow_spot:
        return False
    return COMMITMENT_YEARS.get(Term(option.term), 0) <= money.years
