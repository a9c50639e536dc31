"""The machines that providers rent: their GPUs, links and network, where they stand, and amounts in local currency."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

from capplan.core.assumed import CARD_SERVER, NETWORK_BYTES_PER_S
from capplan.core.gpus.spec import GpuSpec, Source

_BOARD_GPUS = 8
"""GPUs of a board of modules (HGX, DGX, OAM), all joined by NVLink, Infinity Fabric or Gaudi's links."""
_RACK_GPUS = {"gb200-186gb": 72, "gb300-288gb": 72}
"""GPUs in one NVLink domain of a rack (NVIDIA GB200 NVL72, GB300 NVL72)."""
_RACK_SERVER_GPUS = 4
"""GPUs of one server of such a rack: a tray of two boards, each with a CPU and two GPUs."""
_BRIDGED_GPUS = 2
"""An NVLink bridge joins two cards; four-way bridges exist for few cards and few servers have them."""
_CHIP_GPUS = 4
"""TPU chips of one host that certainly share their interconnect: v4 and v5p hosts hold four."""


def joined_gpus(gpu: GpuSpec) -> int:
    """Return how many GPUs of a kind fast links join at most in one server: 1 where only PCIe does.

    Modules sit on boards of eight; a bridge joins two cards; a GH200's printed link leads to its own processor.
    """
    if not gpu.nvlink_bytes_per_s:
        return 1
    form = (gpu.form_factor or "").upper()
    if form.startswith(("SXM", "OAM")):
        return _BOARD_GPUS
    if form.startswith("SUPERCHIP"):
        return _RACK_GPUS.get(gpu.id, 1)
    return _CHIP_GPUS if form.startswith("CLOUD") else _BRIDGED_GPUS


def is_bridged(gpu: GpuSpec) -> bool:
    """Return True if a GPU is a card whose fast link is a bridge that must be bought and fitted."""
    return joined_gpus(gpu) == _BRIDGED_GPUS


class HostArchitecture(StrEnum):
    """The instructions of a server's CPUs, which the images of its software must be built for."""

    X86 = "x86-64"
    ARM = "arm64"


def host_architecture(gpu: GpuSpec) -> HostArchitecture:
    """Return the instructions of the CPUs beside a GPU: Arm in modules of NVIDIA and Apple that hold them."""
    holds_cpu = (gpu.form_factor or "").upper().startswith(("SUPERCHIP", "SOC", "SOM"))
    return HostArchitecture.ARM if holds_cpu and gpu.vendor in ("NVIDIA", "Apple") else HostArchitecture.X86


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuServer:
    """What stands in one server, whether it is rented or bought.

    Attributes:
        joined: GPUs that fast links join with one another: 1 where all traffic goes over PCIe. In racks fast links
            leave the server.
        network_bytes_per_s: One GPU's share of the network to servers of its kind, one direction; None where none is
            known, so that no replica can stand in several of them. [bytes/s]
    """

    gpus: int
    joined: int
    network_bytes_per_s: float | None = None


BOARD_OF_EIGHT = GpuServer(gpus=_BOARD_GPUS, joined=_BOARD_GPUS)
"""A server of eight joined modules without a network."""


def usual_server(gpu: GpuSpec, *, network_bytes_per_s: float = NETWORK_BYTES_PER_S) -> GpuServer:
    """Return a server of a GPU as it is built, where none is rented, in a network.

    Boards hold eight modules, servers at most eight cards. A module that holds its own CPU is a server of its own,
    or four are one server of a rack.
    """
    joined, form = joined_gpus(gpu), (gpu.form_factor or "").upper()
    if form.startswith("SUPERCHIP"):
        held = _RACK_SERVER_GPUS if joined > 1 else 1
    elif form.startswith(("SOC", "SOM")):
        held = 1
    else:
        held = joined if joined > _BRIDGED_GPUS else CARD_SERVER
    return GpuServer(gpus=held, joined=joined, network_bytes_per_s=network_bytes_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineType:
    """A type of machine that a provider rents, with its GPUs and what is around them; None where not known.

    Attributes:
        gpus: GPUs of one machine, or of the smallest unit that is rented of them.
        joined: GPUs that fast links join with one another; 1 where all traffic goes over PCIe. None where nothing is
            stated, so that the GPU's kind decides.
        network_bytes_per_s: The machine's network, one direction. [bytes/s]
        is_on_demand: Whether the provider sells it on demand; some are sold as spot or by reservation alone, though
            their hour has a price.
    """

    provider: str
    name: str
    gpu: str
    gpus: int
    source: Source
    joined: int | None = None
    vcpus: int | None = None
    memory_bytes: int | None = None
    network_bytes_per_s: float | None = None
    note: str | None = None
    is_on_demand: bool = True


def joined_in_machine(gpu: GpuSpec, gpus: int, machine: MachineType | None) -> int:
    """Return how many GPUs of a rented machine fast links join."""
    if machine is not None and machine.joined is not None:
        return machine.joined
    return 1 if is_bridged(gpu) else min(gpus, joined_gpus(gpu))


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
class RegionalFigure:
    """A figure of a country or area, such as the price or carbon of a kWh, with its range and from whom it is known."""

    value: float
    low: float
    high: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Country:
    """A country, and what differs there; None where the database holds no figure.

    Attributes:
        code: ISO 3166-1 alpha-2, in small letters.
        areas: The groups that it belongs to.
        currency: ISO 4217.
        vat_fraction: The standard rate of value-added or goods-and-services tax.
        grid_g_per_kwh: Carbon intensity of electricity over a year. [g CO2e/kWh]
        tariff: What a business pays for electricity in its area.
    """

    code: str
    name: str
    areas: frozenset[Area]
    currency: str
    vat_fraction: float | None = None
    grid_g_per_kwh: float | None = None
    tariff: RegionalFigure | None = None

    @property
    def names(self) -> frozenset[str]:
        """Return every word that names the country or an area of it, in small letters."""
        return frozenset((self.code, self.name.lower(), *self.areas))


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an offer's machines stand: the provider's region, and its country, None where that is not known.

    `candidates` are the names of the countries and areas in which a place such as "EU / US" may lie, in small letters;
    empty where it may lie anywhere.
    """

    region: str
    country: Country | None = None
    candidates: frozenset[str] = frozenset()

    def is_in(self, wanted: str) -> bool:
        """Return True if the place certainly lies in a region, country or area."""
        word = wanted.lower()
        return word == self.region.lower() or (self.country is not None and word in self.country.names)

    def may_be_in(self, wanted: str) -> bool:
        """Return True if the place lies in a region, country or area, or could, its country not being known."""
        is_open = self.country is None and (not self.candidates or wanted.lower() in self.candidates)
        return self.is_in(wanted) or is_open


def place_words(countries: Iterable[Country]) -> frozenset[str]:
    """Return every word that names a country or an area, in small letters."""
    return frozenset((*(name for country in countries for name in country.names), *Area))


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalAmount:
    """An amount in another currency, and the value-added tax that the buyer owes.

    Between businesses it is owed where the buyer is established, whoever sells: the buyer accounts for it (Council
    Directive 2006/112/EC, articles 44 and 196; from memory). Where the buyer is not stated, the tax is that of the
    machines' country.

    Attributes:
        currency: ISO 4217.
        amount: The amount without tax.
        vat_fraction: The country's standard rate; None where the country or its rate is not known.
        country: The country's code, None where it is not known.
        usd_per_unit: What a unit of the currency costs. [USD]
        rate_day: The day of that rate; None for the user's own.
        is_reverse_charge: True if the machines stand in another country than the buyer, who owes the own tax.
        is_deductible: True if the buyer deducts the tax, which then costs nothing.
    """

    currency: str
    amount: float
    vat_fraction: float | None
    country: str | None
    usd_per_unit: float
    rate_day: date | None
    is_reverse_charge: bool = False
    is_deductible: bool = False

    @property
    def with_vat(self) -> float | None:
        """Return the amount with the tax; None where its rate is not known."""
        return None if self.vat_fraction is None else self.amount * (1 + self.vat_fraction)

    def tax_words(self, written: Callable[[float], str]) -> str:
        """Describe what the amount comes to with the tax that the buyer owes, or why the tax costs nothing."""
        if self.with_vat is None or self.vat_fraction is None or self.country is None:
            return "VAT is deducted, and no cost" if self.is_deductible else "VAT not known"
        rate = f"{100 * self.vat_fraction:.3g} % VAT of {self.country.upper()}"
        owed = ", which the buyer accounts for (reverse charge)" if self.is_reverse_charge else ""
        if self.is_deductible:
            return f"{rate} is deducted{owed}, and no cost"
        return f"{written(self.with_vat)} with {rate}{owed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCurrency:
    """A currency in which an answer's amounts stand beside US dollars, with the tax of countries by their codes.

    `buyer` is the country in which the buyer is established, None where that is not stated.
    """

    code: str
    usd_per_unit: float
    rate_day: date | None = None
    vat_fractions: Mapping[str, float] = field(default_factory=dict)
    buyer: str | None = None
    deducts_vat: bool = False

    def amount(self, usd: float, *, country: str | None) -> LocalAmount:
        """Return an amount in this currency.

        Args:
            usd: The amount. [USD]
            country: Where the machines stand; None where that is not known, as of what is bought.
        """
        taxed = self.buyer or country
        return LocalAmount(
            currency=self.code,
            amount=usd / self.usd_per_unit,
            vat_fraction=None if taxed is None else self.vat_fractions.get(taxed),
            country=taxed,
            usd_per_unit=self.usd_per_unit,
            rate_day=self.rate_day,
            is_reverse_charge=None not in (self.buyer, country) and self.buyer != country,
            is_deductible=self.deducts_vat,
        )
