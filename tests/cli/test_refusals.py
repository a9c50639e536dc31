"""Ordinary and hostile input that once ended in a traceback, a hang or nonsense: one sentence and exit code 2."""

import zipfile
from pathlib import Path

import pytest

from tests.cli.conftest import NET, Run
from tests.limits import within

LONG = "x" * 300
MANY = "9" * 5000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("memory", "TRACE", "--gpu", "l4", "--batch", "1073741824"), "needs more than 256 TiB"),
        (("plan", "TRACE", "--gpu", "l4", "--batch", "1..1099511627776"), "needs more than 256 TiB"),
        (("report", "TRACE", "--gpu", "l4", "-b", "1099511627776"), "needs more than 256 TiB"),
        (("plan", "TRACE", "--gpu", "l4", "--batch", MANY), "is not a batch"),
        (("plan", "TRACE", "--gpu", "l4", "--framework", "openvino"), "OpenVINO is not estimated"),
        (("compare", "TRACE", "--gpu", "l4", "--framework", "openvino"), "OpenVINO is not estimated"),
        (("plan", "TRACE", "--gpu", "l4", "--framework", "vllm"), "capplan llm plan"),
        (("plan", "TRACE", "--gpu", "l4", "--batch", "٣"), "is not a batch"),
        (("plan", "TRACE", "--gpu", "l4", "--torch", f"2.{MANY}"), "is not a PyTorch version"),
        (("plan", "TRACE", "--gpu", "l4", "--samples", MANY[:400]), "--samples"),
        (("plan", "TRACE", "--gpu", "l4", "--samples", "9", "--epochs", "inf"), "--epochs"),
        (("plan", "TRACE", "--gpu", "l4", "--min-throughput", "inf"), "--min-throughput"),
        (("plan", "TRACE", "--gpu", "l4", "--max-latency", f"{MANY}ms"), "too large"),
        (("analyze", NET, "--input-size", "3x1000000000000x1000000000000"), "2^32 elements"),
        (("analyze", NET, "--input", f"x=3x{MANY}x1"), "digits is too large"),
        (("analyze", NET, "--input", "x=3x999999999x999999999"), "2^32 elements"),
        (("analyze", NET, "--seq-len", "1000000000"), "at most 16,777,216 tokens"),
        (("plan", "TRACE", "--specs", LONG), "--specs: expected the path of a file, with names of at most 255 bytes"),
        (("llm", "memory", f"hf:{LONG}", "--gpu", "l4"), "unknown language model"),
        (("analyze", LONG), "unknown model"),
        (("analyze", f"{LONG}.py:Net"), "there is no file"),
        (("analyze", f"hf:{LONG}"), "unknown transformers architecture"),
        (
            ("analyze", "hf:bert-base-uncased"),
            "did you mean bert? A model of the Hub is named with its organisation, as hf:ORG/NAME.",
        ),
        (("analyze", f"a:{LONG}"), "no module a"),
        (("analyze", "a\0b"), "unknown model"),
        (("analyze", "a\0b.trace.json"), "cannot read"),
        (("analyze", NET, "--inputs-from", f"{LONG}.py:f"), "no file"),
        (("validate", f"{LONG}.csv"), "expected the path of a file, with names of at most 255 bytes"),
        (("plan", "TRACE", "--gpu", "l4", "-o", f"{LONG}.json"), "cannot write"),
    ],
)
def test_it_is_one_sentence_at_once(words: tuple[str, ...], said: str, run: Run, net_trace: Path) -> None:
    with within(cpu_s=20):  # importing a model library takes some of them
        result = run(*(str(net_trace) if word == "TRACE" else word for word in words))
    assert (result.exit_code, type(result.exception)) == (2, SystemExit), result.exception
    assert said in result.stderr


@pytest.mark.zoo
def test_an_option_that_is_given_twice_is_refused(run: Run, net_trace: Path) -> None:
    result = run("plan", net_trace, "--batch", "32", "--gpu", "l4", "--batch", "max")
    assert result.exit_code == 2
    assert result.stderr.strip() == "capplan: --batch is given twice."
    conditions = ["--where", "memory >= 1 GiB", "--where", "memory <= 24 GiB"]  # one that may be repeated
    assert run("plan", net_trace, "--batch", "8", "--gpu", "l4", *conditions).exit_code == 0


def test_an_unknown_tag_of_timm_is_named(run: Run) -> None:
    result = run("analyze", "timm:resnet50.foo")
    assert result.exit_code == 2
    assert "unknown timm model 'resnet50.foo'" in result.stderr
    assert "resnet50.a1_in1k" in result.stderr


@pytest.mark.parametrize("more", [(), ("--sharding", "replicas"), ("--sharding", "fsdp")])
@pytest.mark.parametrize("gpus", ["2", "8"])
def test_inference_is_shared_between_gpus(gpus: str, more: tuple[str, ...], run: Run, net_trace: Path) -> None:
    result = run("memory", net_trace, "--gpu", "l4", "--gpus", gpus, *more)
    assert result.exit_code == 0, result.exception
    assert "replicas" in result.stdout or "fsdp" in result.stdout


@pytest.mark.parametrize(
    ("load", "said"),
    [
        ("service: {peak: 10/s, latency: 50 ms}\nassumptions: {years: 1000000}\n", "assumptions.years"),
        ("service: {peak: 10/s, latency: 50 ms}\nassumptions: {years: 1.0e+300}\n", "assumptions.years"),
        (f"service: {{peak: 10/s, latency: 1{'0' * 400} ms}}\n", "too large"),
        ("service: {peak: 1.0e-300, latency: 50 ms}\n", "service.peak"),
        ("job: {samples: 4.9e-324, deadline: 6 h}\n", "job.samples"),
        ("job: {samples: 1.0e+300, deadline: 6 h}\n", "job.samples"),
    ],
)
def test_a_load_beyond_measure_is_refused_by_its_key(
    load: str, said: str, run: Run, net_trace: Path, tmp_path: Path
) -> None:
    path = tmp_path / "load.yaml"
    path.write_text(load)
    result = run("report", net_trace, "--gpu", "l4", "--batch", "8", "--load", path)
    assert (result.exit_code, type(result.exception)) == (2, SystemExit), result.exception
    assert said in result.stderr


@pytest.mark.parametrize("value", ["1.0e+400", "1.0e+308"])
def test_a_spec_beyond_measure_is_refused_by_its_key(value: str, run: Run, tmp_path: Path) -> None:
    sheet = run("gpus", "new", "--from", "l4").stdout
    assert "memory:" in sheet
    lines = [
        f"memory: {{value: {value}, unit: GiB}}" if line.startswith("memory:") else line for line in sheet.split("\n")
    ]
    path = tmp_path / "own-l4.yaml"
    path.write_text("\n".join(lines))
    result = run("gpus", "validate", path)
    assert (result.exit_code, type(result.exception)) == (2, SystemExit), result.exception
    assert f"memory.value: {value} is out of range" in result.stderr


@pytest.mark.parametrize("program", [b"[]", b"null", b"[" * 200_000, b'{"graph_module": 5}', b"\xff", b"1" * 5000])
def test_an_exported_program_that_is_none_is_refused(program: bytes, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "bad.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("bad/models/model.json", program)
    result = run("analyze", path)
    assert (result.exit_code, type(result.exception)) == (2, SystemExit), result.exception
    assert "bad.pt2" in result.stderr
