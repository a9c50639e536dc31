"""How the GPUs of one replica share a language model, which numbers of GPUs can, and which ways a search tries."""

from collections.abc import Iterator
from dataclasses import dataclass

from capplan.errors import UsageError
from capplan.llm.core.architecture import Architecture
from capplan.llm.core.layers import (
    Attention,
    CompressedAttention,
    DenseMlp,
    GatedDeltaNet,
    LatentAttention,
    Mamba2,
    Mixer,
    ShortConv,
)

GPUS_PER_SERVER = 8
_SIZES = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOffload:
    """What llama.cpp leaves in host memory: its CPU computes it.

    The last `gpu_layers` layers lie on the GPUs (`-ngl`), all for None; the output head counts as one more, behind the
    layers. The experts of the first `expert_layers` layers lie in host memory (`--n-cpu-moe`). `is_fitted` leaves both
    to what the GPUs hold (`--fit`).
    """

    gpu_layers: int | None = None
    expert_layers: int = 0
    is_fitted: bool = False

    def host_layers(self, layer_count: int) -> int:
        """Return how many of the first layers lie in host memory whole."""
        return 0 if self.gpu_layers is None else max(0, layer_count - self.gpu_layers)

    def keeps_head(self, layer_count: int) -> bool:
        return self.gpu_layers is None or self.gpu_layers > layer_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharding:
    """How the GPUs of one replica share the work, and what they leave to the host.

    `data` is attention data parallelism: each rank holds whole attention for its own sequences, and the experts
    spread over all `tensor · data` GPUs of a stage. `expert` is the number of GPUs among which whole experts are
    distributed; the matrices of one expert are cut among the rest. `offload` is None where all lies on the GPUs.
    """

    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    data: int = 1
    offload: HostOffload | None = None

    @property
    def gpus(self) -> int:
        return self.tensor * self.pipeline * self.data

    @property
    def expert_tensor(self) -> int:
        """Return how many GPUs share the matrices of one expert."""
        return max(1, self.tensor * self.data // self.expert)


def stage_layers(layer_count: int, stages: int) -> list[range]:
    """Return the layers of each pipeline stage, as vLLM distributes them.

    Layers that are left over go to the stages before the last one, because the last one holds the output head.
    """
    counts = [layer_count // stages] * stages
    for index in range(2, layer_count % stages + 2):
        counts[-index] += 1
    starts = [sum(counts[:index]) for index in range(stages)]
    return [range(start, start + count) for start, count in zip(starts, counts, strict=True)]


def check_sharding(architecture: Architecture, sharding: Sharding) -> None:
    name, tensor = architecture.name, sharding.tensor
    if sharding.offload is not None and sharding.tensor * sharding.data > 1:
        raise UsageError(
            "GPUs that share every matrix leave nothing to the host; beside layers in host memory use ⟨pp⟩ "
            f"{sharding.gpus}, a split by layer."
        )
    if sharding.offload is not None and sharding.offload.expert_layers and not architecture.is_moe:
        raise UsageError(f"{name} has no experts, so ⟨n-cpu-moe⟩ does nothing; ⟨gpu-layers⟩ leaves out whole layers.")
    why = tensor_refusal(architecture, tensor)
    if why is not None:
        fitting = [str(size) for size in range(1, 65) if tensor_refusal(architecture, size) is None]
        raise UsageError(f"{name}: ⟨tp⟩ {tensor} is not possible because {why}; possible are {', '.join(fitting)}.")
    layer_count = len(architecture.layers)
    if sharding.pipeline > layer_count:
        raise UsageError(f"{name}: ⟨pp⟩ {sharding.pipeline} is more than its {layer_count} layers.")
    name, expert, ranks = architecture.name, sharding.expert, sharding.tensor * sharding.data
    if expert > 1 and not architecture.is_moe:
        raise UsageError(f"{name} has no experts, so ⟨ep⟩ {expert} does nothing; leave it out.")
    if ranks % expert:
        divisors = ", ".join(str(size) for size in range(1, ranks + 1) if ranks % size == 0)
        raise UsageError(
            f"{name}: ⟨ep⟩ {expert} does not divide the {ranks} GPUs of a stage (tp × dp); possible are {divisors}."
        )
    for experts in dict.fromkeys(experts for _, experts in architecture.expert_layers()):
        if expert > experts.count:
            raise UsageError(f"{name}: ⟨ep⟩ {expert} is more than its {experts.count} experts.")
        if experts.width % sharding.expert_tensor:
            raise UsageError(
                f"{name}: {sharding.expert_tensor} GPUs share one expert, which does not divide its width of "
                f"{experts.width}; ⟨ep⟩ {sharding.tensor * sharding.data} keeps experts whole."
            )


def tensor_refusal(architecture: Architecture, tensor: int) -> str | None:
    """Return why so many GPUs cannot share a model's matrices; None where they can."""
    for mixer in dict.fromkeys(layer.mixer for layer in architecture.layers):
        if mixer is not None and (why := _mixer_refusal(mixer, tensor)) is not None:
            return why
    for mlp in dict.fromkeys(layer.mlp for layer in architecture.layers):
        if isinstance(mlp, DenseMlp) and mlp.width % tensor:
            return f"it does not divide the MLP's width of {mlp.width}"
    return None


def _mixer_refusal(mixer: Mixer, tensor: int) -> str | None:
    match mixer:
        case Attention():
            if mixer.query_heads % tensor:
                return f"it does not divide the {mixer.query_heads} query heads"
            if mixer.kv_heads % tensor and tensor % mixer.kv_heads:
                return f"it neither divides the {mixer.kv_heads} key-value heads nor is a multiple of them"
        case LatentAttention() | CompressedAttention():
            if mixer.query_heads % tensor:
                return f"it does not divide the {mixer.query_heads} query heads"
        case GatedDeltaNet():
            if mixer.key_heads % tensor or mixer.value_heads % tensor:
                return f"it does not divide the {mixer.key_heads} key heads of linear attention"
        case Mamba2():
            if mixer.heads % tensor:
                return f"it does not divide the {mixer.heads} Mamba heads"
            if mixer.groups % tensor and tensor % mixer.groups:
                return f"it neither divides the {mixer.groups} Mamba groups nor is a multiple of them"
        case ShortConv():
            if mixer.conv_channels % tensor:
                return f"it does not divide the {mixer.conv_channels} channels of short convolutions"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingChoice:
    """The sizes to try; an empty tuple leaves a dimension to the search. `most_gpus` limits one replica."""

    tensor: tuple[int, ...] = ()
    pipeline: tuple[int, ...] = ()
    expert: tuple[int, ...] = ()
    data: tuple[int, ...] = ()
    most_gpus: int = GPUS_PER_SERVER

    @property
    def is_open(self) -> bool:
        """Return True if nothing is stated, so that the search is free in every dimension."""
        return not (self.tensor or self.pipeline or self.expert or self.data)


def shardings(choice: ShardingChoice, *, has_experts: bool, splits_once: bool) -> Iterator[Sharding]:
    """Yield the ways to share a model on the GPUs of one server, the smallest first.

    A model without experts is cut by tensor and pipeline parallelism. One with experts may also keep attention whole on
    ranks of data parallelism, and either cut every expert or keep experts whole on different GPUs. An engine that
    splits once (llama.cpp) cuts either matrices or layers.
    """
    stated = not choice.is_open
    tensors = choice.tensor or _SIZES
    pipelines = choice.pipeline or ((1,) if stated else _SIZES)
    ranks = choice.data or ((1,) if stated or not has_experts else _SIZES)

    def experts(gpus: int, data: int) -> tuple[int, ...]:
        if not has_experts or gpus == 1:
            return (1,)
        return (gpus,) if data > 1 else (1, gpus)

    every = (
        Sharding(tensor=tensor, pipeline=pipeline, expert=expert, data=data)
        for tensor in tensors
        for pipeline in pipelines
        for data in ranks
        for expert in choice.expert or experts(tensor * data, data)
    )
    kept = (
        sharding
        for sharding in every
        if stated
        or (
            sharding.gpus <= choice.most_gpus
            and 1 in (sharding.data, sharding.pipeline)  # engines do not combine these well
            and not (splits_once and (sharding.data > 1 or 1 not in (sharding.tensor, sharding.pipeline)))
        )
    )
    yield from sorted(set(kept), key=lambda way: (way.gpus, way.pipeline, way.data, way.expert))
