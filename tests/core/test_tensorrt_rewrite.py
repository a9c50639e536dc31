"""What an engine makes of a small network: folded, fused, narrowed; and what it would refuse."""

from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import nn

import capplan
from capplan.core.latency.breakdown import StepBreakdown, break_down
from capplan.core.latency.calibration import prior_calibration
from capplan.core.latency.inference_engines import engine_calibration, with_convolution_widths
from capplan.core.latency.lookup import calibration_notes
from capplan.core.latency.predict import estimate_latencies
from capplan.core.latency.step import ExecutedStep
from capplan.core.latency.types import Evidence
from capplan.core.memory.schedule import live_curve
from capplan.core.ops.flops import kernel_flops
from capplan.core.tensorrt_rewrite import EPILOGUE, engine_recording, refusal_notes, refused_operators
from capplan.core.trace.types import Recording, Role, Trace
from capplan.core.workload import Configuration, Framework, Precision, Training, Variant, Workload
from capplan.errors import UsageError
from capplan.specs import load_gpus
from capplan.specs.calibration import load_engines

TENSORRT_FP16 = Workload(precision=Precision.FP16, framework=Framework.TENSORRT)
TENSORRT_INT8 = Workload(precision=Precision.INT8, framework=Framework.TENSORRT)


class Residual(nn.Module):
    """Two convolutions with norms, a residual addition, and a linear layer with an activation."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(16, 16, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList([nn.BatchNorm2d(16), nn.BatchNorm2d(16)])
        self.head = nn.Linear(16, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norms[0](self.first(x)))
        y = torch.relu(self.norms[1](self.second(y)) + x)
        return nn.functional.gelu(self.head(y.mean((2, 3))))


class Spectral(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.rfft(x).abs()


@cache
def trace() -> Trace:
    return capplan.trace(Residual(), inputs=["x=16x8x8"], precisions=["fp16"])


def half() -> Recording:
    return trace().recording(Configuration(variant=Variant.HALF))


def names(recording: Recording) -> list[str]:
    return [recording.kernels[op.kernel].name for op in recording.ops]


def weight_bytes(recording: Recording) -> int:
    return sum(each.size_bytes.constant for each in recording.storages if each.role is Role.PARAMETER)


def test_norms_activations_and_additions_go_into_the_products_before_them() -> None:
    made = engine_recording(half(), TENSORRT_FP16)
    # two convolutions with all that follows them, the mean, and the linear layer with its GELU
    assert names(made) == ["aten.convolution", "aten.convolution", "capplan.fused", "aten.addmm"]
    assert [made.kernels[op.kernel].attributes.get(EPILOGUE) for op in made.ops] == [1, 1, None, 1]
    before, after = (sum(kernel_flops(each.kernels[op.kernel], 2) for op in each.ops) for each in (half(), made))
    assert before == after == 2 * 2 * (2 * 16 * 16 * 9 * 64 + 16 * 32)


class Branches(nn.Module):
    """Two branches that are joined; with `halves` the second one takes half of a result whose other half is joined."""

    def __init__(self, halves: bool) -> None:
        super().__init__()
        self.halves = halves
        self.first = nn.Conv2d(16, 16, 1, bias=False)
        self.second = nn.Conv2d(8 if halves else 16, 16, 3, padding=1, bias=False)
        self.last = nn.Conv2d(24 if halves else 32, 16, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.first(x))
        left, right = y.chunk(2, 1) if self.halves else (y, y)
        return self.last(torch.cat((left, torch.relu(self.second(right))), 1))


@pytest.mark.parametrize("halves", [False, True])
def test_what_is_joined_is_written_into_its_place_and_halves_of_a_result_are_copied_there(halves: bool) -> None:
    """NVIDIA/TensorRT#3254, of YOLOv8: "Retargeting" convolutions, "Generating copy" of a result that is split."""
    net = Branches(halves)
    made = engine_recording(
        capplan.trace(net, inputs=["x=16x8x8"], precisions=["fp16"]).recording(Configuration(variant=Variant.HALF)),
        TENSORRT_FP16,
    )
    fused = ["capplan.fused"] * halves  # what splits the result, and what copies its half
    assert names(made) == ["aten.convolution", *fused, "aten.convolution", *fused, "aten.convolution"]
    if halves:
        assert [operand.shape_at(2) for operand in made.kernels[made.ops[3].kernel].outputs] == [(2, 8, 8, 8)]
    # the joined images are alive while the last convolution runs, with its own result: 2 x (24 or 32, and 16) x 8 x 8
    assert live_curve(made).at(2)[-1] - weight_bytes(made) >= 2 * 2 * 64 * ((24 if halves else 32) + 16)


class WrittenOut(nn.Module):
    """Attention of products and a softmax, with heads of keys and of values as long as stated."""

    def __init__(self, keys: int, values: int) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(64, 4 * width) for width in (keys, keys, values))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = (
            layer(x).unflatten(-1, (4, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        return (query @ key.transpose(-2, -1)).softmax(-1) @ value


@pytest.mark.parametrize(("values", "fused"), [(16, True), (32, False)])
def test_attention_that_is_written_out_is_one_kernel_where_heads_are_alike(values: int, fused: bool) -> None:
    trace = capplan.trace(WrittenOut(16, values), inputs=["x=10x64"], precisions=["fp16"])
    made = engine_recording(trace.recording(Configuration(variant=Variant.HALF)), TENSORRT_FP16)
    found = [name for name in names(made) if name in {"aten.bmm", "capplan.attention"}]
    assert found == (["capplan.attention"] if fused else ["aten.bmm"] * 2)
    products = [made.kernels[op.kernel] for op in made.ops if made.kernels[op.kernel].name in found]
    # of 2 samples with 4 heads: 10 x 10 scores over 16, and 10 results of each value over 10 scores
    assert sum(kernel_flops(kernel, 2) for kernel in products) == 2 * 2 * 4 * 100 * (16 + values)


def test_only_what_leaves_a_kernel_lives() -> None:
    made = engine_recording(half(), TENSORRT_FP16)
    live = live_curve(made).at(4)
    # at the second convolution: the input, the first result and its own, each of 4 x 16 x 8 x 8 in 16 bits
    assert int(live.max() - live[0]) == 2 * (4 * 16 * 64 * 2)


def test_images_between_int8_convolutions_take_a_byte_an_element() -> None:
    live = live_curve(engine_recording(half(), TENSORRT_INT8)).at(4)
    assert int(live.max() - live[0]) == 2 * (4 * 16 * 64)


def test_int8_products_read_int8_and_weights_take_a_byte() -> None:
    wide, narrow = engine_recording(half(), TENSORRT_FP16), engine_recording(half(), TENSORRT_INT8)
    matrices = 2 * 16 * 16 * 9 + 16 * 32
    assert weight_bytes(wide) - weight_bytes(narrow) == matrices
    convolution = narrow.kernels[narrow.ops[0].kernel]
    assert {each.dtype for each in (*convolution.inputs[:2], *convolution.outputs)} == {"int8"}
    linear = narrow.kernels[narrow.ops[-1].kernel]
    assert linear.outputs[0].dtype == "half"


def test_operators_without_a_layer_are_named() -> None:
    spectral = capplan.trace(Spectral(), inputs=["x=64"]).recordings[0]
    assert "aten::_fft_r2c" in refused_operators(spectral, Framework.TENSORRT)
    assert refusal_notes(spectral, Framework.ONNXRUNTIME)[0].startswith("ONNX Runtime would refuse")
    assert refused_operators(half(), Framework.TENSORRT) == ()


def test_formats_of_engines_need_an_engine_and_engines_infer_only() -> None:
    with pytest.raises(UsageError, match="add ⟨framework⟩ tensorrt"):
        Workload(precision=Precision.INT8)
    with pytest.raises(UsageError, match="drop ⟨train⟩"):
        Workload(framework=Framework.TENSORRT, training=Training())


def test_an_engine_has_no_host_and_int8_is_faster() -> None:
    def latency(precision: str, framework: str) -> float:
        answer = capplan.plan(trace(), batches=[512], gpus=["t4"], precision=precision, framework=framework)
        return answer.fits[0].latency.latency_s.expected

    assert latency("int8", "tensorrt") < latency("fp16", "tensorrt") < latency("fp16", "eager")
    assert latency("fp16", "tensorrt") < latency("fp16", "onnxruntime")


def test_a_small_convolution_takes_its_fixed_time_whatever_the_gpu() -> None:
    """ResNet-50's 53 convolutions take 0.58 ms at batch 1 in AITemplate on an A100: 10 µs each, beyond their work."""
    constants = load_engines()["tensorrt"].constants
    plan = capplan.plan(trace(), batches=[1], gpus=["h100-sxm5-80gb"], precision="fp16", framework="tensorrt")
    # two convolutions, the mean and the linear layer, each far below a microsecond of work, at 1.98 GHz
    least_s = (4 * constants.kernel_s + 2 * constants.convolution_s) * 1.5 / 1.98
    assert least_s < plan.fits[0].latency.latency_s.expected < least_s + 4e-6


def test_a_small_kernel_of_a_cuda_graph_takes_what_one_of_an_engine_takes() -> None:
    known = replace(prior_calibration(), engines=load_engines())

    def latency_s(framework: Framework, batch: int) -> float:
        step = ExecutedStep.of(half(), Workload(precision=Precision.FP16, framework=framework), calibration=known)
        (found,) = estimate_latencies(step, gpus=[load_gpus()["h100-sxm5-80gb"]], batches=[batch])
        assert isinstance(found, tuple)
        return found[0].latency_s.expected

    constants = known.engines["tensorrt"].constants
    # Inductor folds no norm into a convolution: two convolutions, two norms with what follows (of the second the
    # mean), the linear layer and its GELU. Each needs far below a microsecond at 1.98 GHz.
    least_s = (6 * constants.kernel_s + 2 * constants.convolution_s) * 1.5 / 1.98
    assert latency_s(Framework.COMPILE_GRAPHS, 1) == pytest.approx(least_s, rel=0.05)
    assert latency_s(Framework.COMPILE_GRAPHS, 1) < latency_s(Framework.COMPILE, 1)
    # where kernels work for long, the least that they take does not matter
    assert latency_s(Framework.COMPILE_GRAPHS, 2**17) == pytest.approx(latency_s(Framework.COMPILE, 2**17), rel=0.01)


def test_networks_of_convolutions_have_intervals_of_their_own() -> None:
    known = replace(prior_calibration(), engines=load_engines())
    sides = {
        framework: with_convolution_widths(engine_calibration(known, framework), framework).widths
        for framework in (Framework.TENSORRT, Framework.ONNXRUNTIME)
    }
    for framework, widths in sides.items():
        half_width = known.engines[framework.value].convolutions.models
        assert {each.below for each in widths.values()} == {half_width}
    assert sides[Framework.TENSORRT]["device nchw"].above < sides[Framework.ONNXRUNTIME]["device nchw"].above


def test_without_constants_of_an_engine_compiled_steps_serve_it_and_the_answer_says_so() -> None:
    """A calibration folder of one's own may lack engines; a note and the width of an unmeasured workload follow."""
    bare = prior_calibration()
    assert with_convolution_widths(engine_calibration(bare, Framework.TENSORRT), Framework.TENSORRT) == bare
    known = replace(bare, origin=load_engines()["tensorrt"].origin)
    notes = calibration_notes(known, load_gpus()["t4"], TENSORRT_FP16)
    assert "calibrated on eager steps, not on tensorrt, wider interval" in notes


class Attention(nn.Module):
    """Queries, keys and values of 64 features in 4 heads, and a product of the result."""

    def __init__(self) -> None:
        super().__init__()
        self.queries, self.keys, self.values, self.out = (nn.Linear(64, 64) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = [layer(x).unflatten(-1, (4, 16)).transpose(1, 2) for layer in (self.queries, self.keys, self.values)]
        made = nn.functional.scaled_dot_product_attention(*heads)
        return torch.relu(self.out(made.transpose(1, 2).flatten(2)))


@cache
def attention() -> Trace:
    return capplan.trace(Attention(), inputs=["x=32x64"], precisions=["fp16", "fp32"])


def test_queries_keys_and_values_are_one_product() -> None:
    traced = attention().recording(Configuration(variant=Variant.HALF))
    made = engine_recording(traced, TENSORRT_FP16)
    assert names(made) == ["aten.addmm", "capplan.attention", "aten.addmm"]
    merged = made.kernels[made.ops[0].kernel]
    assert [each.shape_at(2)[-1] for each in merged.outputs] == [64, 64, 64]
    before, after = (sum(kernel_flops(each.kernels[op.kernel], 2) for op in each.ops) for each in (traced, made))
    assert before == after
    assert weight_bytes(made) == weight_bytes(traced)


def test_int8_goes_through_attention_but_the_result_stays_wide() -> None:
    """As in NVIDIA's BERT; between the products a byte an element lives."""
    traced = attention().recording(Configuration(variant=Variant.HALF))
    made = engine_recording(traced, TENSORRT_INT8)
    first, middle, last = (made.kernels[op.kernel] for op in made.ops)
    assert {each.dtype for each in (*first.outputs, *middle.inputs, *middle.outputs, *last.inputs[1:3])} == {"int8"}
    assert last.outputs[0].dtype == "half"
    fp8 = engine_recording(traced, Workload(precision=Precision.FP8, framework=Framework.TENSORRT))
    assert fp8.kernels[fp8.ops[1].kernel].inputs[0].dtype == "half"


def test_a_gpu_without_int8_units_takes_16_bits_and_says_so() -> None:
    """V100's steps of BERT took as long in int8 as in fp16, within 5 %: its tensor cores know no int8."""
    times_s, notes = {}, {}
    for precision in ("fp16", "int8"):
        (fit,) = capplan.plan(
            attention(), batches=[64], gpus=["v100-sxm2-16gb"], precision=precision, framework="tensorrt"
        ).fits
        times_s[precision], notes[precision] = fit.latency.latency_s.expected, fit.latency.notes
    assert times_s["int8"] == times_s["fp16"]
    assert any("no faster in int8 than in fp16" in note for note in notes["int8"])
    assert not any("int8" in note for note in notes["fp16"])


def test_int8_says_what_it_takes_for_granted() -> None:
    """NVIDIA/Model-Optimizer issue 167: a ViT-L whose quantised graph has no fp16 took twice its fp16 on a T4."""
    (fit,) = capplan.plan(attention(), batches=[64], gpus=["t4"], precision="int8", framework="tensorrt").fits
    assert any("may be slower than fp16" in note for note in fit.latency.notes)


def test_attention_is_unfused_on_volta_and_in_fp32() -> None:
    """The softmax's row is timed then, whose scores are 4 heads of 32 by 32."""
    for gpu_id, precision, is_fused in (
        ("t4", "fp16", True), ("v100-sxm2-16gb", "fp16", False), ("t4", "fp32-ieee", False),
    ):  # fmt: skip
        workload = Workload(precision=Precision(precision), framework=Framework.TENSORRT)
        step = ExecutedStep.of(attention().recording(workload.configuration), workload)
        found = break_down(step, gpu=load_gpus()[gpu_id], batch=8)
        assert isinstance(found, StepBreakdown)
        labels = {each.label for each in found.kernels}
        assert ("fused softmax" not in labels) is is_fused


def test_what_was_never_timed_in_an_engine_is_called_transferred() -> None:
    """The fixture's TensorRT was timed on the T4 alone, in 16 bits and int8."""
    found = {}
    for precision, gpu_id in (("fp16", "t4"), ("fp16", "l4"), ("fp8", "l4")):
        (fit,) = capplan.plan(attention(), batches=[8], gpus=[gpu_id], precision=precision, framework="tensorrt").fits
        found[precision, gpu_id] = fit.latency
    assert found["fp16", "t4"].evidence is Evidence.MEASURED
    assert found["fp16", "l4"].evidence is found["fp8", "l4"].evidence is Evidence.TRANSFERRED
    assert "no engine was timed in fp8" in found["fp8", "l4"].evidence_reason
    sides = {key: each.latency_s.high / each.latency_s.expected for key, each in found.items()}
    assert sides["fp16", "t4"] < sides["fp16", "l4"]


def test_fp8_is_refused_below_ada() -> None:
    plan = capplan.plan(trace(), batches=[8], gpus=["t4", "l4"], precision="fp8", framework="tensorrt")
    assert [each.gpu.id for each in plan.fits] == ["l4"]
    assert "8.9" in plan.rejections[0].reason


def test_onnx_runtime_takes_longer_than_tensorrt_as_on_the_same_triton() -> None:
    """Of BERT 27 pairs lie between 1.26 and 2.5; TensorRT's own plugins, which its constants know, add to that."""
    block = nn.Sequential(nn.Linear(768, 3072), nn.GELU(), nn.Linear(3072, 768), nn.LayerNorm(768))
    made = capplan.trace(block, inputs=["384x768"], precisions=["fp16"])
    fits = {
        framework: capplan.plan(made, batches=[16], gpus=["t4"], precision="fp16", framework=framework).fits[0]
        for framework in ("onnxruntime", "tensorrt")
    }
    times_s = {framework: fit.latency.latency_s.expected for framework, fit in fits.items()}
    assert 1.26 < times_s["onnxruntime"] / times_s["tensorrt"] < 3.2
    assert "timed with BERT alone" in fits["onnxruntime"].latency.evidence_reason
