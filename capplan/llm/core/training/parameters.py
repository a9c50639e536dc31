"""Count the parameters that one GPU of a training job holds, by pipeline stage and by what they are for."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from capplan.llm.core.architecture import Architecture, Layer
from capplan.llm.core.tensors import Split, Tensor, WeightRole, embedding_tensors, head_tensors, layer_tensors
from capplan.llm.core.training.job import Adapter, TrainingJob, TrainingLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCount:
    """The parameters of one layer on one GPU: dense ones and experts, and those in matrices that formats quantise.

    `largest_matrix` is the largest of these matrices; every expert has its own.
    """

    dense: float
    experts: float
    matrices: float
    largest_matrix: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StageParameters:
    """The parameters that one GPU of a pipeline stage holds.

    `embedding` and `head` count the table and the output head (a tied head counts on the first stage, and again on
    the last one of a pipeline). `largest_layer` is the largest layer, `largest_matrix` the largest matrix of one, and
    `adapters` the trained low-rank matrices.
    """

    dense: float
    experts: float
    embedding: float
    head: float
    matrices: float
    largest_layer: float
    largest_matrix: float
    adapters: float

    @property
    def total(self) -> float:
        return self.dense + self.experts + self.embedding + self.head


def cut_elements(tensor: Tensor, layout: TrainingLayout) -> float:
    if is_expert(tensor):
        return tensor.parameters / (layout.expert * layout.expert_tensor)
    match tensor.split:
        case Split.NONE:
            return float(tensor.parameters)
        case Split.KV_HEADS:
            return tensor.parameters / tensor.heads * max(1.0, tensor.heads / layout.tensor)
        case _:
            return tensor.parameters / layout.tensor


def is_expert(tensor: Tensor) -> bool:
    return tensor.role is WeightRole.EXPERT or (tensor.copies > 1 and tensor.name.startswith("expert"))


@lru_cache(maxsize=4096)
def count_layer(layer: Layer, hidden_dim: int, cuts: tuple[int, int, int]) -> LayerCount:
    layout = TrainingLayout(gpus=cuts[0] * cuts[1] * cuts[2], tensor=cuts[0], expert=cuts[1], expert_tensor=cuts[2])
    dense = experts = matrices = largest = 0.0
    for tensor in layer_tensors(layer, hidden_dim=hidden_dim):
        elements = cut_elements(tensor, layout)
        if is_expert(tensor):
            experts += elements
        else:
            dense += elements
        if tensor.product:
            matrices += elements
            largest = max(largest, elements / tensor.copies)
    return LayerCount(dense=dense, experts=experts, matrices=matrices, largest_matrix=largest)


def layers_per_stage(architecture: Architecture, layout: TrainingLayout) -> list[int]:
    """Return how many layers each pipeline stage has, the larger ones in the middle.

    Layers that do not divide go to stages other than the first and the last, which hold embedding and head.
    """
    stages, count = layout.pipeline, len(architecture.layers)
    sizes = [count // stages] * stages
    order = [*range(1, stages - 1), 0, stages - 1] if stages > 1 else [0]
    for index in range(count % stages):
        sizes[order[index % len(order)]] += 1
    return sizes


def adapter_parameters(architecture: Architecture, adapter: Adapter) -> int:
    """Count the parameters of low-rank adapters: r·(inputs + outputs) for each matrix that has one."""
    found = sum(
        adapter.rank * (inputs + outputs) * copies * count
        for layer, count in architecture.layer_kinds
        for inputs, outputs, copies in adapted_matrices(layer, architecture.hidden_dim, adapter)
    )
    if "head" in adapter.targets:
        found += adapter.rank * (architecture.hidden_dim + architecture.vocab_size)
    return found


def adapted_matrices(layer: Layer, hidden_dim: int, adapter: Adapter) -> Iterator[tuple[int, int, int]]:
    """Yield the inputs, outputs and copies of every matrix of a layer that has an adapter.

    A gate and an up projection that are stored as one matrix have an adapter each.
    """
    for tensor in layer_tensors(layer, hidden_dim=hidden_dim):
        if not tensor.product or tensor.role is WeightRole.ROUTER:
            continue
        name = tensor.name.rpartition(" ")[2]
        target = {"up": "gate_up", "in": "q", "q_a": "q", "q_b": "q", "kv_a": "k", "kv_b": "v", "out": "o"}.get(
            name, name
        )
        if target not in adapter.targets:
            continue
        parts = 2 if name == "gate_up" else 1
        for _ in range(parts):
            yield tensor.inputs, tensor.outputs // parts, tensor.copies


def stage_parameters(job: TrainingJob) -> list[StageParameters]:
    """Count the parameters on one GPU of every pipeline stage.

    Layers of different kinds are spread evenly, so that a stage has its share of each.
    """
    architecture, layout = job.architecture, job.layout
    cuts = (layout.tensor, layout.expert, layout.expert_tensor)
    kinds = [(count_layer(layer, architecture.hidden_dim, cuts), count) for layer, count in architecture.layer_kinds]
    dense = sum(kind.dense * count for kind, count in kinds)
    experts = sum(kind.experts * count for kind, count in kinds)
    matrices = sum(kind.matrices * count for kind, count in kinds)
    largest_layer = max(kind.dense + kind.experts for kind, _ in kinds)
    largest_matrix = max(kind.largest_matrix for kind, _ in kinds)
    total = len(architecture.layers)
    embedding = sum(cut_elements(tensor, layout) for tensor in embedding_tensors(architecture))
    head = sum(cut_elements(tensor, layout) for tensor in head_tensors(architecture))
    adapters = adapter_parameters(architecture, job.adapter) / layout.tensor if job.is_adapted else 0.0
    sizes = layers_per_stage(architecture, layout)
    found = []
    for index, size in enumerate(sizes):
        share = size / total
        is_last = index == len(sizes) - 1
        tied = embedding if is_last and index and architecture.tied_embeddings else 0.0
        found.append(
            StageParameters(
                dense=share * dense,
                experts=share * experts,
                embedding=embedding if index == 0 else 0.0,
                head=(head + tied) if is_last else 0.0,
                matrices=share * matrices,
                largest_layer=largest_layer,
                largest_matrix=largest_matrix,
                adapters=share * adapters,
            )
        )
    return found
