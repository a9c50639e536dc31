"""LoRA adapters that are served beside a model: their bytes on one GPU, and the products that they add to a step."""

from dataclasses import dataclass

from capplan.llm.core.architecture import Architecture
from capplan.llm.core.sharding import Sharding, stage_layers
from capplan.llm.core.tensors import Split, Tensor, WeightRole, layer_tensors

ADAPTER_BYTES = 2.0
"""Bytes of one element: adapters are served in 16 bits."""
_ROLES = frozenset({WeightRole.ATTENTION, WeightRole.LINEAR_ATTENTION, WeightRole.MLP, WeightRole.SHARED_EXPERT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters:
    """Adapters that are resident at the same time, each a product of two matrices of a rank beside every dense one.

    vLLM keeps `--max-loras` of them in slots of `--max-lora-rank`, SGLang `--max-loras-per-batch`. Adapters of routed
    experts are not counted.
    """

    count: int
    rank: int


def is_adapted(tensor: Tensor) -> bool:
    """Return True for a dense matrix of attention or an MLP, which adapters usually change."""
    return bool(tensor.product) and tensor.role in _ROLES


def adapter_sides(tensor: Tensor, sharding: Sharding) -> tuple[float, float]:
    """Return the inputs and outputs of a matrix whose adapter lies on one GPU.

    The side that tensor parallelism cuts is cut in the adapter, the other one is whole on every GPU (vLLM and SGLang by
    default). Gate and up, which are one matrix here, have an adapter each.

    Args:
        tensor: The matrix.
        sharding: How the GPUs share the model.
    """
    slices = 2.0 if "gate" in tensor.name else 1.0
    inputs, outputs, ways = slices * tensor.inputs, float(tensor.outputs), sharding.tensor
    match tensor.split:
        case Split.INPUTS:
            return inputs / ways, outputs
        case Split.KV_HEADS:
            return inputs, outputs / min(ways, tensor.heads)
        case Split.OUTPUTS:
            return inputs, outputs / ways
        case _:
            return inputs, outputs


def adapter_bytes(architecture: Architecture, *, sharding: Sharding, adapters: Adapters, stage: int) -> float:
    """Return the bytes of all adapters on one GPU of a pipeline stage: rank · (inputs + outputs) of each matrix.

    Args:
        architecture: The model.
        sharding: How the GPUs share it.
        adapters: How many, and their rank.
        stage: Index of the pipeline stage.
    """
    sides = sum(
        sum(adapter_sides(tensor, sharding))
        for index in stage_layers(len(architecture.layers), sharding.pipeline)[stage]
        for tensor in layer_tensors(architecture.layers[index], hidden_dim=architecture.hidden_dim)
        if is_adapted(tensor)
    )
    return ADAPTER_BYTES * adapters.count * adapters.rank * sides
