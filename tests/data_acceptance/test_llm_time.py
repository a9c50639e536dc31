"""The shipped constants of LLM step times: what they were made from, what physics allows, and published runs."""

from dataclasses import replace
from pathlib import Path

import pytest

from capplan.app.deployments import Deployments
from capplan.llm.core.deployment import NamedDeployment
from capplan.llm.core.search.judged_runs import validate_serving
from capplan.llm.core.serving.accuracy import JudgedAnswer
from capplan.llm.core.serving.cases import Metric
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.timing.calibration import LlmCalibration, Novelty
from capplan.llm.read.calibrations import dump_time_calibration, load_time_calibration
from capplan.llm.read.serving_rows import parse_run, read_serving
from capplan.specs import load_gpus
from tests.seen import at_least

pytestmark = pytest.mark.slow

SERVING = Path(__file__).parents[3] / "shared" / "data" / "llm" / "serving.csv.gz"


@pytest.fixture(scope="module")
def calibration() -> LlmCalibration:
    return load_time_calibration()


def judge(calibration: LlmCalibration, **columns: object) -> dict[Metric, JudgedAnswer]:
    run = parse_run({name: str(value) for name, value in columns.items()}, file="published", line=1)
    found = validate_serving(
        [replace(run, quality="A")],
        find=Deployments(gpus=load_gpus(), assumes_narrow_cache=True).find,
        calibration=calibration,
    )
    assert found.skipped == ()
    return {answer.metric: answer for answer in found.answers}


def test_the_calibration_names_its_origin_and_is_written_as_it_is_read(
    calibration: LlmCalibration, tmp_path: Path
) -> None:
    assert calibration.origin is not None
    assert calibration.origin.rows > 1000
    assert "capplan llm fit" in calibration.origin.command
    path = tmp_path / "copy.yaml"
    path.write_text(dump_time_calibration(calibration))
    assert load_time_calibration(path) == calibration


def test_no_kernel_computes_faster_than_its_peak(calibration: LlmCalibration) -> None:
    for name, constants in at_least(5, calibration.kernels.items()):
        assert 0 < constants.compute_fraction < 1, name
        # routing is skewed, so that fewer experts are read than uniform routing says
        assert 0.3 < constants.bandwidth_fraction < (1.5 if "moe" in name else 1.1), name
        assert 0 < constants.fixed_s < 200e-6, name


def test_less_evidence_never_narrows_an_interval(calibration: LlmCalibration) -> None:
    for name, width in at_least(4, calibration.widths.items()):
        assert width.same > 1, name
        assert 1 <= width.model <= width.format, name
        assert 1 <= width.gpu <= width.architecture <= width.vendor <= width.network, name
        assert 1 <= width.release <= width.engine, name


@pytest.mark.parametrize(
    ("rate", "itl_ms"),
    [(2, 21), (4, 24), (8, 32)],  # TensorRT-LLM's documentation, Llama-3.1-70B on four H100, 467 tokens in, 256 out
)
def test_published_time_between_tokens_at_a_request_rate(calibration: LlmCalibration, rate: int, itl_ms: int) -> None:
    found = judge(
        calibration, model="llama-3.1-70b-instruct", gpu="h100-sxm5-80gb", tp=4, engine="trtllm", version="0.14.0",
        weights="bf16", kv="bf16", input_len=467, output_len=256, request_rate=rate, itl_ms=itl_ms,
    )  # fmt: skip
    assert found[Metric.TPOT].predicted.expected == pytest.approx(itl_ms / 1000, rel=0.25)


@pytest.mark.parametrize(
    ("gpu", "weights", "version", "tokens_per_s"),
    [("h100-sxm5-80gb", "fp8", "0.17", 28_837), ("a100-sxm4-80gb", "fp16", "0.17", 6_627)],
)
def test_published_offline_tokens_of_llama_8b(
    calibration: LlmCalibration, gpu: str, weights: str, version: str, tokens_per_s: float
) -> None:
    found = judge(
        calibration, model="llama-3.1-8b-instruct", gpu=gpu, engine="trtllm", version=version, weights=weights,
        kv=weights, input_len=128, output_len=128, concurrency="inf", serving="offline",
        output_tokens_per_s=tokens_per_s,
    )  # fmt: skip
    answer = found[Metric.OUTPUT_TOKENS_PER_S]
    assert answer.predicted.low < tokens_per_s < answer.predicted.high


@pytest.mark.parametrize(
    ("model", "evidence"),
    [
        ("deepseek-r1", set()),
        ("deepseek-v3.1", set()),  # the layers of V3 and R1
        ("deepseek-r1-distill-llama-70b", set()),  # those of Llama 3.3 70B
        ("qwen3-14b", {Novelty.MODEL}),
    ],
)
def test_a_release_with_the_layers_of_a_measured_model_counts_as_measured(
    calibration: LlmCalibration, model: str, evidence: set[Novelty]
) -> None:
    words = NamedDeployment(
        model=model, gpu="b200-sxm-180gb", engine="trtllm", sharding=Sharding(tensor=8), weights="nvfp4"
    )
    assert Deployments(gpus=load_gpus()).find(words).evidence(calibration).novelties == evidence


@pytest.mark.shared
@pytest.mark.skipif(not SERVING.is_file(), reason="the measured runs beside the project are not here")
def test_the_measured_runs_are_predicted_as_well_as_the_accuracy_page_says(calibration: LlmCalibration) -> None:
    found = validate_serving(
        read_serving(SERVING).runs[::5],  # every fifth run, which takes a second of processor time instead of seven
        find=Deployments(gpus=load_gpus(), assumes_narrow_cache=True).find,
        calibration=calibration,
    )
    overall = found.overall()
    tpot, ttft, tokens = (overall[metric] for metric in (Metric.TPOT, Metric.TTFT, Metric.OUTPUT_TOKENS_PER_S))
    assert tpot is not None
    assert ttft is not None
    assert tokens is not None
    assert all("above what the replicas carry" in row.reason for row in found.skipped)
    assert len(found.skipped) <= 1
    assert tpot.mdape < 0.08
    assert tokens.mdape < 0.10
    assert ttft.within_factor_two > 0.85
    assert tpot.spearman is not None
    assert tpot.spearman > 0.97
    assert 0.86 <= tpot.coverage <= 0.96
