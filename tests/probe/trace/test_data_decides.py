"""Branches, loops and sizes that hang on data: answered by a run on the CPU, or assumed within bounds."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from capplan.core.ops.flops import kernel_macs
from capplan.core.trace.types import Trace
from capplan.core.workload import Configuration, Training
from capplan.errors import TraceError
from capplan.probe.record import recorder
from capplan.probe.record.answers import LIKE_ANSWERS
from capplan.probe.trace.tracer import trace_module

LINEAR = 16 * 16
"""Multiply-accumulates a sample of the one layer."""


def ones(batch: int, *, device: Any) -> SimpleNamespace:
    return SimpleNamespace(args=(torch.ones((batch, 16), device=device),), kwargs={}, names=("x",))


class Model(nn.Module):
    """Runs `run(layer, x)`; one that refuses the CPU can be traced without data alone."""

    def __init__(self, run: Callable[[nn.Module, Tensor], Tensor], *, runs_on_cpu: bool = True) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 16)
        self.run = run
        self.runs_on_cpu = runs_on_cpu

    def forward(self, x: Tensor) -> Tensor:
        if not self.runs_on_cpu and not x.is_cuda:
            raise RuntimeError("only on the device")
        return self.run(self.layer, x)


def until_all_done(layer: nn.Module, x: Tensor) -> Tensor:
    done = torch.zeros(x.shape[0], dtype=torch.bool, device=x.device)
    while not done.all():
        x = layer(x)
        done = done | (x.mean(-1) < 1e9)  # every row is done after its first turn
    return x


def until_break(layer: nn.Module, x: Tensor) -> Tensor:
    while True:
        x = layer(x)
        if x.abs().max() < 1e9:
            return x


def halving(layer: nn.Module, x: Tensor) -> Tensor:
    out = x
    while x.max() > 0.1:  # 1, 0.5, 0.25, 0.125
        out = layer(x)
        x = x * 0.5
    return out


def generate(layer: nn.Module, x: Tensor) -> Tensor:
    """Stop after five steps, or where an end token comes, as text is generated."""
    unfinished = torch.ones(x.shape[0], dtype=torch.long, device=x.device)
    for step in range(1, 100):
        x = layer(x)
        is_last = torch.full((x.shape[0],), step >= 5, device=x.device, dtype=torch.bool)
        unfinished = unfinished & ~(is_last | (x[:, 0] > 1e9))
        if unfinished.max() == 0:
            break
    return x


def counted(layer: nn.Module, x: Tensor) -> Tensor:
    for _ in range(int(x[0].sum().item()) // 4):  # 16 // 4
        x = layer(x)
    return x


def durations(layer: nn.Module, x: Tensor) -> Tensor:
    lengths = (x.sum(-1) / 8).long()  # two frames a row
    out: Tensor = layer(torch.repeat_interleave(x, lengths, dim=0))
    return out


def capacity(layer: nn.Module, x: Tensor) -> Tensor:
    """Give a router's experts the room that the fullest needs, as mixtures of experts do."""
    chosen = (x.cumsum(-1) * 0.2).long() % 4
    room = max(chosen.max() + 1, 2)
    slots = torch.nn.functional.one_hot(chosen, int(room))  # 0 to 3: four slots
    out: Tensor = layer(x.unsqueeze(1).expand(-1, slots.shape[-1], -1))
    return out


def capacity_in_a_line(layer: nn.Module, x: Tensor) -> Tensor:
    """Ask twice in one line, where the CPU's kernel asks in between, as mixture-of-experts does."""
    chosen = (x.cumsum(-1) * 0.2).long() % 4
    slots = torch.nn.functional.one_hot(chosen, max(chosen.max() + 1, torch.tensor(2, device=x.device)))
    again = torch.nn.functional.one_hot(chosen, max(chosen.max() + 1, torch.tensor(6, device=x.device)))
    out: Tensor = layer(x.unsqueeze(1).expand(-1, slots.shape[-1] + again.shape[-1], -1))  # 4 + 6
    return out


def macs(made: Trace) -> int:
    recording = made.recordings[0]
    batch = recording.exact_batch or 1
    counts = recording.calls_per_kernel()
    return sum(n * kernel_macs(kernel, batch) for kernel, n in zip(recording.kernels, counts, strict=True))


@pytest.mark.parametrize(
    ("run", "layers"),
    [
        (until_all_done, 1), (until_break, 1), (halving, 4), (generate, 5), (counted, 4), (durations, 2), (capacity, 4),
        (capacity_in_a_line, 10),
    ],
)  # fmt: skip
def test_what_hangs_on_data_is_that_of_a_run(run: Callable[..., Tensor], layers: int) -> None:
    made = trace_module(Model(run), ones, name="model")
    recording = made.recordings[0]
    assert (recording.backend, recording.exact_batch, recording.assumed_values) == ("meta", None, ())
    assert macs(made) == layers * LINEAR
    [note] = made.provenance.notes
    assert note.startswith("what hangs on data at test_data_decides.py:")


def test_a_training_step_takes_the_answers_too() -> None:
    made = trace_module(Model(halving), ones, name="model", configurations=[Configuration(training=Training())])
    # one step: forward, and the gradient of the weight in the last turn, whose output alone is kept
    assert macs(made) == 4 * LINEAR + LINEAR
    assert made.recordings[0].assumed_values == ()


@pytest.mark.parametrize("run", [until_all_done, until_break])
def test_a_loop_ends_after_many_like_assumptions_and_says_so(run: Callable[..., Tensor]) -> None:
    made = trace_module(Model(run, runs_on_cpu=False), ones, name="model")
    assert macs(made) == (LIKE_ANSWERS + 1) * LINEAR
    assert any("taken to end after 1,024 times at test_data_decides.py:" in note for note in made.provenance.notes)


def test_generation_ends_at_its_length_without_data() -> None:
    """`unknown or True` is true and `unknown and 0` is 0, whatever the tokens are."""
    made = trace_module(Model(generate, runs_on_cpu=False), ones, name="model")
    assert macs(made) == 5 * LINEAR


def test_a_loop_without_an_end_is_stopped_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder.PassLimits, "__init__", _few(recorder.PassLimits.__init__))

    def forever(layer: nn.Module, x: Tensor) -> Tensor:
        while True:
            x = layer(x)

    with pytest.raises(TraceError, match=r"did not end within 5,120 calls .*test_data_decides.py:\d+: bound its loop"):
        trace_module(Model(forever), ones, name="model")


def test_a_loop_that_no_answer_ends_is_stopped_and_named() -> None:
    """It ends at one number among all, which nothing that is assumed can be."""

    def until_seven(layer: nn.Module, x: Tensor) -> Tensor:
        while int(x.sum()) != 7:
            x = layer(x)
        return x

    with pytest.raises(TraceError, match=r"asked for its data 5,000 times at test_data_decides.py:\d+, and no answer"):
        trace_module(Model(until_seven, runs_on_cpu=False), ones, name="model")


def _few(plain: Callable[..., None]) -> Callable[..., None]:
    def init(self: Any, **given: Any) -> None:
        plain(self, **{**given, "calls": 5_000})

    return init


@pytest.mark.slow
def test_a_run_that_would_be_too_long_leaves_the_assumption_and_says_so() -> None:
    def never_small(layer: nn.Module, x: Tensor) -> Tensor:
        x = layer(x)
        while (x.abs() > 1e-3).any():
            layer(x)
            x = x + 1
        return x

    made = trace_module(Model(never_small), ones, name="model")
    assert [value.what for value in made.recordings[0].assumed_values] == ["aten._local_scalar_dense"]
    assert "did not end within" in made.provenance.notes[-1]
