"""How many candidates stay where the data decides."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from capplan.core.ops.analysis import cautions
from capplan.core.trace.format import dump_trace, load_trace
from capplan.core.trace.types import Recording
from capplan.errors import UsageError
from capplan.probe.inputs.grammar import parse_request
from capplan.probe.record.assumed_values import CandidateSelection
from capplan.probe.target.resolve import load_target
from capplan.probe.trace.tracer import trace_module


class Positive(nn.Module):
    """Keeps the rows above zero, of these the ones with an even position, and counts a class among them."""

    def forward(self, x: Tensor) -> Tensor:
        kept = torch.where(x.flatten() > 0)[0]
        again = torch.where(x.flatten()[kept] > 1)[0]
        by_class = torch.where(kept[again] > 7)[0]
        return x.flatten()[by_class]


def one_input(batch: int, *, device: Any) -> SimpleNamespace:
    return SimpleNamespace(args=(torch.zeros(batch, 64, device=device),), kwargs={}, names=("x",))


def recorded(share: float) -> Recording:
    trace = trace_module(Positive(), one_input, name="positive", selected_share=share)
    assert load_trace(dump_trace(trace, compress=False), where="x") == trace
    return trace.recordings[0]


def selected(recording: Recording, batch: int) -> list[int]:
    kernels = [recording.kernels[op.kernel] for op in recording.ops]
    return [kernel.outputs[0].shape_at(batch)[0] for kernel in kernels if kernel.name == "aten.nonzero"]


def test_the_share_is_taken_once_of_a_chain_and_again_by_class():
    recording = recorded(0.25)
    # 64 values a sample: a quarter of them stays, all of these pass the second threshold, a quarter is of the class
    assert selected(recording, 2) == [32, 32, 8]
    assert recording.exact_batch is None
    assert selected(recording, 10) == [160, 160, 40]


def test_all_candidates_stay_at_a_share_of_one():
    assert selected(recorded(1.0), 3) == [192, 192, 192]


def test_the_caution_states_the_share():
    (found,) = [each for each in cautions(recorded(0.25)) if "aten.nonzero" in each]
    assert "⟨selected-share⟩ 25.0 %" in found


def test_shares_round_up_for_each_sample():
    # 7 candidates in each of 3 samples: two of each, so that sizes stay a multiple of the batch
    assert CandidateSelection(share=0.25, batch=3).kept(21) == 6
    # 10 candidates do not divide among 3 samples
    assert CandidateSelection(share=0.25, batch=3).kept(10) == 3
    assert CandidateSelection(share=0.25, batch=3).kept(0) == 0


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5])
def test_a_share_beyond_its_range_is_refused(share):
    with pytest.raises(UsageError, match=r"⟨selected-share⟩ .* must be above 0 and at most 1"):
        parse_request(selected_share=share)


def test_a_target_carries_the_share_that_was_asked_for():
    request = parse_request(selected_share=0.5)
    assert load_target("torchvision:resnet18", request=request).selected_share == 0.5
