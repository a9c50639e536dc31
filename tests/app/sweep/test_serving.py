"""Language models to be served: the rows hold what the estimate of each deployment says."""

from pathlib import Path

import pytest

from capplan.app.deployments import Deployments
from capplan.app.sweep.results import read_sweep
from capplan.app.sweep.run import sweep
from capplan.errors import SpecError, UsageError
from capplan.llm.core.deployment import NamedDeployment
from capplan.llm.core.search.estimate import estimate_serving
from capplan.llm.core.search.room import served_demand
from capplan.llm.core.sharding import Sharding
from capplan.llm.read.calibrations import load_time_calibration
from capplan.specs import load_gpus
from tests.app.sweep.conftest import make_request

pytestmark = pytest.mark.slow

GPUS = ["h100-sxm5-80gb", "l4"]
SERVING = {"mode": "serving", "concurrency": [1, 16], "tp": 2, "input_len": 512, "output_len": 128}


def test_rows_hold_the_estimates_of_each_deployment(traces: Path, tmp_path: Path) -> None:
    models = ["llm:qwen3-32b", str(traces / "narrow.trace.json")]
    request = make_request(tmp_path / "out", models, gpus=GPUS, workloads=[SERVING, {"batch": [1]}])
    done = sweep(request)
    frame = read_sweep(tmp_path / "out").to_pandas()
    assert (len(frame), done.failures) == (2 * 2 + 2, ())
    served = frame[frame["mode"] == "serving"].set_index(["gpu", "batch"])
    words = NamedDeployment(model="qwen3-32b", gpu=GPUS[0], engine="vllm", sharding=Sharding(tensor=2))
    deployments = Deployments(gpus=load_gpus())
    demand = served_demand(deployments.find, words, input_len=512, output_len=128)
    expected = estimate_serving(deployments.find(words), demand, (1, 16), calibration=load_time_calibration())
    for point in expected.points:
        row = served.loc[GPUS[0], point.concurrency]
        assert (row.ttft_s, row.tpot_s) == (point.ttft_s.expected, point.tpot_s.expected)
        assert row.output_tokens_per_s == point.output_tokens_per_s.expected
        # Little's law: clients = rate of requests × time of an answer, at either end of the tokens per second
        assert row.latency_low_s == pytest.approx(point.concurrency / (row.output_tokens_high_per_s / 128))
        assert row.latency_low_s < row.latency_s < row.latency_high_s
        # 32.8 billion parameters of 2 bytes on two GPUs, as the model's card counts them; the cache takes the rest
        assert row.weight_bytes == pytest.approx(32.8e9, rel=0.01)
        assert row.weight_bytes + row.kv_pool_bytes < row.total_bytes < row.usable_bytes
        assert (row.weights, row.kv) == ("bf16", "bf16")
        # Little's law: what two GPUs cost in an hour over the requests of an hour
        assert row.usd_per_million_samples == pytest.approx(2 * row.usd_per_hour / (3600 * row.throughput_per_s) * 1e6)
    # 32.8 billion parameters in 16 bits are 61 GiB, and two L4 hold 48 GiB
    assert set(served.loc["l4"].status) == {"does not fit"}
    assert sweep(request).standing.kept == 2


def test_rows_hold_power_and_joules_of_a_token_where_energy_is_asked_for(tmp_path: Path) -> None:
    ways = [{**SERVING, "energy": [False, True]}, {**SERVING, "power_limit": "300W"}]
    request = make_request(tmp_path / "out", ["llm:qwen3-32b"], gpus=GPUS[:1], workloads=ways)
    assert sweep(request).failures == ()
    frame = read_sweep(tmp_path / "out").to_pandas()
    capped = frame[frame.power_limit_w.notna()].set_index("batch")
    metered = frame[frame.power_w.notna() & frame.power_limit_w.isna()].set_index("batch")
    assert (len(frame), len(metered), len(capped)) == (6, 2, 2)
    for clients, row in metered.iterrows():
        # joules of a token are watts over tokens per second; two H100 draw 1,400 W at most
        assert row.power_low_w <= row.power_w <= row.power_high_w <= 2 * 700
        assert row.joules_per_output_token == pytest.approx(row.power_w / row.output_tokens_per_s, rel=0.02)
        assert row.joules_low_per_output_token < row.joules_per_output_token < row.joules_high_per_output_token
        assert capped.loc[clients].power_high_w <= 2 * 300
        assert capped.loc[clients].output_tokens_per_s <= row.output_tokens_per_s
    assert metered.loc[16].joules_per_output_token < metered.loc[1].joules_per_output_token


def test_a_model_that_nothing_is_asked_of_is_an_error(traces: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing is asked of llm:qwen3-32b; add a workload such as \{mode: serving"):
        sweep(make_request(tmp_path / "out", ["llm:qwen3-32b"]))
    with pytest.raises(UsageError, match=r"nothing is asked of .*narrow"):
        sweep(make_request(tmp_path / "out", [str(traces / "narrow.trace.json")], workloads=[SERVING]))


def test_globs_and_names_of_language_models(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="matches no language model"):
        sweep(make_request(tmp_path / "out", ["llm:nothing-*"], workloads=[SERVING]))
    with pytest.raises(SpecError, match=r"workloads\[0\]\.engine"):
        make_request(tmp_path / "out", ["llm:qwen3-*"], workloads=[{**SERVING, "engine": "vlm"}])
