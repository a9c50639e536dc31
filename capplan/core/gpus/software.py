"""Which software runs on which devices: frameworks, their number formats, dtypes and operators with kernels."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from capplan.core.gpus.spec import GpuSpec
from capplan.core.workload import Framework, Precision


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkRuns:
    """Where a framework runs: on the families of `runs`, or on all but those that `instead` names.

    Attributes:
        runs: Families of devices; empty for all but those of `instead`.
        where: The families of `runs` in words.
        instead: What runs a model on a family that the framework does not run on.
        formats: Families with kernels for a number format; formats that are not named have them on all.
        half_arithmetic: Families without tensor cores on which products in fp16 add up in fp16, at the vector rate of
            it: PyTorch adds up in fp32 there.
    """

    runs: tuple[str, ...] = ()
    where: str = ""
    instead: Mapping[str, str] = field(default_factory=dict)
    formats: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    half_arithmetic: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DtypeGap:
    """The families of devices that have no kernels for a dtype."""

    lacking: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorHome:
    """The families that alone have a kernel for an operator, and the name that PyTorch gives it."""

    name: str
    only: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulated:
    """A number format that families compute in fp32: the share of fp32's rate, and its half-width in logs."""

    families: tuple[str, ...]
    share: float
    half_width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareSupport:
    """What `calibrations/software-support.yaml` states; an empty one knows nothing against any pair."""

    software: Mapping[Framework, FrameworkRuns] = field(default_factory=dict)
    dtypes: Mapping[str, DtypeGap] = field(default_factory=dict)
    operators: Mapping[str, OperatorHome] = field(default_factory=dict)
    emulated: Mapping[str, Emulated] = field(default_factory=dict)
    first_torch: Mapping[str, str] = field(default_factory=dict)

    def built_since(self, gpu: GpuSpec, torch_version: tuple[int, int]) -> str | None:
        """Return the first PyTorch with kernels built for a device, if a release is older: it runs translated ones."""
        found = (first for family, first in self.first_torch.items() if _is_of(gpu, family))
        return next((first for first in found if torch_version < tuple(map(int, first.split(".")))), None)

    def problem(self, gpu: GpuSpec, framework: Framework, precision: Precision) -> tuple[str, str] | None:
        """Return why a framework does not run a number format on a device, and what is lacking in a few words.

        None where nothing is known against it. CPUs are asked elsewhere: they are estimated in eager mode alone.
        """
        known = self.software.get(framework)
        if known is None or gpu.is_cpu:
            return None
        name, other = framework.called, next((family for family in known.instead if _is_of(gpu, family)), None)
        if known.runs and not is_of(gpu, known.runs):
            use = f"; take {known.instead[other]} there" if other else ""
            return f"{name} runs on {known.where} alone; {gpu.id} is {_whose(gpu)}{use}", framework.value
        if other and not known.runs:
            return (
                f"{name} does not run on {gpu.id} ({_whose(gpu)}); take {known.instead[other]} there",
                framework.value,
            )
        word = precision.arithmetic
        families = known.formats.get(word)
        if families is None or is_of(gpu, families):
            return None
        reason = f"{name} has no {word} kernels for {gpu.id} ({_whose(gpu)}); it has them for {_listed(families)}"
        return reason, f"{word} in {framework.value}"

    def lacking(self, gpu: GpuSpec, *, dtypes: Collection[str], operators: Iterable[str]) -> tuple[str, str] | None:
        """Return why a device lacks kernels for a recording's dtypes or operators; None where it has them all."""
        for name in operators:
            home = self.operators.get(name)
            if home is not None and not is_of(gpu, home.only):
                return f"{home.name} has kernels for {_listed(home.only)} alone, none for {gpu.id}", home.name
        for dtype, gap in self.dtypes.items():
            if dtype in dtypes and is_of(gpu, gap.lacking):
                return f"{gpu.id} ({_whose(gpu)}) has no kernels for {dtype}; build the model in float32", dtype
        return None

    def emulation(self, gpu: GpuSpec, framework: Framework, precision: Precision) -> Emulated | None:
        """Return how a device without instructions of a format computes in it under PyTorch; None where it has them."""
        held = self.emulated.get(precision.arithmetic)
        return held if held is not None and not framework.is_engine and is_of(gpu, held.families) else None

    def adds_in_half(self, gpu: GpuSpec, framework: Framework) -> bool:
        """Return True if products in fp16 add up in fp16 on a device without tensor cores."""
        known = self.software.get(framework)
        return known is not None and is_of(gpu, known.half_arithmetic)


def is_of(gpu: GpuSpec, families: Iterable[str]) -> bool:
    """Return True if a device belongs to one of some families: see `calibrations/software-support.yaml`."""
    return any(_is_of(gpu, family) for family in families)


def _is_of(gpu: GpuSpec, family: str) -> bool:
    held, digits = gpu.compute_capability, family.strip("<+")
    if not digits[:1].isdigit():
        return family in ("CPU" if gpu.is_cpu else gpu.vendor, gpu.architecture)
    major, minor = digits.split(".")
    wanted = int(major), int(minor)
    if held is None:
        return False
    return held < wanted if family.startswith("<") else held >= wanted if family.endswith("+") else held == wanted


def _whose(gpu: GpuSpec) -> str:
    """Return whose device it is, or its compute capability where the vendor's devices differ by it."""
    held = gpu.compute_capability
    return f"{gpu.vendor}'s" if held is None else f"of compute capability {held[0]}.{held[1]}"


def _listed(families: Iterable[str]) -> str:
    words = [
        "CPUs" if family == "CPU"
        else f"{family[:-1]} and later" if family.endswith("+")
        else f"{family}'s" if family[:1].isalpha()
        else family
        for family in families
    ]  # fmt: skip
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
