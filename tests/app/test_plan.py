"""`app.plan`: one plan for each model, under the conditions of one request."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capplan.app.gpus.choice import GpuRequest
from capplan.app.models import QuantisedSource, ReadModel
from capplan.app.plan import PlanRequest, plan
from capplan.core.batches import BatchChoice, Batches
from capplan.core.plan.planner import Prepared
from capplan.core.plan.types import Job
from capplan.core.quantisation.schemes import find_scheme
from capplan.core.trace.types import Trace
from capplan.core.workload import Precision, Workload
from capplan.errors import TraceError, UnknownNameError
from capplan.probe.inputs.request import ModelRequest
from capplan.report.documents.plan import plan_document
from tests.app.conftest import builds
from tests.core.plan.test_plan import matrix_trace


def ask(nets: Path, name: str, *sizes: int) -> PlanRequest:
    return PlanRequest(
        models=(ModelRequest(words=f"{nets}:{name}", inputs=("x=8",)),),
        gpus=GpuRequest(ids=("l4", "t4")),
        batches=Batches(choice=BatchChoice.LISTED, sizes=sizes),
    )


def test_a_model_that_does_not_scale_is_planned_batch_by_batch(nets: Path) -> None:
    (made,) = plan(ask(nets, "Square", 2, 64))
    assert {(fit.gpu.id, fit.batch) for fit in made.fits} == {(gpu, size) for gpu in ("l4", "t4") for size in (2, 64)}


@pytest.mark.parametrize(("name", "scales"), [("Even", True), ("Square", False)])
def test_the_largest_batch_of_a_model_that_does_not_scale_is_called_a_lower_bound(
    nets: Path, name: str, scales: bool
) -> None:
    (made,) = plan(ask(nets, name, 64))
    assert {fit.scales for fit in plan_document(made).fits} == {scales}
    assert {fit.max_batch == 64 for fit in made.fits} == {not scales}


def test_the_note_on_half_precision_costs_no_second_build(nets: Path) -> None:
    (made,) = plan(replace(ask(nets, "Even", 8), tries_half=True))
    assert "half precision" in {change.name for change in made.changes}
    assert builds(nets) == 1


def test_quantised_weights_stand_in_the_assumptions(nets: Path) -> None:
    request = ask(nets, "Even", 8)
    scheme = find_scheme("int8_weight_only", None)
    (made,) = plan(replace(request, models=(QuantisedSource(source=request.models[0], scheme=scheme),)))
    assert any(each.startswith("quantised as int8_weight_only: 1 linear layers") for each in made.assumptions)


def test_a_job_stands_in_every_plan(nets: Path) -> None:
    request = ask(nets, "Even", 8)
    job = Job(samples=1000)
    plans = plan(replace(request, models=request.models * 2, job=job))
    assert [each.job for each in plans] == [job, job]


def test_strict_refuses_operators_that_cannot_be_counted(nets: Path) -> None:
    with pytest.raises(TraceError, match=r"--strict, and not known for certain are .*bessel"):
        plan(replace(ask(nets, "Odd", 8), is_strict=True))


def test_an_unknown_gpu_is_refused_before_the_model_is_built(nets: Path) -> None:
    with pytest.raises(UnknownNameError, match="l4"):
        plan(replace(ask(nets, "Even", 8), gpus=GpuRequest(ids=("l44",))))
    assert builds(nets) == 0


def test_a_model_that_outlives_a_question_keeps_what_its_plans_share() -> None:
    kept: list[Prepared] = []

    class Keeps(ReadModel):
        def prepared(self, trace: Trace, workload: Workload, **calibrations: Any) -> Prepared:
            if not kept:
                kept.append(ReadModel.prepared(self, trace, workload, **calibrations))
            return kept[0]

    trace = matrix_trace()
    request = PlanRequest(
        models=(Keeps(held=trace, words="matrix"),),
        gpus=GpuRequest(ids=("l4",)),
        batches=Batches(choice=BatchChoice.LISTED, sizes=(8,)),
        workload=Workload(precision=Precision.FP32),
    )
    first, second = plan(request), plan(request)
    assert len(kept) == 1
    assert [each.fits for each in first] == [each.fits for each in second]
    assert first[0].model is kept[0].facts
