"""Find the model, the GPU and the engine's rules that a question about serving memory names, and answer it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from capplan.core.serving_engines import find_engine
from capplan.llm.core.engines import parse_version
from capplan.llm.core.memory_answer import MemoryAnswer, MemoryRequest, answer_memory
from capplan.llm.core.sharding import Sharding
from capplan.llm.read.memory_calibration import load_llm_memory
from capplan.llm.read.sources import find_model
from capplan.specs import load_gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryWords:
    """A question about serving memory in the user's words; None stands for a default.

    `pool_bytes` replaces the computed cache by a known one. `calibration` is a file of memory rules.
    """

    model: str
    gpu: str
    sharding: Sharding = field(default_factory=Sharding)
    weights: str | None = None
    kv: str | None = None
    engine: str = "vllm"
    version: str | None = None
    sequence_tokens: int | None = None
    fraction: float | None = None
    batched_tokens: int | None = None
    max_sequences: int | None = None
    pool_bytes: float | None = None
    download: bool = False
    specs: Sequence[Path] = ()
    calibration: Path | None = None


def answer_memory_words(words: MemoryWords) -> MemoryAnswer:
    """Answer how a GPU's memory is divided when it serves a language model.

    Args:
        words: The question.

    Raises:
        CapplanError: A name is not known, or the deployment is not possible.
    """
    request = MemoryRequest(
        model=find_model(words.model, download=words.download),
        gpu=load_gpus(overlays=words.specs).find(words.gpu),
        sharding=words.sharding,
        weights=words.weights,
        kv=words.kv,
        engine=find_engine(words.engine),
        version=None if words.version is None else parse_version(words.version),
        sequence_tokens=words.sequence_tokens,
        fraction=words.fraction,
        batched_tokens=words.batched_tokens,
        max_sequences=words.max_sequences,
        pool_bytes=words.pool_bytes,
    )
    return answer_memory(request, load_llm_memory(words.calibration))
