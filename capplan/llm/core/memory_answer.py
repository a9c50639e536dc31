"""Answer how a GPU's memory is divided when it serves a language model, and what other choices would change."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import hypot, inf

from capplan.core.engine_names import Engine
from capplan.core.gpus.machines import is_bridged, joined_gpus
from capplan.core.gpus.spec import GpuSpec
from capplan.core.numbers import Interval
from capplan.errors import CapplanError, UsageError
from capplan.llm.core.drafting import draft_model
from capplan.llm.core.engine_support import SHOWN_FORMATS, EngineSupport, FormatSupport, ReleaseFacts, family_of
from capplan.llm.core.engines import (
    EngineMemoryRules,
    LlmMemoryConstants,
    sglang_static_fraction,
    step_tokens,
    vllm_step_limits,
)
from capplan.llm.core.kv import STATE_SHARE, STATE_SLOTS, kv_element_bytes, state_element_bytes
from capplan.llm.core.layers import Attention, GatedDeltaNet, LatentAttention, ShortConv
from capplan.llm.core.memory import Deployment, ServingMemory, StageMemory, divide_memory, ngram_notes
from capplan.llm.core.model_query import LanguageModel
from capplan.llm.core.quantisation import Quantisation, half_note
from capplan.llm.core.serving.asked import Drafter
from capplan.llm.core.sharding import HostOffload, Sharding, check_sharding
from capplan.llm.core.tensors import WeightRole
from capplan.llm.core.timing.machine import host_cache
from capplan.llm.core.weights import Adapters, EngineLayout, adapter_bytes, stage_weights
from capplan.llm.core.yarn import check_length
from capplan.units import counted, format_bytes, format_seconds

_DEFAULT_LENGTH = 8192
_TRANSFER_FRACTION = 0.01
"""Share of a GPU's memory by which contexts and workspaces of other GPUs differ: 0.25 to 1 GiB of 24 to 192."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedDeployment:
    """What is asked: a model on GPUs, its formats and its engine. None stands for the engine's or model's default.

    `sequence_tokens` is the longest sequence served, which every sequence is taken to reach. `fraction` is the engine's
    memory fraction. `pool_bytes` replaces the computed cache by one that is known, as from an engine's log.
    `kv_offload_bytes` of host memory keep prefixes for a replica. `drafter` drafts tokens; `draft_model` is the
    model or head that it names.
    """

    model: LanguageModel
    gpu: GpuSpec
    sharding: Sharding = field(default_factory=Sharding)
    weights: str | None = None
    kv: str | None = None
    engine: Engine = Engine.VLLM
    version: tuple[int, ...] | None = None
    sequence_tokens: int | None = None
    fraction: float | None = None
    batched_tokens: int | None = None
    max_sequences: int | None = None
    pool_bytes: float | None = None
    adapters: Adapters | None = None
    kv_offload_bytes: float = 0.0
    drafter: Drafter | None = None
    draft_model: LanguageModel | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAlternative:
    """What one other choice would give: cache tokens, sequences, and bytes of weights and cache per GPU."""

    change: str
    fits: bool
    kv_tokens: int | None
    sequences: int
    weight_bytes: float
    pool_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAnswer:
    """How the memory of the tightest GPU is divided, and what fits.

    `sequences` counts those of the whole replica. `pool_interval` is the 90 % interval of the cache's bytes.
    """

    request: StatedDeployment
    memory: ServingMemory
    kv: str
    sequence_tokens: int
    pool_interval: Interval
    evidence: str
    notes: tuple[str, ...]
    alternatives: tuple[MemoryAlternative, ...] = ()

    @property
    def stage(self) -> StageMemory:
        return self.memory.tightest

    @property
    def fits(self) -> bool:
        """Return True if at least one sequence fits."""
        return self.stage.fits and self.sequences > 0

    @property
    def holds_what_was_asked(self) -> bool:
        """Return True if a sequence of the stated length fits, or of any length where none was stated."""
        return self.fits or (self.request.sequence_tokens is None and self.stage.fits and self.max_context > 0)

    @property
    def kv_tokens(self) -> int | None:
        return self.stage.tokens

    @property
    def sequences(self) -> int:
        return self.memory.sequences(self.sequence_tokens)

    @property
    def max_context(self) -> int:
        """Return the longest sequence that fits alone, at most what the model allows."""
        limit = self.request.model.architecture.max_positions
        return self.memory.longest(limit if limit is not None else 1 << 27)


def held_memory(request: StatedDeployment, constants: LlmMemoryConstants) -> ServingMemory:
    """Check a deployment, and divide the memory of the GPUs that it describes."""
    check_sharding(request.model.architecture, request.sharding)
    if request.engine is Engine.LLAMACPP and (reason := _split_refusal(request)) is not None:
        raise UsageError(f"llama.cpp's split by tensor {reason}; use ⟨pp⟩ {request.sharding.gpus}, a split by layer.")
    if request.engine is Engine.LLAMACPP and request.adapters is not None:
        raise UsageError("adapters are counted for vllm, sglang and trtllm, which serve several of them at a time.")
    if request.engine is not Engine.LLAMACPP and request.sharding.offload is not None:
        raise UsageError(
            f"{request.engine.value} keeps all layers on its GPUs; ⟨gpu-layers⟩ and ⟨n-cpu-moe⟩ are llama.cpp's."
        )
    if request.engine is Engine.LLAMACPP and request.kv_offload_bytes:
        raise UsageError("⟨kv-offload⟩ is for vllm, sglang and trtllm; with llama.cpp use ⟨gpu-layers⟩.")
    if request.sequence_tokens is not None and request.sequence_tokens < 1:
        raise UsageError(f"⟨max-len⟩ must be at least 1 token, not {request.sequence_tokens}.")
    held_bytes = request.gpu.expected_usable_bytes
    if request.pool_bytes is not None and request.pool_bytes > held_bytes:
        raise UsageError(
            f"⟨kv-pool⟩ {format_bytes(request.pool_bytes)} is more than the {format_bytes(held_bytes)} of one "
            f"{request.gpu.id}; state the cache of one GPU."
        )
    if request.fraction is not None and not 0 < request.fraction <= 1:
        raise UsageError(f"⟨utilization⟩ must be above 0 and at most 1, not {request.fraction}.")
    quantisation = request.model.stored_as(request.weights)
    kv = _kv(request, quantisation)
    problem = constants.support.problem(
        request.gpu,
        request.engine,
        version=request.version,
        weights=quantisation.format.name,
        kv=kv,
        experts=request.model.architecture.is_moe and WeightRole.EXPERT in quantisation.roles,
        attention=request.model.architecture.special_attention,
    )
    if problem is not None:
        own = "" if request.weights else f" ({quantisation.format.name} is the checkpoint's own format)"
        raise UsageError(f"{problem}{own if quantisation.format.name in problem else ''}.")
    _length(request)
    engine = constants.find(request.engine, request.version)
    return _divide(request, quantisation, engine, constants.support.facts(request.engine, request.version), kv)


def _kv(request: StatedDeployment, quantisation: Quantisation) -> str:
    return request.kv or default_kv(request.model, quantisation, request.engine, request.gpu)


def answer_memory(
    request: StatedDeployment, constants: LlmMemoryConstants, *, alternatives: bool = True
) -> MemoryAnswer:
    """Divide the memory of the GPUs that a request describes, and report how far that is known."""
    memory = held_memory(request, constants)
    engine, facts, quantisation = memory.deployment.engine, memory.deployment.facts, memory.deployment.quantisation
    kv, length = _kv(request, quantisation), _length(request)
    evidence = _evidence(request, engine, facts, is_newer=constants.support.is_newer(request.engine, request.version))
    answer = MemoryAnswer(
        request=request,
        memory=memory,
        kv=kv,
        sequence_tokens=length,
        pool_interval=_pool_interval(request, memory, engine, evidence),
        evidence=evidence,
        notes=(
            *_notes(request, memory, kv, length),
            *constants.support.notes(request.gpu, request.engine, quantisation.format.name, version=request.version),
        ),
    )
    if not alternatives:
        return answer
    return replace(answer, alternatives=tuple(_alternatives(request, constants, answer)))


def _evidence(request: StatedDeployment, engine: EngineMemoryRules, facts: ReleaseFacts, *, is_newer: bool) -> str:
    """Return the distance of a request from the start-up logs that rules were fitted on: card, then release."""
    if engine.evidence == "measured" and (is_newer or facts.since > engine.since):
        return "extrapolated"
    if engine.evidence == "measured" and request.gpu.architecture != "Hopper":
        return "transferred"
    return engine.evidence


def _split_refusal(request: StatedDeployment) -> str | None:
    """Return why llama.cpp cannot divide the matrices of a model among GPUs as asked; None where it can.

    Its documentation (docs/multi-gpu.md at 5815cb8, read 2026-11-27) has the mode on CUDA and HIP, and excludes
    architectures: those with latent attention (DeepSeek2, GLM-DSA, Mistral4), states of Mamba (Nemotron-H, Granite
    hybrid) or Kimi's delta attention, and those whose norms span all heads (OLMo2, OLMoE, MiniMax-M2).
    """
    if request.sharding.tensor * request.sharding.data == 1:
        return None
    if request.sharding.data * request.sharding.pipeline > 1:
        return "does not go with pipelines or ranks of data parallelism"
    if request.gpu.vendor not in ("NVIDIA", "AMD"):
        return f"works on CUDA and HIP, not on {request.gpu.id}"
    for layer in request.model.architecture.layers:
        match layer.mixer:
            case Attention() as mixer:
                if mixer.query_norm > mixer.key_dim:
                    return "does not divide norms over all heads"
            case None | GatedDeltaNet() | ShortConv():
                continue
            case _:
                return "divides neither latent attention nor states of Mamba"
    return None


def _length(request: StatedDeployment) -> int:
    architecture, wanted = request.model.architecture, request.sequence_tokens
    check_length(architecture, wanted or 0, what="shorten ⟨max-len⟩")
    return wanted or architecture.max_positions or _DEFAULT_LENGTH


def default_kv(model: LanguageModel, quantisation: Quantisation, engine: Engine, gpu: GpuSpec) -> str:
    """Return the format of a KV cache that is not stated.

    Engines follow the checkpoint: fp8 where it holds scales for such a cache (`kv_cache_scheme` in vLLM,
    `kv_cache_quant_algo` in SGLang 0.5 and TensorRT-LLM), else the format that it computes in. llama.cpp takes fp16.
    vLLM's FlashMLA layout of compressed attention takes fp8 alone, and stops with `--kv-cache-dtype auto`
    (`_resolve_dsv4_kv_cache_dtype`, vLLM 0.28); SGLang chooses it (`_deepseek_v4_kv_cache_dtype`, 0.5.20). For sparse
    latent attention vLLM takes fp8 on NVIDIA's cards ("DeepSeekV3.2 default to fp8", vllm/config/cache.py), and SGLang
    from compute capability 10 on (`_set_default_nsa_kv_cache_dtype`).
    """
    if engine is Engine.LLAMACPP:
        return "fp16"
    special, capability = model.architecture.special_attention, gpu.compute_capability
    if engine in (Engine.VLLM, Engine.SGLANG) and special == "compressed":
        return "fp8"
    if (
        special
        and capability is not None
        and (engine is Engine.VLLM or (engine is Engine.SGLANG and capability >= (10, 0)))
    ):
        return "fp8"
    if model.declares_fp8_cache and quantisation == model.own_quantisation:
        return "fp8"
    if quantisation.format.name in ("fp16", "fp32"):
        return quantisation.format.name
    return model.dtype if model.dtype != "fp32" else "bf16"


_CUT_ABOVE = 32_768
"""Longest sequence above which vLLM cuts prompts by default in releases that do not always do (`use_long_context`)."""
_EARLY_STEP = 2048, 256
"""Tokens and sequences of a step by default in those releases."""


def _step_limits(request: StatedDeployment, facts: ReleaseFacts, length: int) -> tuple[int, int]:
    total_bytes = request.gpu.expected_usable_bytes
    data, larger = request.sharding.data, facts.larger_steps
    tokens = step_tokens(request.engine, request.gpu.id, total_bytes=total_bytes, data=data, larger_steps=larger)
    if facts.whole_prompts:
        tokens, sequences = _EARLY_STEP
        return (max(tokens, length) if length <= _CUT_ABOVE else tokens), sequences
    if request.engine is Engine.LLAMACPP:
        return tokens, tokens
    return tokens, vllm_step_limits(request.gpu.id, total_bytes=total_bytes)[1]


_MULTICAST_CAPABILITY = (9, 0)
"""Compute capability from which on NVIDIA's NVSwitch adds up in itself (NVLink SHARP, NVLS in NCCL)."""


def _divide(
    request: StatedDeployment, quantisation: Quantisation, engine: EngineMemoryRules, facts: ReleaseFacts, kv: str
) -> ServingMemory:
    length = _length(request)
    tokens, sequences = _step_limits(request, facts, length)
    drafting = draft_model(request.drafter, request.model, request.sharding, named=request.draft_model)
    mixers = (mixer for _, mixer in request.model.architecture.attention_layers())
    dims = [mixer.key_dim for mixer in mixers if isinstance(mixer, Attention)]
    # Whether a switch joins a GPU to others, in which reductions have buffers.
    joined = joined_gpus(request.gpu) > 1 and not is_bridged(request.gpu)
    is_switched = joined and (
        request.gpu.compute_capability is None or request.gpu.compute_capability >= _MULTICAST_CAPABILITY
    )
    deployment = Deployment(
        architecture=request.model.architecture,
        quantisation=quantisation,
        sharding=request.sharding,
        engine=engine,
        cache_bytes=kv_element_bytes(kv, head_dim=min(dims, default=inf)),
        total_bytes=request.gpu.expected_usable_bytes,
        fraction=_fraction(request, facts),
        batched_tokens=request.batched_tokens or tokens,
        max_sequences=request.max_sequences or sequences,
        exact_weight_fraction=_exact_fraction(request, quantisation),
        adapters=request.adapters,
        state_bytes=state_element_bytes(request.model.architecture, request.engine, version=request.version),
        drafts=drafting is None and request.drafter is not None and request.drafter.on_gpu,
        draft_model=drafting,
        facts=facts,
        family=family_of(request.gpu),
        switched=is_switched,
        longest=length,
    )
    memory = divide_memory(deployment)
    if request.pool_bytes is None:
        return memory
    return replace(memory, stages=tuple(replace(stage, pool_bytes=request.pool_bytes) for stage in memory.stages))


def _fraction(request: StatedDeployment, facts: ReleaseFacts) -> float:
    if request.fraction is not None:
        return request.fraction
    if facts.fraction is not None:
        return facts.fraction
    sharding = request.sharding
    return sglang_static_fraction(
        total_bytes=request.gpu.expected_usable_bytes,
        tensor=sharding.tensor,
        pipeline=sharding.pipeline,
        data=sharding.data,
        prompt_graphs=facts.prompt_graphs,
        latent=_is_latent(request.model),
        larger_steps=facts.larger_steps,
    )


def _exact_fraction(request: StatedDeployment, quantisation: Quantisation) -> float:
    """Return the bytes in the file's header over those by formula, 1 where another format is asked for."""
    model = request.model
    if model.exact_bytes is None or quantisation != model.own_quantisation:
        return 1.0
    formula = stage_weights(
        model.architecture, quantisation=quantisation, sharding=Sharding(), layout=EngineLayout()
    ).total
    return model.exact_bytes / formula


def _pool_interval(
    request: StatedDeployment, memory: ServingMemory, engine: EngineMemoryRules, evidence: str
) -> Interval:
    stage = memory.tightest
    pool = max(0.0, stage.pool_bytes)
    if request.pool_bytes is not None:
        return Interval(low=pool, expected=pool, high=pool)
    share = 0.002 if request.model.exact_bytes else engine.uncertain_fraction
    wide = share * stage.weight_bytes + engine.uncertain_bytes
    if engine.evidence == "measured" and evidence != "measured":
        wide *= 2
    if engine.evidence != "documented" and request.gpu.architecture != "Hopper":
        wide += _TRANSFER_FRACTION * memory.deployment.total_bytes
    if memory.deployment.facts.graphs_inside:
        wide = hypot(wide, engine.uncertain_graph_bytes)
    return Interval(low=max(0.0, pool - wide), expected=pool, high=pool + wide)


def _drafting_notes(memory: ServingMemory) -> Iterator[str]:
    """Yield what a model or head that drafts takes of the last stage."""
    beside, last = memory.deployment.draft_model, memory.stages[-1]
    if beside is None:
        return
    plain = divide_memory(replace(memory.deployment, draft_model=None)).stages[-1]
    taken, kept = last.weight_bytes - plain.weight_bytes, last.cache.bytes_per_token - plain.cache.bytes_per_token
    place = " on the last stage" if len(memory.stages) > 1 else ""
    yield (
        f"{beside.architecture.name} drafts: {taken / 2**30:.2f} GiB of weights and {kept / 1024:.4g} KiB of cache a "
        f"token{place} are its"
    )


def _notes(request: StatedDeployment, memory: ServingMemory, kv: str, length: int) -> Iterator[str]:
    model, stage = request.model, memory.tightest
    architecture, sharding = model.architecture, request.sharding
    if model.origin is not None:
        yield model.origin
    if model.stored_bytes and memory.deployment.quantisation == model.own_quantisation:
        stored = ", ".join(f"{size / 2**30:.3f} GiB {dtype}" for dtype, size in model.stored_bytes.items())
        yield f"weights are the bytes of every tensor in the checkpoint's headers: {stored}"
    if not stage.fits:
        yield f"does not fit: {-stage.pool_bytes / 2**30:.2f} GiB per GPU are missing before any cache"
    yield from _cache_notes(request, memory, length)
    yield from _sharding_notes(request)
    if sharding.offload is not None:
        offload, count = sharding.offload or HostOffload(), len(architecture.layers)
        whole = offload.host_layers(count)
        parts = [f"{counted(whole, 'layer')} with their cache"] if whole else []
        experts = sum(whole <= layer < offload.expert_layers for layer, _ in architecture.expert_layers())
        parts += [f"the experts of {counted(experts, 'layer')} more"] if experts else []
        parts += [] if offload.keeps_head(count) else ["the output head"]
        yield f"in host memory: {stage.host_bytes / 2**30:.2f} GiB of weights, {', '.join(parts) or 'nothing'}"
    yield from ngram_notes(memory)
    kept = host_cache(
        request.kv_offload_bytes, token_bytes=stage.cache.bytes_per_token, sharding=sharding, gpu=request.gpu
    )
    if kept is not None:
        yield (
            f"{request.kv_offload_bytes / 2**30:.4g} GiB of host memory keep {kept.tokens:,.0f} more tokens of prefixes"
            f" for a replica; {length:,} tokens come back in {format_seconds(length * kept.token_s)} over PCIe"
        )
    if request.adapters is not None:
        size = adapter_bytes(architecture, sharding=sharding, adapters=request.adapters, stage=stage.stage)
        yield (
            f"weights include {size / 2**30:.2f} GiB of {counted(request.adapters.count, 'LoRA adapter')} of rank "
            f"{request.adapters.rank}, all resident"
        )
    if model.missing_files:
        yield f"files of the weights that its folder lacks: {model.missing_files}; sizes follow from the configuration"
    if architecture.vision is not None:
        yield f"weights include the image encoder of {architecture.vision.parameters / 1e9:.2f} B parameters"
    if architecture.vision_note is not None:
        yield f"{architecture.vision_note}: 0.4 to 0.9 B parameters more"
    yield from _drafting_notes(memory)
    if architecture.draft_layers and not memory.deployment.drafts:
        yield "layers for multi-token prediction are not loaded without speculation and not counted"
    if model.declares_fp8_cache and kv_element_bytes(kv) > 1:
        yield "the checkpoint has scales for an fp8 cache; ⟨kv⟩ fp8 doubles the tokens"
    if note := half_note(request.gpu, request.model.stored_as(request.weights).format.name, kv):
        yield note
    yield from _engine_notes(request, memory)
    if sharding.data > 1:
        yield "sequences_that_fit counts all ranks of attention data parallelism; kv_tokens is one rank's"


def _cache_notes(request: StatedDeployment, memory: ServingMemory, length: int) -> Iterator[str]:
    """Yield what layers with a window or a state keep, and what the engine's count of tokens means then."""
    stage = memory.tightest
    if stage.cache.windows and stage.cache.bytes_per_token:
        windows = ", ".join(str(window) for window in sorted(stage.cache.windows))
        yield (
            f"layers with a window keep at most {windows} tokens: kv_bytes_per_token holds within the window, and a "
            f"sequence of {length} tokens takes {stage.cache.sequence_bytes(length) / 2**30:.3f} GiB"
        )
    if stage.cache.state_bytes:
        bits = 8 * memory.deployment.state_bytes
        yield (
            f"linear attention and state-space layers keep {stage.cache.state_bytes / 2**20:.1f} MiB per sequence "
            f"whatever its length, in {bits:.0f} bits"
        )
        most, blocks = memory.deployment.max_sequences, stage.state_blocks
        if blocks is not None and blocks < most:
            yield (
                f"{blocks:,} blocks hold such states, one for each sequence, so that vLLM stops at its {most:,} "
                f"sequences: state ⟨max-num-seqs⟩ {blocks}"
            )
    if stage.split is not None and stage.split.windowed_share < 1:
        share = stage.split.windowed_share
        yield f"layers with a window have room for {share:g} of the tokens (--swa-full-tokens-ratio)"
    if stage.split is not None and stage.cache.state_bytes:
        yield (
            f"states take {STATE_SHARE:g} of the bytes of tokens (--mamba-full-memory-ratio), {STATE_SLOTS} slots for "
            "each sequence"
        )
    if request.engine is Engine.VLLM and (stage.cache.windows or stage.cache.state_bytes):
        stated = f"{length:,} times how many sequences of that length fit" if stage.stated_length else "pages"
        yield f"kv_tokens is what vLLM logs for layers that differ: {stated}"


def _engine_notes(request: StatedDeployment, memory: ServingMemory) -> Iterator[str]:
    """Yield what the engine takes beside weights and cache, and how well that is known."""
    if request.engine is Engine.VLLM:
        graphs = f"about {memory.deployment.engine.graph_bytes / 2**30:.1f} GiB"
        if memory.deployment.facts.graphs_inside:
            yield f"other holds {graphs} of CUDA graphs, inside vLLM's budget"
        else:
            yield f"CUDA graphs take {graphs} more, outside vLLM's budget"
    if memory.deployment.engine.evidence == "documented" and request.pool_bytes is None:
        wide = memory.deployment.engine
        yield (
            f"an estimate: {request.engine}'s rule is documented and was compared with no start-up log; the cache may "
            f"differ by {wide.uncertain_bytes / 2**30:.1f} GiB and {wide.uncertain_fraction:.1%} of the weights"
        )


def _sharding_notes(request: StatedDeployment) -> Iterator[str]:
    sharding = request.sharding
    heads = [
        mixer.kv_heads for _, mixer in request.model.architecture.attention_layers() if isinstance(mixer, Attention)
    ]
    if heads and sharding.tensor > min(heads):
        yield f"{min(heads)} key-value heads are repeated on {sharding.tensor} GPUs: each keeps at least one"
    if _is_latent(request.model) and sharding.tensor > 1:
        yield "latent attention's cache is whole on every GPU: tensor parallelism does not divide it, ⟨dp⟩ does"


def _is_latent(model: LanguageModel) -> bool:
    return any(isinstance(mixer, LatentAttention) for _, mixer in model.architecture.attention_layers())


def _alternatives(
    request: StatedDeployment, constants: LlmMemoryConstants, answer: MemoryAnswer
) -> Iterator[MemoryAlternative]:
    """Yield what each other choice would give; choices that are not possible are left out."""
    if request.pool_bytes is not None:
        return
    for change, other in _changed_requests(request, answer):
        try:
            found = answer_memory(other, constants, alternatives=False)
        except CapplanError:
            continue
        yield MemoryAlternative(
            change=change,
            fits=found.fits,
            kv_tokens=found.kv_tokens,
            sequences=found.sequences,
            weight_bytes=found.stage.weight_bytes,
            pool_bytes=max(0.0, found.stage.pool_bytes),
        )


def _offloaded_requests(request: StatedDeployment, answer: MemoryAnswer) -> Iterator[tuple[str, StatedDeployment]]:
    """Yield what has to be left in host memory so that one sequence fits: experts, or whole layers."""
    if answer.fits or request.sharding.offload is not None:
        return
    architecture = request.model.architecture
    count = len(architecture.layers)

    def fits(offload: HostOffload) -> bool:
        sharding = replace(request.sharding, offload=offload)
        return divide_memory(replace(answer.memory.deployment, sharding=sharding)).sequences(answer.sequence_tokens) > 0

    experts = (HostOffload(expert_layers=layers) for layers in range(1, count + 1) if architecture.is_moe)
    layers = (HostOffload(gpu_layers=layers) for layers in range(count, 0, -1))
    for words, choices in (("⟨n-cpu-moe⟩", experts), ("⟨gpu-layers⟩", layers)):
        found = next((offload for offload in choices if fits(offload)), None)
        if found is not None:
            shown = found.expert_layers or found.gpu_layers
            yield f"{words} {shown}", replace(request, sharding=replace(request.sharding, offload=found))


_FITTED_TOKENS = 8192
"""Tokens of the sequence that a fitted deployment holds at least, where none is stated."""


def with_fitted_offload(request: StatedDeployment, constants: LlmMemoryConstants) -> StatedDeployment:
    """Return a deployment whose host takes what its GPUs cannot hold, experts before layers, as `--fit` does."""
    offload = request.sharding.offload
    if offload is None or not offload.is_fitted:
        return request
    longest = request.model.architecture.max_positions or _FITTED_TOKENS
    tokens = request.sequence_tokens or min(_FITTED_TOKENS, longest)
    plain = replace(request, sequence_tokens=tokens, sharding=replace(request.sharding, offload=None))
    _, found = next(_offloaded_requests(plain, answer_memory(plain, constants, alternatives=False)), ("", plain))
    return replace(request, sharding=found.sharding)


_FULL = 0.95
"""A memory fraction that engines are often given, proposed before more GPUs are."""


def _changed_requests(request: StatedDeployment, answer: MemoryAnswer) -> Iterator[tuple[str, StatedDeployment]]:
    sharding = request.sharding
    if kv_element_bytes(answer.kv) > 1:
        narrow = "q8_0" if request.engine is Engine.LLAMACPP else "fp8"
        yield f"⟨kv⟩ {narrow}", replace(request, kv=narrow)
    bits = answer.memory.deployment.quantisation.format.bits
    for name in ("fp8", "awq") if request.engine is not Engine.LLAMACPP else ("q8_0", "q4_k_m"):
        if request.model.stored_as(name).format.bits < bits - 0.01:
            yield f"⟨weights⟩ {name}", replace(request, weights=name)
    fraction = answer.memory.deployment.fraction
    if fraction < _FULL:
        yield f"⟨utilization⟩ {_FULL:g}", replace(request, fraction=_FULL)
    wider = replace(sharding, tensor=2 * sharding.tensor, offload=None)
    yield f"⟨tp⟩ {wider.tensor}", replace(request, sharding=wider)
    deeper = replace(sharding, pipeline=2 * sharding.pipeline, offload=None)
    yield f"⟨pp⟩ {deeper.pipeline}", replace(request, sharding=deeper)
    if request.engine is Engine.LLAMACPP and sharding.tensor == 1:
        yield from _offloaded_requests(request, answer)
    if _is_latent(request.model):
        spread = replace(sharding, tensor=1, data=sharding.tensor * sharding.data)
        if spread != sharding:
            spread = replace(spread, expert=spread.data)
            yield f"⟨tp⟩ 1 ⟨dp⟩ {spread.data} ⟨ep⟩ {spread.data}", replace(request, sharding=spread)
    if answer.sequence_tokens > 1024:
        half = answer.sequence_tokens // 2
        if answer.sequences == 0 and answer.max_context:
            half = min(half, answer.max_context)
        yield f"⟨max-len⟩ {half}", replace(request, sequence_tokens=half)


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportAnswer:
    """The formats of a model by engine on a GPU, for the newest releases that are known."""

    model: LanguageModel
    gpu: GpuSpec
    rows: tuple[FormatSupport, ...]


def answer_support(model: LanguageModel, gpu: GpuSpec, support: EngineSupport) -> SupportAnswer:
    """Return which engines read which formats of a model's weights on a GPU; its own format stands first."""
    own = model.own_quantisation
    names = dict.fromkeys((own.format.name, *SHOWN_FORMATS))
    quantised = {name: own if name == own.format.name else model.stored_as(name) for name in names}
    experts = {
        name: model.architecture.is_moe and WeightRole.EXPERT in found.roles for name, found in quantised.items()
    }
    return SupportAnswer(model=model, gpu=gpu, rows=support.table(gpu, experts, model.architecture.special_attention))
