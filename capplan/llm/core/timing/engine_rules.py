"""How serving engines fill their steps by default, and which kernels their generations run."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

from capplan.core.engine_names import Engine, find_engine
from capplan.llm.core.engines import step_tokens, vllm_step_limits
from capplan.llm.core.timing.calibration import KernelClass
from capplan.llm.core.timing.machine import Machine
from capplan.llm.core.timing.work import Arithmetic


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """How an engine fills its steps by default.

    `token_budget` is the most tokens of a step of one rank, which depends on the GPU. `mixes` says that prompt tokens
    share steps with decoding sequences, and `most_sequences` run at a time. `overlaps` says that the next step is put
    together before the tokens of the last one are returned, and `evicts` that requests are admitted by the memory that
    they hold now. An engine that `sorts_logits` does so to draw one of the most likely tokens; others have kernels that
    need no order. A request waits `receive_steps` to be looked for; None for what runs by default showed.
    One that comes while a step runs is in the step after `arrival_steps` further ones. A long prompt `fills_pipeline`
    where its parts follow one another through the stages, as llama.cpp's micro-batches do. An engine that
    `launches_pieces` has no graph of a whole step: its host launches attention between the graphs of each layer.
    """

    mixes: bool
    most_sequences: float
    token_budget: float = 0.0
    overlaps: bool = False
    evicts: bool = False
    sorts_logits: bool = False
    receive_steps: float | None = None
    arrival_steps: int = 1
    fills_pipeline: bool = False
    launches_pieces: bool = False

    @property
    def return_steps(self) -> int:
        """Return the steps between that which computes a token and the one after which it is returned."""
        return 1 if self.overlaps else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerFlags:
    """How an engine is set to schedule; None stands for its default.

    `mixes` says that prompt tokens share steps with decoding sequences. `token_budget` is the most tokens of a step,
    `most_sequences` the most sequences of a replica at a time. The engine looks for new requests every
    `receive_interval` steps.
    """

    mixes: bool | None = None
    token_budget: int | None = None
    most_sequences: int | None = None
    receive_interval: int | None = None

    @property
    def receive_steps(self) -> float | None:
        """Return the steps that a request waits to be looked for, in the mean; None for the engine's default."""
        return None if self.receive_interval is None else (self.receive_interval + 1) / 2

    def applied_to(self, rules: Scheduling, *, data: int) -> Scheduling:
        return replace(
            rules,
            mixes=rules.mixes if self.mixes is None else self.mixes,
            token_budget=float(self.token_budget or rules.token_budget),
            most_sequences=self.most_sequences / data if self.most_sequences else rules.most_sequences,
            receive_steps=self.receive_steps or rules.receive_steps,
        )


DEFAULT_FLAGS = SchedulerFlags()


_VLLM = Scheduling(mixes=True, most_sequences=1024, evicts=True, sorts_logits=True)
SCHEDULING: Mapping[str, Scheduling] = {
    **dict.fromkeys(("vllm", "vllm before 0.14", "vllm before 0.8"), _VLLM),
    "vllm before 0.11": replace(_VLLM, launches_pieces=True),
    "trtllm": Scheduling(mixes=True, most_sequences=2048, overlaps=True),
    "trtllm before 1.0": Scheduling(mixes=True, most_sequences=4096, arrival_steps=0),
    "trtllm before 0.11": Scheduling(mixes=True, most_sequences=2048, arrival_steps=0),
    "sglang": Scheduling(mixes=False, most_sequences=2048, overlaps=True, evicts=True),
    "sglang before 0.5.10": Scheduling(mixes=False, most_sequences=2048, overlaps=True, evicts=True),
    "llama.cpp": Scheduling(mixes=True, most_sequences=256, fills_pipeline=True),
    "llama.cpp before 2025": Scheduling(mixes=True, most_sequences=256, fills_pipeline=True),
}
"""Defaults of vLLM 0.19 and SGLang 0.5 on a B200, of TensorRT-LLM 1.0 and of llama-server; `scheduling_on` returns
those of any GPU. TensorRT-LLM keeps room for whole answers (GUARANTEED_NO_EVICT)."""


def scheduling_on(engine: str, machine: Machine, *, data: int, flags: SchedulerFlags = DEFAULT_FLAGS) -> Scheduling:
    rules, known = SCHEDULING[engine], find_engine(engine.partition(" ")[0])
    tokens = step_tokens(known, machine.id, total_bytes=machine.memory_bytes, data=data)
    if known is Engine.VLLM:
        _, sequences = vllm_step_limits(machine.id, total_bytes=machine.memory_bytes)
        rules = replace(rules, most_sequences=sequences)
    return flags.applied_to(replace(rules, token_budget=tokens), data=data)


def engine_variant(engine: str, version: tuple[int, ...] | None) -> str:
    """Return the variant of an engine that a version is.

    TensorRT-LLM compiled whole engines before 1.0, and decoded most grouped-query attention without tensor cores before
    0.11. vLLM before 0.14 put a step together only after the tokens of the last one had been handed out (asynchronous
    scheduling is its default since). Its second engine, the default since 0.8, launched every layer of a step in pieces
    until 0.11, which made graphs of whole steps the default (vllm-project/vllm#25444). DeepSeek-R1 on eight MI300X
    takes a quarter less time in SGLang 0.5.12 than in 0.5.9. Versions of llama.cpp are days or years of its builds:
    those of 2025 and later launch graphs of fused kernels where those of 2024 launched one kernel after the other
    (`benchmarks/llama_cpp.py`).
    """
    if version is None:
        return engine
    generations = _GENERATIONS.get(engine, ())
    return next((f"{engine} before {name}" for before, name in generations if version < before), engine)


_GENERATIONS = {
    "trtllm": (((0, 11), "0.11"), ((1,), "1.0")),
    "vllm": (((0, 8), "0.8"), ((0, 11), "0.11"), ((0, 14), "0.14")),
    "sglang": (((0, 5, 10), "0.5.10"),),
    "llama.cpp": (((2025,), "2025"),),
}
"""Versions at which engines changed, in rising order."""


XQA_QUERIES = 8
"""Query heads per key-value head of which TensorRT-LLM 0.8 to 0.11 decodes a cache in fp8 on tensor cores, and one in
16 bits on vector units ("New XQA-kernel provides 2.4x more Llama-70B throughput", documentation of TensorRT-LLM 0.8).

Runs of Llama 2 and Llama 3 70B in fp8 on H100 with 0.8 to 0.10 are 1.3 to 1.8 times as fast as vector units allow, and
runs of the same models in 16 bits on A100 and H100 with 0.11 are 1.1 to 1.7 times slower than tensor cores would be."""


def decode_class(
    engine: str,
    *,
    version: tuple[int, ...] | None,
    cache_bytes: float = 2.0,
    units: Set[Arithmetic] = frozenset(),
    queries: float = 1.0,
) -> KernelClass:
    """Return the class of kernels that an engine decodes attention with separate keys and values with."""
    if not engine.startswith("trtllm") or version is None or version >= (0, 12):
        return KernelClass.DECODE_GQA
    if version >= (0, 8) and cache_bytes == 1 and Arithmetic.FP8 in units and queries == XQA_QUERIES:
        return KernelClass.DECODE_GQA
    if version >= (0, 11) and (cache_bytes == 1 or queries < XQA_QUERIES):
        return KernelClass.DECODE_GQA
    return KernelClass.DECODE_VECTOR


def prefill_class(variant: str, *, cache_bytes: float, units: Set[Arithmetic]) -> KernelClass:
    """Return the class of kernels that prefill attention: TensorRT-LLM computes it in fp8 if the cache is in fp8."""
    narrow = variant.startswith("trtllm") and cache_bytes == 1 and Arithmetic.FP8 in units
    return KernelClass.PREFILL_FP8 if narrow else KernelClass.PREFILL
