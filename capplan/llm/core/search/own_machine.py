"""Which language models the GPUs of one machine hold, those with the most parameters first."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from capplan.core.engine_names import Engine
from capplan.core.gpus.spec import GpuSpec
from capplan.errors import CapplanError
from capplan.llm.core.engines import LlmMemoryConstants
from capplan.llm.core.memory_answer import StatedDeployment, answer_memory
from capplan.llm.core.model_query import LanguageModel
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.tensors import count_parameters

_NARROW = "q4_k_m"
"""The format that llama.cpp's quantisation tool recommends, for models whose own checkpoint is too large."""
_LEAST_BITS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldModel:
    """A model that GPUs hold: by which engine and format, how they share it, and its longest sequence alone.

    `weights` is empty for the checkpoint's own format. [tokens]
    """

    model: str
    engine: Engine
    weights: str
    sharding: Sharding
    longest: int

    @property
    def words(self) -> str:
        stored = f" in {self.weights}" if self.weights else ""
        return f"{self.model}{stored} by {self.engine.value}, up to {self.longest:,} tokens"


def held_models(
    models: Iterable[LanguageModel], gpu: GpuSpec, count: int, *, tokens: int, constants: LlmMemoryConstants
) -> Iterator[HeldModel]:
    """Yield the models of which `count` GPUs hold one sequence of some tokens, one of each number of parameters.

    Each is served by vLLM from its own checkpoint where that fits, else by llama.cpp in four bits, on as few of the
    GPUs as hold it.
    """
    room = 8 * count * gpu.expected_usable_bytes / _LEAST_BITS
    sized = sorted(((count_parameters(model.architecture), model) for model in models), key=lambda pair: -pair[0])
    for parameters, alike in groupby(sized, key=lambda pair: pair[0]):
        ways = [] if parameters > room else [_way(model, gpu, count, tokens, constants) for _, model in alike]
        held = [way for way in ways if way is not None]
        if held:
            yield max(held, key=lambda way: (not way.weights, way.longest))


def _way(
    model: LanguageModel, gpu: GpuSpec, count: int, tokens: int, constants: LlmMemoryConstants
) -> HeldModel | None:
    """Return the first way in which GPUs hold one sequence of a model; None where none does."""
    sizes = sorted({*(size for size in (1, 2, 4, 8) if size <= count), count})
    own = [(Engine.VLLM, "", Sharding(tensor=size)) for size in sizes]
    narrow = [(Engine.LLAMACPP, _NARROW, Sharding(pipeline=size)) for size in sizes]
    for engine, weights, sharding in (*own, *narrow):
        request = StatedDeployment(
            model=model, gpu=gpu, sharding=sharding, weights=weights or None, engine=engine,
            sequence_tokens=min(tokens, model.architecture.max_positions or tokens),
        )  # fmt: skip
        try:
            answer = answer_memory(request, constants, alternatives=False)
        except CapplanError:
            continue
        if answer.fits:
            return HeldModel(
                model=model.architecture.name, engine=engine, weights=weights, sharding=sharding,
                longest=answer.max_context,
            )  # fmt: skip
    return None
