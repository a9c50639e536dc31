"""Hand-made recordings and GPUs for tests of latency."""

from pathlib import Path

from capplan.core.gpus.spec import ChipDesign, GpuSpec, PeakKind
from capplan.core.trace.types import Affine, Kernel, Op, Operand, Recording, Role, Storage
from capplan.core.workload import Configuration, Variant
from capplan.specs.rate_laws import load_rate_laws


def linear_recording(
    *, rows: int = 128, k: int = 4096, n: int = 4096, dtype: str = "half", repeats: int = 1
) -> Recording:
    """[batch · rows, k] times [k, n], and a GELU on the result."""
    x = Operand(dtype=dtype, shape=(Affine(0, rows), Affine(k)))
    weight = Operand(dtype=dtype, shape=(Affine(k), Affine(n)), is_weight=True)
    y = Operand(dtype=dtype, shape=(Affine(0, rows), Affine(n)))
    kernels = (
        Kernel(name="aten.mm", inputs=(x, weight), outputs=(y,)),
        Kernel(name="aten.gelu", inputs=(y,), outputs=(y,)),
    )
    ops = (Op(kernel=0, module=0, reads=(0, 1), writes=(2,)), Op(kernel=1, module=0, reads=(2,), writes=(3,)))
    size = Affine(0, 2 * rows * n)
    storages = (
        Storage(size_bytes=Affine(0, 2 * rows * k), role=Role.INPUT, death=2 * repeats),
        Storage(size_bytes=Affine(2 * k * n), role=Role.PARAMETER, death=2 * repeats),
        Storage(size_bytes=size, role=Role.ACTIVATION, birth=0, death=2 * repeats),
        Storage(size_bytes=size, role=Role.ACTIVATION, birth=1, death=2 * repeats),
    )
    variant = Variant.HALF if dtype == "half" else Variant.FULL
    return Recording(
        configuration=Configuration(variant=variant),
        modules=("",),
        kernels=kernels,
        ops=ops * repeats,
        storages=storages,
        batches=(2, 3, 5),
    )


LAWS = load_rate_laws(Path(__file__).parents[2] / "fixtures" / "calibrations" / "rates.yaml")
"""Laws across GPUs that no refit changes."""


FAMILIES = {"ampere-ga100": "ga100", "hopper": "gh100", "ada": "ad10x", "volta": "gv100", "turing": "tu10x"}
RELATIVES = {
    (7, 5): ("7.0", "8.0"), (8, 0): ("9.0", "7.0"), (8, 6): ("8.9", "12.0"), (8, 9): ("8.6", "12.0"),
    (9, 0): ("8.0", "10.0"), (10, 0): ("9.0", "8.0"), (12, 0): ("8.9", "8.6"),
}  # fmt: skip
"""What the files of these architectures state."""


def gpu(**changes: object) -> GpuSpec:
    """A round card: 100 TFLOP/s in 16 bits, 10 in fp32, 1 TB/s, 100 multiprocessors."""
    values: dict[str, object] = {
        "id": "round",
        "name": "Round Card",
        "vendor": "nvidia",
        "architecture": "Ampere",
        "architecture_id": "ampere-ga100",
        "compute_capability": (8, 0),
        "memory_bytes": 40 * 2**30,
        "memory_bandwidth_bytes_per_s": 1e12,
        "l2_bytes": 4 * 2**20,
        "unit_count": 100,
        "peak_flops_per_s": {PeakKind.FP32: 10e12, PeakKind.TF32: 50e12, PeakKind.FP16: 100e12, PeakKind.BF16: 100e12},
    }
    values |= changes
    values.setdefault(
        "design",
        ChipDesign(
            family=FAMILIES.get(str(values["architecture_id"]), ""),
            relatives=RELATIVES.get(values["compute_capability"], ()),  # type: ignore[call-overload]  # a pair or None
        ),
    )
    return GpuSpec(**values)  # type: ignore[arg-type]  # a test's keyword arguments
