"""Choose which ways to share a model between GPUs to try."""

from collections.abc import Iterator
from dataclasses import dataclass

from capplan.llm.core.sharding import Sharding

GPUS_PER_SERVER = 8
_SIZES = (1, 2, 4, 8)


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


def shardings(choice: ShardingChoice, *, has_experts: bool, divides_layers: bool) -> Iterator[Sharding]:
    """Yield the ways to share a model on the GPUs of one server, the smallest first.

    A model without experts is cut by tensor and pipeline parallelism. One with experts may also keep attention whole on
    ranks of data parallelism, and either cut every expert or keep experts whole on different GPUs.

    Args:
        choice: The sizes to try.
        has_experts: True for a mixture of experts.
        divides_layers: True for an engine that divides models by layers alone, as llama.cpp does.
    """
    stated = not choice.is_open
    tensors = choice.tensor or ((1,) if divides_layers else _SIZES)
    pipelines = choice.pipeline or ((1,) if stated else _SIZES)
    ranks = choice.data or ((1,) if stated or not has_experts else _SIZES)
    every = (
        Sharding(tensor=tensor, pipeline=pipeline, expert=expert, data=data)
        for tensor in tensors
        for pipeline in pipelines
        for data in ranks
        for expert in choice.expert or _experts(tensor * data, data=data, has_experts=has_experts)
    )
    kept = (sharding for sharding in every if stated or (sharding.gpus <= choice.most_gpus and not _is_odd(sharding)))
    yield from sorted(set(kept), key=lambda each: (each.gpus, each.pipeline, each.data, each.expert))


def _experts(gpus: int, *, data: int, has_experts: bool) -> tuple[int, ...]:
    if not has_experts or gpus == 1:
        return (1,)
    return (gpus,) if data > 1 else (1, gpus)


def _is_odd(sharding: Sharding) -> bool:
    """Return True for data parallelism inside a pipeline, which engines do not combine well."""
    return sharding.data > 1 and sharding.pipeline > 1
