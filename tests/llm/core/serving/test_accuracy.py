"""Errors of predictions by cell, worked out by hand."""

import pytest

from capplan.core.numbers import Interval
from capplan.llm.core.serving.accuracy import JudgedAnswer, ServingValidation, decisions, rank_correlation_if_known
from capplan.llm.core.serving.cases import MeasuredRun, Metric, Serving
from capplan.llm.core.sharding import Sharding


def judged(
    measured: float, low: float, expected: float, high: float, *, gpu: str = "h100", clients: float = 1.0
) -> JudgedAnswer:
    run = MeasuredRun(
        model="llama",
        gpu=gpu,
        engine="vllm",
        version="",
        weights="",
        kv="",
        sharding=Sharding(tensor=2),
        replicas=1,
        input_len=1.0,
        output_len=1.0,
        spread=0.0,
        serving=Serving.CLOSED_LOOP,
        clients=clients,
        rate_per_s=None,
        values={Metric.TPOT: measured},
        quality="A",
        file="runs.csv",
        line=2,
    )
    predicted = Interval(low=low, expected=expected, high=high)
    return JudgedAnswer(run=run, metric=Metric.TPOT, measured=measured, predicted=predicted, evidence="")


def test_a_cell_states_errors_coverage_width_and_ranks() -> None:
    # errors +10 %, −20 %, +150 %: median 20 %; ratios 1.1, 0.8, 2.5: median 1.1; the third lies outside its interval
    rows = (judged(1.0, 0.9, 1.1, 1.8), judged(2.0, 1.5, 1.6, 3.0), judged(4.0, 5.0, 10.0, 20.0))
    (cell,) = ServingValidation(answers=rows, skipped=()).cells(("gpu", "tp"))
    found = cell.accuracy
    assert dict(cell.key) == {"gpu": "h100", "tp": "2"}
    assert (found.n, found.mdape, found.bias) == (3, pytest.approx(0.2), pytest.approx(1.1))
    assert found.coverage == pytest.approx(2 / 3)
    assert found.width == 2.0
    assert found.spearman == pytest.approx(1.0)
    assert found.within_factor_two == pytest.approx(2 / 3)


def test_ranks_that_swap_lower_the_rank_correlation() -> None:
    # ranks 1, 2, 3 against 1, 3, 2: 1 − 6·2 ÷ (3·8) = 0.5
    rows = tuple(judged(measured, 0.1, expected, 9.0) for measured, expected in ((1, 1.0), (2, 3.0), (3, 2.0)))
    overall = ServingValidation(answers=rows, skipped=()).overall()[Metric.TPOT]
    assert overall is not None
    assert overall.spearman == pytest.approx(0.5)


def test_metrics_without_answers_are_none_and_cells_are_separate() -> None:
    rows = (judged(1.0, 0.5, 1.0, 2.0), judged(1.0, 0.5, 1.0, 2.0, gpu="l4"))
    found = ServingValidation(answers=rows, skipped=())
    assert found.overall()[Metric.TTFT] is None
    assert [cell.key["gpu"] for cell in found.cells(("gpu",))] == ["h100", "l4"]


def test_a_common_error_of_runs_that_are_alike_can_be_mended_by_the_others() -> None:
    # the first two are four times too high: ranks 2, 3, 1 against 1, 2, 3 give 1 − 6·(1 + 1 + 4) ÷ 24 = −0.5;
    # each mended by the other's factor of four they are 1, 2, 3. The third is alone and stays.
    rows = [
        judged(measured, 0.1, expected, 9.0, gpu=gpu)
        for measured, expected, gpu in ((1, 4.0, "h100"), (2, 8.0, "h100"), (3, 3.0, "l4"))
    ]
    overall = ServingValidation(answers=tuple(rows), skipped=()).overall()[Metric.TPOT]
    assert overall is not None
    assert overall.spearman == pytest.approx(-0.5)
    assert rank_correlation_if_known(rows, lambda run: run.gpu) == pytest.approx(1.0)


def test_a_decision_by_expected_times_breaks_what_one_by_the_interval_keeps() -> None:
    # Limits that not all runs keep: 10 ms (8 ms alone keeps it), 7.5 ms and 5 ms (none does).
    # By expected times 10 ms admits both (9 ms and 6 ms): the one with 4 clients is taken and takes 12 ms, 20 % more.
    # 7.5 ms admits the one of 6 ms, which takes 8 ms, 6.7 % more; 5 ms admits none.
    rows = [judged(0.008, 0.003, 0.006, 0.012, clients=1), judged(0.012, 0.0045, 0.009, 0.018, clients=4)]
    expected = decisions(rows, certainty=0.5)
    assert expected is not None
    assert (expected.choices, expected.broken, expected.kept_rate) == (2, 2, 0.0)
    assert expected.excess == pytest.approx((0.2 + 0.8 / 12) / 2)
    # With 85 %: high ÷ expected = 2, so that times are 2^(1.0364 ÷ 1.645) = 1.55 times as long: 9.3 and 13.9 ms.
    # 10 ms then admits the slower of the two, which keeps it.
    sure = decisions(rows, certainty=0.85)
    assert sure is not None
    assert (sure.choices, sure.broken, sure.kept_rate) == (1, 0, pytest.approx(1.0))


def test_a_run_alone_is_no_decision() -> None:
    assert decisions([judged(0.02, 0.005, 0.009, 0.02)], certainty=0.5) is None
