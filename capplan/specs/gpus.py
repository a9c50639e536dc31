"""Merge sheets of built-in and own specs, complete them from their architecture, and hand out `GpuSpec`s."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from capplan.core.gpu import Architecture, Figure, GpuSpec, PeakKind
from capplan.errors import SpecError, UnknownNameError
from capplan.specs.fields import REQUIRED
from capplan.specs.problems import Problem, SpecFileError
from capplan.specs.sheets import Entry, Sheet, read_architecture_sheet, read_gpu_sheet

BUILT_IN = "built-in"
ARCHITECTURES = "architectures"
PRICES = "prices"
ENVIRONMENT_VARIABLE = "CAPPLAN_SPECS"

_PCIE_BYTES_PER_S_PER_LANE = {
    1: 0.25e9,
    2: 0.5e9,
    3: 8e9 * 128 / 130 / 8,
    4: 16e9 * 128 / 130 / 8,
    5: 32e9 * 128 / 130 / 8,
    6: 7.563e9,
}
"""One direction of one lane after line coding, by PCI Express generation. [bytes/s]"""


class Gpus(Mapping[str, GpuSpec]):
    """All GPUs by id, sorted; `find` also knows aliases, and never guesses."""

    def __init__(
        self, specs: Mapping[str, GpuSpec], *, architectures: Mapping[str, Architecture], sheets: Mapping[str, Sheet]
    ) -> None:
        self._specs = dict(sorted(specs.items()))
        self.architectures = architectures
        self.sheets = sheets
        self._ids = {
            name.casefold(): spec.id for spec in self._specs.values() for name in (spec.id, spec.name, *spec.aliases)
        }

    def __getitem__(self, gpu_id: str) -> GpuSpec:
        return self._specs[gpu_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    def find(self, name: str) -> GpuSpec:
        """Look a GPU up by its whole id, name or alias; capitals do not matter.

        Raises:
            UnknownNameError: nothing is called exactly that.
        """
        gpu_id = self._ids.get(name.strip().casefold())
        if gpu_id is None:
            raise UnknownNameError("GPU", name, self._known(), hint=f"Run `capplan gpus` for all {len(self)}.")
        return self._specs[gpu_id]

    def find_or_none(self, name: str) -> GpuSpec | None:
        """Look a GPU up like `find`; None where nothing is called that."""
        gpu_id = self._ids.get(name.strip().casefold())
        return None if gpu_id is None else self._specs[gpu_id]

    def _known(self) -> list[str]:
        return [*self._specs, *(alias for spec in self._specs.values() for alias in spec.aliases)]


def built_in_folder() -> Path:
    """Where the specs lie that come with capplan: inside the package, or beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "gpu_specs"
    return installed if installed.is_dir() else package.parent / "gpu_specs"


def own_overlays() -> tuple[Path, ...]:
    """The user's own specs, lowest first: the config folder, then the environment variable's paths.

    The config folder is `capplan/gpu_specs` under XDG_CONFIG_HOME (or ~/.config); CAPPLAN_SPECS names folders or
    files, parted like PATH.
    """
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "capplan" / "gpu_specs"
    named = [Path(part) for part in os.environ.get(ENVIRONMENT_VARIABLE, "").split(os.pathsep) if part]
    return (*([config] if config.is_dir() else []), *named)


def load_gpus(*, overlays: Sequence[Path] = ()) -> Gpus:
    """Load the built-in specs with the user's own laid on top.

    Args:
        overlays: folders or files that win over the config folder and the environment variable, the last most.

    Raises:
        SpecError: a file is refused (all that is wrong with it), or two GPUs share a name.
    """
    folder = built_in_folder()
    architectures = _read_architectures(folder, origin=BUILT_IN)
    sheets = {path.stem: _read_built_in(path, folder) for path in sorted(folder.glob("*.yaml"))}
    for overlay in (*own_overlays(), *overlays):
        if overlay.is_dir():
            architectures |= _read_architectures(overlay, origin=str(overlay))
        for path in _overlay_files(overlay):
            sheet = read_gpu_sheet(path, shown=str(path), origin=str(path))
            sheets[sheet.id] = _merge(sheets.get(sheet.id), sheet)
    specs = {gpu_id: build_spec(sheet, architectures, sheets) for gpu_id, sheet in sheets.items()}
    problems = name_clashes(specs, sheets)
    if problems:
        raise SpecFileError(problems)
    return Gpus(specs, architectures=architectures, sheets=sheets)


def _read_built_in(path: Path, folder: Path) -> Sheet:
    return read_gpu_sheet(path, shown=f"{folder.name}/{path.name}", origin=BUILT_IN)


def _overlay_files(overlay: Path) -> list[Path]:
    if overlay.is_dir():
        return sorted(overlay.glob("*.yaml"))
    if overlay.suffix != ".yaml" or not overlay.is_file():
        raise SpecError(f"{overlay}: is neither a folder of specs nor a .yaml file.")
    return [overlay]


def _read_architectures(folder: Path, *, origin: str) -> dict[str, Architecture]:
    built_in = origin == BUILT_IN
    found = {}
    for path in sorted((folder / ARCHITECTURES).glob("*.yaml")):
        shown = f"{folder.name}/{ARCHITECTURES}/{path.name}" if built_in else str(path)
        found[path.stem] = _build_architecture(read_architecture_sheet(path, shown=shown, origin=origin))
    return found


def _build_architecture(sheet: Sheet) -> Architecture:
    entries = sheet.entries
    capability = entries.get("compute_capability")
    major, _, minor = str(capability.value).partition(".") if capability else ("", "", "")
    sparse, target = entries.get("sparse_factor"), entries.get("gfx_target")
    return Architecture(
        id=sheet.id,
        name=sheet.words["name"],
        vendor=sheet.words["vendor"],
        unit_kind=sheet.words.get("unit"),
        compute_capability=(int(major), int(minor)) if capability else None,
        gfx_target=str(target.value) if target else None,
        operations_per_clock={
            kind: entries[key].value  # type: ignore[misc]  # Form.COUNT or null, as the field's form says
            for kind in PeakKind
            if (key := f"operations_per_clock.{kind}") in entries
        },
        sparse_factor=sparse.value if sparse else None,  # type: ignore[arg-type]  # Form.COUNT or null
        figures={key: entry.figure for key, entry in entries.items()},
    )


def _merge(below: Sheet | None, above: Sheet) -> Sheet:
    if below is None:
        return above
    return replace(
        above,
        file=f"{above.file} (over {below.file})",
        words={**below.words, **above.words},
        aliases=tuple(dict.fromkeys((*below.aliases, *above.aliases))),
        entries={**below.entries, **above.entries},
        exemptions=below.exemptions + above.exemptions,
        notes=below.notes + above.notes,
    )


def build_spec(sheet: Sheet, architectures: Mapping[str, Architecture], sheets: Mapping[str, Sheet]) -> GpuSpec:
    """Complete a sheet from its architecture and its full-power sibling.

    Raises:
        SpecFileError: a required key is missing, or a name leads nowhere.
    """
    problems = [
        Problem(file=sheet.file, key=key, message="is missing")
        for key in REQUIRED
        if key not in sheet.words and key not in sheet.entries
    ]
    architecture = architectures.get(sheet.words.get("architecture", ""))
    if architecture is None and "architecture" in sheet.words:
        known = ", ".join(sorted(architectures))
        message = f"{sheet.words['architecture']!r} has no file under {ARCHITECTURES}/ ({known})"
        problems.append(Problem(file=sheet.file, key="architecture", message=message))
    sibling = sheets.get(sheet.words.get("capped_from", ""))
    if "capped_from" in sheet.words and (sibling is None or "tdp" not in sibling.entries):
        message = f"{sheet.words['capped_from']!r} is no GPU with a tdp"
        problems.append(Problem(file=sheet.file, key="capped_from", message=message))
    if problems or architecture is None:
        raise SpecFileError(problems)
    return _spec(sheet, architecture, nominal_tdp_w=sibling.entries["tdp"].value if sibling else None)


def _spec(sheet: Sheet, architecture: Architecture, *, nominal_tdp_w: object) -> GpuSpec:
    entries = sheet.entries
    values = {key: entry.value for key, entry in entries.items()}
    origins = dict.fromkeys(entry.figure.origin for entry in entries.values())
    origin = BUILT_IN if set(origins) <= {BUILT_IN} else " + ".join(origins)
    return GpuSpec(  # every value has the type that its field's form says
        id=sheet.id,
        name=sheet.words["name"],
        vendor=architecture.vendor,
        architecture=architecture.name,
        architecture_id=architecture.id,
        aliases=sheet.aliases,
        pci_ids=values.get("pci_ids", ()),  # type: ignore[arg-type]
        compute_capability=architecture.compute_capability,
        gfx_target=architecture.gfx_target,
        form_factor=sheet.words.get("form_factor"),
        release_date=values.get("released"),  # type: ignore[arg-type]
        devices_per_board=values.get("devices_per_board", 1),  # type: ignore[arg-type]
        memory_bytes=values["memory"],  # type: ignore[arg-type]
        usable_bytes=values.get("usable"),  # type: ignore[arg-type]
        driver_total_bytes=values.get("driver_total"),  # type: ignore[arg-type]
        memory_type=values.get("memory_type"),  # type: ignore[arg-type]
        memory_bus_bits=values.get("memory_bus"),  # type: ignore[arg-type]
        memory_bits_per_s_per_pin=values.get("memory_data_rate"),  # type: ignore[arg-type]
        memory_bandwidth_bytes_per_s=values["bandwidth"],  # type: ignore[arg-type]
        ecc=values.get("ecc"),  # type: ignore[arg-type]
        l2_bytes=values.get("l2"),  # type: ignore[arg-type]
        unit_count=values.get("units"),  # type: ignore[arg-type]
        unit_kind=architecture.unit_kind,
        boost_clock_hz=values.get("boost_clock"),  # type: ignore[arg-type]
        tensor_clock_hz=values.get("tensor_clock"),  # type: ignore[arg-type]
        peak_flops_per_s=_peaks(values, architecture),
        sparse_factor=values.get("sparse_factor", architecture.sparse_factor),  # type: ignore[arg-type]
        tdp_w=values.get("tdp"),  # type: ignore[arg-type]
        tdp_min_w=values.get("tdp_min"),  # type: ignore[arg-type]
        tdp_max_w=values.get("tdp_max"),  # type: ignore[arg-type]
        nominal_tdp_w=nominal_tdp_w,  # type: ignore[arg-type]
        nvlink_bytes_per_s=values.get("nvlink"),  # type: ignore[arg-type]
        pcie_bytes_per_s=_pcie_bytes_per_s(values.get("pcie")),  # type: ignore[arg-type]
        notes=sheet.notes,
        figures=_figures(entries),
        origin=origin,
    )


def _peaks(values: Mapping[str, object], architecture: Architecture) -> dict[PeakKind, float | None]:
    peaks: dict[PeakKind, float | None] = {}
    for kind in PeakKind:
        key = f"peak.{kind}"
        if key in values:
            peaks[kind] = values[key]  # type: ignore[assignment]  # Form.QUANTITY or null
        elif architecture.operations_per_clock.get(kind, 0) is None:
            peaks[kind] = None
    return peaks


def _figures(entries: Mapping[str, Entry]) -> dict[str, Figure]:
    return {key: entry.figure for key, entry in entries.items()}


def _pcie_bytes_per_s(text: str | None) -> float | None:
    if text is None:
        return None
    generation, _, lanes = text.partition(" x")
    return _PCIE_BYTES_PER_S_PER_LANE[int(generation[0])] * int(lanes)


def name_clashes(specs: Mapping[str, GpuSpec], sheets: Mapping[str, Sheet]) -> list[Problem]:
    """Find ids, names and aliases that two GPUs share, capitals apart."""
    taken: dict[str, str] = {}
    problems = []
    for gpu_id, spec in specs.items():
        for key, name in (("", gpu_id), ("name", spec.name), *(("aliases", alias) for alias in spec.aliases)):
            owner = taken.setdefault(name.casefold(), gpu_id)
            if owner != gpu_id:
                message = f"{name!r} already names {owner}; a name leads to one GPU"
                problems.append(Problem(file=sheets[gpu_id].file, key=key, message=message))
    return problems
