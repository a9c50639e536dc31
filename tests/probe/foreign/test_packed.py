"""Weights that quantised modules keep in objects, and inputs under a name that `forward` does not have."""

import warnings

import pytest
import torch
from torch import nn

from capplan.core.ops.analysis import analyze_trace
from capplan.core.workload import Configuration
from capplan.probe.inputs.grammar import ModelInputs, parse_input
from capplan.probe.inputs.tensors import SpecInputs, as_forward_takes
from capplan.probe.trace.tracer import trace_module


def _quantised(**options: object) -> nn.Module:
    net = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10)).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made: nn.Module = torch.ao.quantization.quantize_dynamic(net, {nn.Linear}, **options)
    return made


def _inputs(batch: int, *, device: object) -> ModelInputs:
    return ModelInputs(kwargs={"x": torch.empty(batch, 256, device=device)}, names=("x",))


def test_packed_int8_weights_count_one_byte_each() -> None:
    trace = trace_module(_quantised(dtype=torch.qint8), _inputs, name="net")
    weights, biases = 256 * 512 + 512 * 10, 512 + 10
    assert trace.parameter_count == weights + biases
    assert trace.weight_bytes == weights + 4 * biases
    analysis = analyze_trace(trace, configuration=Configuration(), batch=4)
    assert analysis.macs == 4 * weights
    assert not analysis.uncounted
    assert any("quantize_dynamic" in note for note in trace.provenance.notes)


def test_packed_half_weights_count_two_bytes_each() -> None:
    trace = trace_module(_quantised(dtype=torch.float16), _inputs, name="net")
    assert trace.weight_bytes == 2 * (256 * 512 + 512 * 10) + 4 * (512 + 10)


def test_a_single_named_input_goes_by_position_where_forward_has_another_name() -> None:
    trace = trace_module(nn.Sequential(nn.Linear(8, 4)), _inputs_of(8), name="net")
    assert trace.inputs[0].name == "x"


def _inputs_of(width: int) -> SpecInputs:
    return SpecInputs(specs=(parse_input(f"x={width}"),))


@pytest.mark.parametrize(
    "forward", [lambda x: x, lambda **others: others, lambda: None], ids=["its name", "any name", "nothing"]
)
def test_an_input_that_forward_takes_by_name_stays_named(forward: object) -> None:
    inputs = ModelInputs(kwargs={"x": 1}, names=("x",))
    assert as_forward_takes(inputs, forward) is inputs  # type: ignore[arg-type]
