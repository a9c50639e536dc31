"""Ways to quantise linear layers: number formats of weights and activations, and the kernels that PyTorch runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from capplan.core.weights import unknown_format
from capplan.errors import UnknownNameError, UsageError


class Execution(StrEnum):
    """How a quantised product runs.

    `FUSED` unpacks weights within the product's kernel. `WIDENED` writes a 16-bit copy of the weights first, unless a
    single row is multiplied and `has_vector_kernel` holds. `INTEGER` quantises activations, multiplies integers and
    scales the result in a kernel of its own. `SCALED` quantises activations and scales within the product's kernel.
    """

    FUSED = "fused"
    WIDENED = "widened"
    INTEGER = "integer"
    SCALED = "scaled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scales:
    """Scales of a weight: their dtype, and the rows and columns of the block that shares one.

    A block of 0 columns is a whole row; of 0 rows and columns, the whole matrix. `zero_bits` is what a block's zero
    point takes, 0 for none.
    """

    dtype: str
    rows: int = 1
    columns: int = 0
    zero_bits: int = 0

    def blocks(self, rows: int, columns: int) -> tuple[int, int]:
        """Return how many blocks a matrix has, down and across."""
        return -(-rows // (self.rows or rows)), -(-columns // (self.columns or columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """A way to quantise linear layers.

    Attributes:
        name: What the plan's assumptions call it.
        weights: Dtype of a stored weight: int8, int4, float8_e4m3fn or float4_e2m1fn.
        scales: Scales of the weights, coarser ones after finer ones.
        activations: Dtype that activations are quantised to, None where they stay in 16 bits.
        execution: How the product runs.
        capability: The lowest CUDA compute capability that has the kernels.
        format: The weight format of `core.weights` that it stores, whose bits bind.
        multiple: Both sides of a matrix must be multiples of this; others stay as they are.
        has_vector_kernel: A product with a single row has a fused kernel.
        index_bits: Bits per input column for a permutation (GPTQ's `g_idx`).
        skipped: Patterns of module names that stay as they are.
        only: Patterns of module names that are quantised; empty for all.
        covers_experts: Weights of experts (three dimensions) are quantised, too.
    """

    name: str
    weights: str
    scales: tuple[Scales, ...]
    activations: str | None = None
    execution: Execution = Execution.FUSED
    capability: tuple[int, int] = (7, 5)
    format: str | None = None
    multiple: int = 1
    has_vector_kernel: bool = False
    index_bits: int = 0
    skipped: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    covers_experts: bool = False


_HALF_ROW = Scales(dtype="half")
_FLOAT_ROW = Scales(dtype="float32")


def _named(*schemes: Scheme) -> Mapping[str, Scheme]:
    return {scheme.name: scheme for scheme in schemes}


SCHEMES: Mapping[str, Scheme] = _named(
    # torchao: weights are widened by a kernel of their own, then multiplied in 16 bits
    Scheme(
        name="int8_weight_only", weights="int8", scales=(_HALF_ROW,), execution=Execution.WIDENED, capability=(5, 0),
        format="int8_wo",
    ),
    # torch._int_mm: integers on tensor cores from Turing on
    Scheme(
        name="int8_dynamic", weights="int8", scales=(_HALF_ROW,), activations="int8", execution=Execution.INTEGER,
        capability=(7, 5), format="int8", multiple=8,
    ),
    # torch._weight_int4pack_mm: bf16 scale and zero point for 128 weights of a row
    Scheme(
        name="int4_weight_only", weights="int4", scales=(Scales(dtype="half", columns=128, zero_bits=16),),
        capability=(8, 0), multiple=32,
    ),
    Scheme(
        name="float8_weight_only", weights="float8_e4m3fn", scales=(_FLOAT_ROW,), execution=Execution.WIDENED,
        capability=(8, 0), format="fp8",
    ),
    # torch._scaled_mm with a scale per row: fp8 tensor cores from Ada on
    Scheme(
        name="float8_dynamic", weights="float8_e4m3fn", scales=(_FLOAT_ROW,), activations="float8_e4m3fn",
        execution=Execution.SCALED, capability=(8, 9), format="fp8", multiple=16,
    ),
    # torch._scaled_mm on fp4: Blackwell's tensor cores
    Scheme(
        name="nvfp4_dynamic", weights="float4_e2m1fn", scales=(Scales(dtype="float8_e4m3fn", columns=16),),
        activations="float4_e2m1fn", execution=Execution.SCALED, capability=(10, 0), format="nvfp4", multiple=32,
    ),
    Scheme(
        name="nvfp4_weight_only", weights="float4_e2m1fn", scales=(Scales(dtype="float8_e4m3fn", columns=16),),
        execution=Execution.WIDENED, capability=(8, 0), format="nvfp4", multiple=16,
    ),
    Scheme(
        name="mxfp4", weights="float4_e2m1fn", scales=(Scales(dtype="float8_e8m0fnu", columns=32),), capability=(7, 5),
        format="mxfp4", multiple=32, covers_experts=True,
    ),
    # LLM.int8() (Dettmers et al. 2022): integers, and a few columns of outliers in 16 bits
    Scheme(
        name="bitsandbytes_int8", weights="int8", scales=(_FLOAT_ROW,), activations="int8",
        execution=Execution.INTEGER, capability=(7, 5), format="int8",
    ),
    # NF4: an fp32 absolute maximum for 64 weights
    Scheme(
        name="bitsandbytes_4bit", weights="int4", scales=(Scales(dtype="float32", columns=64),),
        execution=Execution.WIDENED, capability=(6, 0), has_vector_kernel=True,
    ),
    # double quantisation: 8-bit maxima, an fp32 one for 256 of them
    Scheme(
        name="bitsandbytes_4bit_double", weights="int4",
        scales=(Scales(dtype="uint8", columns=64), Scales(dtype="float32", columns=64 * 256)),
        execution=Execution.WIDENED, capability=(6, 0), has_vector_kernel=True,
    ),
    # GGUF's blocks of 32 weights, unpacked by diffusers in operators of PyTorch; q4_k takes the bits of q4_0
    *(
        Scheme(
            name=name, weights=weights, scales=(Scales(dtype="half", columns=32, zero_bits=zero_bits),),
            execution=Execution.WIDENED, capability=(5, 0), multiple=32,
        )
        for name, weights, zero_bits in (
            ("q8_0", "int8", 0), ("q4_0", "int4", 0), ("q4_k", "int4", 0), ("q4_1", "int4", 16),
        )
    ),
    Scheme(
        name="gptq", weights="int4", scales=(Scales(dtype="half", columns=128, zero_bits=4),), capability=(7, 5),
        format="gptq", index_bits=32,
    ),
    Scheme(
        name="awq", weights="int4", scales=(Scales(dtype="half", columns=128, zero_bits=4),), capability=(7, 5),
        format="awq",
    ),
    # fine-grained fp8 (DeepSeek): an fp32 scale for a block of 128 by 128
    Scheme(
        name="fp8_block", weights="float8_e4m3fn", scales=(Scales(dtype="float32", rows=128, columns=128),),
        activations="float8_e4m3fn", execution=Execution.SCALED, capability=(8, 9), format="fp8_block",
        covers_experts=True,
    ),
)  # fmt: skip
"""Schemes by name: torchao's configurations, and the methods of quantised checkpoints."""

_OTHER_NAMES: Mapping[str, str] = {
    "Int8WeightOnlyConfig": "int8_weight_only",
    "Int8DynamicActivationInt8WeightConfig": "int8_dynamic",
    "Int4WeightOnlyConfig": "int4_weight_only",
    "Float8WeightOnlyConfig": "float8_weight_only",
    "Float8DynamicActivationFloat8WeightConfig": "float8_dynamic",
    "NVFP4DynamicActivationNVFP4WeightConfig": "nvfp4_dynamic",
    "int8_dynamic_activation_int8_weight": "int8_dynamic",
    "float8_dynamic_activation_float8_weight": "float8_dynamic",
    "nf4": "bitsandbytes_4bit",
    "q4_k_s": "q4_k",
}
"""Other names: torchao's own of its configurations, and those that people write."""

_BY_OPTIONS: Mapping[tuple[str, str | None], str] = {
    ("int8", None): "int8_weight_only",
    ("int8", "int8"): "int8_dynamic",
    ("int4", None): "int4_weight_only",
    ("fp8", None): "float8_weight_only",
    ("fp8", "fp8"): "float8_dynamic",
    ("nvfp4", None): "nvfp4_dynamic",
}

WEIGHTS = ("int8", "int4", "fp8", "nvfp4")
ACTIVATIONS = ("int8", "fp8")


def find_scheme(weights: str | None, activations: str | None) -> Scheme | None:
    """Return the scheme that `--weights` and `--activations` ask for; None where neither is given."""
    if weights is None and activations is None:
        return None
    if activations is not None and activations not in ACTIVATIONS:
        raise UnknownNameError("format of activations", activations, ACTIVATIONS, hint="Known: int8, fp8.")
    if weights is not None and weights not in WEIGHTS:
        found = SCHEMES.get(_OTHER_NAMES.get(weights, weights))
        if found is None:
            raise unknown_format("format of weights", weights, (*WEIGHTS, *SCHEMES), _OTHER_NAMES)
        if activations is not None:
            raise UsageError(f"⟨weights⟩ {weights} says how activations are computed: drop ⟨activations⟩.")
        return found
    wanted = (weights or activations or "", activations)
    if wanted not in _BY_OPTIONS:
        raise UsageError(
            f"PyTorch has no kernel for {wanted[0]} weights with {activations} activations; it has int8 with int8 and "
            "fp8 with fp8, and each of int8, int4, fp8 and nvfp4 alone."
        )
    return SCHEMES[_BY_OPTIONS[wanted]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedPart:
    """One tensor that stands for a part of a quantised weight: what it is, its dtype and shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedWeight:
    """What a quantised weight is stored as: the packed weight, then its scales, zero points and permutation."""

    weight: PackedPart
    others: tuple[PackedPart, ...] = field(default=())


def pack(scheme: Scheme, shape: tuple[int, ...]) -> PackedWeight:
    """Return the tensors that store a weight of [.., outputs, inputs]."""
    *experts, rows, columns = shape
    others = []
    for index, scales in enumerate(scheme.scales):
        blocks = (*experts, *scales.blocks(rows, columns))
        others.append(PackedPart(name=f"scale{index or ''}", dtype=scales.dtype, shape=blocks))
        if scales.zero_bits == 4:
            others.append(PackedPart(name="zero_point", dtype="int4", shape=blocks))
        elif scales.zero_bits:
            others.append(PackedPart(name="zero_point", dtype=scales.dtype, shape=blocks))
    if scheme.index_bits:
        others.append(PackedPart(name="g_idx", dtype="int32", shape=(*experts, columns)))
    weight = PackedPart(name="", dtype=scheme.weights, shape=shape)
    return PackedWeight(weight=weight, others=tuple(others))
