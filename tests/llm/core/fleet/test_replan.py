"""What runs beside what its load needs, by hand: offers of 2 USD an hour and GPU, replicas of two GPUs."""

import pytest

from capplan.llm.core.fleet.replan import RUNNING, Replan
from tests.llm.core.fleet.fits import fit, rented

WEEK = tuple(5.0 if hour == 24 + 14 else 1.0 for hour in range(168))  # Tuesday 14 h


def replan(**changes: object) -> Replan:
    planned = fit(needed=2, replicas=2, rate_per_s=6.0, max_rate_per_s=4.0, rent=rented(2.0, gpus=2, joined=2))
    given = {
        "gpus": 6, "gpu": "some-gpu", "fit": planned, "narrow": None, "certainty_fraction": 0.9, "weekly_per_s": WEEK,
        "files_now": {"a": "replicas: 3\nport: 8000\n"}, "files_then": {"a": "replicas: 2\nport: 8000\n"},
    }  # fmt: skip
    return Replan(**{**given, **changes})  # type: ignore[arg-type]  # a mapping of its fields


def test_the_answer_states_need_peak_saving_and_risk() -> None:
    first, saving, risk = replan(narrow=fit(replicas=1)).sentences
    assert first == "you run 6 × some-gpu; the load needs 4 at 90%; peak Tuesday 14 h UTC; with fp8 2"
    assert saving.startswith("4.00 USD an hour less")  # three machines of 4 USD an hour become two
    assert "1.33 × the load" in risk  # 2 replicas of 4/s for 6/s
    assert "67% of it" in risk  # 1 replica of 4/s for 6/s


def test_a_price_of_ones_own_is_saved() -> None:
    _, saving, _ = replan(usd_per_gpu_hour=3.5).sentences
    assert saving == "7.00 USD an hour less, at your price"  # two GPUs of six


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("6 x h100-sxm5-80gb", ("6", "h100-sxm5-80gb", None)),
        ("6 × NVIDIA H100 80GB HBM3 at 2.10", ("6", "NVIDIA H100 80GB HBM3", "2.10")),
        ("2*l4 at 0.5 USD", ("2", "l4", "0.5")),
    ],
)
def test_what_runs_is_a_number_a_gpu_and_perhaps_a_price(words: str, found: tuple[str, str, str | None]) -> None:
    match = RUNNING.fullmatch(words)
    assert match is not None
    assert match.groups() == found


def test_the_change_is_the_lines_that_differ() -> None:
    lines = replan().change.splitlines()
    assert lines[:2] == ["--- now/a", "+++ then/a"]
    assert lines[3:] == ["-replicas: 3", "+replicas: 2"]


def test_too_few_gpus_cost_more_and_none_that_fit_are_said() -> None:
    assert replan(gpus=2).usd_per_hour_saved == pytest.approx(-4.0)
    (sentence,) = replan(fit=None, files_now={}, files_then={}).sentences
    assert "no fleet of these GPUs carries the load; peak Tuesday" in sentence
