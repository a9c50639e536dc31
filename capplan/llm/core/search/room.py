"""How many requests a deployment holds, and what would hold one where it holds none."""

from collections.abc import Callable
from dataclasses import replace

from capplan.errors import CapplanError
from capplan.llm.core.deployment import NamedDeployment, ServingDeployment
from capplan.llm.core.serving.asked import Speculation
from capplan.llm.core.serving.service import BENCHMARK_SPREAD, Demand
from capplan.llm.core.yarn import check_length

Find = Callable[[NamedDeployment], ServingDeployment]
"""What finds the deployment that words name."""

_WIDER = (2, 4, 8, 16)
_FULLER = (0.85, 0.95)
"""Memory fractions that are proposed where an engine's own default leaves no room, such as SGLang's of many
data-parallel ranks: recipes of DeepSeek-V3 on 64 and more H100 state 0.8 to 0.9, those of full cards 0.95."""


class OversizeError(CapplanError):
    """A deployment whose weights or sequences do not fit in memory.

    `tensor` is the least tensor parallelism of the same GPU that holds one request, None where up to 16 do not.
    """

    exit_code = 1

    def __init__(self, message: str, tensor: int | None) -> None:
        super().__init__(message)
        self.tensor = tensor


SHORTER = "shorten ⟨input-len⟩ or ⟨output-len⟩"


def served_demand(
    find: Find,
    words: NamedDeployment,
    *,
    input_len: float,
    output_len: float,
    prefix_fraction: float = 0.0,
    counts_burst: bool = False,
    speculation: Speculation | None = None,
) -> Demand:
    """Return what a deployment is asked by clients whose lengths vary as in benchmarks, after a check of its room."""
    held_len = input_len * (1.0 - prefix_fraction) + output_len
    return Demand(
        input_len=input_len,
        output_len=output_len,
        capacity=room_of(find, words, input_len=input_len, output_len=output_len, held_len=held_len),
        spread=BENCHMARK_SPREAD,
        counts_burst=counts_burst,
        prefix_fraction=prefix_fraction,
        speculation=speculation,
        loaded_s=find(words).loaded_s(input_len * prefix_fraction),
    )


def room_of(find: Find, words: NamedDeployment, *, input_len: float, output_len: float, held_len: float) -> float:
    """Return how many sequences a deployment holds, after a check that it holds one and handles its length."""
    deployment, tokens = find(words), input_len + output_len
    check_length(deployment.model.architecture, tokens, what=SHORTER)
    capacity = deployment.sequences_that_fit(held_len)
    if capacity >= 1:
        return capacity
    for fraction in _FULLER if words.utilization_fraction is None else ():
        if find(replace(words, utilization_fraction=fraction)).sequences_that_fit(held_len) >= 1:
            raise OversizeError(
                f"{words.model} with {tokens:.0f} tokens does not fit on {words.sharding.gpus} × {deployment.gpu.id} "
                f"with what {words.engine} keeps free by default; use ⟨utilization⟩ {fraction:g} (which holds it).",
                None,
            )
    tensor = _least_tensor(find, words, held_len)
    wider = "more GPUs (⟨tp⟩)" if tensor is None else f"⟨tp⟩ {tensor} (which holds it)"
    raise OversizeError(
        f"{words.model} with {tokens:.0f} tokens does not fit on {words.sharding.gpus} × {deployment.gpu.id}; use "
        f"{wider}, narrower weights or cache, or shorter requests.",
        tensor,
    )


def _least_tensor(find: Find, words: NamedDeployment, held_len: float) -> int | None:
    for tensor in _WIDER:
        if tensor <= words.sharding.tensor:
            continue
        try:
            wider = find(replace(words, sharding=replace(words.sharding, tensor=tensor)))
        except CapplanError:
            continue  # the model cannot be shared that way
        if wider.sequences_that_fit(held_len) >= 1:
            return tensor
    return None
