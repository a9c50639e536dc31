"""The shapes of serving memory: bytes per GPU, tokens and sequences."""

from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta

from capplan.core.numbers import Interval
from capplan.llm.core.engine_support import FormatSupport
from capplan.llm.core.memory import StageMemory
from capplan.llm.core.memory_answer import MemoryAlternative, MemoryAnswer, SupportAnswer
from capplan.llm.core.model_query import LanguageModel
from capplan.llm.core.tensors import count_active_parameters, count_parameters
from capplan.shapes.common import SIGNED, VERSIONED
from capplan.shapes.llm_serving import sharing_of
from capplan.shapes.shape import Shape, Typed, column, figure, reads
from capplan.units import format_bytes

if TYPE_CHECKING:
    from capplan.shapes.types import LlmMemoryDocument

Count = Annotated[int, Meta(ge=0)]
Bytes = Annotated[int, Meta(ge=0)]


def _bytes(path: str) -> Typed:
    """Return how a size is read in whole bytes, which are never below zero."""
    return reads(Bytes, lambda value: round(attrgetter(path)(value)))


def _kv_bytes_per_token(answer: MemoryAnswer) -> float:
    """Return a whole number as an integer: half a byte per token occurs with 4-bit caches."""
    size = answer.stage.cache.bytes_per_token
    return int(size) if size == int(size) else size


def _sequence_bytes(answer: MemoryAnswer) -> int:
    stage = answer.stage
    return round(stage.cache.sequence_bytes(answer.sequence_tokens, block=stage.block_tokens))


# fmt: off
MODEL: Final = Shape("LlmModelDocument", LanguageModel, "The facts of a language model.", (
    figure("name", "architecture.name"),
    figure("hf_id"),
    figure("family", "architecture.family"),
    figure("params", reads(int, lambda model: count_parameters(model.architecture)),
        Meta(ge=0, description="Parameters of the language model, without image encoder and draft layers.")),
    figure("active_params", reads(int, lambda model: count_active_parameters(model.architecture)),
        Meta(ge=0, description="Parameters that one token passes, with embedding and output head.")),
    figure("vision_params", reads(Count, lambda model: model.architecture.vision.parameters if model.architecture.vision else 0)),
    figure("layers", reads(Count, lambda model: len(model.architecture.layers))),
    figure("hidden_dim", "architecture.hidden_dim", Meta(ge=0)),
    figure("vocab_size", "architecture.vocab_size", Meta(ge=0)),
    figure("max_positions", "architecture.max_positions"),
    figure("checkpoint", "own_quantisation.format.name", "Number format of the checkpoint."),
    figure("exact_bytes", meaning="Bytes of all served tensors in the file's header."),
    figure("source"),
    figure("check"),
    figure("ignored_fields", "architecture.ignored_fields", "Fields of the configuration that decide nothing that is computed here."),
))
MODELS: Final = Shape("LlmModelsDocument", tuple, "What `capplan llm models --format json` writes.", (
    *VERSIONED,
    figure("models", MODEL.at(reads(tuple[LanguageModel, ...], lambda models: models))),
))
FORMAT: Final = Shape("FormatSupportDocument", FormatSupport, "Whether an engine reads weights of a format on a GPU.", (
    figure("engine"),
    figure("weights", meaning="The format of weights; empty where the engine does not run on the GPU."),
    figure("runs", meaning="True if the engine has kernels for it there."),
    figure("widened", meaning="True if weights are read in the format and products are computed in 16 bits."),
    figure("since", reads(str | None, lambda row: row.since and ".".join(map(str, row.since))), "First version with the kernels; null where all have them."),
    figure("reason", meaning="Why not, or what is to be known."),
))
SUPPORT: Final = Shape("LlmSupportDocument", SupportAnswer, "What `capplan llm support --format json` writes.", (
    *VERSIONED,
    figure("model", "model.architecture.name"),
    figure("gpu", "gpu.id"),
    figure("formats", FORMAT.at("rows")),
))
BYTES: Final = Shape("ByteInterval", Interval, "An interval in whole bytes.", (
    figure("low", _bytes("low")), figure("expected", _bytes("expected")), figure("high", _bytes("high")),
))
STAGE: Final = Shape("StageMemoryDocument", StageMemory, "The memory of one pipeline stage's GPU.", (
    figure("stage", meaning=Meta(ge=0)),
    figure("weights_bytes", _bytes("weight_bytes")),
    figure("activation_bytes", reads(int, lambda stage: round(stage.activation_bytes))),
    figure("kv_pool_bytes", reads(Bytes, lambda stage: max(0, round(stage.pool_bytes)))),
    figure("kv_tokens", "tokens"),
))
ALTERNATIVE: Final = Shape("AlternativeDocument", MemoryAlternative, "What another choice would give.", (
    figure("change", show=column("change")),
    figure("fits"),
    figure("kv_tokens", show=column("tokens", "{:,}".format, unknown="–")),
    figure("sequences_that_fit", "sequences", Meta(ge=0), column("sequences", "{:,}".format)),
    figure("weights_bytes", _bytes("weight_bytes"), show=column("weights", format_bytes)),
    figure("kv_pool_bytes", reads(int, lambda other: round(other.pool_bytes))),
    figure("pool_bytes", reads(float | None, lambda other: other.pool_bytes or (0.0 if other.fits else None)),
        show=column("KV cache", format_bytes, unknown="does not fit").alone()),
))
MEMORY: Final = Shape("LlmMemoryDocument", MemoryAnswer, "What `capplan llm memory --format json` writes: bytes are those of the GPU that decides, the tightest stage's.", (
    *SIGNED,
    figure("model", MODEL.at("request.model")),
    figure("gpu", "request.gpu.id"),
    figure("gpus", "request.sharding.gpus", Meta(ge=0, description="GPUs of one replica: tp · pp · dp.")),
    *sharing_of("request.sharding", Meta(ge=0)),
    figure("engine", "request.engine"),
    figure("engine_version", reads(str | None, lambda answer: answer.request.version and ".".join(map(str, answer.request.version)))),
    figure("weights", "memory.deployment.quantisation.format.name"),
    figure("kv"),
    figure("fits", meaning="True if at least one sequence fits."),
    figure("gpu_bytes", _bytes("memory.deployment.total_bytes")),
    figure("utilization", "memory.deployment.fraction", "The engine's memory fraction."),
    figure("weights_bytes", _bytes("stage.weight_bytes")),
    figure("weights_by_role_bytes", reads(dict[str, Bytes], lambda answer: {role.value: round(size) for role, size in answer.stage.weights.by_role})),
    figure("activation_bytes", reads(int, lambda answer: round(answer.stage.activation_bytes)),
        "The peak of the engine's profiling run; what SGLang keeps free for it."),
    figure("other_bytes", reads(int, lambda answer: round(answer.stage.other_bytes)),
        Meta(ge=0, description="Context, libraries, communication buffers, and CUDA graphs inside the budget.")),
    figure("graph_bytes", reads(int, lambda answer: round(answer.memory.deployment.engine.graph_bytes)),
        Meta(ge=0, description="CUDA graphs: part of other_bytes in vLLM from 0.21 on, outside its budget before.")),
    figure("kv_pool_bytes", reads(Bytes, lambda answer: max(0, round(answer.stage.pool_bytes)))),
    figure("kv_pool_interval_bytes", BYTES.at("pool_interval"), "The 90 % interval of the cache."),
    figure("missing_bytes", reads(int, lambda answer: max(0, round(-answer.stage.pool_bytes))),
        Meta(ge=0, description="What one GPU lacks before any cache.")),
    figure("kv_bytes_per_token", _kv_bytes_per_token, Meta(ge=0, description="What a token adds while it is in every layer's window.")),
    figure("state_bytes_per_sequence", reads(int, lambda answer: round(answer.stage.cache.state_bytes)),
        Meta(ge=0, description="What linear attention keeps of a sequence.")),
    figure("block_tokens", "stage.block_tokens", Meta(ge=0)),
    figure("kv_tokens", meaning="Tokens that one GPU's cache holds as the engine counts them; null if no layer keeps tokens."),
    figure("sequence_tokens", meaning=Meta(ge=0)),
    figure("kv_bytes_per_sequence", _sequence_bytes,
        Meta(ge=0, description="What a sequence of that length keeps, each layer at most its window.")),
    figure("sequences_that_fit", "sequences", Meta(ge=0, description="Sequences of that length in the whole replica.")),
    figure("max_context", meaning=Meta(ge=0, description="Longest sequence that fits alone, at most what the model allows.")),
    figure("stages", STAGE.at("memory.stages")),
    figure("alternatives", ALTERNATIVE, "What other choices would give."),
    figure("evidence", meaning="measured, transferred, extrapolated or documented"),
    figure("source", "memory.deployment.engine.source"),
    figure("notes"),
))
# fmt: on


def llm_memory_document(answer: MemoryAnswer) -> "LlmMemoryDocument":
    """Return an answer as its document; bytes are those of the tightest GPU."""
    document: LlmMemoryDocument = MEMORY.document(answer)
    return document
