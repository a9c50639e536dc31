"""A training job: what is trained, in which formats, and how GPUs share it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from capplan.core.gpus.spec import GpuSpec, PeakKind
from capplan.errors import UsageError
from capplan.llm.core.architecture import Architecture
from capplan.llm.core.layers import Experts
from capplan.llm.core.sharding import Sharding, check_sharding
from capplan.llm.core.training.frameworks import Family, States, TrainingFramework
from capplan.llm.core.training.objective import OBJECTIVES, Objective, ObjectiveParts, WordOfTraining


class Method(WordOfTraining):
    """Which parameters are trained: all, or low-rank adapters beside a frozen base in 16 bits or quantised."""

    FULL = "full"
    LORA = "lora"
    QLORA = "qlora"


class Compute(StrEnum):
    """The number format of matrix products; optimizer and norms stay in fp32."""

    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    MXFP8 = "mxfp8"
    NVFP4 = "nvfp4"
    TF32 = "tf32"
    FP32 = "fp32"


class Recompute(StrEnum):
    """What is computed again in the backward pass instead of being kept.

    `ATTENTION` is the attention core alone (Korthikanti et al. 2022), `OPERATORS` every second matrix product and all
    pointwise operators (torchtitan's selective checkpointing, Megatron's recomputed modules), `FULL` whole layers.
    """

    NONE = "none"
    ATTENTION = "attention"
    OPERATORS = "operators"
    FULL = "full"


class Shard(StrEnum):
    """What data-parallel ranks share: nothing, optimizer states, also gradients, also parameters (FSDP, ZeRO)."""

    NONE = "none"
    ZERO1 = "zero1"
    ZERO2 = "zero2"
    ZERO3 = "zero3"


class OptimizerRecipe(WordOfTraining):
    """Optimizers by the states that they keep."""

    ADAMW = "adamw"
    ADAMW_BF16 = "adamw-bf16"
    ADAMW_8BIT = "adamw-8bit"
    PAGED_ADAMW_8BIT = "paged-adamw-8bit"
    ADAMW_4BIT = "adamw-4bit"
    ADAFACTOR = "adafactor"
    MUON = "muon"
    LION = "lion"
    SGD = "sgd"
    SGD_MOMENTUM = "sgd-momentum"


class BaseFormat(WordOfTraining):
    """How the frozen base of adapters is stored: NF4 in blocks of 64, with quantised scales, 8 or 16 bits."""

    BF16 = "bf16"
    NF4 = "nf4"
    NF4_DQ = "nf4-dq"
    INT8 = "int8"
    FP8 = "fp8"

    @property
    def bytes_per_parameter(self) -> float:
        """Return the bytes of one stored parameter. [bytes]

        NF4 has 4 bits and an fp32 scale per block of 64: 0.5625 bytes. Double quantisation stores the scales in 8
        bits with an fp32 scale per 256 of them: 4 + 8/64 + 32/(64·256) bits = 4.127 bits (QLoRA, arXiv 2305.14314).
        """
        return {
            BaseFormat.BF16: 2.0,
            BaseFormat.NF4: (4 + 32 / 64) / 8,
            BaseFormat.NF4_DQ: (4 + 8 / 64 + 32 / (64 * 256)) / 8,
            BaseFormat.INT8: 1.0,
            BaseFormat.FP8: 1.0,
        }[self]


class Offloaded(StrEnum):
    """What is kept in the host's memory instead of the GPU's."""

    OPTIMIZER = "optimizer"
    PARAMETERS = "parameters"
    ACTIVATIONS = "activations"


class AttentionImplementation(StrEnum):
    """How attention is computed.

    `EAGER` writes whole score matrices, `FLASH1` is FlashAttention 1 and Triton's kernel of its time, `FLASH`
    FlashAttention-2, and `TUNED` the vendor's kernel.
    """

    EAGER = "eager"
    FLASH1 = "flash1"
    FLASH = "flash"
    TUNED = "tuned"


ALL_LINEAR = ("q", "k", "v", "o", "gate_up", "down")


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """Low-rank adapters: their rank, and the matrices that have one (`q`, `k`, `v`, `o`, `gate_up`, `down`, `head`)."""

    rank: int = 16
    targets: tuple[str, ...] = ALL_LINEAR


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingLayout:
    """How GPUs share a job.

    `virtual` is the number of model chunks of a pipeline stage (interleaving); `expert` distributes whole experts over
    the GPUs of `tensor · data · context`, and `expert_tensor` cuts the matrices of one. `shard_group` is the number of
    data-parallel ranks that share states (hybrid sharding); None for all. `sequence_parallel` distributes norms along
    the sequence over the tensor-parallel GPUs. `zero_bubble` says that the pipeline's schedule splits the backward
    pass (ZB-H1), which leaves a third of the bubble. `keep_gathered` says that FSDP does not drop a layer's parameters
    after the forward pass (`reshard_after_forward` false or never), so that they are gathered once for both passes.
    """

    gpus: int = 1
    tensor: int = 1
    pipeline: int = 1
    virtual: int = 1
    context: int = 1
    expert: int = 1
    expert_tensor: int = 1
    sequence_parallel: bool = False
    shard: Shard = Shard.NONE
    shard_group: int | None = None
    gpus_per_node: int = 8
    zero_bubble: bool = False
    keep_gathered: bool = False

    @property
    def data(self) -> int:
        return max(1, self.gpus // (self.tensor * self.pipeline * self.context))

    @property
    def state_ranks(self) -> int:
        """Return how many ranks share the states of dense parameters: data and context parallelism together."""
        ranks = self.data * self.context
        return min(ranks, self.shard_group) if self.shard_group else ranks

    @property
    def expert_ranks(self) -> int:
        """Return how many ranks hold the same experts and share their states."""
        return max(1, self.tensor * self.data * self.context // (self.expert * self.expert_tensor))

    @property
    def words(self) -> str:
        """Return the layout in the words of command lines, such as "TP 8, PP 4, DP 16, ZeRO-1"."""
        named = [
            ("TP", self.tensor), ("PP", self.pipeline), ("VP", self.virtual), ("CP", self.context),
            ("EP", self.expert), ("DP", self.data),
        ]  # fmt: skip
        parts = [f"{name} {count}" for name, count in named if count > 1]
        sharded = {Shard.ZERO1: "ZeRO-1", Shard.ZERO2: "ZeRO-2", Shard.ZERO3: "FSDP/ZeRO-3"}.get(self.shard)
        if sharded and self.state_ranks * self.expert_ranks > 1:
            parts.append(sharded + (f" in groups of {self.shard_group}" if self.shard_group else ""))
        return ", ".join(parts) or "one GPU"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJob:
    """A training job.

    Attributes:
        adapter: The adapters of LoRA and QLoRA.
        base: How the frozen base is stored.
        compute: Number format of matrix products.
        states: Formats of weights, gradients and optimizer states.
        layout: How GPUs share it.
        micro_batch: Sequences of one forward pass on one data-parallel rank.
        accumulation: Micro-batches of one optimizer step.
        fused_loss: The loss is computed by chunks.
        compiled: Pointwise operators are fused by a compiler.
        offloaded: What lies in the host's memory.
        optimizer_in_backward: Each parameter is updated as soon as its gradient is there, which is then dropped.
        completion_tokens: What of a sequence is generated, where the objective generates.
        rollout_fraction: The share of a GPU's memory that the engine keeps which generates on the same GPUs.
    """

    architecture: Architecture
    framework: TrainingFramework
    method: Method = Method.FULL
    adapter: Adapter = field(default_factory=Adapter)
    base: BaseFormat = BaseFormat.BF16
    compute: Compute = Compute.BF16
    states: States = States.MASTER
    optimizer: OptimizerRecipe = OptimizerRecipe.ADAMW
    layout: TrainingLayout = field(default_factory=TrainingLayout)
    sequence_tokens: int = 4096
    micro_batch: int = 1
    accumulation: int = 1
    recompute: Recompute = Recompute.NONE
    attention: AttentionImplementation = AttentionImplementation.FLASH
    fused_loss: bool = False
    compiled: bool = False
    offloaded: frozenset[Offloaded] = frozenset()
    optimizer_in_backward: bool = False
    objective: Objective = Objective.SFT
    completion_tokens: int = 0
    rollout_fraction: float = 0.0

    @property
    def parts(self) -> ObjectiveParts:
        return OBJECTIVES[self.objective]

    @property
    def is_adapted(self) -> bool:
        return self.method is not Method.FULL

    @property
    def is_widened(self) -> bool:
        """Return True if a quantised base runs in fp32 outside of its matrix products.

        No trainer prepares a sharded base so: its flat parameters keep one format (TRL's `is_sharded_qlora`, axolotl's
        `skip_prepare_model_for_kbit_training`).
        """
        is_sharded = self.layout.shard is Shard.ZERO3 and self.layout.gpus > 1
        return self.method is Method.QLORA and self.framework.widens_quantised and not is_sharded

    @property
    def micro_tokens(self) -> float:
        return self.micro_batch * self.parts.sequences * self.sequence_tokens / self.layout.context

    @property
    def global_batch(self) -> int:
        """Return the samples of one optimizer step: sequences, or pairs of them."""
        return self.micro_batch * self.accumulation * self.layout.data

    @property
    def step_tokens(self) -> int:
        return self.global_batch * self.parts.sequences * self.sequence_tokens


def default_shard(framework: TrainingFramework, *, ranks: int) -> Shard:
    """Return what data-parallel ranks share unless a job says otherwise: states with Megatron, all with the others."""
    if ranks <= 1:
        return Shard.NONE
    return Shard.ZERO1 if framework.family is Family.MEGATRON else Shard.ZERO3


def recompute_choices(job: TrainingJob) -> tuple[Recompute, ...]:
    """Return what a job's framework can compute again, the least first."""
    if job.framework.family in (Family.FSDP, Family.MEGATRON) and job.attention is not AttentionImplementation.EAGER:
        return (Recompute.NONE, Recompute.OPERATORS, Recompute.FULL)
    if job.attention is AttentionImplementation.EAGER:
        return (Recompute.NONE, Recompute.ATTENTION, Recompute.FULL)
    return (Recompute.NONE, Recompute.FULL)


def check_job(job: TrainingJob) -> None:
    layout, name = job.layout, job.architecture.name
    product = layout.tensor * layout.pipeline * layout.context
    if layout.gpus % product:
        raise UsageError(f"{layout.gpus} GPUs are not a multiple of tp × pp × cp = {product}.")
    if job.sequence_tokens % layout.context:
        raise UsageError(
            f"⟨cp⟩ {layout.context} does not divide sequences of {job.sequence_tokens} tokens; change one of them."
        )
    ranks = layout.data * layout.context
    if layout.shard_group and ranks > layout.shard_group and ranks % layout.shard_group:
        raise UsageError(
            f"⟨shard-group⟩ {layout.shard_group} does not divide the {ranks} ranks of data and context parallelism."
        )
    check_sharding(job.architecture, Sharding(tensor=layout.tensor))
    layers = len(job.architecture.layers)
    if layout.pipeline * layout.virtual > layers:
        raise UsageError(f"{name}: {layout.pipeline * layout.virtual} pipeline chunks are more than {layers} layers.")
    experts = [layer.mlp.count for layer in job.architecture.layers if isinstance(layer.mlp, Experts)]
    if layout.expert > 1 and not experts:
        raise UsageError(f"{name} has no experts, so ⟨ep⟩ {layout.expert} does nothing; leave it out.")
    if experts and max(experts) % layout.expert:
        raise UsageError(f"{name}: ⟨ep⟩ {layout.expert} does not divide its {max(experts)} experts.")
    stage = layout.tensor * layout.data * layout.context
    if stage % (layout.expert * layout.expert_tensor):
        raise UsageError(f"⟨ep⟩ {layout.expert} does not divide the {stage} GPUs of a stage (tp × cp × dp).")
    if job.optimizer_in_backward and job.accumulation > 1:
        raise UsageError(
            "An optimizer that steps in the backward pass (⟨optimizer-in-backward⟩) cannot sum gradients of several "
            "micro-batches: leave out ⟨accumulate⟩, or take a larger ⟨micro-batch⟩."
        )
    if layout.keep_gathered and layout.shard is not Shard.ZERO3:
        raise UsageError("⟨keep-gathered⟩ is about parameters that are shared; add ⟨shard⟩ zero3, or leave it out.")
    if job.parts.generates and not 0 < job.completion_tokens < job.sequence_tokens:
        raise UsageError(
            f"⟨completion-len⟩ {job.completion_tokens} must be below the {job.sequence_tokens} tokens of a sequence "
            "(⟨seq-len⟩), which holds the prompt, too."
        )
    if job.method is Method.QLORA and job.base is BaseFormat.BF16:
        raise UsageError("QLoRA needs a quantised base; add ⟨base⟩ nf4-dq, or ask for lora.")


_TARGETS = {
    "q_proj": "q", "query": "q", "q": "q", "k_proj": "k", "key": "k", "k": "k", "v_proj": "v", "value": "v", "v": "v",
    "o_proj": "o", "projection": "o", "o": "o", "output_proj": "o", "gate_proj": "gate_up", "up_proj": "gate_up",
    "gate_up": "gate_up", "w1": "gate_up", "w3": "gate_up", "down_proj": "down", "down": "down", "w2": "down",
    "head": "head", "lm_head": "head", "output": "head",
}  # fmt: skip
_TARGET_GROUPS = {
    "attention": ("q", "k", "v", "o"), "self_attn": ("q", "k", "v", "o"), "all": ALL_LINEAR, "all-linear": ALL_LINEAR,
    "mlp": ("gate_up", "down"),
}  # fmt: skip


def adapter_targets(words: Sequence[str]) -> tuple[str, ...]:
    """Return the matrices that names stand for, as common frameworks write them.

    >>> adapter_targets(["q_proj", "mlp"])
    ('q', 'gate_up', 'down')
    """
    found: list[str] = []
    for word in words:
        name = word.strip().lower()
        if name not in _TARGETS and name not in _TARGET_GROUPS:
            known = ", ".join((*_TARGET_GROUPS, *dict.fromkeys(_TARGETS.values())))
            raise UsageError(f"{word!r} names no matrix that adapters are put beside; known are {known}.")
        found += _TARGET_GROUPS.get(name, (_TARGETS.get(name, ""),))
    return tuple(dict.fromkeys(found))


_SHARING_LAYERS = (Family.MEGATRON, Family.FSDP, Family.XLA)
"""Families of frameworks that share layers and sequences among GPUs; others share data and states alone."""
_SINCE = {
    Compute.BF16: (8, 0),
    Compute.TF32: (8, 0),
    Compute.FP8: (8, 9),
    Compute.MXFP8: (10, 0),
    Compute.NVFP4: (10, 0),
}
"""NVIDIA's compute capability from which on matrix units take a format (CUDA C++ Programming Guide, "Compute
Capabilities", from memory)."""
_KINDS = {Compute.BF16: PeakKind.BF16, Compute.FP8: PeakKind.FP8, Compute.MXFP8: PeakKind.FP4}
"""The printed rate that says it of other vendors: block-scaled formats came with those of 4 bits."""
_FLASH_SINCE = (8, 0)
"""FlashAttention-2's README: Ampere and later."""


def shares_layers(framework: TrainingFramework) -> bool:
    """Return True if a framework shares layers and sequences among GPUs, beside data and states."""
    return framework.family in _SHARING_LAYERS


def lacking_units(job: TrainingJob, gpu: GpuSpec) -> str | None:
    """Return why a GPU has no units for a job's matrix products; None where it has them."""
    compute, since = job.compute, _SINCE.get(job.compute)
    if since is None:
        return None
    if gpu.compute_capability is not None:
        has = gpu.compute_capability >= since
    else:
        kind = _KINDS.get(compute)
        has = compute is not Compute.NVFP4 and (kind is None or gpu.peak(kind) is not None)
    if has:
        return None
    instead = "fp16" if compute is Compute.BF16 else "bf16" if gpu.peak(PeakKind.BF16) else "fp16"
    return f"{gpu.id} has no matrix units for {compute.value}; take ⟨precision⟩ {instead}"


def impossible(job: TrainingJob, gpu: GpuSpec) -> str | None:
    """Return why a job cannot be run on a GPU; None where nothing speaks against it."""
    layout, name = job.layout, job.framework.name
    if (lacking := lacking_units(job, gpu)) is not None:
        return lacking
    shared = {"⟨tp⟩": layout.tensor, "⟨pp⟩": layout.pipeline, "⟨cp⟩": layout.context, "⟨ep⟩": layout.expert}
    for option, degree in shared.items():
        if degree > 1 and not shares_layers(job.framework):
            return (
                f"{name} shares data and states among GPUs, and its layers are not known to be shared here: leave out "
                f"{option} {degree}, or take torchtitan, megatron or nemo"
            )
    if layout.pipeline == 1 and layout.virtual > 1:
        return f"⟨vp⟩ {layout.virtual} divides stages of a pipeline, of which there is none; add ⟨pp⟩, or leave it out"
    if layout.pipeline == 1 and layout.zero_bubble:
        return "⟨zero-bubble⟩ is about a pipeline, of which there is none; add ⟨pp⟩, or leave it out"
    rows = job.architecture.position_rows
    if rows and job.sequence_tokens > rows:
        return f"{job.architecture.name} has {rows:,} learned positions, fewer than ⟨seq-len⟩ {job.sequence_tokens:,}"
    return None


def unknown_attention(gpu: GpuSpec, asked: AttentionImplementation | None) -> str | None:
    """Return why a kernel of attention that is asked for by name does not run on a GPU; None where it does."""
    held = gpu.compute_capability
    if asked is not AttentionImplementation.FLASH or held is None or held >= _FLASH_SINCE:
        return None
    return (
        f"FlashAttention-2 needs compute capability 8.0, and {gpu.id} has {held[0]}.{held[1]}; take ⟨attention⟩ flash1"
    )
