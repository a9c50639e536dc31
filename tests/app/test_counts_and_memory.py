"""`trace`, `memory`, `report`, `analyze` and `estimate`: typed questions, typed answers, one build."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capplan.app.models import open_model
from capplan.core.memory.summary import MemoryResult
from capplan.core.ops.counters import AnalyzeAnswer
from capplan.core.plan.estimate import EstimateAnswer
from capplan.core.trace.types import Trace
from capplan.core.workload import BatchChoice, Batches, Configuration, ModelSharding, Training, Variant
from capplan.errors import TraceError, UsageError
from capplan.probe.inputs.grammar import ModelRequest
from capplan.shapes.plan import fits_on
from capplan.verbs.analyze import AnalyzeQuestion, answer_analyze
from capplan.verbs.estimate import EstimateQuestion, answer_estimate
from capplan.verbs.memory import MemoryQuestion, answer_memory
from capplan.verbs.report import ReportQuestion, answer_report
from capplan.verbs.statement.local import LocalContext
from capplan.verbs.trace import TraceQuestion, answer_trace
from tests.app.conftest import builds

pytestmark = pytest.mark.slow


def ask(nets: Path, name: str) -> ModelRequest:
    return ModelRequest(words=f"{nets}:{name}", inputs=("x=8",))


def remember(nets: Path, name: str, **stated: Any) -> MemoryResult:
    """Answer `memory` for a net."""
    made = answer_memory(MemoryQuestion(model=f"{nets}:{name}", inputs=("x=8",), **stated), LocalContext())
    assert isinstance(made, MemoryResult)
    return made


def count(nets: Path, name: str, **stated: Any) -> AnalyzeAnswer:
    """Answer `analyze` for a net."""
    return answer_analyze(AnalyzeQuestion(model=f"{nets}:{name}", inputs=("x=8",), **stated), LocalContext())


def estimated(
    nets: Path, name: str, *gpus: str, batches: tuple[int, ...], ways: bool = False, held: Trace | None = None
) -> EstimateAnswer:
    """Answer `estimate` for a net at listed batches, or for a trace of it that is held already."""
    model = {"model": f"{nets}:{name}", "inputs": ("x=8",)} if held is None else {"model": "held"}
    question = EstimateQuestion(
        **model, gpus=gpus, batches=Batches(choice=BatchChoice.LISTED, sizes=batches), compare_frameworks=ways
    )
    made = answer_estimate(question, LocalContext(objects={"held": held} if held is not None else {}))
    assert isinstance(made, EstimateAnswer)
    return made


def test_a_trace_holds_the_recordings_asked_for(nets: Path) -> None:
    wanted = (Configuration(), Configuration(variant=Variant.AMP), Configuration(training=Training()))
    made = open_model(ask(nets, "Even")).trace(wanted)
    assert tuple(each.configuration for each in made.recordings) == wanted
    assert builds(nets) == 1


def test_an_anonymous_trace_names_no_module(nets: Path) -> None:
    question = TraceQuestion(model=f"{nets}:Even", inputs=("x=8",))
    assert "layer" in answer_trace(question, LocalContext()).recordings[0].modules
    hidden = answer_trace(replace(question, anonymous=True), LocalContext())
    assert "layer" not in hidden.recordings[0].modules


def test_a_trace_answers_like_the_model_it_was_made_of(nets: Path) -> None:
    trace = open_model(ask(nets, "Even")).trace([Configuration()])
    held = answer_analyze(AnalyzeQuestion(model="trace", batch=4), LocalContext(objects={"trace": trace}))
    assert held == count(nets, "Even", batch=4)


def test_a_linear_layer_is_counted_by_hand(nets: Path) -> None:
    # 8 outputs of 8 products each, for 4 samples; 64 weights and 8 biases
    made = count(nets, "Even", batch=4)
    assert made.analysis.macs == 8 * 8 * 4
    assert made.parameter_count == 72


def test_a_model_that_does_not_scale_is_counted_at_the_batch_itself(nets: Path) -> None:
    # the layer's 8 · 8 products for 7 samples, and 7 · 7 dot products of 8
    assert count(nets, "Square", batch=7).analysis.macs == 7 * 64 + 49 * 8


@pytest.mark.parametrize(
    "use_case",
    [lambda nets: count(nets, "Odd", strict=True), lambda nets: remember(nets, "Odd", strict=True)],
)
def test_strict_refuses_what_could_not_be_counted(nets: Path, use_case: Any) -> None:
    with pytest.raises(TraceError, match="conv_tbc") as raised:
        use_case(nets)
    assert raised.value.exit_code == 3


def test_other_counters_are_not_set_beside_training(nets: Path) -> None:
    with pytest.raises(UsageError, match="drop ⟨train⟩"):
        count(nets, "Even", train=True, compare=True)


def test_memory_without_a_gpu_names_none(nets: Path) -> None:
    made = remember(nets, "Even", batch=4)
    assert made.answer.gpus == ()
    # 4 samples of 8 floats
    assert made.model.trace.inputs[0].size_bytes(4) == 4 * 8 * 4


def test_memory_of_a_model_that_does_not_scale_is_that_of_the_batch_itself(nets: Path) -> None:
    made = remember(nets, "Square", batch=300, gpus=("l4",))
    assert made.model.recording.exact_batch == 300
    # the result alone holds 300 · 300 floats
    assert made.model.curve.at(300).max() > 300 * 300 * 4


def test_all_shardings_of_a_training_step_are_answered(nets: Path) -> None:
    ranks = remember(nets, "Even", train=True, rank_count=4).answer.ranks
    assert {rank.sharding for rank in ranks} == set(ModelSharding) - {ModelSharding.REPLICAS}
    chosen = remember(nets, "Even", train=True, rank_count=4, shardings=(ModelSharding.ZERO1,))
    assert [rank.sharding for rank in chosen.answer.ranks] == [ModelSharding.ZERO1]


def test_advice_on_memory_builds_the_model_once(nets: Path) -> None:
    remember(nets, "Even", batch=4, advice=True)
    assert builds(nets) == 1


def test_estimates_of_several_gpus_and_ways_build_the_model_once(nets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPPLAN_CACHE", "off")
    made = estimated(nets, "Even", "l4", "t4", batches=(8, 1), ways=True)
    assert [(each.breakdown.batch, [point.batch for point in each.curve]) for each in made.reports] == [
        (8, [1, 8]),
        (8, [1, 8]),
    ]
    assert set(made.compared) == {"l4", "t4"}
    assert builds(nets) == 1


def test_a_model_that_does_not_scale_is_estimated_batch_by_batch(nets: Path) -> None:
    (report,) = estimated(nets, "Square", "l4", batches=(8, 1)).reports
    assert [point.batch for point in report.curve] == [1, 8]
    (alone,) = estimated(nets, "Square", "l4", batches=(8,)).reports
    assert report.curve[1] == alone.curve[0]
    assert report.breakdown.kernels == alone.breakdown.kernels
    assert builds(nets) == 1  # the second request is answered from the cache


def test_a_trace_that_holds_at_one_batch_is_not_estimated_at_another(nets: Path) -> None:
    held = open_model(ask(nets, "Square")).trace([Configuration()], exact_batch=8)
    assert [point.batch for point in estimated(nets, "Square", "l4", batches=(8,), held=held).reports[0].curve] == [8]
    with pytest.raises(UsageError, match="its trace holds at batch 8 alone, so ask for ⟨batch⟩ 8"):
        estimated(nets, "Square", "l4", batches=(1, 8), held=held)


@pytest.mark.nightly
def test_a_report_on_a_model_that_does_not_scale_plans_every_batch(nets: Path) -> None:
    batches = Batches(choice=BatchChoice.LISTED, sizes=(4,))
    question = ReportQuestion(models=(f"{nets}:Square",), inputs=("x=8",), gpus=("l4",), batches=batches)
    (made,) = answer_report(question, LocalContext()).models
    assert [fit.batch for fit in fits_on(made.plan, "l4")] == [1, 2, 4]
