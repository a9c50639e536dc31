"""Estimates of training beside public runs that nothing was fitted to."""

import pytest

from tests.data_acceptance.published_training import CASES, Judged, Published, estimated, judged

QUANTISED = (
    "70B QLoRA under 48 GB", "8B QLoRA in 8 GB", "70B QLoRA on 2 × 40 GB", "70B QLoRA on 4 × 24 GB, offloaded",
    "34B QLoRA, 1,400 tokens", "34B QLoRA, 600 tokens",
)  # fmt: skip
"""Runs on a base in 4 bits whose sources say that they fit."""


@pytest.fixture(scope="module")
def found() -> list[Judged]:
    """All cases beside their estimates."""
    return judged()


def _share(flags: list[bool | None], *, least: int) -> float:
    known = [flag for flag in flags if flag is not None]
    assert len(known) >= least
    return sum(known) / len(known)


def test_verdicts_are_those_of_the_sources(found: list[Judged]) -> None:
    assert _share([item.verdict_is_right for item in found], least=28) >= 0.9
    ran_out = [item.answer.fit_probability for item in found if item.case.runs is False]
    assert len(ran_out) == 7
    assert max(ran_out) < 0.95


@pytest.mark.parametrize("case", [case for case in CASES if case.name in QUANTISED], ids=lambda case: case.name)
def test_quantised_bases_fit_where_their_sources_say_so(case: Published) -> None:
    assert Judged(case, estimated(case)).verdict_is_right is True


def test_speeds_lie_within_their_intervals(found: list[Judged]) -> None:
    assert _share([item.speed_is_inside for item in found], least=22) >= 0.8
    for item in found:
        if item.case.speed is not None:
            ratio = item.answer.estimate.tokens_per_s_per_gpu.expected / item.case.speed
            assert 1 / 1.8 < ratio < 1.8, item.case.name


def test_peaks_lie_within_their_intervals(found: list[Judged]) -> None:
    assert _share([item.peak_is_inside for item in found], least=26) >= 0.8


def test_the_gpu_hours_of_llama_3_follow_from_storage_that_grows_with_the_cluster() -> None:
    # Meta's model card: 30.84 M H100 hours for 15.6 T tokens; arXiv 2407.21783: over 90 % effective time
    case = Published(
        "Llama 3.1 405B", "Meta's model card",
        {
            "model": "llama-3.1-405b-instruct", "gpu": "h100-sxm5-80gb", "gpu_count": 16384, "tp": 8, "pp": 16, "vp": 7,
            "framework": "megatron", "seq_len": 8192, "accumulate": 16, "tokens": 15.6e12,
        },
    )  # fmt: skip
    run = estimated(case).run
    assert run is not None
    assert run.gpu_hours.low < 30.84e6 < run.gpu_hours.high
    assert run.gpu_hours.expected == pytest.approx(30.84e6, rel=0.15)
    assert run.goodput_fraction > 0.88
