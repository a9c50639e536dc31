"""The fitted constants of LLM serving: efficiencies of kernels, overheads of engines, links, and interval widths."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from math import exp, log, sqrt

from capplan.core.origin import Origin


class KernelClass(StrEnum):
    """A class of kernels that share their efficiencies.

    `GEMM_*` are dense matrix products and `MOE_*` grouped products over experts, by the format of weights and
    activations (`W4A16`: 4-bit weights, 16-bit arithmetic; `MXFP4` and `NVFP4`: 4-bit arithmetic).
    `DECODE_*` and `PREFILL*` are attention (`DECODE_VECTOR` without tensor cores), `STATE` the
    recurrent state of linear attention and the prompts of state-space layers, `SSM_UPDATE` the states of the latter
    while decoding. `GGML_*` are the dense products of llama.cpp.
    """

    GEMM_16 = "gemm 16-bit"
    GEMM_FP8 = "gemm fp8"
    GEMM_FP8_BLOCK = "gemm fp8 block"
    GEMM_INT8 = "gemm int8"
    GEMM_FP4 = "gemm fp4"
    GEMM_W8A16 = "gemm 8-bit weights"
    GEMM_W4A16 = "gemm 4-bit weights"
    GGML_16 = "gemm 16-bit, llama.cpp"
    GGML_NARROW = "gemm of few bits, llama.cpp"
    MOE_16 = "moe 16-bit"
    MOE_FP8 = "moe fp8"
    MOE_FP8_BLOCK = "moe fp8 block"
    MOE_NVFP4 = "moe nvfp4"
    MOE_MXFP4 = "moe mxfp4"
    MOE_MXFP4_A16 = "moe mxfp4, 16-bit arithmetic"
    MOE_W8A16 = "moe 8-bit weights"
    MOE_W4A16 = "moe 4-bit weights"
    DECODE_GQA = "decode attention"
    DECODE_VECTOR = "decode attention on vector units"
    DECODE_MLA = "decode attention, latent"
    PREFILL = "prefill attention"
    PREFILL_FP8 = "prefill attention fp8"
    STATE = "linear attention state"
    SSM_UPDATE = "state-space update"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelConstants:
    """Shares of the printed peak and bandwidth that a class of kernels reaches, and its fixed time. [1, 1, s]"""

    compute_fraction: float
    bandwidth_fraction: float
    fixed_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTimes:
    """What an engine adds to the kernels of a step, and how its requests wait.

    `layer_s` passes in every layer of a step, `step_s` once a step, `sequence_s` for each sequence that decodes in the
    replica, because the scheduler goes through all of them in every pass of a pipeline. A step that holds prompt
    tokens takes at least `prefill_layer_s` per layer to launch. `prefill_share` of what prefill adds to a step is seen
    by the decoding sequences. Offline runs give `offline_scale` times the closed form. The mean time to the first
    token is `ttft_lone` times that of a lone prompt, `ttft_scale` times what later waves wait beyond it in a simulated
    loop, `ttft_burst` of what the first wave waits beyond those, `ttft_steps` decode steps, and `ttft_offset_s`. The
    `lockstep` constants are the same for requests of equal length, whose clients stay in step so that every wave is a
    burst. Norms, activations and residual additions move `elementwise_bytes` per element that dense products read and
    write; compiled engines fuse more of them. Narrowing the inputs of products in fp8, int8 or four bits takes the time
    of `quantised_bytes` per element, near nothing where it is fused into the norm before. Where tokens are drawn from
    the most likely ones (top-p, top-k), an engine that sorts takes `sorted_logit_s` for each logit of each row.
    """

    layer_s: float
    step_s: float
    sequence_s: float
    prefill_layer_s: float
    prefill_share: float
    offline_scale: float
    ttft_lone: float
    ttft_scale: float
    ttft_burst: float
    ttft_steps: float
    ttft_offset_s: float
    lockstep_lone: float
    lockstep_scale: float
    lockstep_burst: float
    lockstep_steps: float
    lockstep_offset_s: float
    elementwise_bytes: float
    quantised_bytes: float
    sorted_logit_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkConstants:
    """Collectives between GPUs.

    An all-reduce over two GPUs takes `latency_s`, and `latency_growth` of that more for each doubling of the GPUs;
    its bytes move at `bus_fraction` of the link's two-way figure. Larger tensors are reduced in stages that wait for
    one another: up to `staged_s` more, half of it at `staged_bytes`. `switched` constants are
    those of NVLink and Infinity Fabric, the others of PCIe. The bus bandwidth changes by the factor `bus_decline` with
    each doubling.
    """

    latency_s: float
    latency_growth: float
    bus_fraction: float
    bus_decline: float
    staged_s: float
    staged_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceConstants:
    """How GPUs that are not like those measured differ from what they print.

    Peaks are divided by (1 + (FLOP per joule ÷ `power_knee`)^4)^¼, because power limits clocks. GDDR and LPDDR
    reach `narrow_bandwidth` times the share of bandwidth that HBM reaches. GPUs of other vendors than NVIDIA reach
    `other_compute` and `other_bandwidth` times the shares, and their kernels' fixed times are `other_fixed` times
    as long.
    """

    power_knee: float
    narrow_bandwidth: float
    other_compute: float
    other_bandwidth: float
    other_fixed: float


WIDTH_NAMES = (
    "tpot, dense", "tpot, experts", "ttft, dense", "ttft, experts", "ttft, fixed batch", "tokens, dense",
    "tokens, experts",
)  # fmt: skip
"""The interval widths of a calibration, by metric and kind of model; `tokens` are those of offline runs.

A calibration may add widths of one generation of an engine, such as "tpot, dense, vllm"."""


def engine_width(name: str, engine: str) -> str:
    return f"{name}, {engine}"


def pair_name(name: str, engine: str) -> str:
    """Return the name of a model, a GPU or a generation of GPUs with an engine, whatever its generation."""
    return f"{name} | {engine.split(maxsplit=1)[0]}"


_SAME_KERNELS = {"llama.cpp before 2025": "llama.cpp"}
"""Generations of an engine whose kernels are those of another: they differ in what the host does between kernels."""


def vendor_name(vendor: str, architecture: str, engine: str) -> str:
    """Return the name of a vendor's line of GPUs with the kernels of one generation of an engine.

    A vendor that numbers its architectures has a line of each name (CDNA, RDNA), whose matrix units have instructions
    of their own, so that one says nothing of the kernels of the other.
    """
    line = architecture.rstrip("0123456789.") if architecture[-1:].isdigit() else vendor
    return f"{line} | {_SAME_KERNELS.get(engine, engine)}"


def factor_name(engine: str, architecture: str, kernel: str) -> str:
    return f"{kernel} | {_SAME_KERNELS.get(engine, engine)} | {architecture}"


def fixed_name(engine: str, vendor: str, architecture: str) -> str:
    """Return the name of the factor of the fixed times of all kernels of an engine on a vendor's line of GPUs.

    Kernels that another vendor's GPUs run are fused less and wait longer, in older releases of an engine more than in
    newer ones, whatever a step computes: DeepSeek-R1 on eight MI300X takes 10 ms more in SGLang 0.5.9 than in 0.5.12,
    with 4 clients as with 64.
    """
    line, _, engine = vendor_name(vendor, architecture, engine).partition(" | ")
    return f"fixed times | {engine} | {line}"


class Novelty(StrEnum):
    """What of a question lies outside of what was measured, nearest first within the model, the GPU and the engine.

    `FORMAT` is a class of kernels that no run exercised in the engine, `NETWORK` an exchange between servers in every
    layer. `RELEASE` is a release of an engine newer than those that were measured, `OLDER` one that is older, `ENGINE`
    an engine under no load. `OWNER` is a card that stands in machines of its owners, whose lanes, power limits and
    builds nobody states.
    """

    MODEL = "model"
    FORMAT = "format"
    GPU = "gpu"
    ARCHITECTURE = "architecture"
    VENDOR = "vendor"
    NETWORK = "network"
    RELEASE = "release"
    ENGINE = "engine"
    OLDER = "older"
    OWNER = "owner"


DISTANCES: Mapping[str, tuple[Novelty, ...]] = {
    "model": (Novelty.MODEL, Novelty.FORMAT),
    "hardware": (Novelty.GPU, Novelty.ARCHITECTURE, Novelty.VENDOR, Novelty.NETWORK),
    "software": (Novelty.RELEASE, Novelty.ENGINE, Novelty.OLDER),
    "place": (Novelty.OWNER,),
}
"""Novelties that follow one another from near to far; of each row the farthest counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Width:
    """Half-width of a 90 % interval as a factor, and what each novelty adds to it in the square of its logarithm.

    `same` is that of a deployment whose model, GPU and engine were measured in other settings. The error of a run is
    that of its deployment, which all its runs share, and its own around it. `within` is the half-width of the second
    part, which remains where runs of the deployment itself were measured.

    Errors lean: what was never tuned takes longer than expected far more often than less. An interval ends at the
    half-width to the power of `above` over the expected value, and at that to the power of `below` under it.
    """

    same: float
    model: float = 1.0
    format: float = 1.0
    gpu: float = 1.0
    architecture: float = 1.0
    vendor: float = 1.0
    network: float = 1.0
    release: float = 1.0
    engine: float = 1.0
    older: float = 1.0
    owner: float = 1.0
    within: float = 1.2
    above: float = 1.0
    below: float = 1.0

    def half(self, novelties: Set[Novelty]) -> float:
        square = log(self.same) ** 2
        for row in DISTANCES.values():
            found = [novelty for novelty in row if novelty in novelties]
            square += max((log(getattr(self, novelty.value)) ** 2 for novelty in found), default=0.0)
        return exp(sqrt(square))


@dataclass(frozen=True, kw_only=True)
class LlmCalibration:
    """All constants of step times; `widths` by metric, `measured_*` what the constants were learnt from.

    `measured_segments` are markets of GPUs (data-centre, consumer, ...). With the engine that ran them, by `pair_name`,
    `measured_gpus` are GPUs, `measured_pairs` models, and `measured_releases` the oldest and the newest release on a
    generation of GPUs; `measured_vendors` are vendors of GPUs by `vendor_name`.
    `single_streams` are, by engine, the GPUs on which single streams of one model were measured, and nothing else of
    the engine. `kernel_factors` multiply the time of a class of kernels in one engine on one architecture, by
    `factor_name`; what has none was not timed.
    """

    name: str
    origin: Origin | None = None
    kernels: Mapping[KernelClass, KernelConstants]
    engines: Mapping[str, EngineTimes]
    switched: LinkConstants
    host: LinkConstants
    device: DeviceConstants
    widths: Mapping[str, Width] = field(default_factory=dict)
    measured_gpus: frozenset[str] = frozenset()
    measured_engines: frozenset[str] = frozenset()
    measured_segments: frozenset[str] = frozenset()
    measured_pairs: frozenset[str] = frozenset()
    measured_vendors: frozenset[str] = frozenset()
    measured_releases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    single_streams: Mapping[str, frozenset[str]] = field(default_factory=dict)
    kernel_factors: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def timed_kernels(self) -> Mapping[str, frozenset[tuple[str, str]]]:
        """Return the classes of kernels that were timed, each with its architecture, by the name of the engine."""
        timed: dict[str, set[tuple[str, str]]] = {}
        for kernel, engine, where in (name.split(" | ") for name in self.kernel_factors):
            timed.setdefault(engine.split(maxsplit=1)[0], set()).add((kernel, where))
        return {engine: frozenset(run) for engine, run in timed.items()}

    def width(self, name: str, engine: str) -> Width:
        """Return the interval widths of a metric: those of the engine's generation, of its newest, or of all
        engines.
        """
        name = name if name in self.widths else name.partition(" of ")[0]
        newest = engine_width(name, engine.split(maxsplit=1)[0])
        return self.widths.get(engine_width(name, engine)) or self.widths.get(newest) or self.widths[name]
