"""Whatever a model's file, a query, a sweep file or an upload asks for: an answer or a refusal, and bounded effort."""

import gzip
import io
import json
import shutil
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from typer.testing import CliRunner

from capplan.app.sweep.expand import expand_sweep
from capplan.app.sweep.query import run_query
from capplan.app.sweep.request import SweepRequest
from capplan.app.sweep.run import sweep
from capplan.app.sweep.tables import plain_rows, read_parquet
from capplan.cli.main import app
from capplan.errors import CapplanError
from capplan.probe.inputs.grammar import parse_request
from capplan.probe.target.resolve import load_target
from capplan.probe.trace.tracer import trace_target
from capplan.serve.planning.files import Uploads
from capplan.verbs.llm.load_file import read_load_file
from capplan.verbs.sweep_file import read_sweep_file
from tests.app.sweep.conftest import make_request
from tests.fuzz.conftest import Check, Watch
from tests.fuzz.mutations import as_json, as_yaml, bent, damaged, few, many
from tests.limits import within

pytestmark = pytest.mark.slow

LONGEST_S = 20.0
"""Processor time that no case comes near, whatever the machine: the budget of one file is a second's work. [s]"""

MOST_BYTES = 600e6
"""Memory above the start that no case comes near. [bytes]"""

Folders = pytest.TempPathFactory


@contextmanager
def bounded(watch: Watch, folder: Path) -> Iterator[None]:
    """Hold a case to the rules: nothing started, nothing written elsewhere, no long work."""
    watch.allowed, watch.seen = folder, []
    try:
        with within(cpu_s=LONGEST_S, grown_bytes=MOST_BYTES):
            yield
    finally:
        watch.allowed = None
    assert not watch.seen, watch.seen


def read_or_refused(read: Callable[[], Any]) -> None:
    refusal = ""
    try:
        read()
    except CapplanError as error:
        refusal = str(error)
    assert "Traceback" not in refusal
    assert len(refusal) < 4000


def trace(path: Path, **options: Any) -> Any:
    return trace_target(load_target(str(path), request=parse_request(**options)))


def replaced(path: Path, made: Path, change: Callable[[str, bytes], bytes]) -> Path:
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(made, "w") as target:
        for name in source.namelist():
            target.writestr(name, change(name, source.read(name)))
    return made


@pytest.fixture(scope="module")
def archive(tmp_path_factory: Folders) -> Path:
    path = tmp_path_factory.mktemp("script") / "net.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(nn.Sequential(nn.Linear(8, 4))), str(path))
    trace(path, inputs=["input=8"])
    return path


VALUES = ["1", "0", "-1", "3.5", "'a'", "None", "True", "input", "l", "t", "9999999", "[1]", "(1, 2)", "{}", "[l, l]"]
FUNCTIONS = [
    "torch.add", "torch.mul", "torch.append", "torch.copy", "torch.cat", "torch.join", "torch.format", "torch.str",
    "torch.eq", "torch.insert", "torch.slice", "torch.pow", "torch.list", "torch.sorted", "torch.len", "torch.zeros",
    "torch.ones", "torch.expand", "torch.repeat", "torch.clone", "torch.tensor", "torch.new_ones", "torch.arange",
    "ops.prim.rangelist", "ops.prim.max", "ops.prim.RaiseException", "torch.from_file", "torch.relu",
    "torch.__getitem__",
]  # fmt: skip
calls = st.builds(
    lambda function, values: f"{function}({', '.join(values)})",
    st.sampled_from(FUNCTIONS),
    st.lists(st.sampled_from(VALUES), max_size=3),
)
lines = st.builds(lambda name, call: f"{name} = {call}", st.sampled_from(["l", "t", "u"]), calls)
grown = st.sampled_from(["l = [l, l]", "t = (t, t)", "torch.append(l, l)", "l = torch.add(l, l)"])
loops = st.builds(
    lambda rounds, body: f"for i in range({rounds}):\n      {body}",
    st.sampled_from([3, 1000, 400_000]),
    st.one_of(lines, grown),
)
forwards = st.lists(st.one_of(lines, grown, loops), min_size=1, max_size=8)


@given(body=forwards)
@many
def test_any_forward_of_torchscript_is_run_or_refused(
    body: list[str], archive: Path, watch: Watch, tmp_path_factory: Folders
) -> None:
    folder = tmp_path_factory.getbasetemp()
    text = "\n    ".join(["l = [1]", "t = (1,)", *body])

    def change(name: str, content: bytes) -> bytes:
        if not name.endswith(".py") or b"input: Tensor" not in content:
            return content
        head, _, rest = content.decode().partition("input: Tensor) -> Tensor:\n")
        return f"{head}input: Tensor) -> Tensor:\n    {text}\n{rest}".encode()

    path = replaced(archive, folder / "forward.pt", change)
    with bounded(watch, folder):
        read_or_refused(lambda: trace(path, inputs=["input=8"]))


OPCODES = [
    b"K\x01", b"2", b"0", b"(", b"t", b"l", b"d", b"]", b"}", b")", b"\x85", b"\x86", b"\x87", b"q\x00", b"h\x00",
    b"q\x01", b"h\x01", b"a", b"e", b"s", b"u", b"b", b"R", b"Q", b"N", b"\x88", b"cos\nsystem\n", b"c__torch__\nA\n",
    b"ctorch.jit._pickle\nbuild_intlist\n", b"X\x03\x00\x00\x00abc", b"\x8a\x09" + b"\xff" * 9,
    b"\x95" + b"\x08" + bytes(7), b"\x96" + b"\xff" * 8,
]  # fmt: skip


pickles = st.builds(
    lambda opcodes, times: b"\x80\x02" + b"".join(opcodes) * times + b".",
    st.lists(st.sampled_from(OPCODES), max_size=40),
    st.sampled_from([1, 50, 20_000]),
)


@given(content=pickles, name=st.sampled_from(["/data.pkl", "/constants.pkl"]))
@many
def test_any_pickle_is_read_or_refused(
    content: bytes, name: str, archive: Path, watch: Watch, tmp_path_factory: Folders
) -> None:
    folder = tmp_path_factory.getbasetemp()
    path = replaced(archive, folder / "pickle.pt", lambda inner, old: content if inner.endswith(name) else old)
    with bounded(watch, folder):
        read_or_refused(lambda: trace(path, inputs=["input=8"]))


@pytest.fixture(scope="module")
def exported(tmp_path_factory: Folders) -> Path:
    path = tmp_path_factory.mktemp("exported") / "net.pt2"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(nn.Sequential(nn.Linear(8, 4), nn.ReLU()).eval(), (torch.rand(2, 8),))
        torch.export.save(program, path)
    trace(path)
    return path


@given(data=st.data())
@many
def test_a_bent_program_is_replayed_or_refused(
    data: st.DataObject, exported: Path, watch: Watch, tmp_path_factory: Folders
) -> None:
    folder = tmp_path_factory.getbasetemp()
    with zipfile.ZipFile(exported) as source:
        [name] = [each for each in source.namelist() if each.endswith("models/model.json")]
        program = json.loads(source.read(name))
    content = as_json(data.draw(bent(program["graph_module"])))
    changed = json.dumps({**program, "graph_module": json.loads(content)}).encode()
    path = replaced(exported, folder / "bent.pt2", lambda inner, old: changed if inner == name else old)
    with bounded(watch, folder):
        read_or_refused(lambda: trace(path))


OPERATORS = ["Concat", "Add", "Reshape", "Expand", "Tile", "Relu", "Range", "ConstantOfShape", "Gather", "Fancy", "Pad"]
names = st.sampled_from(["x", "k", "a", "b", "c"])
nodes = st.tuples(st.sampled_from(OPERATORS), st.lists(names, min_size=1, max_size=3), st.sampled_from(["a", "b", "c"]))
sizes = st.sampled_from([1, 3, 2**20, 2**40])


@given(chosen=st.lists(nodes, min_size=1, max_size=12), doubled=st.integers(0, 40), size=sizes)
@many
def test_any_onnx_graph_is_run_or_refused(
    chosen: list[Any], doubled: int, size: int, watch: Watch, tmp_path_factory: Folders
) -> None:
    onnx = pytest.importorskip("onnx")
    folder, made = tmp_path_factory.getbasetemp(), []
    last = {"x": "x", "k": "k"}
    for level in range(doubled):
        made.append(onnx.helper.make_node("Concat", [last["k"]] * 2, [f"k{level}"], axis=0))
        last["k"] = f"k{level}"
    for index, (operator, inputs, output) in enumerate(chosen):
        options = {"axis": 0} if operator in ("Concat", "Gather") else {}
        domain = "com.example" if operator == "Fancy" else ""
        given_names = [last.get(each, "x") for each in inputs]
        made.append(onnx.helper.make_node(operator, given_names, [f"{output}{index}"], domain=domain, **options))
        last[output] = f"{output}{index}"
    tensor = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        made, "g", [tensor("x", 1, ["n", 4])], [tensor(made[-1].output[0], 1, None)],
        [onnx.helper.make_tensor("k", 7, [1], [size])],
    )  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    path = folder / "any.onnx"
    path.write_bytes(model.SerializeToString())
    with bounded(watch, folder):
        read_or_refused(lambda: trace(path))


@pytest.fixture(scope="module")
def results(traces: list[Path], tmp_path_factory: Folders) -> Path:
    output = tmp_path_factory.mktemp("sweep") / "results"
    sweep(make_request(output, [str(traces[0])], workloads=[{"batch": [1, 32]}]))
    return output


PHRASES = [
    "select", "*", "from", "sweep", "results", "where", "1", "'a'", "count(*)", "copy", "to", "'{folder}/made.csv'",
    "explain", "analyze", "(select 1)", "attach", "insert into sweep", "range(100)", "read_parquet('/etc/*')",
    "read_text('{folder}/_sweep/manifest.json')", ";", "--", "union all", "with a as (select 1)", "pragma", "set",
    "install httpfs", "create table x as", "gpu", ",", "order by 1", "limit 3", "export database '{folder}/made'",
    "drop view sweep", "call", "load",
]  # fmt: skip


@given(phrases=st.lists(st.sampled_from(PHRASES), min_size=1, max_size=10))
@many
def test_any_query_is_answered_or_refused_and_writes_nothing(phrases: list[str], results: Path, watch: Watch) -> None:
    before = {path: path.read_bytes() for path in results.rglob("*") if path.is_file()}
    sql = " ".join(phrases).replace("{folder}", str(results))
    with bounded(watch, results):
        read_or_refused(lambda: run_query(results, sql))
    assert {path: path.read_bytes() for path in results.rglob("*") if path.is_file()} == before


@given(data=st.data())
@many
def test_damaged_rows_of_results_are_read_or_refused(
    data: st.DataObject, results: Path, watch: Watch, tmp_path_factory: Folders
) -> None:
    copy = tmp_path_factory.getbasetemp() / "copied"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(results, copy)
    path = next(copy.rglob("*.parquet"))
    path.write_bytes(data.draw(damaged(path.read_bytes())))
    with bounded(watch, copy):
        read_or_refused(lambda: plain_rows(run_query(copy, "select * from sweep")))
        read_or_refused(lambda: read_parquet(path))


SWEEP = {
    "models": ["torchvision:resnet18", {"model": "hf:bert", "seq_len": 128}],
    "gpus": ["l4", {"where": "memory >= 24GiB", "segment": "data-centre"}],
    "workloads": [{"batch": [1, 32], "precision": ["fp32", "amp-fp16"], "layout": ["nchw"]}],
}


@given(data=st.data())
@many
def test_a_bent_sweep_file_is_read_or_refused(data: st.DataObject, watch: Watch, tmp_path_factory: Folders) -> None:
    folder = tmp_path_factory.getbasetemp()
    path = folder / "sweep.yaml"
    path.write_bytes(as_yaml(data.draw(bent(SWEEP))))

    def read() -> None:
        request = SweepRequest(definition=read_sweep_file(path), output=folder / "out", file=path)
        expand_sweep(request)

    with bounded(watch, folder):
        read_or_refused(read)


members = st.one_of(
    st.just(gzip.compress(b"", mtime=0)), st.just(gzip.compress(bytes(10**6), mtime=0)), st.just(bytes(1000)),
    st.binary(max_size=40),
)  # fmt: skip


@given(pieces=st.lists(members, max_size=6), times=st.sampled_from([1, 100, 20_000]))
@many
def test_any_upload_is_kept_or_refused(
    pieces: list[bytes], times: int, watch: Watch, tmp_path_factory: Folders
) -> None:
    folder = tmp_path_factory.getbasetemp()
    uploads = Uploads(folder=folder, limit_bytes=10**8)
    content = io.BytesIO(b"\x1f\x8b" * (not pieces) + b"".join(pieces) * times).getvalue()[: 16 * 2**20]
    with bounded(watch, folder):
        read_or_refused(lambda: uploads.keep(content))


LLM_LOAD = {
    "rate": 20, "input_len": 1024, "output_len": 256, "max_ttft": "500 ms", "max_tpot": "50 ms", "percentile": 99,
    "gpu": ["h100-sxm5-80gb"], "engine": ["vllm"], "tp": [1, 2], "years": 3, "growth": "10%",
}  # fmt: skip


@given(data=st.data())
@many
def test_a_bent_load_of_a_language_model_is_read_or_refused(
    data: st.DataObject, watch: Watch, tmp_path_factory: Folders
) -> None:
    folder = tmp_path_factory.getbasetemp()
    path = folder / "llm-load.yaml"
    path.write_bytes(as_yaml(data.draw(bent(LLM_LOAD))))
    with bounded(watch, folder):
        read_or_refused(lambda: read_load_file(path, model="qwen3-8b"))


@pytest.fixture(scope="module")
def plan(traces: list[Path], tmp_path_factory: Folders) -> Any:
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    words = ["plan", str(traces[0]), "--gpu", "l4", "--batch", "8", "-o", str(path)]
    assert CliRunner().invoke(app, words).exit_code == 0
    return json.loads(path.read_text())


@given(data=st.data())
@few
def test_no_gate_trips_over_a_bent_plan(
    data: st.DataObject, plan: Any, check: Check, tmp_path_factory: Folders
) -> None:
    folder = tmp_path_factory.getbasetemp()
    whole, path = folder / "whole.json", folder / "bent.json"
    whole.write_bytes(as_json(plan))
    path.write_bytes(data.draw(st.one_of(bent(plan).map(as_json), damaged(as_json(plan)))))
    check("diff", whole, path)
    check("check", path, "--gpu", "l4", "--batch", "8", "--max-latency", "1s")
