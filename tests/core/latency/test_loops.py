"""A loop over what the data selects takes as many rounds as the data decides, and the interval of time says so."""

from dataclasses import replace
from pathlib import Path

import pytest

from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.calibration import prior_calibration
from capplan.core.latency.predict import estimate_latencies
from capplan.core.latency.step import ExecutedStep
from capplan.core.latency.types import LatencyEstimate
from capplan.core.ops.loops import selected_loops
from capplan.core.trace.types import Recording
from capplan.core.workload import Workload
from capplan.probe.inputs.grammar import parse_request
from capplan.probe.target.resolve import load_target
from capplan.probe.trace.tracer import trace_target
from tests.core.latency.latency_cases import gpu

MODEL = """
import torch
from torch import nn

class Selects(nn.Module):
    '''64 candidates, of which a mask keeps some; each that is kept, `most` at the most, is scaled and shifted.'''
    def __init__(self, most=64):
        super().__init__()
        self.most = most
        self.score = nn.Linear(8, 1)

    def forward(self, x):
        kept = torch.nonzero(self.score(x)[0, :, 0] > 0)[:, 0][: self.most]
        rows = x[0].index_select(0, kept)
        found = [torch.tanh(row) * 2 for row in rows]
        return torch.cat([row.flatten() for row in [self.score(x), *found]])

class Layers(nn.Module):
    '''As many layers after a selection: each has a weight of its own.'''
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(16))

    def forward(self, x):
        x = x[0].index_select(0, torch.nonzero(x[0, :, 0] > 0)[:, 0])
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("loops") / "models.py"
    path.write_text(MODEL)
    return path


def recorded(file: Path, name: str = "Selects", **options: object) -> Recording:
    target = load_target(f"{file}:{name}", request=parse_request(inputs=("x=64x8",), **options))
    return trace_target(target, exact_batch=1).recordings[0]


def timed(recording: Recording) -> LatencyEstimate:
    """Time a recording on a host that takes 1 ms for each kernel, beside which the device takes nothing."""
    prior = prior_calibration()
    slow = replace(prior, constants=replace(prior.constants, call_s=0.0, launch_s=1e-3))
    card: GpuSpec = gpu()
    answer = estimate_latencies(ExecutedStep.of(recording, Workload(), calibration=slow), gpus=[card], batches=[1])[0]
    assert isinstance(answer, tuple)
    return answer[0]


def test_rounds_over_selected_rows_are_found(file: Path) -> None:
    # a quarter of 64 candidates stays: 16 rounds of a tanh and a product; all of them may stay, four times as many
    loops = selected_loops(recorded(file))
    assert loops is not None
    assert (loops.rounds, len(loops.ops), loops.most_fraction) == (16, 32, 4.0)


def test_a_selection_that_the_model_cuts_bounds_the_rounds(file: Path) -> None:
    loops = selected_loops(recorded(file, arg=("most=10",)))
    assert loops is not None
    assert (loops.rounds, loops.most_fraction) == (10, 1.0)


def test_the_share_reaches_the_rounds(file: Path) -> None:
    loops = selected_loops(recorded(file, selected_share=0.5))
    assert loops is not None
    assert (loops.rounds, loops.most_fraction) == (32, 2.0)


def test_layers_are_not_rounds(file: Path) -> None:
    assert selected_loops(recorded(file, "Layers")) is None


def test_the_interval_reaches_from_no_round_to_all(file: Path) -> None:
    unknown, none, all_stay = (
        timed(recorded(file, **options)) for options in ({}, {"arg": ("most=0",)}, {"selected_share": 1.0})
    )
    # two linear layers, a mask, its positions, the rows and their joining: 6 of 38 launches are outside of the rounds
    below = none.latency_s.low / none.latency_s.expected
    assert unknown.latency_s.low == pytest.approx(unknown.latency_s.expected * 6 / 38 * below, rel=0.02)
    assert unknown.latency_s.high == pytest.approx(all_stay.latency_s.high, rel=0.02)
    assert none.latency_s.expected < unknown.latency_s.expected < all_stay.latency_s.expected
    assert unknown.bound_s < all_stay.latency_s.low
    assert any("16 are timed, as ⟨selected-share⟩ has it" in note for note in unknown.notes)


def test_rounds_that_are_cut_add_nothing_above(file: Path) -> None:
    cut, fewer = (timed(recorded(file, arg=(f"most={most}",))) for most in (10, 9))
    assert cut.latency_s.high / cut.latency_s.expected == pytest.approx(
        fewer.latency_s.high / fewer.latency_s.expected, rel=0.02
    )
    assert any("10 are timed, the most that the model takes" in note for note in cut.notes)
