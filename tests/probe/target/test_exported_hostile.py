"""Exported programs that ask for real memory or endless numbers: each is refused within a second and 200 MB."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capplan.errors import CapplanError
from capplan.probe.trace.tracer import trace_target
from tests.limits import within
from tests.probe.target.test_exported import export, find
from tests.refusals import MOST_BYTES, assert_refused

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = export(tmp_path_factory.mktemp("whole") / "net.pt2", dynamic=False)
    trace_target(find(path))
    return path


def changed(path: Path, made: Path, change: Callable[[Any], None]) -> Path:
    """Copy an archive with its program changed."""
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(made, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name.endswith("models/model.json"):
                program = json.loads(content)
                change(program)
                content = json.dumps(program).encode()
            target.writestr(name, content)
    return made


def node(target: str, *arguments: Any) -> dict[str, Any]:
    inputs = [{"name": f"a{index}", "arg": argument, "kind": 1} for index, argument in enumerate(arguments)]
    return {"target": target, "inputs": inputs, "outputs": [{"as_tensor": {"name": "made"}}], "metadata": {}}


def first(made: dict[str, Any]) -> Callable[[Any], None]:
    return lambda program: program["graph_module"]["graph"]["nodes"].insert(0, made)


def deep_scope(program: Any) -> None:
    path = ".".join(["a"] * 5000)
    for each in program["graph_module"]["graph"]["nodes"]:
        each["metadata"]["nn_module_stack"] = f"L__self__,,Net;L__self___a,{path},A"


def many_nodes(program: Any) -> None:
    graph = program["graph_module"]["graph"]
    graph["nodes"] = graph["nodes"][:1] * 150_000


def sized(tensor: str, dim: dict[str, Any]) -> Callable[[Any], None]:
    def change(program: Any) -> None:
        program["graph_module"]["graph"]["tensor_values"][tensor]["sizes"][0] = dim

    return change


def ones(*more: dict[str, Any]) -> dict[str, Any]:
    made = node("torch.ops.aten.ones.default", {"as_ints": [40000, 40000]})
    made["inputs"] += more
    return made


REFUSED = {
    "a power without end": first(node("_operator.pow", {"as_int": 10}, {"as_int": 10**9})),
    "a product above 64 bits": first(node("_operator.mul", {"as_int": 2**62}, {"as_int": 2**62})),
    "an integer above 64 bits": first(node("_operator.add", {"as_int": 10**4000}, {"as_int": 1})),
    "None for a tensor": first(node("torch.ops.aten.copy.default", {"as_none": True}, {"as_int": 9})),
    "150,000 nodes": many_nodes,
    "an input of -1 rows": sized("x", {"as_int": -1}),
    "an input of 2.5 rows": sized("x", {"as_int": 2.5}),
    "a weight of 2^80 elements": sized("p_conv_weight", {"as_int": 2**80}),
    "a weight of -1 rows": sized("p_conv_weight", {"as_int": -1}),
}
READ = {
    "ones on the CPU, as a text": first(ones({"name": "device", "arg": {"as_string": "cpu"}, "kind": 2})),
    "ones without a device": first(ones()),
    "a module 5,000 deep": deep_scope,
}


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED.keys())
def test_a_hostile_program_is_refused_at_once(change: Callable[[Any], None], whole: Path, tmp_path: Path) -> None:
    path = changed(whole, tmp_path / "hostile.pt2", change)
    assert_refused(lambda: trace_target(find(path)), path=str(tmp_path))


@pytest.mark.parametrize("change", READ.values(), ids=READ.keys())
def test_a_program_that_asks_for_host_memory_takes_none(
    change: Callable[[Any], None], whole: Path, tmp_path: Path
) -> None:
    """40,000 by 40,000 ones are 6.4 GB where the file says CPU, or nothing."""
    path = changed(whole, tmp_path / "hostile.pt2", change)
    refusal = ""
    with within(grown_bytes=MOST_BYTES):
        try:
            trace_target(find(path))
        except CapplanError as error:
            refusal = str(error).replace(str(tmp_path), "")
    assert len(refusal) <= 300
