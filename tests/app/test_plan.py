"""`app.plan`: the plan of a model under the conditions of a question."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capplan.app.gpu_choice import GpuRequest
from capplan.app.models import ReadModel
from capplan.app.plan import OpenedModel, PlanContext, PlanTerms
from capplan.core.measurement.format import point_to_line
from capplan.core.measurement.types import MeasuredWorkload
from capplan.core.plan.planner import Prepared
from capplan.core.plan.types import JobSize, Plan
from capplan.core.trace.types import Trace
from capplan.core.workload import BatchChoice, Batches, Precision, Workload
from capplan.errors import TraceError, UnknownNameError
from capplan.shapes.plan import plan_document
from capplan.verbs.plan import PlanQuestion, answer_plan
from capplan.verbs.statement.local import LocalContext
from tests.app.conftest import builds
from tests.core.measurement.test_measurement import at
from tests.core.plan.test_plan import matrix_trace


def ask(nets: Path, name: str, *sizes: int) -> PlanQuestion:
    batches = Batches(choice=BatchChoice.LISTED, sizes=sizes)
    return PlanQuestion(model=f"{nets}:{name}", inputs=("x=8",), gpus=("l4", "t4"), batches=batches)


def plan_of(question: PlanQuestion) -> Plan:
    return answer_plan(question, LocalContext())


@pytest.mark.slow
def test_a_model_that_does_not_scale_is_planned_batch_by_batch(nets: Path) -> None:
    made = plan_of(ask(nets, "Square", 2, 64))
    assert {(fit.gpu.id, fit.batch) for fit in made.fits} == {(gpu, size) for gpu in ("l4", "t4") for size in (2, 64)}


@pytest.mark.parametrize(("name", "scales"), [("Even", True), ("Square", False)])
@pytest.mark.slow
def test_the_largest_batch_of_a_model_that_does_not_scale_is_called_a_lower_bound(
    nets: Path, name: str, scales: bool
) -> None:
    made = plan_of(ask(nets, name, 64))
    assert {fit.scales for fit in plan_document(made).fits} == {scales}
    assert {fit.max_batch == 64 for fit in made.fits} == {not scales}


@pytest.mark.slow
def test_the_note_on_half_precision_costs_no_second_build(nets: Path) -> None:
    made = plan_of(ask(nets, "Even", 8))
    assert "half precision" in {change.name for change in made.changes}
    assert builds(nets) == 1


def test_quantised_weights_stand_in_the_assumptions(nets: Path) -> None:
    made = plan_of(replace(ask(nets, "Even", 8), weights="int8_weight_only"))
    assert any(each.startswith("quantised as int8_weight_only: 1 linear layers") for each in made.assumptions)


@pytest.mark.slow
def test_a_job_stands_in_the_plan(nets: Path) -> None:
    assert plan_of(replace(ask(nets, "Even", 8), samples=1000)).job == JobSize(samples=1000)


def test_strict_refuses_operators_that_cannot_be_counted(nets: Path) -> None:
    with pytest.raises(TraceError, match=r"⟨strict⟩, and not known for certain are .*conv_tbc"):
        plan_of(replace(ask(nets, "Odd", 8), strict=True))


def test_an_unknown_gpu_is_refused_before_the_model_is_built(nets: Path) -> None:
    with pytest.raises(UnknownNameError, match="l4"):
        plan_of(replace(ask(nets, "Even", 8), gpus=("l44",)))
    assert builds(nets) == 0


def test_a_model_that_outlives_a_question_keeps_what_its_plans_share() -> None:
    kept: list[Prepared] = []

    class Keeps(ReadModel):
        def prepared(self, trace: Trace, workload: Workload, **calibrations: Any) -> Prepared:
            if not kept:
                kept.append(ReadModel.prepared(self, trace, workload, **calibrations))
            return kept[0]

    trace = matrix_trace()
    context = PlanContext.of(GpuRequest(ids=("l4",)))
    terms = PlanTerms(batches=Batches(choice=BatchChoice.LISTED, sizes=(8,)), workload=Workload())
    opened = OpenedModel(model=Keeps(held=trace, words="matrix"), context=context)
    first, second = (opened.advised(opened.plan(terms), terms) for _ in range(2))
    assert len(kept) == 1
    assert first.fits == second.fits
    assert first.model is kept[0].facts


def saved(folder: Path, name: str, size: tuple[int, ...], *timed: tuple[str, float]) -> tuple[Path, ...]:
    """Write what a model took on l4 at batch 8 with releases of torch. [s]"""
    point, path = at(8, 1.0), folder / "ours.jsonl"
    workload = MeasuredWorkload(batch=8)
    model = replace(point.model, name=name, input_size=size)
    points = [
        replace(
            point, model=model, workload=workload, samples_s=(time_s,) * 7,
            device=replace(point.device, gpu="l4", torch=torch),
        )
        for torch, time_s in timed
    ]  # fmt: skip
    path.write_text("".join(map(point_to_line, points)))
    return (path,)


@pytest.mark.slow
def test_what_was_timed_says_the_release_of_torch_and_other_conditions_follow_it(nets: Path, tmp_path: Path) -> None:
    question = replace(ask(nets, "Even", 8), gpus=("l4",))
    plain = plan_of(question)
    timed = plan_of(
        replace(question, measured=saved(tmp_path, "Even", (8,), ("2.11.0+cu128", 0.5), ("2.13.0+cu130", 0.7)))
    )
    [fit] = timed.fits
    assert fit.latency.latency_s.expected == 0.5  # 2.11 is what is asked for, though 2.13 was timed later
    assert fit.latency.evidence_reason.endswith("with torch 2.11.0+cu128")
    # a time a million times as long as the estimate does not make `--framework compile` a million times as fast
    gains = {change.name: change.speedup for change in plain.changes}
    assert "compiled" in gains
    assert {change.name: change.speedup for change in timed.changes} == pytest.approx(gains)


def test_a_model_that_is_quantised_on_paper_does_not_take_the_time_of_full_width(nets: Path, tmp_path: Path) -> None:
    question = replace(ask(nets, "Even", 8), gpus=("l4",), weights="int8_weight_only", precision=Precision.FP32)
    timed = plan_of(replace(question, measured=saved(tmp_path, "Even", (8,), ("2.11.0", 0.5))))
    assert timed.fits[0].latency == plan_of(question).fits[0].latency


def test_an_input_without_a_size_may_be_planned_beside_measured_models(nets: Path, tmp_path: Path) -> None:
    scalars = nets.with_name("scalars.py")
    scalars.write_text(
        "import torch\nclass Sum(torch.nn.Module):\n    def forward(self, x):\n        return x.sum(0)\n"
    )
    question = replace(ask(scalars, "Sum", 8), inputs=("N",), gpus=("l4",))
    timed = plan_of(replace(question, measured=saved(tmp_path, "Sum", (), ("2.11.0", 0.5))))
    assert timed.fits[0].latency.latency_s.expected == 0.5
