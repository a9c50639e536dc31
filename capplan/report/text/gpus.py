"""GPUs as sections: the list, one GPU with its sources, several side by side, and those of this machine."""

from collections.abc import Sequence
from typing import NamedTuple

from capplan.core.gpus.attributes import ATTRIBUTES, Absence, Attribute, ratios_to_first
from capplan.core.gpus.installed import differences
from capplan.core.gpus.spec import Figure, GpuArchitecture, GpuSpec, PeakKind, Source
from capplan.report.documents.gpus import all_figures
from capplan.report.documents.installed import Match
from capplan.report.sections import (
    Align,
    Block,
    Column,
    Format,
    LineRole,
    Lines,
    Section,
    Table,
    data,
    plain_columns,
    words,
)
from capplan.units import format_bytes

LEGEND = "- unsupported, ? unknown; peaks are dense, per device, with fp32 accumulation"
_COMPARED = (
    "arch", "capability", "form", "released", "memory", "usable", "memory-type", "bandwidth", "l2", "units", "clock",
    *(kind.value for kind in PeakKind), "ridge", "tdp", "nvlink", "pcie",
)  # fmt: skip


def gpu_list_sections(specs: Sequence[GpuSpec], shown: Sequence[Attribute], *, count: str) -> list[Section]:
    """Return one row per GPU; a CSV has base units, unknown cells empty and unsupported ones marked.

    Args:
        specs: The GPUs.
        shown: The columns.
        count: How many they are of the database, such as "3 of 130 GPUs".
    """
    blocks: list[Block] = [
        Table(list(map(_attribute_column, shown)), specs),
        Lines([f"{count}; {LEGEND}"], only=Format.TABLE),
        Lines([LEGEND], only=Format.MD),
    ]
    return [Section(blocks)]


def _attribute_column(attribute: Attribute) -> Column[GpuSpec]:
    return Column(
        title=attribute.name,
        name=attribute.base_name,
        cell=attribute.cell,
        value=lambda spec: _base_cell(attribute, spec),
        align=Align.RIGHT if attribute.is_number else Align.LEFT,
    )


def _base_cell(column: Attribute, spec: GpuSpec) -> str:
    value = column.value(spec)
    if value is Absence.UNKNOWN:
        return ""
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def gpu_sections(spec: GpuSpec, architecture: GpuArchitecture) -> list[Section]:
    """Return every value of one GPU as it is written, where it was read and when."""
    figures = [_WrittenFigure(key, figure) for key, figure in all_figures(spec, architecture)]
    sources = _numbered_sources(spec, architecture)
    columns: list[Column[_WrittenFigure]] = [
        words("key", lambda row: row.key, name="key"),
        words("value", _value, name="value"),
        words("printed", lambda row: row.figure.printed, name="printed"),
        data("sources", lambda row: "; ".join(map(_spell_source, row.figure.sources))),
        words("source", lambda row: " ".join(f"[{sources[source]}]" for source in row.figure.sources)),
    ]
    if any(_origin(row.figure) for row in figures):
        columns.append(words("origin", lambda row: _origin(row.figure)))
    blocks: list[Block] = [
        Lines([f"{spec.name} ({spec.id})", *_headline(spec)]),
        Table(columns, figures),
        Lines([f"[{number}] {_spell_source(source)}" for source, number in sources.items()]),
        Lines(spec.notes, role=LineRole.NOTE),
    ]
    return [Section(blocks)]


class _WrittenFigure(NamedTuple):
    key: str
    figure: Figure


def _value(row: _WrittenFigure) -> str:
    figure = row.figure
    return f"{figure.text} ({figure.quality}, {figure.regime})" if figure.quality else figure.text


def _headline(spec: GpuSpec) -> list[str]:
    words = [f"{spec.vendor} {spec.architecture} ({spec.architecture_id})"]
    words += [f"compute capability {'.'.join(map(str, spec.compute_capability))}"] if spec.compute_capability else []
    words += [spec.gfx_target] if spec.gfx_target else []
    words += [spec.form_factor] if spec.form_factor else []
    lines = [", ".join(words)]
    if spec.aliases:
        lines.append("also called " + ", ".join(spec.aliases))
    usable = f"{format_bytes(spec.expected_usable_bytes)} can be allocated at most"
    lines.append(usable + ("" if spec.usable_bytes else " (expected of this kind of memory, not reported)"))
    if ridge := spec.ridge_flop_per_byte:
        lines.append(f"ridge point {ridge:.0f} FLOP/byte")
    if spec.nominal_tdp_w is not None and spec.tdp_w is not None:
        lines.append(f"{spec.tdp_w:g} W edition of a {spec.nominal_tdp_w:g} W card")
    if spec.devices_per_board > 1:
        lines.append(f"one of {spec.devices_per_board} devices on a board; all values are those of one")
    return lines


def _origin(figure: Figure) -> str:
    return "" if figure.origin == "built-in" else figure.origin


def _numbered_sources(spec: GpuSpec, architecture: GpuArchitecture) -> dict[Source, int]:
    named = dict.fromkeys(source for _, figure in all_figures(spec, architecture) for source in figure.sources)
    return {source: number for number, source in enumerate(named, start=1)}


def _spell_source(source: Source) -> str:
    parts = [f"{source.kind.value}: {source.title}"]
    parts += [source.publisher] if source.publisher else []
    parts += [f"read {source.retrieved.isoformat()}"] if source.retrieved else []
    parts += [source.url] if source.url else []
    return ", ".join(parts)


def gpu_comparison_sections(specs: Sequence[GpuSpec]) -> list[Section]:
    """Return GPUs side by side, each number with its multiple of the first GPU's."""
    rows = []
    for name in _COMPARED:
        attribute = ATTRIBUTES[name]
        values = [attribute.value(spec) for spec in specs]
        if all(isinstance(value, Absence) for value in values):
            continue
        ratios = ratios_to_first(values) if attribute.is_number else [None] * len(specs)
        cells = [attribute.cell(spec) for spec in specs]
        cells[1:] = [
            f"{cell} (×{ratio:.2f})" if ratio is not None else cell
            for cell, ratio in zip(cells[1:], ratios[1:], strict=True)
        ]
        rows.append([name, *cells])
    names = [spec.id for spec in specs]
    return [Section([Table(plain_columns("", *names, numbers=names), rows)])]


def installed_sections(matches: Sequence[Match]) -> list[Section]:
    """Return one paragraph per GPU of this machine: its name, its spec, and what differs."""
    lines = []
    for device, spec in matches:
        pci = f", PCI {device.pci_id}" if device.pci_id else ""
        lines.append(f"{device.index}: {device.name} ({device.told_by}{pci})")
        if spec is None:
            lines.append("   is not in the database; `capplan gpus new` writes a template")
            continue
        lines.append(f"   {spec.id}")
        lines += [f"   {each.key}: {each.found}, specified {each.specified}" for each in differences(device, spec)]
    return [Section([Lines(lines)])]
