"""Laws that any model obeys: memory and time grow with the batch, and the largest batch is exact."""

from functools import cache
from itertools import pairwise

import pytest

import capplan
from capplan.core.latency.device import Unsupported
from capplan.core.latency.predict import estimate_latencies
from capplan.core.latency.step import ExecutedStep
from capplan.core.memory.fit import available_memory, largest_fitting_batch
from capplan.core.memory.model import MemoryModel, capacity_for_allocator
from capplan.core.numbers import End
from capplan.core.trace.types import Trace
from capplan.core.workload import Workload
from capplan.specs import load_gpus
from capplan.specs.calibration import load_calibration, load_memory_calibration
from tests.nightly import mostly_nightly
from tests.seen import at_least

pytestmark = [pytest.mark.zoo, pytest.mark.slow]

TORCHVISION = (
    "alexnet", "vgg11_bn", "resnet18", "resnet50", "wide_resnet50_2", "resnext50_32x4d", "squeezenet1_1",
    "densenet121", "inception_v3", "googlenet", "shufflenet_v2_x1_0", "mobilenet_v2", "mobilenet_v3_small",
    "mnasnet1_0",
    "efficientnet_b0", "efficientnet_v2_s", "regnet_y_400mf", "convnext_tiny", "vit_b_32", "swin_t", "swin_v2_t",
    "maxvit_t", "fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large", "r3d_18", "mvit_v1_b",
)  # fmt: skip
TIMM = (
    "resnet26d", "seresnet33ts", "ecaresnet26t", "res2net50_26w_4s", "dpn48b", "hardcorenas_a", "ghostnet_100",
    "tf_efficientnet_lite0", "rexnet_100", "mixer_s32_224", "gmlp_ti16_224", "resmlp_12_224", "deit_tiny_patch16_224",
    "cait_xxs24_224", "xcit_nano_12_p16_224", "poolformer_s12", "convmixer_768_32", "edgenext_xx_small", "levit_128s",
    "mobilevit_xxs", "coat_tiny", "visformer_tiny", "nf_regnet_b0",
)  # fmt: skip
MODELS = tuple(f"torchvision:{name}" for name in TORCHVISION) + tuple(f"timm:{name}" for name in TIMM)
DAILY = (
    "torchvision:resnet18", "torchvision:densenet121", "torchvision:mobilenet_v3_small", "torchvision:swin_t",
    "timm:deit_tiny_patch16_224",
)  # fmt: skip
"""Residual, concatenating, gated, windowed, and attention; at night all kinds, such as video and segmentation."""
BATCHES = (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 31, 32, 33, 64, 100, 128, 256)

GPUS = load_gpus()
CARDS = ("jetson-nano-4gb", "t4", "rtx-4090", "a100-sxm4-80gb")
FP32 = Workload()


@cache
def traced(name: str) -> Trace:
    return capplan.trace(name)


def memory_of(name: str) -> MemoryModel:
    return MemoryModel(trace=traced(name), workload=FP32, calibration=load_memory_calibration())


def test_there_are_fifty_models() -> None:
    assert len(set(MODELS)) == 50


@pytest.mark.parametrize("name", mostly_nightly(MODELS, daily=DAILY))
def test_a_larger_batch_never_takes_less_memory(name: str) -> None:
    model = memory_of(name)
    peaks = [model.estimate(batch=batch, gpu=GPUS["t4"]).peak_allocated_bytes.expected for batch in BATCHES]
    assert all(one <= other for one, other in pairwise(peaks)), dict(zip(BATCHES, peaks, strict=True))


@pytest.mark.parametrize("name", mostly_nightly(MODELS, daily=DAILY))
def test_a_larger_batch_never_takes_less_time(name: str) -> None:
    step = ExecutedStep.of(traced(name).recordings[0], FP32, calibration=load_calibration())
    rows = estimate_latencies(step, gpus=[GPUS[card] for card in CARDS], batches=list(BATCHES))
    for row in at_least(len(CARDS), rows):
        assert not isinstance(row, Unsupported)
        times = at_least(len(BATCHES), (each.latency_s.expected for each in row))
        assert all(one <= other * 1.001 for one, other in pairwise(times)), dict(zip(BATCHES, times, strict=True))


@pytest.mark.parametrize("name", mostly_nightly(MODELS, daily=DAILY))
def test_the_largest_batch_fits_and_the_next_does_not(name: str) -> None:
    model = memory_of(name)
    for card in CARDS:
        gpu = GPUS[card]
        available = available_memory(gpu, utilization_fraction=0.9).expected
        found = largest_fitting_batch(model, gpu=gpu, available_bytes=available)
        replays = model.replays(gpu, End.EXPECTED)
        capacity = capacity_for_allocator(available, model.context(gpu).size_bytes, End.EXPECTED)
        assert found > 0
        assert replays.at(found, capacity).failed_event is None
        assert found == model.refused_above or replays.at(found + 1, capacity).failed_event is not None


@pytest.mark.parametrize("name", mostly_nightly(MODELS, daily=DAILY))
def test_more_memory_never_holds_a_smaller_batch(name: str) -> None:
    model = memory_of(name)
    held = []
    for gpu in at_least(100, GPUS.values()):
        available = available_memory(gpu, utilization_fraction=0.9).expected
        room = capacity_for_allocator(available, model.context(gpu).size_bytes, End.EXPECTED)
        workspaces = model.estimate(batch=1, gpu=gpu).total_bytes.expected - model.context(gpu).size_bytes.expected
        held.append((workspaces, room, largest_fitting_batch(model, gpu=gpu, available_bytes=available)))
    for workspaces in {each[0] for each in held}:
        alike = sorted((room, batch) for other, room, batch in held if other == workspaces)
        assert all(one <= other for (_, one), (_, other) in pairwise(alike)), alike
