"""What speaks against recommending an option, and the age of a price among it."""

from datetime import date
from enum import StrEnum

from capplan.core.gpus.prices import PriceEvidence

DEFAULT_MAX_PRICE_AGE_DAYS = 180
"""A price that is older counts as old: list rents of one GPU moved by a third within six months in 2026."""


class Concern(StrEnum):
    """Why an option is not recommended without saying so; the value is how a report words it."""

    SPEED_FROM_SPEC_SHEET = "speed from the spec sheet alone"
    UNTRIED = "no load of the kind was measured"
    HEARSAY_PRICE = "price is hearsay"
    UNDATED_PRICE = "day of the price unknown"
    OLD_PRICE = "old price"
    EXPIRED_QUOTE = "expired quote"
    OUTDATED_PRICE = "price of over two years ago"
    MARKETPLACE = "marketplace offer"
    END_OF_SALE = "no longer sold by its vendor"
    DRIVER_LICENCE = "driver licence excludes data centres"
    OTHER_VENDOR = "needs porting, and no whole step was timed on its architecture"
    FEW_SCENARIOS = "carries the load in too few scenarios"
    PLAINER_NEARBY = "a plainer fleet costs little more"


PRICE_CONCERNS = frozenset({
    Concern.HEARSAY_PRICE, Concern.UNDATED_PRICE, Concern.OLD_PRICE, Concern.EXPIRED_QUOTE, Concern.OUTDATED_PRICE,
    Concern.MARKETPLACE,
})  # fmt: skip
"""What speaks against a price alone; another offer of the same GPU may have none of it."""

AGE_CONCERNS = frozenset({Concern.OLD_PRICE, Concern.EXPIRED_QUOTE})
"""What is said of a price whose validity has ended; it ranks an option by a higher price, not behind all others."""
_OUTDATED_DAYS = 2 * 365.25


def concerns_of_age(
    known: PriceEvidence, *, on: date, max_age_days: float = DEFAULT_MAX_PRICE_AGE_DAYS
) -> tuple[Concern, ...]:
    """Return what speaks against a price's day; a quote counts until the day to which its seller holds to it."""
    if not known.is_old(on, max_age_days=max_age_days):
        return ()
    if known.is_expired(on):
        return (Concern.EXPIRED_QUOTE,)
    age_days = known.age_days(on)
    if age_days is None:
        return (Concern.UNDATED_PRICE,)
    return (Concern.OUTDATED_PRICE if age_days > _OUTDATED_DAYS else Concern.OLD_PRICE,)
