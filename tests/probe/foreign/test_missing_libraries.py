"""An environment that lacks an optional library: every road answers, or says what to install."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from capplan.errors import chained
from capplan.probe.foreign.libraries import lacks_operators

ROOT = Path(__file__).parents[3]

_DRIVER = """
import contextlib, io, json, sys
from capplan.cli.main import main
answers = []
for words in json.loads(sys.argv[1]):
    sys.argv, out, err = ["capplan", *words], io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
    answers.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(answers))
"""

_BERT = """
from transformers import BertConfig, BertModel

def model():
    return BertModel(BertConfig(num_hidden_layers=1, hidden_size=64, num_attention_heads=4, intermediate_size=64))
"""

PARAMS_BERT = 30522 * 64 + 512 * 64 + 2 * 64 + 128 + 4 * (64 * 64 + 64) + 128 + 2 * (64 * 64 + 64) + 128 + 64 * 64 + 64
"""Embeddings with their norm, four projections with a norm, two layers of 64 with a norm, and the pooler."""


def _without(library: str, folder: Path, commands: list[list[str]]) -> list[tuple[int, str, str]]:
    """Run commands in a Python whose packages are links to all that is installed but one library."""
    packages = folder / "packages"
    packages.mkdir()
    for place in {*map(Path, sys.path), Path(sysconfig.get_path("purelib"))}:
        if place.name != "site-packages":
            continue
        for entry in place.iterdir():
            is_library = entry.name.partition("-")[0].partition(".")[0] == library
            if not is_library and entry.suffix != ".pth" and not (packages / entry.name).exists():
                (packages / entry.name).symlink_to(entry)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(packages), str(ROOT)]), "CAPPLAN_CACHE": "off"}
    done = subprocess.run(
        [sys.executable, "-S", "-c", _DRIVER, json.dumps(commands)],
        capture_output=True, text=True, check=True, env=environment, cwd=folder, timeout=300,
    )  # fmt: skip
    return [(code, out, err) for code, out, err in json.loads(done.stdout.splitlines()[-1])]


@pytest.mark.zoo
@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "refused"),
    [
        ("torchvision", {"resnet18": "install torchvision", "timm:resnet18": "install torchvision"}),
        pytest.param("timm", {"timm:resnet18": "install timm"}, marks=pytest.mark.nightly),
        pytest.param(
            "transformers",
            {"hf:bert": "install transformers", "bert.py:model": "install transformers"},
            marks=pytest.mark.nightly,
        ),
        pytest.param("onnx", {"net.onnx": "capplan[onnx]"}, marks=pytest.mark.nightly),
    ],
)
def test_without_a_library_roads_answer_or_say_what_to_install(
    library: str, refused: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "bert.py").write_text(_BERT)
    (tmp_path / "net.py").write_text("import torch\n\ndef net():\n    return torch.nn.Linear(16, 8)\n")
    (tmp_path / "net.onnx").write_bytes(_onnx_linear())
    roads = {
        "bert.py:model": (["--input", "input_ids=int64:16"], PARAMS_BERT),
        "net.py:net": (["--input", "16"], 16 * 8 + 8),
        "net.onnx": ([], 16 * 8),
        "resnet18": ([], 11_689_512),  # torchvision's documentation
        "timm:resnet18": ([], 11_689_512),
        "hf:bert": (["--seq-len", "16"], 109_482_240),  # Devlin et al. 2019: 110 million
    }
    commands = [["analyze", words, *options, "--json"] for words, (options, _) in roads.items()]
    answers = _without(library, tmp_path, commands)
    for (words, (_, parameters)), (code, out, err) in zip(roads.items(), answers, strict=True):
        if words in refused:
            assert (code in (2, 3), out) == (True, ""), (words, code, out, err)
            assert refused[words] in err, (words, err)
            assert "Traceback" not in err
        else:
            assert code == 0, (words, err)
            assert json.loads(out)["params"] == parameters


def _onnx_linear() -> bytes:
    onnx = pytest.importorskip("onnx")
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", floats, ["batch", 16])],
        [helper.make_tensor_value_info("y", floats, ["batch", 8])],
        [helper.make_tensor("w", floats, (16, 8), [0.0] * 128)],
    )
    made: bytes = helper.make_model(graph).SerializeToString()
    return made


def test_a_circle_of_exceptions_is_walked_once() -> None:
    first, second = RuntimeError("first"), ImportError("second")
    first.__context__, second.__cause__ = second, first
    assert list(chained(first)) == [first, second]
    assert not lacks_operators(first)
    third = RuntimeError("operator torchvision::nms does not exist")
    second.__context__ = third  # beside a cause, which is the one that a traceback shows
    assert lacks_operators(first)
