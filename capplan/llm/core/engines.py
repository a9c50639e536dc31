"""How serving engines divide a GPU's memory, by version: types of the facts without values."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import ceil

from capplan.core.engine_names import Engine
from capplan.errors import SpecError
from capplan.llm.core.engine_support import EngineSupport


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
class EngineMemoryRules:
    """The memory rules of an engine from one version on.

    `other_bytes` is what the process holds outside PyTorch's allocator, by the number of tensor-parallel GPUs (the
    largest key that is not above counts), `stage_other_bytes` with pipeline stages alone. `graph_bytes` are those of
    CUDA graphs. `uncertain_fraction` of the weights and `uncertain_bytes` make up the 90 % interval of the cache, and
    `uncertain_graph_bytes` where graphs are taken from it.
    """

    engine: Engine
    since: tuple[int, ...]
    rule: PoolRule
    block_tokens: int
    activation: ActivationConstants
    other_bytes: Mapping[int, float]
    stage_other_bytes: float
    graph_bytes: float
    uncertain_fraction: float
    uncertain_bytes: float
    uncertain_graph_bytes: float = 0.0
    evidence: str
    source: str

    def other(self, *, tensor: int, pipeline: int, switched: bool) -> float:
        """Return the bytes outside PyTorch's allocator on one GPU.

        GPUs that no switch joins have no buffers for reductions in it, and hold what one GPU holds.
        """
        if tensor == 1 and pipeline > 1:
            return self.stage_other_bytes
        if not switched:
            tensor = 1
        return self.other_bytes[max(key for key in self.other_bytes if key <= tensor)]


_MIB = 1 << 20


def sglang_static_fraction(
    *,
    total_bytes: float,
    tensor: int,
    pipeline: int,
    data: int,
    prompt_graphs: bool = False,
    latent: bool = False,
    larger_steps: bool = False,
) -> float:
    """Return SGLang's default of --mem-fraction-static.

    It reserves 512 MiB, 1.5 MiB per token of a prefill chunk, 2 MiB per sequence of the largest graph and 128 MiB
    per GPU of the replica. Attention data parallelism, whose ranks its --tp-size counts, takes 3 MiB more per sequence
    of that graph and rank, and 4.5 MiB where the graph holds more than 300. GPUs above 60 GiB reserve 10 GiB at least
    (`_handle_gpu_memory_settings` in `server_args.py` of SGLang 0.5.5). Releases with `prompt_graphs` reserve 8 MiB for
    each length of prompt that they capture, 1.5 GiB with latent attention; those with `larger_steps` take twice the
    tokens and graphs on GPUs of 20 to 35 GiB (`arg_groups/memory_hook.py` of 0.5.20).
    """
    total = total_bytes / _MIB
    gib = total / 1024
    chunk = sglang_chunk_tokens(total_bytes, larger_steps=larger_steps)
    middle = (48, 160) if larger_steps else (24, 80)
    few, many = (8, 8) if gib < 20 else middle if gib < 35 else (32, 160) if gib < 60 else (256, 512)
    graphs = few if tensor * data < 4 and gib < 160 else many
    reserved = 512 + 1.5 * chunk + 2 * graphs + 128 * tensor * data * pipeline
    if data > 1:
        reserved += (4.5 if graphs > 300 else 3) * graphs * data
    if prompt_graphs:
        reserved += 1.5 * 1024 if latent else 8 * sum(size <= chunk for size in _CAPTURED)
    if gib > 60:
        reserved = max(reserved, 10 * 1024)
    return round((total - reserved) / total, 3)


_CAPTURED = (
    *range(4, 33, 4), *range(48, 257, 16), *range(288, 513, 32), *range(576, 1025, 64), *range(1280, 4097, 256),
    *range(4608, 16385, 512),
)  # fmt: skip
"""Lengths of prompts that SGLang captures (`generate_prefill_cuda_graph_batch_sizes` of 0.5.20)."""


def sglang_chunk_tokens(total_bytes: float, *, larger_steps: bool = False) -> int:
    """Return SGLang's default of --chunked-prefill-size: the most prompt tokens of a step of all ranks together.

    It follows the memory of a GPU (`_handle_gpu_memory_settings` in `server_args.py` of SGLang 0.5.5), and attention
    data parallelism divides it among its ranks (`_handle_data_parallelism` there).
    """
    gib = total_bytes / (1 << 30)
    return 2048 if gib < (20 if larger_steps else 35) else 4096 if gib < 60 else 8192 if gib < 160 else 16384


def vllm_step_limits(gpu_id: str, *, total_bytes: float) -> tuple[int, int]:
    """Return vLLM's default --max-num-batched-tokens and --max-num-seqs when it serves.

    GPUs of 70 GiB and more except the A100 get 8,192 tokens and 1,024 sequences, others 2,048 and 256
    (`EngineArgs.get_batch_defaults` of vLLM 0.19).
    """
    return (8192, 1024) if total_bytes >= 70 * (1 << 30) and not gpu_id.startswith("a100") else (2048, 256)


def step_tokens(engine: Engine, gpu_id: str, *, total_bytes: float, data: int, larger_steps: bool = False) -> int:
    """Return the most tokens that one rank computes in a step by an engine's default.

    TensorRT-LLM's max_num_tokens (`BuildConfig` of 1.0) and llama-server's batch are the same on every GPU.
    """
    match engine:
        case Engine.VLLM:
            return vllm_step_limits(gpu_id, total_bytes=total_bytes)[0]
        case Engine.SGLANG:
            return ceil(sglang_chunk_tokens(total_bytes, larger_steps=larger_steps) / data)
        case Engine.TRTLLM:
            return 8192
        case Engine.LLAMACPP:
            return 512


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmMemoryConstants:
    """The memory rules of all engines, and what they run on; several versions of one engine stand from old to new."""

    engines: tuple[EngineMemoryRules, ...]
    origin: str
    support: EngineSupport = field(default_factory=EngineSupport)

    def find(self, engine: Engine, version: tuple[int, ...] | None) -> EngineMemoryRules:
        """Return the rules of an engine's version, the newest if none is named, the oldest if it is older than all."""
        of_engine = [rules for rules in self.engines if rules.engine is engine]
        if version is None:
            return of_engine[-1]
        return next((rules for rules in reversed(of_engine) if rules.since <= version), of_engine[0])


def parse_version(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, such as (0, 19) of 0.19.1rc2 or (1, 2) of v1.2."""
    numbers = re.match(r"v?(\d{1,6}(?:\.\d{1,6}){0,2})", text.strip())
    if numbers is None:
        raise SpecError(f"{text!r} is not a version; write it as 0.19 or 1.2.0.")
    return tuple(int(number) for number in numbers.group(1).split("."))


def version_of(text: str) -> tuple[int, ...] | None:
    try:
        return parse_version(text) if text else None
    except SpecError:
        return None
