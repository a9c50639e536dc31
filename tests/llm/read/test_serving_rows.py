"""Rows of measured serving runs, as people write them."""

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from capplan.app.deployments import Deployments
from capplan.errors import UsageError
from capplan.llm.core.deployment import NamedDeployment
from capplan.llm.core.search.measured_runs import runs_of
from capplan.llm.core.serving.cases import MeasuredRun, Metric, Serving
from capplan.llm.core.sharding import Sharding
from capplan.llm.read.run_rows import RunFile
from capplan.llm.read.serving_rows import read_serving
from capplan.specs import load_gpus

HEAD = (
    "model,gpu,gpus,tp,pp,ep,dp,engine,version,weights,kv,input_len,output_len,lengths,concurrency,request_rate,"
    "serving,ttft_ms,tpot_ms,itl_ms,output_tokens_per_s,quality,note"
)


def read(tmp_path: Path, *rows: str, head: str = HEAD) -> RunFile[MeasuredRun]:
    path = tmp_path / "runs.csv"
    path.write_text("\n".join((head, *rows)) + "\n")
    return read_serving(path)


def test_a_closed_loop_is_read_with_its_units_and_mean_lengths(tmp_path: Path) -> None:
    row = "qwen3-32b,h100,8,2,,,,vLLM,0.12,fp8,fp8,1000,500,uniform 0.8..1,64,,online,120,8.5,,,A"
    (run,) = read(tmp_path, row).runs
    assert (run.input_len, run.output_len) == (900.0, 450.0)
    assert run.spread == pytest.approx(0.2 / 1.8)
    assert (run.engine, run.sharding.tensor, run.replicas, run.clients) == ("vllm", 2, 4, 64.0)
    assert run.serving is Serving.CLOSED_LOOP
    assert run.values == {Metric.TTFT: pytest.approx(0.12), Metric.TPOT: pytest.approx(0.0085)}


@pytest.mark.parametrize(("ttft_ms", "tokens_per_s", "is_kept"), [(100, 90, True), (9000, 74, False)])
def test_a_rate_that_waiting_clients_cannot_get_is_that_of_decoding_alone(
    tmp_path: Path, ttft_ms: int, tokens_per_s: int, is_kept: bool
) -> None:
    # by Little's law one client gets 256 ÷ (0.1 + 255 · 0.0105) = 92 tokens/s, and 22 where its prompts take 9 s
    row = f"qwen3-32b,h100,8,2,,,,vllm,0.12,fp8,fp8,8192,256,,1,,online,{ttft_ms},10.5,,{tokens_per_s},A"
    (run,) = read(tmp_path, row).runs
    assert (Metric.OUTPUT_TOKENS_PER_S in run.values) is is_kept
    assert {Metric.TTFT, Metric.TPOT} <= set(run.values)


def test_the_requests_of_an_offline_run_are_those_stated_or_those_of_its_source(tmp_path: Path) -> None:
    head = "model,gpu,engine,input_len,output_len,serving,output_tokens_per_s,source,requests"
    rows = (
        "m,g,trtllm,128,2048,offline,500,TensorRT-LLM docs 00f37686 (v1.0),",
        "m,g,trtllm,128,2048,offline,500,TensorRT-LLM docs 00f37686 (v1.0),400",
        "m,g,trtllm,128,2048,offline,500,elsewhere,",
        "m,g,trtllm,128,2048,offline,500,elsewhere,0",
    )
    found = read(tmp_path, *rows, head=head)
    assert [run.requests for run in found.runs] == [3000, 400, None]
    assert found.skipped[0].reason == "requests is 0; write how many requests the run had, 1 or more"


@pytest.mark.parametrize(
    ("note", "clients", "requests"),
    [
        ("llama-benchy: bursts of c requests, tpot = 1/decode rate per request", "8", 8.0),
        ("aggregate; one burst: median TTFT 1084.7 ms", "4", 4.0),
        ("one burst: median TTFT 1084.7 ms", "1", None),  # one client's bursts follow one another, as its requests do
        ("random prompts, burstiness 0.7", "8", None),
    ],
)
def test_a_burst_has_as_many_requests_as_clients(
    tmp_path: Path, note: str, clients: str, requests: float | None
) -> None:
    row = f"qwen3-32b,h100,8,2,,,,vllm,0.12,fp8,fp8,1000,500,,{clients},,online,120,8.5,,,A,{note.replace(',', ';')}"
    (run,) = read(tmp_path, row).runs
    assert run.requests == requests


def test_newer_tables_of_tensorrt_llm_state_their_own_requests(tmp_path: Path) -> None:
    # NVIDIA/TensorRT-LLM@03e27c7d, perf-overview: 3,000 requests of 1024/1024, 1,500 of 8192/1024, 1,000 of 32768/1024
    head = "model,gpu,engine,input_len,output_len,serving,output_tokens_per_s,source"
    rows = [f"m,g,trtllm,{prompt},1024,offline,500,TensorRT-LLM docs 03e27c7d" for prompt in (1024, 8192, 32768)]
    assert [run.requests for run in read(tmp_path, *rows, head=head).runs] == [3000, 1500, 1000]


def test_a_run_without_a_version_has_the_only_one_of_its_source(tmp_path: Path) -> None:
    head = HEAD + ",source"
    row = "qwen3-32b,h100,1,1,,,,{},{},fp8,fp8,1000,500,,1,,online,120,8.5,,,A,,{}"
    stated = [
        row.format(*words)
        for words in (
            ("vllm", "0.12.0", "me/one@1:a.json"), ("vllm", "", "me/one@1:b.json"), ("sglang", "", "me/one@1:c.json"),
            ("vllm", "0.12", "me/two@1:a.json"), ("vllm", "0.13", "me/two@1:b.json"), ("vllm", "", "me/two@1:c.json"),
            ("vllm", "", ""),
        )
    ]  # fmt: skip
    found = [run.version for run in read(tmp_path, *stated, head=head).runs]
    assert found == ["0.12.0", "0.12.0", "", "0.12", "0.13", "", ""]


def test_how_often_sglang_looks_for_requests_is_what_the_row_or_its_script_says(tmp_path: Path) -> None:
    head = "model,gpu,engine,input_len,output_len,concurrency,ttft_ms,source,receive_interval"
    rows = (
        "deepseek-r1,b200-sxm-180gb,sglang,1024,1024,8,100,InferenceX 2026_03_25,",
        "deepseek-r1,b200-sxm-180gb,sglang,1024,1024,16,100,InferenceX 2026_03_25,",
        "deepseek-r1,mi300x,sglang,1024,1024,16,100,InferenceX 2026_03_25,",
        "deepseek-r1,b200-sxm-180gb,sglang,1024,1024,16,100,somebody/else@abc,",
        "deepseek-r1,b200-sxm-180gb,sglang,1024,1024,16,100,InferenceX 2026_03_25,5",
    )
    found = read(tmp_path, *rows, head=head).runs
    assert [run.receive_interval for run in found] == [10, 30, None, None, 5]
    assert [(run.publisher, run.year) for run in found[:4:3]] == [("InferenceX", 2026), ("somebody/else", None)]


def test_a_power_limit_is_that_of_its_column_or_else_of_the_note(tmp_path: Path) -> None:
    head = "model,gpu,engine,input_len,output_len,concurrency,tpot_ms,power_limit_w,note"
    rows = (
        "qwen3-8b,rtx-3090,vllm,100,100,1,20,,power limit 220 W of 350; PCIe 3.0 x16",
        "qwen3-8b,rtx-3090,vllm,100,100,1,20,250,power limit 220 W of 350",
        "qwen3-8b,rtx-3090,vllm,100,100,1,20,,no limit was set",
    )
    assert [run.power_limit_w for run in read(tmp_path, *rows, head=head).runs] == [220, 250, None]


def test_runs_under_another_power_limit_are_none_of_a_deployment(tmp_path: Path) -> None:
    head = "model,gpu,engine,input_len,output_len,concurrency,tpot_ms,power_limit_w"
    rows = [f"qwen3-8b,rtx-3090,vllm,100,100,1,20,{limit}" for limit in ("220", "350", "")]
    runs = read(tmp_path, *rows, head=head).runs
    deployments = Deployments(gpus=load_gpus())
    words = NamedDeployment(model="qwen3-8b", gpu="rtx-3090", engine="vllm", sharding=Sharding())
    for limit, taken in ((None, [1, 2]), (220.0, [0, 2])):
        found = runs_of(runs, deployments.find(replace(words, power_limit_w=limit)))
        assert [runs.index(run) for run in found] == taken


@pytest.mark.parametrize(
    ("concurrency", "rate", "serving", "expected"),
    [
        ("inf", "", "offline", Serving.OFFLINE),
        ("inf", "inf", "online", Serving.OFFLINE),
        ("", "4", "online", Serving.OPEN_LOAD),
        ("16", "", "fixed_batch", Serving.FIXED_BATCH),
        ("16", "", "", Serving.CLOSED_LOOP),
    ],
)
def test_how_requests_come_follows_from_the_columns(
    tmp_path: Path, concurrency: str, rate: str, serving: str, expected: Serving
) -> None:
    row = f"m,g,,,,,,vllm,,,,100,100,fixed,{concurrency},{rate},{serving},,,,500,"
    (run,) = read(tmp_path, row).runs
    assert run.serving is expected
    assert run.quality == "B"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("m,g,,x,,,,vllm,,,,100,100,,8,,,1,1,,,", "tp is 'x', which is not a number"),
        ("m,g,,2.5,,,,vllm,,,,100,100,,8,,,1,1,,,", "tp is 2.5, which is not a number of GPUs"),
        ("m,g,3,2,,,,vllm,,,,100,100,,8,,,1,1,,,", "3 GPUs are not a multiple of tp·pp·dp = 2"),
        ("m,g,8,8,,,,vllm,,,,100,100,,8,,,1,1,,,,4xMI300X", "its note names 4 GPUs and its column 8"),
        ("m,g,,,,,,vllm,,,,,100,,8,,,1,1,,,", "input_len is empty; write the mean number of tokens"),
        ("m,g,,,,,,vllm,,,,100,100,,8,,,,,,,", "nothing was measured"),
        ("m,g,,,,,,vllm,,,,100,100,,0,,,1,1,,,", "concurrency is 0; write 1 or more clients, or inf"),
        ("m,g,,,,,,vllm,,,,100,100,,8,,batch,1,1,,,", "serving is 'batch'; known are online, offline"),
        ("m,g,,,,,,vllm,,,,nan,100,,8,,,1,1,,,", "input_len is nan, which is not a quantity"),
        ("m,g,,,,,,vllm,,,,100,100,uniform 0..0,8,,,1,1,,,", "lengths is 'uniform 0..0'; write uniform LOW..HIGH"),
        ("m,g,,,,,,vllm,,,,100,100,uniform 2..1,8,,,1,1,,,", "lengths is 'uniform 2..1'; write uniform LOW..HIGH"),
    ],
)
def test_a_row_that_cannot_be_read_is_skipped_with_its_reason(tmp_path: Path, row: str, reason: str) -> None:
    found = read(tmp_path, row)
    assert found.runs == ()
    assert found.skipped[0].line == 2
    assert reason in found.skipped[0].reason


def test_compressed_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv.gz"
    path.write_bytes(gzip.compress(f"{HEAD}\nm,g,,,,,,vllm,,,,10,10,,8,,,,5,,,\n".encode()))
    assert len(read_serving(path).runs) == 1


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", b"\x1f\x8bnot gzip", b"\xff\xfe\x00bad", b""])
def test_what_is_not_such_a_file_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "runs.csv"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"runs\.csv"):
        read_serving(path)


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_serving(tmp_path / "none.csv")


@pytest.mark.parametrize("word", ["auto", "None", "unknown", "n/a"])
def test_a_format_that_another_tool_left_to_the_engine_counts_as_not_stated(tmp_path: Path, word: str) -> None:
    # vLLM's --kv-cache-dtype auto, and what pandas and others write for a missing value
    (run,) = read(tmp_path, f"qwen3-32b,h100,,2,,,,vllm,,{word},{word},1000,500,fixed,64,,online,120,8.5,,,A").runs
    assert (run.weights, run.kv) == ("", "")
