"""Choose the kernels that multiply with a checkpoint's weights: bytes per element, arithmetic and class, by role."""

from collections.abc import Set
from dataclasses import dataclass, replace
from enum import StrEnum

from capplan.llm.core.quantisation import Quantisation
from capplan.llm.core.tensors import WeightRole
from capplan.llm.core.timing.kernel_classes import KernelClass


class Arithmetic(StrEnum):
    """The units that arithmetic runs on: matrix units by format, or the ordinary ones (`VECTOR`).

    `HALF` sums products in 32 bits and `HALF_SUMS` in 16, which is twice as fast on GeForce cards.
    """

    HALF = "half"
    HALF_SUMS = "half, summed in half"
    VECTOR = "vector"
    FP8 = "fp8"
    INT8 = "int8"
    FP4 = "fp4"


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightKernel:
    """How a matrix is stored and multiplied: bytes per element of weights and inputs, arithmetic, and class.

    `gemm` is the class of a dense product, `moe` that of a grouped product over experts.
    """

    weight_bytes: float
    input_bytes: float
    arithmetic: Arithmetic
    gemm: KernelClass
    moe: KernelClass


def _weight_only(weight_bytes: float) -> WeightKernel:
    wide = weight_bytes > 0.8
    return WeightKernel(
        weight_bytes=weight_bytes,
        input_bytes=2.0,
        arithmetic=Arithmetic.HALF,
        gemm=KernelClass.GEMM_W8A16 if wide else KernelClass.GEMM_W4A16,
        moe=KernelClass.MOE_W8A16 if wide else KernelClass.MOE_W4A16,
    )


def _low(weight_bytes: float, input_bytes: float, arithmetic: Arithmetic, *classes: KernelClass) -> WeightKernel:
    return WeightKernel(
        weight_bytes=weight_bytes, input_bytes=input_bytes, arithmetic=arithmetic, gemm=classes[0], moe=classes[1]
    )


_HALF = _low(2.0, 2.0, Arithmetic.HALF, KernelClass.GEMM_16, KernelClass.MOE_16)
_FP8_BLOCK = _low(1.0002, 1.03, Arithmetic.FP8, KernelClass.GEMM_FP8_BLOCK, KernelClass.MOE_FP8_BLOCK)
_KERNELS: dict[str, WeightKernel] = {
    "fp8": _low(1.0, 1.0, Arithmetic.FP8, KernelClass.GEMM_FP8, KernelClass.MOE_FP8),
    "fp8_block": _FP8_BLOCK,
    "int8": _low(1.0, 1.0, Arithmetic.INT8, KernelClass.GEMM_INT8, KernelClass.MOE_FP8),
    "nvfp4": _low(0.5625, 0.5625, Arithmetic.FP4, KernelClass.GEMM_FP4, KernelClass.MOE_NVFP4),
    "mxfp4": _low(0.53125, 1.03, Arithmetic.FP4, KernelClass.GEMM_FP4, KernelClass.MOE_MXFP4),
}


def ggml_kernel(kernel: WeightKernel) -> WeightKernel:
    """Return how llama.cpp multiplies a matrix that others multiply with a kernel: in 16 bits, which it sums in 16."""
    gemm = KernelClass.GGML_16 if kernel.weight_bytes >= 2 else KernelClass.GGML_NARROW
    return replace(kernel, input_bytes=2.0, arithmetic=Arithmetic.HALF_SUMS, gemm=gemm)


def weight_kernel(quantisation: Quantisation, role: WeightRole, *, units: Set[Arithmetic]) -> WeightKernel:
    """Choose how a matrix is multiplied; a GPU without the units for a format computes in 16 bits.

    Args:
        quantisation: The format of the checkpoint and the roles that it narrows.
        role: What the matrix is for.
        units: Arithmetic that the GPU has.
    """
    name, bits = quantisation.format.name, quantisation.bits(role)
    if bits >= 16:
        return replace(_HALF, weight_bytes=bits / 8)
    kernel = _KERNELS.get(name)
    if kernel is not None and kernel.arithmetic in units:
        return kernel
    emulated = _weight_only(bits / 8)
    return replace(emulated, moe=KernelClass.MOE_MXFP4_A16) if name == "mxfp4" else emulated
