"""An answer about serving memory as a typed document: bytes per GPU, tokens and sequences."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from capplan.core.numbers import Interval
from capplan.core.serving_engines import Engine
from capplan.llm.core.memory import StageMemory
from capplan.llm.core.memory_answer import MemoryAlternative, MemoryAnswer
from capplan.llm.core.model_query import LanguageModel
from capplan.llm.core.tensors import count_active_parameters, count_parameters
from capplan.report.documents.llm.serving import sharding_fields
from capplan.shapes.codec import SCHEMA_VERSION, Document, SignedDocument
from capplan.version import __version__

Count = Annotated[int, Meta(ge=0)]
Bytes = Annotated[int, Meta(ge=0)]


class LlmModelDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of a language model."""

    name: str
    hf_id: str | None
    family: str
    params: Annotated[
        int, Meta(ge=0, description="Parameters of the language model, without image encoder and draft layers.")
    ]
    active_params: Annotated[
        int, Meta(ge=0, description="Parameters that one token passes, with embedding and output head.")
    ]
    vision_params: Count
    layers: Count
    hidden_dim: Count
    vocab_size: Count
    max_positions: int | None
    checkpoint: Annotated[str, Meta(description="Number format of the checkpoint.")]
    exact_bytes: Annotated[int | None, Meta(description="Bytes of all served tensors in the file's header.")]
    source: str
    check: str | None
    ignored_fields: Annotated[
        tuple[str, ...], Meta(description="Fields of the configuration that decide nothing that is computed here.")
    ]


class ByteInterval(msgspec.Struct, frozen=True, kw_only=True):
    """An interval in whole bytes."""

    low: Bytes
    expected: Bytes
    high: Bytes


class StageMemoryDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The memory of one pipeline stage's GPU."""

    stage: Count
    weights_bytes: Bytes
    activation_bytes: int
    kv_pool_bytes: Bytes
    kv_tokens: int | None


class AlternativeDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What another choice would give."""

    change: str
    fits: bool
    kv_tokens: int | None
    sequences_that_fit: Count
    weights_bytes: Bytes
    kv_pool_bytes: int


class LlmMemoryDocument(SignedDocument, frozen=True, kw_only=True):
    """What `capplan llm memory --format json` writes: bytes are those of the GPU that decides, the tightest stage's."""

    model: LlmModelDocument
    gpu: str
    gpus: Annotated[int, Meta(ge=0, description="GPUs of one replica: tp · pp · dp.")]
    tp: Count
    pp: Count
    ep: Count
    dp: Count
    engine: Engine
    engine_version: str | None
    weights: str
    kv: str
    fits: Annotated[bool, Meta(description="True if at least one sequence fits.")]
    gpu_bytes: Bytes
    utilization: Annotated[float, Meta(description="The engine's memory fraction.")]
    weights_bytes: Bytes
    weights_by_role_bytes: dict[str, Bytes]
    activation_bytes: Annotated[
        int, Meta(description="The peak of the engine's profiling run; what SGLang keeps free for it.")
    ]
    other_bytes: Annotated[int, Meta(ge=0, description="Context, libraries and communication buffers.")]
    graph_bytes: Annotated[int, Meta(ge=0, description="CUDA graphs, outside the budget of vLLM.")]
    kv_pool_bytes: Bytes
    kv_pool_interval_bytes: Annotated[ByteInterval, Meta(description="The 90 % interval of the cache.")]
    missing_bytes: Annotated[int, Meta(ge=0, description="What one GPU lacks before any cache.")]
    kv_bytes_per_token: Annotated[
        float, Meta(ge=0, description="What a token adds while it is in every layer's window.")
    ]
    state_bytes_per_sequence: Annotated[int, Meta(ge=0, description="What linear attention keeps of a sequence.")]
    block_tokens: Count
    kv_tokens: Annotated[
        int | None,
        Meta(description="Tokens that one GPU's cache holds as the engine counts them; null if no layer keeps tokens."),
    ]
    sequence_tokens: Count
    kv_bytes_per_sequence: Annotated[
        int, Meta(ge=0, description="What a sequence of that length keeps, each layer at most its window.")
    ]
    sequences_that_fit: Annotated[int, Meta(ge=0, description="Sequences of that length in the whole replica.")]
    max_context: Annotated[
        int, Meta(ge=0, description="Longest sequence that fits alone, at most what the model allows.")
    ]
    stages: tuple[StageMemoryDocument, ...]
    alternatives: Annotated[tuple[AlternativeDocument, ...], Meta(description="What other choices would give.")]
    evidence: Annotated[str, Meta(description="measured, transferred, extrapolated or documented")]
    source: str
    notes: tuple[str, ...]


class LlmModelsDocument(Document, frozen=True, kw_only=True):
    """What `capplan llm models --format json` writes."""

    models: tuple[LlmModelDocument, ...]


def llm_models_document(models: Sequence[LanguageModel]) -> LlmModelsDocument:
    """Return the facts of language models as a document.

    Args:
        models: The models, in the order of the list.
    """
    return LlmModelsDocument(schema_version=SCHEMA_VERSION, models=tuple(map(_model, models)))


def llm_memory_document(answer: MemoryAnswer) -> LlmMemoryDocument:
    """Return an answer as a document; bytes are those of the tightest GPU.

    Args:
        answer: The answer.
    """
    request, stage = answer.request, answer.stage
    deployment, sharding = answer.memory.deployment, request.sharding
    return LlmMemoryDocument(
        schema_version=SCHEMA_VERSION,
        capplan_version=__version__,
        model=_model(request.model),
        gpu=request.gpu.id,
        gpus=sharding.gpus,
        **sharding_fields(sharding),
        engine=request.engine,
        engine_version=None if request.version is None else ".".join(map(str, request.version)),
        weights=deployment.quantisation.format.name,
        kv=answer.kv,
        fits=answer.fits,
        gpu_bytes=round(deployment.total_bytes),
        utilization=deployment.fraction,
        weights_bytes=round(stage.weight_bytes),
        weights_by_role_bytes={role.value: round(size) for role, size in stage.weights.by_role},
        activation_bytes=round(stage.activation_bytes),
        other_bytes=round(stage.other_bytes),
        graph_bytes=round(deployment.engine.graph_bytes),
        kv_pool_bytes=max(0, round(stage.pool_bytes)),
        kv_pool_interval_bytes=_rounded(answer.pool_interval),
        missing_bytes=max(0, round(-stage.pool_bytes)),
        kv_bytes_per_token=_whole(stage.cache.bytes_per_token),
        state_bytes_per_sequence=round(stage.cache.state_bytes),
        block_tokens=stage.block_tokens,
        kv_tokens=answer.kv_tokens,
        sequence_tokens=answer.sequence_tokens,
        kv_bytes_per_sequence=round(stage.cache.sequence_bytes(answer.sequence_tokens, block=stage.block_tokens)),
        sequences_that_fit=answer.sequences,
        max_context=answer.max_context,
        stages=tuple(map(_stage, answer.memory.stages)),
        alternatives=tuple(map(_alternative, answer.alternatives)),
        evidence=answer.evidence,
        source=deployment.engine.source,
        notes=answer.notes,
    )


def _model(model: LanguageModel) -> LlmModelDocument:
    architecture = model.architecture
    return LlmModelDocument(
        name=architecture.name,
        hf_id=model.hf_id,
        family=architecture.family,
        params=count_parameters(architecture),
        active_params=count_active_parameters(architecture),
        vision_params=architecture.vision.parameters if architecture.vision else 0,
        layers=len(architecture.layers),
        hidden_dim=architecture.hidden_dim,
        vocab_size=architecture.vocab_size,
        max_positions=architecture.max_positions,
        checkpoint=model.own_quantisation.format.name,
        exact_bytes=model.exact_bytes,
        source=model.source,
        check=model.check,
        ignored_fields=architecture.ignored_fields,
    )


def _stage(stage: StageMemory) -> StageMemoryDocument:
    return StageMemoryDocument(
        stage=stage.stage,
        weights_bytes=round(stage.weight_bytes),
        activation_bytes=round(stage.activation_bytes),
        kv_pool_bytes=max(0, round(stage.pool_bytes)),
        kv_tokens=stage.tokens,
    )


def _alternative(alternative: MemoryAlternative) -> AlternativeDocument:
    return AlternativeDocument(
        change=alternative.change,
        fits=alternative.fits,
        kv_tokens=alternative.kv_tokens,
        sequences_that_fit=alternative.sequences,
        weights_bytes=round(alternative.weight_bytes),
        kv_pool_bytes=round(alternative.pool_bytes),
    )


def _rounded(interval: Interval) -> ByteInterval:
    return ByteInterval(low=round(interval.low), expected=round(interval.expected), high=round(interval.high))


def _whole(value: float) -> float | int:
    """Return a whole number as an integer: half a byte per token occurs with 4-bit caches."""
    return int(value) if value == int(value) else value
