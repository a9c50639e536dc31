"""How serving engines fill their steps by default, and which kernels their generations run."""

from collections.abc import Mapping, Set
from dataclasses import dataclass

from capplan.llm.core.timing.kernel_classes import KernelClass
from capplan.llm.core.timing.weight_kernels import Arithmetic


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """How an engine fills its steps by default.

    `token_budget` is the most tokens of a step, `mixes` says that prompt tokens share steps with decoding sequences,
    and `most_sequences` run at a time. `overlaps` says that the next step is put together before the tokens of the last
    one are returned, and `evicts` that requests are admitted by the memory that they hold now.
    """

    token_budget: float
    mixes: bool
    most_sequences: float
    overlaps: bool = False
    evicts: bool = False


SCHEDULING: Mapping[str, Scheduling] = {
    "vllm": Scheduling(token_budget=8192, mixes=True, most_sequences=1024, evicts=True),
    "trtllm": Scheduling(token_budget=8192, mixes=True, most_sequences=2048, overlaps=True),
    "trtllm before 1.0": Scheduling(token_budget=8192, mixes=True, most_sequences=4096),
    "trtllm before 0.11": Scheduling(token_budget=8192, mixes=True, most_sequences=2048),
    "sglang": Scheduling(token_budget=16384, mixes=False, most_sequences=2048, overlaps=True, evicts=True),
    "llama.cpp": Scheduling(token_budget=2048, mixes=True, most_sequences=256),
}
"""Defaults of vLLM 0.19 and TensorRT-LLM 1.0 on data-centre GPUs, of SGLang 0.5 and of llama-server. TensorRT-LLM keeps
room for whole answers (GUARANTEED_NO_EVICT)."""


def engine_variant(engine: str, version: tuple[int, ...] | None) -> str:
    """Return the variant of an engine that a version is.

    TensorRT-LLM compiled whole engines before 1.0, and decoded most grouped-query attention without tensor cores before
    0.11.

    Args:
        engine: Name of the engine.
        version: Its version, None for the newest.
    """
    if engine != "trtllm" or version is None or version >= (1,):
        return engine
    return "trtllm before 0.11" if version < (0, 11) else "trtllm before 1.0"


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
    """Return the class of kernels that an engine decodes attention with separate keys and values with.

    Args:
        engine: Name of the engine, or of one of its variants.
        version: Version of the engine, None for the newest.
        cache_bytes: Bytes of one element of the cache.
        units: Arithmetic that the GPU has.
        queries: Query heads that share a key-value head.
    """
    if not engine.startswith("trtllm") or version is None or version >= (0, 12):
        return KernelClass.DECODE_GQA
    if version >= (0, 8) and cache_bytes == 1 and Arithmetic.FP8 in units and queries == XQA_QUERIES:
        return KernelClass.DECODE_GQA
    if version >= (0, 11) and (cache_bytes == 1 or queries < XQA_QUERIES):
        return KernelClass.DECODE_GQA
    return KernelClass.DECODE_VECTOR


def prefill_class(variant: str, *, cache_bytes: float, units: Set[Arithmetic]) -> KernelClass:
    """Return the class of kernels that prefill attention: TensorRT-LLM computes it in fp8 if the cache is in fp8.

    Args:
        variant: Variant of the engine.
        cache_bytes: Bytes of one element of the cache.
        units: Arithmetic that the GPU has.
    """
    narrow = variant.startswith("trtllm") and cache_bytes == 1 and Arithmetic.FP8 in units
    return KernelClass.PREFILL_FP8 if narrow else KernelClass.PREFILL
