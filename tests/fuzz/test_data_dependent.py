"""Generated modules whose branches, loops and sizes hang on data: each is traced, or refused in a line, and ends."""

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from capplan.errors import TraceError
from capplan.probe.trace.tracer import trace_module
from tests.limits import within

_DEAR = (10, 12, 13, 18, 19, 26, 27, 28, 29)
"""Seeds of modules that take 3 to 6 s of the processor; seed 22 takes 1.5 s, all others 0.1 s."""

SEEDS = [pytest.param(seed, marks=[pytest.mark.nightly] * (seed in _DEAR or seed >= 30)) for seed in range(300)]
LIMIT_S = 30.0
"""Processor time of one module."""

State = tuple[nn.Module, Tensor]
Step = Callable[[nn.Module, Tensor], Tensor]


def _number(chance: random.Random) -> Callable[[Tensor], Tensor]:
    return chance.choice([Tensor.sum, Tensor.mean, Tensor.max, lambda x: x.abs().max(), Tensor.norm])


def _while(chance: random.Random, body: Step) -> Step:
    number, bound, above = _number(chance), chance.uniform(-1, 2), chance.random() < 0.5

    def run(layer: nn.Module, x: Tensor) -> Tensor:
        while (number(x) > bound) if above else (number(x) < bound):
            x = body(layer, x) * 0.7
        return x

    return run


def _until(chance: random.Random, body: Step) -> Step:
    number, bound = _number(chance), chance.uniform(-1, 2)

    def run(layer: nn.Module, x: Tensor) -> Tensor:
        done = torch.zeros(x.shape[0], dtype=torch.bool, device=x.device)
        while not done.all():
            x = body(layer, x)
            done = done | (x.abs().amax(-1) < abs(bound)) | (number(x) > bound)
        return x

    return run


def _branch(chance: random.Random, body: Step) -> Step:
    number, bound = _number(chance), chance.uniform(-1, 1)
    return lambda layer, x: body(layer, x) if number(x) > bound else x + 1


def _times(chance: random.Random, body: Step) -> Step:
    number, most = _number(chance), chance.randrange(1, 9)

    def run(layer: nn.Module, x: Tensor) -> Tensor:
        for _ in range(int(number(x).abs().item()) % most + 1):
            x = body(layer, x)
        return x

    return run


def _selected(_: random.Random, body: Step) -> Step:
    def run(layer: nn.Module, x: Tensor) -> Tensor:
        rows = x[x.sum(-1) > 0]
        return x + body(layer, rows).sum() if rows.shape[0] else x

    return run


def _module(seed: int) -> nn.Module:
    chance = random.Random(seed)
    step: Step = lambda layer, x: layer(x)  # noqa: E731  # the innermost of nested steps
    for _ in range(chance.randrange(1, 4)):
        step = chance.choice([_while, _until, _branch, _times, _selected])(chance, step)

    class Generated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            return step(self.layer, x)

    torch.manual_seed(seed)
    return Generated()


def feeds(batch: int, *, device: Any) -> SimpleNamespace:
    values = torch.linspace(-1, 1, 8 * batch).reshape(batch, 8)
    return SimpleNamespace(args=(values.to(device),), kwargs={}, names=("x",))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_every_module_ends(seed: int) -> None:
    refused = ""
    with within(cpu_s=LIMIT_S):
        try:
            trace_module(_module(seed), feeds, name="generated")
        except TraceError as error:
            refused = str(error)
    assert "\n" not in refused
