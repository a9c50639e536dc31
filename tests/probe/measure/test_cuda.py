"""The harness on a real GPU: `pytest -m device`. Against timing written by hand, and to the end of its memory."""

import json
import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median

import pytest
import torch

from capplan.core.measurement.types import Measurement
from capplan.core.workload import BatchSearch, Precision, TimingMethod
from capplan.probe.inputs.grammar import ModelRequest
from capplan.probe.measure.device import TorchDevice
from capplan.probe.measure.devices import open_device
from capplan.probe.measure.energy import open_nvml
from capplan.probe.measure.point import Rules
from capplan.probe.measure.request import MeasurementJob
from capplan.probe.measure.session import Session
from capplan.probe.measure.timing import StopRule, WarmUpRule, repeat, warm_up
from tests.cli.conftest import Run, run  # noqa: F401 - the fixture

pytestmark = pytest.mark.device


@pytest.fixture(params=range(max(1, torch.cuda.device_count())), ids=lambda index: f"cuda:{index}")
def device(request: pytest.FixtureRequest) -> Iterator[TorchDevice]:
    """Each device in turn: the second one tells whether events are recorded on the stream that works."""
    opened = open_device(f"cuda:{request.param}")
    with opened.current():
        yield opened
    opened.free_cached()


@pytest.fixture
def long_run(device: TorchDevice) -> Callable[[], object]:
    """Matrix products that last about 15 ms on any GPU: as many as that takes here."""
    first, second = (torch.randn(4096, 4096, device=device.torch_device) for _ in range(2))
    out = torch.empty_like(first)

    def products(count: int) -> None:
        for _ in range(count):
            torch.mm(first, second, out=out)

    warm_up(device, partial(products, 1), WarmUpRule())
    work = partial(products, math.ceil(15e-3 / timed(device, partial(products, 1), TimingMethod.EVENT)))
    warm_up(device, work, WarmUpRule())
    return work


def timed(device: TorchDevice, work: Callable[[], object], method: TimingMethod) -> float:
    samples_s = repeat(device, work, method=method, rule=StopRule(repetitions=50), expected_s=15e-3)
    return median(samples_s)


def by_hand_s(work: Callable[[], object]) -> float:
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(50)]
    for start, end in pairs:
        start.record()
        work()
        end.record()
    torch.cuda.synchronize()
    return median(start.elapsed_time(end) for start, end in pairs) * 1e-3


def test_events_agree_with_events_written_by_hand(device: TorchDevice, long_run: Callable[[], object]) -> None:
    # A GPU's clocks drift by more than 0.5 % while it warms: the two take turns.
    pairs = [(timed(device, long_run, TimingMethod.EVENT), by_hand_s(long_run)) for _ in range(5)]
    assert median(ours / theirs for ours, theirs in pairs) == pytest.approx(1, abs=0.005)


def test_the_naive_method_is_shown_wrong(device: TorchDevice, long_run: Callable[[], object]) -> None:
    by_events_s = timed(device, long_run, TimingMethod.EVENT)
    naive_s = repeat(device, long_run, method=TimingMethod.NAIVE, rule=StopRule(repetitions=5), expected_s=10e-3)
    assert naive_s[0] < 0.5 * by_events_s


def test_flushing_leaves_what_is_timed_alone(device: TorchDevice, long_run: Callable[[], object]) -> None:
    plain_s = timed(device, long_run, TimingMethod.EVENT)
    flushed_s = repeat(
        device, long_run, method=TimingMethod.EVENT, rule=StopRule(repetitions=50), expected_s=15e-3, flush=True
    )
    assert median(flushed_s) == pytest.approx(plain_s, rel=0.02)


def test_both_searches_find_the_same_batch_of_a_model(run: Run) -> None:  # noqa: F811
    words = ["examples/net.py:Net", "--input", "x=3x224x224", "--device", "cuda:0", "--memory-limit", "256MiB"]
    quick = ["--batch", "max", "--warmup", "2", "--repetitions", "6", "--format", "json"]
    largest = {}
    for search in BatchSearch:
        result = run("measure", *words, *quick, "--search", search)
        assert result.exit_code == 0, result.stderr
        largest[search] = json.loads(result.stdout)["measurements"][-1]["workload"]["batch"]
    assert largest[BatchSearch.BINARY] == largest[BatchSearch.SEQUENTIAL] > 1


def test_a_buffer_that_flushes_is_no_part_of_a_models_peak() -> None:
    def peak(*, flush: bool) -> int:
        rules = Rules(warm_up=WarmUpRule(runs=3), stop=StopRule(repetitions=10), flush_l2=flush)
        request = ModelRequest(words="examples/net.py:Net", inputs=("x=3x224x224",))
        with Session(MeasurementJob(model=request, device="cuda:0", rules=rules)) as session:
            point = session.measure(4)
        assert isinstance(point, Measurement)
        assert point.memory.peak_allocated_bytes is not None
        return point.memory.peak_allocated_bytes

    assert peak(flush=True) == peak(flush=False)


@pytest.mark.zoo
def test_efficientnet_at_batch_one_by_three_hundred_repetitions() -> None:
    rules = Rules(stop=StopRule(repetitions=300))
    with Session(
        MeasurementJob(model=ModelRequest(words="timm:efficientnet_b0"), device="cuda:0", rules=rules)
    ) as session:
        point = session.measure(1)
        again = session.measure(1)
    assert isinstance(point, Measurement)
    assert isinstance(again, Measurement)
    assert (len(point.samples_s), point.method, point.finite_outputs) == (300, TimingMethod.EVENT, True)
    assert again.latency.median == pytest.approx(point.latency.median, rel=0.1)


@pytest.mark.zoo
def test_efficientnet_at_its_best_batch(run: Run, tmp_path: Path) -> None:  # noqa: F811
    lines = tmp_path / "runs.jsonl"
    words = ["--device", "cuda:0", "--batch", "auto", "--precision", "amp-fp16", "-o", lines, "--budget", "3s"]
    assert run("measure", "timm:efficientnet_b0", *words).exit_code == 0
    found = [json.loads(line) for line in lines.read_text().splitlines()]
    rates = [each["throughput_per_s"] for each in found]
    assert max(rates) > 3 * rates[0], "batching did not pay on a GPU"


def test_what_the_driver_tells_is_plausible(device: TorchDevice) -> None:
    nvml = open_nvml(device.torch_device)
    if nvml is None:
        pytest.skip("no NVML: nvidia-ml-py is missing, or this is no NVIDIA driver")
    assert nvml.driver_version()
    clocks, temperature_c = nvml.clocks(), nvml.temperature_c()
    assert clocks.graphics_hz is None or 1e8 < clocks.graphics_hz < 5e9
    assert temperature_c is None or 0 < temperature_c < 120
    power_w = nvml.power_w()
    assert power_w is None or 0 < power_w < 2000


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.TF32, Precision.FP16, Precision.AMP_FP16])
def test_every_number_format_runs(precision: Precision) -> None:
    rules = Rules(warm_up=WarmUpRule(runs=3), stop=StopRule(repetitions=10))
    request = ModelRequest(words="examples/net.py:Net", inputs=("x=3x224x224",))
    with Session(MeasurementJob(model=request, device="cuda:0", precision=precision, rules=rules)) as session:
        point = session.measure(8)
    assert isinstance(point, Measurement)
    assert point.memory.peak_allocated_bytes
