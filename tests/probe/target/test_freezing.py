"""Fine-tuning: frozen parameters have no gradient, no optimizer state, and no gradient is computed for them."""

import shlex
from collections import Counter
from pathlib import Path

import pytest
import torch

import capplan
from capplan.core.ops.analysis import analyze_trace
from capplan.core.trace.types import Role, Trace
from capplan.core.workload import Configuration, Optimizer, Training
from capplan.errors import TraceError, UsageError
from capplan.probe.inputs.grammar import ModelRequest
from capplan.probe.target.resolve import load_target
from capplan.probe.trace.tracer import trace_target

CODE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 16, bias=False)
        self.head = nn.Linear(16, 4, bias=False)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))

class Adapted(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.down = nn.Linear(layer.in_features, 2, bias=False)
        self.up = nn.Linear(2, layer.out_features, bias=False)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x))

def by_hand():
    net = Net()
    for parameter in net.parameters():
        parameter.requires_grad = False
    net.body, net.head = Adapted(net.body), Adapted(net.head)
    return net

class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two, self.out = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 2)
        self.two.weight = self.one.weight

    def forward(self, x):
        return self.out(self.two(self.one(x)))
"""
TRAINING = Configuration(training=Training(optimizer=Optimizer.ADAMW))
N = 4
"""The batch of all counts."""


@pytest.fixture
def code(tmp_path: Path) -> str:
    path = tmp_path / "nets.py"
    path.write_text(CODE)
    return str(path)


def traced(words: str, *, prepare: tuple[str, ...] = (), freeze: tuple[str, ...] = ()) -> Trace:
    request = ModelRequest(words=words, inputs=("x=8",), prepare=prepare, freeze=freeze)
    return trace_target(load_target(words, request=request.parse()), configurations=[TRAINING])


def macs(trace: Trace) -> int:
    return analyze_trace(trace, configuration=TRAINING, batch=N).macs


def held_bytes(trace: Trace) -> Counter[Role]:
    """Return the bytes of each role that the second step alone makes, or that outlive the first."""
    recording = trace.recording(TRAINING)
    second = next(phase.first_op for phase in recording.phases if phase.step == 2)
    sizes: Counter[Role] = Counter()
    for storage in recording.storages:
        is_held = storage.birth >= second if storage.role is Role.GRADIENT else True
        sizes[storage.role] += storage.size_bytes.at(N) * is_held
    return sizes


# Multiply-accumulates of a sample: 8 · 16 = 128 in the body, 16 · 4 = 64 in the head, 192 forward. The gradient of a
# weight, and that of a layer's input, takes as many as the forward product (Goodfellow et al. 2016, 6.5.6); nobody asks
# for the gradient of the model's own input.
@pytest.mark.parametrize(
    ("freeze", "trainable", "expected"),
    [
        ((), 128 + 64, 192 + 64 + 64 + 128),  # head: weight and input; body: weight
        (("body.*",), 64, 192 + 64),  # the head's weight alone: nothing below it is trained
        (("head.*",), 128, 192 + 64 + 128),  # the gradient passes through the frozen head to the body
    ],
)
def test_no_gradient_is_computed_for_a_frozen_weight(
    code: str, freeze: tuple[str, ...], trainable: int, expected: int
) -> None:
    trace = traced(f"{code}:Net", freeze=freeze)
    assert (trace.parameter_count, trace.trainable_count) == (192, trainable)
    assert macs(trace) == expected * N


@pytest.mark.parametrize(("freeze", "trainable"), [((), 192), (("body.*",), 64), (("h*.weight",), 128)])
def test_only_trainable_parameters_have_gradients_and_states(
    code: str, freeze: tuple[str, ...], trainable: int
) -> None:
    # fp32: a gradient of 4 bytes, and AdamW's two moments, 8 bytes (Loshchilov and Hutter 2019, algorithm 2)
    sizes = held_bytes(traced(f"{code}:Net", freeze=freeze))
    assert sizes[Role.PARAMETER] == 192 * 4
    assert sizes[Role.GRADIENT] == trainable * 4
    assert sizes[Role.OPTIMIZER] == trainable * 8


def test_adapters_alone_are_trained(code: str) -> None:
    # rank 2 on 8 → 16 and on 16 → 4: 2 · (8 + 16) + 2 · (16 + 4) = 88 parameters beside the model's 192
    trace = traced(f"{code}:Net", prepare=("lora=2",))
    assert (trace.parameter_count, trace.trainable_count) == (192 + 88, 88)
    sizes = held_bytes(trace)
    assert (sizes[Role.GRADIENT], sizes[Role.OPTIMIZER]) == (88 * 4, 88 * 8)
    # forward 192, adapters 88. Backward: every adapter's weights 88; inputs of the head 64 and of its adapter
    # 32 + 8; of the body's adapter only what its first layer needs, 32
    assert macs(trace) == (192 + 88 + 88 + 64 + 40 + 32) * N


def test_adapters_cost_what_they_cost_written_by_hand(code: str) -> None:
    step, own = traced(f"{code}:Net", prepare=("lora=2",)), traced(f"{code}:by_hand")
    assert macs(step) == macs(own)
    assert held_bytes(step) == held_bytes(own)
    kernels = [
        Counter(recording.kernels[op.kernel].name for op in recording.steady_ops())
        for recording in (step.recording(TRAINING), own.recording(TRAINING))
    ]
    assert kernels[0] == kernels[1]


def test_a_pattern_is_matched_after_the_steps_and_by_every_name_of_a_shared_parameter(code: str) -> None:
    # of 88 adapter parameters, the head's second layer has 2 · 4
    trace = traced(f"{code}:Net", prepare=("lora=2",), freeze=("head.lora_b.*",))
    assert trace.trainable_count == 88 - 8
    # one weight of 64 under two names; left are two biases of 8, and the last layer's 16 + 2
    assert traced(f"{code}:Tied", freeze=("two.weight",)).trainable_count == 8 + 8 + 18


def test_patterns_stand_in_the_traces_name_and_notes_and_in_what_caches_compare(code: str) -> None:
    trace = traced(f"{code}:Net", freeze=("body.*",))
    assert shlex.split(trace.target)[-2:] == ["--freeze", "body.*"]
    assert any("freeze body.*" in note for note in trace.provenance.notes)
    assert ModelRequest(words="net", freeze=("body.*", "head")).options == ("--freeze", "body.*", "--freeze", "head")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("bodi.*", r"^⟨freeze⟩ 'bodi\.\*' matches no name of a parameter; the nearest: body\.\*"),
        ("head", r"^⟨freeze⟩ 'head' matches no name of a parameter; the nearest: head\.\*"),
        ("???", r"the nearest: body\.\*, head\.\*\.$"),
    ],
)
def test_a_pattern_that_matches_nothing_is_refused_with_the_nearest_names(
    code: str, pattern: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        traced(f"{code}:Net", freeze=(pattern,))


def test_a_model_frozen_whole_has_nothing_to_train(code: str) -> None:
    with pytest.raises(TraceError, match="nothing to train"):
        traced(f"{code}:Net", freeze=("*",))


def test_a_module_handed_over_is_frozen_and_prepared_and_stays_as_it_was() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 4))
    frozen = capplan.analyze(net, inputs=["x=8"], freeze="0.*", train=True)
    assert frozen.analysis.trace.trainable_count == 16 * 4 + 4
    adapted = capplan.analyze(net, inputs=["x=8"], prepare="lora=2", train=True)
    assert adapted.analysis.trace.trainable_count == 88
    assert all(parameter.requires_grad for parameter in net.parameters())
