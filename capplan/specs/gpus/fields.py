"""The keys of a spec file: their units, ranges and words. The schema, the loader and the template read this."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from capplan.core.gpus.sale import EXPECTED
from capplan.core.gpus.spec import Microbenchmark, MigKind, PeakKind, Segment, Status
from capplan.units import BITS_PER_S, BYTES, BYTES_PER_S, FLOPS_PER_S, HERTZ, METRES, SECONDS, WATTS

BITS: Mapping[str, float] = {"bit": 1}


class Form(StrEnum):
    """How a value is written."""

    QUANTITY = "quantity"
    COUNT = "count"
    WORD = "word"
    WORDS = "words"
    DATE = "date"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecKey:
    """One key: how its value is written, what it may be, and what it means.

    `low` and `high` are in the base unit and part the possible from the mistyped. A measured value also states its
    quality and regime.
    """

    form: Form
    help: str
    units: Mapping[str, float] | None = None
    low: float = 0
    high: float = float("inf")
    words: tuple[str, ...] = ()
    pattern: str | None = None
    nullable: bool = False
    whole: bool = False
    is_measured: bool = False


def _some(units: Mapping[str, float], names: str) -> Mapping[str, float]:
    return {name: units[name] for name in names.split()}


_CAPACITY = _some(BYTES, "GiB MiB")
_CACHE = _some(BYTES, "MiB KiB")
_RATE = _some(BYTES_PER_S, "GB/s TB/s")
_CLOCK = _some(HERTZ, "MHz GHz")
_POWER = _some(WATTS, "W")

MEMORY_DATA_RATES: Mapping[str, tuple[float, float]] = {
    "DDR4": (1.6e9, 3.6e9),
    "DDR5": (3.6e9, 8.9e9),
    "GDDR5": (5e9, 9e9),
    "GDDR5X": (10e9, 12e9),
    "GDDR6": (9e9, 20e9),
    "GDDR6X": (18e9, 24e9),
    "GDDR7": (22e9, 34e9),
    "HBM2": (1.3e9, 2.5e9),
    "HBM2e": (2.4e9, 3.8e9),
    "HBM3": (4.8e9, 6.5e9),
    "HBM3e": (5.7e9, 9.8e9),
    "HBM4": (6.4e9, 13e9),
    "LPDDR4": (1.6e9, 4.3e9),
    "LPDDR4X": (2.1e9, 4.3e9),
    "LPDDR5": (4.0e9, 6.5e9),
    "LPDDR5X": (6.4e9, 10.7e9),
}
"""Bits a second on each pin that a memory type is sold with. [bit/s]"""

_MEASURED_HELP: Mapping[Microbenchmark, str] = {
    Microbenchmark.MATMUL_HALF: "large fp16 or bf16 matrix products with fp32 accumulation, random data",
    Microbenchmark.MATMUL_TF32: "large TF32 matrix products",
    Microbenchmark.MATMUL_FP32: "large fp32 matrix products without TF32",
    Microbenchmark.MATMUL_FP8: "large fp8 matrix products",
    Microbenchmark.COPY: "copy in device memory, bytes read and written",
    Microbenchmark.READ: "reading device memory",
    Microbenchmark.L2_READ: "reading the last cache",
    Microbenchmark.LAUNCH: "time between small kernels behind a full queue",
    Microbenchmark.GRAPH_LAUNCH: "time between small kernels inside a CUDA graph",
    Microbenchmark.LOADED_CLOCK: "clock under long matrix products",
}


def _measured(kind: Microbenchmark) -> SpecKey:
    words = _MEASURED_HELP[kind]
    if kind in (Microbenchmark.COPY, Microbenchmark.READ, Microbenchmark.L2_READ):
        return SpecKey(form=Form.QUANTITY, help=words, units=_RATE, low=1e9, high=50e12, is_measured=True)
    if kind in (Microbenchmark.LAUNCH, Microbenchmark.GRAPH_LAUNCH):
        units = _some(SECONDS, "us")
        return SpecKey(form=Form.QUANTITY, help=words, units=units, low=1e-7, high=1e-3, is_measured=True)
    if kind is Microbenchmark.LOADED_CLOCK:
        return SpecKey(form=Form.QUANTITY, help=words, units=_CLOCK, low=1e8, high=5e9, is_measured=True)
    units = _some(FLOPS_PER_S, "TFLOP/s PFLOP/s")
    return SpecKey(form=Form.QUANTITY, help=words, units=units, low=1e9, high=1e17, is_measured=True)


FIELDS: Mapping[str, SpecKey] = {
    "segment": SpecKey(
        form=Form.WORD, help="the market that it is sold for", words=tuple(segment.value for segment in Segment)
    ),
    "status": SpecKey(
        form=Form.WORD, help="whether the vendor sells it; leave it out where nobody has said",
        words=tuple(status.value for status in Status),
    ),
    "pci_ids": SpecKey(
        form=Form.WORDS, help="PCI vendor and device, such as 10de:2330", pattern="[0-9a-f]{4}:[0-9a-f]{4}"
    ),
    "released": SpecKey(form=Form.DATE, help="day of the announcement or release, as YYYY-MM-DD"),
    "sold_since": SpecKey(form=Form.DATE, help="first day on which it could be bought or rented"),
    "end_of_sale": SpecKey(form=Form.DATE, help="last day of orders that its vendor takes"),
    "expected": SpecKey(
        form=Form.WORD, help="when an announced device is expected: 2027, 2026-H2, 2026-Q4 or 2026-11, quoted",
        pattern=EXPECTED,
    ),
    "devices_per_board": SpecKey(form=Form.COUNT, help="devices that software sees on one board", low=1, high=16),
    "memory": SpecKey(
        form=Form.QUANTITY, help="printed device memory, in GiB whatever the vendor calls it",
        units=_CAPACITY, low=2**30, high=2**44, whole=True,
    ),
    "usable": SpecKey(
        form=Form.QUANTITY, help="what torch reports as the device's total memory",
        units=_CAPACITY, low=2**29, high=2**44, whole=True,
    ),
    "driver_total": SpecKey(
        form=Form.QUANTITY, help="what nvidia-smi prints as total memory",
        units=_CAPACITY, low=2**29, high=2**40, whole=True,
    ),
    "memory_type": SpecKey(form=Form.WORD, help="kind of memory", words=tuple(MEMORY_DATA_RATES)),
    "memory_bus": SpecKey(
        form=Form.QUANTITY, help="width of the memory bus", units=BITS, low=32, high=32768, whole=True
    ),
    "memory_data_rate": SpecKey(
        form=Form.QUANTITY, help="data rate of each memory pin", units=_some(BITS_PER_S, "Gbit/s"), low=1e9, high=50e9
    ),
    "bandwidth": SpecKey(form=Form.QUANTITY, help="memory bandwidth", units=_RATE, low=1e9, high=50e12),
    "ecc": SpecKey(
        form=Form.WORD,
        help="ECC: default costs a sixteenth of the memory, built-in none, optional is off unless asked for",
        words=("built-in", "default", "optional"), nullable=True,
    ),
    "l2": SpecKey(
        form=Form.QUANTITY, help="last cache shared by all units", units=_CACHE, low=2**17, high=2**30, whole=True
    ),
    "units": SpecKey(form=Form.COUNT, help="compute units in use (SM, CU, ...)", low=1, high=2048),
    "boost_clock": SpecKey(form=Form.QUANTITY, help="boost clock", units=_CLOCK, low=1e8, high=7e9),
    "tensor_clock": SpecKey(
        form=Form.QUANTITY, help="clock at which tensor peaks are printed, where it differs",
        units=_CLOCK, low=1e8, high=5e9,
    ),
    **{
        f"peak.{kind}": SpecKey(
            form=Form.QUANTITY, help=f"dense {kind} peak",
            units=_some(FLOPS_PER_S, "GFLOP/s TFLOP/s PFLOP/s TOP/s POP/s"), low=1e9, high=1e17, nullable=True,
        )
        for kind in PeakKind
    },
    "sparse_factor": SpecKey(
        form=Form.COUNT, help="how much structured sparsity multiplies tensor peaks", low=1, high=4, nullable=True
    ),
    "tdp": SpecKey(form=Form.QUANTITY, help="power limit as delivered, of one device", units=_POWER, low=5, high=2500),
    "tdp_min": SpecKey(form=Form.QUANTITY, help="lowest power limit that can be set", units=_POWER, low=5, high=2500),
    "tdp_max": SpecKey(form=Form.QUANTITY, help="highest power limit that can be set", units=_POWER, low=5, high=2500),
    "nvlink": SpecKey(
        form=Form.QUANTITY, help="links between devices, both directions and all links together",
        units=_some(BYTES_PER_S, "GB/s"), low=1e9, high=1e13, nullable=True,
    ),
    "pcie": SpecKey(
        form=Form.WORD, help="PCI Express generation and lanes, such as 5.0 x16",
        pattern=r"[1-6]\.[01] x(?:1|2|4|8|16)", nullable=True,
    ),
    **{f"measured.{kind}": _measured(kind) for kind in Microbenchmark},
}  # fmt: skip

ARCHITECTURE_FIELDS: Mapping[str, SpecKey] = {
    "compute_capability": SpecKey(
        form=Form.WORD, help='CUDA compute capability, quoted: "9.0"', pattern=r"[0-9]{1,2}\.[0-9]"
    ),
    "gfx_target": SpecKey(form=Form.WORD, help="AMD's compile target, such as gfx942", pattern=r"gfx[0-9a-f]{3,4}"),
    "sparse_factor": FIELDS["sparse_factor"],
    "family": SpecKey(
        form=Form.WORD, help="chips of the same process and multiprocessor, such as ga10x", pattern="[a-z0-9][a-z0-9-]*"
    ),
    "process": SpecKey(
        form=Form.QUANTITY, help="the foundry's name of the process", units=_some(METRES, "nm"), low=1e-9, high=1e-6
    ),
    "fp32_datapath": SpecKey(
        form=Form.WORD, help="shared: half of the fp32 lanes also run integers", words=("shared", "own")
    ),
    "relatives": SpecKey(
        form=Form.WORDS,
        help="architectures whose kernels it shares most, nearest first: compute capability, else the stem of its file",
        pattern=r"[0-9]{1,2}\.[0-9]|[a-z][a-z0-9-]*",
    ),
    "mig": SpecKey(
        form=Form.WORD,
        help="Multi-Instance GPU: full where the largest slice has all units, fixed where it has those of its share",
        words=tuple(kind.value for kind in MigKind),
    ),
    **{
        f"operations_per_clock.{kind}": SpecKey(
            form=Form.COUNT, help=f"dense {kind} operations of one unit in one clock", low=1, high=2**20, nullable=True
        )
        for kind in PeakKind
    },
}

REQUIRED = ("name", "architecture", "memory", "bandwidth")
RULES = ("formula", "bandwidth", "data-rate", "ladder", "usable", "ridge", "vector-ratio", "measured", "sale")
