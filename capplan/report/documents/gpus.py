"""GPUs, their prices, and what this machine holds, as typed documents in base units: bytes, bytes/s, FLOP/s, Hz, W."""

import datetime
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from capplan.core.gpus.attributes import ATTRIBUTES, Absence, Attribute
from capplan.core.gpus.names import InstalledGpu, differences
from capplan.core.gpus.prices import DateKind, Price, PriceKind, PriceTier, PurchasePrice, Term
from capplan.core.gpus.spec import Figure, GpuArchitecture, GpuSpec, Segment, Source, Status
from capplan.shapes.codec import SCHEMA_VERSION, Document, SignedDocument
from capplan.version import __version__

_ALWAYS_KNOWN = frozenset(
    {"id", "name", "vendor", "architecture", "memory_bytes", "memory_bandwidth_bytes_per_s", "devices_per_board",
     "origin"}
)  # fmt: skip
_KINDS: dict[str, Any] = {"segment": Segment, "status": Status, "release_date": datetime.date}


def _field(attribute: Attribute) -> tuple[str, Any] | tuple[str, Any, Any]:
    """Return a field of the document: null stands for unsupported, an absent field for unknown."""
    number = Annotated[float, Meta(gt=0)]
    kind = number if attribute.is_number else _KINDS.get(attribute.base_name, str)
    if attribute.base_name in _ALWAYS_KNOWN:
        return attribute.base_name, kind
    held = kind | None if attribute.base_name.startswith("peak_") else kind
    return attribute.base_name, held | UnsetType, UNSET


_FIELDS: list[Any] = [
    *map(_field, ATTRIBUTES.values()),
    ("architecture_id", str),
    ("aliases", tuple[str, ...]),
]

if TYPE_CHECKING:
    GpuDocument: TypeAlias = msgspec.Struct
    GpuSheetDocument: TypeAlias = msgspec.Struct
else:
    GpuDocument = msgspec.defstruct(
        "GpuDocument",
        _FIELDS,
        frozen=True,
        kw_only=True,
        namespace={"__doc__": "One GPU. A figure that nobody states is absent; null is unsupported."},
    )


class SourceDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Where a figure was read."""

    kind: str
    title: str
    publisher: str | UnsetType = UNSET
    url: str | UnsetType = UNSET
    retrieved: datetime.date | UnsetType = UNSET


class FigureDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A figure as its source prints it."""

    as_written: str
    printed: str | UnsetType = UNSET
    quality: str | UnsetType = UNSET
    regime: str | UnsetType = UNSET
    origin: str
    sources: tuple[SourceDocument, ...]


class PriceDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A price of one GPU: an hourly rent from a provider, or a purchase from a seller. [USD]

    A rented machine is taken whole, with `instance_gpus` GPUs of which fast links join `joined_gpus`. `comparison` says
    why nobody can order at the price; it is absent for offers.
    """

    gpu: str | UnsetType = UNSET
    term: Term
    usd_per_hour: float | UnsetType = UNSET
    provider: str | UnsetType = UNSET
    region: str | UnsetType = UNSET
    instance: str | UnsetType | None = UNSET
    instance_gpus: int | UnsetType = UNSET
    usd: float | UnsetType = UNSET
    seller: str | UnsetType = UNSET
    date: datetime.date
    date_is: DateKind
    tier: PriceTier
    kind: PriceKind
    source: str
    country: str | UnsetType | None = UNSET
    joined_gpus: int | UnsetType = UNSET
    comparison: str | UnsetType = UNSET
    upfront_fraction: float | UnsetType = UNSET
    note: str | UnsetType = UNSET
    includes_server: Annotated[bool | UnsetType, Meta(description="true: with the server around the GPU")] = UNSET


if not TYPE_CHECKING:
    GpuSheetDocument = msgspec.defstruct(
        "GpuSheetDocument",
        [
            ("schema_version", Literal[1]),
            ("capplan_version", str),
            *_FIELDS,
            ("notes", tuple[str, ...]),
            ("figures", dict[str, FigureDocument]),
            ("prices", tuple[PriceDocument, ...]),
        ],
        frozen=True,
        kw_only=True,
        namespace={"__doc__": "What `capplan gpus show --json` writes: one GPU with every value's sources and prices."},
    )


class GpusDocument(SignedDocument, frozen=True, kw_only=True):
    """What `capplan gpus --json` and `gpus compare --json` write."""

    gpus: tuple[GpuDocument, ...]


class PricesDocument(Document, frozen=True, kw_only=True):
    """What `capplan prices --json` writes."""

    currency: Literal["USD"]
    prices: tuple[PriceDocument, ...]


def gpus_document(specs: Sequence[GpuSpec]) -> GpusDocument:
    """Return GPUs as a document.

    Args:
        specs: The GPUs, in the order of the list.
    """
    return GpusDocument(
        schema_version=SCHEMA_VERSION,
        capplan_version=__version__,
        gpus=tuple(GpuDocument(**_figures_of(spec)) for spec in specs),
    )


def gpu_sheet_document(
    spec: GpuSpec, architecture: GpuArchitecture, hourly: Sequence[Price], purchase: Sequence[PurchasePrice]
) -> GpuSheetDocument:
    """Return one GPU with the sources of its values and its prices as a document.

    Args:
        spec: The GPU.
        architecture: Its architecture, whose figures are listed with the GPU's own.
        hourly: Its rents.
        purchase: Its purchase prices.
    """
    return GpuSheetDocument(
        schema_version=SCHEMA_VERSION,
        capplan_version=__version__,
        **_figures_of(spec),
        notes=spec.notes,
        figures={key: _figure(figure) for key, figure in all_figures(spec, architecture)},
        prices=(*map(_rent, hourly), *map(_purchase, purchase)),
    )


def prices_document(hourly: Sequence[Price], purchase: Sequence[PurchasePrice]) -> PricesDocument:
    """Return prices of many GPUs as a document; rents before purchases.

    Args:
        hourly: Hourly rents.
        purchase: Purchase prices.
    """
    rents = (msgspec.structs.replace(_rent(price), gpu=price.gpu) for price in hourly)
    bought = (msgspec.structs.replace(_purchase(price), gpu=price.gpu) for price in purchase)
    return PricesDocument(schema_version=SCHEMA_VERSION, currency="USD", prices=(*rents, *bought))


def all_figures(spec: GpuSpec, architecture: GpuArchitecture) -> Iterable[tuple[str, Figure]]:
    """Yield the figures of a GPU and of its architecture by name.

    Args:
        spec: The GPU.
        architecture: Its architecture.
    """
    yield from spec.figures.items()
    for key, figure in architecture.figures.items():
        yield f"architecture.{key}", figure


def _figures_of(spec: GpuSpec) -> dict[str, Any]:
    values = {attribute.base_name: attribute.value(spec) for attribute in ATTRIBUTES.values()}
    known = {
        name: None if value is Absence.UNSUPPORTED else value
        for name, value in values.items()
        if value is not Absence.UNKNOWN
    }
    return {**known, "architecture_id": spec.architecture_id, "aliases": spec.aliases}


def _figure(figure: Figure) -> FigureDocument:
    return FigureDocument(
        as_written=figure.text,
        printed=figure.printed or UNSET,
        quality=figure.quality.value if figure.quality else UNSET,
        regime=figure.regime.value if figure.regime else UNSET,
        origin=figure.origin,
        sources=tuple(map(_source, figure.sources)),
    )


def _source(source: Source) -> SourceDocument:
    return SourceDocument(
        kind=source.kind.value,
        title=source.title,
        publisher=UNSET if source.publisher is None else source.publisher,
        url=UNSET if source.url is None else source.url,
        retrieved=source.retrieved or UNSET,
    )


def _rent(price: Price) -> PriceDocument:
    return PriceDocument(
        term=price.term,
        usd_per_hour=price.usd_per_hour,
        provider=price.provider,
        region=price.region,
        instance=price.instance,
        instance_gpus=price.instance_gpus,
        date=price.date,
        date_is=price.date_is,
        tier=price.tier,
        kind=price.kind,
        source=price.source,
        country=price.country,
        joined_gpus=price.joined,
        comparison=price.comparison or UNSET,
        upfront_fraction=UNSET if price.upfront_fraction is None else price.upfront_fraction,
        note=price.note or UNSET,
    )


def _purchase(price: PurchasePrice) -> PriceDocument:
    return PriceDocument(
        term=Term.BUY,
        usd=price.usd,
        seller=price.seller,
        date=price.date,
        date_is=price.date_is,
        tier=price.tier,
        kind=price.kind,
        source=price.source,
        includes_server=price.includes_server or UNSET,
    )


Match: TypeAlias = tuple[InstalledGpu, GpuSpec | None]
"""A device with its spec; None where the database has none."""


class InstalledGpuDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A driver's facts of one device; a fact that the driver does not report is absent."""

    index: int
    name: str
    told_by: Annotated[str, Meta(description="NVML or torch")]
    pci_id: str | UnsetType = UNSET
    total_bytes: Annotated[int, Meta(description="memory as torch reports it")] | UnsetType = UNSET
    driver_total_bytes: Annotated[int, Meta(description="memory as nvidia-smi reports it")] | UnsetType = UNSET
    unit_count: int | UnsetType = UNSET
    power_limit_w: float | UnsetType = UNSET
    max_clock_hz: float | UnsetType = UNSET
    spec: Annotated[str | None, Meta(description="id in the GPU database; null where it has no such GPU")]
    differences: Annotated[
        dict[str, tuple[str, str]], Meta(description="figures that differ from the spec: found, specified")
    ]


class InstalledGpusDocument(SignedDocument, frozen=True, kw_only=True):
    """What `capplan gpus detect --json` writes, in base units."""

    gpus: tuple[InstalledGpuDocument, ...]


def installed_document(matches: Sequence[Match]) -> InstalledGpusDocument:
    """Return the GPUs of this machine as a document.

    Args:
        matches: Each device with its spec, in the driver's order.
    """
    return InstalledGpusDocument(
        schema_version=SCHEMA_VERSION,
        capplan_version=__version__,
        gpus=tuple(_gpu(device, spec) for device, spec in matches),
    )


def _gpu(device: InstalledGpu, spec: GpuSpec | None) -> InstalledGpuDocument:
    return InstalledGpuDocument(
        index=device.index,
        name=device.name,
        told_by=device.told_by,
        pci_id=UNSET if device.pci_id is None else device.pci_id,
        total_bytes=UNSET if device.total_bytes is None else device.total_bytes,
        driver_total_bytes=UNSET if device.driver_total_bytes is None else device.driver_total_bytes,
        unit_count=UNSET if device.unit_count is None else device.unit_count,
        power_limit_w=UNSET if device.power_limit_w is None else device.power_limit_w,
        max_clock_hz=UNSET if device.max_clock_hz is None else device.max_clock_hz,
        spec=None if spec is None else spec.id,
        differences={}
        if spec is None
        else {difference.key: (difference.found, difference.specified) for difference in differences(device, spec)},
    )


class KeptTraceDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A trace of an earlier run."""

    model: str
    options: tuple[str, ...]
    recordings: tuple[str, ...]
    size_bytes: int
    made: Annotated[str, Meta(description="day and minute, UTC")]


class CacheDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What `capplan cache --json` writes, the oldest trace first."""

    folder: str
    traces: tuple[KeptTraceDocument, ...]


class SettingDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The configured default of an option of a command, and the file that it comes from."""

    command: str
    option: str
    value: str
    file: str


class SettingsDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What `capplan config --json` writes."""

    settings: tuple[SettingDocument, ...]
