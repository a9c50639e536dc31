"""Interval widths learnt from held-out errors, worked out by hand."""

from collections.abc import Mapping, Sequence
from math import exp, log, sqrt

import numpy as np
import pytest

from capplan.llm.core.serving.cases import Metric, Serving, ServingCase, answer, metric_of
from capplan.llm.core.serving.evidence import ServingEvidence
from capplan.llm.core.serving.fit import Observation, Tabulated, fit_constants
from capplan.llm.core.serving.learn import (
    HeldOut,
    LearntRun,
    WidthRows,
    evidence_of_run,
    hold_out,
    known_by,
    newer_than,
    older_than,
)
from capplan.llm.core.serving.priors import PRIOR, default_layout, default_prior
from capplan.llm.core.serving.service import Demand
from capplan.llm.core.timing.calibration import Novelty, Width
from capplan.llm.core.timing.constants import constants_of
from tests.llm.core.architectures import LLAMA_8B
from tests.llm.core.timing.test_step_time import machine
from tests.llm.core.timing.test_work import kernels

ENGINE = ServingEvidence(frozenset({Novelty.ENGINE}))
MODEL, GPU = (ServingEvidence(frozenset({novelty})) for novelty in (Novelty.MODEL, Novelty.GPU))
VENDOR = ServingEvidence(frozenset({Novelty.ARCHITECTURE, Novelty.VENDOR}))


def run(gpu: str, deployment: str, *, engine: str = "vllm", clients: float = 4.0, **names: str) -> LearntRun:
    case = ServingCase(
        kernels=kernels(LLAMA_8B),
        machine=machine(),
        engine=engine,
        demand=Demand(input_len=512, output_len=128, capacity=256),
        serving=Serving.CLOSED_LOOP,
        clients=clients,
    )
    observation = Observation(case=case, metric=Metric.TPOT, value=1.0, block=deployment)
    return LearntRun(
        observation=observation, gpu=gpu, model="llama", family="llama", width="tpot, dense", deployment=deployment,
        **names,
    )  # fmt: skip


def held(rows: Sequence[int], errors: Sequence[float], evidence: ServingEvidence) -> HeldOut:
    count = len(rows)
    return HeldOut(np.array(rows), np.array(errors), (evidence,) * count, np.array([f"g{row}" for row in rows]))


def widths(
    runs: Sequence[LearntRun], splits: Mapping[str, HeldOut], within: Sequence[float] | None = None
) -> dict[str, Width]:
    pool = WidthRows.of(runs, splits, np.zeros(len(runs)) if within is None else np.array(within))
    return pool.widths(np.ones(pool.errors.size, dtype=bool))


def test_a_novelty_adds_what_its_own_split_misses() -> None:
    # Measured deployments are off by 0.1 and runs without their GPU by 0.5: 0.5² − 0.1² = 0.24 is missing in square,
    # and 0.5² is the nearest candidate above; what no split shows adds nothing beyond what is nearer.
    runs = [run("a", f"a{index}") for index in range(10)]
    places = list(range(10))
    known = held(places, [0.1] * 10, ServingEvidence())
    found = widths(runs, {"publisher": known, "gpu": held(places, [0.5] * 10, GPU)})["tpot, dense"]
    assert found.same == pytest.approx(exp(0.1))
    assert found.gpu == found.vendor == pytest.approx(exp(0.5))
    assert found.model == 1.0
    assert found.half({Novelty.GPU}) == pytest.approx(exp(sqrt(0.01 + 0.25)))


def test_ends_lie_where_a_twentieth_of_the_errors_is_beyond_either() -> None:
    # Of 100 runs that are off by 0.2 three in four take longer than predicted: the longest twentieth by 0.6 and 0.4,
    # the shortest by 0.1, so that the upper end lies farther and the lower one at the half-width.
    runs = [run("a", f"a{index}") for index in range(100)]
    errors = [-0.6] * 5 + [-0.4] * 5 + [-0.2] * 65 + [0.1] * 25
    found = widths(runs, {"publisher": held(range(100), errors, ServingEvidence())})["tpot, dense"]
    half = log(found.same)
    assert half == pytest.approx(np.quantile(np.abs(errors), 0.9))
    assert found.above * half == pytest.approx(0.4)
    assert found.below == 1.0


def test_what_is_farther_is_never_narrower() -> None:
    runs = [run("a", f"a{index}") for index in range(10)]
    places = list(range(10))
    splits = {
        "publisher": held(places, [0.1] * 10, ServingEvidence()),
        "gpu": held(places, [0.5] * 10, GPU),
        "vendor": held(places, [0.2] * 10, VENDOR),
    }
    found = widths(runs, splits)["tpot, dense"]
    assert found.gpu <= found.architecture <= found.vendor


def test_novelties_of_model_hardware_and_software_add_in_square() -> None:
    width = Width(same=exp(0.1), model=exp(0.2), gpu=exp(0.3), vendor=exp(0.4), engine=exp(0.5))
    assert width.half({Novelty.MODEL, Novelty.GPU}) == pytest.approx(exp(sqrt(0.01 + 0.04 + 0.09)))
    assert width.half({Novelty.GPU, Novelty.VENDOR}) == pytest.approx(exp(sqrt(0.01 + 0.16)))  # the farther alone
    assert width.half({Novelty.VENDOR, Novelty.ENGINE}) == pytest.approx(exp(sqrt(0.01 + 0.16 + 0.25)))


def test_a_generation_of_an_engine_has_a_width_between_its_own_and_its_engines() -> None:
    runs = [
        *(run("a", f"new{index}", engine="trtllm") for index in range(9)),
        *(run("a", f"old{index}", engine="trtllm before 1.0") for index in range(9)),
    ]
    found = widths(runs, {"publisher": held(range(18), [0.2] * 9 + [0.4] * 9, ServingEvidence())})
    # The 90 % quantile of all is 0.4, so is the engine's. Nine deployments weigh 9 ÷ (9 + 3) = 0.75 of the square.
    assert found["tpot, dense, trtllm before 1.0"].same == pytest.approx(exp(0.4))
    assert found["tpot, dense, trtllm"].same == pytest.approx(exp(sqrt(0.75 * 0.04 + 0.25 * 0.16)))


def test_the_spread_within_deployments_leaves_out_what_their_runs_share() -> None:
    # Deployments off by +0.5 and −0.5, their two runs 0.1 to either side: 0.1 · √(2 ÷ 1) around a mean of two runs.
    runs = [run("a", "one"), run("a", "one"), run("a", "other"), run("a", "other")]
    errors = [0.4, 0.6, -0.4, -0.6]
    found = widths(runs, {"publisher": held(range(4), errors, ServingEvidence())}, errors)["tpot, dense"]
    assert found.within == pytest.approx(exp(0.1 * sqrt(2)))
    assert found.same == pytest.approx(exp(0.6))


def test_what_runs_measured_says_what_a_further_run_is() -> None:
    known = known_by([run("h100", "one", release="0.15.1"), run("h100", "two", release="0.18")], PRIOR)
    assert known.measured_releases == {"Hopper | vllm": ("0.15.1", "0.18")}
    assert evidence_of_run(run("h100", "three", release="0.17"), known).novelties == frozenset()
    assert evidence_of_run(run("h100", "three", release="0.18.4"), known).novelties == frozenset()
    assert evidence_of_run(run("h100", "three", release="0.21"), known).novelties == {Novelty.RELEASE}
    assert evidence_of_run(run("l40s", "three", vendor="AMD"), known).novelties == {Novelty.GPU, Novelty.VENDOR}
    # an engine of which no load of several clients was measured
    lone = known_by([run("h100", "one", engine="sglang", clients=1.0)], PRIOR)
    assert Novelty.ENGINE in evidence_of_run(run("h100", "two", engine="sglang"), lone).novelties


def test_a_run_belongs_to_every_release_that_it_is_not_older_than() -> None:
    assert newer_than("vllm", "0.14.1") == ()
    assert newer_than("vllm", "0.18.0") == ("vllm 0.15",)
    assert newer_than("vllm", "0.26.0") == ("vllm 0.15", "vllm 0.23")
    assert newer_than("vllm", "") == ()
    assert older_than("vllm", "0.8.5") == ("vllm before 0.9", "vllm before 0.14")
    assert older_than("vllm", "0.14.1") == older_than("vllm", "") == ()


def test_held_out_constants_are_those_of_a_fit_without_the_group() -> None:
    # Runs of two GPUs by the prior's constants, those of one of them twice as long: without it, the other's are met.
    constants = constants_of(PRIOR)
    runs = []
    for gpu, factor in (("a", 1.0), ("b", 2.0)):
        for clients in (1.0, 4.0, 16.0, 64.0):
            made = run(gpu, gpu, clients=clients)
            case = made.observation.case
            value = factor * metric_of(answer(case, constants), Metric.TPOT)
            observation = Observation(case=case, metric=Metric.TPOT, value=value, block=f"{gpu}{clients}")
            runs.append(LearntRun(**{**{name: getattr(made, name) for name in _NAMES}, "observation": observation}))
    layout = default_layout()
    table = Tabulated.of([item.observation for item in runs], layout=layout, prior=default_prior(layout))
    found = hold_out(runs, table, fit_constants(table), split="gpu")
    assert sorted(set(found.group)) == ["a", "b"]
    of_b = found.errors[found.group == "b"]  # predicted by constants of the first: half of what was measured
    assert np.exp(of_b) == pytest.approx(0.5, rel=0.02)
    assert all(Novelty.GPU in evidence.novelties for evidence in found.evidence)


_NAMES = ("gpu", "model", "family", "width", "deployment")
