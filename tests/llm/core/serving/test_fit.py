"""The fit: exact slopes, weights of blocks, and constants that are found again."""

from dataclasses import replace

import numpy as np
import pytest

from capplan.core.power import CardCap
from capplan.llm.core.serving.cases import Metric, Serving, ServingCase, answer, metric_of
from capplan.llm.core.serving.fit import Observation, Tabulated, block_weights, fit_constants, followed_fit
from capplan.llm.core.serving.priors import PRIOR, default_layout, default_prior
from capplan.llm.core.serving.service import Demand
from capplan.llm.core.timing.calibration import KernelClass
from capplan.llm.core.timing.step_time import factor_slopes_s, kernel_slopes_s, stack, step_table, step_time
from capplan.llm.core.timing.work import CLASSES, Load
from capplan.specs.fitted import load_power_law
from tests.llm.core.architectures import DEEPSEEK_V3, LLAMA_8B
from tests.llm.core.timing.test_step_time import H100, machine
from tests.llm.core.timing.test_work import kernels


def test_slopes_of_kernels_are_those_of_small_differences() -> None:
    layout = default_layout()
    vector = layout.pack(PRIOR)
    loads = (Load.of(decoding=8, context=700), Load.of(decoding=4, context=300, prefilled=512, prompts=1))
    table = stack(
        [
            step_table(kernels(config, weights="fp8"), load, machine=machine(), layout=layout, engine=layout.engines[0])
            for config in (LLAMA_8B, DEEPSEEK_V3)
            for load in loads
        ]
    )
    exact = kernel_slopes_s(table, layout.view(vector))
    for index in range(3 * len(CLASSES)):
        times = []
        for step in (-1e-5, 1e-5):
            moved = vector.copy()
            moved[index] += step
            times.append(step_time(table, layout.view(moved)).kernels_s.sum(axis=1))
        assert exact[:, index] == pytest.approx((times[1] - times[0]) / 2e-5, rel=1e-4, abs=1e-9)


def test_slopes_of_kernel_factors_are_those_of_small_differences() -> None:
    case = ServingCase(
        kernels=kernels(DEEPSEEK_V3, weights="fp8"),
        machine=machine(),
        engine="vllm",
        demand=Demand(input_len=256, output_len=64, capacity=64),
        serving=Serving.STEADY,
    )
    layout = default_layout([case])
    assert "moe fp8 | vllm | Hopper" in layout.factors
    vector = layout.pack(PRIOR)
    load = Load.of(decoding=8, context=700, prefilled=64, prompts=1)
    table = step_table(case.kernels, load, machine=machine(), layout=layout, engine="vllm")
    exact = factor_slopes_s(table, layout.view(vector))
    first = vector.size - len(layout.factors)
    for index in range(len(layout.factors)):
        times = []
        for step in (-1e-5, 1e-5):
            moved = vector.copy()
            moved[first + index] += step
            times.append(float(step_time(table, layout.view(moved)).kernels_s.sum()))
        assert exact[0, index] == pytest.approx((times[1] - times[0]) / 2e-5, rel=1e-4, abs=1e-9)


def test_a_block_of_equal_rows_counts_little_more_than_one_row() -> None:
    # ten rows at ρ = 0.5 weigh 10 ÷ (1 + 9 · 0.5) = 1.82 together, a row alone 1
    weights = block_weights(["a"] * 10 + ["b"], correlation=0.5)
    assert weights[:10].sum() == pytest.approx(10 / 5.5)
    assert weights[10] == 1.0


def test_constants_that_made_the_runs_are_found_again() -> None:
    truth = replace(
        PRIOR,
        kernels={
            **PRIOR.kernels,
            KernelClass.GEMM_16: replace(PRIOR.kernels[KernelClass.GEMM_16], bandwidth_fraction=0.65),
        },
        engines={**PRIOR.engines, "vllm": replace(PRIOR.engines["vllm"], step_s=2e-3, ttft_offset_s=0.05)},
    )
    layout = default_layout()
    made = layout.view(layout.pack(truth))
    observations = []
    for output_len in (64, 128, 256, 512):
        for clients in (1, 4, 16, 64):
            case = ServingCase(
                kernels=kernels(LLAMA_8B),
                machine=machine(),
                engine="vllm",
                demand=Demand(input_len=256, output_len=output_len, capacity=512, spread=0.1),
                serving=Serving.CLOSED_LOOP,
                clients=clients,
            )
            times = answer(case, made)
            observations += [
                Observation(case=case, metric=metric, value=metric_of(times, metric), block=f"{output_len} {clients}")
                for metric in (Metric.TPOT, Metric.TTFT)
            ]
    prior = default_prior(layout)
    # sixteen runs without noise say more than as many real ones: deviations are taken whole, of which a fit takes 0.3
    # for kernels and 0.4 for engines; what the host takes is wide already, and looks like less bandwidth in few runs
    wide = ("sequence_s", "prefill_layer_s")
    whole = np.array(
        [1 / 0.3 if name.startswith("kernel/") else 1.0 if name.endswith(wide) else 1 / 0.4 for name in layout.names]
    )
    loose = replace(prior, deviation=whole * prior.deviation)
    table = Tabulated.of(observations, layout=layout, prior=loose)
    fit = fit_constants(table)
    found = layout.view(fit.vector)
    errors = [metric_of(answer(item.case, found), item.metric) / item.value - 1 for item in observations]
    assert np.median(np.abs(errors)) < 0.02
    assert found.kernels()[KernelClass.GEMM_16].bandwidth_fraction == pytest.approx(0.65, rel=0.06)
    # the tables predict what the model answers, with the constants of the fit
    tabulated = table.predict(fit, fit.vector)
    assert tabulated == pytest.approx(
        [metric_of(answer(item.case, found), item.metric) for item in observations], rel=0.01
    )
    # what no run moves stays where the prior puts it
    kept = found.kernels()[KernelClass.MOE_16].compute_fraction
    assert kept == pytest.approx(PRIOR.kernels[KernelClass.MOE_16].compute_fraction)


@pytest.mark.parametrize("serving", [Serving.CLOSED_LOOP, Serving.FIXED_BATCH, Serving.OFFLINE])
def test_runs_under_a_power_limit_are_predicted_by_the_tables_as_they_are_answered(serving: Serving) -> None:
    own = machine()
    limited = replace(own, cap=CardCap(gpu=H100, law=replace(load_power_law(), cap_w=300.0)))
    layout = default_layout()
    metric = Metric.OUTPUT_TOKENS_PER_S if serving is Serving.OFFLINE else Metric.TPOT
    observations = [
        Observation(
            case=ServingCase(
                kernels=kernels(LLAMA_8B), machine=each, engine="vllm", serving=serving, clients=64,
                demand=Demand(input_len=256, output_len=128, capacity=256),
            ),
            metric=metric, value=1.0, block="one",
        )
        for each in (own, limited)
    ]  # fmt: skip
    table = Tabulated.of(observations, layout=layout, prior=default_prior(layout))
    fit = followed_fit(table, table.prior.mean)
    free, slower = (float(value) for value in table.predict(fit, fit.vector))
    answered = [metric_of(answer(item.case, layout.view(fit.vector)), metric) for item in observations]
    assert slower / free == pytest.approx(answered[1] / answered[0], rel=0.01)
    longer = free / slower if serving is Serving.OFFLINE else slower / free
    assert longer > 1.1  # 300 of 700 W: a busy card draws about its limit
