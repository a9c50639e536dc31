"""Divide the memory of a training GPU: weights, gradients, optimizer states, activations, logits, buffers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from capplan.core.assumed import OFFLOADED_SHARE
from capplan.llm.core.tensors import count_parameters
from capplan.llm.core.training.activations import (
    LayerActivations,
    interleaved_share,
    layer_activations,
    logit_elements,
    tiles_loss,
)
from capplan.llm.core.training.frameworks import Family, States
from capplan.llm.core.training.job import (
    BaseFormat,
    Compute,
    Method,
    Offloaded,
    OptimizerRecipe,
    Recompute,
    Shard,
    TrainingJob,
)
from capplan.llm.core.training.parameters import StageParameters, layers_per_stage, stage_parameters

_HALF, _SINGLE = 2.0, 4.0
"""Bytes of an element in 16 bits and in fp32."""
_STATE_BYTES = {
    OptimizerRecipe.ADAMW: 8.0,
    OptimizerRecipe.ADAMW_BF16: 4.0,
    OptimizerRecipe.ADAMW_8BIT: 2.0,
    OptimizerRecipe.PAGED_ADAMW_8BIT: 2.0,
    OptimizerRecipe.ADAMW_4BIT: 1.0,
    OptimizerRecipe.ADAFACTOR: 0.02,
    OptimizerRecipe.MUON: 4.0,
    OptimizerRecipe.LION: 4.0,
    OptimizerRecipe.SGD: 0.0,
    OptimizerRecipe.SGD_MOMENTUM: 4.0,
}
"""Bytes of optimizer states per parameter. Adafactor keeps a row and a column per matrix, about 1 % of fp32."""

_STATES_OF_PARAMETERS = (
    OptimizerRecipe.ADAMW,
    OptimizerRecipe.MUON,
    OptimizerRecipe.LION,
    OptimizerRecipe.SGD_MOMENTUM,
)
"""Optimizers whose states take the format of the parameters: 16 bits where these are purely in 16 bits."""


class MemoryScope(StrEnum):
    """What a memory figure counts: tensors, what the allocator reserved for them, or all of the process's memory."""

    ALLOCATED = "allocated"
    RESERVED = "reserved"
    DEVICE = "device"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryConstants:
    """Fitted constants of training memory.

    `activations` scales the counted activations by family of frameworks, `logit_bytes` are the bytes of a logit with
    its gradient and copies, `workspace_bytes` what libraries take of the allocator's memory. `base_extra_bytes` is what
    they hold beside a 4-bit base of any size. `reserved_share` is reserved over allocated memory of what comes and goes
    in a step, `context_bytes` the memory outside of the allocator, and `network_bytes` what collectives between servers
    add to it.
    """

    activations: Mapping[Family, float]
    logit_bytes: Mapping[Family, float]
    workspace_bytes: float
    base_extra_bytes: float
    reserved_share: float
    context_bytes: float
    network_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingMemory:
    """The memory of one GPU at the peak of a training step. [bytes]

    `unsharded` are parameters and gradients that sharded data parallelism gathers for a layer. `host` is what is
    offloaded, and what is `paged`: states that the driver keeps on the GPU as far as it has room. `gradients` that are
    allocated during the backward pass stand beside activations that it frees, so that `peak_gradients` and
    `peak_activations` say how much of each there is at the peak. `frozen` are reference and reward models.
    """

    stage: int
    weights: float
    adapters: float
    gradients: float
    optimizer: float
    unsharded: float
    activations: float
    workspace: float
    host: float
    paged: float
    peak_gradients: float
    peak_activations: float
    frozen: float = 0.0

    @property
    def allocated(self) -> float:
        return (
            self.weights
            + self.frozen
            + self.adapters
            + self.optimizer
            + self.unsharded
            + self.peak_gradients
            + self.peak_activations
            + self.workspace
        )

    def unused(self, constants: MemoryConstants) -> float:
        """Return what the allocator holds beyond tensors: pieces between those that come and go in a step. [bytes]"""
        passing = self.unsharded + self.peak_gradients + self.peak_activations + self.workspace
        return (constants.reserved_share - 1.0) * passing


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOutlook:
    """The memory of a job: of its tightest stage, what the process takes in all, and what loading takes. [bytes]

    `outside` is the process's memory outside of the allocator: the driver's context and buffers of collectives.
    `host` is the memory of one node's host for what is offloaded.
    """

    job: TrainingJob
    stages: tuple[TrainingMemory, ...]
    constants: MemoryConstants
    outside: float
    load: float
    host: float

    @property
    def load_host(self) -> float:
        """Return what loading takes of a host: the 16-bit checkpoint, about a quarter at a time for one GPU. [bytes]"""
        checkpoint = _HALF * count_parameters(self.job.architecture)
        return checkpoint if self.job.layout.gpus > 1 else checkpoint / 4

    @property
    def tightest(self) -> TrainingMemory:
        return max(self.stages, key=lambda stage: stage.allocated)

    def peak(self, kind: MemoryScope) -> float:
        allocated = self.tightest.allocated
        if kind is MemoryScope.ALLOCATED:
            return allocated
        reserved = allocated + self.tightest.unused(self.constants)
        return reserved if kind is MemoryScope.RESERVED else reserved + self.outside

    def paged_out(self, usable_bytes: float) -> float:
        """Return what of paged states a GPU has no room for. [bytes]"""
        paged = self.tightest.paged
        return min(paged, max(0.0, self.peak(MemoryScope.DEVICE) + paged - usable_bytes))


def bytes_per_parameter(job: TrainingJob, *, ranks: int) -> float:
    """Return the bytes of weights, gradients and states of one trained parameter.

    For 16-bit weights with an fp32 master, n the bytes of gradients and d ranks: without sharding 2 + n + 12, with
    ZeRO-1 2 + n + 12/d, with ZeRO-2 2 + (n + 12)/d, with ZeRO-3 all of it divided by d. Where the optimizer keeps an
    fp32 copy of 16-bit gradients, 12 is 16, and under ZeRO-3 the copy is all that is kept of them.
    """
    weights, gradients, states = state_bytes(job)
    shard = job.layout.shard
    states /= ranks if shard is not Shard.NONE else 1
    gradients /= ranks if shard in (Shard.ZERO2, Shard.ZERO3) else 1
    weights /= ranks if shard is Shard.ZERO3 else 1
    return weights + gradients + states


def state_bytes(job: TrainingJob) -> tuple[float, float, float]:
    """Return the bytes of a trained parameter's weight, its gradient, and its optimizer states with a master copy."""
    states = _STATE_BYTES[job.optimizer]
    if job.states is States.PURE:
        return 2.0, 2.0, states / 2 if job.optimizer in _STATES_OF_PARAMETERS else states
    if job.states is States.AUTOCAST:
        return 4.0, 4.0, states
    if job.framework.copies_gradients:
        return 2.0, 0.0 if job.layout.shard is Shard.ZERO3 else _HALF, 4.0 + states + _SINGLE
    if job.framework.family is Family.MEGATRON and job.compute is Compute.FP16:
        # Megatron-LM's README: fp16 parameters and gradients take 20 bytes, or 4 + 16/d with the distributed optimizer.
        return 2.0, _HALF, 4.0 + states + _SINGLE
    return 2.0, job.framework.gradient_bytes, 4.0 + states


@dataclass(frozen=True, slots=True)
class CountedJob:
    """What is counted of a job: parameters and layers by stage, and activations by kind of layer."""

    job: TrainingJob
    parameters: Sequence[StageParameters]
    sizes: Sequence[int]
    kinds: Sequence[tuple[LayerActivations, int]]


def count_job(job: TrainingJob) -> CountedJob:
    return CountedJob(
        job,
        stage_parameters(job),
        layers_per_stage(job.architecture, job.layout),
        [(layer_activations(layer, job), count) for layer, count in job.architecture.layer_kinds],
    )


def estimate_memory(job: TrainingJob, constants: MemoryConstants) -> MemoryOutlook:
    return memory_of(count_job(job), constants)


def memory_of(counted: CountedJob, constants: MemoryConstants) -> MemoryOutlook:
    job = counted.job
    stages = tuple(
        _stage(job, index, held, constants, activations=_activations(job, index, size, counted.kinds, constants))
        for index, (held, size) in enumerate(zip(counted.parameters, counted.sizes, strict=True))
    )
    per_node = min(job.layout.gpus, job.layout.gpus_per_node)
    return MemoryOutlook(
        job=job,
        stages=stages,
        constants=constants,
        outside=constants.context_bytes
        + (constants.network_bytes if job.layout.gpus > job.layout.gpus_per_node else 0.0),
        load=max(stage.weights + stage.frozen + stage.adapters for stage in stages) + stages[0].unsharded,
        host=per_node * max(stage.host for stage in stages),
    )


def _stage(
    job: TrainingJob, index: int, held: StageParameters, constants: MemoryConstants, *, activations: tuple[float, float]
) -> TrainingMemory:
    weights, adapters, gradients, optimizer, unsharded = _states(job, held)
    frozen, doubled = _frozen_bytes(job, held, weights), 1 + (0 if job.is_adapted else job.parts.values)
    weights, gradients, optimizer = weights * doubled, gradients * doubled, optimizer * doubled
    is_last = index == job.layout.pipeline - 1
    family = job.framework.family
    kept, recomputed = activations
    by_tiles = tiles_loss(job)
    in_place = by_tiles or job.framework.loss_in_place
    per_logit = _IN_PLACE_LOGIT_BYTES if in_place else constants.logit_bytes[family]
    # A reference's logits in 16 bits stand beside the trained model's, unless tiles of either are gone before.
    per_logit += 0.0 if by_tiles else _HALF * job.parts.beside
    logits = logit_elements(job) * per_logit if is_last else 0.0
    kept *= doubled  # policy and value run before one common backward pass
    paged = optimizer if job.optimizer is OptimizerRecipe.PAGED_ADAMW_8BIT else 0.0
    host = 0.0
    if Offloaded.OPTIMIZER in job.offloaded or paged:
        host, optimizer = host + optimizer, 0.0
    if {Offloaded.OPTIMIZER, Offloaded.PARAMETERS} & job.offloaded and not job.is_adapted:
        host += gradients
        # Shared gradients go to the host layer by layer (FSDP's CPUOffloadPolicy, ZeRO-Offload).
        gradients = 0.0 if job.layout.shard in (Shard.ZERO2, Shard.ZERO3) else gradients
    if Offloaded.PARAMETERS in job.offloaded:
        host, weights = host + weights, 0.0
    if Offloaded.ACTIVATIONS in job.offloaded:
        moved = kept * OFFLOADED_SHARE
        host, kept = host + moved, kept - moved
    live = kept + max(recomputed, logits)
    if job.framework.keeps_gradients or job.accumulation > 1 or (job.layout.shard is Shard.NONE and job.is_adapted):
        peak_gradients, peak_activations = gradients, live
    elif live >= gradients:
        peak_gradients, peak_activations = min(gradients, recomputed), live
    else:
        peak_gradients, peak_activations = gradients, recomputed
    return TrainingMemory(
        stage=index,
        weights=weights,
        adapters=adapters,
        gradients=gradients,
        optimizer=optimizer,
        unsharded=unsharded,
        activations=kept,
        workspace=constants.workspace_bytes + _expanding_bytes(job, held, constants),
        host=host,
        paged=paged,
        peak_gradients=peak_gradients,
        peak_activations=peak_activations,
        frozen=frozen,
    )


def _frozen_bytes(job: TrainingJob, held: StageParameters, weights: float) -> float:
    """Return the bytes of frozen models: copies of the trained one in its format, and models of rewards in 16 bits.

    Adapters have their reference under them, and what they are put on stands for the reward's base.
    """
    if job.is_adapted:
        return weights * job.parts.rewards
    ranks = job.layout.state_ranks if job.layout.shard is Shard.ZERO3 else 1
    whole = weights if Offloaded.PARAMETERS not in job.offloaded else 0.0
    return whole * job.parts.references + _HALF * held.total / ranks * job.parts.rewards


_IN_PLACE_LOGIT_BYTES = 4.0
"""Bytes of a logit whose loss works in place: the 16-bit logits and their gradient or the copy shifted by one token."""


def _states(job: TrainingJob, held: StageParameters) -> tuple[float, float, float, float, float]:
    """Return weights, adapters with their states, gradients, optimizer states, and what is gathered. [bytes]"""
    layout = job.layout
    dense_ranks, expert_ranks = layout.state_ranks, layout.expert_ranks
    dense = held.dense + held.embedding + held.head
    if job.method is not Method.FULL:
        return _adapted_states(job, held)
    weight, gradient, state = state_bytes(job)
    by_three = layout.shard is Shard.ZERO3
    by_two = by_three or layout.shard is Shard.ZERO2
    by_one = by_two or layout.shard is Shard.ZERO1

    def shared(size: float, *, is_shared: bool) -> float:
        if not is_shared:
            return size * (dense + held.experts)
        return size * (dense / dense_ranks + held.experts / expert_ranks)

    unsharded = 0.0
    if by_three and dense_ranks > 1:
        # The root unit (embedding and head) stays gathered; a layer's parameters are gathered while the next one's
        # arrive, and its gradients are whole before they are reduced.
        root = held.embedding + held.head
        unsharded = 2.0 * (root + 2 * held.largest_layer) + 2.0 * max(held.largest_layer, root)
        if stays_gathered(job):
            unsharded = (_HALF + _SINGLE) * held.total
        elif layout.keep_gathered:
            unsharded = _HALF * held.total + _HALF * max(held.largest_layer, root)
    elif job.states is States.AUTOCAST:
        unsharded = 2.0 * held.largest_layer
    gradients = shared(gradient, is_shared=by_two and not (job.framework.accumulates_whole and job.accumulation > 1))
    if job.optimizer_in_backward:
        gradients = min(gradients, gradient * max(held.largest_matrix, held.embedding, held.head))
    return (shared(weight, is_shared=by_three), 0.0, gradients, shared(state, is_shared=by_one), unsharded)


def _expanding_bytes(job: TrainingJob, held: StageParameters, constants: MemoryConstants) -> float:
    """Return what a GPU needs to compute with a 4-bit base: the 16-bit copy of one matrix, and the library's buffers.

    bitsandbytes expands one matrix at a time, for its product alone, however many there are.
    """
    if job.base not in (BaseFormat.NF4, BaseFormat.NF4_DQ):
        return 0.0
    return constants.base_extra_bytes + _HALF * held.largest_matrix


def stays_gathered(job: TrainingJob) -> bool:
    """Return True if FSDP leaves parameters gathered and gradients whole in fp32 until a pipeline's step ends."""
    return job.framework.family is Family.FSDP and job.layout.pipeline > 1 and job.accumulation > 1


def _adapted_states(job: TrainingJob, held: StageParameters) -> tuple[float, float, float, float, float]:
    """Return the same of a job with adapters: the frozen base has neither gradients nor states."""
    ranks = job.layout.state_ranks if job.layout.shard is Shard.ZERO3 else 1
    vectors = held.total - held.matrices - (held.head if not job.architecture.tied_embeddings else 0.0)
    matrices = held.total - vectors
    stored = job.base.bytes_per_parameter
    other = _SINGLE if job.is_widened else _HALF  # embeddings, head and norms
    whole = _HALF
    if job.base is BaseFormat.BF16:
        base = 2.0 * held.total
    else:
        whole = stored  # a base is gathered in the format that it is stored in
        heads = matrices - held.matrices  # an output head is not quantised
        base = stored * held.matrices + other * (vectors + heads)
    size = job.framework.adapter_bytes
    state = _STATE_BYTES[job.optimizer] * (size / 4.0 if _STATE_BYTES[job.optimizer] > 2 else 1.0)
    is_whole = job.framework.gathers_base or job.layout.keep_gathered
    gathered = held.total if is_whole else 2 * held.largest_layer
    unsharded = whole * gathered if ranks > 1 else 0.0
    return base / ranks, size * held.adapters, size * held.adapters, state * held.adapters, unsharded


def _activations(
    job: TrainingJob, index: int, layers: int, kinds: Sequence[tuple[LayerActivations, int]], constants: MemoryConstants
) -> tuple[float, float]:
    """Return what all layers of a stage keep, and what recomputing one layer adds at a time. [bytes]"""
    scale = constants.activations[job.framework.family]
    layout, architecture = job.layout, job.architecture
    total = len(architecture.layers)
    kept = sum(kind.kept(job.recompute) * count for kind, count in kinds) / total * layers
    in_flight = float(min(layout.pipeline - index, max(1, job.accumulation)))
    if layout.virtual > 1 and layout.pipeline > 1:
        first = layout.pipeline * interleaved_share(stages=layout.pipeline, chunks=layout.virtual)
        in_flight = min(max(1.0, first - 2 * index / layout.virtual), float(max(1, job.accumulation)))
    tokens_embedded = 2.0 * job.micro_tokens * architecture.hidden_dim / layout.tensor
    largest = max(kind.whole for kind, _ in kinds)
    recomputed = 0.0 if job.recompute in (Recompute.NONE, Recompute.ATTENTION) else largest * scale
    factor = scale if job.recompute is not Recompute.FULL else 1.0
    if layout.pipeline > 1:
        tokens_embedded += job.framework.stage_buffers * _HALF * job.micro_tokens * architecture.hidden_dim
    return factor * kept * in_flight + tokens_embedded * in_flight, recomputed
