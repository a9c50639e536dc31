"""Count the bytes of weights and of LoRA adapters that one GPU of a deployment holds."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

from capplan.llm.core.architecture import Architecture
from capplan.llm.core.layers import Attention
from capplan.llm.core.quantisation import GgufPlace, Quantisation, gguf_bits
from capplan.llm.core.sharding import HostOffload, Sharding, stage_layers
from capplan.llm.core.tensors import Split, Tensor, WeightRole, embedding_tensors, head_tensors, layer_tensors


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLayout:
    """How an engine lays weights out on a GPU.

    `vocabulary_padding` is the multiple that the vocabulary is padded to, per GPU. `expert_width_padding` and
    `expert_hidden_padding` are those of the experts' matrices in padded formats. `keeps_rope_table` says that the
    rotary embedding is kept as a table of 16-bit numbers, `ngrams_on_host` that tables of n-grams lie in host memory.
    """

    vocabulary_padding: int = 1
    expert_width_padding: int = 1
    expert_hidden_padding: int = 1
    keeps_rope_table: bool = False
    ngrams_on_host: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightBytes:
    """The bytes of one GPU's weights by role; the total is their sum."""

    by_role: tuple[tuple[WeightRole, float], ...]
    rope_table: float = 0.0

    @property
    def total(self) -> float:
        return sum(size for _, size in self.by_role) + self.rope_table

    def of(self, role: WeightRole) -> float:
        return sum(size for tensor_role, size in self.by_role if tensor_role is role)


@lru_cache(maxsize=1024)
def stage_weights(
    architecture: Architecture, *, quantisation: Quantisation, sharding: Sharding, layout: EngineLayout, stage: int = 0
) -> WeightBytes:
    sizes: dict[WeightRole, float] = {}
    for layer, tensor in _stage_tensors(architecture, sharding, stage):
        size = _padded_bytes(
            tensor, quantisation, sharding, layout, bits=_bits(tensor, architecture, quantisation, layer)
        )
        sizes[tensor.role] = sizes.get(tensor.role, 0.0) + size
    if architecture.vision is not None and stage == 0:
        per_gpu = architecture.vision.parameters / sharding.tensor  # the image encoder is cut like the rest
        sizes[WeightRole.VISION] = per_gpu * quantisation.format.other_bits / 8
    table = 2.0 * architecture.rope_rows * architecture.rope_dim if layout.keeps_rope_table else 0.0
    return WeightBytes(by_role=tuple(sizes.items()), rope_table=table)


def _padded_bytes(
    tensor: Tensor, quantisation: Quantisation, sharding: Sharding, layout: EngineLayout, *, bits: float
) -> float:
    padded = quantisation.format.padded and tensor.role is WeightRole.EXPERT and tensor.role in quantisation.roles
    return sharded_elements(tensor, sharding=sharding, layout=layout, padded=padded) * bits / 8


def draft_bytes(
    architecture: Architecture, *, quantisation: Quantisation, sharding: Sharding, layout: EngineLayout
) -> float:
    """Count the bytes of weights on one GPU of what drafts tokens, as the time of a draft is counted.

    That is one layer of the model, and a projection of the hidden state beside the embedding of the last token, [2H, H]
    in 16 bits and whole on every GPU. Embedding and output head are the model's own. DeepSeek-V3's module for
    multi-token prediction has 11.5 B such parameters (its README_WEIGHTS), EAGLE's heads have 0.25 B for Llama 3 8B and
    0.99 B for 70B (its README).
    """
    index, hidden = architecture.draft_index, architecture.hidden_dim
    return 2.0 * 2 * hidden**2 + sum(
        _padded_bytes(tensor, quantisation, sharding, layout, bits=_bits(tensor, architecture, quantisation, index))
        for tensor in layer_tensors(architecture.layers[index], hidden_dim=hidden)
    )


@lru_cache(maxsize=1024)
def host_weight_bytes(
    architecture: Architecture, *, quantisation: Quantisation, sharding: Sharding, layout: EngineLayout, stage: int = 0
) -> float:
    """Count the bytes of weights that a GPU leaves in host memory: layers, experts, the head, n-grams. [bytes]"""
    offload, count = sharding.offload or HostOffload(), len(architecture.layers)
    if sharding.offload is None and not layout.ngrams_on_host:
        return 0.0
    whole, head, size = offload.host_layers(count), head_tensors(architecture), 0.0
    for layer, tensor in _stage_tensors(architecture, sharding, stage):
        in_layer = layer is not None and (
            layer < whole or (tensor.role is WeightRole.EXPERT and layer < offload.expert_layers)
        )
        in_layer |= tensor.role is WeightRole.NGRAMS and layout.ngrams_on_host
        if in_layer or (tensor in head and not offload.keeps_head(count)):
            elements = sharded_elements(tensor, sharding=sharding, layout=layout)
            size += elements * _bits(tensor, architecture, quantisation, layer) / 8
    return size


def _stage_tensors(architecture: Architecture, sharding: Sharding, stage: int) -> Iterator[tuple[int | None, Tensor]]:
    """Yield the tensors of a stage, each with the index of its layer; a tied head needs the embedding again."""
    first, last = stage == 0, stage == sharding.pipeline - 1
    if first or (last and architecture.tied_embeddings):
        for tensor in embedding_tensors(architecture):
            yield None, tensor
    for index in stage_layers(len(architecture.layers), sharding.pipeline)[stage]:
        for tensor in layer_tensors(architecture.layers[index], hidden_dim=architecture.hidden_dim):
            yield index, tensor
    if last:
        for tensor in head_tensors(architecture):
            yield None, tensor


def _bits(tensor: Tensor, architecture: Architecture, quantisation: Quantisation, layer: int | None) -> float:
    mix = quantisation.format.gguf
    if tensor.own_bits is not None:
        return tensor.own_bits
    if mix is None:
        return quantisation.bits(tensor.role, layer=layer)
    mixer = architecture.layers[layer].mixer if layer is not None else None
    shared = mixer.query_heads // mixer.kv_heads if isinstance(mixer, Attention) else 1
    experts = max((experts.count for _, experts in architecture.expert_layers()), default=0)
    place = GgufPlace(
        layer=layer,
        layer_count=len(architecture.layers),
        query_heads_per_kv_head=shared,
        expert_count=experts,
        tied=architecture.tied_embeddings,
    )
    return gguf_bits(tensor, mix, place)


def sharded_elements(tensor: Tensor, *, sharding: Sharding, layout: EngineLayout, padded: bool = False) -> float:
    """Count the elements of a tensor that one GPU holds, padding included."""
    if tensor.role is WeightRole.EXPERT or (tensor.copies > 1 and tensor.name.startswith("expert")):
        return _expert_elements(tensor, sharding, layout, padded=padded)
    ways = sharding.tensor
    match tensor.split:
        case Split.NONE:
            return tensor.parameters
        case Split.OUTPUTS | Split.INPUTS:
            return tensor.parameters / ways
        case Split.KV_HEADS:
            return tensor.inputs * tensor.outputs / tensor.heads * max(1.0, tensor.heads / ways)
        case Split.VOCABULARY:
            rows = ceil(tensor.outputs / (layout.vocabulary_padding * ways)) * layout.vocabulary_padding
            return tensor.inputs * rows if layout.vocabulary_padding > 1 else tensor.parameters / ways


def _expert_elements(tensor: Tensor, sharding: Sharding, layout: EngineLayout, *, padded: bool) -> float:
    """Count the elements of the experts on one GPU: whole experts by expert parallelism, cut ones by the rest."""
    copies = ceil(tensor.copies / sharding.expert)
    ways = sharding.expert_tensor
    inputs, outputs = float(tensor.inputs), float(tensor.outputs)
    if tensor.split is Split.INPUTS:
        inputs /= ways
    elif tensor.split is Split.OUTPUTS:
        outputs /= ways
    if padded and tensor.inputs > 1:
        gates = 2 if "gate" in tensor.name else 1
        if tensor.split is Split.INPUTS:
            inputs = _padded(inputs, layout.expert_width_padding)
            outputs = _padded(outputs, layout.expert_hidden_padding)
        else:
            inputs = _padded(inputs, layout.expert_hidden_padding)
            outputs = gates * _padded(outputs / gates, layout.expert_width_padding)
    return inputs * outputs * copies


def _padded(size: float, multiple: int) -> float:
    return ceil(size / multiple) * multiple


ADAPTER_BYTES = 2.0
"""Bytes of one element: adapters are served in 16 bits."""
_ROLES = frozenset({WeightRole.ATTENTION, WeightRole.LINEAR_ATTENTION, WeightRole.MLP, WeightRole.SHARED_EXPERT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters:
    """Adapters that are resident at the same time, each a product of two matrices of a rank beside every dense one.

    vLLM keeps `--max-loras` of them in slots of `--max-lora-rank`, SGLang `--max-loras-per-batch`. Adapters of routed
    experts are not counted.
    """

    count: int
    rank: int


def is_adapted(tensor: Tensor) -> bool:
    """Return True for a dense matrix of attention or an MLP, which adapters usually change."""
    return bool(tensor.product) and tensor.role in _ROLES


def adapter_sides(tensor: Tensor, sharding: Sharding) -> tuple[float, float]:
    """Return the inputs and outputs of a matrix whose adapter lies on one GPU.

    The side that tensor parallelism cuts is cut in the adapter, the other one is whole on every GPU (vLLM and SGLang by
    default). Gate and up, which are one matrix here, have an adapter each.
    """
    slices = 2.0 if "gate" in tensor.name else 1.0
    inputs, outputs, ways = slices * tensor.inputs, float(tensor.outputs), sharding.tensor
    match tensor.split:
        case Split.INPUTS:
            return inputs / ways, outputs
        case Split.KV_HEADS:
            return inputs, outputs / min(ways, tensor.heads)
        case Split.OUTPUTS:
            return inputs, outputs / ways
        case _:
            return inputs, outputs


def adapter_bytes(architecture: Architecture, *, sharding: Sharding, adapters: Adapters, stage: int) -> float:
    """Return the bytes of all adapters on one GPU of a pipeline stage: rank · (inputs + outputs) of each matrix."""
    sides = sum(
        sum(adapter_sides(tensor, sharding))
        for index in stage_layers(len(architecture.layers), sharding.pipeline)[stage]
        for tensor in layer_tensors(architecture.layers[index], hidden_dim=architecture.hidden_dim)
        if is_adapted(tensor)
    )
    return ADAPTER_BYTES * adapters.count * adapters.rank * sides
