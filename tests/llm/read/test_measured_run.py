"""Results of benchmark tools in the forms in which the tools write them."""

import json
from pathlib import Path

import pytest

from capplan.errors import UsageError
from capplan.llm.core.serving.cases import Metric, Serving
from capplan.llm.read.measured_run import read_measured_run

VLLM = {
    # fields of `vllm bench serve --save-result`, vLLM 0.11
    "date": "20251101-101010",
    "backend": "vllm",
    "model_id": "Qwen/Qwen3-32B",
    "num_prompts": 100,
    "request_rate": "inf",
    "max_concurrency": 16,
    "duration": 50.0,
    "completed": 100,
    "total_input_tokens": 102400,
    "total_output_tokens": 12800,
    "request_throughput": 2.0,
    "output_throughput": 256.0,
    "mean_ttft_ms": 250.0,
    "median_ttft_ms": 200.0,
    "mean_tpot_ms": 20.0,
    "mean_itl_ms": 20.5,
}
GENAI = """Metric,avg,min,max,p99,p95,p90,p75,p50,p25
Time To First Token (ms),120.50,100,200,190,180,170,140,118,110
Inter Token Latency (ms),15.25,14,18,17.5,17,16.5,15.5,15.2,14.9
Request Latency (ms),"2,000.00",1900,2200,2190,2150,2100,2050,1990,1950
Output Sequence Length (tokens),125.00,120,130,130,129,128,127,125,123
Input Sequence Length (tokens),1000.00,1000,1000,1000,1000,1000,1000,1000,1000

Metric,Value
Output Token Throughput (per sec),499.10
Request Throughput (per sec),4.00
"""


def test_a_vllm_result_is_a_closed_loop_with_mean_lengths(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(VLLM))
    (run,) = read_measured_run(path)
    assert (run.input_len, run.output_len, run.clients) == (1024.0, 128.0, 16.0)
    assert run.serving is Serving.CLOSED_LOOP
    assert run.values == {Metric.TTFT: 0.25, Metric.TPOT: 0.02, Metric.OUTPUT_TOKENS_PER_S: 256.0}


def test_a_run_has_as_many_requests_as_were_answered_and_their_spread_where_it_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps({**VLLM, "max_concurrency": None, "output_lens": [64, 192]}))
    (run,) = read_measured_run(path)
    assert (run.clients, run.requests) == (100.0, 100.0)  # all at once
    assert run.cv == 0.5  # 64 from a mean of 128


def test_lines_of_sglang_results_are_runs_each(tmp_path: Path) -> None:
    path = tmp_path / "result.jsonl"
    line = {**VLLM, "backend": "sglang", "max_concurrency": None, "request_rate": 4.0}
    path.write_text(f"{json.dumps(line)}\n{json.dumps(line)}\n")
    runs = read_measured_run(path)
    assert [run.serving for run in runs] == [Serving.OPEN_LOAD, Serving.OPEN_LOAD]
    assert runs[1].rate_per_s == 4.0


def test_sglang_writes_an_endless_rate_as_no_number_of_json(tmp_path: Path) -> None:
    path = tmp_path / "result.jsonl"
    line = {**VLLM, "backend": "sglang", "max_concurrency": 16, "request_rate": float("inf")}
    path.write_text(f"{json.dumps(line)}\n{json.dumps({**line, 'max_concurrency': None})}\n")
    assert "Infinity" in path.read_text()
    limited, endless = read_measured_run(path)
    assert limited.clients == 16.0
    # without a limit all 100 requests were sent at once
    assert (endless.clients, endless.rate_per_s) == (100.0, None)


def test_genai_perf_gives_the_clients_by_littles_law(tmp_path: Path) -> None:
    path = tmp_path / "profile_export_genai_perf.csv"
    path.write_text(GENAI)
    (run,) = read_measured_run(path)
    # 4 requests a second that take 2 s each: 8 are in the system; 4 · 125 tokens a second
    assert run.clients == 8.0
    assert run.values == {Metric.TTFT: 0.1205, Metric.TPOT: 0.01525, Metric.OUTPUT_TOKENS_PER_S: 500.0}


def test_a_row_of_serving_runs_is_read_as_such(tmp_path: Path) -> None:
    path = tmp_path / "row.csv"
    path.write_text("model,gpu,engine,input_len,output_len,concurrency,tpot_ms\nm,g,vllm,10,20,4,7\n")
    (run,) = read_measured_run(path)
    assert (run.model, run.values) == ("m", {Metric.TPOT: 0.007})


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("{}", "lacks completed"),
        ("{broken", "not JSON"),
        ("[]", "holds no benchmark result"),
        (json.dumps({**VLLM, "total_input_tokens": None}), "lacks total_input_tokens"),
        (json.dumps({**VLLM, "mean_ttft_ms": None, "mean_tpot_ms": 0, "output_throughput": "x"}), "lacks mean_ttft_ms"),
        ("Metric,avg\nRequest Latency (ms),1\n", "lacks input sequence length"),
        ("a,b\n", "lacks the columns model"),
    ],
)
def test_other_content_is_one_sentence(tmp_path: Path, content: str, what: str) -> None:
    path = tmp_path / "result"
    path.write_text(content)
    with pytest.raises(UsageError, match=what):
        read_measured_run(path)
