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


class Static(nn.Module):
    """What `torch.ao.quantization.convert` makes of convolutions and a linear layer between its two stubs."""

    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = torch.ao.quantization.QuantStub(), torch.ao.quantization.DeQuantStub()
        self.flat = nn.Conv1d(4, 8, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose1d(8, 6, 4, 2, 1, groups=2)
        self.image = nn.Conv2d(6, 8, 3)
        self.linear = nn.Linear(14, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = self.up(self.flat(self.quant(x)))[:, :, None].repeat(1, 1, 3, 1)
        out: torch.Tensor = self.dequant(torch.relu(self.linear(self.image(wide))))
        return out


def test_statically_quantised_layers_are_counted_with_their_packed_weights() -> None:
    engine = torch.backends.quantized.engine
    try:
        torch.backends.quantized.engine = "qnnpack"  # quantises transposed convolutions per tensor, as they need
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = Static().eval()
            module.qconfig = torch.ao.quantization.get_default_qconfig("qnnpack")
            observed = torch.ao.quantization.prepare(module)
            observed(torch.rand(1, 4, 16))
            trace = trace_module(torch.ao.quantization.convert(observed), _rows, name="net")
    finally:
        torch.backends.quantized.engine = engine
    analysis = analyze_trace(trace, configuration=Configuration(), batch=1)
    # 8 places of 8 channels by 4·3; 8 places of 8 channels, each by 3·4 of its group; 14 places of 8 by 6·9; 8 of 14·10
    assert analysis.macs == 8 * 8 * 12 + 8 * 8 * 12 + 14 * 8 * 54 + 8 * 140
    assert not analysis.uncounted
    weights = 8 * 4 * 3 + 8 * 3 * 4 + 8 * 6 * 9 + 14 * 10
    assert trace.parameter_count == weights + 8 + 6 + 8 + 10


def _rows(batch: int, *, device: object) -> ModelInputs:
    return ModelInputs(args=(torch.rand(batch, 4, 16, device=device),), names=("x",))


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
