"""Windows, macOS and a Linux without /proc: every module is imported, every question answered as on this machine.

`other_systems/sitecustomize.py` takes from capplan, and from the processes that it starts, what a system lacks. The
streams are in the encoding of a western Windows and the locale is plain ASCII, so that a file or a word that is read or
written in the system's encoding fails.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import capplan
from capplan.core.named_code import before_colon, names_code, place_and_name
from tests.cli.conftest import NET
from tests.seen import at_least

ROOT = Path(capplan.__file__).parents[1]
SYSTEMS = ["win32", pytest.param("darwin", marks=pytest.mark.nightly), pytest.param("linux", marks=pytest.mark.nightly)]
ASKED = [
    ["gpus", "--format", "json"],
    ["plan", NET, "--input", "x=3x32x32", "--gpu", "l4", "--batch", "8", "--format", "json"],
    ["report", NET, "--input", "x=3x32x32", "--gpu", "l4", "--batch", "8", "-o", "report.md"],
    ["llm", "plan", "qwen3-8b", "--rate", "1", "--gpu", "l4", "--format", "json"],
    ["llm", "train", "plan", "llama-3.1-8b-instruct", "--method", "qlora", "--gpu", "rtx-4090", "--format", "json"],
    ["prices", "--format", "json"],
    ["llm", "plan", "qwen3-8b", "--rate", "1", "--gpu", "l4"],
]
ASK_ALL = """
import importlib, json, pkgutil, runpy, sys
import capplan
from capplan.cli.main import main
names = [found.name for found in pkgutil.walk_packages(capplan.__path__, "capplan.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
print(len(names), flush=True)
for words in json.loads(sys.argv[1]):
    sys.argv[:] = ["capplan", *words]
    try:
        main()
    except SystemExit as end:
        assert not end.code, (words, end.code)
    sys.stdout.flush()
    print("\\f", end="", flush=True)
"""


def surroundings(system: str, folder: Path) -> dict[str, str]:
    shown = ROOT / "tests" / "faults" / "other_systems"
    plain = {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "cp1252"}
    path = os.pathsep.join([str(shown), str(ROOT)])
    # a cache for each system, because what one has kept another would not make
    own = {"CAPPLAN_TEST_SYSTEM": system, "PYTHONPATH": path, "CAPPLAN_CACHE": str(folder / f"cache {system}")}
    return {**os.environ, **(plain if system else {"PYTHONIOENCODING": "utf-8"}), **own}


def answers(system: str, folder: Path) -> list[str]:
    """Ask all in one process, and return what it printed, without ages and with the nearest ASCII of every sign."""
    folder.mkdir()
    asked = [sys.executable, "-c", ASK_ALL, json.dumps(ASKED)]
    done = subprocess.run(asked, cwd=folder, env=surroundings(system, folder), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
    count, _, printed = done.stdout.decode("cp1252" if system else "utf-8").partition("\n")
    at_least(600, range(int(count)))
    told = printed.replace("\r\n", "\n").split("\f")[:-1]
    assert len(told) == len(ASKED)
    return [*told, (folder / "report.md").read_text(encoding="utf-8")]


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_module_is_imported_and_every_question_answered_alike(system: str, tmp_path: Path) -> None:
    here, there = answers("", tmp_path / "here"), answers(system, tmp_path / "there")
    for words, one, other in zip([*ASKED, ["the report"]], here, there, strict=True):
        if words[-1] == "json":
            assert json.loads(one) == json.loads(other), words
        else:  # a sign that cp1252 lacks is written in ASCII
            assert re.findall(r"\d+", one) == re.findall(r"\d+", other), words


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("traces", [0, pytest.param(1, marks=pytest.mark.nightly)])
def test_the_service_answers(system: str, traces: int, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {**surroundings(system, tmp_path), "XDG_STATE_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    words = [sys.executable, "-m", "capplan", "serve", "--port", str(port), "--traces", str(traces)]
    with (tmp_path / "log").open("wb") as log:
        service = subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=log, stderr=log)
        try:
            address = f"http://127.0.0.1:{port}"
            wait_for(f"{address}/healthz", service)
            question = {"model": "qwen3-8b", "rate_per_s": 1, "gpus": ["l4"]}
            assert post(f"{address}/api/v1/llm/plan", question)["schema_version"] == 1
            if traces:
                assert post(f"{address}/api/v1/plan", {"model": "resnet18", "gpus": ["l4"], "batches": [8]})["fits"]
        finally:
            service.terminate()
            service.wait()
    told = (tmp_path / "log").read_text(encoding="cp1252")
    assert "work with less: memory is not limited" in told


def wait_for(address: str, service: "subprocess.Popen[bytes]") -> None:
    for _ in range(1200):
        assert service.poll() is None
        try:
            urllib.request.urlopen(address, timeout=60).close()
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the service did not start")


def post(address: str, question: dict[str, Any]) -> Any:
    content = json.dumps(question).encode()
    request = urllib.request.Request(address, data=content, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as response:
        return json.load(response)


WORKERS = """
import sys, tempfile
from capplan.processes.supervisor import Death, Worker, WorkerDiedError
from capplan.processes.system import lacks
from tests.processes.test_supervisor import make_worker_of
worker = Worker(make_worker_of, 7)
def death(what, amount, **limits):
    try:
        worker.call((what, amount), **limits)
    except WorkerDiedError as died:
        return died.death.value
secret, pid = worker.call(("nothing", 0))
assert secret == 7
print(death("sleep", 60, time_s=0.2), death("exit", 3), death("exit", 0), worker.call(("nothing", 0))[0], lacks())
worker.close()
assert not worker.is_alive
"""


@pytest.mark.parametrize("system", SYSTEMS)
def test_workers_are_started_timed_and_replaced(system: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WORKERS], env=surroundings(system, tmp_path), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("time crash crash 7 On this system processes work with less: memory is not limited")
    assert ("loads its libraries anew" in done.stdout) == (system == "win32")


@pytest.mark.parametrize(
    ("words", "split", "place"),
    [
        (r"C:\models\net.py:Net", (r"C:\models\net.py", ":", "Net"), (r"C:\models\net.py", "Net")),
        ("d:/models/net.onnx", ("d:/models/net.onnx", "", ""), ("", "d:/models/net.onnx")),
        (r"hf:C:\m\config.json", ("hf", ":", r"C:\m\config.json"), ("hf:C", r"\m\config.json")),
        ("net.py:Net", ("net.py", ":", "Net"), ("net.py", "Net")),
        ("m:Net", ("m", ":", "Net"), ("m", "Net")),
        ("resnet50", ("resnet50", "", ""), ("", "resnet50")),
    ],
)
def test_a_drive_is_part_of_a_path(words: str, split: tuple[str, str, str], place: tuple[str, str]) -> None:
    assert before_colon(words) == split
    assert place_and_name(words) == place


def test_a_file_on_a_drive_is_data_and_its_class_is_code() -> None:
    assert not names_code(r"C:\m\net.onnx")
    assert names_code(r"C:\m\net.py:Net")
    assert names_code(r"C:\m\net.py")


@pytest.mark.parametrize("kind", ["trace", "code"])
def test_a_path_of_windows_names_a_model(kind: str, net_trace: Path, tmp_path: Path) -> None:
    """Here the whole path is the name of one file, so that it can be opened on this machine, too."""
    name = r"C:\models\net.trace.json" if kind == "trace" else r"C:\models\net.py"
    shutil.copy(net_trace if kind == "trace" else NET.rpartition(":")[0], tmp_path / name)
    words = [name] if kind == "trace" else [f"{name}:Net", "--input", "x=3x32x32"]
    asked = [sys.executable, "-m", "capplan", "plan", *words, "--gpu", "l4", "--batch", "8", "--format", "json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(asked, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["fits"]
