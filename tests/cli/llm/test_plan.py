"""`capplan llm plan` and `capplan llm simulate` as a user calls them."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

PLAN = ("llm", "plan", "qwen3-8b", "--gpu", "l40s", "--gpu", "h100-sxm5-80gb", "--tp", "1", "--engine", "vllm")
ONE_GPU = ("llm", "plan", "qwen3-8b", "--gpu", "h100-sxm5-80gb", "--tp", "1", "--engine", "vllm")
SIMULATE = ("llm", "simulate", "qwen3-8b", "--gpu", "h100-sxm5-80gb", "--requests", "200")


def test_a_plan_sizes_replicas_so_that_each_stays_below_its_highest_rate(run: Run) -> None:
    found = json.loads(run(*PLAN, "--rate", "30", "--max-tpot", "40ms", "--json").stdout)
    assert found["fits"]
    for fit in found["fits"]:
        assert 30 / fit["replicas_needed"] <= fit["max_rate_per_s_per_replica"] * (1 + 1e-9)
        assert fit["replicas_needed"] == 1 or 30 / (fit["replicas_needed"] - 1) > fit["max_rate_per_s_per_replica"]
        assert fit["tpot_s"]["expected"] <= 0.040
        assert fit["gpus"] == fit["replicas"] * fit["tp"]
        if fit["rent"]:
            held = fit["machines"] * fit["rent"]["machine_gpus"]
            assert held >= fit["gpus"]
            hourly = held * fit["rent"]["usd_per_hour"]
            # 30 requests of 256 tokens are 27.648 million tokens an hour.
            assert fit["usd_per_million_output_tokens"] == pytest.approx(hourly / 27.648, rel=1e-9)


def test_a_job_is_done_in_time_and_costs_what_its_hours_cost(run: Run) -> None:
    job = ("--prompts", "400000", "--within", "4h")
    found = json.loads(run(*PLAN, *job, "--json").stdout)
    costs = []
    for fit in found["fits"]:
        # 400,000 requests at the highest rate of all replicas, at most 14,400 s
        assert fit["job_s"] == pytest.approx(400_000 / fit["max_rate_per_s"])
        assert fit["job_s"] <= 14_400
        assert fit["replicas"] == 1 or 400_000 / (fit["max_rate_per_s"] * (1 - 1 / fit["replicas"])) > 14_400
        if fit["job_usd"] is not None:
            assert fit["job_usd"] == pytest.approx(fit["usd_per_hour"] * fit["job_s"] / 3600)
            costs.append(fit["job_usd"])
    assert costs == sorted(costs)
    assert costs
    assert "Job      400,000 requests in" in run(*PLAN, *job).stdout


def test_a_job_takes_at_least_as_long_as_one_of_its_answers(run: Run) -> None:
    """An L4 reads the 16 GB of weights for each of 256 tokens: 256 × 16.06 GB ÷ 300 GB/s are 13.7 s."""
    words = (
        "llm",
        "plan",
        "llama-3.1-8b-instruct",
        "--gpu",
        "l4",
        "--tp",
        "1",
        "--pp",
        "1",
        "--prompts",
        "5",
        "--json",
    )
    found = json.loads(run(*words, "--within", "25s").stdout)
    assert found["fits"]
    assert all(13.7 < fit["job_s"] == fit["e2e_s"]["expected"] <= 25 for fit in found["fits"])
    found = json.loads(run(*words, "--within", "10s").stdout)
    assert not found["fits"]
    assert "nothing searched keeps --within" in found["advice"]


def test_the_most_sequences_that_are_asked_hold_where_prompts_have_replicas_of_their_own(run: Run) -> None:
    found = json.loads(run(*ONE_GPU, "--rate", "10", "--max-seqs", "4", "--json").stdout)
    assert found["disaggregated"]
    assert all(pair["decode"]["running"] <= 4 for pair in found["disaggregated"])


def test_experts_of_a_plan_may_be_left_to_the_host(run: Run) -> None:
    words = ("llm", "plan", "qwen3-30b-a3b", "--gpu", "rtx-4090", "--weights", "q4_k_m", "-c", "1")
    found = run(*words, "--n-cpu-moe", "20", "--launch").stdout
    assert "experts of 20 layers on the host" in found
    assert "llama-server -m Qwen/Qwen3-30B-A3B -ngl 999 --n-cpu-moe 20 -np" in found
    refused = run(*words, "--n-cpu-moe", "20", "--engine", "vllm")
    assert refused.exit_code == 2
    assert "--engine vllm keeps all layers on the GPU" in refused.stderr


def test_formats_may_be_parted_by_commas(run: Run) -> None:
    found = json.loads(run(*ONE_GPU, "--rate", "5", "--weights", "fp8,awq", "--json").stdout)
    assert {fit["weights"] for fit in found["fits"]} == {"fp8", "awq"}


def test_redundancy_adds_replicas(run: Run) -> None:
    plain, spare = (
        json.loads(run(*PLAN, "--rate", "30", "--redundancy", count, "--json").stdout)["fits"] for count in ("0", "1")
    )
    by_gpu = {fit["gpu"]: fit["replicas"] for fit in plain}
    assert {fit["gpu"]: fit["replicas"] - 1 for fit in spare} == by_gpu


def test_limits_that_nothing_meets_are_answered_with_reasons_and_exit_1(run: Run) -> None:
    result = run(*PLAN, "--rate", "1", "--max-tpot", "1us", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["recommended"] is None
    assert {each["gpu"] for each in found["rejections"]} == {"l40s", "h100-sxm5-80gb"}
    assert all("exceeds the limit" in each["reason"] for each in found["rejections"])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((*PLAN, "--rate", "0"), "--rate must be at least 1e-9 requests per second"),
        ((*PLAN, "--prompts", "10"), "a job needs both --prompts and --within"),
        ((*PLAN, "--prompts", "10", "--within", "1h", "-c", "4"), "leave out --rate and --concurrency"),
        ((*PLAN, "--rate", "1", "--weights", "fp9"), "unknown weight format 'fp9'"),
        ((*PLAN, "--rate", "1", "--weights", "sparse24"), "2:4 sparsity is not modelled"),
        ((*PLAN, "--rate", "1", "--engine", "vlm"), "vlm"),
        ((*PLAN, "--rate", "1", "--max-ttft", "0s"), "write a time above 0"),
        ((*PLAN[:3], "--gpu", "l41", "--rate", "1"), "l41"),
        ((*SIMULATE, "--rate", "0"), "above 0"),
        ((*SIMULATE, "--rate", "8..1"), "write 2, 0.5,1,2 or 1..16"),
    ],
)
def test_bad_words_get_one_sentence(run: Run, words: tuple[str, ...], sentence: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_simulation_answers_each_rate_with_ordered_percentiles(run: Run) -> None:
    found = json.loads(run(*SIMULATE, "--rate", "1..4", "--max-ttft", "1s", "--json").stdout)
    assert len(found["loads"]) == 3
    for load in found["loads"]:
        for name in ("ttft_s", "tpot_s", "e2e_s"):
            assert load[name]["p50"] <= load[name]["p90"] <= load[name]["p99"]
        assert 0 <= load["goodput_fraction"] <= 1


def test_requests_of_a_file_keep_their_own_times(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "requests.csv"
    path.write_text("arrival_s,input_len,output_len\n" + "".join(f"{10 * i},100,5\n" for i in range(30)))
    found = json.loads(run(*SIMULATE, "--rate", "1", "--lengths", path, "--json").stdout)
    (load,) = found["loads"]
    assert load["requests"] == 30
    assert load["rate_per_s"] == pytest.approx(30 / 290)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ("arrival_s,input_len,output_len\n5,1,1\n4,1,1\n", "line 3: arrives at 4 s, before the line above"),
        ("input_len,output_len\n-1,1\n", "line 2: input_len must be a number of at least 1"),
        ("input_len,output_len\nnan,1\n", "line 2: input_len must be a number of at least 1"),
        ("input_len\n1\n", "lacks the column output_len"),
        ("input_len,output_len\n", "holds 0 requests"),
    ],
)
def test_a_bad_file_of_requests_is_refused(run: Run, tmp_path: Path, rows: str, sentence: str) -> None:
    path = tmp_path / "requests.csv"
    path.write_text(rows)
    result = run(*SIMULATE, "--rate", "1", "--lengths", path)
    assert result.exit_code == 2
    assert sentence in result.stderr


def test_clients_are_planned_so_that_all_are_served_at_once(run: Run) -> None:
    found = json.loads(run(*PLAN, "--concurrency", "64", "--max-tpot", "40ms", "--engine", "vllm", "--json").stdout)
    assert found["load"]["concurrency"] == 64
    for fit in found["fits"]:
        assert 64 / fit["replicas"] <= fit["memory"]["sequences_that_fit"]
        assert fit["tpot_s"]["expected"] <= 0.040
        assert fit["output_tokens_per_s"] == pytest.approx(fit["rate_per_s"] * 256)


def test_a_percentile_needs_at_least_the_replicas_of_the_mean(run: Run) -> None:
    words = (*PLAN, "--rate", "60", "--max-ttft", "400ms", "--max-tpot", "30ms", "--json")
    mean, tail = (
        {fit["gpu"]: fit for fit in json.loads(run(*words, "--percentile", each).stdout)["fits"]}
        for each in ("mean", "99")
    )
    assert tail
    for gpu, fit in tail.items():
        assert fit["replicas"] >= mean[gpu]["replicas"]
        assert fit["ttft_s"]["p99"] <= 0.4
        assert fit["tpot_s"]["p99"] <= 0.03


ENGINES = ("vllm", "trtllm", "sglang")


def test_each_rejected_deployment_names_what_would_rescue_it(run: Run) -> None:
    words = ("llm", "plan", "llama-3.1-70b-instruct", "--gpu", "h100-sxm5-80gb", "--weights", "bf16", "--rate", "1")
    found = json.loads(run(*words, "--json").stdout)
    memory = [each for each in found["rejections"] if each["obstacle"] == "memory"]
    # 131.42 GiB of weights do not fit on one GPU of 80 GiB; two hold them, but not beside the 14,040 MiB that SGLang
    # reserves on each by default (arg_groups/memory_hook.py of 0.5.20)
    by_engine = {
        engine: {(each["tp"], each["pp"]) for each in memory if each["engine"] == engine} for engine in ENGINES
    }
    assert by_engine == {"vllm": {(1, 1)}, "trtllm": {(1, 1)}, "sglang": {(1, 1), (2, 1), (1, 2)}}
    assert all("GiB per GPU are missing" in each["reason"] for each in memory)
    assert all(f"--tp {4 if each['engine'] == 'sglang' else 2}" in each["rescue"] for each in memory)


def test_more_prefix_hits_never_need_more_replicas(run: Run) -> None:
    replicas = [
        [fit["replicas_needed"] for fit in sorted(found["fits"], key=lambda fit: fit["gpu"])]
        for hits in ("0", "0.5", "0.9")
        for found in [json.loads(run(*PLAN, "--rate", "60", "--prefix-hits", hits, "--json").stdout)]
    ]
    assert replicas[0] >= replicas[1] >= replicas[2]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((*PLAN, "--concurrency", "0"), "a load of zero needs no GPU"),
        (PLAN, "state the load by one of --rate"),
        ((*PLAN, "--rate", "1", "--concurrency", "2"), "state the load by one of --rate"),
        ((*PLAN, "--rate", "1", "--percentile", "42"), "write one of mean, 50, 90, 95 and 99"),
        ((*PLAN, "--rate", "1", "--draft-tokens", "3"), "needs both --draft-tokens and --acceptance"),
        ((*PLAN, "--rate", "1", "--input-len", "99999999"), "handles at most"),
        (SIMULATE, "state the load by --rate"),
        ((*SIMULATE, "--rate", "1", "--prefill", "never"), "Known: mixed, separate"),
        ((*SIMULATE, "--rate", "1", "--daily", "1,x"), "2 to 96 numbers"),
        ((*SIMULATE, "--rate", "1", "--plot", "load.txt"), "plots are written as"),
    ],
)
def test_more_bad_words_get_one_sentence(run: Run, words: tuple[str, ...], sentence: str) -> None:
    test_bad_words_get_one_sentence(run, words, sentence)


def test_a_simulation_is_plotted_with_its_limits(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "load.svg"
    done = run(*SIMULATE, "--rate", "1..4", "--max-ttft", "1s", "--max-tpot", "40ms", "--plot", path)
    assert done.exit_code == 0, done.stderr
    assert all(word in path.read_text() for word in ("TTFT", "TPOT", "limit of TTFT", "limit of TPOT"))


def test_clients_of_a_closed_loop_are_simulated(run: Run) -> None:
    found = json.loads(run(*SIMULATE, "--concurrency", "4,16", "--json").stdout)
    few, many = found["loads"]
    assert (few["concurrency"], many["concurrency"]) == (4, 16)
    assert many["output_tokens_per_s"] > few["output_tokens_per_s"]
    assert many["mean_running"] <= 16


def test_a_day_is_simulated_in_its_parts(run: Run) -> None:
    found = json.loads(run(*SIMULATE, "--rate", "3", "--daily", "1,2,3", "--json").stdout)
    # The mean of 1, 2 and 3 is 2, so that a mean rate of 3/s is 1.5, 3 and 4.5/s.
    assert [each["label"] for each in found["loads"]] == ["00 to 08 h", "08 to 16 h", "16 to 24 h"]
    assert [each["rate_per_s"] for each in found["loads"]] == pytest.approx([1.5, 3.0, 4.5], rel=0.15)


MONEY = (*ONE_GPU, "--rate", "30", "--max-tpot", "40ms")


def test_a_plan_is_handed_over_as_a_command_and_a_manifest(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    done = run(*MONEY, "--redundancy", "1", "--kubernetes", path, "--json")
    found = json.loads(done.stdout)
    best = found["recommended"]
    assert found["launch"]["command"].startswith("vllm serve ")
    assert found["launch"]["arguments"][found["launch"]["arguments"].index("--tensor-parallel-size") + 1] == "1"
    assert path.read_text() == found["kubernetes"]
    assert f"replicas: {best['replicas']}  #" in found["kubernetes"]
    assert f"minAvailable: {best['replicas_needed']}  #" in found["kubernetes"]


def test_a_gpu_without_bf16_is_launched_in_half_and_says_so(run: Run) -> None:
    plan = ("llm", "plan", "qwen3-8b", "--gpu", "t4", "--tp", "2", "--engine", "vllm", "--rate", "0.1")
    found = json.loads(run(*plan, "--json").stdout)
    words = found["launch"]["arguments"]
    assert words[words.index("--dtype") + 1] == "half"
    assert any("no bf16 arithmetic" in note for note in found["notes"])


def test_the_launch_command_is_explained_on_request(run: Run) -> None:
    assert "GPUs that share every matrix" in run(*MONEY, "--launch").stdout
    assert "GPUs that share every matrix" not in run(*MONEY).stdout


def test_an_api_price_gives_a_break_even_load(run: Run) -> None:
    found = json.loads(run(*MONEY, "--api-price", "0.6,2.4", "--growth", "50%", "--years", "2", "--json").stdout)
    # 1,024 x 0.6 + 256 x 2.4 USD per million requests, 30 a second for an hour.
    assert found["money"]["api"]["usd_per_hour"] == pytest.approx((1024 * 0.6 + 256 * 2.4) * 30 * 3600 / 1e6)
    assert [year["rate_per_s"] for year in found["money"]["years"]] == pytest.approx([30, 45, 67.5])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--api-price", "1"), "write USD per million input and output tokens"),
        (("--growth", "much"), "is not a share; write 5% or 0.05"),
        (("--years", "0"), "count 1 to 10 years"),
    ],
)
def test_bad_words_about_money_get_one_sentence(run: Run, words: tuple[str, ...], sentence: str) -> None:
    test_bad_words_get_one_sentence(run, (*MONEY, *words), sentence)


def test_without_limits_nobody_waits_for_minutes(run: Run) -> None:
    """Two requests a second once named a fleet of GH200 that fills up, with a mean TTFT of 127 s."""
    plain = json.loads(run(*ONE_GPU, "--rate", "20", "--json").stdout)
    assert (plain["limits"]["ttft_s"], plain["limits"]["tpot_s"]) == (10.0, 0.2)
    assert "no limits were asked" in plain["notes"][0]
    assert all(fit["ttft_s"]["expected"] <= 10 and fit["tpot_s"]["expected"] <= 0.2 for fit in plain["fits"])
    own = json.loads(run(*ONE_GPU, "--rate", "20", "--max-ttft", "1h", "--json").stdout)
    assert (own["limits"]["ttft_s"], own["limits"]["tpot_s"]) == (3600, None)


def test_texts_are_embedded_and_documents_ranked(run: Run) -> None:
    words = (*ONE_GPU, "--rate", "20", "--input-len", "256")
    embed, rank = (
        json.loads(run(*words, *task, "--json").stdout)["recommended"]
        for task in (("--task", "embed"), ("--task", "rerank", "--documents", "10"))
    )
    # Ten documents of a request take ten times the tokens.
    assert rank["max_rate_per_s_per_replica"] == pytest.approx(embed["max_rate_per_s_per_replica"] / 10, rel=0.02)
    assert embed["e2e_s"]["expected"] == pytest.approx(embed["ttft_s"]["expected"])


def test_images_become_tokens_and_time(run: Run) -> None:
    words = ("llm", "plan", "qwen3-vl-8b-instruct", "--gpu", "h100-sxm5-80gb", "--tp", "1", "--rate", "2")
    found = json.loads(run(*words, "--input-len", "100", "--images", "2", "--image-size", "1024x512", "--json").stdout)
    # 1,024 x 512 pixels are 32 x 16 tokens.
    assert found["load"]["input_len"] == 100 + 2 * 512
    stated = json.loads(run(*words, "--images", "2", "--image-tokens", "77", "--json").stdout)
    assert stated["load"]["input_len"] == 1024 + 2 * 77


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--task", "sing"), "Known: generate, embed, rerank"),
        (("--documents", "3"), "add --task rerank"),
        (("--images", "1"), "has no image encoder"),
        (("--images", "1", "--image-size", "big"), "write width and height in pixels"),
    ],
)
def test_bad_words_about_tasks_get_one_sentence(run: Run, words: tuple[str, ...], sentence: str) -> None:
    test_bad_words_get_one_sentence(run, (*PLAN, "--rate", "1", *words), sentence)


FLEET = """
gpu: [h100-sxm5-80gb, l40s]
tp: [1]
models:
  - {model: qwen3-8b, rate: 20/s, max_tpot: 40 ms}
  - {model: qwen3-4b, prompts: 432000, within: 24h, adapters: 4, sampling: filtered}
"""


def test_several_models_share_a_fleet(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET)
    found = json.loads(run("llm", "fleet", path, "--energy", "--json").stdout)
    assert [each["model"] for each in found["models"]] == ["qwen3-8b", "qwen3-4b"]
    assert found["models"][1]["load"]["rate_per_s"] == pytest.approx(5.0)  # 432,000 requests in 86,400 s
    for fleet in found["fleets"]:
        assert fleet["gpus"] == sum(part["gpus"] for part in fleet["parts"])
        assert fleet["servers"] >= fleet["gpus"] / 8
    costs = [float("inf") if fleet["usd_per_hour"] is None else fleet["usd_per_hour"] for fleet in found["fleets"]]
    assert costs == sorted(costs)
    assert found["recommended"] == found["fleets"][0]
    for part in found["recommended"]["parts"]:
        # A million output tokens of 256 a request at the rate of the load cost the rent of so many hours.
        rate = {"qwen3-8b": 20.0, "qwen3-4b": 5.0}[part["model"]]
        assert part["usd_per_million_output_tokens"] == pytest.approx(
            part["usd_per_hour"] * 1e6 / (rate * 256 * 3600), rel=1e-6
        )
        # Between the idle draw and the limit of an H100, 700 W.
        assert 30 * part["gpus"] < part["power_w"]["expected"] <= 700 * part["gpus"]
        assert part["ttft_s"]["low"] < part["ttft_s"]["expected"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("models: 3", "must be a list of loads"),
        ("models: [{rate: 1/s}]", "each entry must name its model"),
        ("models: [{model: qwen3-8b, rat: 1/s}]", "unknown key; did you mean rate"),
        ("models: [{model: qwen3-8b, prompts: 1000}]", "a job needs both prompts and within, such as 100000 and 8h"),
        ("models: [{model: qwen3-8b, rate: 1/s, sampling: beam}]", "unknown sampling 'beam'. Known: greedy, filtered"),
    ],
)
def test_a_bad_fleet_file_is_refused(run: Run, tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(text + "\n")
    done = run("llm", "fleet", path)
    assert done.exit_code == 2
    assert sentence in done.stderr


def test_engines_that_were_measured_are_searched_by_default(run: Run) -> None:
    words = ("llm", "plan", "qwen3-8b", "--gpu", "h100-sxm5-80gb", "--tp", "1", "--rate", "5", "--json")
    found = json.loads(run(*words).stdout)
    assert {fit["engine"] for fit in found["fits"]} == {"vllm", "sglang", "trtllm"}
    named = json.loads(run(*words, "--engine", "vllm").stdout)
    assert {fit["engine"] for fit in named["fits"]} == {"vllm"}
    assert any("not searched: sglang, trtllm" in note for note in named["notes"])


def test_tensorrt_llm_is_not_planned_on_gpus_of_other_vendors(run: Run) -> None:
    done = run("llm", "plan", "qwen3-8b", "--gpu", "mi300x", "--tp", "1", "--rate", "5", "--engine", "trtllm", "--json")
    assert done.exit_code == 1
    assert (
        "trtllm does not run on mi300x (CDNA 3); use vllm, sglang or llama.cpp"
        in json.loads(done.stdout)["rejections"][0]["reason"]
    )


def test_users_who_pause_are_the_rate_that_they_send_at_most(run: Run) -> None:
    # 120 people who pause 30 s send at most 4 requests a second.
    by_users = json.loads(run(*ONE_GPU, "--users", "120", "--think-time", "30s", "--json").stdout)
    by_rate = json.loads(run(*ONE_GPU, "--rate", "4", "--json").stdout)
    assert by_users["load"]["rate_per_s"] == 4.0
    assert by_users["recommended"] == by_rate["recommended"]
    assert any("120 users who pause 30 s" in note for note in by_users["notes"])


def test_a_price_limit_names_the_cheapest_and_what_the_money_carries(run: Run) -> None:
    asked = (*ONE_GPU, "--rate", "200", "--max-tpot", "40ms")
    whole = json.loads(run(*asked, "--json").stdout)["recommended"]
    assert whole["usd_per_hour"] > 3
    kept = json.loads(run(*asked, "--max-price", str(whole["usd_per_hour"]), "--json").stdout)
    assert kept["recommended"] == whole
    # a month has 730 hours
    short = run(*asked, "--budget", str(0.99 * 730 * whole["usd_per_hour"]))
    assert short.exit_code == 1
    assert "costs more than it may" in " ".join(short.stdout.split())
    assert "of the load" in " ".join(short.stdout.split())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--users", "10"), "people need both --users and --think-time"),
        (("--users", "10", "--think-time", "1s", "--rate", "3"), "leave out --rate, --concurrency and --prompts"),
        (("--rate", "1", "--draft-tokens", "3", "--acceptance", "0.5", "--acceptance-rate", "0.5"), "state the same"),
        (("--rate", "1", "--draft-tokens", "3", "--acceptance-by-position", "0.5"), "needs as many"),
        (("--rate", "1", "--draft-tokens", "3", "--acceptance-length", "4.5"), "gives 1 to 4 tokens"),
        (("--rate", "1", "--input-p99", "100"), "does not go with a mean of 1024 tokens"),
        (("--rate", "1", "--input-p99", "4000", "--input-cv", "1"), "both state how prompts vary"),
    ],
)
def test_bad_words_about_users_drafts_and_lengths_get_one_sentence(
    run: Run, words: tuple[str, ...], sentence: str
) -> None:
    test_bad_words_get_one_sentence(run, (*ONE_GPU, *words), sentence)


def test_a_gpu_that_a_provider_does_not_rent_is_not_recommended(run: Run) -> None:
    answer = run("llm", "plan", "qwen3-8b", "--rate", "5", "--gpu", "rtx-4090", "--provider", "aws")
    assert answer.exit_code == 1
    assert "no offer asked for holds" in " ".join(answer.stdout.split())


def test_a_command_names_the_stored_checkpoint_and_admits_long_requests(run: Run) -> None:
    words = ("llm", "plan", "qwen3-32b", "--gpu", "h100-sxm5-80gb", "--tp", "1", "--engine", "vllm", "--weights", "fp8")
    command = json.loads(run(*words, "--rate", "1", "--json").stdout)["launch"]["command"]
    assert command.startswith("vllm serve Qwen/Qwen3-32B-FP8 ")
    # 4.61 × (1,024 + 256) are 5,901 tokens, 24 rounds of 256.
    assert "--max-model-len 6144" in command
    # Of log-normal prompts with a mean of 1,024 and 99 % below 4,096, 99.9 % stay below exp(3.09 s − s²/2) × 1,024
    # with s = 2.3263 − √(2.3263² − 2 ln 4) = 0.702; answers vary by nothing that is stated.
    stated = json.loads(run(*words, "--rate", "1", "--input-p99", "4096", "--json").stdout)["launch"]["command"]
    assert "--max-model-len 7424" in stated


def test_ngrams_take_less_time_and_memory_than_a_head(run: Run) -> None:
    drafts = ("--rate", "4", "--draft-tokens", "3", "--acceptance", "0.5", "--max-tpot", "40ms", "--json")
    head, ngram = (
        json.loads(run(*ONE_GPU, *drafts, "--drafter", drafter).stdout)["recommended"] for drafter in ("head", "ngram")
    )
    # A layer of Qwen3-8B takes 0.19 B parameters, its projection 2 · 4096² = 0.03 B: 0.45 GB in 16 bits.
    assert head["memory"]["weights_bytes"] - ngram["memory"]["weights_bytes"] == pytest.approx(0.45e9, rel=0.1)
    assert ngram["tpot_s"]["expected"] < head["tpot_s"]["expected"]


def test_a_nightly_batch_costs_the_hours_in_which_it_runs(run: Run, tmp_path: Path) -> None:
    """By hand: awake are 4 of 24 hours, and 5 min of idling, a start and 2 min of ticks a day at most."""
    week = tmp_path / "week.yaml"
    week.write_text(f"day: {[0, 0, 1, 1, 1, 1, *[0] * 18]}\nrequests_per_day: 14400\n")
    found = run(*ONE_GPU, "--load", week, "--compare-ways", "--max-ttft", "10min", "--storage", "2GB/s", "--json")
    ways = json.loads(found.stdout)["ways"]
    assert ways["peak_per_s"] == 1.0
    costs = {way["way"]: way["usd_per_month"]["expected"] for way in ways["costs"] if way["usd_per_month"]}
    assert costs["standing"] == pytest.approx(64.0 * 730)  # the fixture's machine of 8 H100
    assert 4 / 24 <= costs["autoscaled"] / costs["standing"] <= (4 + 10 / 60) / 24
    (standing,) = (curve for curve in ways["curves"] if curve["way"] == "standing")
    assert [usd for _, usd in standing["points"]] == sorted(usd for _, usd in standing["points"])


@pytest.mark.parametrize(
    "load",
    [
        ("-c", "4", "--turns", "4", "--turn-period", "30s", "--input-len", "200"),
        ("--prompts", "1000000", "--within", "400d"),  # longer than a year, so that one run is counted
    ],
)
def test_every_form_of_a_load_is_answered(run: Run, load: tuple[str, ...]) -> None:
    assert json.loads(run(*ONE_GPU, *load, "--json").stdout)["recommended"]["replicas"] == 1


@pytest.mark.parametrize("words", ["8x h100 at $2.5", "8 x h100 at 2,5", "0 x h100"])
def test_a_price_that_cannot_be_read_is_no_part_of_a_name(run: Run, words: str) -> None:
    assert "is a number and a GPU" in run(*ONE_GPU, "--rate", "1", "--running", words).stderr


def test_a_simulated_replica_is_one_of_the_fleet_that_follows_the_week(run: Run) -> None:
    asked = ("--gpu", "h100-sxm5-80gb", "--requests-per-day", "200000", "--max-ttft", "5s", "--scaler", "hpa")
    found = json.loads(run(*SIMULATE, *asked[2:], "--json").stdout)
    scaled = json.loads(run("llm", "scale", "qwen3-8b", *asked, "--json").stdout)
    assert found["elastic"] == scaled
    # an office's busiest hour has 10 of 118 parts of the day; the standing fleet shares it out, and 200 draws vary
    peak = 200_000 * 10 / 118 / 3600
    assert found["loads"][0]["rate_per_s"] == pytest.approx(peak / scaled["standing"]["replicas"], rel=0.15)
    refused = run(*SIMULATE, "--rate", "1", "--scaler", "hpa")
    assert refused.exit_code == 2
    assert "--requests-per-day" in refused.stderr
