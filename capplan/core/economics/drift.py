"""How far prices move as they age: a price that was read long ago says less of what is asked today."""

import math
from dataclasses import dataclass
from datetime import date

from capplan.core.gpus.prices import Price, PurchasePrice

_Z_90 = 1.6449
"""Half width, in standard deviations, of the interval that holds 90 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceDrift:
    """The spread of a price's logarithm after a year, of rents and of purchases; it grows with the square root of age.

    Learnt from offers whose price is known of two days, from the tail of |ln(later ÷ earlier)| ÷ √years over 1.645,
    because most prices stand still and few jump.
    """

    rent_sigma: float
    purchase_sigma: float

    def sigma(self, price: Price | PurchasePrice, today: date) -> float:
        """Return the spread of a price's logarithm at its age.

        Args:
            price: The price; of one without a day on which it held, the day of reading counts.
            today: The day.
        """
        years = max(0, (today - price.date).days) / 365.25
        yearly = self.rent_sigma if isinstance(price, Price) else self.purchase_sigma
        return yearly * math.sqrt(years)

    def high_factor(self, price: Price | PurchasePrice, today: date) -> float:
        """Return the factor that a price at its age exceeds in one case of twenty.

        Args:
            price: The price.
            today: The day.
        """
        return math.exp(_Z_90 * self.sigma(price, today))


NO_DRIFT = PriceDrift(rent_sigma=0.0, purchase_sigma=0.0)
"""Prices that do not move."""
