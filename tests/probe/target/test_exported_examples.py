"""The examples of torch.export's documentation, saved as `.pt2` and read back, with their products counted by hand."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from capplan.core.ops.flops import kernel_macs
from capplan.core.workload import Configuration
from capplan.probe.inputs.grammar import parse_request
from capplan.probe.target.resolve import load_target
from capplan.probe.trace.tracer import trace_target


class Waves(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.sin(x) + torch.cos(y)


class Pooled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.relu, self.pool = nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3)

    def forward(self, x: Tensor, *, constant: Tensor) -> Tensor:
        a = self.conv(x)
        a.add_(constant)
        pooled: Tensor = self.pool(self.relu(a))
        return pooled


class Branches(nn.Module):
    buffer: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(64, 32), nn.ReLU())
        self.second = nn.Sequential(nn.Linear(128, 64), nn.ReLU())
        self.register_buffer("buffer", torch.ones(32))

    def forward(self, x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
        return self.first(x1) + self.buffer, self.second(x2)


class Repeated(nn.Module):
    def forward(self, x: Tensor, const: Tensor, times: int) -> Tensor:
        for _ in range(times):
            x = x + const
        return x


class Conditional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.short, self.long = nn.Linear(3, 4), nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 4))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, self.short.forward, self.long.forward, (x,))


class Checked(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        size: Any = x.item()
        torch._check(size >= 0)
        torch._check(size < 100)
        return y + torch.ones(size, 5).sum()


class Selected(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[x > 0].sum()


class Nested(nn.Module):
    def forward(self, tables: dict[str, Tensor], rows: list[tuple[Tensor]]) -> Tensor:
        return tables["a"] @ tables["b"] + rows[0][0]


class Counted(nn.Module):
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        self.count.add_(1)
        return x * self.weight + self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A module, what it is exported with, and its MACs and parameters by hand."""

    make: Callable[[], nn.Module]
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    dynamic: Any = None
    is_decomposed: bool = False
    macs: int = 0
    parameters: int = 0


def rows(*shape: int) -> Tensor:
    return torch.ones(*shape)


BATCH = Dim("batch")
CONVOLUTION = 16 * 27 * 64 * 64  # 3·3·3 at each of 64 by 64 places, 16 channels
LINEAR = 64 * 32 + 128 * 64
EXAMPLES = {
    "expressing": Example(make=Waves, args=(rows(10, 10), rows(10, 10))),
    "in place, by keyword": Example(
        make=Pooled, args=(rows(1, 3, 64, 64),), kwargs={"constant": rows(1, 16, 64, 64)}, macs=CONVOLUTION,
        parameters=16 * 28,
    ),
    "decomposed": Example(
        make=Pooled, args=(rows(1, 3, 64, 64),), kwargs={"constant": rows(1, 16, 64, 64)}, is_decomposed=True,
        macs=CONVOLUTION, parameters=16 * 28,
    ),
    "static": Example(make=Branches, args=(rows(32, 64), rows(32, 128)), macs=32 * LINEAR, parameters=LINEAR + 96),
    "dynamic": Example(
        make=Branches, args=(rows(32, 64), rows(32, 128)), dynamic={"x1": {0: BATCH}, "x2": {0: BATCH}},
        macs=LINEAR, parameters=LINEAR + 96,
    ),
    "automatic": Example(
        make=Waves, args=(rows(10, 10), rows(10, 10)), dynamic={"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}}
    ),
    "numbers": Example(make=Repeated, args=(rows(2, 2), rows(1), 3)),
    "conditional": Example(
        make=Conditional, args=(rows(2, 3),), dynamic={"x": {0: BATCH}}, macs=3 * 5 + 5 * 4, parameters=16 + 20 + 24
    ),
    "value of data": Example(make=Checked, args=(torch.tensor(4), rows(3, 5))),
    "size of data": Example(make=Selected, args=(rows(4, 5),)),
    "nested inputs": Example(
        make=Nested, args=({"a": rows(2, 3), "b": rows(3, 4)}, [(rows(2, 4),)]), macs=2 * 3 * 4
    ),
    "buffer that changes": Example(make=Counted, args=(rows(2, 4),), parameters=4),
    "training": Example(
        make=lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).train(), args=(rows(2, 3, 8, 8),),
        macs=2 * 8 * 27 * 36, parameters=8 * 28 + 16,
    ),
    "recurrent": Example(
        make=lambda: nn.LSTM(8, 16, batch_first=True).eval(), args=(rows(2, 5, 8),), dynamic=({0: BATCH},),
        macs=5 * 4 * 16 * (8 + 16), parameters=4 * 16 * (8 + 16) + 2 * 64,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_the_documentation_are_read(name: str, tmp_path: Path) -> None:
    """Counts are of one sample where the batch varies, and of the exported batch where it does not."""
    example = EXAMPLES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(example.make(), example.args, example.kwargs, dynamic_shapes=example.dynamic)
        torch.export.save(program.run_decompositions() if example.is_decomposed else program, tmp_path / "m.pt2")
    trace = trace_target(load_target(str(tmp_path / "m.pt2"), request=parse_request()))
    recording = trace.recording(Configuration())
    batch = recording.exact_batch or 1
    assert sum(kernel_macs(recording.kernels[op.kernel], batch) for op in recording.ops) == example.macs
    assert trace.parameter_count == example.parameters


def test_the_branch_that_is_counted_is_noted(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(Conditional(), (rows(2, 3),)), tmp_path / "m.pt2")
    target = load_target(str(tmp_path / "m.pt2"), request=parse_request())
    assert "data decide which branch of a torch.cond runs; the longer one is counted." in target.notes
