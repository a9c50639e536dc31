"""Merge sheets of built-in and own specs, complete them from their architecture, and hand out `GpuSpec`s."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TypeAlias

from capplan.core.assumed import CPU_USABLE_SHARE
from capplan.core.gpus.mig import mig_slice, split_name
from capplan.core.gpus.names import GpuNames, NamedGpus
from capplan.core.gpus.sale import is_announced
from capplan.core.gpus.spec import ChipDesign, GpuArchitecture, GpuSpec, MigKind, PeakKind, Segment, Status
from capplan.errors import SpecError, UnknownNameError, UsageError
from capplan.specs.folders import (
    ARCHITECTURES,
    BUILT_IN,
    CPUS,
    built_in_folder,
    calibration_file,
    own_overlays,
    spec_files,
)
from capplan.specs.gpus.fields import REQUIRED
from capplan.specs.gpus.rules import contradictions
from capplan.specs.gpus.sheets import Entries, Sheet, read_architecture_sheet, read_gpu_sheet
from capplan.specs.kept_values import kept_value
from capplan.specs.strict_yaml import Problem, SpecFileError, read_versioned, stated_number

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
    """All GPUs by id, sorted; `find` also knows aliases, and never guesses.

    `cpus` are the CPUs of the database. They are found by name, and are never among the GPUs. `overlays` are the
    folders and files of own specs that the caller named, whose prices count too. `files` are all that decide the specs.
    """

    def __init__(
        self,
        specs: Mapping[str, GpuSpec],
        *,
        architectures: Mapping[str, GpuArchitecture],
        read_sheets: Callable[[], Mapping[str, Sheet]] = dict,
        overlays: Sequence[Path] = (),
        files: Sequence[Path] = (),
    ) -> None:
        self.overlays = tuple(overlays)
        self.files = tuple(files)
        self.architectures = architectures
        self._read_sheets = read_sheets
        self._specs = {name: spec for name, spec in sorted(specs.items()) if not spec.is_cpu}
        self.cpus: Mapping[str, GpuSpec] = {name: spec for name, spec in sorted(specs.items()) if spec.is_cpu}
        self._ids = {
            name.casefold(): spec.id for spec in specs.values() for name in (spec.id, spec.name, *spec.aliases)
        }

    def including(self, spec: GpuSpec) -> "Gpus":
        """Return the same database with one device more, such as the CPU at hand."""
        every = {**self._specs, **self.cpus, spec.id: spec}
        architectures, read_sheets, overlays = self.architectures, self._read_sheets, self.overlays
        return Gpus(every, architectures=architectures, read_sheets=read_sheets, overlays=overlays, files=self.files)

    @cached_property
    def sheets(self) -> Mapping[str, Sheet]:
        """What the spec files state, by id; read when it is first asked for."""
        return self._read_sheets()

    def __getitem__(self, gpu_id: str) -> GpuSpec:
        if gpu_id not in self._specs and (parts := split_name(gpu_id)) is not None and parts[0] in self._specs:
            return mig_slice(self._specs[parts[0]], parts[1])
        return self.cpus[gpu_id] if gpu_id in self.cpus else self._specs[gpu_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    @cached_property
    def sold(self) -> Mapping[str, GpuSpec]:
        """The GPUs that can be had: all but those that are announced alone."""
        return {name: spec for name, spec in self._specs.items() if not is_announced(spec)}

    def find(self, name: str) -> GpuSpec:
        """Look one GPU up by id, name or alias; case, blanks, dashes and the vendor do not matter.

        Raises:
            UnknownNameError: nothing is called that.
            UsageError: the name is a family's, which has several variants.
        """
        if "," in name:
            raise UsageError(f"one kind of GPU is asked for here, not several ({name}): ask about each in turn.")
        named = self.find_all(name)
        if len(named.gpus) > 1:
            raise UsageError(f"{named.note}; name one of them.")
        return named.gpus[0]

    def find_all(self, name: str) -> NamedGpus:
        """Look up the GPU of a name, or all variants of a family such as a100.

        Raises:
            UnknownNameError: nothing is called that.
        """
        if (parts := split_name(name)) is not None:
            sliced = mig_slice(self.find(parts[0]), parts[1])
            return NamedGpus(gpus=(sliced,))
        if (named := self.names.find(name) or self._cpu_names.find(name)) is None:
            nearest = GpuNames([*self._specs.values(), *self.cpus.values()]).nearest(name)
            is_cpu = "cpu" in name.casefold() or any(near in self.cpus for near in nearest)
            more = " `capplan gpus --cpus` lists the CPUs." if is_cpu else ""
            new = nearest[0] if nearest else next(iter(self._specs))
            own = f"`capplan gpus new --from {new}` makes a spec of your own"
            hint = f"Run `capplan gpus` for all {len(self)}; {own}.{more}"
            raise UnknownNameError("GPU", name, nearest=nearest, hint=hint)
        return named

    @cached_property
    def names(self) -> GpuNames:
        """The names of all GPUs, as people type them."""
        return GpuNames(self._specs.values())

    @cached_property
    def _cpu_names(self) -> GpuNames:
        return GpuNames(self.cpus.values())

    def find_or_none(self, name: str) -> GpuSpec | None:
        """Look a GPU up by its exact id, name or alias, as a driver reports it; None where there is none."""
        gpu_id = self._ids.get(name.strip().casefold())
        return None if gpu_id is None else self[gpu_id]


def load_gpus(*, overlays: Sequence[Path] = ()) -> Gpus:
    """Load the built-in specs with the user's own laid on top.

    Args:
        overlays: folders or files that win over the config folder and the environment variable, the last most.

    Raises:
        SpecFileError: all that is wrong with the files, each with its key; figures of own specs that contradict
            each other; GPUs that share a name.
    """
    folder, own = built_in_folder(), (*own_overlays(), *overlays)
    files = [*_files(folder / ARCHITECTURES), *_files(folder), *_files(folder / CPUS), calibration_file(USABLE_FILE)]
    files += [path for overlay in own for path in (*_files(overlay / ARCHITECTURES), *spec_files(overlay))]
    specs, architectures = kept_value("gpus", _Known, files, lambda: _Loader(own).build())
    sheets = partial(_sheets, own)  # processes that predict rows of a file side by side are sent the database
    return Gpus(specs, architectures=architectures, read_sheets=sheets, overlays=overlays, files=files)


def _sheets(own: Sequence[Path]) -> Mapping[str, Sheet]:
    return _Loader(own).sheets


_Known: TypeAlias = tuple[dict[str, GpuSpec], dict[str, GpuArchitecture]]


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.yaml"))


class _Loader:
    """Reads built-in files, own ones over them, and gathers what is wrong with any of them."""

    def __init__(self, own: Iterable[Path]) -> None:
        self._architectures: dict[str, GpuArchitecture] = {}
        self.sheets: dict[str, Sheet] = {}
        self._own_ids: set[str] = set()
        self._problems: list[Problem] = []
        folder = built_in_folder()
        for path in _files(folder / ARCHITECTURES):
            self._read_architecture(path, f"{folder.name}/{ARCHITECTURES}/{path.name}", BUILT_IN)
        for path in _files(folder):
            self._read_gpu(path, f"{folder.name}/{path.name}", BUILT_IN)
        for path in _files(folder / CPUS):
            self._read_gpu(path, f"{folder.name}/{CPUS}/{path.name}", BUILT_IN)
        for overlay in own:
            self.read_overlay(overlay)

    def read_overlay(self, overlay: Path) -> None:
        """Overlay the user's own specs on those that were read before."""
        for path in _files(overlay / ARCHITECTURES):
            self._read_architecture(path, str(path), str(path))
        for path in spec_files(overlay):
            self._read_gpu(path, str(path), str(path))
            self._own_ids.add(path.stem)

    def _read_architecture(self, path: Path, shown: str, origin: str) -> None:
        try:
            sheet = read_architecture_sheet(path, shown=shown, origin=origin)
        except SpecFileError as error:
            self._problems += error.problems
        else:
            entries = sheet.entries
            capability = entries.text("compute_capability")
            major, _, minor = (capability or "").partition(".")
            self._architectures[sheet.id] = GpuArchitecture(
                id=sheet.id,
                name=sheet.words["name"],
                vendor=sheet.words["vendor"],
                unit_kind=sheet.words.get("unit"),
                compute_capability=(int(major), int(minor)) if capability else None,
                gfx_target=entries.text("gfx_target"),
                operations_per_clock={
                    kind: entries.number(key) for kind in PeakKind if (key := f"operations_per_clock.{kind}") in entries
                },
                sparse_factor=entries.number("sparse_factor"),
                design=ChipDesign(
                    family=entries.text("family") or "",
                    process_m=entries.number("process"),
                    has_shared_datapath=entries.text("fp32_datapath") == "shared",
                    relatives=entries.texts("relatives"),
                    mig=MigKind(kind) if (kind := entries.text("mig")) else None,
                ),
                figures=entries.figures(),
            )

    def _read_gpu(self, path: Path, shown: str, origin: str) -> None:
        try:
            sheet = read_gpu_sheet(path, shown=shown, origin=origin)
        except SpecFileError as error:
            self._problems += error.problems
        else:
            self.sheets[sheet.id] = _merge(self.sheets.get(sheet.id), sheet)

    def build(self) -> _Known:
        """Complete every sheet, unless anything was wrong."""
        if self._problems:
            raise SpecFileError(self._problems)
        specs: dict[str, GpuSpec] = {}
        usable_shares = load_usable_shares()
        for gpu_id, sheet in sorted(self.sheets.items(), key=lambda item: item[0] in self._own_ids):
            try:
                specs[gpu_id] = build_spec(sheet, self._architectures, self.sheets, usable_shares)
            except SpecFileError as error:
                self._problems += error.problems
        self._problems += name_clashes(specs, self.sheets)
        for gpu_id in sorted(self._own_ids & specs.keys()):
            spec = specs[gpu_id]
            self._problems += contradictions(spec, self._architectures[spec.architecture_id], self.sheets[gpu_id])
        if self._problems:
            raise SpecFileError(self._problems)
        return specs, self._architectures


def _merge(below: Sheet | None, above: Sheet) -> Sheet:
    if below is None:
        return above
    return replace(
        above,
        file=f"{above.file} (over {below.file})",
        words={**below.words, **above.words},
        aliases=tuple(dict.fromkeys((*below.aliases, *above.aliases))),
        entries=Entries({**below.entries, **above.entries}),
        exemptions=below.exemptions + above.exemptions,
        notes=below.notes + above.notes,
    )


def build_spec(
    sheet: Sheet,
    architectures: Mapping[str, GpuArchitecture],
    sheets: Mapping[str, Sheet],
    usable_shares: Mapping[str, float],
) -> GpuSpec:
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
    spec = _spec(sheet, architecture, nominal_tdp_w=sibling.entries.number("tdp") if sibling else None)
    kind = memory_kind(segment=spec.segment, vendor=spec.vendor, memory_type=spec.memory_type or "", ecc=spec.ecc)
    return replace(spec, usable_share=usable_shares[kind])


def _spec(sheet: Sheet, architecture: GpuArchitecture, *, nominal_tdp_w: float | None) -> GpuSpec:
    entries = sheet.entries
    return GpuSpec(
        id=sheet.id,
        name=sheet.words["name"],
        vendor=architecture.vendor,
        architecture=architecture.name,
        architecture_id=architecture.id,
        design=architecture.design,
        aliases=sheet.aliases,
        pci_ids=entries.texts("pci_ids"),
        compute_capability=architecture.compute_capability,
        gfx_target=architecture.gfx_target,
        form_factor=sheet.words.get("form_factor"),
        segment=Segment(segment) if (segment := entries.text("segment")) else None,
        status=Status(entries.text("status") or Status.UNKNOWN),
        release_date=entries.day("released"),
        sold_since=entries.day("sold_since"),
        end_of_sale=entries.day("end_of_sale"),
        expected=entries.text("expected"),
        devices_per_board=entries.integer("devices_per_board") or 1,
        memory_bytes=entries.integer("memory") or 0,
        usable_bytes=entries.integer("usable"),
        driver_total_bytes=entries.integer("driver_total"),
        memory_type=entries.text("memory_type"),
        memory_bus_bits=entries.integer("memory_bus"),
        memory_bits_per_s_per_pin=entries.number("memory_data_rate"),
        memory_bandwidth_bytes_per_s=entries.number("bandwidth") or 0.0,
        ecc=entries.text("ecc"),
        l2_bytes=entries.integer("l2"),
        unit_count=entries.integer("units"),
        unit_kind=architecture.unit_kind,
        boost_clock_hz=entries.number("boost_clock"),
        tensor_clock_hz=entries.number("tensor_clock"),
        peak_flops_per_s=_peaks(entries, architecture),
        sparse_factor=entries.number("sparse_factor") if "sparse_factor" in entries else architecture.sparse_factor,
        tdp_w=entries.number("tdp"),
        tdp_min_w=entries.number("tdp_min"),
        tdp_max_w=entries.number("tdp_max"),
        nominal_tdp_w=nominal_tdp_w,
        nvlink_bytes_per_s=entries.number("nvlink"),
        pcie_bytes_per_s=_pcie_bytes_per_s(entries.text("pcie")),
        measured=entries.measured(),
        notes=sheet.notes,
        figures=entries.figures(),
        origin=" + ".join(dict.fromkeys(entry.figure.origin for entry in entries.values())),
    )


def _peaks(entries: Entries, architecture: GpuArchitecture) -> dict[PeakKind, float | None]:
    peaks: dict[PeakKind, float | None] = {}
    for kind in PeakKind:
        key = f"peak.{kind}"
        if key in entries:
            peaks[kind] = entries.number(key)
        elif architecture.operations_per_clock.get(kind, 0) is None:
            peaks[kind] = None
    return peaks


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


SCHEMA_VERSION = 1
USABLE_FILE = "usable.yaml"
CPU, AMD, SHARED, GDDR, GDDR_ECC, HBM = "cpu", "amd", "lpddr", "gddr", "gddr-ecc", "hbm"
KINDS = (AMD, GDDR, GDDR_ECC, HBM, SHARED)
"""Kinds of memory whose readings are alike: AMD's; GDDR; GDDR with ECC carved out of it; HBM; shared with the host."""


def memory_kind(*, segment: Segment | None, vendor: str, memory_type: str, ecc: str | None) -> str:
    """Name the kind of memory that decides what share a driver leaves."""
    if segment is Segment.CPU:
        return CPU
    if vendor == "AMD":
        return AMD
    if memory_type.startswith("LPDDR"):
        return SHARED
    if memory_type.startswith("GDDR"):
        return GDDR_ECC if ecc == "default" else GDDR
    return HBM


def load_usable_shares() -> Mapping[str, float]:
    """Read the median share by kind of memory, and that of CPUs, which is an assumption.

    Raises:
        SpecError: the file is missing, no strict YAML, of another schema, or a kind's share is missing or above 1.
    """
    where = f"calibrations/{USABLE_FILE}"
    what = "a table of usable memory"
    document = read_versioned(calibration_file(USABLE_FILE), what=what, version=SCHEMA_VERSION, shown=where)
    rows = document.get("shares")
    if not isinstance(rows, dict) or set(rows) != set(KINDS):
        raise SpecError(f"{where}: shares must hold {', '.join(KINDS)}.")
    return {
        CPU: CPU_USABLE_SHARE,
        **{kind: stated_number(row, "share", f"{where}: shares.{kind}", low=0.5, high=1) for kind, row in rows.items()},
    }
