"""Divide the memory of a GPU that serves a language model: weights, activations, other memory, and the KV cache.

The answer is per GPU. Each pipeline stage is computed on its own; the stage whose cache holds the fewest tokens
decides.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import floor, inf

from capplan.core.engine_names import Engine
from capplan.core.numbers import largest_true
from capplan.llm.core.architecture import Architecture, Layer
from capplan.llm.core.engine_support import ReleaseFacts
from capplan.llm.core.engines import EngineMemoryRules, PoolRule
from capplan.llm.core.kv import (
    COMPRESSED_WINDOW_SHARE,
    WINDOW_SHARE,
    PagedPool,
    SplitPool,
    StageCache,
    layer_caches,
    stage_cache,
    uniform_tokens,
)
from capplan.llm.core.layers import Attention, LatentAttention
from capplan.llm.core.quantisation import Quantisation
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.weights import (
    Adapters,
    EngineLayout,
    WeightBytes,
    adapter_bytes,
    draft_bytes,
    host_weight_bytes,
    stage_weights,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftModel:
    """A model or head that drafts, and how the GPUs of a replica share it: all of it on the last pipeline stage."""

    architecture: Architecture
    quantisation: Quantisation
    sharding: Sharding


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A model on GPUs: how it is stored, shared and served.

    `cache_bytes` is the size of one cached element, `state_bytes` that of one of a recurrent state. `total_bytes` is
    what the driver reports of one GPU. `fraction` is the engine's memory fraction. `batched_tokens` and `max_sequences`
    are the engine's limits for one step. `exact_weight_fraction` scales the weights to the bytes that a file header
    states. `adapters` are resident beside the model, None for none. `drafts` says that a layer like the model's drafts
    tokens, with weights and a cache of its own; `draft_model` is a model or head that does. `facts` are
    those of the engine's release. `family` is the GPU's, `switched` says that a switch joins the GPUs of a group, with
    buffers for reductions in it. `longest` is the longest sequence that is served. [tokens]
    """

    architecture: Architecture
    quantisation: Quantisation
    sharding: Sharding
    engine: EngineMemoryRules
    cache_bytes: float
    total_bytes: float
    fraction: float
    batched_tokens: int
    max_sequences: int
    exact_weight_fraction: float = 1.0
    adapters: Adapters | None = None
    state_bytes: float = 4.0
    drafts: bool = False
    draft_model: DraftModel | None = None
    facts: ReleaseFacts = field(default_factory=ReleaseFacts)
    family: str = ""
    switched: bool = True
    longest: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageMemory:
    """The memory of one GPU of a pipeline stage. [bytes]

    `pool_bytes` is negative where the rest alone is too much. `host_bytes` are weights that lie in host memory.
    `other_bytes` hold CUDA graphs, too, where the engine takes them from its budget. `stated_length` is the length for
    which the engine states the size of a cache whose layers differ; None where it states pages. `window_share` is that
    of layers with a window in a pool that is split by kinds of layer, None where it is not.
    """

    stage: int
    weights: WeightBytes
    weight_bytes: float
    activation_bytes: float
    other_bytes: float
    pool_bytes: float
    cache: StageCache
    block_tokens: int
    paged: bool
    host_bytes: float = 0.0
    stated_length: int | None = None
    window_share: float | None = None

    @property
    def fits(self) -> bool:
        return self.pool_bytes > 0

    @property
    def tokens(self) -> int | None:
        """Return the tokens that the pool holds as the engine counts them, None if no layer keeps tokens."""
        if not self.cache.bytes_per_token:
            return None
        if self.pool_bytes <= 0:
            return 0
        if self.paged:
            return PagedPool(self.cache, self.block_tokens).tokens(self.pool_bytes, length=self.stated_length)
        if self.split is not None:
            return self.split.tokens(self.pool_bytes)
        return uniform_tokens(self.cache, self.pool_bytes, block=self.block_tokens)

    @property
    def split(self) -> SplitPool | None:
        """Return the pool as SGLang cuts it by kinds of layer; None where it does not."""
        if self.window_share is None or not (self.cache.windows or self.cache.state_bytes):
            return None
        return SplitPool(self.cache, self.block_tokens, self.window_share) if self.cache.bytes_per_token else None

    @property
    def state_blocks(self) -> int | None:
        """Return the blocks of a paged cache, of which each running sequence needs one for states; None without."""
        if not (self.paged and self.cache.state_bytes and self.cache.bytes_per_token and self.pool_bytes > 0):
            return None
        return PagedPool(self.cache, self.block_tokens).pages(self.pool_bytes)

    def sequences(self, tokens: int) -> int:
        """Return how many sequences of a length fit in a stage that keeps any, each layer keeping at most its
        window.
        """
        if self.pool_bytes <= 0:
            return 0
        if self.paged and self.cache.bytes_per_token:
            pages = PagedPool(self.cache, self.block_tokens)
            return pages.pages(self.pool_bytes) // pages.sequence_pages(tokens)
        if self.split is not None:
            return self.split.sequences(self.pool_bytes, tokens)
        return floor(self.pool_bytes / self.cache.sequence_bytes(tokens, block=self.block_tokens))


@dataclass(frozen=True, kw_only=True)
class ServingMemory:
    """The memory of a deployment: all stages, of which the tightest one decides."""

    deployment: Deployment
    stages: tuple[StageMemory, ...]

    @cached_property
    def tightest(self) -> StageMemory:
        """Return the stage whose pool holds the fewest tokens, or lacks the most."""
        return min(self.stages, key=lambda stage: (stage.fits, _tokens_or_pool(stage), stage.pool_bytes))

    @property
    def fits(self) -> bool:
        return self.tightest.fits

    def sequences(self, tokens: int) -> int:
        """Return how many sequences of a length fit in the replica.

        Every stage keeps its layers' share of each. Stages with equal pools need not hold equally many, because the
        layers that keep whole sequences lie unevenly among those with a window. Where no layer on the GPUs keeps
        anything, they are as many as the engine runs at a time.
        """
        if not self.fits:
            return 0
        fitting = (stage.sequences(tokens) for stage in self.stages if stage.cache.layers)
        return min(fitting, default=self.deployment.max_sequences) * self.deployment.sharding.data

    def longest(self, limit: int) -> int:
        return largest_true(lambda tokens: self.sequences(tokens) > 0, 0, limit + 1)


def ngram_notes(memory: ServingMemory) -> tuple[str, ...]:
    """Return what tables of n-grams ask of a replica's hosts; nothing where they lie on the GPUs.

    Ranks of attention data parallelism are taken to share one table, which no source states.
    """
    sharding = memory.deployment.sharding
    held = sum(stage.host_bytes for stage in memory.stages) * sharding.tensor
    if sharding.offload is not None or not held:
        return ()
    size = f"{held / 2**30:.0f} GiB of pinned memory"
    if sharding.data > 1:
        size += f" (if its {sharding.data} ranks share one table, which is assumed)"
    return (f"the host needs {size} for tables of n-grams, of which a token reads a few rows, which is not timed",)


def _tokens_or_pool(stage: StageMemory) -> float:
    if not stage.fits:
        return stage.pool_bytes
    return inf if stage.tokens is None else stage.tokens


def divide_memory(deployment: Deployment) -> ServingMemory:
    stages = range(deployment.sharding.pipeline)
    return ServingMemory(deployment=deployment, stages=tuple(_stage_memory(deployment, stage) for stage in stages))


def _engine_layout(deployment: Deployment) -> EngineLayout:
    """Return how an engine lays weights out.

    vLLM and SGLang pad the vocabulary to 64 rows per GPU, keep the rotary embedding as a table (vLLM 0.19,
    `vocab_parallel_embedding`), and pad the experts of MXFP4 as their release does on a family of GPUs. Tables of
    n-grams lie in pinned host memory in vLLM (`EngramConfig.cpu_offload`, true by default) and on the GPUs in SGLang
    (`--engram-config`, "placement"; docs.sglang.io, read 2026-11-28).
    """
    if deployment.engine.engine not in (Engine.VLLM, Engine.SGLANG):
        return EngineLayout()
    padding = deployment.facts.expert_padding
    width, hidden = padding.get(deployment.family, padding.get("other", (1, 1)))
    return EngineLayout(
        vocabulary_padding=64,
        expert_width_padding=width,
        expert_hidden_padding=hidden,
        keeps_rope_table=True,
        ngrams_on_host=deployment.engine.engine is Engine.VLLM,
    )


def _cached(architecture: Architecture, facts: ReleaseFacts) -> Architecture:
    """Return a model with layers that keep what an engine's release keeps of them.

    Releases without a cache of several sizes keep every token of windows beside layers that attend to all, and those
    without latent attention keep keys and values of each head, padded to 256 (`deepseek_v2.py` of vLLM 0.5.4).
    """
    mixers = [mixer for _, mixer in architecture.attention_layers() if isinstance(mixer, Attention)]
    is_mixed = len({mixer.window for mixer in mixers}) > 1

    def kept(layer: Layer) -> Layer:
        match layer.mixer:
            case Attention(window=int()) as mixer:
                keeps = facts.keeps_chunks if mixer.chunked else facts.keeps_windows
                return (
                    layer if keeps or not is_mixed else replace(layer, mixer=replace(mixer, window=None, chunked=False))
                )
            case LatentAttention() as latent if not facts.latent:
                heads = latent.query_heads
                whole = Attention(query_heads=heads, kv_heads=heads, key_dim=_PADDED_HEAD, value_dim=_PADDED_HEAD)
                return replace(layer, mixer=whole)
        return layer

    return replace(architecture, layers=tuple(map(kept, architecture.layers)))


_PADDED_HEAD = 256


def layers_on_gpu(architecture: Architecture, sharding: Sharding) -> Architecture:
    """Return a model without the layers that are left in host memory, whose cache lies there, too."""
    offload = sharding.offload
    whole = 0 if offload is None else offload.host_layers(len(architecture.layers))
    return replace(architecture, layers=architecture.layers[whole:]) if whole else architecture


def _stage_memory(deployment: Deployment, stage: int) -> StageMemory:
    architecture, sharding, engine = deployment.architecture, deployment.sharding, deployment.engine
    stored, layout = deployment.quantisation, _engine_layout(deployment)
    is_shared = sharding.offload is not None  # llama.cpp's --fit divides what the host leaves evenly among the GPUs
    held, share = (replace(sharding, pipeline=1), sharding.pipeline) if is_shared else (sharding, 1)
    at = 0 if is_shared else stage
    weights = stage_weights(architecture, quantisation=stored, sharding=held, layout=layout, stage=at)
    left = host_weight_bytes(architecture, quantisation=stored, sharding=held, layout=layout, stage=at)
    weight_bytes = (weights.total - left) / share * deployment.exact_weight_fraction
    if deployment.adapters is not None:
        weight_bytes += adapter_bytes(architecture, sharding=sharding, adapters=deployment.adapters, stage=stage)
    cache = stage_cache(
        _cached(layers_on_gpu(architecture, sharding), deployment.facts),
        sharding=sharding,
        element_bytes=deployment.cache_bytes,
        state_bytes=deployment.state_bytes,
        stage=stage,
    )
    is_last = stage == sharding.pipeline - 1
    if deployment.drafts and is_last:
        weight_bytes += draft_bytes(architecture, quantisation=stored, sharding=sharding, layout=layout)
        layer = architecture.layers[architecture.draft_index]
        drafting = layer_caches(layer, sharding.tensor, deployment.cache_bytes, deployment.state_bytes)
        cache = StageCache((*cache.layers, *drafting))
    if (beside := deployment.draft_model) is not None and is_last:
        weight_bytes += stage_weights(
            beside.architecture,
            quantisation=beside.quantisation,
            sharding=beside.sharding,
            layout=layout,
        ).total
        kept = stage_cache(
            beside.architecture,
            sharding=beside.sharding,
            element_bytes=deployment.cache_bytes,
            state_bytes=deployment.state_bytes,
        )
        cache = StageCache((*cache.layers, *kept.layers))
    activation = activation_bytes(deployment, samples=is_last)
    other = engine.other(tensor=sharding.tensor, pipeline=sharding.pipeline, switched=deployment.switched)
    other += engine.graph_bytes if deployment.facts.graphs_inside else 0.0
    if engine.rule is PoolRule.STATIC:
        activation = (1 - deployment.fraction) * deployment.total_bytes - other
    return StageMemory(
        stage=stage,
        weights=weights,
        weight_bytes=weight_bytes,
        activation_bytes=activation,
        other_bytes=other,
        pool_bytes=_pool(deployment, weight_bytes + activation + other),
        cache=cache,
        host_bytes=left * deployment.exact_weight_fraction,
        block_tokens=engine.block_tokens,
        paged=engine.engine is Engine.VLLM,
        stated_length=deployment.longest if deployment.facts.size_by_length else None,
        window_share=_window_share(architecture) if engine.engine is Engine.SGLANG else None,
    )


def _window_share(architecture: Architecture) -> float:
    return COMPRESSED_WINDOW_SHARE if architecture.special_attention == "compressed" else WINDOW_SHARE


def _pool(deployment: Deployment, taken_bytes: float) -> float:
    total, fraction = deployment.total_bytes, deployment.fraction
    match deployment.engine.rule:
        case PoolRule.BUDGET | PoolRule.REST:
            return fraction * total - taken_bytes
        case PoolRule.STATIC:
            return total - taken_bytes  # activations hold the whole share that is not static
        case PoolRule.FREE:
            return fraction * (total - taken_bytes)


def activation_bytes(deployment: Deployment, *, samples: bool = True) -> float:
    """Return the peak of activations that an engine reserves. [bytes]

    The profiling run of vLLM samples from `max_sequences` sequences and runs `batched_tokens` tokens; the larger of
    the two peaks counts. The workspace of the experts stays allocated, so that it adds to both, and so does the
    image encoder's.
    """
    architecture, constants = deployment.architecture, deployment.engine.activation
    if not samples and constants.stage_bytes is not None:
        return constants.stage_bytes + _expert_workspace(deployment)
    per_sequence = (
        constants.sampler_bytes_per_vocab * architecture.vocab_size
        + constants.sampler_bytes_per_hidden * architecture.hidden_dim
    )
    width = architecture.widest_mlp / deployment.sharding.tensor
    per_token = 2 * (constants.forward_mlp * width + constants.forward_hidden * architecture.hidden_dim)
    peak = max(deployment.max_sequences * per_sequence if samples else 0.0, deployment.batched_tokens * per_token)
    has_images = architecture.vision is not None or architecture.vision_note is not None
    vision = constants.vision_bytes if has_images else 0.0
    return peak + constants.fixed_bytes + vision + _expert_workspace(deployment)


def _expert_workspace(deployment: Deployment) -> float:
    """Return the two workspaces of a grouped product over experts: its inputs and its outputs, 16 bits wide. [bytes]

    Per token and chosen expert they hold max(2·I, H) and max(I, H) numbers (vLLM's fused experts), I cut by
    tensor parallelism. Kernels for padded formats work without them.
    """
    factor = deployment.engine.activation.expert_workspaces
    if deployment.quantisation.format.padded:
        return 0.0
    hidden, ways = deployment.architecture.hidden_dim, deployment.sharding.expert_tensor
    numbers = (
        experts.per_token * (max(2 * experts.width / ways, hidden) + max(experts.width / ways, hidden))
        for _, experts in deployment.architecture.expert_layers()
    )
    return factor * 2 * deployment.batched_tokens * max(numbers, default=0.0)
