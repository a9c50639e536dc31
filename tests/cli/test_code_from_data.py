"""Reading data runs nothing that the data names, and nothing in data reaches the terminal as a command to it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import capplan
from capplan.app.sweep.results import request_of
from capplan.errors import UsageError
from tests.cli.conftest import Run

pytestmark = pytest.mark.slow

HEAD = "model,gpu,framework,torch,precision,layout,task,batch,input_size,latency_ms\n"
BAD = "\x1b[31m\x9b2J\x07\u202e"


@pytest.fixture
def evil(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python file and a package that leave a mark where they are imported; the mark's path."""
    mark = tmp_path / "mark"
    code = f"from pathlib import Path\nfrom torch import nn\nPath({str(mark)!r}).touch()\n"
    code += "class Net(nn.Conv2d):\n    def __init__(self):\n        super().__init__(3, 3, 1)\n"
    (tmp_path / "evil.py").write_text(code)
    for name in ("llm", "pipeline"):  # what stands before a colon elsewhere names a module here
        (tmp_path / f"{name}.py").write_text(code)
    (tmp_path / "evilpackage").mkdir()
    (tmp_path / "evilpackage" / "__init__.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return mark


def row(model: str) -> str:
    return f"{model},rtx-3090,eager,2.5,fp32,nchw,infer,8,3x64x64,12.5\n"


@pytest.mark.parametrize(
    "model", ["evil.py:Net", "evilpackage:Net", "./evil.py:Net", "evil.py", "evil:a.trace.json --grad"]
)
@pytest.mark.parametrize("words", [("validate", "m.csv"), ("calibrate", "fit", "m.csv", "-o", "x.yaml")])
def test_a_row_runs_no_code(model: str, words: tuple[str, ...], evil: Path, run: Run) -> None:
    Path("m.csv").write_text(HEAD + row(model))
    result = run(*words)
    assert result.exit_code == 2
    assert not evil.exists()
    assert "names code, which is not run for a row of data; add --allow-code" in result.output


def test_a_row_runs_code_where_that_is_allowed(evil: Path, run: Run) -> None:
    Path("m.csv").write_text(HEAD + row("evil.py:Net") + row("evilpackage:Net"))
    result = run("validate", "m.csv", "--allow-code", "--json")
    assert result.exit_code == 0, result.output
    assert evil.exists()
    assert json.loads(result.stdout)["skipped"] == []


def test_other_rows_are_judged_beside_a_skipped_one(evil: Path, run: Run, net_trace: Path) -> None:
    Path("net.trace.json").write_bytes(net_trace.read_bytes())
    Path("m.csv").write_text(HEAD + row("evil.py:Net") + row("net.trace.json"))
    result = run("validate", "m.csv", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [each["reason"][:27] for each in found["skipped"]] == ["model 'evil.py:Net' names c"]
    assert found["overall"]["n"] == 1
    assert not evil.exists()


CODE = (
    "evil.py:Net", "./evil.py:Net", "evilpackage:Net", "evil.py", "evil:Net.trace.json", "llm:Net", "pipeline:Net",
    "other:evil.py:Net",
)  # fmt: skip
"""Words that name code in the place of a model: files, modules, and words that look like something else."""
REFUSED = "names code, which is not run for a file of data; add --allow-code if you trust it."
ASKED = ("--gpu", "l4", "--batch", "1")


def pipeline_of(**part: object) -> str:
    return json.dumps({"parts": {"one": {"inputs": ["x=Nx3x8x8"], **part}}})


def check_refused(words: tuple[str, ...], evil: Path, run: Run) -> None:
    result = run(*words)
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert " ".join(result.stderr.split()).endswith(REFUSED)
    assert result.stderr.count("capplan: ") == 1
    assert not evil.exists()


@pytest.mark.parametrize("command", ["plan", "estimate", "memory", "report"])
@pytest.mark.parametrize(
    "part",
    [*({"model": words} for words in CODE), {"model": "resnet18", "prepare": ["fuse", "evil.py:prep"]}],
    ids=str,
)
def test_no_field_of_a_pipeline_file_runs_code(part: dict[str, object], command: str, evil: Path, run: Run) -> None:
    Path("x.pipeline.yaml").write_text(pipeline_of(**part))
    check_refused((command, "x.pipeline.yaml", *ASKED), evil, run)


def test_code_of_a_pipeline_file_in_another_folder_is_found_there_and_not_run(evil: Path, run: Run) -> None:
    Path("far").mkdir()
    Path("evil.py").rename("far/evil.py")
    Path("far/x.pipeline.yaml").write_text(pipeline_of(model="evil.py:Net"))
    check_refused(("plan", "far/x.pipeline.yaml", *ASKED), evil, run)


@pytest.mark.parametrize("ask", [capplan.plan, capplan.estimate, capplan.memory, capplan.make_report])
def test_no_pipeline_file_runs_code_in_python(ask: Callable[..., object], evil: Path) -> None:
    Path("x.pipeline.yaml").write_text(pipeline_of(model="evil.py:Net"))
    batch: dict[str, object] = {"batch": 1} if ask is capplan.memory else {"batches": [1]}
    with pytest.raises(UsageError, match="names code, which is not run for a file of data; add allow_code"):
        ask("x.pipeline.yaml", gpus=["l4"], **batch)
    assert not evil.exists()


def test_a_pipeline_file_runs_code_where_that_is_allowed(evil: Path, run: Run) -> None:
    Path("x.pipeline.yaml").write_text(pipeline_of(model="evil.py:Net"))
    result = run("plan", "x.pipeline.yaml", *ASKED, "--allow-code", "--json")
    assert result.exit_code == 0, result.output
    assert evil.exists()


def test_what_is_typed_runs_without_being_allowed(evil: Path, run: Run) -> None:
    result = run("plan", "evil.py:Net", "--input", "x=3x8x8", *ASKED, "--json")
    assert result.exit_code == 0, result.output
    assert evil.exists()


@pytest.mark.parametrize("words", CODE)
def test_no_service_of_a_load_file_runs_code(words: str, evil: Path, run: Run) -> None:
    service = {"name": "one", "model": words, "service": {"peak": "1/s", "latency": "1s"}}
    Path("x.load.yaml").write_text(json.dumps({"services": [service]}))
    check_refused(("report", "--load", "x.load.yaml", *ASKED), evil, run)


def test_a_service_of_a_load_file_runs_no_code_of_a_pipeline(evil: Path, run: Run) -> None:
    Path("x.pipeline.yaml").write_text(pipeline_of(model="evil.py:Net"))
    service = {"name": "one", "model": "x.pipeline.yaml", "service": {"peak": "1/s", "latency": "1s"}}
    Path("x.load.yaml").write_text(json.dumps({"services": [service]}))
    check_refused(("report", "--load", "x.load.yaml", *ASKED), evil, run)


@pytest.mark.parametrize(
    "entry",
    [
        *(words for words in CODE if not words.startswith(("llm:", "pipeline:"))),  # names of their own in a sweep
        *({"model": words} for words in ("evil.py:Net", "evilpackage:Net")),
        {"model": "resnet18", "inputs_from": "evil.py:inputs"},
        {"model": "resnet18", "prepare": ["evil.py:prep"]},
        "x.pipeline.yaml",
        "models.txt",
    ],
    ids=str,
)
def test_no_model_of_a_sweep_runs_code(entry: object, evil: Path, run: Run) -> None:
    Path("x.pipeline.yaml").write_text(pipeline_of(model="evil.py:Net"))
    Path("models.txt").write_text("resnet18\nevil.py:Net\n")
    Path("sweep.yaml").write_text(json.dumps({"models": [entry], "gpus": ["l4"], "workloads": [{"batch": 1}]}))
    check_refused(("sweep", "sweep.yaml", "-o", "results"), evil, run)
    assert not Path("results").exists()


@pytest.mark.parametrize("label", ["evil.py:Net", "resnet18 --inputs-from evil.py:f", "resnet18 --prepare evil.py:p"])
def test_no_row_of_a_finished_sweep_runs_code(
    label: str, evil: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("capplan.app.sweep.results.is_sweep", lambda words: words == "swept")
    monkeypatch.setattr("capplan.app.sweep.results.swept_models", lambda _folder: ((request_of(label),), ("l4",)))
    check_refused(("report", "swept", *ASKED), evil, run)


def test_no_row_of_measured_pipelines_runs_code(evil: Path, run: Run) -> None:
    Path("x.pipeline.yaml").write_text(pipeline_of(model="evil.py:Net"))
    Path("m.csv").write_text("model,gpu,batch,batch_latency_s\nx.pipeline.yaml,l4,1,2.0\n")
    result = run("validate", "m.csv")
    assert result.exit_code == 2, result.output
    assert not evil.exists()
    allowed = run("validate", "m.csv", "--allow-code")
    assert allowed.exit_code == 0, allowed.output
    assert evil.exists()


@pytest.mark.parametrize("setting", ["model", "inputs-from", "prepare", "allow-code"])
def test_no_setting_of_a_configuration_file_names_or_allows_code(setting: str, evil: Path, run: Run) -> None:
    value = "true" if setting == "allow-code" else '"evil.py:Net"'
    Path("capplan.toml").write_text(f"{setting} = {value}\n")
    result = run("plan", "resnet18", *ASKED)
    assert result.exit_code == 2, result.output
    assert setting in result.stderr
    assert not evil.exists()


def test_a_line_of_measure_runs_no_code(evil: Path, run: Run) -> None:
    point = {"schema_version": 1}
    made = run("measure", "evil.py:Net", "--input", "3x8x8", "--device", "cpu", "--repetitions", "2", "-o", "m.jsonl")
    assert made.exit_code == 0, made.output
    assert json.loads(Path("m.jsonl").read_text())["schema_version"] == point["schema_version"]
    evil.unlink()
    result = run("validate", "m.jsonl")
    assert result.exit_code == 2
    assert "names code" in result.output
    assert not evil.exists()


def poisoned(document: object) -> object:
    if isinstance(document, dict):
        return {key: poisoned(value) for key, value in document.items()}
    return document


@pytest.fixture
def poisoned_trace(net_trace: Path, tmp_path: Path) -> Path:
    document = json.loads(net_trace.read_text())
    document.pop("sha256", None)
    document["name"] = f"Net{BAD}"
    document["class_name"] = f"Class{BAD}"
    document["provenance"]["notes"] = [f"note{BAD}"]
    document["inputs"][0][0] = f"x{BAD}"
    for recording in document["recordings"]:
        recording["modules"] = [f"{each}{BAD}" for each in recording["modules"]]
        recording["assumed_values"] = [[f"guess{BAD}", 1]]
    path = tmp_path / "bad.trace.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("format_", ["table", "md", "csv", "json"])
@pytest.mark.parametrize(
    "command",
    [
        ("plan", "--gpu", "l4", "--batch", "8"),
        ("analyze",),
        ("memory", "--gpu", "l4"),
        ("estimate", "--gpu", "l4", "--batch", "8"),
    ],
)
def test_escape_codes_of_a_trace_never_reach_an_answer(
    command: tuple[str, ...], format_: str, poisoned_trace: Path, run: Run
) -> None:
    result = run(command[0], poisoned_trace, *command[1:], "--format", format_)
    assert result.exit_code in (0, 1), result.output
    assert not set(BAD) - set("[31m2J") & set(result.stdout + result.stderr)


@pytest.mark.parametrize("suffix", [".html", ".md", ".csv", ".json", ".xlsx", ".pdf"])
def test_escape_codes_never_reach_a_report(suffix: str, poisoned_trace: Path, run: Run, tmp_path: Path) -> None:
    path = tmp_path / f"report{suffix}"
    words = ["--gpu", "l4", "--batch", "8", "--title", f"title{BAD}\ud800", "-o", path]
    result = run("report", poisoned_trace, *words)
    assert result.exit_code == 0, result.output
    content = path.read_bytes()
    assert b"\x1b[31m" not in content
    if suffix not in (".xlsx", ".pdf"):
        assert "\x9b" not in content.decode()
        assert "\u202e" not in content.decode()


@pytest.mark.parametrize(
    "words", [f"x{BAD}", f"a{BAD}/b", f"{BAD}foo.py:Net", f"{BAD}.trace.json", f"timm:{BAD}", f"torchvision:x{BAD}"]
)
def test_escape_codes_of_arguments_never_reach_a_message(words: str, run: Run) -> None:
    result = run("analyze", words)
    assert result.exit_code == 2
    assert result.stderr.startswith("capplan: ")
    assert not set("\x1b\x9b\x07\u202e") & set(result.stdout + result.stderr)


def real(*words: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "capplan", *words], capture_output=True, env={**os.environ, **environment}, check=False
    )


def test_an_ascii_terminal_gets_the_nearest_ascii(net_trace: Path) -> None:
    ascii_only = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    done = real("estimate", str(net_trace), "--gpu", "l4", "--batch", "1,2", **ascii_only)
    assert done.returncode == 0, done.stderr
    assert b" us " in done.stdout
    assert done.stdout.isascii()


def test_a_closed_standard_output_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import os, sys; os.close(1); os.execv(sys.executable, "
         "[sys.executable, '-m', 'capplan', 'gpus'])"],
        stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (
        2,
        "capplan: cannot write the answer: standard output is closed; add -o FILE.\n",
    )
