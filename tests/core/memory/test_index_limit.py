"""Which kernels refuse tensors of 2^31 elements, by release, framework and layout."""

from dataclasses import replace

import pytest

from capplan.app.sweep.grid import GridPlanner
from capplan.core.memory.fit import largest_fitting_batch
from capplan.core.memory.index_limit import index_limit_batch, refused_above
from capplan.core.memory.model import MemoryModel
from capplan.core.memory.types import UNCALIBRATED
from capplan.core.plan.planner import Prepared
from capplan.core.sweep.definition import Conditions
from capplan.core.trace.types import Affine, Kernel, MemoryFormat, Operand, Recording, Trace
from capplan.core.workload import BatchChoice, Batches, Framework, Precision, Workload
from capplan.specs import load_gpus
from capplan.specs.calibration import load_calibration
from tests.core.small_recordings import chain

LAST, FIRST = MemoryFormat.CHANNELS_LAST, MemoryFormat.CONTIGUOUS


def image(channels: int, size: int, layout: MemoryFormat = FIRST) -> Operand:
    shape = (Affine(0, 1), Affine(channels), Affine(size), Affine(size))
    return Operand(dtype="half", shape=shape, memory_format=layout)


def convolution(*, groups: int, window: int, stride: int, layout: MemoryFormat = FIRST, channels: int = 64) -> Kernel:
    weight = (Affine(channels), Affine(channels // groups), Affine(window), Affine(window))
    return Kernel(
        name="aten.convolution",
        inputs=(image(channels, 128, layout), Operand(dtype="half", shape=weight, is_weight=True)),
        outputs=(image(channels, 128 // stride, layout),),
        attributes={"groups": groups, "stride": (stride, stride)},
    )


def recording(*kernels: Kernel) -> Recording:
    return replace(chain(4000, 4000).recordings[0], kernels=kernels)


def ran(major: int, minor: int, framework: Framework) -> Workload:
    return Workload(torch_version=(major, minor), framework=framework)


# 64 · 128 · 128 = 2^20 elements a sample: the largest batch below 2^31 elements is 2^11 - 1
LIMIT = 2**11 - 1


@pytest.mark.parametrize(
    ("workload", "layout", "window", "stride", "limit"),
    [
        (ran(1, 12, Framework.EAGER), LAST, 3, 1, LIMIT),  # timm's table of 1.12: 0 of 4 ran
        (ran(2, 4, Framework.EAGER), FIRST, 3, 2, LIMIT),  # PyTorch's own kernel, packed_accessor32: 0 of 47 ran
        (ran(2, 4, Framework.EAGER), FIRST, 3, 1, None),  # cuDNN's: 3 of 3 ran
        (ran(2, 4, Framework.EAGER), LAST, 3, 2, None),  # 57 of 57 ran
        (ran(2, 4, Framework.EAGER), FIRST, 7, 1, LIMIT),
        (ran(2, 9, Framework.EAGER), FIRST, 3, 2, None),  # 28 ran
        (ran(2, 9, Framework.EAGER), LAST, 3, 2, LIMIT),  # 0 of 24 ran
        (ran(2, 9, Framework.COMPILE), FIRST, 3, 2, LIMIT),  # Inductor makes it channels-last: 0 of 303 ran
    ],
)
def test_depthwise_convolutions_refuse_large_tensors(
    workload: Workload, layout: MemoryFormat, window: int, stride: int, limit: int | None
) -> None:
    depthwise = convolution(groups=64, window=window, stride=stride, layout=layout)
    assert refused_above(recording(depthwise), workload) == limit


def test_dense_convolutions_run_over_parts_of_the_batch_since_1_13() -> None:
    dense = recording(convolution(groups=1, window=3, stride=1))
    assert refused_above(dense, Workload(torch_version=(2, 9))) is None
    assert refused_above(dense, Workload(torch_version=(1, 12))) == LIMIT
    assert index_limit_batch(dense) == LIMIT


def test_pooling_counts_its_output_in_an_int() -> None:
    pool = Kernel(name="aten.max_pool2d", inputs=(image(64, 128),), outputs=(image(64, 64),))
    # the output holds a quarter: 2^18 elements a sample
    assert refused_above(recording(pool), Workload()) == 2**13 - 1
    assert refused_above(recording(pool), Workload(framework=Framework.COMPILE)) is None


def test_the_largest_batch_stops_at_a_refused_tensor_whatever_the_memory() -> None:
    traced = chain(4000, 4000)
    limited = replace(traced.recordings[0], kernels=(convolution(groups=64, window=7, stride=1),))
    workload = Workload(torch_version=(2, 4))
    for recordings, expected in (((limited,), LIMIT), (traced.recordings, None)):
        model = MemoryModel(trace=_with(traced, recordings), workload=workload, calibration=UNCALIBRATED)
        found = largest_fitting_batch(model, gpu=None, available_bytes=2**40)
        assert found == expected if expected else found > LIMIT


def _with(trace: Trace, recordings: tuple[Recording, ...]) -> Trace:
    return replace(trace, recordings=recordings)


def attention(windows: int, *, rank: int = 4) -> Kernel:
    shape = (Affine(0, windows), Affine(4), Affine(49), Affine(32))
    operands = tuple(Operand(dtype="half", shape=shape) for _ in range(3))
    return Kernel(name="capplan.attention", inputs=operands, outputs=operands[:1], attributes={"rank": rank})


def test_fused_attention_takes_65535_windows() -> None:
    # davit at 768 pixels: 256 windows a sample; 192 samples ran, 256 samples (65,536 windows) failed
    workload = Workload(precision=Precision.FP16, torch_version=(2, 9))
    assert refused_above(recording(attention(256)), workload) == 65_535 // 256
    assert refused_above(recording(attention(256, rank=5)), workload) is None
    assert refused_above(recording(attention(256)), replace(workload, torch_version=(1, 13))) is None


def test_reflection_padding_counts_its_input_in_32_bits() -> None:
    # tresnet's blurred pooling: failed at 1536 under torch 2.9 with a fifth of the memory needed
    padding = Kernel(name="aten.reflection_pad2d", inputs=(image(64, 128),), outputs=(image(64, 130),))
    assert refused_above(recording(padding), Workload()) == LIMIT
    assert refused_above(recording(padding), Workload(framework=Framework.COMPILE)) is None


def test_a_sweep_refuses_a_batch_whose_tensors_a_kernel_refuses_as_a_plan_does() -> None:
    traced = chain(4000, 4000)
    traced = _with(traced, (replace(traced.recordings[0], kernels=(convolution(groups=64, window=7, stride=1),)),))
    sizes = Batches(choice=BatchChoice.LISTED, sizes=(LIMIT, LIMIT + 1))
    conditions = Conditions(workload=Workload(torch_version=(2, 4)), batches=sizes, utilization_fraction=0.9)
    planner = GridPlanner(
        prepared=Prepared.of(traced, conditions.workload, calibration=load_calibration()), conditions=conditions
    )
    found = planner.columns([load_gpus().find("b200-sxm-180gb")])
    assert (found["status"], found["max_batch"][0]) == (["fits", "unsupported"], LIMIT)
    assert f"{LIMIT} is the largest batch" in str(found["reason"][1])
