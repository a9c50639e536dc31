"""Where an offer's machines stand: the country, the areas that it belongs to, and what differs between countries."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Area(StrEnum):
    """Groups of countries that buyers and laws name.

    `EEA` is the European Union with Iceland, Liechtenstein and Norway. `APAC` is Asia east of Pakistan with Oceania.
    """

    EU = "eu"
    EEA = "eea"
    EUROPE = "europe"
    NORTH_AMERICA = "north-america"
    LATIN_AMERICA = "latin-america"
    APAC = "apac"
    MIDDLE_EAST = "middle-east"
    AFRICA = "africa"


@dataclass(frozen=True, slots=True, kw_only=True)
class Country:
    """A country, and what differs there; None where the database holds no figure.

    Attributes:
        code: ISO 3166-1 alpha-2, in small letters.
        areas: The groups that it belongs to.
        currency: ISO 4217.
        vat_fraction: The standard rate of value-added or goods-and-services tax.
        grid_g_per_kwh: Carbon intensity of electricity over a year. [g CO2e/kWh]
        usd_per_kwh: What a business pays for electricity. [USD/kWh]
    """

    code: str
    name: str
    areas: frozenset[Area]
    currency: str
    vat_fraction: float | None = None
    grid_g_per_kwh: float | None = None
    usd_per_kwh: float | None = None

    @property
    def names(self) -> frozenset[str]:
        """Return every word that names the country or an area of it, in small letters."""
        return frozenset((self.code, self.name.lower(), *self.areas))


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an offer's machines stand: the provider's region, and its country, None where that is not known."""

    region: str
    country: Country | None = None

    def is_in(self, wanted: str) -> bool:
        """Return True if the place certainly lies in a region, country or area.

        Args:
            wanted: A provider's region, a country's code or name, or an area, in any case.
        """
        word = wanted.lower()
        return word == self.region.lower() or (self.country is not None and word in self.country.names)

    def may_be_in(self, wanted: str) -> bool:
        """Return True if the place lies in a region, country or area, or could, its country not being known.

        Args:
            wanted: As for `is_in`.
        """
        return self.is_in(wanted) or self.country is None


def place_words(countries: Iterable[Country]) -> frozenset[str]:
    """Return every word that names a country or an area, in small letters.

    Args:
        countries: All countries of the database.
    """
    return frozenset((*(name for country in countries for name in country.names), *Area))
