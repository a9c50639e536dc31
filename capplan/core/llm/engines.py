"""How serving engines divide a GPU's memory, by engine and version: types of the constants, none of their values."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Engine(StrEnum):
    """Serving engines whose memory rules are known."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TRTLLM = "trtllm"
    LLAMACPP = "llama.cpp"


class PoolRule(StrEnum):
    """What an engine's memory fraction is a fraction of.

    `BUDGET`: weights, activations, other memory and cache together are a fraction of the whole (vLLM).
    `STATIC`: weights and cache alone are (SGLang). `FREE`: the cache is a fraction of what everything else leaves
    free (TensorRT-LLM). `REST`: the cache takes what is asked for, at most all that is left (llama.cpp).
    """

    BUDGET = "budget"
    STATIC = "static"
    FREE = "free"
    REST = "rest"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationConstants:
    """The peak of an engine's profiling run: the larger of the sampler's and the forward pass's.

    The sampler holds `sampler_bytes_per_vocab` for each vocabulary entry and running sequence and
    `sampler_bytes_per_hidden` for each hidden element and sequence. The forward pass holds `forward_mlp` 16-bit
    numbers per token and MLP column, and `forward_hidden` per token and hidden element. `fixed_bytes` and
    `vision_bytes` (with an image encoder) are added to the larger one, and so is `expert_workspaces` times the
    workspace of the experts. `stage_bytes` is the whole of a pipeline stage that does not sample.
    """

    fixed_bytes: float
    expert_workspaces: float

    sampler_bytes_per_vocab: float
    sampler_bytes_per_hidden: float
    forward_mlp: float
    forward_hidden: float
    vision_bytes: float
    stage_bytes: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConstants:
    """The memory rules of an engine from one version on.

    `other_bytes` is what the process holds outside PyTorch's allocator, by the number of tensor-parallel GPUs (the
    largest key that is not above counts), `stage_other_bytes` with pipeline stages alone. `graph_bytes` lie outside
    the budget. `uncertain_fraction` of the weights and `uncertain_bytes` make up the 90 % interval of the cache.
    """

    engine: Engine
    since: tuple[int, ...]
    rule: PoolRule
    fraction: float
    block_tokens: int
    activation: ActivationConstants
    other_bytes: Mapping[int, float]
    stage_other_bytes: float
    graph_bytes: float
    uncertain_fraction: float
    uncertain_bytes: float
    evidence: str
    source: str

    def other(self, *, tensor: int, pipeline: int) -> float:
        """Return the bytes outside PyTorch's allocator on one GPU.

        Args:
            tensor: GPUs that share each matrix.
            pipeline: Pipeline stages.
        """
        if tensor == 1 and pipeline > 1:
            return self.stage_other_bytes
        return self.other_bytes[max(key for key in self.other_bytes if key <= tensor)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmMemoryConstants:
    """The memory rules of all engines; several versions of one engine stand from old to new."""

    engines: tuple[EngineConstants, ...]
    origin: str

    def find(self, engine: Engine, version: tuple[int, ...] | None) -> EngineConstants:
        """Return the rules of an engine's version, the newest if none is named, the oldest if it is older than all.

        Args:
            engine: The engine.
            version: Its version, such as (0, 19).
        """
        of_engine = [each for each in self.engines if each.engine is engine]
        if version is None:
            return of_engine[-1]
        return next((each for each in reversed(of_engine) if each.since <= version), of_engine[0])
