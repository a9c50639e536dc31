"""How many bytes a weight takes in the number formats that language models are served in.

A checkpoint quantises some roles and keeps others in 16 bits; a GGUF file mixes formats from layer to layer by
the rules of llama.cpp's quantiser. Bits include the scales.
"""

from dataclasses import dataclass

from capplan.core.gpus.spec import GpuSpec
from capplan.core.weights import WeightFormat
from capplan.llm.core.architecture import Architecture
from capplan.llm.core.layers import GatedDeltaNet, LatentAttention, Mamba2, ShortConv
from capplan.llm.core.tensors import Tensor, WeightRole

MATRIX_ROLES = frozenset(
    {WeightRole.ATTENTION, WeightRole.LINEAR_ATTENTION, WeightRole.MLP, WeightRole.EXPERT, WeightRole.SHARED_EXPERT}
)
"""Roles that formats may quantise; embeddings, heads, routers, indexers and vectors stay in 16 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantisation:
    """A weight format with the roles that a checkpoint applies it to.

    `skipped_layers` are left in 16 bits whole, counted from the first layer. `mixed` holds roles that a checkpoint of
    mixed precision stores in another format than the rest.
    """

    format: WeightFormat
    roles: frozenset[WeightRole]
    skipped_layers: frozenset[int] = frozenset()
    mixed: tuple[tuple[WeightRole, WeightFormat], ...] = ()

    def format_of(self, role: WeightRole, *, layer: int | None = None) -> WeightFormat | None:
        """Return the format that a weight is quantised in; None where it is left in 16 or 32 bits."""
        narrow = role in self.roles and layer not in self.skipped_layers
        return dict(self.mixed).get(role, self.format if narrow else None)

    def bits(self, role: WeightRole, *, layer: int | None = None) -> float:
        stored = self.format_of(role, layer=layer)
        return self.format.other_bits if stored is None else stored.bits


def default_roles(architecture: Architecture, weights: WeightFormat) -> frozenset[WeightRole]:
    """Return the roles that published checkpoints of a format quantise.

    MXFP4 and 4-bit weight-only checkpoints of models with latent attention quantise the experts alone (gpt-oss,
    Kimi). NVFP4 ones keep latent and linear attention and their output in 16 bits, since attention is sensitive.
    """
    mixers = [layer.mixer for layer in architecture.layers]
    latent = any(isinstance(mixer, LatentAttention) for mixer in mixers)
    linear = any(isinstance(mixer, GatedDeltaNet | Mamba2 | ShortConv) for mixer in mixers)
    if weights.name == "mxfp4" and architecture.is_moe:
        return frozenset({WeightRole.EXPERT})
    if weights.name.startswith(("int4", "awq", "gptq")) and latent and architecture.is_moe:
        return frozenset({WeightRole.EXPERT})
    if weights.name == "nvfp4" and (latent or linear):
        return MATRIX_ROLES - {WeightRole.ATTENTION, WeightRole.LINEAR_ATTENTION}
    return MATRIX_ROLES


def default_quantisation(architecture: Architecture, weights: WeightFormat) -> Quantisation:
    return Quantisation(format=weights, roles=default_roles(architecture, weights))


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufPlace:
    """Where a tensor stands in a model, as llama.cpp's quantiser sees it."""

    layer: int | None
    layer_count: int
    query_heads_per_kv_head: int
    expert_count: int
    tied: bool


_GGML_BITS = {
    "F32": 32.0, "F16": 16.0, "Q8_0": 8.5, "Q6_K": 6.5625, "Q5_K": 5.5, "Q5_1": 6.0, "Q5_0": 5.5, "Q4_K": 4.5,
    "Q4_0": 4.5, "IQ4_XS": 4.25, "IQ4_NL": 4.5, "Q3_K": 3.4375, "Q2_K": 2.625,
}  # fmt: skip
_BASE_TYPE = {
    "q8_0": "Q8_0", "q6_k": "Q6_K", "q5_k_m": "Q5_K", "q5_k_s": "Q5_K", "q4_k_m": "Q4_K", "q4_k_s": "Q4_K",
    "q4_0": "Q4_0", "q5_0": "Q5_0", "iq4_xs": "IQ4_XS", "q3_k_m": "Q3_K", "q3_k_s": "Q3_K", "q2_k": "Q2_K",
}  # fmt: skip
_WIDER = {"Q4_K": "Q5_0", "IQ4_XS": "IQ4_NL", "Q5_K": "Q5_1", "Q6_K": "Q8_0", "Q3_K": "IQ4_NL", "Q2_K": "IQ4_NL"}
"""What llama.cpp takes where a row is not a multiple of the 256 weights of a K-quant's block."""


def gguf_bits(tensor: Tensor, mix: str, place: GgufPlace) -> float:
    """Return the bits per weight that llama.cpp's quantiser gives a tensor in a mix such as q4_k_m.

    The rules are those of `llama_tensor_get_type` for the mixes named here, without an importance matrix
    (`llama-quant.cpp` of August 2025).
    """
    if tensor.inputs == 1 or tensor.role in (WeightRole.VECTOR, WeightRole.ROUTER, WeightRole.CONVOLUTION):
        return _GGML_BITS["F32"]
    kind = _gguf_type(tensor, mix, place)
    if tensor.inputs % 256 and kind in _WIDER:
        kind = _WIDER[kind]
    return _GGML_BITS[kind]


def _gguf_type(tensor: Tensor, mix: str, place: GgufPlace) -> str:
    base = _BASE_TYPE[mix]
    if tensor.role is WeightRole.HEAD or (tensor.role is WeightRole.EMBEDDING and place.tied):
        return base if base == "Q8_0" else "Q6_K"
    if place.layer is None:
        return base
    if tensor.name == "v":
        assert place.layer is not None
        kind = base
        if mix == "q2_k":
            kind = "Q4_K" if place.query_heads_per_kv_head >= 4 else "Q3_K"
        elif mix == "q3_k_m":
            kind = "Q5_K" if place.layer < 2 else "Q4_K"
        elif mix in ("q4_k_m", "q5_k_m") and _uses_more_bits(place.layer, place.layer_count):
            kind = "Q6_K"
        elif (mix == "q4_k_s" and place.layer < 4) or (mix == "iq4_xs" and place.query_heads_per_kv_head >= 4):
            kind = "Q5_K"
        if place.layer_count == 80 and place.query_heads_per_kv_head > 1 and kind in ("Q3_K", "Q4_K"):
            kind = "Q5_K"  # llama.cpp treats 80 layers as a 70B, whose values are shared by eight query heads
        return "Q8_0" if place.expert_count == 8 else kind
    if tensor.name == "k" and place.expert_count == 8:
        return "Q8_0"
    if tensor.name == "o" and place.expert_count == 8:
        return "Q5_K" if base in ("Q2_K", "Q3_K", "Q4_K", "IQ4_XS") else base
    if tensor.name == "o":
        return {"q2_k": "Q3_K", "q3_k_m": "Q4_K"}.get(mix, base)
    if tensor.name.endswith("down"):
        more = _uses_more_bits(place.layer, place.layer_count)
        if mix == "q2_k":
            return "Q3_K"
        if mix == "q3_k_m":
            return "Q5_K" if place.layer < place.layer_count // 16 else "Q4_K"
        if mix in ("q4_k_m", "q5_k_m") and more:
            return "Q6_K"
        if mix in ("q4_k_s", "iq4_xs") and place.layer < place.layer_count // 8:
            return "Q5_K"
        return base
    return base


def _uses_more_bits(layer: int, layer_count: int) -> bool:
    """Return True for the first and last eighth of the layers and every third one between."""
    eighth = layer_count // 8
    return layer < eighth or layer >= 7 * layer_count // 8 or (layer - eighth) % 3 == 2


_BF16_CAPABILITY = (8, 0)
"""Compute capability from which on NVIDIA's tensor cores take bf16: CUDA C++ Programming Guide, "Compute Capabilities".
vLLM refuses bfloat16 below it and names `--dtype half`."""


def lacks_bf16(gpu: GpuSpec) -> bool:
    return gpu.compute_capability is not None and gpu.compute_capability < _BF16_CAPABILITY


def half_note(gpu: GpuSpec, *formats: str) -> str | None:
    """Return a note where weights or a cache in bf16 become fp16 on a GPU; None where they stay as they are."""
    if "bf16" not in formats or not lacks_bf16(gpu):
        return None
    return (
        f"{gpu.id} has no bf16 arithmetic: the model runs in fp16 there (vLLM and SGLang: --dtype half), in as many "
        "bytes; values above 65,504 overflow, so compare its answers with those in bf16"
    )
