"""What a measured host means for steps that wait for it."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from capplan.core.gpus.spec import Segment
from capplan.core.latency.calibration import HostCosts, prior_calibration
from capplan.core.latency.device import host_slowness, host_step_s
from capplan.core.latency.lookup import calibration_notes
from capplan.core.latency.op_table import kernel_table
from capplan.core.latency.predict import estimate_latencies
from capplan.core.latency.step import ExecutedStep
from capplan.core.origin import Origin
from capplan.core.trace.types import Affine, Kernel, Operand
from capplan.core.workload import Framework, Host, Precision, Workload
from capplan.errors import SpecError
from capplan.specs.calibration import dump_calibration, load_calibration
from tests.core.latency.latency_cases import LAWS, gpu, linear_recording

COSTS = HostCosts(
    cpu="Some CPU", torch="2.9.0", call_s=1e-6, launch_s=5e-6, operators_s={"linear": 2e-3, "activation": 1e-3}
)


def step(workload: Workload) -> ExecutedStep:
    return ExecutedStep.of(linear_recording(), workload, calibration=replace(prior_calibration(), host=COSTS))


def test_each_operator_takes_its_own_time() -> None:
    table = kernel_table(step(Workload(precision=Precision.FP16)), batches=[1])
    # One linear layer and its activation, each one launch, and no call beside them: 2 + 1 ms, 2 launches of 5 µs.
    assert host_step_s(table, COSTS) == pytest.approx(3e-3 + 2 * 5e-6, rel=1e-6)


def test_a_small_batch_waits_for_the_measured_host() -> None:
    eager, compiled = (
        estimate_latencies(step(Workload(precision=Precision.FP16, framework=framework)), gpus=[gpu()], batches=[1])[0]
        for framework in (Framework.EAGER, Framework.COMPILE_GRAPHS)
    )
    assert isinstance(eager, tuple)
    assert isinstance(compiled, tuple)
    # the device needs microseconds for it: the host's 3.01 ms decide, and a CUDA graph does without the host
    assert eager[0].latency_s.expected == pytest.approx(3.01e-3, rel=0.01)
    assert compiled[0].latency_s.expected < 1e-3


def test_a_convolution_takes_the_host_longer_than_other_calls() -> None:
    prior = prior_calibration()
    costs = replace(prior.constants, call_s=1e-3, launch_s=0.0, convolution_s=4e-3)
    linear = linear_recording()
    weight = Operand(dtype="half", shape=(Affine(8), Affine(8), Affine(1), Affine(1)), is_weight=True)
    image = Operand(dtype="half", shape=(Affine(0, 1), Affine(8), Affine(4), Affine(4)))
    convolution = Kernel(name="aten.convolution", inputs=(image, weight), outputs=(image,), attributes={"groups": 1})
    convolved = replace(linear, kernels=(convolution, *linear.kernels[1:]))
    times = [
        estimate_latencies(
            ExecutedStep.of(recording, Workload(precision=Precision.FP16), calibration=replace(prior, constants=costs)),
            gpus=[gpu()],
            batches=[1],
        )[0]
        for recording in (linear, convolved)
    ]
    without, with_convolution = (each[0].latency_s.expected for each in times if isinstance(each, tuple))
    # the device takes microseconds: only the host's 4 ms for the one convolution differ
    assert with_convolution - without == pytest.approx(4e-3 * host_slowness(gpu(), prior.laws, Host.SERVER), rel=0.01)


def test_the_host_of_a_players_card_is_a_desktop() -> None:
    laws = replace(LAWS, desktop_share=0.6)
    # 2024.5 counts as 2022, the last year: 0.5 ^ (1.5 / 4) = 0.7711 of a host of 2020.5
    new = {"release_date": date(2024, 6, 1)}
    assert host_slowness(gpu(**new, segment=Segment.DATA_CENTRE), laws, Host.CARD) == pytest.approx(0.7711, abs=1e-4)
    assert host_slowness(gpu(**new, segment=Segment.CONSUMER), laws, Host.CARD) == pytest.approx(0.6 * 0.7711, abs=1e-4)
    assert host_slowness(gpu(segment=Segment.CONSUMER), laws, Host.CARD) == pytest.approx(0.6)


def test_a_board_launches_from_its_own_cores_whatever_host_is_asked() -> None:
    board = gpu(segment=Segment.EMBEDDED)
    times = {host_slowness(board, LAWS, host) for host in Host}
    assert len(times) == 1
    assert times.pop() > host_slowness(gpu(), LAWS, Host.SERVER)


def test_an_estimate_names_the_measured_host() -> None:
    origin = Origin(made=date(2026, 11, 22), command="", sources=(), rows=1)
    calibration = replace(prior_calibration(), host=COSTS, origin=origin)
    note = "the host is Some CPU with torch 2.9.0, as measured"
    assert note in calibration_notes(calibration, gpu(), Workload())
    assert note not in calibration_notes(calibration, gpu(), Workload(framework=Framework.COMPILE))


def test_a_host_is_written_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "host.yaml"
    path.write_text(dump_calibration(replace(prior_calibration(), host=COSTS)))
    assert load_calibration(path).host == COSTS
    path.write_text(path.read_text().replace("call_s: 1.0e-06", "call_s: -1.0"))
    with pytest.raises(SpecError, match="call_s"):
        load_calibration(path)
