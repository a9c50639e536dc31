"""Types of a GPU's printed figures and of what its driver reports as usable."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum


class SourceKind(StrEnum):
    """How a value is known.

    `DATASHEET` was read in the vendor's own document, `SECONDARY` in somebody else's table, `FORMULA`
    follows from other values of the file, `MEASURED` was reported by a driver or timed, `UNVERIFIED` is
    what the vendor is commonly quoted with and nobody has read again, `EXAMPLE` is made up.
    """

    DATASHEET = "datasheet"
    SECONDARY = "secondary"
    FORMULA = "formula"
    MEASURED = "measured"
    UNVERIFIED = "unverified"
    EXAMPLE = "example"


class PeakKind(StrEnum):
    """The units and number formats whose dense peak rate a spec may state.

    Without a suffix, 16-bit and narrower formats are tensor-core rates with fp32 accumulation
    (int32 for int8; DP4A where there are no tensor cores), which is what PyTorch uses.
    `FP32` and `*_VECTOR` are the ordinary units, `FP32_MATRIX` AMD's matrix cores.
    """

    FP64 = "fp64"
    FP64_TENSOR = "fp64-tensor"
    FP32 = "fp32"
    FP32_MATRIX = "fp32-matrix"
    FP16_VECTOR = "fp16-vector"
    BF16_VECTOR = "bf16-vector"
    TF32 = "tf32"
    FP16 = "fp16"
    FP16_ACC16 = "fp16-acc16"
    BF16 = "bf16"
    FP8 = "fp8"
    FP4 = "fp4"
    INT8 = "int8"


class Segment(StrEnum):
    """The market that a vendor sells a device for."""

    DATA_CENTRE = "data-centre"
    WORKSTATION = "workstation"
    CONSUMER = "consumer"
    LAPTOP = "laptop"
    EMBEDDED = "embedded"
    APPLE = "apple"
    CPU = "cpu"


class Status(StrEnum):
    """Whether a vendor sells a device: in its present line, no longer, not yet, or not known."""

    CURRENT = "current"
    END_OF_SALE = "end-of-sale"
    ANNOUNCED = "announced"
    UNKNOWN = "unknown"


class Microbenchmark(StrEnum):
    """What single kernels were timed at, or a clock or interval was read, on a GPU: rates that it sustains.

    Matrix products are large squares with fp32 accumulation as PyTorch runs them, `MATMUL_HALF` in fp16 or bf16,
    `MATMUL_FP32` without tensor cores. `COPY` counts bytes read and written, `LAUNCH` the time between small kernels
    behind a full queue, `GRAPH_LAUNCH` inside a CUDA graph, `LOADED_CLOCK` the clock under matrix products.
    """

    MATMUL_HALF = "matmul-half"
    MATMUL_TF32 = "matmul-tf32"
    MATMUL_FP32 = "matmul-fp32"
    MATMUL_FP8 = "matmul-fp8"
    COPY = "copy"
    READ = "read"
    L2_READ = "l2-read"
    LAUNCH = "launch"
    GRAPH_LAUNCH = "graph-launch"
    LOADED_CLOCK = "loaded-clock"


class Quality(StrEnum):
    """How far a measurement is trusted: `A` is a documented run, `B` one with gaps in its description, `C` a bound."""

    A = "A"
    B = "B"
    C = "C"


class Regime(StrEnum):
    """How a rate was measured: over long runs of large shapes, or as the best of short ones.

    A GPU that its power limit slows reaches less in a sustained run than in a burst.
    """

    SUSTAINED = "sustained"
    BURST = "burst"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRate:
    """One microbenchmark's result. [FLOP/s, bytes/s, s or Hz by kind]"""

    value: float
    quality: Quality
    regime: Regime


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a value was read."""

    kind: SourceKind
    title: str
    publisher: str | None = None
    url: str | None = None
    retrieved: date | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One value of a spec file as it is written there, with where it was read.

    `text` is the figure and its unit, "none" for what is unsupported; `printed` is what the source
    prints instead, where that is only the rate with structured sparsity; `origin` is "built-in" or the
    user's file. `quality` and `regime` belong to measured rates.
    """

    text: str
    sources: tuple[Source, ...] = ()
    printed: str | None = None
    origin: str = "built-in"
    quality: Quality | None = None
    regime: Regime | None = None


class MigKind(StrEnum):
    """How a GPU is cut by Multi-Instance GPU: its largest slice has as many units as its share, or all of them."""

    FIXED = "fixed"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipDesign:
    """What an architecture has in common with others, besides its rates.

    Attributes:
        family: Chips of the same process and multiprocessor, hence of the same arithmetic per joule; empty if unknown.
        process_m: The foundry's name of the process. [m]
        has_shared_datapath: Half of the fp32 lanes also run integers, so that matrix products keep fewer of them busy.
        relatives: Architectures whose kernels it shares most, nearest first, by compute capability or architecture id.
        mig: How it is cut into instances; None where it cannot be cut.
    """

    family: str = ""
    process_m: float | None = None
    has_shared_datapath: bool = False
    relatives: tuple[str, ...] = ()
    mig: MigKind | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuArchitecture:
    """What all GPUs of one design share.

    `operations_per_clock` are dense operations per unit and clock, two per multiply-add; None is
    unsupported, an absent key unknown.
    """

    id: str
    name: str
    vendor: str
    unit_kind: str | None = None
    compute_capability: tuple[int, int] | None = None
    gfx_target: str | None = None
    operations_per_clock: Mapping[PeakKind, float | None] = field(default_factory=dict)
    sparse_factor: float | None = None
    design: ChipDesign = field(default_factory=ChipDesign)
    figures: Mapping[str, Figure] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSpec:
    """One purchasable accelerator; every figure is per device, dense, in base units.

    `None` in `peak_flops_per_s` means unsupported, an absent key unknown. Other `None`s mean unknown.
    `memory_bytes` is what is printed, `usable_bytes` what torch reports as the device's total, `usable_share` the share
    of the printed memory that torch reports on other cards with memory of the same kind, `driver_total_bytes` what
    nvidia-smi prints. `nvlink_bytes_per_s` is the sum of both directions, as printed, also of AMD's and Intel's links;
    `pcie_bytes_per_s` is one direction. `nominal_tdp_w` is the power limit of the full-power card that this one is a
    capped edition of. `expected` is when an announced device is, as `sale.py` reads it. `measured` holds
    microbenchmarks, apart from what is printed. `figures` maps a dotted key of the YAML file to what is written there
    and its sources.
    """

    id: str
    name: str
    vendor: str
    architecture: str
    architecture_id: str = ""
    design: ChipDesign = field(default_factory=ChipDesign)
    aliases: tuple[str, ...] = ()
    pci_ids: tuple[str, ...] = ()
    compute_capability: tuple[int, int] | None = None
    gfx_target: str | None = None
    form_factor: str | None = None
    segment: Segment | None = None
    status: Status = Status.UNKNOWN
    release_date: date | None = None
    sold_since: date | None = None
    end_of_sale: date | None = None
    expected: str | None = None
    devices_per_board: int = 1
    memory_bytes: int
    usable_bytes: int | None = None
    usable_share: float = 1.0
    driver_total_bytes: int | None = None
    memory_type: str | None = None
    memory_bus_bits: int | None = None
    memory_bits_per_s_per_pin: float | None = None
    memory_bandwidth_bytes_per_s: float
    ecc: str | None = None
    l2_bytes: int | None = None
    unit_count: int | None = None
    unit_kind: str | None = None
    boost_clock_hz: float | None = None
    tensor_clock_hz: float | None = None
    peak_flops_per_s: Mapping[PeakKind, float | None] = field(default_factory=dict)
    sparse_factor: float | None = None
    tdp_w: float | None = None
    tdp_min_w: float | None = None
    tdp_max_w: float | None = None
    nominal_tdp_w: float | None = None
    nvlink_bytes_per_s: float | None = None
    pcie_bytes_per_s: float | None = None
    measured: Mapping[Microbenchmark, MeasuredRate] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    figures: Mapping[str, Figure] = field(default_factory=dict)
    origin: str = "built-in"

    @property
    def is_cpu(self) -> bool:
        """Return True for a CPU, which stands among the devices only where it is asked for."""
        return self.segment is Segment.CPU

    def peak(self, kind: PeakKind) -> float | None:
        """Return the dense peak rate of a unit and format; None where unsupported or unknown. [FLOP/s]"""
        return self.peak_flops_per_s.get(kind)

    @property
    def ridge_flop_per_byte(self) -> float | None:
        """Arithmetic intensity above which 16-bit matrix products are bound by compute. [FLOP/byte]

        The dense bf16 tensor peak (fp16 without bf16, the faster of fp16 and fp32 vectors without tensor
        cores) over the bandwidth.
        """
        vector = max(self.peak(PeakKind.FP16_VECTOR) or 0.0, self.peak(PeakKind.FP32) or 0.0)
        peak = self.peak(PeakKind.BF16) or self.peak(PeakKind.FP16) or vector
        return peak / self.memory_bandwidth_bytes_per_s if peak else None

    @property
    def expected_usable_bytes(self) -> float:
        """Return the most that a process can allocate: as reported, else expected from the kind of memory. [bytes]

        Without a report, the printed memory times `usable_share`.
        """
        return self.usable_share * self.memory_bytes if self.usable_bytes is None else self.usable_bytes
