"""The shapes of GPUs, their prices, and what this machine holds, in base units: bytes, bytes/s, FLOP/s, Hz, W."""

import datetime
from typing import Annotated, Any, Final, Literal, get_type_hints

from msgspec import UNSET, Meta, UnsetType

from capplan.core.gpus.attributes import ATTRIBUTES, Absence, Attribute
from capplan.core.gpus.names import InstalledGpu, Match, differences
from capplan.core.gpus.prices import CURRENCY, DateKind, Price, PriceKind, PriceTier, PurchasePrice, Term
from capplan.core.gpus.sheet import GpuSheet
from capplan.core.gpus.spec import Figure, GpuSpec, Segment, Source, Status
from capplan.shapes.common import SIGNED, VERSIONED, in_words
from capplan.shapes.shape import REQUIRED, AnswerFigure, Shape, Typed, figure, itself, reads

_ALWAYS_KNOWN = frozenset(
    {"id", "name", "vendor", "architecture", "memory_bytes", "memory_bandwidth_bytes_per_s", "devices_per_board",
     "origin"}
)  # fmt: skip
_KINDS: dict[str, Any] = {
    "segment": Segment,
    "status": Status,
    "release_date": datetime.date,
    "sold_since": datetime.date,
    "end_of_sale": datetime.date,
}


def _attribute(attribute: Attribute) -> AnswerFigure:
    """Return the figure of an attribute: null stands for unsupported, an absent field for unknown."""

    def value(answer: GpuSpec | GpuSheet) -> Any:
        found = attribute.value(answer.gpu if isinstance(answer, GpuSheet) else answer)
        if isinstance(found, Absence):
            return None if found is Absence.UNSUPPORTED else UNSET
        return found

    name = attribute.base_name
    kind = Annotated[float, Meta(gt=0)] if attribute.is_number else _KINDS.get(name, str)
    if name in _ALWAYS_KNOWN:
        return figure(name, reads(kind, value), default=REQUIRED)
    may_be_unsupported = name.startswith("peak_")
    return figure(
        name, reads(kind | None | UnsetType if may_be_unsupported else kind | UnsetType, value), default=UNSET
    )


def _if_stated(name: str, kind: Any) -> Typed:
    """Return how a figure is read that only rents or only purchases have, and not all of them."""
    return reads(kind | None, lambda price: getattr(price, name, None))


def _of_rent(name: str) -> Typed:
    """Return how a figure is read that all rents have, null where it is not known, and no purchase."""
    return reads(str | UnsetType | None, lambda price: getattr(price, name, UNSET))


def _prices(answer: Any) -> tuple[Price | PurchasePrice, ...]:
    """Return rents before purchases."""
    return (*answer.hourly, *answer.purchase)


def _of_device(name: str) -> Typed:
    return reads(get_type_hints(InstalledGpu)[name], lambda match: getattr(match[0], name))


def _differences(match: Match) -> dict[str, tuple[str, str]]:
    device, spec = match
    return {} if spec is None else {found.key: (found.found, found.specified) for found in differences(device, spec)}


# fmt: off
GPU: Final = Shape("GpuDocument", GpuSpec, "One GPU. A figure that nobody states is absent; null is unsupported.", (
    *map(_attribute, ATTRIBUTES.values()),
    figure("architecture_id"),
    figure("aliases"),
))
GPUS: Final = Shape("GpusDocument", tuple, "What `capplan gpus --json` and `gpus compare --json` write.", (
    *SIGNED,
    figure("gpus", GPU.at(itself(tuple[GpuSpec, ...]))),
))
SOURCE: Final = Shape("SourceDocument", Source, "Where a figure was read.", (
    figure("kind", in_words("kind")),
    figure("title"),
    figure("publisher", default=UNSET),
    figure("url", default=UNSET),
    figure("retrieved", default=UNSET),
))
FIGURE: Final = Shape("FigureDocument", Figure, "A figure as its source prints it.", (
    figure("as_written", "text"),
    figure("printed", default=UNSET),
    figure("quality", reads(str | None, lambda figure: figure.quality and figure.quality.value), default=UNSET),
    figure("regime", reads(str | None, lambda figure: figure.regime and figure.regime.value), default=UNSET),
    figure("origin"),
    figure("sources", SOURCE),
))
# A rented machine is taken whole, with `instance_gpus` GPUs of which fast links join `joined_gpus`. `comparison` says
# why nobody can order at the price; it is absent for offers.
PRICE: Final = Shape("PriceDocument", Price | PurchasePrice,"A price of one GPU: an hourly rent from a provider, or a purchase from a seller. [USD]", (
    figure("gpu", reads(str | None, lambda price, answer: None if isinstance(answer, GpuSheet) else price.gpu), default=UNSET),
    figure("term", reads(Term, lambda price: price.term)),
    figure("usd_per_hour", _if_stated("usd_per_hour", float), default=UNSET),
    figure("provider", _if_stated("provider", str), default=UNSET),
    figure("region", _if_stated("region", str), default=UNSET),
    figure("instance", _of_rent("instance"), default=UNSET),
    figure("instance_gpus", _if_stated("instance_gpus", int), default=UNSET),
    figure("usd", _if_stated("usd", float), default=UNSET),
    figure("seller", _if_stated("seller", str), default=UNSET),
    figure("date", reads(datetime.date, lambda price: price.date)),
    figure("date_is", reads(DateKind, lambda price: price.date_is)),
    figure("tier", reads(PriceTier, lambda price: price.tier)),
    figure("kind", reads(PriceKind, lambda price: price.kind)),
    figure("source", reads(str, lambda price: price.source)),
    figure("country", _of_rent("country"), default=UNSET),
    figure("joined_gpus", _if_stated("joined", int), default=UNSET),
    figure("comparison", _if_stated("comparison", str), default=UNSET),
    figure("upfront_fraction", _if_stated("upfront_fraction", float), default=UNSET),
    figure("note", _if_stated("note", str), default=UNSET),
    figure("includes_server", reads(bool | None, lambda price: getattr(price, "includes_server", None) or None), "true: with the server around the GPU", default=UNSET),
))
SHEET: Final = Shape("GpuSheetDocument", GpuSheet, "What `capplan gpus show --json` writes: one GPU with every value's sources and prices.", (
    *SIGNED,
    *map(_attribute, ATTRIBUTES.values()),
    figure("architecture_id", "gpu.architecture_id"),
    figure("aliases", "gpu.aliases"),
    figure("notes", "gpu.notes"),
    figure("figures", FIGURE.at("all_figures")),
    figure("prices", PRICE.at(_prices)),
))
PRICES: Final = Shape("PricesDocument", Any, "What `capplan prices --json` writes.", (
    *VERSIONED,
    figure("currency", reads(Literal["USD"], lambda _: CURRENCY)),
    figure("prices", PRICE.at(_prices)),
))
INSTALLED_GPU: Final = Shape("InstalledGpuDocument", Match, "A driver's facts of one device; a fact that the driver does not report is absent.", (
    figure("index", _of_device("index")),
    figure("name", _of_device("name")),
    figure("told_by", _of_device("told_by"), "NVML or torch"),
    figure("pci_id", _of_device("pci_id"), default=UNSET),
    figure("total_bytes", _of_device("total_bytes"), "memory as torch reports it", default=UNSET),
    figure("driver_total_bytes", _of_device("driver_total_bytes"), "memory as nvidia-smi reports it", default=UNSET),
    figure("unit_count", _of_device("unit_count"), default=UNSET),
    figure("power_limit_w", _of_device("power_limit_w"), default=UNSET),
    figure("max_clock_hz", _of_device("max_clock_hz"), default=UNSET),
    figure("spec", reads(str | None, lambda match: match[1] and match[1].id), "id in the GPU database; null where it has no such GPU"),
    figure("differences", _differences, "figures that differ from the spec: found, specified"),
))
INSTALLED_GPUS: Final = Shape("InstalledGpusDocument", tuple, "What `capplan gpus detect --json` writes, in base units.", (
    *SIGNED,
    figure("gpus", INSTALLED_GPU.at(itself(tuple[Match, ...]))),
))
KEPT_TRACE: Final = Shape("KeptTraceDocument", Any, "A trace of an earlier run.", (
    figure("model", reads(str, lambda trace: trace.words)),
    figure("options", reads(tuple[str, ...], lambda trace: tuple(trace.options))),
    figure("recordings", reads(tuple[str, ...], lambda trace: tuple(trace.configurations))),
    figure("size_bytes", reads(int, lambda trace: trace.size_bytes)),
    figure("made", reads(str, lambda trace: trace.made), "day and minute, UTC"),
))
CACHE: Final = Shape("CacheDocument", Any, "What `capplan cache --json` writes, the oldest trace first.", (
    figure("folder", reads(str, lambda kept: kept.folder)),
    figure("traces", KEPT_TRACE.at(reads(tuple[Any, ...], lambda kept: kept.entries))),
))
_Setting = tuple[str, str, str, str]
SETTING: Final = Shape("SettingDocument", _Setting, "The configured default of an option of a command, and the file that it comes from.",
    tuple(
        figure(name, reads(str, lambda setting, index=index: setting[index]))
        for index, name in enumerate(("command", "option", "value", "file"))
    ))
SETTINGS: Final = Shape("SettingsDocument", list, "What `capplan config --json` writes.", (
    figure("settings", SETTING.at(itself(list[_Setting]))),
))
# fmt: on
