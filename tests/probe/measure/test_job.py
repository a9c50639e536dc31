"""A job survives the way to another process."""

import pytest

from capplan.core.workload import Framework, Layout, Precision, TimingMethod
from capplan.probe.inputs.grammar import ModelRequest
from capplan.probe.measure.point import Rules
from capplan.probe.measure.request import MeasurementJob, job_from_json, job_to_json
from capplan.probe.measure.timing import StopRule, WarmUpRule

FULL = MeasurementJob(
    model=ModelRequest(
        words="net.py:Net",
        arg=("width=32", "name='a b'"),
        inputs=("x=3x32x32",),
        input_size="3x32x32",
        seq_len=7,
        inputs_from="make.py:make",
        prepare=("reparameterize",),
    ),
    precision=Precision.AMP_FP16,
    framework=Framework.COMPILE,
    layout=Layout.NHWC,
    device="cuda:1",
    gpu="l4",
    rules=Rules(
        warm_up=WarmUpRule(runs=3, budget_s=1.5),
        stop=StopRule(repetitions=9, width_fraction=0.02),
        method=TimingMethod.SYNC,
        flush_l2=True,
        autotune=True,
    ),
    allowed_bytes=10**9,
    reserve_fraction=0.1,
    command="capplan measure net.py:Net",
)


@pytest.mark.parametrize("job", [FULL, MeasurementJob(model=ModelRequest(words="resnet50"))])
def test_a_job_is_read_as_it_was_written(job: MeasurementJob) -> None:
    assert job_from_json(job_to_json(job)) == job
