"""A model that runs something else in another call is traced, and the answer says so."""

import random

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import capplan


class Growing(nn.Module):
    """Runs one layer more in every call."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(9))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        for layer in list(self.layers)[: self.calls]:
            x = layer(x)
        return x


class Drawing(Growing):
    """Runs as many layers as a die says."""

    def forward(self, x: Tensor) -> Tensor:
        for layer in list(self.layers)[: random.randint(1, 6)]:
            x = layer(x)
        return x


class DrawingByNumpy(Growing):
    """Runs as many layers as numpy's die says."""

    def forward(self, x: Tensor) -> Tensor:
        for layer in list(self.layers)[: int(np.random.randint(1, 7))]:
            x = layer(x)
        return x


class Steady(Growing):
    """Runs the same layers in every call, with dropout, which draws nothing in inference."""

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = nn.functional.dropout(layer(x), training=self.training)
        return x


@pytest.mark.parametrize("kind", [Growing, Drawing, DrawingByNumpy])
def test_a_model_that_changes_from_call_to_call_is_noted(kind: type[nn.Module]) -> None:
    model = kind()
    state, drawn = random.getstate(), torch.get_rng_state()
    plan = capplan.plan(model, inputs=["x=8"], batches=[4], gpus=["l4"])
    assert any("from call to" in note for note in plan.notes)
    assert "from call to" in str(plan)
    assert plan.fits[0].batch == 4
    assert random.getstate() == state
    assert torch.equal(torch.get_rng_state(), drawn)


def test_a_steady_model_is_not() -> None:
    assert not capplan.trace(Steady(), inputs=["x=8"]).provenance.notes
