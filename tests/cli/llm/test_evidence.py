"""Measured runs brought from a server of this machine, in the form of InferenceX's dump, and from folders of results.

The tables have the columns of packages/db/migrations (001 to 017) and the keys of constants/src/metric-keys.ts in
SemiAnalysisAI/InferenceX-app; the figures are invented.
"""

import io
import json
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from capplan.app.deployments import Deployments
from capplan.app.evidence_update import fetch_evidence
from capplan.app.price_update.http import Fetcher, FetchLimits
from capplan.core.origin import Origin
from capplan.errors import CapplanError, UsageError
from capplan.llm.core.search.fitted_runs import fit_own
from capplan.llm.core.search.judged_runs import prepare
from capplan.llm.core.serving.cases import MeasuredRun, Metric, Serving, answer, metric_of
from capplan.llm.core.serving.priors import PRIOR
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.timing.constants import constants_of
from capplan.llm.read.evidence import evidence_folder, load_evidence_source, read_dump, read_own_results
from capplan.llm.read.serving_rows import Row, read_serving, rows_text
from capplan.specs import load_gpus
from tests.cli.conftest import Run
from tests.file_server import Handler, cut, server, status, text

__all__ = ["server"]
FETCHER = Fetcher(limits=FetchLimits(attempts=2), sleep=lambda _: None)


def config(number: int, **given: object) -> dict[str, object]:
    return {
        "id": number, "hardware": "h100", "framework": "vllm", "model": "gptoss120b", "precision": "fp4",
        "spec_method": "none", "disagg": False, "is_multinode": False, "prefill_tp": 4, "prefill_ep": 1,
        "prefill_dp_attention": False, "prefill_num_workers": 0, "decode_tp": 4, "decode_ep": 1,
        "decode_dp_attention": False, "decode_num_workers": 0, "num_prefill_gpu": 4, "num_decode_gpu": 4, **given,
    }  # fmt: skip


def result(number: int, config_id: int, **given: object) -> dict[str, object]:
    metrics = {"mean_ttft": 0.25, "median_ttft": 0.2, "mean_tpot": 0.0125, "output_tput_per_gpu": 640.0}
    return {
        "id": str(number), "workflow_run_id": "7", "config_id": config_id, "benchmark_type": "single_turn",
        "date": "2026-11-20T00:00:00.000Z", "isl": 1024, "osl": 1024, "conc": 32, "image": "vllm/vllm-openai:v0.18.0",
        "metrics": metrics, "error": None, "server_log_id": None, **given,
    }  # fmt: skip


CONFIGS = [
    config(1),
    config(2, hardware="mi355x", framework="sglang", model="dsr1", decode_tp=8, decode_ep=8, decode_dp_attention=True),
    config(3, hardware="b200", framework="trt", model="dsr1", precision="fp8", decode_tp=8, spec_method="mtp"),
    config(4, disagg=True),
    config(5, model="unheard-of"),
    config(6, framework="atom"),
]
RUNS: list[Row] = [
    {"id": "6", "github_run_id": "100", "run_attempt": 1, "name": "n", "created_at": "x", "date": "2026-11-20"},
    {"id": "7", "github_run_id": "100", "run_attempt": 2, "name": "n", "created_at": "x", "date": "2026-11-20"},
]
RESULTS = [
    result(1, 1, date="2026-11-13", metrics={"mean_ttft": 9.0, "mean_tpot": 9.0}),
    result(2, 1),
    result(3, 2, image="lmsysorg/sglang:v0.5.9-rocm700-mi35x", conc=64),
    result(4, 3, image="nvcr.io/nvidia/tensorrt-llm/release:1.2.0rc6.post3"),
    result(5, 4),
    result(6, 5),
    result(7, 6),
    result(8, 1, benchmark_type="agentic_traces", isl=None, osl=None),
    result(9, 1, conc=1, error="out of memory"),
    result(10, 1, conc=2, workflow_run_id="6"),
]


def tables(configs: Sequence[Row] = CONFIGS) -> dict[str, bytes]:
    """Return the files of a dump as dump-db.ts writes them: a row a line."""
    found: dict[str, Sequence[Row]] = {
        "configs": configs, "eval_samples": [{"id": 1}], "workflow_runs": RUNS, "benchmark_results": RESULTS,
    }  # fmt: skip
    return {
        f"inferencex-dump-2026-11-23/{name}.json": ("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n").encode()
        for name, rows in found.items()
    }


def packed(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:xz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def zipped(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


@pytest.fixture
def published(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Publish the parts of a dump, as a release beside an older one and beside releases of the application itself."""
    built_in = (Path(__file__).parents[3] / "gpu_specs/sources/evidence.yaml").read_text()
    address = next(line for line in built_in.splitlines() if line.startswith("url:"))
    (tmp_path / "evidence.yaml").write_text(built_in.replace(address, f"url: {server}/releases"))
    monkeypatch.setenv("CAPPLAN_EVIDENCE", str(tmp_path / "evidence.yaml"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    def publish(*parts: bytes, ending: str = "tar.xz.part{:02}") -> None:
        names = [f"inferencex-dump-2026-11-23.{ending.format(number)}" for number in range(len(parts))]
        assets = [{"name": name, "browser_download_url": f"{server}/{name}"} for name in reversed(names)]
        older = [{"name": "x.zip", "browser_download_url": f"{server}/older.zip"}]
        Handler.answers["/releases"] = text(json.dumps([
            {"tag_name": "v9.0", "assets": older},
            {"tag_name": "db-dump/2026-11-16", "assets": older},
            {"tag_name": "db-dump/2026-11-23", "assets": assets},
        ]))  # fmt: skip
        for name, part in zip(names, parts, strict=True):
            Handler.answers[f"/{name}"] = text(part)

    return publish


def fetched() -> Any:
    return fetch_evidence(load_evidence_source(), fetcher=FETCHER)


@pytest.mark.parametrize("form", ["parts", "zip"])
def test_the_newest_dump_becomes_rows_of_serving_runs(published: Any, tmp_path: Path, form: str) -> None:
    if form == "zip":
        published(zipped(tables()), ending="zip")
    else:
        whole = packed(tables())
        published(whole[:300], whole[300:700], whole[700:])
    found = fetched()
    table = tmp_path / "found.csv"
    table.write_text(rows_text(found.rows))
    read = read_serving(table)
    assert not read.skipped
    nvidia, amd, dense = sorted(read.runs, key=lambda run: run.model + run.gpu)
    assert (dense.model, dense.gpu, dense.engine, dense.version) == ("gpt-oss-120b", "h100-sxm5-80gb", "vllm", "0.18.0")
    assert (dense.sharding, dense.weights, dense.clients) == (Sharding(tensor=4), "", 32)  # fp4 is the checkpoint's own
    # 640 tokens a second and GPU on 4; the mean and not the median time; requests of 0.9 times the length in the mean
    assert dense.values == {Metric.TTFT: 0.25, Metric.TPOT: 0.0125, Metric.OUTPUT_TOKENS_PER_S: 2560.0}
    assert dense.input_len == pytest.approx(921.6)
    assert dense.year == 2026
    assert dense.publisher == "InferenceX"
    assert (nvidia.gpu, nvidia.engine, nvidia.version) == ("b200-sxm-180gb", "trtllm", "1.2.0rc6.post3")
    assert (nvidia.speculation, nvidia.weights) == ("mtp", "")
    assert (amd.gpu, amd.engine, amd.version, amd.weights) == ("mi355x", "sglang", "0.5.9", "mxfp4")
    assert amd.sharding == Sharding(expert=8, data=8)
    assert amd.replicas == 1


def test_what_is_left_out_is_counted_by_reason(published: Any) -> None:
    published(packed(tables()))
    assert fetched().left_out == {
        "prompts and answers are computed on GPUs apart": 1,
        "model 'unheard-of' is not known": 1,
        "engine 'atom' is not known": 1,
        "replays traces of agents, whose lengths the table does not state": 1,
    }


def test_parts_behind_the_last_table_are_not_fetched(published: Any) -> None:
    files = tables()
    big = {"inferencex-dump-2026-11-23/server_logs.json": Random(1).randbytes(300_000)}
    whole = packed({**files, **big})
    published(whole[:-100_000], whole[-100_000:])
    Handler.answers["/inferencex-dump-2026-11-23.tar.xz.part01"] = status(404)
    assert len(fetched().rows) == 3


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (lambda: Handler.answers.update({"/releases": status(500)}), "the server answered 500"),
        (lambda: Handler.answers.update({"/releases": status(403)}), "the server answered 403"),
        (lambda: Handler.answers.update({"/releases": text("[]")}), "holds no dump with the tag db-dump/"),
        (lambda: Handler.answers.update({"/releases": text('{"message": 1}')}), "what it gave before is kept"),
        (
            lambda: Handler.answers.update({"/inferencex-dump-2026-11-23.tar.xz.part00": cut(packed(tables()))}),
            "broke off",
        ),
        (
            lambda: Handler.answers.update({"/inferencex-dump-2026-11-23.tar.xz.part00": text(packed(tables())[:400])}),
            "what it gave before is kept",
        ),
        (
            lambda: Handler.answers.update(
                {"/inferencex-dump-2026-11-23.tar.xz.part00": text(packed(tables(configs=[{"id": 1}])))}
            ),
            "its tables are not those of InferenceX's database",
        ),
        (
            lambda: Handler.answers.update(
                {"/inferencex-dump-2026-11-23.tar.xz.part00": text(packed({"a/configs.json": b"[[[\n"}))}
            ),
            "configs does not hold a row a line",
        ),
    ],
)
def test_a_fault_is_a_sentence_and_leaves_the_old_evidence(published: Any, fault: Any, sentence: str) -> None:
    published(packed(tables()))
    evidence_folder().mkdir(parents=True)
    kept = evidence_folder() / "inferencex.csv"
    kept.write_text("what it gave before\n")
    fault()
    with pytest.raises(UsageError, match=sentence):
        fetched()
    assert kept.read_text() == "what it gave before\n"


def test_the_command_keeps_evidence_that_validate_finds(published: Any, run: Run) -> None:
    published(packed(tables()))
    checked = run("llm", "evidence", "update", "--check")
    assert (checked.exit_code, checked.stdout) == (
        0, "db-dump/2026-11-23: 3 runs, 1 of them with drafted tokens; nothing is written\n",
    )  # fmt: skip
    assert "left out 1: engine 'atom' is not known" in checked.stderr
    refused = run("llm", "validate", "--evidence")
    assert refused.exit_code == 2
    assert "holds no evidence; `capplan llm evidence update` brings it" in refused.stderr
    assert run("llm", "evidence", "update").exit_code == 0
    judged = json.loads(run("llm", "validate", "--evidence", "--json").stdout)
    assert {cell["version"] for cell in judged["cells"]} == {"0.18.0", "0.5.9"}
    [skipped] = judged["skipped"]
    assert skipped["reason"].startswith("tokens are drafted (mtp), and nobody states how many of them are accepted")


def test_a_folder_of_own_results_takes_the_names_that_it_is_asked_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = tmp_path / "lab"
    (folder / "deep").mkdir(parents=True)
    served = {
        "completed": 10, "max_concurrency": 8, "total_input_tokens": 5120, "total_output_tokens": 1280,
        "mean_ttft_ms": 50.0, "mean_tpot_ms": 10.0, "output_throughput": 700.0,
    }  # fmt: skip
    (folder / "vllm.json").write_text(json.dumps(served))
    (folder / "deep" / "sglang.jsonl").write_text(json.dumps({**served, "max_concurrency": 16}) + "\n")
    means = {"prompt_token_count": 54.0, "output_token_count": 128.0, "request_concurrency": 4.0,
             "time_to_first_token_ms": 40.0, "inter_token_latency_ms": 9.0}  # fmt: skip
    metrics = {name: {"successful": {"mean": mean}} for name, mean in means.items()}
    (folder / "guidellm.json").write_text(json.dumps({"benchmarks": [{"metrics": metrics}]}))
    (folder / "llama.json").write_text(json.dumps([{"n_prompt": 0, "n_gen": 128, "avg_ts": 50.0}]))
    (folder / "genai.csv").write_text(
        "Metric,avg,min\nRequest Latency (ms),2000,1\nInput Sequence Length,512,1\nOutput Sequence Length,128,1\n"
        "Time To First Token (ms),60,1\nInter Token Latency (ms),12,1\n\nMetric,Value\nRequest Throughput (per sec),2\n"
    )
    (folder / "notes.json").write_text('{"who": "the lab"}')
    asked = ("llm", "evidence", "update", str(folder), "--engine", "vllm", "--engine-version", "0.19", "--tp", "2")
    refused = run(*asked)
    assert refused.exit_code == 2
    assert "name them with --model and --gpu" in refused.stderr
    done = run(*asked, "--model", "llama-3.1-8b-instruct", "--gpu", "l40s")
    assert done.exit_code == 0
    assert done.stdout.startswith("lab: 5 runs")
    assert "left out 1: a file lacks" in done.stderr
    assert run("llm", "validate", "--evidence").exit_code == 0
    runs = read_serving(tmp_path / "data" / "capplan" / "evidence" / "lab.csv").runs
    assert {(item.model, item.gpu, item.engine, item.version, item.sharding.tensor) for item in runs} == {
        ("llama-3.1-8b-instruct", "l40s", "vllm", "0.19", 2)
    }
    assert sorted(item.clients or 0 for item in runs) == [1, 4, 4, 8, 16]


GPUS = ("h100-sxm5-80gb", "a100-sxm4-80gb", "l40s")
FIND = Deployments(gpus=load_gpus(), assumes_narrow_cache=True).find
ORIGIN = Origin(made=date(2026, 11, 27), command="test", sources=("own.csv",), rows=0)


def own_runs(slower: Mapping[str, float], versions: tuple[str, ...] = ("0.18", "0.19")) -> list[MeasuredRun]:
    """Return runs of an engine whose host takes a factor of a GPU longer over steps and layers than the prior says."""
    found = []
    for gpu, version, clients in product(GPUS, versions, (1, 4, 16, 64)):
        run = MeasuredRun(
            model="llama-3.1-8b-instruct", gpu=gpu, engine="vllm", version=version, weights="", kv="",
            sharding=Sharding(), replicas=1, input_len=512, output_len=128, spread=0.0, serving=Serving.CLOSED_LOOP,
            clients=clients, rate_per_s=None, values={}, quality="B", file="own.csv", line=clients,
        )  # fmt: skip
        case, vllm = prepare(run, FIND).case, PRIOR.engines["vllm"]
        hosted = replace(vllm, layer_s=vllm.layer_s * slower[gpu], step_s=vllm.step_s * slower[gpu])
        true = constants_of(replace(PRIOR, engines={**PRIOR.engines, "vllm": hosted}))
        found.append(replace(run, values={Metric.TPOT: metric_of(answer(case, true), Metric.TPOT)}))
    return found


def test_own_constants_are_taken_where_all_gpus_agree_and_move_one_engine_alone() -> None:
    found = fit_own(own_runs(dict.fromkeys(GPUS, 4.0)), find=FIND, shipped=PRIOR, origin=ORIGIN)
    [judged] = found.judged
    assert judged.is_better
    assert set(judged.own) == {"gpu", "version"}
    assert found.calibration.kernels == PRIOR.kernels
    assert found.calibration.engines["sglang"] == PRIOR.engines["sglang"]
    own, shipped = found.calibration.engines["vllm"], PRIOR.engines["vllm"]
    assert (own.layer_s > shipped.layer_s, own.step_s > shipped.step_s) == (True, True)


def test_own_constants_that_help_no_unseen_gpu_are_refused() -> None:
    apart = own_runs(dict(zip(GPUS, (4.0, 1.0, 0.25), strict=True)))
    with pytest.raises(UsageError, match=r"keep the shipped constants: vllm: median error .* not taken"):
        fit_own(apart, find=FIND, shipped=PRIOR, origin=ORIGIN)


def test_runs_of_one_gpu_and_one_version_judge_nothing() -> None:
    alone = [run for run in own_runs(dict.fromkeys(GPUS, 4.0), ("0.18",)) if run.gpu == "l40s"] * 6
    with pytest.raises(UsageError, match="of one GPU and one version, so that none can be left out"):
        fit_own(alone, find=FIND, shipped=PRIOR, origin=ORIGIN)


def test_a_dump_of_a_folder_and_an_unknown_archive(tmp_path: Path) -> None:
    for name, content in tables().items():
        (tmp_path / Path(name).name).write_bytes(content)
    assert len(read_dump(tmp_path, load_evidence_source()).rows) == 3
    (tmp_path / "bad.zip").write_bytes(b"PK")
    (tmp_path / "bad.tar.xz").write_bytes(b"\xfd7zXZ\x00")
    for name in ("bad.zip", "bad.tar.xz", "nowhere.zip"):
        with pytest.raises(CapplanError, match=name):
            read_dump(tmp_path / name, load_evidence_source())
    with pytest.raises(UsageError, match=r"holds no result of a benchmark"):
        read_own_results(tmp_path / "bad.zip", lambda run: run)
