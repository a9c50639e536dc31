"""Which options may be recommended: how far their speed and their price can be trusted."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from capplan.core.economics.options import Option
from capplan.core.gpus.prices import PriceTier
from capplan.core.serving.response import SpeedTier

DEFAULT_MAX_PRICE_AGE_DAYS = 180
"""A price that is older counts as old: list rents of one GPU moved by a third within six months in 2026."""


class Concern(StrEnum):
    """Why an option is not recommended without saying so; the value is how a report words it."""

    SPEED_FROM_SPEC_SHEET = "speed from the spec sheet alone"
    HEARSAY_PRICE = "price is hearsay"
    UNDATED_PRICE = "day of the price unknown"
    OLD_PRICE = "old price"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standards:
    """What an option must meet to be recommended.

    Attributes:
        certain_fits: GPUs whose memory suffices for the whole interval of the estimate.
        today: The day from which the age of prices is counted.
        max_price_age_days: Older prices count as old. [days]
    """

    certain_fits: frozenset[str]
    today: date
    max_price_age_days: int = DEFAULT_MAX_PRICE_AGE_DAYS

    def fits_certainly(self, option: Option) -> bool:
        """Return True if the GPU's memory certainly suffices."""
        return option.gpu in self.certain_fits

    def concerns(self, option: Option) -> tuple[Concern, ...]:
        """Return what speaks against recommending an option; empty for full evidence."""
        found = []
        if option.sizing.supply.candidate.speed is SpeedTier.SPEC_SHEET:
            found.append(Concern.SPEED_FROM_SPEC_SHEET)
        price = option.rent or option.purchase
        if price is None:
            return tuple(found)
        if price.tier is PriceTier.HEARSAY:
            found.append(Concern.HEARSAY_PRICE)
        if price.evidence.age_days(self.today) is None:
            found.append(Concern.UNDATED_PRICE)
        elif price.evidence.is_old(self.today, max_age_days=self.max_price_age_days):
            found.append(Concern.OLD_PRICE)
        return tuple(found)

    def of_full_evidence(self, options: Sequence[Option]) -> list[Option]:
        """Return the options without concerns, in their order."""
        return [option for option in options if not self.concerns(option)]
