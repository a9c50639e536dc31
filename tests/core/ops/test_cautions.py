"""What is said of values that were assumed: where, and how much of the work comes after."""

from pathlib import Path

import pytest
import torch
from torch import nn

from capplan.core.ops.analysis import assumed_sizes
from capplan.probe.inputs.tensors import FunctionInputs
from capplan.probe.target.types import Target
from capplan.probe.trace.tracer import trace_target


class _SelectsBetween(nn.Module):
    """Linear layers of one size; between them a mask selects values, whose number the data decides."""

    def __init__(self, layers_before: int, layers_after: int) -> None:
        super().__init__()
        self.before = nn.Sequential(*[nn.Linear(16, 16) for _ in range(layers_before)])
        self.after = nn.Sequential(*[nn.Linear(16, 16) for _ in range(layers_after)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.before(x)
        x[x > 0].sum()  # THE LINE
        return self.after(x)


LINE = Path(__file__).read_text().splitlines().index("        x[x > 0].sum()  # THE LINE") + 1


@pytest.mark.parametrize(("before", "after", "share"), [(1, 3, "75.0 %"), (3, 1, "25.0 %"), (2, 0, "")])
def test_the_first_line_names_the_place_and_the_share_of_products_after_it(before: int, after: int, share: str) -> None:
    target = Target(
        name="late",
        words="late",
        library="package",
        builder=lambda: _SelectsBetween(before, after),
        inputs=FunctionInputs(words="inputs", function=lambda batch: torch.rand(batch, 16)),
    )
    assert assumed_sizes(trace_target(target).recordings[0]) == (
        f"sizes and branches assumed at test_cautions.py:{LINE} (data unknown), 25.0 % of candidates "
        "(⟨selected-share⟩) as kept: "
        + (
            f"{share} of the MACs counted come after it and may be more or fewer"
            if share
            else "no MACs counted come after it"
        )
    )
