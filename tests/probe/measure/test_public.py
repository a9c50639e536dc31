"""`capplan.measure` as a user of `import capplan` meets it."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch

import capplan
from capplan.core.measurement.types import FailedMeasurement, Measurement, MeasurementFailure
from capplan.errors import MeasurementError, UsageError

pytestmark = pytest.mark.slow

QUICK = {"device": "cpu", "warm_up_runs": 2, "repetitions": 6}


class Doubled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.device.type != "meta" and len(x) == 3:
            raise ValueError("this batch is cursed")
        return self.layer(x) * 2


def test_importing_capplan_loads_no_torch() -> None:
    code = "import sys, capplan; capplan.measure; assert not {'torch', 'numpy', 'typer'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_module_is_measured_and_left_as_it_was() -> None:
    net = Doubled().train()
    weight = net.layer.weight
    found = capplan.measure(net, inputs=["x=8"], batches=[1, 4], **QUICK)
    assert [point.workload.batch for point in found] == [1, 4]
    assert all(isinstance(point, Measurement) and len(point.samples_s) == 6 for point in found)
    assert net.training
    assert net.layer.weight is weight
    assert weight.requires_grad


def test_a_batch_that_fails_is_a_value() -> None:
    first, failed = capplan.measure(Doubled(), inputs=lambda n: torch.rand(n, 8), batches=[2, 3], **QUICK)
    assert isinstance(first, Measurement)
    assert isinstance(failed, FailedMeasurement)
    assert failed.kind is MeasurementFailure.ERROR
    assert "this batch is cursed" in failed.message


def test_words_name_a_model_as_on_the_command_line() -> None:
    (found,) = capplan.measure("examples/net.py:Net", inputs=["x=3x32x32"], precision="bf16", **QUICK)
    assert isinstance(found, Measurement)
    assert found.model.input_size == (3, 32, 32)
    assert found.workload.precision == "bf16"


def test_theory_stands_beside_where_the_gpu_is_named() -> None:
    (found,) = capplan.measure(Doubled(), inputs=["x=8"], gpu=capplan.load_gpus()["l4"], **QUICK)
    assert isinstance(found, Measurement)
    assert found.theory is not None
    assert 0 < found.theory.bound_s <= found.theory.expected_s
    assert found.device.gpu == "l4"


def test_a_gpu_without_a_peak_leaves_a_note() -> None:
    bare = replace(capplan.load_gpus()["l4"], peak_flops_per_s={})
    (found,) = capplan.measure(Doubled(), inputs=["x=8"], gpu=bare, **QUICK)
    assert isinstance(found, Measurement)
    assert found.theory is None
    assert any(note.startswith("no estimate: ") for note in found.notes)


def test_what_cannot_be_measured_at_all_is_an_error() -> None:
    with pytest.raises(MeasurementError, match="at hand"):
        capplan.measure(Doubled(), inputs=["x=8"], device="cuda:9")
    with pytest.raises(UsageError, match="state the input for forward"):
        capplan.measure(Doubled(), device="cpu")
