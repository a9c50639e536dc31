"""`capplan measure` as a user meets it: answers, files, interruptions, bad input."""

import csv
import io
import itertools
import json
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest

from capplan.app.measure.store import MeasurementStore
from capplan.core.measurement.format import parse_points
from capplan.report.schemas import schema_of
from tests.cli.conftest import Run
from tests.timed_cpu import timed_cpu  # noqa: F401 - a fixture

pytestmark = pytest.mark.slow

NET = ["examples/net.py:Net", "--input", "x=3x32x32"]
QUICK = ["--warmup", "2", "--repetitions", "6", "--device", "cpu"]
SCHEMA = schema_of("measure")

FLAWED = """
import os, signal, time
import torch
from torch import nn

class Flawed(nn.Module):
    def __init__(self, how="raise", at=4):
        super().__init__()
        self.layer, self.how, self.at = nn.Linear(8, 8), how, at
    def forward(self, x):
        if x.device.type != "meta" and len(x) == self.at:
            if self.how == "raise":
                raise ValueError("this batch is cursed")
            if self.how == "crash":
                os.kill(os.getpid(), signal.SIGSEGV)
            if self.how == "hang":
                time.sleep(600)
            if self.how == "nan":
                return self.layer(x) / 0.0 - self.layer(x) / 0.0
            if self.how == "greedy":
                return torch.empty(2**50, dtype=torch.int8)
        return self.layer(x)
"""


@pytest.fixture
def flawed(tmp_path: Path) -> list[str]:
    """A model that misbehaves at batch 4."""
    path = tmp_path / "flawed.py"
    path.write_text(FLAWED)
    return [f"{path}:Flawed", "--input", "x=8"]


def test_json_keeps_its_schema(run: Run) -> None:
    result = run("measure", *NET, *QUICK, "--batch", "1,3", "--format", "json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    jsonschema.validate(document, SCHEMA)
    assert [each["workload"]["batch"] for each in document["measurements"]] == [1, 3]
    assert all(len(each["latency_s"]["samples"]) == 6 for each in document["measurements"])
    first = document["measurements"][0]
    assert first["device"]["kind"] == "cpu"
    assert first["model"]["input_size"] == [3, 32, 32]
    samples = first["latency_s"]["samples"]
    assert first["throughput_per_s"] == pytest.approx(6 / sum(samples), rel=1e-4)


def test_the_table_tells_conditions_and_columns(run: Run) -> None:
    result = run("measure", *NET, *QUICK)
    assert result.exit_code == 0, result.stderr
    for words in ("fp32, eager, nchw", "host clock", "L2 not flushed", "median", "p99", "samples/s (FPS)"):
        assert words in result.stdout


def test_lines_are_appended_and_resumed(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    assert run("measure", *NET, *QUICK, "--batch", "1,2", "-o", path).exit_code == 0
    first = path.read_bytes()
    result = run("measure", *NET, *QUICK, "--batch", "1,2,4", "-o", path, "--resume", "--format", "json")
    assert result.exit_code == 0, result.stderr
    assert path.read_bytes().startswith(first)
    assert path.read_bytes().count(b"\n") == 3
    for line in path.read_text().splitlines():
        jsonschema.validate(json.loads(line), SCHEMA)
    assert [each["workload"]["batch"] for each in json.loads(result.stdout)["measurements"]] == [1, 2, 4]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (["--repetitions", "7"], "warm-up, repetitions or method"),
        (["--warmup", "3"], "warm-up, repetitions or method"),
        (["--flush-l2"], "warm-up, repetitions or method"),
        (["--budget", "3s"], "warm-up, repetitions or method"),
    ],
)
def test_resuming_under_other_rules_measures_anew_and_says_so(
    run: Run, tmp_path: Path, change: list[str], told: str
) -> None:
    path = tmp_path / "runs.jsonl"
    assert run("measure", *NET, *QUICK, "-o", path).exit_code == 0
    kept = [words for words in zip(QUICK[::2], QUICK[1::2], strict=True) if words[0] != change[0]]
    result = run("measure", *NET, *itertools.chain(*kept), *change, "-o", path, "--resume")
    assert result.exit_code == 0, result.stderr
    assert f"batch 1 is measured anew: the point in the file differs in {told}." in result.stderr
    assert path.read_bytes().count(b"\n") == 2


@pytest.mark.parametrize(
    ("where", "value", "told"),
    [
        (("device", "torch"), "2.4.0+cu121", "torch"),
        pytest.param(("device", "name"), "NVIDIA L4", "device", marks=pytest.mark.nightly),
        pytest.param(("device", "threads"), 96, "threads", marks=pytest.mark.nightly),
        pytest.param(("device", "driver"), "550.54.15", "driver", marks=pytest.mark.nightly),
        pytest.param(("model", "source_sha256"), "0" * 64, "model source", marks=pytest.mark.nightly),
        (("model", "versions"), {"torch": "2.4.0"}, "library versions"),
        (("rules",), None, "warm-up, repetitions or method"),
    ],
)
def test_resuming_elsewhere_measures_anew_and_says_so(
    run: Run, tmp_path: Path, where: tuple[str, ...], value: object, told: str
) -> None:
    path = tmp_path / "runs.jsonl"
    run("measure", *NET, *QUICK, "-o", path)
    document = json.loads(path.read_text())
    holder = document
    for key in where[:-1]:
        holder = holder[key]
    holder[where[-1]] = value
    path.write_text(json.dumps(document) + "\n")
    result = run("measure", *NET, *QUICK, "-o", path, "--resume")
    assert f"differs in {told}." in result.stderr
    assert path.read_bytes().count(b"\n") == 2
    result = run("measure", *NET, *QUICK, "-o", path, "--resume")
    assert "anew" not in result.stderr
    assert path.read_bytes().count(b"\n") == 2


def test_running_out_of_memory_under_a_limit_says_nothing_without_it(
    run: Run, flawed: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "runs.jsonl"
    words = [*flawed, "--arg", "how=greedy", *QUICK, "--batch", "4", "-o", path, "--resume"]
    assert run("measure", *words, "--memory-limit", "1GiB").exit_code == 4
    assert "anew" not in run("measure", *words, "--memory-limit", "1GiB").stderr
    assert path.read_bytes().count(b"\n") == 1
    assert "differs in memory limit." in run("measure", *words).stderr
    assert path.read_bytes().count(b"\n") == 2


def test_a_file_cut_in_half_is_mended_and_told(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    run("measure", *NET, *QUICK, "--batch", "1,2", "-o", path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 3 // 4])
    result = run("measure", *NET, *QUICK, "--batch", "1,2", "-o", path, "--resume")
    assert result.exit_code == 0
    assert "cut off" in result.stderr
    found = parse_points(path.read_bytes(), where="runs.jsonl")
    assert [point.workload.batch for point in found.points] == [1, 2]
    assert path.read_bytes().startswith(whole[: whole.index(b"\n") + 1])


def test_two_runs_cannot_write_one_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    with MeasurementStore(path):
        result = run("measure", *NET, *QUICK, "-o", path)
    assert result.exit_code == 2
    assert "being written by another run" in result.stderr
    assert path.read_bytes() == b""


def test_a_full_disk_keeps_the_points_before(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    assert run("measure", *NET, *QUICK, "-o", path).exit_code == 0
    room_bytes = path.stat().st_size * 5 // 2  # for this point, one more, and half of a third
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room_bytes, hard))
    try:
        result = run("measure", *NET, *QUICK, "--batch", "2,3,4", "-o", path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert result.exit_code == 4
    assert f"cannot write {path}: File too large" in result.stderr
    found = parse_points(path.read_bytes(), where="runs.jsonl")
    assert ([point.workload.batch for point in found.points], found.is_cut) == ([1, 2], False)
    assert "samples/s" in result.stdout, "what was measured is told all the same"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.nightly
def test_an_answer_that_cannot_be_written_is_one_sentence() -> None:
    command = [sys.executable, "-c", "from capplan.cli.main import main; main()", "measure", *NET, *QUICK]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith("capplan: cannot write the answer: No space left on device.\n")
    assert "Traceback" not in done.stderr


def test_what_is_no_file_is_not_appended_to(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    os.mkfifo(path)
    result = run("measure", *NET, *QUICK, "-o", path)
    assert result.exit_code == 2
    assert f"{path} is not a file" in result.stderr


@pytest.mark.parametrize("isolate", [[], pytest.param(["--isolate"], marks=pytest.mark.nightly)])
def test_a_batch_that_fails_costs_itself_alone(run: Run, flawed: list[str], isolate: list[str]) -> None:
    result = run("measure", *flawed, *QUICK, *isolate, "--batch", "2,4,8", "--format", "json")
    assert result.exit_code == 4
    document = json.loads(result.stdout)
    jsonschema.validate(document, SCHEMA)
    assert [each["workload"]["batch"] for each in document["measurements"]] == [2, 8]
    (failure,) = document["failures"]
    assert failure["failure"]["kind"] == "error"
    assert "at batch 4 failed: ValueError: this batch is cursed" in result.stderr


def test_a_crash_costs_one_isolated_point(run: Run, flawed: list[str]) -> None:
    result = run("measure", *flawed, "--arg", "how=crash", *QUICK, "--isolate", "--batch", "2,4,8", "--format", "json")
    assert result.exit_code == 4
    document = json.loads(result.stdout)
    assert [each["workload"]["batch"] for each in document["measurements"]] == [2, 8]
    assert document["failures"][0]["failure"]["kind"] == "crash"
    assert "was killed by SIGSEGV" in result.stderr


def test_a_hang_costs_its_timeout(run: Run, flawed: list[str]) -> None:
    words = ["--arg", "how=hang", "--isolate", "--timeout", "6s", "--batch", "4", "--format", "json"]
    result = run("measure", *flawed, *QUICK, *words)
    assert result.exit_code == 4
    assert json.loads(result.stdout)["failures"][0]["failure"]["kind"] == "timeout"
    assert "took more than 6 s" in result.stderr


def test_out_of_memory_is_a_failure_of_its_point(run: Run, flawed: list[str]) -> None:
    result = run("measure", *flawed, "--arg", "how=greedy", *QUICK, "--batch", "4,5", "--format", "json")
    assert result.exit_code == 4
    document = json.loads(result.stdout)
    assert [each["workload"]["batch"] for each in document["measurements"]] == [5]
    assert document["failures"][0]["failure"]["kind"] == "out of memory"


def test_outputs_that_are_not_finite_are_told(run: Run, flawed: list[str]) -> None:
    result = run("measure", *flawed, "--arg", "how=nan", *QUICK, "--batch", "4", "--format", "json")
    assert result.exit_code == 0
    assert "not finite" in result.stderr
    assert json.loads(result.stdout)["measurements"][0]["finite_outputs"] is False


@pytest.mark.parametrize("search", ["binary", "sequential"])
def test_the_largest_batch_is_found_by_running(run: Run, flawed: list[str], search: str) -> None:
    words = ["--arg", "how=greedy", "--arg", "at=11", "--batch", "max", "--search", search, "--max-batch", "12"]
    result = run("measure", *flawed, *QUICK, *words, "--format", "json")
    assert result.exit_code == 0, result.stderr
    batches = [each["workload"]["batch"] for each in json.loads(result.stdout)["measurements"]]
    if search == "sequential":
        assert batches == [1, 2, 4, 8, 10]
        assert "largest batch that runs: 10 (batch 11 does not)" in result.stderr
    else:  # only 11 fails, so that doubling to the cap passes it by: the cap was run
        assert batches == [1, 2, 4, 8, 12]


def test_a_model_that_never_fits_says_so(run: Run, flawed: list[str]) -> None:
    words = ["--arg", "how=greedy", "--arg", "at=1", "--batch", "max", "--max-batch", "4"]
    result = run("measure", *flawed, *QUICK, *words)
    assert result.exit_code == 4
    assert "not even batch 1 runs" in result.stderr


def test_auto_doubles_while_it_pays(run: Run) -> None:
    result = run("measure", *NET, *QUICK, "--batch", "auto", "--max-batch", "4", "--format", "json")
    assert result.exit_code == 0, result.stderr
    assert [each["workload"]["batch"] for each in json.loads(result.stdout)["measurements"]] == [1, 2, 4]


def test_methods_side_by_side(run: Run) -> None:
    result = run("measure", *NET, *QUICK, "--methods", "naive,sync,event")
    assert result.exit_code == 0, result.stderr
    assert "naive" in result.stdout
    assert "against sync" in result.stdout
    assert "no events" in result.stderr


def test_the_pipeline_is_timed_both_ways(run: Run) -> None:
    words = ["--pipeline", "examples/pipeline.py:stages", *QUICK, "--format", "json"]
    result = run("measure", *words)
    assert result.exit_code == 0, result.stderr
    (pipeline,) = json.loads(result.stdout)["pipelines"]
    assert [stage["name"] for stage in pipeline["stages"]] == ["detect", "cut (CPU)", "classify"]
    assert pipeline["repetitions"] == 6


def test_a_pipelines_ways_are_kept_and_drawn_frame_by_frame(run: Run, tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text(
        "import time\ndef stages(batch, device):\n"
        "    frames = iter(range(100))\n"
        "    return [('wait', lambda: time.sleep(0.002)), ('slow', lambda _: time.sleep(0.01 + 0.01 * next(frames)))]\n"
    )
    plot = tmp_path / "frames.svg"
    quick = ["--warmup", "1", "--repetitions", "4", "--device", "cpu"]
    words = ["--pipeline", f"{tmp_path}/steps.py:stages", *quick, "--format", "json", "--plot", plot]
    result = run("measure", *words)
    assert result.exit_code == 0, result.stderr
    (pipeline,) = json.loads(result.stdout)["pipelines"]
    wait, slow = (stage["frames"]["waited_s"] for stage in pipeline["stages"])
    # frame 0 warms up, 1 to 4 leave the host free, 5 to 8 wait after each stage: 60, 70, 80 and 90 ms, never less
    assert all(time_s >= floor_s for time_s, floor_s in zip(slow, (0.06, 0.07, 0.08, 0.09), strict=True))
    whole = pipeline["end_to_end"]["frames"]
    assert whole["stalled_latency_s"] == pytest.approx([a + b for a, b in zip(wait, slow, strict=True)])
    assert len(whole["free_latency_s"]) == 4
    drawn = plot.read_text()
    assert drawn.count('aria-roledescription="circle"') == 16  # two ways and two stages, four frames each
    assert "frame by frame" in drawn
    assert "end to end, waiting" in drawn


MODULES = """
import time
from torch import nn

class Sleeper(nn.Module):
    def __init__(self, seconds):
        super().__init__()
        self.seconds, self.layer = seconds, nn.Linear(8, 8)
    def forward(self, x):
        if x.device.type != "meta":
            time.sleep(self.seconds)
        return self.layer(x)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fast, self.slow, self.unused = Sleeper(0.002), Sleeper(0.02), nn.Linear(8, 8)
    def forward(self, x):
        return self.slow(self.slow(self.fast(x)))
"""


def test_modules_are_timed_with_all_below_them(run: Run, tmp_path: Path) -> None:
    (tmp_path / "sleepers.py").write_text(MODULES)
    model = [f"{tmp_path}/sleepers.py:Net", "--input", "x=8", "--batch", "2"]
    result = run("measure", *model, *QUICK, "--modules", "--format", "json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    jsonschema.validate(document, SCHEMA)
    (timed,) = document["modules"]
    rows = {row["path"]: row for row in timed["modules"]}
    assert list(rows) == ["", "fast", "fast.layer", "slow", "slow.layer"]  # what is never called has no row
    assert [row["calls"] for row in rows.values()] == [1, 1, 1, 2, 2]
    assert rows["fast"]["measured_s"] >= 0.002
    assert rows["slow"]["measured_s"] >= 0.04  # two calls of 20 ms
    assert rows["slow.layer"]["measured_s"] < rows["slow"]["measured_s"] / 4  # it does not sleep
    assert rows[""]["measured_s"] >= rows["fast"]["measured_s"] + rows["slow"]["measured_s"]
    # a linear layer of 8 by 8: 64 multiply-accumulates a row, two rows, three calls in all
    assert [rows[path]["macs"] for path in ("", "fast.layer", "slow.layer")] == [384, 128, 256]
    parts_s = rows["fast"]["estimated_s"] + rows["slow"]["estimated_s"]
    assert rows[""]["estimated_s"] == pytest.approx(parts_s)
    table = run("measure", *model, *QUICK, "--modules").stdout
    assert re.search(r"^  slow +Sleeper +2 ", table, re.MULTILINE)
    assert re.search(r"^    layer +Linear +2 ", table, re.MULTILINE)


def test_threads_are_those_asked_for_and_put_back(run: Run) -> None:
    import torch

    before = torch.get_num_threads()
    models = []
    for isolated in ([], ["--isolate"]):
        result = run("measure", *NET, *QUICK, "--threads", "1", *isolated, "--format", "json")
        assert result.exit_code == 0, result.stderr
        (point,) = json.loads(result.stdout)["measurements"]
        assert point["device"]["threads"] == 1
        models.append(point["model"])
    assert models[0] == models[1]
    assert torch.get_num_threads() == before


MEASURE_THAT_HANGS_UP = """
import signal
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored where the tests run under nohup
from capplan.cli.main import main
main()
"""


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
@pytest.mark.nightly
def test_an_isolated_point_ends_with_its_parent(flawed: list[str], tmp_path: Path, sent: signal.Signals) -> None:
    told = tmp_path / "child.pid"
    path = Path(flawed[0].partition(":")[0])
    hang = f'open({str(told)!r}, "w").write(str(os.getpid()))\n                time.sleep(600)'
    path.write_text(path.read_text().replace("time.sleep(600)", hang))
    words = [*flawed, "--arg", "how=hang", "--batch", "4", "--isolate", "--device", "cpu"]
    parent = subprocess.Popen(
        [sys.executable, "-c", MEASURE_THAT_HANGS_UP, "measure", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 400
        while not (told.exists() and told.read_text()) and time.monotonic() < deadline:
            assert parent.poll() is None
            time.sleep(0.05)
        child = int(told.read_text())
        assert child != parent.pid
        parent.send_signal(sent)
        parent.wait(timeout=300)
        while is_running(child) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not is_running(child)
    finally:
        parent.kill()


def is_running(pid: int) -> bool:
    """Return True if a process is there and is not a zombie that nobody has waited for yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_median_far_above_the_fastest_repetition_is_reported(run: Run, tmp_path: Path) -> None:
    (tmp_path / "restless.py").write_text(
        "import itertools, time\nfrom torch import nn\nturns = itertools.count()\n"
        "class Net(nn.Module):\n"
        "    def forward(self, x):\n"
        "        if x.device.type != 'meta':\n"
        "            time.sleep(0.05 if next(turns) % 3 else 0.001)\n"
        "        return x + 1\n"
    )
    result = run("measure", f"{tmp_path}/restless.py:Net", "--input", "x=8", *QUICK)
    assert result.exit_code == 0, result.stderr
    assert "times the fastest repetition" in result.stdout
    assert "(--threads)" in result.stdout


def test_export_is_the_csv_that_validate_reads(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    run("measure", *NET, *QUICK, "--batch", "2", "--precision", "bf16", "-o", path)
    result = run("measure", "--export", path, "--format", "csv")
    (row,) = csv.DictReader(io.StringIO(result.stdout))
    expected = {
        "framework": "eager", "precision": "bf16", "layout": "nchw", "task": "infer", "batch": "2",
        "input_size": "3x32x32",
    }  # fmt: skip
    assert {key: row[key] for key in expected} == expected
    samples = json.loads(path.read_text())["latency_s"]["samples"]  # fewer than six on a machine that is busy
    assert float(row["latency_ms"]) == pytest.approx(1e3 * statistics.median(samples), rel=1e-5)


def test_a_run_compared_with_itself_shows_no_difference(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    run("measure", *NET, *QUICK, "-o", path)
    result = run("measure", "--compare", path, path)
    assert result.exit_code == 0, result.stderr
    assert "no difference beyond noise" in result.stdout


def test_comparing_loads_no_torch(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "runs.jsonl"
    run("measure", *NET, *QUICK, "-o", path)
    code = (
        "import sys\nfrom capplan.cli.main import app\n"
        f"try:\n    app(['measure', '--compare', {str(path)!r}, {str(path)!r}])\n"
        "except SystemExit as stop:\n    assert not stop.code\nassert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


ENDLESS = """
import time
from pathlib import Path
from torch import nn

class Endless(nn.Linear):
    def __init__(self):
        super().__init__(8, 8)
        self.runs = 0
    def forward(self, x):
        if x.device.type == "cpu" and len(x) == 2:
            time.sleep(0.05)
            self.runs += 1
        if self.runs == 20:  # tracing and warming up run it a few times
            Path(__file__).with_suffix(".runs").touch()
        return super().forward(x)
"""


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    path, model = tmp_path / "runs.jsonl", tmp_path / "endless.py"
    model.write_text(ENDLESS)
    named = [f"{model}:Endless", "--input", "8", "-o", str(path)]
    heeding = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # background jobs ignore it
    code = f"{heeding}; from capplan.cli.main import main; main()"
    words = ["--batch", "1,2,4", "--warmup", "2", "--repetitions", "20000", "--device", "cpu"]
    child = subprocess.Popen(
        [sys.executable, "-c", code, "measure", *named, *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 400
    while not model.with_suffix(".runs").exists() and time.monotonic() < deadline and child.poll() is None:
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    try:
        _, err = child.communicate(timeout=300)
    finally:
        child.kill()
    assert model.with_suffix(".runs").exists(), err
    assert child.returncode == 130, err
    assert "Traceback" not in err
    assert f"interrupted; 1 point kept in {path}" in err
    found = parse_points(path.read_bytes(), where="runs.jsonl")
    assert ([point.workload.batch for point in found.points], found.is_cut) == ([1], False)


def test_a_trace_is_no_model_to_run(run: Run, net_trace: Path) -> None:
    result = run("measure", net_trace, *QUICK)
    assert result.exit_code == 2
    assert "is a trace, and measuring runs the model itself: name " in result.stderr
    assert "net.py:Net" in result.stderr


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ([*NET, "--device", "cuda:7"], 4, "at hand"),
        ([*NET, "--batch", "0"], 2, "between 1 and"),
        ([*NET, "--search", "ternary"], 2, "unknown search"),
        ([*NET, "--resume"], 2, "-o FILE.jsonl"),
        ([*NET, "--timeout", "3s"], 2, "--isolate"),
        ([*NET, "--budget", "3 parsecs"], 2, "--budget"),
        ([*NET, "--budget", "-3s"], 2, "--budget: '-3s' is negative"),
        ([*NET, "--memory-limit", "-5GiB"], 2, "--memory-limit: '-5GiB' is negative"),
        ([*NET, "--isolate", "--timeout", "0s"], 2, "--timeout 0s: write a time above 0"),
        ([*NET, "--modules", "--isolate"], 2, "drop --isolate"),
        ([*NET, "--modules", "--framework", "compile"], 2, "--modules needs --framework eager"),
        (["--pipeline", "x.py:stages", "--modules"], 2, "--modules times the modules of a MODEL"),
        ([*NET, "--threads", "0"], 2, "--threads"),
        ([*NET, "--methods", "guess"], 2, "unknown timing method"),
        ([*NET, "--methods", "event", "--device", "cpu"], 4, "no events"),
        ([*NET, "--methods", "naive", "-o", "x.jsonl"], 2, "measurement file"),
        ([*NET, "--gpu", "gtx-999", "--device", "cpu"], 2, "unknown GPU"),
        (["no_such_model", "--device", "cpu"], 2, "unknown model"),
        ([], 2, "one thing to do"),
        ([*NET, "--device", "cpu", "--plot", "curve.txt"], 2, "plots are written as .svg"),
        ([*NET, "--methods", "naive", "--plot", "curve.svg"], 2, "--plot draws the times of a MODEL"),
        (["--compare", "a.jsonl", "b.jsonl", *NET], 2, "one thing to do"),
        (["--export", "missing.jsonl"], 2, "missing.jsonl"),
        (["--pipeline", "missing.py:stages"], 2, "missing.py"),
    ],
)
def test_bad_input_is_one_sentence(run: Run, words: list[str], code: int, told: str) -> None:
    result = run("measure", *words)
    assert result.exit_code == code, result.output
    assert told in result.stderr
    assert "Traceback" not in result.stderr
    assert not result.stdout


def test_times_are_plotted_over_the_batch(run: Run, tmp_path: Path) -> None:
    path, plot = tmp_path / "runs.jsonl", tmp_path / "curve.svg"
    run("measure", *NET, *QUICK, "--batch", "1,2,4", "-o", path)
    result = run("measure", "--export", path, "--plot", plot)
    assert result.exit_code == 0, result.stderr
    drawn = plot.read_text()
    assert drawn.count('aria-roledescription="circle"') == 3
    assert "median time of a batch, ms" in drawn
    assert "measured time over batch" in drawn


def test_on_a_cpu_theory_stands_beside_measurement(run: Run) -> None:
    result = run("measure", *NET, *QUICK, "--json")
    assert result.exit_code == 0, result.stderr
    (point,) = json.loads(result.stdout)["measurements"]
    theory = point["estimate"]
    assert 0 < theory["bound"] <= theory["expected"]
    assert theory["calibration"] == "CPU operators in fp32"
    assert point["device"]["gpu"] == "cpu-at-hand"
    assert "rest on what this CPU reached" in result.stderr
    assert "estimate" in run("measure", *NET, *QUICK).stdout


def test_what_a_cpu_lacks_is_said(run: Run) -> None:
    result = run("measure", *NET, *QUICK, "--precision", "fp16")
    assert "CPUs are estimated in fp32 and bf16 alone, not in fp16" in result.stderr


def test_a_budget_that_ends_fixed_repetitions_is_said(run: Run) -> None:
    words = ["--device", "cpu", "--warmup", "2", "--repetitions", "20000", "--budget", "1ms"]
    result = run("measure", *NET, *words)
    assert result.exit_code == 0, result.stderr
    assert "of 20000 repetitions: the budget of 1.00 ms was spent" in result.stdout


def test_what_is_only_worked_out_cannot_be_measured(run: Run) -> None:
    engine = run("measure", *NET, "--device", "cpu", "--framework", "tensorrt")
    assert engine.exit_code == 2
    assert "engines are worked out, not measured" in engine.stderr
    quantised = run("measure", *NET, "--device", "cpu", "--weights", "int8")
    assert quantised.exit_code == 2
    assert "--prepare FILE.py:FUNCTION" in quantised.stderr


def test_the_largest_batch_of_a_cpu_wants_a_cap(run: Run) -> None:
    result = run("measure", *NET, *QUICK, "--batch", "max")
    assert result.exit_code == 2
    assert "add --memory-limit SIZE or --max-batch N, or measure on a GPU" in result.stderr


SLOW_START = """
import time
import torch
from torch import nn

class SlowStart(nn.Module):
    def __init__(self, fails=False):
        super().__init__()
        time.sleep(0.3)
        self.layer, self.calls, self.fails = nn.Linear(1000, 250, bias=False), 0, fails
    def forward(self, x):
        if x.device.type != "meta":
            self.calls += 1
            if self.fails:
                raise ValueError("no answer today")
            time.sleep(0.2 if self.calls == 1 else 0.0)
        return self.layer(x)
"""


def test_a_start_is_timed_part_by_part(run: Run, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW_START)
    words = ["measure", f"{tmp_path}/slow.py:SlowStart", "--input", "x=1000", "--start", "--device", "cpu"]
    answer = json.loads(run(*words, "--repetitions", "2", "--format", "json").stdout)
    times_s = {step["part"]: step["times_s"] for step in answer["steps"]}
    assert all(len(each) == 2 for each in times_s.values())
    assert min(times_s["model built"]) >= 0.3
    assert min(times_s["first call"]) >= 0.2 > min(times_s["a later call"])
    assert min(times_s["PyTorch imported"]) > 0.1  # no process starts with it
    assert 1_000_000 <= answer["weight_bytes"] < 1_010_000  # 1000 * 250 * 4 B and the file's own words
    summed = sum(each[0] for part, each in times_s.items() if part != "a later call")
    assert answer["whole"]["times_s"][0] == pytest.approx(summed)


def test_a_start_that_fails_or_takes_too_long_says_so(run: Run, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW_START)
    words = ["measure", f"{tmp_path}/slow.py:SlowStart", "--input", "x=1000", "--start", "--device", "cpu"]
    failed = run(*words, "--arg", "fails=True")
    assert (failed.exit_code, failed.stderr) == (4, "capplan: a start failed: ValueError: no answer today\n")
    late = run(*words, "--timeout", "200ms")
    assert (late.exit_code, late.stderr) == (4, "capplan: a start took longer than 0.2 s, the --timeout.\n")
    assert "one --batch" in run(*words, "--batch", "1,2").stderr
