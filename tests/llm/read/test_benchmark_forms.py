"""Results of guidellm and llama-bench, written by their documented forms."""

import json
from pathlib import Path

import pytest

from capplan.errors import UsageError
from capplan.llm.core.serving.cases import Metric
from capplan.llm.read.measured_run import read_measured_run


def written(folder: Path, document: object) -> Path:
    path = folder / "bench.json"
    path.write_text(json.dumps(document))
    return path


def test_guidellm_gives_the_means_of_requests_that_succeeded(tmp_path: Path) -> None:
    means = {
        "prompt_token_count": 512.0, "output_token_count": 128.0, "request_concurrency": 7.6,
        "time_to_first_token_ms": 40.0, "inter_token_latency_ms": 15.0, "output_tokens_per_second": 480.0,
    }  # fmt: skip
    metrics = {name: {"successful": {"mean": mean}, "errored": {"mean": 9e9}} for name, mean in means.items()}
    [run] = read_measured_run(written(tmp_path, {"benchmarks": [{"metrics": metrics}]}))
    assert (run.input_len, run.output_len, run.clients) == (512.0, 128.0, 8.0)
    assert run.values == {Metric.TTFT: 0.04, Metric.TPOT: 0.015, Metric.OUTPUT_TOKENS_PER_S: 480.0}


def test_llama_bench_gives_a_prompt_and_an_answer_alone(tmp_path: Path) -> None:
    rows = [{"n_prompt": 512, "n_gen": 0, "avg_ts": 2048.0}, {"n_prompt": 0, "n_gen": 128, "avg_ts": 50.0}]
    prompt, answer = read_measured_run(written(tmp_path, rows))
    assert (prompt.input_len, prompt.values) == (512.0, {Metric.TTFT: 0.25})
    assert (answer.output_len, answer.values) == (128.0, {Metric.TPOT: 0.02})


@pytest.mark.parametrize("document", [{"benchmarks": [3]}, [{"avg_ts": 5.0, "n_prompt": 8, "n_gen": 8}]])
def test_results_without_figures_are_refused_in_a_sentence(tmp_path: Path, document: object) -> None:
    with pytest.raises(UsageError, match=r"bench\.json"):
        read_measured_run(written(tmp_path, document))
