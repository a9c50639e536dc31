"""Compute the power of a serving replica and its joules per output token from the work of its mean step."""

from collections import defaultdict
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from capplan.core.gpus.spec import GpuSpec, PeakKind
from capplan.core.numbers import FloatArray, Interval
from capplan.core.power import CardWork, PowerLaw, peak_seconds, step_energy
from capplan.llm.core.serving.asked import Speculation
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.timing.calibration import KernelClass
from capplan.llm.core.timing.machine import peak_kind
from capplan.llm.core.timing.work import CLASSES, Arithmetic, Kernels, Load, experts_touched, step_work

_FP8_EXPERT_ROWS = 64.0
"""Rows of the tile in which grouped fp8 products multiply what an expert was sent, however little it is: the default
BLOCK_SIZE_M of vLLM's Triton kernel for blocks of fp8 weights. The rest of the tile costs no time where weights are
waited for, but it does cost energy."""
_UNPACKING, _BYTES_TO_UNPACK = 5.0, 1.0
"""Instructions of a lane for each weight of less than so many bytes in llama.cpp's products with few tokens, between
those of its types (`_UNPACKING` of `timing/machine.py`)."""
_CACHED = frozenset({KernelClass.DECODE_GQA, KernelClass.DECODE_VECTOR, KernelClass.DECODE_MLA})


class EnergyMetric(StrEnum):
    """What a run with a power meter is judged by.

    `POWER` is given the measured step time and batch, `POWER_END_TO_END` and `JOULES` are not.
    """

    POWER = "power_w"
    POWER_END_TO_END = "power_w_end_to_end"
    JOULES = "joules_per_output_token"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredEnergy:
    """What a power meter read during a run: mean power of all GPUs, and joules per output token. [W, J]

    None where it is not stated. `running` is the mean number of sequences that were processed at a time. `task` is what
    the requests were for where it stands for their lengths, as in the ML.ENERGY benchmark.
    """

    power_w: float | None
    joules_per_output_token: float | None
    running: float | None
    output_tokens_per_s: float | None
    task: str = ""

    @property
    def is_timed(self) -> bool:
        """Return True if the run's requests are known well enough to predict its time.

        Prompts with images, video or code are longer than others and not stated. Power at the measured time can be
        judged all the same, because it depends on them less.
        """
        return self.task in ("", "lm-arena-chat", "gpqa")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingEnergy:
    """Mean power of all GPUs of a replica, without the host, and the energy of one output token. [W, J]

    `evidence` says whether cards of this architecture were measured.
    """

    power_w: Interval
    joules_per_output_token: Interval
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedTokens:
    """What a replica processes at a time: `running` sequences of mean lengths, each with its share of a prompt.

    `speculation` is None where no tokens are drafted. `drafter` are the kernels of a model or head that drafts them.
    """

    running: float
    input_len: float
    output_len: float
    speculation: Speculation | None = None
    drafter: Kernels | None = None

    @property
    def per_step(self) -> float:
        return self.running * (self.speculation.tokens_per_step if self.speculation else 1.0)


def card_work(
    kernels: Kernels, gpu: GpuSpec, sharding: Sharding, tokens: ServedTokens, *, output_tokens_per_s: float
) -> CardWork:
    """Return the work of the mean step on one card: one token of every sequence, and the prompts admitted meanwhile.

    A sequence gives one token a step, or several with speculation, so that a step takes the tokens of all sequences
    ÷ (output tokens per second), prompts included. Each draft adds the work of one layer and of the output head,
    or of a pass of what drafts, which reads the prompts, too.
    """
    per_pass = tokens.running / sharding.data / sharding.pipeline
    prompts = tokens.per_step / sharding.data / sharding.pipeline / tokens.output_len
    drafts, verified = (tokens.speculation.on_gpu, tokens.speculation.drafts) if tokens.speculation else (0, 0)
    load = Load.of(
        decoding=per_pass,
        context=tokens.input_len + tokens.output_len / 2,
        answered=tokens.output_len,
        prefilled=prompts * tokens.input_len,
        prompts=prompts,
        drafted=float(verified),
    )
    time_s = np.array([tokens.per_step / output_tokens_per_s / sharding.pipeline])
    work = card_works(kernels, gpu, load, time_s)[0]
    if not drafts:
        return work
    none = np.zeros_like(load.prefilled)
    plain = replace(load, prefilled=none, prompts=none, pairs=none, drafted=0.0)
    if (drafter := tokens.drafter) is not None:
        passes, each = (1.0, float(drafts)) if drafter.drafts_in_parallel else (float(drafts), 0.0)
        begun = min(1.0, prompts)  # the steps that hold a prompt, which read the drafter's weights for it
        read = Load.of(prefilled=prompts / begun * tokens.input_len, prompts=prompts / begun)
        for drafting, share in ((replace(plain, drafted=each), passes), (read, begun)):
            work = _with_share(work, card_works(drafter, gpu, drafting, time_s)[0], share / sharding.pipeline)
        return work
    layers = replace(kernels, products=kernels.products[:-1])
    head = replace(kernels, products=kernels.products[-1:], experts=(), attentions=(), states=())
    for part, share in ((layers, drafts / kernels.layers), (head, float(drafts))):
        work = _with_share(work, card_works(part, gpu, plain, time_s)[0], share)
    return work


def _with_share(work: CardWork, other: CardWork, share: float) -> CardWork:
    """Return work with a share of another within the same time."""
    flops = {kind: work.flops.get(kind, 0.0) + share * count for kind, count in other.flops.items()}
    return replace(
        work,
        traffic_bytes=work.traffic_bytes + share * other.traffic_bytes,
        cached_bytes=work.cached_bytes + share * other.cached_bytes,
        instructions=work.instructions + share * other.instructions,
        flops={**work.flops, **flops},
    )


def card_works(kernels: Kernels, gpu: GpuSpec, load: Load, time_s: FloatArray) -> list[CardWork]:
    work = step_work(kernels, load, of_mean=True)
    padding = np.array(work.padding)
    for index, item in enumerate(kernels.experts, start=len(kernels.products)):
        if item.kernel_class is KernelClass.MOE_FP8:
            # By what factor whole tiles multiply the FLOPs of a grouped product.
            tokens = load.tokens * kernels.data_parallel
            touched = experts_touched(experts=item.experts, per_token=item.per_token, tokens=tokens)
            tiles = _FP8_EXPERT_ROWS * touched / np.maximum(tokens * item.per_token, 1e-9)
            padding[:, index] = np.maximum(padding[:, index], tiles)
    by_kernel, traffic_bytes = work.flops * padding * work.count, work.traffic_bytes * work.count
    unpacked = sum(
        item.count * item.outputs * item.inputs
        for item in kernels.products
        if item.kernel_class is KernelClass.GGML_NARROW and item.weight_bytes < _BYTES_TO_UNPACK
    )
    is_cached = np.array([CLASSES[index] in _CACHED for index in work.kernel_class])
    works = []
    for step, seconds in enumerate(time_s.tolist()):
        flops: defaultdict[PeakKind, float] = defaultdict(float)
        for arithmetic, place, count in zip(work.arithmetic, work.kernel_class, by_kernel[step].tolist(), strict=True):
            # Products of mxfp4 run at the rate of fp8, and measured ones take the energy of as many at that of fp4.
            kind = Arithmetic.FP4 if CLASSES[place] is KernelClass.MOE_MXFP4 else arithmetic
            flops[peak_kind(gpu, kind)] += count
        works.append(
            CardWork(
                traffic_bytes=float(traffic_bytes[step].sum()),
                cached_bytes=float(traffic_bytes[step][is_cached].sum()),
                flops=dict(flops),
                time_s=seconds,
                instructions=_UNPACKING * unpacked,
            )
        )
    return works


def serving_energy(
    kernels: Kernels,
    gpu: GpuSpec,
    sharding: Sharding,
    tokens: ServedTokens,
    *,
    output_tokens_per_s: Interval,
    law: PowerLaw,
) -> ServingEnergy | None:
    """Return the power of a replica and its joules per token; None where the card's power limit is not known.

    The interval of joules is widened by what measured runs show (`PowerLaw.served_widening`).
    """
    rates = output_tokens_per_s
    work = card_work(kernels, gpu, sharding, tokens, output_tokens_per_s=rates.expected)
    in_step = tokens.per_step / sharding.pipeline  # tokens of all sequences in the time of one pass of a stage
    found = step_energy(
        gpu,
        peak_seconds(gpu, work),
        in_step / rates,
        law,
        samples=in_step,
        gpus=sharding.gpus,
        widening=law.served_widening,
        novelties=frozenset(),
    )
    if found is None:
        return None
    return ServingEnergy(
        power_w=found.power_w, joules_per_output_token=found.joules_per_sample, evidence=found.evidence
    )


def load_energy(
    kernels: Kernels,
    gpu: GpuSpec,
    sharding: Sharding,
    tokens: ServedTokens,
    *,
    output_tokens_per_s: float,
    busy_fraction: float,
    law: PowerLaw,
) -> ServingEnergy | None:
    """Return the mean power of a replica under a load, idle time included, and its joules per output token.

    While it waits for requests, a card draws its base. None where the card's power limit is not known.
    """
    busy = min(1.0, max(busy_fraction, 1e-6))
    found = serving_energy(
        kernels,
        gpu,
        sharding,
        replace(tokens, running=tokens.running / busy),
        output_tokens_per_s=Interval.exact(output_tokens_per_s / busy),
        law=law,
    )
    if found is None or gpu.tdp_w is None:
        return None
    waiting_w = (1.0 - busy) * sharding.gpus * law.of(gpu).base_fraction * gpu.tdp_w
    power_w, token = found.power_w * busy + Interval.exact(waiting_w), found.joules_per_output_token
    return ServingEnergy(
        power_w=power_w,
        joules_per_output_token=token * (power_w.expected / output_tokens_per_s / token.expected),
        evidence=found.evidence,
    )
