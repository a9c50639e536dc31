"""Compute the power of a serving replica and its joules per output token from the work of its mean step."""

from collections import defaultdict
from dataclasses import dataclass

from capplan.core.energy.power import CardWork, PowerLaw, energy_j, step_power_w
from capplan.core.gpus.spec import GpuSpec, PeakKind
from capplan.core.numbers import Interval
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.timing.machine import peak_kind
from capplan.llm.core.timing.work import Kernels, Load, step_work


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
    """What a replica processes at a time: `running` sequences of mean lengths, each with its share of a prompt."""

    running: float
    input_len: float
    output_len: float


def card_work(
    kernels: Kernels, gpu: GpuSpec, sharding: Sharding, tokens: ServedTokens, *, output_tokens_per_s: float
) -> CardWork:
    """Return the work of the mean step on one card: one token of every sequence, and the prompts admitted meanwhile.

    A sequence gives one token a step, so that a step takes running ÷ (output tokens per second), prompts included.

    Args:
        kernels: The kernels of one pipeline stage on one GPU.
        gpu: The card.
        sharding: How the replica is shared.
        tokens: The sequences of the replica.
        output_tokens_per_s: Output of the replica. [1/s]
    """
    per_pass = tokens.running / sharding.data / sharding.pipeline
    prompts = per_pass / tokens.output_len
    load = Load.of(
        decoding=per_pass,
        context=tokens.input_len + tokens.output_len / 2,
        prefilled=prompts * tokens.input_len,
        prompts=prompts,
    )
    work = step_work(kernels, load)
    by_kernel = (work.flops * work.padding * work.count)[0]
    flops: defaultdict[PeakKind, float] = defaultdict(float)
    for arithmetic, count in zip(work.arithmetic, by_kernel, strict=True):
        flops[peak_kind(gpu, arithmetic)] += float(count)
    return CardWork(
        traffic_bytes=float((work.traffic_bytes * work.count).sum()),
        flops=dict(flops),
        time_s=tokens.running / output_tokens_per_s / sharding.pipeline,
    )


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

    The faster the replica, the more it draws and the less a token costs: the ends of both intervals take the ends of
    the interval of tokens per second with those of the law.

    Args:
        kernels: The kernels of one pipeline stage on one GPU.
        gpu: The card.
        sharding: How the replica is shared.
        tokens: The sequences of the replica.
        output_tokens_per_s: Output of the replica. [1/s]
        law: Power of cards.
    """

    def power_w(rate_per_s: float) -> Interval | None:
        return step_power_w(gpu, card_work(kernels, gpu, sharding, tokens, output_tokens_per_s=rate_per_s), law)

    rates = output_tokens_per_s
    slow, expected, quick = power_w(rates.low), power_w(rates.expected), power_w(rates.high)
    if slow is None or expected is None or quick is None:
        return None
    gpus = sharding.gpus
    return ServingEnergy(
        power_w=Interval(low=gpus * slow.low, expected=gpus * expected.expected, high=gpus * quick.high),
        joules_per_output_token=Interval(
            low=gpus * energy_j(quick, 1 / rates.high).low,
            expected=gpus * energy_j(expected, 1 / rates.expected).expected,
            high=gpus * energy_j(slow, 1 / rates.low).high,
        ),
        evidence="architecture measured" if gpu.architecture in law.architectures else "other architectures measured",
    )
