"""What a vendor prints of a GPU, and what its driver reports as usable: a type, never fitted numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum


class SourceKind(StrEnum):
    """How a value is known."""

    DATASHEET = "datasheet"
    SECONDARY = "secondary"
    FORMULA = "formula"
    MEASURED = "measured"
    EXAMPLE = "example"


class PeakKind(StrEnum):
    """The units and number formats whose dense peak rate a spec may state.

    Without a suffix, 16-bit and narrower formats are tensor-core rates with fp32 accumulation
    (int32 for int8), which is what PyTorch uses.
    """

    FP64 = "fp64"
    FP64_TENSOR = "fp64-tensor"
    FP32 = "fp32"
    FP16_VECTOR = "fp16-vector"
    BF16_VECTOR = "bf16-vector"
    TF32 = "tf32"
    FP16 = "fp16"
    FP16_ACC16 = "fp16-acc16"
    BF16 = "bf16"
    FP8 = "fp8"
    FP4 = "fp4"
    INT8 = "int8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a value was read."""

    kind: SourceKind
    title: str
    publisher: str | None = None
    url: str | None = None
    retrieved: date | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSpec:
    """One purchasable accelerator; every figure is per device, dense, in base units.

    `None` in `peak_flops_per_s` means unsupported, an absent key unknown. Other `None`s mean unknown.
    `sources` maps a field's dotted key, as in the YAML file, to where it was read.
    """

    id: str
    name: str
    vendor: str
    architecture: str
    aliases: tuple[str, ...] = ()
    compute_capability: tuple[int, int] | None = None
    form_factor: str | None = None
    release_date: date | None = None
    devices_per_board: int = 1
    memory_bytes: int
    usable_bytes: int | None = None
    memory_type: str | None = None
    memory_bus_bits: int | None = None
    memory_bandwidth_bytes_per_s: float
    l2_bytes: int | None = None
    unit_count: int | None = None
    boost_clock_hz: float | None = None
    tensor_clock_hz: float | None = None
    peak_flops_per_s: Mapping[PeakKind, float | None] = field(default_factory=dict)
    sparse_factor: float | None = None
    tdp_w: float | None = None
    nvlink_bytes_per_s: float | None = None
    pcie_bytes_per_s: float | None = None
    nominal_tdp_w: float | None = None
    sources: Mapping[str, Source] = field(default_factory=dict)
    origin: str = "built-in"

    def peak(self, kind: PeakKind) -> float | None:
        """The dense peak rate of a unit and format; None where unsupported or unknown. [FLOP/s]"""
        return self.peak_flops_per_s.get(kind)
