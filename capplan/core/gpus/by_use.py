"""Prices by use: GPUs that are charged by the second and scale to zero, and interfaces that are paid by the token."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerlessProvider:
    """How a provider charges GPUs by the second.

    A cold start is charged. A worker stays for `idle_s` after its last request by default,
    which is charged; the shortest charge is `smallest_s`. `platform_start_s` is the provider's own part of a start, 0
    where it states none. [s]
    """

    idle_s: float
    smallest_s: float
    source: str
    read: date
    platform_start_s: float = 0.0
    regions: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerlessOffer:
    """What a provider asks for one GPU for one second. [USD/s]"""

    provider: str
    gpu: str
    usd_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerlessOffers:
    providers: Mapping[str, ServerlessProvider]
    offers: tuple[ServerlessOffer, ...]

    def of(self, gpu: str) -> tuple[tuple[ServerlessOffer, ServerlessProvider], ...]:
        return tuple((offer, self.providers[offer.provider]) for offer in self.offers if offer.gpu == gpu)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiPrice:
    """What is asked for a million tokens of prompts and answers, and of cached prompts, None if not stated. [USD]"""

    input: float
    output: float
    cached: float | None = None

    def usd_per_request(self, *, input_len: float, output_len: float, cached_fraction: float) -> float:
        """Return the price of one request; cached tokens cost what others do where no price is stated. [USD]"""
        cached = self.input if self.cached is None else self.cached
        prompt = input_len * ((1.0 - cached_fraction) * self.input + cached_fraction * cached)
        return (prompt + output_len * self.output) / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPrice(ApiPrice):
    """What a provider asks for the tokens of a model, read on a day."""

    model: str
    provider: str
    checked: date


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPrices:
    """The prices of all interfaces, and where they were read."""

    source: str
    prices: tuple[TokenPrice, ...]
