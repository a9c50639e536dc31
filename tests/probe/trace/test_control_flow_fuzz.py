"""Small random modules whose branches, loops and sizes hang on data: each is traced or refused, and none hangs."""

import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from capplan.errors import TraceError
from capplan.probe.inputs.tensors import FunctionInputs
from capplan.probe.target.types import Target
from capplan.probe.trace.tracer import trace_target
from tests.limits import within

MOST_S = 30.0

CONDITIONS: tuple[Callable[[Tensor, int], object], ...] = (
    lambda x, turn: (x.abs() > 1e-3).any(),
    lambda x, turn: not (x < 0.5 + turn).all(),
    lambda x, turn: x.norm() > 2.0,
    lambda x, turn: x.max() < 1e3 * (turn + 1),
    lambda x, turn: int(x.abs().sum()) % 7 != 3,
    lambda x, turn: x.mean().item() < 0.9,
    lambda x, turn: (x > 0).sum() != 5,
    lambda x, turn: not torch.equal(x.round(), x.round() * 0),
    lambda x, turn: turn < 3 and bool(x[0, 0] > 0),
)
"""What loops and branches ask; some never become False, whatever the data."""

UPDATES: tuple[Callable[[nn.Linear, Tensor], Tensor], ...] = (
    lambda linear, x: linear(x) * 0.5,
    lambda linear, x: x * 1.5 + 0.1,
    lambda linear, x: torch.cat([x, linear(x[-1:])]) if len(x) < 64 else x * 0.9,
    lambda linear, x: linear(x[x[:, 0] > 0]) if len(x) else x,
    lambda linear, x: linear(x[torch.randperm(len(x))[: max(1, len(x) // 2)]]),
    lambda linear, x: x.repeat_interleave((x[:, 0] > 0.5).long() + 1, dim=0)[:64],
    lambda linear, x: linear(x.unique(dim=0)[:64]),
    lambda linear, x: x.masked_fill(x > 0.7, 0.0),
)


class Random(nn.Module):
    """A program of up to six statements, loops and branches of them, at most three deep."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.program = _block(random.Random(seed), depth=0)

    def forward(self, x: Tensor) -> Tensor:
        return self._run(self.program, x)

    def _run(self, block: list[tuple[str, int, list[object]]], x: Tensor) -> Tensor:
        for kind, choice, inner in block:
            if kind == "update":
                x = UPDATES[choice](self.linear, x)
            elif kind == "if":
                x = self._run(inner, x) if CONDITIONS[choice](x, 0) else self.linear(x)  # type: ignore[arg-type]
            elif kind == "for":
                for _ in range(int(x.abs().sum()) % (choice + 2)):
                    x = self._run(inner, x)  # type: ignore[arg-type]
            else:
                turn = 0
                while CONDITIONS[choice](x, turn):
                    x, turn = self._run(inner, x), turn + 1  # type: ignore[arg-type]
                    if kind == "while_break" and x.min() < -0.5:
                        break
        return x


def _block(chance: random.Random, depth: int) -> list[tuple[str, int, list[object]]]:
    made: list[tuple[str, int, list[object]]] = []
    for _ in range(chance.randint(1, 3 if depth else 6)):
        kinds = ["update"] if depth == 3 else ["update", "if", "for", "while", "while_break"]
        kind = chance.choice(kinds)
        choice = chance.randrange(len(UPDATES) if kind == "update" else len(CONDITIONS))
        made.append((kind, choice, [] if kind == "update" else _block(chance, depth + 1)))  # type: ignore[arg-type]
    return made


DAILY = (2, 5, 8)
"""A program that is traced on meta, one that is refused, one that is run on the CPU."""

SEEDS = [seed if seed in DAILY else pytest.param(seed, marks=pytest.mark.nightly) for seed in range(300)]


@pytest.mark.parametrize("seed", SEEDS)
def test_control_flow_on_data_ends(seed: int) -> None:
    target = Target(
        name="random",
        words=f"random {seed}",
        library="package",
        builder=lambda: Random(seed),
        inputs=FunctionInputs(words="inputs", function=lambda batch: torch.rand(4 * batch, 8)),
    )
    with within(cpu_s=MOST_S):
        refusal = _refusal(target)
    assert not refusal or refusal.startswith(("running random", "the model's forward")), refusal
    assert "\n" not in refusal


def _refusal(target: Target) -> str:
    """Trace a model; return the sentence that refuses it, empty where it is traced."""
    try:
        trace_target(target)
    except TraceError as error:
        return str(error)
    return ""
