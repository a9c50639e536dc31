"""Models that keep tensors of their first call: every trace is of a later call, as a served model runs."""

import torch
from torch import Tensor, nn

from capplan.core.memory.schedule import live_curve
from capplan.core.trace.types import ALWAYS, Role, Trace
from capplan.probe.trace.tracer import trace_module
from tests.probe.trace.test_trace import feeds


class Keeping(nn.Module):
    """Keeps a table of 1000 floats of its first call."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.empty(1000))
        self.kept: dict[str, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        if "table" not in self.kept:
            self.kept["table"] = self.scale * 2
        return x + self.kept["table"]


def _trace(module: nn.Module, exact_batch: int | None = None) -> Trace:
    return trace_module(module, feeds(1000), name="net", exact_batch=exact_batch)


def test_a_trace_at_one_batch_is_the_closed_form_at_it() -> None:
    closed, fresh = _trace(Keeping()).recordings[0], _trace(Keeping(), exact_batch=7).recordings[0]
    # weights and table 4 kB each; input and output 4 kB a sample
    assert live_curve(closed).peak_bytes(7) == live_curve(fresh).peak_bytes(7) == 2 * 4000 + 2 * 7 * 4000
    for recording in (closed, fresh):
        assert [recording.kernels[op.kernel].name for op in recording.ops] == ["aten.add"]


def test_what_the_first_call_kept_is_there_from_the_start() -> None:
    kept = [s for s in _trace(Keeping(), exact_batch=3).recordings[0].storages if s.role is Role.BUFFER]
    assert [(s.birth, s.size_bytes.at(3)) for s in kept] == [(ALWAYS, 4000)]


def test_the_model_is_left_as_found() -> None:
    module = Keeping()
    _trace(module, exact_batch=2)
    assert torch.is_tensor(module.scale)
    assert not module.kept
