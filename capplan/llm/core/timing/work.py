"""Count the FLOPs and bytes of one step of an LLM on one GPU, and choose the kernels of its weights."""

from collections.abc import Sequence, Set
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from capplan.core.numbers import FloatArray
from capplan.llm.core.quantisation import Quantisation
from capplan.llm.core.tensors import WeightRole
from capplan.llm.core.timing.calibration import KernelClass


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


NARROW = frozenset({Arithmetic.FP8, Arithmetic.INT8, Arithmetic.FP4})
"""Arithmetic with fewer than 16 bits, which an engine leaves idle where its kernels are for weights alone."""


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
    "mxfp4": _low(0.53125, 1.03, Arithmetic.FP8, KernelClass.GEMM_FP4, KernelClass.MOE_MXFP4),
}
_NEEDS = {"mxfp4": Arithmetic.FP4}
"""Units without which a format is widened, where they are not those that multiply: mxfp4 weights times mxfp8 inputs run
at the rate of fp8 ("mxf8f6f4.block_scale: 2x Hopper Fp8 Tensor Core", of mxf4 4x; NVIDIA CUTLASS, Blackwell SM100
GEMMs, read on 2026-11-27), on GPUs with fp4 units."""


def ggml_kernel(kernel: WeightKernel) -> WeightKernel:
    """Return how llama.cpp multiplies a matrix that others multiply with a kernel: in 16 bits, which it sums in 16."""
    gemm = KernelClass.GGML_16 if kernel.weight_bytes >= 2 else KernelClass.GGML_NARROW
    return replace(kernel, input_bytes=2.0, arithmetic=Arithmetic.HALF_SUMS, gemm=gemm)


def weight_kernel(quantisation: Quantisation, role: WeightRole, *, units: Set[Arithmetic]) -> WeightKernel:
    """Choose how a matrix is multiplied; a GPU without the units for a format computes in 16 bits."""
    stored, bits = quantisation.format_of(role), quantisation.bits(role)
    if stored is None or bits >= 16:
        return replace(_HALF, weight_bytes=bits / 8)
    kernel = _KERNELS.get(stored.name)
    if kernel is not None and _NEEDS.get(stored.name, kernel.arithmetic) in units:
        return kernel
    weight_bytes = bits / 8
    wide = weight_bytes > 0.8
    emulated = WeightKernel(
        weight_bytes=weight_bytes,
        input_bytes=2.0,
        arithmetic=Arithmetic.HALF,
        gemm=KernelClass.GEMM_W8A16 if wide else KernelClass.GEMM_W4A16,
        moe=KernelClass.MOE_W8A16 if wide else KernelClass.MOE_W4A16,
    )
    return replace(emulated, moe=KernelClass.MOE_MXFP4_A16) if stored.name == "mxfp4" else emulated


IntArray = NDArray[np.int64]

CLASSES: tuple[KernelClass, ...] = tuple(KernelClass)
_INDEX = {kernel_class: index for index, kernel_class in enumerate(CLASSES)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A dense matrix product [tokens, inputs] × [inputs, outputs] on one GPU, `count` times a step.

    `sampled` products run on the sampled rows only (the output head), others on every token. A head counts for a
    share of each pipeline stage, which is its time for a lone sequence.
    """

    outputs: float
    inputs: float
    count: float
    weight_bytes: float
    input_bytes: float
    arithmetic: Arithmetic
    kernel_class: KernelClass
    sampled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertProduct:
    """The grouped products of one MoE layer on one GPU, `count` layers.

    `elements` are the weight elements of one expert on this GPU, `hidden` and `intermediate` its width (the latter on
    this GPU), `experts` and `per_token` those of the whole layer, `local_experts` the experts that lie on this GPU.
    The tokens of all ranks of attention data parallelism reach them if it `gathers_ranks`.
    """

    elements: float
    hidden: float
    intermediate: float
    experts: float
    per_token: float
    local_experts: float
    count: float
    weight_bytes: float
    input_bytes: float
    arithmetic: Arithmetic
    kernel_class: KernelClass
    gathers_ranks: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionKernel:
    """Attention of `count` layers on one GPU.

    `decode_flops` are FLOPs for one decoding sequence and token of context, `cache_bytes` the KV bytes it reads for
    that; `prefill_flops` the FLOPs of a pair of query and key while prefilling. Contexts end at `window`, which slides,
    or is a fixed block of positions if `chunked`; a sparse layer reads at most `selected` tokens, chosen by an indexer
    that costs `index_flops` and `index_bytes` for every token of context.
    """

    decode_flops: float
    cache_bytes: float
    prefill_flops: float
    count: float
    kernel_class: KernelClass
    prefill_class: KernelClass = KernelClass.PREFILL
    window: float = 1e12
    chunked: bool = False
    selected: float = 1e12
    index_flops: float = 0.0
    index_bytes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StateKernel:
    """The recurrent state of `count` layers on one GPU: bytes per sequence, FLOPs per decoded and per prompt token.

    A prompt writes and reads `prompt_bytes` a token besides, such as the states between its blocks. Decoding is of the
    class `update_class`, prompts are of `KernelClass.STATE`.
    """

    sequence_bytes: float
    token_flops: float
    prompt_flops: float
    count: float
    prompt_bytes: float = 0.0
    update_class: KernelClass = KernelClass.STATE


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """All kernels of one pipeline stage of a deployment on one GPU, and what surrounds them.

    `layers` run on this stage. `reduced_layers` end in two all-reduces over `tensor_parallel` GPUs each,
    `exchanged_layers` exchange tokens between the `data_parallel` ranks of attention. `hidden` is the model's width.
    `sorted_logits` of each sampled row are sorted to draw a token, 0 where the most likely one is taken.
    `host` are the kernels that the host's CPU computes, None for none. `drafts_in_parallel` says that a pass drafts all
    tokens of a step.
    """

    products: tuple[Product, ...]
    experts: tuple[ExpertProduct, ...]
    attentions: tuple[AttentionKernel, ...]
    states: tuple[StateKernel, ...]
    hidden: float
    layers: float
    tensor_parallel: int
    pipeline_parallel: int
    data_parallel: int
    exchanged_layers: float
    sorted_logits: float = 0.0
    host: "Kernels | None" = None
    drafts_in_parallel: bool = False

    @property
    def bordering_elements(self) -> float:
        """Return the elements of one token that dense products read and write in a step.

        Norms, activations, rotations and residual additions stand between the products, so that they read what one
        wrote and write what the next reads. Of experts only the input and the output count: the rest is in their time.
        """
        dense = sum(item.count * (item.inputs + item.outputs) for item in self.products if not item.sampled)
        return dense + sum(2.0 * item.count * item.hidden for item in self.experts)

    @property
    def quantised_elements(self) -> float:
        """Return the elements of one token that are narrowed before dense products in fp8, int8 or four bits.

        Products with narrow weights alone take 16-bit inputs; what experts take is in their own time.
        """
        return sum(item.count * item.inputs for item in self.products if item.input_bytes < 2.0 and not item.sampled)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What steps process on each rank of attention data parallelism, one entry a step.

    `decoding` sequences of mean `context` tokens give one token each and verify `drafted` further ones. They are
    anywhere in answers of `answered` tokens, so that their contexts lie as far apart. `prefilled` prompt tokens of
    `prompts` sequences attend to `pairs` (query, key) pairs.
    """

    decoding: FloatArray
    context: FloatArray
    prefilled: FloatArray
    prompts: FloatArray
    pairs: FloatArray
    drafted: FloatArray | float = 0.0
    answered: FloatArray | float = 1.0

    @property
    def tokens(self) -> FloatArray:
        """Tokens that run through the linear layers."""
        return self.decoding * (1.0 + self.drafted) + self.prefilled

    @property
    def sampled(self) -> FloatArray:
        return self.decoding * (1.0 + self.drafted) + self.prompts

    @classmethod
    def of(
        cls,
        *,
        decoding: FloatArray | float = 0.0,
        context: FloatArray | float = 0.0,
        prefilled: FloatArray | float = 0.0,
        prompts: FloatArray | float = 0.0,
        past: FloatArray | float = 0.0,
        drafted: float = 0.0,
        answered: float = 1.0,
    ) -> "Load":
        """Make a load of prompts of equal length, each behind `past` tokens that are in the cache already."""
        arrays = np.broadcast_arrays(
            *(np.atleast_1d(np.asarray(x, float)) for x in (decoding, context, prefilled, prompts, past))
        )
        each = arrays[2] / np.maximum(arrays[3], 1e-9)
        pairs = arrays[2] * (arrays[4] + each / 2)
        return cls(
            decoding=arrays[0],
            context=arrays[1],
            prefilled=arrays[2],
            prompts=arrays[3],
            pairs=pairs,
            drafted=drafted,
            answered=answered,
        )

    @classmethod
    def joined(cls, loads: Sequence["Load"]) -> "Load":
        columns = {
            item.name: np.concatenate(
                [np.broadcast_to(getattr(load, item.name), load.decoding.shape) for load in loads]
            )
            for item in fields(cls)
        }
        return cls(**columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWork:
    """FLOPs and bytes of steps [step, kernel]; `count` says how many layers run a kernel, `kernel_class` and
    `arithmetic` what it is. A kernel multiplies `padding` times its FLOPs, because it works in whole tiles."""

    flops: FloatArray
    padding: FloatArray
    traffic_bytes: FloatArray
    count: FloatArray
    kernel_class: IntArray
    arithmetic: tuple[Arithmetic, ...]


_SMALLEST_TILE, _LARGEST_TILE = 16.0, 128.0
_PERMUTED_BYTES = 10.0
"""Bytes per element of a row of experts with which tokens are gathered, quantised and summed up again.

With these and the padding, grouped products timed alone on five GPUs are met within 6 to 12 % (median), without them
within 12 to 16 %."""


def experts_touched(*, experts: float, per_token: float, tokens: FloatArray | float) -> FloatArray:
    """Compute how many distinct experts a batch reads if routing is uniform: E·(1 − (1 − k/E)^T)."""
    return np.asarray(experts * (1.0 - (1.0 - per_token / experts) ** np.asarray(tokens, float)))


def step_work(kernels: Kernels, load: Load, *, of_mean: bool = False) -> StepWork:
    """Count FLOPs and bytes by kernel and step, of the slowest GPU, or of the mean one for sums over all GPUs."""
    # Stages of a pipeline that hold sequences: one each, all of them from one sequence a pass on.
    busy_stages = np.clip(load.decoding * kernels.pipeline_parallel, 1.0, float(kernels.pipeline_parallel))
    columns = [
        *(_product(item, load, busy_stages) for item in kernels.products),
        *(_experts(item, load, kernels.data_parallel, of_mean=of_mean) for item in kernels.experts),
        *(_decode(item, load) for item in kernels.attentions),
        *(_prefill(item, load) for item in kernels.attentions),
        *(column for item in _sparse(kernels) for column in _selection(item, load)),
        *(_state_update(item, load) for item in kernels.states),
        *(_state_scan(item, load) for item in kernels.states),
    ]
    weighted: list[Product | ExpertProduct] = [*kernels.products, *kernels.experts]
    others = _classes(kernels)[len(weighted) :]
    arithmetic = [item.arithmetic for item in weighted] + [_ARITHMETIC.get(item, Arithmetic.HALF) for item in others]
    # By what factor padding multiplies the FLOPs of each kernel [step, kernel]: 1 but for experts.
    padding = np.ones((*load.tokens.shape, len(columns)))
    for index, item in enumerate(kernels.experts, start=len(kernels.products)):
        rows, touched = _expert_rows(item, load.tokens, kernels.data_parallel, of_mean=of_mean)
        padding[..., index] = padded_rows(rows=rows, experts=touched) / np.maximum(rows, 1e-9)
    return StepWork(
        flops=np.stack([column[0] for column in columns], axis=-1),
        padding=padding,
        traffic_bytes=np.stack([column[1] for column in columns], axis=-1),
        count=np.stack([np.broadcast_to(column[2], load.tokens.shape) for column in columns], axis=-1),
        kernel_class=np.array([_INDEX[item] for item in _classes(kernels)]),
        arithmetic=tuple(arithmetic),
    )


def kernel_classes(kernels: Kernels) -> frozenset[KernelClass]:
    return frozenset(_classes(kernels))


def _classes(kernels: Kernels) -> Sequence[KernelClass]:
    return (
        [item.kernel_class for item in kernels.products]
        + [item.kernel_class for item in kernels.experts]
        + [item.kernel_class for item in kernels.attentions]
        + [item.prefill_class for item in kernels.attentions]
        + [item.kernel_class for item in _sparse(kernels) for _ in range(SELECTION_KERNELS)]
        + [item.update_class for item in kernels.states]
        + [KernelClass.STATE for _ in kernels.states]
    )


_ARITHMETIC = {
    KernelClass.DECODE_VECTOR: Arithmetic.VECTOR,
    KernelClass.PREFILL_FP8: Arithmetic.FP8,
    KernelClass.SSM_UPDATE: Arithmetic.VECTOR,
}
"""Arithmetic of kernels without weights; all others of them compute in 16 bits."""


_Column = tuple[FloatArray, FloatArray, FloatArray]


def _product(item: Product, load: Load, busy_stages: FloatArray) -> _Column:
    """Count a dense product. The output head lies on the last stage, for which the others wait in a full pipeline."""
    tokens = load.sampled if item.sampled else load.tokens
    count = item.count * busy_stages if item.sampled else item.count
    flops = 2.0 * tokens * item.outputs * item.inputs
    traffic = item.outputs * item.inputs * item.weight_bytes + tokens * (
        item.inputs * item.input_bytes + 2.0 * item.outputs
    )
    return flops, traffic, np.where(tokens > 0, count, 0.0)


def padded_rows(*, rows: FloatArray, experts: FloatArray) -> FloatArray:
    """Compute the rows that a grouped product multiplies: those of each expert are rounded up to whole tiles.

    Tiles grow with the rows of an expert, from 16 to 128 rows, half of which are padding on average.
    """
    each = rows / np.maximum(experts, 1e-9)
    return np.asarray(rows + experts * np.minimum(_SMALLEST_TILE / 2 + each, _LARGEST_TILE / 2))


def _expert_rows(
    item: ExpertProduct, tokens: FloatArray, data_parallel: int, *, of_mean: bool
) -> tuple[FloatArray, FloatArray]:
    """Return the rows that reach the experts of one GPU, and how many of its experts they touch.

    Tokens choose experts at random, so that one of the GPUs that divide the experts gets more than the mean, by the
    expected largest of so many normal deviates (Blom's approximation, 1958). All others wait for it.
    """
    share = item.local_experts / item.experts
    tokens = tokens * data_parallel if item.gathers_ranks else tokens
    touched = experts_touched(experts=item.experts, per_token=item.per_token, tokens=tokens) * share
    rows = tokens * item.per_token * share
    if of_mean or share == 1.0:
        return rows, touched
    largest = NormalDist().inv_cdf((1.0 / share - 0.375) / (1.0 / share + 0.25))
    chance = touched / item.local_experts
    most = touched + largest * np.sqrt(touched * np.maximum(1.0 - chance, 0.0) * (1.0 - share))
    return rows + largest * np.sqrt(rows * (1.0 - share)), np.minimum(most, item.local_experts)


def _experts(item: ExpertProduct, load: Load, data_parallel: int, *, of_mean: bool) -> _Column:
    rows, touched = _expert_rows(item, load.tokens, data_parallel, of_mean=of_mean)
    traffic = touched * item.elements * item.weight_bytes + rows * (
        item.hidden * (item.input_bytes + 2.0 + _PERMUTED_BYTES) + 3.0 * item.intermediate * 2.0
    )
    return 2.0 * rows * item.elements, traffic, np.where(load.tokens > 0, item.count, 0.0)


def chunk_keys(*, chunk: float, context: FloatArray, answered: FloatArray | float) -> FloatArray:
    """Compute the keys that a decoding token reads within its chunk, in the mean over the contexts of an answer.

    A context of s tokens has read s − c·⌊s/c⌋ of its chunk of c; the sum of that up to s is ⌊s/c⌋·c²/2 + (s mod c)²/2.
    A long answer reads half a chunk.

    Args:
        chunk: Positions of a chunk. [tokens]
    """
    half = np.minimum(np.maximum(answered, 1.0) / 2.0, context)

    def summed(tokens: FloatArray) -> FloatArray:
        chunks, rest = np.divmod(tokens, chunk)
        return np.asarray((chunks * chunk**2 + rest**2) / 2.0)

    return (summed(context + half) - summed(context - half)) / np.maximum(2.0 * half, 1e-9)


def _decode(item: AttentionKernel, load: Load) -> _Column:
    if item.chunked:
        window = chunk_keys(chunk=item.window, context=load.context, answered=load.answered)
    else:
        window = np.minimum(load.context, item.window)
    read = np.minimum(window, item.selected)
    flops = load.decoding * (1.0 + load.drafted) * read * item.decode_flops
    return flops, load.decoding * read * item.cache_bytes, np.where(load.decoding > 0, item.count, 0.0)


def _prefill(item: AttentionKernel, load: Load) -> _Column:
    window = min(item.window / 2 if item.chunked else item.window, item.selected)
    flops = np.minimum(load.pairs, load.prefilled * window) * item.prefill_flops
    return flops, 0.0 * flops, np.where(load.prefilled > 0, item.count, 0.0)


SELECTION_KERNELS = 3
"""Kernels with which a sparse layer chooses its tokens: rotation and quantisation of the indexer's queries and keys,
scores of all cached tokens, and the choice of the highest (the reference implementation of DeepSeek-V3.2)."""
_SCORE_BYTES = 4.0


def _sparse(kernels: Kernels) -> list[AttentionKernel]:
    return [item for item in kernels.attentions if item.index_flops]


def _selection(item: AttentionKernel, load: Load) -> tuple[_Column, ...]:
    """Count the kernels with which a sparse layer chooses the tokens that its attention reads."""
    pairs = load.decoding * (1.0 + load.drafted) * load.context + load.pairs
    count = np.where(load.tokens > 0, item.count, 0.0)
    nothing = np.zeros_like(pairs)
    scored = pairs * item.index_flops, load.decoding * load.context * item.index_bytes, count
    return (nothing, nothing, count), scored, (nothing, _SCORE_BYTES * pairs, count)


def _state_update(item: StateKernel, load: Load) -> _Column:
    """Count the states of decoding sequences, which are read and written once a step."""
    decoded = load.decoding * (1.0 + load.drafted)
    traffic = 2.0 * load.decoding * item.sequence_bytes
    return decoded * item.token_flops, traffic, np.where(load.decoding > 0, item.count, 0.0)


def _state_scan(item: StateKernel, load: Load) -> _Column:
    """Count the states of prompts, which are computed block by block."""
    traffic = 2.0 * load.prompts * item.sequence_bytes + load.prefilled * item.prompt_bytes
    return load.prefilled * item.prompt_flops, traffic, np.where(load.prefilled > 0, item.count, 0.0)
