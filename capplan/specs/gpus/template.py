"""Write spec files: a commented one to start a new GPU from, and that of the CPU at hand."""

import re
from datetime import date
from typing import Any

from capplan.core.assumed import CPU_USABLE_SHARE
from capplan.core.gpus.spec import Figure, GpuSpec, PeakKind, Quality, Regime, Source, SourceKind
from capplan.specs.gpus.fields import FIELDS, REQUIRED, RULES, Form, SpecKey
from capplan.specs.gpus.sheets import Entry, Sheet

_HEAD = """\
# A GPU of your own. Save it as ID.yaml (small letters, digits, dashes) in a folder that --specs, CAPPLAN_SPECS or
# the config folder names; check it with `capplan gpus validate ID.yaml`. Write every figure and unit as its source
# prints them, memory in GiB, peaks dense. Leave out what nobody tells; null is what the device cannot do.
"""


def render_template(sheet: Sheet | None) -> str:
    """Return a file with every key explained: what is printed of `sheet` where it has it, the others commented out.

    Rates that were measured on the GPU of `sheet` are left out: nobody has timed the new one.
    """
    entries = {key: entry for key, entry in sheet.entries.items() if not FIELDS[key].is_measured} if sheet else {}
    sources = dict.fromkeys(source for entry in entries.values() for source in entry.figure.sources)
    names = {source: f"source-{number}" for number, source in enumerate(sources, start=1)}
    lines = [_HEAD, *_identity(sheet)]
    before = ""
    for key, rule in FIELDS.items():
        group = _group(key)
        if group != before:
            is_held = any(_group(key) == group for key in entries)
            lines.append(f"\n{'' if is_held else '# '}{group}:" if group else "")
        before = group
        lines += _field(key, rule, entries.get(key), names)
    lines += ["", *_sources(names)]
    return "\n".join(lines) + "\n"


def _identity(sheet: Sheet | None) -> list[str]:
    words = sheet.words if sheet else {}
    name = f"{words['name']} (mine)" if sheet else "..."
    lines = [
        f"name: {_quoted(name)}",
        "# exact names as the driver reports them",
        "# aliases: [...]",
        "# the stem of a file under architectures/",
        f"architecture: {words.get('architecture', '...')}",
        "# how it is built in: PCIe card, SXM5, OAM, laptop, ...",
        f"form_factor: {_quoted(words['form_factor'])}" if "form_factor" in words else "# form_factor: ...",
        "# the id of the full-power card that this one is a power-capped edition of",
        f"capped_from: {words['capped_from']}" if "capped_from" in words else "# capped_from: ...",
        "",
    ]
    return lines


def _group(key: str) -> str:
    """Return the mapping that a dotted key lies in; empty for a key of the top level."""
    group, dot, _ = key.partition(".")
    return group if dot else ""


def _field(key: str, rule: SpecKey, entry: Entry | None, names: dict[Source, str]) -> list[str]:
    indent, name = ("  ", key.partition(".")[2]) if _group(key) else ("", key)
    units = f" [{' or '.join(rule.units)}]" if rule.units else ""
    words = f": {', '.join(rule.words)}" if rule.words else ""
    needed = ", needed" if key in REQUIRED else ""
    comment = f"{indent}# {rule.help}{units}{words}{needed}"
    if entry is None:
        value = "{value: ..., unit: ..., source: ...}" if rule.form is Form.QUANTITY else "{value: ..., source: ...}"
        if rule.is_measured:
            value = "{value: ..., unit: ..., source: ..., quality: A or B or C, regime: sustained or burst}"
        return [comment, f"{indent}# {name}: {value}"]
    if entry.value is None:
        return [comment, f"{indent}{name}: null"]
    return [comment, f"{indent}{name}: {_value(rule, entry.figure, names)}"]


def _value(rule: SpecKey, figure: Figure, names: dict[Source, str]) -> str:
    sources = [names[source] for source in figure.sources]
    source = sources[0] if len(sources) == 1 else f"[{', '.join(sources)}]"
    text, unit = figure.text, ""
    if rule.form is Form.QUANTITY:
        text, unit = figure.text.split(" ", maxsplit=1)
        unit = f", unit: {unit}"
    elif rule.form is Form.WORDS:
        text = f"[{', '.join(map(_quoted, figure.text.split(', ')))}]"
    elif rule.form is Form.WORD:
        text = _quoted(figure.text)
    printed = ""
    if figure.printed:
        value, *_, factor = figure.printed.split()
        printed = f", printed: {{value: {value}, sparse_factor: {factor}}}"
    return f"{{value: {text}{unit}, source: {source}{printed}}}"


def _sources(names: dict[Source, str]) -> list[str]:
    lines = ["# where values were read; kinds are datasheet, secondary, formula, measured, unverified, example"]
    if not names:
        return [
            *lines,
            "# sources:",
            "#   datasheet: {kind: datasheet, title: ..., publisher: ..., url: ..., retrieved: YYYY-MM-DD}",
        ]
    lines.append("sources:")
    for source, name in names.items():
        parts = [f"kind: {source.kind}", f"title: {_quoted(source.title)}"]
        parts += [f"publisher: {_quoted(source.publisher)}"] if source.publisher else []
        parts += [f"url: {_quoted(source.url)}"] if source.url else []
        parts += [f"retrieved: {source.retrieved.isoformat()}"] if source.retrieved else []
        lines.append(f"  {name}: {{{', '.join(parts)}}}")
    return lines


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


_PEAKS = (PeakKind.FP64, PeakKind.FP32, PeakKind.BF16, PeakKind.INT8)


def render_cpu_sheet(cpu: GpuSpec, *, read_on: date) -> str:
    """Return the text of a CPU's file, without what was measured."""
    peaks = [
        f"  {kind}: {{value: {rate / 1e12:.4g}, unit: {'TOP/s' if kind is PeakKind.INT8 else 'TFLOP/s'}, source: host}}"
        for kind in _PEAKS
        if (rate := cpu.peak(kind))
    ]
    keys = ", ".join(f"peak.{kind}" for kind in _PEAKS if cpu.peak(kind))
    name = re.sub(r"[^\w ()@.,+-]", "", cpu.name)[:80] or "CPU"
    lines = [
        f'name: "{name}"',
        f"architecture: {cpu.architecture_id}",
        "segment: {value: cpu, source: host}",
        f"memory: {{value: {cpu.memory_bytes / 2**20:.0f}, unit: MiB, source: host}}",
        f"usable: {{value: {CPU_USABLE_SHARE * cpu.memory_bytes / 2**20:.0f}, unit: MiB, source: host}}",
        f"bandwidth: {{value: {cpu.memory_bandwidth_bytes_per_s / 1e9:.4g}, unit: GB/s, source: host}}",
        *([f"l2: {{value: {cpu.l2_bytes / 2**20:.0f}, unit: MiB, source: host}}"] if cpu.l2_bytes else []),
        f"units: {{value: {cpu.unit_count}, source: host}}",
        "peak:",
        *peaks,
        "exemptions:",
        f"  - {{rule: formula, keys: [{keys}], reason: cores that PyTorch uses at the clock that the system states}}",
        "  - {rule: bandwidth, keys: [bandwidth], reason: what long copies reach on this machine}",
        f"  - {{rule: ladder, keys: [{keys}], reason: long products may pass the rate by instructions and clock}}",
        "  - {rule: ridge, keys: [bandwidth], reason: copies were timed beside whatever else ran on this machine}",
        "notes:",
        '  - "This machine: the cores that PyTorch uses and the memory that is installed."',
        "sources:",
        f'  host: {{kind: measured, title: "/proc/cpuinfo and /sys of this machine, copies timed on it", '
        f"retrieved: {read_on}}}",
    ]
    return "\n".join(lines) + "\n"


_TEXT = {"type": "string", "minLength": 1}
_TEXTS = {"type": "array", "items": _TEXT, "uniqueItems": True}
_DAY = {"type": "string", "format": "date"}


def gpu_schema() -> dict[str, Any]:
    """Describe a GPU's file; what JSON Schema cannot say (ranges in base units, rules) `validate` checks."""
    top = {key: _field_schema(rule) for key, rule in FIELDS.items() if "." not in key}
    measured = {key.removeprefix("measured."): _field_schema(rule) for key, rule in FIELDS.items() if rule.is_measured}
    peaks = {key.removeprefix("peak."): _field_schema(rule) for key, rule in FIELDS.items() if key.startswith("peak.")}
    keys = {"type": "array", "items": {"enum": list(FIELDS)}}
    exemption = _closed({"rule": {"enum": list(RULES)}, "keys": keys, "reason": _TEXT}, ["rule", "keys", "reason"])
    kinds = [kind.value for kind in SourceKind]
    properties = {"kind": {"enum": kinds}, "title": _TEXT, "publisher": _TEXT, "url": _TEXT, "retrieved": _DAY}
    source = _closed(properties, ["kind", "title"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "GPU spec of capplan",
        **_closed(
            {
                "name": _TEXT,
                "aliases": {**_TEXTS, "description": "exact device names as the driver reports them"},
                "architecture": {**_TEXT, "description": "stem of a file under architectures/"},
                "form_factor": _TEXT,
                "capped_from": {**_TEXT, "description": "id of the full-power card"},
                **top,
                "peak": _closed(peaks),
                "measured": {
                    **_closed(measured),
                    "description": "rates that single kernels reached",
                },
                "exemptions": {"type": "array", "items": exemption},
                "notes": _TEXTS,
                "sources": {"type": "object", "additionalProperties": source},
            },
        ),
        "$defs": {"source_name": {"anyOf": [_TEXT, {**_TEXTS, "minItems": 1}]}},
    }


def _closed(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    needed = {"required": required} if required else {}
    return {"type": "object", "properties": properties, "additionalProperties": False, **needed}


def _field_schema(rule: SpecKey) -> dict[str, Any]:
    source = {"$ref": "#/$defs/source_name"}
    if rule.form is Form.QUANTITY:
        printed = _closed(
            {"value": {"type": "number"}, "sparse_factor": {"type": "number"}}, ["value", "sparse_factor"]
        )
        properties = {
            "value": {"type": "number", "exclusiveMinimum": 0},
            "unit": {"enum": list(rule.units or {})},
            "source": source,
            "printed": printed,
        }
        needed = ["value", "unit", "source"]
        if rule.is_measured:
            del properties["printed"]
            properties["quality"] = {"enum": [quality.value for quality in Quality]}
            properties["regime"] = {"enum": [regime.value for regime in Regime]}
            needed += ["quality", "regime"]
        schema = _closed(properties, needed)
    else:
        schema = _closed({"value": _value_schema(rule), "source": source}, ["value", "source"])
    described = {**schema, "description": rule.help}
    return {"anyOf": [described, {"type": "null"}]} if rule.nullable else described


def _value_schema(rule: SpecKey) -> dict[str, Any]:
    if rule.form is Form.COUNT:
        return {"type": "integer", "minimum": int(rule.low), "maximum": int(rule.high)}
    if rule.form is Form.DATE:
        return _DAY
    if rule.words:
        return {"enum": list(rule.words)}
    word = {"type": "string", **({"pattern": f"^(?:{rule.pattern})$"} if rule.pattern else {})}
    return {"type": "array", "items": word} if rule.form is Form.WORDS else word
