"""Which options may be recommended, and which of them with another offer of the same GPU."""

from capplan.core.economics.concerns import AGE_CONCERNS, PRICE_CONCERNS
from capplan.core.gpus.prices import COMMITMENT_YEARS, Term
from capplan.report.procurement.types import ModelReport, Report
from capplan.shapes.types import OptionRow


def choosable(report: Report, model: ModelReport) -> frozenset[str]:
    """Return the keys of the options that may be recommended: of full evidence, of any evidence where none is.

    An option needs a price, an allowed term and all caps kept; memory that certainly suffices, where any has it.
    """
    allowed = [option for option in model.options if _is_allowed(report, option)]
    certain = [option for option in allowed if option.certain_fit] or allowed
    full = [option for option in certain if AGE_CONCERNS.issuperset(option.concerns)] or certain
    return frozenset(option.key for option in full)


def choosable_at_another_price(report: Report, model: ModelReport) -> frozenset[str]:
    """Return the keys of the options that only their price keeps from being recommended.

    Another offer of the same GPU and term, with a sound price, may be recommended in their place.
    """
    return frozenset(
        option.key
        for option in model.options
        if _is_allowed(report, option) and option.certain_fit and PRICE_CONCERNS.issuperset(option.concerns)
    )


def _is_allowed(report: Report, option: OptionRow) -> bool:
    load, money = report.demand.load, report.demand.money
    if option.cost_usd_per_year is None or option.violations:
        return False
    if option.term == Term.SPOT and not load.allow_spot:
        return False
    return COMMITMENT_YEARS.get(Term(option.term), 0) <= money.years
