"""`capplan llm estimate`, `validate` and `fit` as a user meets them, with a calibration of the test's own."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest

from capplan.llm.core.serving.priors import PRIOR
from capplan.llm.core.timing.calibration import WIDTH_NAMES, Width, factor_name
from capplan.llm.read.calibrations import dump_time_calibration
from tests.cli.conftest import Run

HEAD = (
    "model,gpu,tp,engine,input_len,output_len,concurrency,serving,ttft_ms,tpot_ms,output_tokens_per_s,quality,lengths"
)
LONGEST = f"{1024 / 0.9},{256 / 0.9}"
"""Lengths of which a draw from 0.8 to 1 times has the means that `llm estimate` takes by default."""
LLAMA = ("llama-3.1-8b-instruct", "--gpu", "h100-sxm5-80gb")


@pytest.fixture
def calibration(tmp_path: Path) -> Path:
    """A calibration of the prior's constants, so that no refit changes these tests."""
    width = Width(same=1.2, model=1.3, format=1.3, gpu=1.35, architecture=1.4, vendor=1.5, engine=2.0)
    own = replace(
        PRIOR,
        widths=dict.fromkeys(WIDTH_NAMES, width),
        measured_gpus=frozenset({"h100-sxm5-80gb | vllm"}),
        measured_pairs=frozenset({"llama-3.1-8b-instruct | vllm"}),
        measured_engines=frozenset({"vllm"}),
        measured_vendors=frozenset({"NVIDIA | vllm"}),
        measured_segments=frozenset({"data-centre"}),
        kernel_factors={factor_name("vllm", "Hopper", kernel): 1.0 for kernel in PRIOR.kernels},
    )
    path = tmp_path / "own.yaml"
    path.write_text(dump_time_calibration(own))
    return path


def points(run: Run, *words: object) -> list[dict[str, object]]:
    result = run("llm", "estimate", *words, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)["points"]


def test_the_document_holds_what_the_contract_names(run: Run, calibration: Path) -> None:
    found = points(run, *LLAMA, "--concurrency", "1..4", "--calibration", calibration)
    assert [point["concurrency"] for point in found] == [1, 2, 4]
    for point in found:
        for name in ("ttft_s", "tpot_s", "output_tokens_per_s"):
            interval = point[name]
            assert isinstance(interval, dict)
            assert 0 < interval["low"] < interval["expected"] < interval["high"]
        assert point["evidence"] == "model and GPU measured in other settings"


def test_a_gpu_that_was_not_measured_gets_a_wider_interval(run: Run, calibration: Path) -> None:
    widths = {}
    for gpu in ("h100-sxm5-80gb", "h200-sxm-141gb", "l40s", "rtx-4090", "mi300x", "gaudi-3"):
        (point,) = points(run, LLAMA[0], "--gpu", gpu, "-c", 1, "--calibration", calibration)
        interval = point["tpot_s"]
        assert isinstance(interval, dict)
        widths[gpu] = interval["high"] / interval["low"]
    # another GPU of the generation, another generation or market, another vendor
    assert widths["h100-sxm5-80gb"] < widths["h200-sxm-141gb"] < widths["l40s"] < widths["mi300x"]
    assert widths["l40s"] == pytest.approx(widths["rtx-4090"])
    assert widths["mi300x"] == pytest.approx(widths["gaudi-3"])


def test_a_measured_run_moves_tpot_towards_it_and_narrows_the_interval(
    run: Run, calibration: Path, tmp_path: Path
) -> None:
    words = (LLAMA[0], "--gpu", "l40s", "-c", 8, "--calibration", calibration)
    (before,) = points(run, *words)
    measured = 1.3 * before["tpot_s"]["expected"]  # type: ignore[index]
    path = tmp_path / "result.json"
    result = {
        "completed": 80, "total_input_tokens": 80 * 1024, "total_output_tokens": 80 * 256, "max_concurrency": 8,
        "mean_tpot_ms": 1000 * measured,
    }  # fmt: skip
    path.write_text(json.dumps(result))
    (after,) = points(run, *words, "--measured", path)
    old, new = before["tpot_s"], after["tpot_s"]
    assert isinstance(old, dict)
    assert isinstance(new, dict)
    assert old["expected"] < new["expected"] <= measured
    assert new["high"] / new["low"] < old["high"] / old["low"]
    assert after["evidence"] == "calibrated with a measured run of this deployment"


def test_runs_of_another_deployment_are_refused(run: Run, calibration: Path, tmp_path: Path) -> None:
    path = tmp_path / "serving.csv"
    path.write_text(f"{HEAD}\nllama-3.1-8b-instruct,l40s,1,vllm,1024,256,8,online,,20,,A\n")
    result = run("llm", "estimate", *LLAMA, "-c", 8, "--measured", path, "--calibration", calibration)
    assert result.exit_code == 2
    assert "holds no run of llama-3.1-8b-instruct on 1 × h100-sxm5-80gb" in result.stderr
    assert points(run, LLAMA[0], "--gpu", "l40s", "-c", 8, "--measured", path, "--calibration", calibration)


def test_a_measured_run_that_is_too_large_to_step_through_is_refused(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    document = {"completed": 100, "total_output_tokens": 25_600, "mean_tpot_ms": 30, "max_concurrency": 10}
    path.write_text(json.dumps({**document, "total_input_tokens": 10**12}))
    result = run("llm", "estimate", *LLAMA, "-c", 8, "--measured", path)
    assert result.exit_code == 2
    assert "10000000256 tokens a request are more than 2000000" in result.stderr


def test_more_clients_give_more_tokens_and_wait_longer_for_each(run: Run, calibration: Path) -> None:
    found = points(run, *LLAMA, "--concurrency", "1..64", "--calibration", calibration)
    tokens = [point["output_tokens_per_s"]["expected"] for point in found]  # type: ignore[index]
    tpot = [point["tpot_s"]["expected"] for point in found]  # type: ignore[index]
    assert tokens == sorted(tokens)
    assert tpot == sorted(tpot)


def test_explain_plot_and_csv(run: Run, calibration: Path, tmp_path: Path) -> None:
    plot = tmp_path / "curve.svg"
    result = run("llm", "estimate", *LLAMA, "-c", "1,8", "--explain", "--plot", plot, "--calibration", calibration)
    assert result.exit_code == 0, result.stderr
    assert "One decode step of 8 sequences" in result.stdout
    assert "decode attention" in result.stdout
    assert plot.read_text().startswith("<svg")
    sheet = run("llm", "estimate", *LLAMA, "-c", "1,8", "--format", "csv", "--calibration", calibration).stdout
    assert len(sheet.strip().splitlines()) == 3


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("no-such-model", "--gpu", "h100-sxm5-80gb"), "unknown language model 'no-such-model'"),
        ((LLAMA[0], "--gpu", "h101"), "unknown GPU 'h101'"),
        ((*LLAMA, "--tp", 3), "--tp 3 is not possible"),
        ((*LLAMA, "--engine", "vlm"), "unknown engine 'vlm'"),
        ((*LLAMA, "--engine", "tgi"), "Known: vllm, sglang, trtllm, llama.cpp."),
        ((*LLAMA, "--engine", "trtllm", "--weights", "q4_k_m"), "trtllm reads no GGUF format such as q4_k_m"),
        ((*LLAMA, "--weights", "fp5"), "unknown weight format 'fp5'"),
        ((*LLAMA, "--kv", "fp5"), "unknown KV cache format 'fp5'"),
        ((*LLAMA, "--input-len", 200_000), "at most 131072 tokens"),
        ((*LLAMA, "-c", "8..4"), "--concurrency 8..4"),
        ((*LLAMA, "-c", "many"), "--concurrency many"),
        ((*LLAMA, "--link", "fast"), "--link"),
        ((*LLAMA, "--measured", "none.json"), "none.json"),
        # 70.6 billion weights of 2 bytes are 131 GiB; 90 % of 79 GiB hold 71 of them on one GPU, 143 on two
        (("llama-3.1-70b-instruct", "--gpu", "h100-sxm5-80gb"), "h100-sxm5-80gb; use --tp 2 (which holds it)"),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(
    run: Run, calibration: Path, words: tuple[object, ...], sentence: str
) -> None:
    result = run("llm", "estimate", *words, "--calibration", calibration)
    assert result.exit_code in (1, 2)
    assert result.stdout == ""
    assert sentence in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_validate_judges_rows_and_lists_those_it_cannot_predict(run: Run, calibration: Path, tmp_path: Path) -> None:
    # a measured closed loop counts its first burst
    (point,) = points(run, *LLAMA, "-c", 8, "--first-burst", "--calibration", calibration)
    exact = 1000 * point["tpot_s"]["expected"]  # type: ignore[index]
    rows = [
        f"llama-3.1-8b-instruct,h100-sxm5-80gb,1,vllm,{LONGEST},8,online,,{exact},,A,uniform 0.8..1",
        f"llama-3.1-8b-instruct,h100-sxm5-80gb,1,vllm,{LONGEST},8,online,,{exact / 2},,C,uniform 0.8..1",
        "unknown-model,h100-sxm5-80gb,1,vllm,1024,256,8,online,,10,,A",
        "llama-3.1-8b-instruct,unknown-gpu,1,vllm,1024,256,8,online,,10,,A",
        "llama-3.1-8b-instruct,h100-sxm5-80gb,1,unknown-engine,1024,256,8,online,,10,,A",
        "llama-3.1-8b-instruct,h100-sxm5-80gb,3,vllm,1024,256,8,online,,10,,A",
        "llama-3.1-8b-instruct,h100-sxm5-80gb,x,vllm,1024,256,8,online,,10,,A",
        "llama-3.1-8b-instruct,h100-sxm5-80gb,1,vllm,1024,256,1e9,online,,10,,A",
        "llama-3.1-8b-instruct,h100-sxm5-80gb,1,vllm,1e12,256,8,online,,10,,A",
    ]
    path = tmp_path / "serving.csv"
    path.write_text("\n".join([HEAD, *rows]) + "\n")
    result = run("llm", "validate", path, "--by", "gpu,engine,model", "--json", "--calibration", calibration)
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    (cell,) = document["cells"]
    assert (cell["gpu"], cell["engine"], cell["model"]) == ("h100-sxm5-80gb", "vllm", "llama-3.1-8b-instruct")
    assert (cell["metric"], cell["n"]) == ("tpot", 1)
    assert cell["mdape"] == pytest.approx(0.0, abs=1e-6)
    assert set(cell) >= {"p90", "bias", "coverage", "width", "spearman"}
    assert document["overall"]["tpot"]["coverage"] == 1.0
    assert document["overall"]["ttft"] is None
    assert {row["line"] for row in document["skipped"]} == {4, 5, 6, 7, 8, 9, 10}
    reasons = {row["line"]: row["reason"] for row in document["skipped"]}
    assert "clients are more than" in reasons[9]
    assert "tokens a request are more than" in reasons[10]
    with_c = json.loads(run("llm", "validate", path, "--quality", "ABC", "--json", "--calibration", calibration).stdout)
    assert with_c["overall"]["tpot"]["n"] == 2


def test_validate_names_an_engine_once_however_rows_spell_it(run: Run, calibration: Path, tmp_path: Path) -> None:
    path = tmp_path / "serving.csv"
    rows = [
        f"llama-3.1-8b-instruct,h100-sxm5-80gb,1,{engine},1024,256,8,online,,10,,A"
        for engine in ("trtllm", "TensorRT-LLM", "tensorrt_llm")
    ]
    path.write_text("\n".join([HEAD, *rows]) + "\n")
    result = run("llm", "validate", path, "--by", "engine", "--json", "--calibration", calibration)
    (cell,) = json.loads(result.stdout)["cells"]
    assert (cell["engine"], cell["n"]) == ("trtllm", 3)


def test_validate_without_a_row_that_can_be_predicted_is_an_error(run: Run, calibration: Path, tmp_path: Path) -> None:
    path = tmp_path / "serving.csv"
    path.write_text(f"{HEAD}\nunknown,unknown,1,vllm,1,1,1,online,,1,,A\n")
    result = run("llm", "validate", path, "--calibration", calibration)
    assert result.exit_code == 2
    assert "no row could be predicted" in result.stderr


@pytest.mark.slow
def test_fit_learns_an_engines_overhead_from_runs(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # runs that take 30 % longer than the prior says: the fit must move towards them
    width = Width(same=1.2, model=1.3, format=1.3, gpu=1.35, architecture=1.4, vendor=1.5, engine=2.0)
    prior = tmp_path / "llm-time.yaml"
    monkeypatch.setenv("CAPPLAN_CALIBRATIONS", str(tmp_path))  # whose interval widths the fit keeps
    prior.write_text(dump_time_calibration(replace(PRIOR, widths=dict.fromkeys(WIDTH_NAMES, width))))
    rows = []
    deployments = [
        (model, gpu) for model in ("llama-3.1-8b-instruct", "mistral-7b") for gpu in ("h100-sxm5-80gb", "l40s")
    ]
    for (model, gpu), output_len in itertools.product(deployments, (128, 256, 512)):
        words = (model, "--gpu", gpu, "-c", "1..64", "--output-len", output_len, "--calibration", prior)
        for point in points(run, *words):
            slower = 1300 * point["tpot_s"]["expected"]  # type: ignore[index]
            rows.append(
                f"{model},{gpu},1,vllm,{1024 / 0.9},{output_len / 0.9},{point['concurrency']},"
                f"online,,{slower},,A,uniform 0.8..1"
            )
    path, fitted = tmp_path / "runs.csv", tmp_path / "fitted.yaml"
    path.write_text("\n".join([HEAD, *rows]) + "\n")
    assert run("llm", "fit", path, "-o", fitted).exit_code == 0
    errors = []
    for chosen in (prior, fitted):
        result = run("llm", "validate", path, "--json", "--calibration", chosen)
        errors.append(json.loads(result.stdout)["overall"]["tpot"]["mdape"])
    assert errors[0] == pytest.approx(0.3 / 1.3, rel=0.01)
    assert errors[1] < 0.1  # the overhead is the engine's: runs of several deployments show it


def test_a_fit_to_a_handful_of_runs_is_refused(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(f"{HEAD}\nllama-3.1-8b-instruct,h100-sxm5-80gb,1,vllm,1024,256,8,online,,10,,A\n")
    result = run("llm", "fit", path)
    assert result.exit_code == 2
    assert "at least 20" in result.stderr


def test_power_and_energy_are_shown_where_asked_and_nowhere_else(run: Run, calibration: Path) -> None:
    asked = (*LLAMA, "-c", "8,64", "--calibration", calibration)
    plain, found = points(run, *asked), points(run, *asked, "--energy")
    added = {"power_w", "joules_per_output_token", "power_evidence"}
    assert [{name: value for name, value in point.items() if name not in added} for point in found] == plain
    for point in found:
        power, energy, rate = (point[name] for name in ("power_w", "joules_per_output_token", "output_tokens_per_s"))
        assert energy["expected"] == pytest.approx(power["expected"] / rate["expected"])
        assert energy["low"] < energy["expected"] < energy["high"]
        assert power["high"] <= 700  # the H100 SXM's limit
        assert point["power_evidence"] == "architecture measured"
    one, many = found
    assert many["power_w"]["expected"] > one["power_w"]["expected"]
    assert many["joules_per_output_token"]["expected"] < one["joules_per_output_token"]["expected"]


def test_prompts_that_the_cache_holds_take_no_energy(run: Run) -> None:
    asked = ("llama-3.1-8b-instruct", "--gpu", "l40s", "--prefix-hits", "0.9", "--energy", "-c", "32", "--json")
    estimate = json.loads(run("llm", "estimate", *asked).stdout)
    simulated = json.loads(run("llm", "simulate", *asked, "--spread", "0.11", "--requests", "300").stdout)["loads"][0]
    # the simulation admits each prompt with what of it is cached, one by one
    joules = estimate["points"][0]["joules_per_output_token"]["expected"]
    assert joules == pytest.approx(simulated["joules_per_output_token"]["expected"], rel=0.05)
    assert any("90% of each prompt in the prefix cache" in note for note in estimate["notes"])


def test_a_csv_and_a_table_of_energy_have_its_columns(run: Run, calibration: Path) -> None:
    asked = ("llm", "estimate", *LLAMA, "-c", "8", "--calibration", calibration)
    plain, found = (run(*asked, "--format", "csv", *more).stdout.splitlines() for more in ((), ("--energy",)))
    assert found[0].startswith(plain[0] + ",power_w_low,power_w_expected,power_w_high,joules_per_output_token_low,")
    assert found[1].startswith(plain[1] + ",")
    shown = run(*asked, "--energy").stdout
    assert "Power of all GPUs, without the host" in shown
    assert "per output token" not in run(*asked).stdout


@pytest.mark.parametrize(
    ("words", "engine"),
    [
        ((), "vllm"),
        (("--weights", "Q4_K_M"), "llama.cpp"),
        (("--n-cpu-moe", 1), "llama.cpp"),
        (("--weights", "q4_k_m", "--engine", "vllm"), "vllm"),
    ],
)
def test_gguf_formats_and_layers_in_host_memory_are_served_by_llama_cpp(
    run: Run, words: tuple[object, ...], engine: str
) -> None:
    result = run("llm", "memory", "gpt-oss-20b", "--gpu", "l40s", "--json", *words)
    assert json.loads(result.stdout)["engine"] == engine


@pytest.mark.parametrize(
    "words",
    [
        ("estimate", *LLAMA, "-c", "1,8"),
        ("memory", *LLAMA, "--adapters", 20),
        ("models", "--where", "moe = yes and params < 40B"),
        ("simulate", *LLAMA, "--rate", 1, "--requests", 100),
    ],
)
def test_an_answer_in_a_pipe_is_one_screen(run: Run, words: tuple[object, ...]) -> None:
    lines = run("llm", *words).stdout.splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 100


def test_a_search_of_gguf_formats_alone_tries_llama_cpp(run: Run) -> None:
    words = ("llm", "plan", LLAMA[0], "--gpu", "l4", "--rate", 1, "--json")
    assert {fit["engine"] for fit in json.loads(run(*words, "--weights", "q4_k_m").stdout)["fits"]} == {"llama.cpp"}
