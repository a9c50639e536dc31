"""Wait or buy: a load on hardware that comes later, against what is taken for it now; amounts are US dollars."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from statistics import median

from capplan.core.gpus.prices import Price, PriceTier
from capplan.core.gpus.sale import is_announced
from capplan.core.gpus.spec import GpuSpec, PeakKind
from capplan.core.numbers import Interval

DAYS_PER_YEAR = 365.25
_GENERATIONS = 3
"""Architectures whose prices tell what the next may cost: the newest that have a price on demand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterHardware:
    """What carries a load now, what bridges the time until new hardware is there, and that hardware. [USD/year]

    `years` are the years counted. What each costs in a year is taken to be the same in all of them.
    """

    now_usd: float
    bridge_usd: float
    new_usd: float
    years: float

    def lost_usd(self, wait_years: float) -> float:
        """Return what is paid more, until the new hardware is there, than for what is taken now; below 0 if less."""
        return (self.bridge_usd - self.now_usd) * min(wait_years, self.years)

    def saved_usd(self, wait_years: float) -> float:
        """Return what waiting saves over the years counted; below 0 where it costs more."""
        left = self.years - min(wait_years, self.years)
        return (self.now_usd - self.new_usd) * left - self.lost_usd(wait_years)

    @property
    def longest_years(self) -> float | None:
        """Return for how long waiting may last and still saves, at most the years counted; None where it never does."""
        if self.new_usd >= self.now_usd:
            return None
        if self.bridge_usd <= self.now_usd:
            return self.years
        return self.years * (self.now_usd - self.new_usd) / (self.bridge_usd - self.new_usd)

    def repaid_years(self, wait_years: float) -> float | None:
        """Return after how long, waiting included, what it lost is saved again; None if not in the years counted."""
        if self.new_usd >= self.now_usd:
            return None
        repaid = wait_years + max(0.0, self.lost_usd(wait_years)) / (self.now_usd - self.new_usd)
        return repaid if repaid <= self.years else None

    def break_even_usd(self, wait_years: float) -> float | None:
        """Return what the new hardware may cost at most for waiting to save; None if nothing would be little enough."""
        left = self.years - min(wait_years, self.years)
        most = self.now_usd - self.lost_usd(wait_years) / left if left > 0 else 0.0
        return most if most > 0 else None


def years_until(day: date, today: date) -> float:
    """Return the years from today to a day; 0 where it has passed."""
    return max(0, (day - today).days) / DAYS_PER_YEAR


def day_after(today: date, years: float) -> date:
    return today + timedelta(days=round(years * DAYS_PER_YEAR))


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A GPU of the last generations with its cheapest offer, and what a new one costs at its price for the same work.

    `by_peak_usd` is at the same price per FLOP/s at peak, `by_bandwidth_usd` per GB/s of memory. [USD/h]
    """

    gpu: GpuSpec
    offer: Price
    by_peak_usd: float
    by_bandwidth_usd: float


def peers_of(
    new: GpuSpec, gpus: Iterable[GpuSpec], offers: Mapping[str, Price], *, kinds: Sequence[PeakKind]
) -> tuple[Peer, ...]:
    """Return the GPUs of the last generations whose dated prices tell what a new one may cost, the newest first.

    They are of the same vendor, segment and kind of memory; hearsay and marketplaces count nothing.

    Args:
        new: The GPU that is not sold yet.
        offers: The cheapest offer of each on demand.
        kinds: The units of the number format asked for, the fastest first; the first that both have is compared.
    """
    found: list[Peer] = []
    for gpu in gpus:
        offer = offers.get(gpu.id)
        is_like = (gpu.vendor, gpu.segment, _memory(gpu)) == (new.vendor, new.segment, _memory(new))
        if offer is None or not is_like or is_announced(gpu) or gpu.id == new.id:
            continue
        if offer.tier is PriceTier.HEARSAY or offer.is_marketplace:
            continue
        faster = _times_as_fast(new, gpu, kinds)
        if faster is not None:
            wider = new.memory_bandwidth_bytes_per_s / gpu.memory_bandwidth_bytes_per_s
            usd = offer.usd_per_hour
            found.append(Peer(gpu=gpu, offer=offer, by_peak_usd=usd * faster, by_bandwidth_usd=usd * wider))
    found.sort(key=lambda peer: (peer.gpu.release_date or date.min, peer.gpu.id), reverse=True)
    newest = list(dict.fromkeys(peer.gpu.architecture_id for peer in found))[:_GENERATIONS]
    return tuple(peer for peer in found if peer.gpu.architecture_id in newest)


def range_of(peers: Sequence[Peer]) -> Interval:
    """Return what a GPU that nobody sells yet may cost to rent: ends and median of its peers' prices. [USD/h]"""
    prices = [usd for peer in peers for usd in (peer.by_peak_usd, peer.by_bandwidth_usd)]
    return Interval(low=min(prices), expected=median(prices), high=max(prices))


def _memory(gpu: GpuSpec) -> str:
    """Return the kind of memory without its generation: HBM, GDDR, LPDDR."""
    return (gpu.memory_type or "").rstrip("0123456789eExX")


def _times_as_fast(new: GpuSpec, old: GpuSpec, kinds: Sequence[PeakKind]) -> float | None:
    for kind in kinds:
        if (ours := new.peak(kind)) and (theirs := old.peak(kind)):
            return ours / theirs
    return None
