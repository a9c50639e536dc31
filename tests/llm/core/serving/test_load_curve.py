"""The curve of one replica from idle to full: laws, and prompts without answers by hand."""

from dataclasses import replace

import numpy as np
import pytest

from capplan.llm.core.serving.asked import Speculation
from capplan.llm.core.serving.load_curve import load_curve, load_points, seen_requests
from capplan.llm.core.serving.service import Demand, decode_step_s, lone_ttft_s, most_running, step_seconds
from capplan.llm.core.timing.work import Load
from tests.llm.core.serving.test_service import DEMAND, service


def test_a_curve_rises_in_rate_and_times() -> None:
    points = load_curve(service(), DEMAND)
    assert 0 < points[0].running < 1  # nearly idle
    assert points[-1].running == pytest.approx(256)
    for name in ("rate_per_s", "ttft_s", "tpot_s"):
        values = [getattr(point, name) for point in points]
        assert values == sorted(values)


def test_a_request_under_poisson_arrivals_meets_the_mean_number_of_others() -> None:
    # Palm: a request meets 2 others where 2 are held on average; a full replica of 8 steps with 8 and no more
    assert seen_requests(2.0, most=np.inf) == 3.0
    assert seen_requests(8.0, most=8.0) == 8.0
    assert seen_requests(0.0, most=8.0) == 1.0
    demand = replace(DEMAND, capacity=1e9)
    (of_two,) = load_points(service(), demand, running=np.array([2.0]))
    most = most_running(service(), demand)
    three = np.array([3.0 - 2.0 / most])
    assert of_two.tpot_s == load_points(service(), demand, running=three, seen=three)[0].tpot_s


def test_prefix_hits_shorten_the_first_token_and_raise_the_rate() -> None:
    plain, cached = (load_curve(service(), replace(DEMAND, prefix_fraction=share)) for share in (0.0, 0.75))
    assert cached[0].ttft_s < plain[0].ttft_s
    assert cached[-1].rate_per_s > plain[-1].rate_per_s


def test_drafts_that_are_never_accepted_only_cost_time() -> None:
    never = replace(DEMAND, speculation=Speculation(drafts=3, acceptance=0.0))
    always = replace(DEMAND, speculation=Speculation(drafts=3, acceptance=1.0))
    alone = np.array([1.0])
    plain, slow, fast = (load_points(service(), each, running=alone)[0].tpot_s for each in (DEMAND, never, always))
    assert fast < plain < slow
    # Four tokens a step.
    assert always.tokens_per_step == 4.0


def test_the_tokens_of_a_step_are_the_sum_of_the_chances() -> None:
    # 1 + 0.7 + 0.49 + 0.343
    assert Speculation(drafts=3, acceptance=0.7).tokens_per_step == pytest.approx(2.533)


def test_a_verifying_step_computes_more_and_reads_the_cache_once() -> None:
    plain = Load.of(decoding=4.0, context=100.0)
    verifying = Load.of(decoding=4.0, context=100.0, drafted=3.0)
    assert verifying.tokens[0] == 4 * plain.tokens[0]
    drafting = replace(DEMAND, speculation=Speculation(drafts=3, acceptance=0.5))
    plain_s, drafted_s = (decode_step_s(service(), demand, np.array([4.0])) for demand in (DEMAND, drafting))
    assert drafted_s[0] > plain_s[0]


def test_a_step_with_prompts_drafts_as_long_as_one_without() -> None:
    speculation = Speculation(drafts=4, acceptance=0.5)
    running, chunks, context = np.array([4.0, 4.0]), np.array([0.0, 1024.0]), 512 + 64
    plain, drafted = (
        step_seconds(service(), demand)(running, chunks)
        for demand in (DEMAND, replace(DEMAND, speculation=speculation))
    )
    verified_s = service().step(Load.of(decoding=4.0, context=context, drafted=4.0)).total_s
    drafting_s = float(drafted[0] - verified_s[0])
    # four layers of 32, and the output head four times
    assert drafting_s > 4 / 32 * plain[0]
    assert drafted[1] - plain[1] >= drafting_s


def test_a_lone_text_to_embed_takes_its_prefill() -> None:
    demand = Demand(input_len=512, output_len=1, capacity=64)
    first = load_points(service(), demand, running=np.array([1e-9]))[0]
    assert first.ttft_s == pytest.approx(lone_ttft_s(service(), demand), rel=1e-6)
    assert first.e2e_s(1) == first.ttft_s


def test_texts_to_embed_fill_steps_of_the_token_budget() -> None:
    demand = Demand(input_len=512, output_len=1, capacity=10_000)
    full = load_points(service(), demand, running=np.array([1e9]))[0]
    # A step of 8,192 tokens holds 16 texts; 95 % of its rate is the most that is followed.
    step_s = float(service().step(Load.of(prefilled=8192.0, prompts=16.0)).total_s[0])
    assert full.rate_per_s == pytest.approx(0.95 * 16 / step_s, rel=1e-6)


def test_many_documents_take_as_long_as_as_many_texts() -> None:
    one = Demand(input_len=512, output_len=1, capacity=10_000)
    many = replace(one, prompts=16.0)
    rates = [load_points(service(), each, running=np.array([1e9]))[0].rate_per_s for each in (one, many)]
    assert rates[0] == pytest.approx(16 * rates[1])


def test_the_image_encoder_is_waited_for() -> None:
    with_images = replace(DEMAND, encoder_s=0.5)
    alone = np.array([1.0])
    plain, slow = (load_points(service(), each, running=alone)[0] for each in (DEMAND, with_images))
    assert slow.ttft_s >= plain.ttft_s + 0.5
    assert slow.rate_per_s < plain.rate_per_s
