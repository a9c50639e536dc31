"""List the kernels that one GPU of a deployment runs in a step: every matrix product, attention and state.

Identical layers are counted once. A stage of a pipeline holds an equal share of each kind of layer.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

from capplan.llm.core.architecture import Architecture, Layer
from capplan.llm.core.kv import INDEXER_BYTES_PER_TOKEN, compressed_row_bytes, latent_row_bytes
from capplan.llm.core.layers import (
    Attention,
    CompressedAttention,
    Experts,
    GatedDeltaNet,
    LatentAttention,
    Mamba2,
    ShortConv,
)
from capplan.llm.core.quantisation import Quantisation
from capplan.llm.core.sharding import HostOffload, Sharding
from capplan.llm.core.tensors import Split, Tensor, WeightRole, layer_tensors
from capplan.llm.core.timing.calibration import KernelClass
from capplan.llm.core.timing.work import (
    Arithmetic,
    AttentionKernel,
    ExpertProduct,
    Kernels,
    Product,
    StateKernel,
    WeightKernel,
    ggml_kernel,
    weight_kernel,
)
from capplan.llm.core.weights import ADAPTER_BYTES, Adapters, adapter_sides, is_adapted


@dataclass(frozen=True, slots=True, kw_only=True)
class Formats:
    """Number formats of a deployment on a GPU.

    `cache_bytes` are those of one element of the KV cache, `units` the arithmetic that the GPU has. `decode` and
    `prefill` are the classes of attention with separate keys and values. `mixed_bytes` are those of a weight by role,
    where a format mixes several, as GGUF does. `sorts_logits` says that logits are sorted to draw a token. `adapters`
    are served beside the model, None for none. `is_ggml` says that llama.cpp computes them. `state_bytes` are those of
    an element of the state of a state-space layer.
    """

    quantisation: Quantisation
    cache_bytes: float
    units: frozenset[Arithmetic]
    decode: KernelClass = KernelClass.DECODE_GQA
    prefill: KernelClass = KernelClass.PREFILL
    mixed_bytes: tuple[tuple[WeightRole, float], ...] = ()
    sorts_logits: bool = False
    adapters: Adapters | None = None
    is_ggml: bool = False
    state_bytes: float = 4.0


@lru_cache(maxsize=1024)
def stage_kernels(architecture: Architecture, *, sharding: Sharding, formats: Formats) -> Kernels:
    """List the kernels of one GPU, and of the CPU beside it where layers or experts are left to the host."""
    lister, layers = _Lister(architecture, sharding, formats), architecture.layers
    offload = sharding.offload or HostOffload()
    whole = offload.host_layers(len(layers))
    near, away = _Parts(), _Parts()
    places = Counter((layer, index < whole, index < offload.expert_layers) for index, layer in enumerate(layers))
    for (layer, is_away, sends_experts), copies in places.items():
        count, side = copies / sharding.pipeline, away if is_away else near
        side.products += lister.products(layer, count)
        (away if sends_experts else side).experts.extend(lister.experts(layer, count))
        side.experts += lister.adapted(layer, count)
        side.attentions += lister.attentions(layer, count)
        side.states += lister.states(layer, count)
    (near if offload.keeps_head(len(layers)) else away).products.append(lister.head())
    blocks = sum((layer.mixer is not None) + (layer.mlp is not None) for layer in layers)
    expert_layers = sum(isinstance(layer.mlp, Experts) for layer in layers)

    def listed(parts: _Parts, host: Kernels | None) -> Kernels:
        return Kernels(
            products=tuple(parts.products),
            experts=tuple(parts.experts),
            attentions=tuple(parts.attentions),
            states=tuple(parts.states),
            hidden=architecture.hidden_dim,
            layers=blocks / 2 / sharding.pipeline,
            tensor_parallel=sharding.tensor,
            pipeline_parallel=sharding.pipeline,
            data_parallel=sharding.data,
            exchanged_layers=expert_layers / sharding.pipeline if sharding.data > 1 else 0.0,
            sorted_logits=architecture.vocab_size if formats.sorts_logits else 0.0,
            host=host,
            drafts_in_parallel=architecture.draft_head is not None and architecture.draft_head.is_parallel,
        )

    return listed(near, listed(away, None) if away.products or away.experts else None)


_BLOCK = 256
"""Tokens of a block in which Mamba-2's kernels compute a prompt (the default chunk_size of its implementation)."""


@dataclass(slots=True)
class _Parts:
    """The kernels that one side computes: the GPU, or the host's CPU."""

    products: list[Product] = field(default_factory=list)
    experts: list[ExpertProduct] = field(default_factory=list)
    attentions: list[AttentionKernel] = field(default_factory=list)
    states: list[StateKernel] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Lister:
    architecture: Architecture
    sharding: Sharding
    formats: Formats

    def _kernel(self, role: WeightRole) -> WeightKernel:
        kernel = weight_kernel(self.formats.quantisation, role, units=self.formats.units)
        stored = dict(self.formats.mixed_bytes).get(role)
        kernel = kernel if stored is None else replace(kernel, weight_bytes=stored)
        return ggml_kernel(kernel) if self.formats.is_ggml else kernel

    def products(self, layer: Layer, count: float) -> Iterator[Product]:
        """Yield a product for the tensors of a layer that an engine concatenates."""
        fused: dict[str, list[Tensor]] = {}
        for tensor in layer_tensors(layer, hidden_dim=self.architecture.hidden_dim):
            if tensor.product and tensor.role is not WeightRole.EXPERT:
                fused.setdefault(tensor.product, []).append(tensor)
        for tensors in fused.values():
            outputs = sum(self._outputs(tensor) for tensor in tensors)
            first = tensors[0]
            cut = self.sharding.tensor if first.split is Split.INPUTS else 1
            kernel = self._kernel(first.role)
            yield Product(
                outputs=outputs,
                inputs=first.inputs / cut,
                count=count,
                weight_bytes=kernel.weight_bytes,
                input_bytes=kernel.input_bytes,
                arithmetic=kernel.arithmetic,
                kernel_class=kernel.gemm,
            )

    def adapted(self, layer: Layer, count: float) -> Iterator[ExpertProduct]:
        """Yield the products of adapters: grouped ones, as of experts of which each token goes to one.

        Engines run one for each product of the model, for queries, keys and values together.
        """
        adapters = self.formats.adapters
        if adapters is None:
            return
        sides: dict[str, list[tuple[float, float]]] = {}
        for tensor in layer_tensors(layer, hidden_dim=self.architecture.hidden_dim):
            if is_adapted(tensor):
                sides.setdefault(tensor.product, []).append(adapter_sides(tensor, self.sharding))
        for fused in sides.values():
            yield ExpertProduct(
                elements=adapters.rank * sum(map(sum, fused)),
                hidden=fused[0][0],
                intermediate=adapters.rank,
                experts=adapters.count,
                per_token=1.0,
                local_experts=adapters.count,
                count=count,
                weight_bytes=ADAPTER_BYTES,
                input_bytes=ADAPTER_BYTES,
                arithmetic=Arithmetic.HALF,
                kernel_class=KernelClass.MOE_16,
                gathers_ranks=False,
            )

    def _outputs(self, tensor: Tensor) -> float:
        tensor_parallel = self.sharding.tensor
        if tensor.split is Split.KV_HEADS:
            return tensor.outputs / min(tensor_parallel, tensor.heads)
        return tensor.outputs / (tensor_parallel if tensor.split in {Split.OUTPUTS, Split.VOCABULARY} else 1)

    def experts(self, layer: Layer, count: float) -> Iterator[ExpertProduct]:
        mlp = layer.mlp
        if not isinstance(mlp, Experts):
            return
        width = mlp.width / self.sharding.expert_tensor
        inner = mlp.latent_dim or self.architecture.hidden_dim
        kernel = self._kernel(WeightRole.EXPERT)
        yield ExpertProduct(
            elements=(3 if mlp.gated else 2) * inner * width,
            hidden=inner,
            intermediate=width,
            experts=mlp.count,
            per_token=mlp.per_token,
            local_experts=mlp.count / self.sharding.expert,
            count=count,
            weight_bytes=kernel.weight_bytes,
            input_bytes=kernel.input_bytes,
            arithmetic=kernel.arithmetic,
            kernel_class=kernel.moe,
        )

    def attentions(self, layer: Layer, count: float) -> Iterator[AttentionKernel]:
        mixer, tensor, cached = layer.mixer, self.sharding.tensor, self.formats.cache_bytes
        if isinstance(mixer, Attention):
            queries, pair = mixer.query_heads / tensor, mixer.key_dim + mixer.value_dim
            heads, indexer = max(1.0, mixer.kv_heads / tensor), mixer.indexer
            yield AttentionKernel(
                decode_flops=2 * queries * pair,
                cache_bytes=heads * pair * cached,
                prefill_flops=2 * queries * pair,
                count=count,
                kernel_class=self.formats.decode,
                prefill_class=self.formats.prefill,
                window=float(mixer.window or 1e12),
                chunked=mixer.chunked,
                selected=float(indexer.top_k) if indexer else 1e12,
                index_flops=2.0 * indexer.heads * indexer.head_dim / indexer.pool if indexer else 0.0,
                index_bytes=indexer.head_dim * cached / indexer.pool if indexer else 0.0,
            )
        if isinstance(mixer, LatentAttention):
            queries, indexer = mixer.query_heads / tensor, mixer.indexer
            yield AttentionKernel(
                decode_flops=2 * queries * (2 * mixer.kv_rank + mixer.rope_dim),
                cache_bytes=latent_row_bytes(mixer, cached),
                prefill_flops=2 * queries * (mixer.nope_dim + mixer.rope_dim + mixer.value_dim),
                count=count,
                kernel_class=KernelClass.DECODE_MLA,
                selected=float(indexer.top_k) if indexer else 1e12,
                index_flops=2.0 * indexer.heads * indexer.head_dim / indexer.pool if indexer else 0.0,
                index_bytes=INDEXER_BYTES_PER_TOKEN / indexer.pool if indexer else 0.0,
            )

        if isinstance(mixer, CompressedAttention):
            yield from self._compressed(mixer, count)

    def _compressed(self, mixer: CompressedAttention, count: float) -> Iterator[AttentionKernel]:
        """Yield attention to a window, and to the compressed rows, of which `ratio` tokens of context share one."""
        flops = 4.0 * mixer.query_heads / self.sharding.tensor * mixer.head_dim
        near = AttentionKernel(
            decode_flops=flops,
            cache_bytes=compressed_row_bytes(mixer, self.formats.cache_bytes),
            prefill_flops=flops,
            count=count,
            kernel_class=KernelClass.DECODE_MLA,
            window=float(mixer.window),
        )
        yield near
        if mixer.ratio:
            indexer = mixer.indexer
            scored = indexer if mixer.select else None
            yield replace(
                near,
                decode_flops=flops / mixer.ratio,
                cache_bytes=near.cache_bytes / mixer.ratio,
                prefill_flops=flops / mixer.ratio,
                window=1e12,
                selected=float(indexer.top_k * mixer.ratio) if indexer else 1e12,
                index_flops=2.0 * scored.heads * scored.head_dim / mixer.ratio if scored else 0.0,
                index_bytes=INDEXER_BYTES_PER_TOKEN / mixer.ratio if scored else 0.0,
            )

    def states(self, layer: Layer, count: float) -> Iterator[StateKernel]:
        """Yield the recurrent state of a layer, which is read and written once per sequence and step.

        Prompts of a state-space layer follow the four products of the block decomposition of Mamba-2 (Dao and Gu,
        "Transformers are SSMs", 2024, section 6): within a block of L tokens C·Bᵀ by group and its product with X by
        head, and by head the state that a block adds and what the state before it gives. The states between blocks are
        written and read twice, in 32 bits. A decoded token takes six FLOPs an element: decay, input and output.
        """
        mixer, tensor = layer.mixer, self.sharding.tensor
        if isinstance(mixer, GatedDeltaNet):
            elements = mixer.value_heads * mixer.key_dim * mixer.value_dim / tensor
            flops = 8.0 * elements
            yield StateKernel(
                sequence_bytes=self.formats.state_bytes * elements, token_flops=flops, prompt_flops=flops, count=count
            )
        if isinstance(mixer, ShortConv):
            flops = 2.0 * mixer.conv_channels * mixer.conv_kernel / tensor
            state = 2.0 * mixer.conv_channels * (mixer.conv_kernel - 1) / tensor
            yield StateKernel(sequence_bytes=state, token_flops=flops, prompt_flops=flops, count=count)
        if isinstance(mixer, Mamba2):
            elements = mixer.inner_dim * mixer.state_dim / tensor
            within = _BLOCK * (mixer.groups * mixer.state_dim + mixer.inner_dim) / tensor
            yield StateKernel(
                sequence_bytes=self.formats.state_bytes * elements,
                token_flops=6.0 * elements,
                prompt_flops=2.0 * within + 4.0 * elements,
                prompt_bytes=4 * 4.0 * elements / _BLOCK,
                count=count,
                update_class=KernelClass.SSM_UPDATE,
            )

    def head(self) -> Product:
        """Return the output head, on the last of the pipeline's stages: a share of it for each stage."""
        kernel = self._kernel(WeightRole.HEAD)
        return Product(
            outputs=self.architecture.output_rows / self.sharding.tensor,
            inputs=self.architecture.hidden_dim,
            count=1 / self.sharding.pipeline,
            weight_bytes=kernel.weight_bytes,
            input_bytes=kernel.input_bytes,
            arithmetic=kernel.arithmetic,
            kernel_class=kernel.gemm,
            sampled=True,
        )
