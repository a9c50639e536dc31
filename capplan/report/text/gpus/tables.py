"""GPUs for people and programs: the list, one GPU with its sources, several side by side."""

from collections.abc import Sequence

from capplan.core.gpus.attributes import ATTRIBUTES, Absence, Attribute
from capplan.core.gpus.query import ratios_to_first
from capplan.core.gpus.spec import Architecture, Figure, GpuSpec, PeakKind, Source
from capplan.report.documents.gpus import all_figures
from capplan.report.table import Table, render_text, table
from capplan.units import format_bytes

LEGEND = "- unsupported, ? unknown; peaks are dense, per device, with fp32 accumulation"
_COMPARED = (
    "arch", "capability", "form", "released", "memory", "usable", "memory-type", "bandwidth", "l2", "units", "clock",
    *(kind.value for kind in PeakKind), "ridge", "tdp", "nvlink", "pcie",
)  # fmt: skip


def gpu_table(specs: Sequence[GpuSpec], columns: Sequence[Attribute]) -> Table:
    """Make one row per GPU, values with their units."""
    titles = "|".join(column.name + (">" if column.is_number else "") for column in columns)
    return table(titles, [[column.cell(spec) for column in columns] for spec in specs])


def gpu_base_table(specs: Sequence[GpuSpec], columns: Sequence[Attribute]) -> Table:
    """Make one row per GPU in base units, for spreadsheets; unknown cells are empty, unsupported ones marked."""
    titles = "|".join(column.base_name for column in columns)
    return table(titles, [[_base_cell(column, spec) for column in columns] for spec in specs])


def _base_cell(column: Attribute, spec: GpuSpec) -> str:
    value = column.value(spec)
    if value is Absence.UNKNOWN:
        return ""
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def render_gpu(spec: GpuSpec, architecture: Architecture) -> str:
    """Return every value of one GPU as it is written, where it was read and when."""
    sources = _numbered_sources(spec, architecture)
    rows = [
        (
            key,
            f"{figure.text} ({figure.quality}, {figure.regime})" if figure.quality else figure.text,
            figure.printed or "",
            " ".join(f"[{sources[source]}]" for source in figure.sources),
            _origin(figure),
        )
        for key, figure in all_figures(spec, architecture)
    ]
    own = any(row[-1] for row in rows)
    shown = table("key|value|printed|source" + ("|origin" if own else ""), [row if own else row[:-1] for row in rows])
    lines = [f"{spec.name} ({spec.id})", *_headline(spec), "", render_text(shown)]
    lines += [f"[{number}] {_spell_source(source)}" for source, number in sources.items()]
    lines += ["", *(f"  · {note}" for note in spec.notes)] if spec.notes else []
    return "\n".join(lines) + "\n"


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


def _numbered_sources(spec: GpuSpec, architecture: Architecture) -> dict[Source, int]:
    named = dict.fromkeys(source for _, figure in all_figures(spec, architecture) for source in figure.sources)
    return {source: number for number, source in enumerate(named, start=1)}


def _spell_source(source: Source) -> str:
    parts = [f"{source.kind.value}: {source.title}"]
    parts += [source.publisher] if source.publisher else []
    parts += [f"read {source.retrieved.isoformat()}"] if source.retrieved else []
    parts += [source.url] if source.url else []
    return ", ".join(parts)


def comparison_table(specs: Sequence[GpuSpec]) -> Table:
    """Compare GPUs, each number with its multiple of the first GPU's."""
    titles = "|".join(["", *(f"{spec.id}>" for spec in specs)])
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
    return table(titles, rows)
