"""`capplan memory` as a user meets it."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from capplan.core.memory.summary import RuleOfThumb
from capplan.report.schemas import schema_of
from tests.cli.conftest import EXAMPLES, Run
from tests.core.plan.test_plan import GIB, gpu

SCHEMA = schema_of("memory")
NET = f"{EXAMPLES / 'net.py'}:Net"


def test_json_from_a_trace_file(run: Run, net_trace: Path) -> None:
    result = run("memory", net_trace, "--batch", "32", "--gpu", "t4", "--gpu", "l4", "--format", "json")
    assert result.exit_code == 0, result.stderr
    answer = json.loads(result.stdout)
    jsonschema.validate(answer, SCHEMA)
    for end in ("low", "expected", "high"):
        parts = {part["name"]: part["size_bytes"][end] for part in answer["parts"]}
        reserved = answer["total_bytes"][end] - parts["CUDA context"]
        assert reserved == pytest.approx(answer["peak_reserved_bytes"][end])
        inside = sum(parts.values()) - parts["CUDA context"] - parts["fragmentation"]
        assert inside == pytest.approx(answer["peak_allocated_bytes"][end])
    assert set(answer["max_batch"]) == {"t4", "l4"}
    assert answer["max_batch"]["l4"] > answer["max_batch"]["t4"] > 32
    parts = {part["name"]: part["size_bytes"]["expected"] for part in answer["parts"]}
    # the network's convolutions, biases, norms and linear layer, in fp32; 32 images of 3·224² floats
    assert parts["weights"] == 4 * (64 * 27 + 128 * 576 + 256 * 1152 + (64 + 128 + 256) * 3 + 2570)
    assert parts["inputs"] == 32 * 3 * 224 * 224 * 4
    assert answer["peak_op"].startswith("aten.")


def test_what_does_not_fit_exits_with_1_and_advises(run: Run, net_trace: Path) -> None:
    result = run("memory", net_trace, "--batch", "20000", "--gpu", "t4")
    assert result.exit_code == 1
    assert "does not fit" in result.stdout
    assert "instead of 20000" in result.stdout


def test_the_drawing_is_an_svg(run: Run, net_trace: Path, tmp_path: Path) -> None:
    path = tmp_path / "live.svg"
    result = run("memory", net_trace, "--batch", "2", "--plot", path)
    assert result.exit_code == 0, result.stderr
    root = ElementTree.fromstring(path.read_text())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "2" in root.find("{http://www.w3.org/2000/svg}title").text


def test_the_rule_of_thumb_stands_beside_on_request(run: Run, net_trace: Path) -> None:
    assert "Rule of thumb" not in run("memory", net_trace).stdout
    assert "It frees no output" in run("memory", net_trace, "--rule-of-thumb").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--batch", "0"], "at least 1"),
        (["--batch", str(2**62)], "no device can hold"),
        (["--batch", "9" * 30], "no device can hold"),
        (["--gpu", "h101"], "unknown GPU 'h101'"),
        (["--train"], "no recording"),
        (["--checkpointing"], "--train"),
        (["--gpus", "2", "--sharding", "zero9"], "unknown sharding"),
        (["--gpus", "2", "--sharding", "zero1"], "--train"),
    ],
)
def test_bad_input_is_one_sentence(run: Run, net_trace: Path, words: list[str], said: str) -> None:
    result = run("memory", net_trace, *words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_the_share_that_may_be_filled_holds_the_process(run: Run, net_trace: Path) -> None:
    words = ["memory", net_trace, "--gpu", "t4", "--utilization", "0.5", "--json"]
    largest = json.loads(run(*words).stdout)["max_batch"]["t4"]
    for batch, runs in ((largest, True), (largest + 1, False)):
        answer = json.loads(run(*words, "--batch", str(batch)).stdout)
        limit = answer["gpus"][0]["available_bytes"]
        assert 7 * 2**30 < limit < 7.5 * 2**30  # half of the 15 GiB that a T4 leaves usable, less than that printed
        assert (answer["total_bytes"]["expected"] <= limit) is runs
        assert answer["gpus"][0]["status"] != ("does not fit" if runs else "fits")


def test_training_with_shares_of_several_gpus(run: Run) -> None:
    words = ["memory", NET, "--input", "x=3x64x64", "--batch", "4", "--train", "--gpus", "4", "--json"]
    result = run(*words)
    assert result.exit_code == 0, result.stderr
    answer = json.loads(result.stdout)
    jsonschema.validate(answer, SCHEMA)
    ranks = {rank["sharding"]: rank for rank in answer["ranks"]}
    assert set(ranks) == {"ddp", "zero1", "zero2", "zero3", "fsdp"}
    states = {
        name: next(part["size_bytes"]["expected"] for part in rank["parts"] if part["name"] == "optimizer states")
        for name, rank in ranks.items()
    }
    assert states["zero1"] == pytest.approx(states["ddp"] / 4, rel=0.01)


def test_every_format(run: Run, net_trace: Path) -> None:
    assert run("memory", net_trace, "--gpu", "l4", "--format", "csv").stdout.startswith("model,gpu,batch,part,")
    assert "| weights |" in run("memory", net_trace, "--gpu", "l4", "--format", "md").stdout


@pytest.mark.slow
def test_a_trace_file_needs_neither_torch_nor_pandas(net_trace: Path) -> None:
    code = (
        "import sys; from capplan.cli.main import app\n"
        "try: app(['memory', sys.argv[1], '--batch', '32', '--gpu', 'l4'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'torch', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code, net_trace], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_largest_batch_is_that_of_plan(run: Run, net_trace: Path) -> None:
    """Both fill the same share of usable memory by default: reported for one GPU, estimated for the other."""
    gpus = ("--gpu", "t4", "--gpu", "jetson-orin-nano-8gb")
    answer = json.loads(run("memory", net_trace, *gpus, "--json").stdout)
    plan = json.loads(run("plan", net_trace, *gpus, "--batch", "1", "--json").stdout)
    planned = {fit["gpu"]: fit["max_batch"] for fit in plan["fits"]}
    assert answer["max_batch"] == planned
    assert len(planned) == 2


def test_the_largest_batch_is_told_with_what_is_certain(run: Run) -> None:
    words = ("memory", NET, "--input", "x=3x32x32", "--gpu", "t4", "--batch", 4)
    [answer] = json.loads(run(*words, "--format", "json").stdout)["gpus"]
    assert 0 < answer["certain_batch"] < answer["max_batch"]
    assert f"{answer['certain_batch']}, up to {answer['max_batch']}" in run(*words).stdout
    for batch, status in ((answer["certain_batch"], "fits"), (answer["max_batch"], "borderline")):
        [again] = json.loads(run(*words[:-1], batch, "--format", "json").stdout)["gpus"]
        assert again["status"] == status


def test_an_engines_memory_is_worked_out_without_a_training_step(run: Run) -> None:
    words = ("memory", NET, "--input", "x=3x32x32", "--batch", 8, "--framework", "tensorrt", "--precision", "int8")
    result = run(*words, "--gpu", "l4")
    assert result.exit_code == 0, result.stderr
    assert "int8, TensorRT on l4" in result.stdout.splitlines()[0]


def test_the_rule_of_thumb_fills_80_percent_and_chooses_the_smallest_cards_that_hold_it() -> None:
    cards = [gpu(name, memory_gib=size) for name, size in {"small": 8, "one": 11, "two": 11, "big": 16}.items()]
    # 1 GiB of inputs, 5 of outputs and 2 of parameters over 0.8 are 10 GiB: 8 are too few, 11 the next
    rule = RuleOfThumb(input_bytes=GIB, output_bytes=5 * GIB, parameter_bytes=2 * GIB, gpus=tuple(cards))
    assert rule.total_bytes == 10 * GIB
    assert [card.id for card in rule.chosen] == ["one", "two"]


def test_the_rule_of_thumb_keeps_its_own_share_whatever_may_be_filled(run: Run, net_trace: Path) -> None:
    said = run("memory", net_trace, "--rule-of-thumb", "--utilization", "0.95").stdout
    assert "over 80.0 % of a card's memory" in said
    assert "It would choose the smallest that holds that, " in said
