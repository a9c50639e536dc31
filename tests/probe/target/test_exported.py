import json
import pickle
import warnings
import zipfile
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import capplan
from capplan.core.ops.flops import kernel_macs
from capplan.core.workload import Configuration, Variant
from capplan.errors import TraceError, UsageError
from capplan.probe.inputs.grammar import parse_request
from capplan.probe.target.resolve import load_target
from capplan.probe.target.types import Target
from capplan.probe.trace.tracer import trace_target

pytestmark = pytest.mark.slow


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.head = nn.Linear(8 * 6 * 6, 10)
        self.again = nn.Linear(10, 10)
        self.tied = nn.Linear(10, 10)
        self.tied.weight = self.again.weight
        self.table = torch.arange(10)

    def forward(self, x: torch.Tensor, *, scale: float = 2.0) -> dict[str, torch.Tensor]:
        hidden = torch.relu(self.conv(x))
        parts = hidden.split(4, dim=1)
        flat = torch.cat(parts, dim=1).reshape(x.shape[0], -1)
        attended = nn.functional.scaled_dot_product_attention(*[self.head(flat).reshape(x.shape[0], 1, 1, 10)] * 3)
        return {"out": self.tied(self.again(attended[:, 0, 0])) * scale + self.table}


def export(path: Path, *, dynamic: bool) -> Path:
    shapes = {"x": {0: torch.export.Dim("batch")}, "scale": None} if dynamic else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(Net().eval(), (torch.rand(4, 3, 8, 8),), {"scale": 3.0}, dynamic_shapes=shapes)
        torch.export.save(program, path)
    return path


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(tmp_path_factory.mktemp("static") / "net.pt2", dynamic=False)


@pytest.fixture(scope="module")
def dynamic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(tmp_path_factory.mktemp("dynamic") / "net.pt2", dynamic=True)


def find(path: Path, **options: object) -> Target:
    return load_target(str(path), request=parse_request(**options))  # type: ignore[arg-type]


def macs(target: Target, *, batch: int, variant: Variant = Variant.FULL) -> int:
    configuration = Configuration(variant=variant)
    recording = trace_target(target, configurations=[configuration]).recording(configuration)
    return sum(kernel_macs(recording.kernels[op.kernel], batch) for op in recording.ops)


# a convolution of 8·3·3·3 at 6·6 places, a head of 288·10, attention of one score and one value of 10, two of 10·10
MACS_PER_SAMPLE = 8 * 27 * 36 + 2880 + 20 + 200


def test_an_exported_model_counts_as_its_code_does(dynamic: Path) -> None:
    for batch in (1, 4, 9):
        assert macs(find(dynamic), batch=batch) == batch * MACS_PER_SAMPLE
    assert macs(find(dynamic), batch=4, variant=Variant.AMP) == 4 * MACS_PER_SAMPLE


class _Towers(nn.Module):
    """Two inputs that meet nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(8, 4, bias=False), nn.Linear(16, 4, bias=False)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return self.left(x), self.right(y)


def test_inputs_that_meet_nowhere_share_the_batch_that_they_were_exported_at(tmp_path: Path) -> None:
    auto = {0: torch.export.Dim.AUTO}
    program = torch.export.export(_Towers(), (torch.rand(3, 8), torch.rand(3, 16)), dynamic_shapes=(auto, auto))
    torch.export.save(program, tmp_path / "towers.pt2")
    recording = capplan.trace(str(tmp_path / "towers.pt2")).recordings[0]
    # 8 x 4 and 16 x 4 for each sample
    assert sum(kernel_macs(kernel, 5) for kernel in recording.kernels) == 5 * (32 + 64)


def test_its_attention_stays_fused(dynamic: Path) -> None:
    recording = trace_target(find(dynamic)).recording(Configuration())
    assert "capplan.attention" in {kernel.name for kernel in recording.kernels}


def test_a_static_batch_is_told_and_only_that_is_planned(static: Path) -> None:
    target = find(static)
    assert target.only_batch == 4
    assert "static batch of 4" in target.notes[0]
    assert trace_target(target).recording(Configuration()).exact_batch == 4
    assert macs(target, batch=4) == 4 * MACS_PER_SAMPLE
    with pytest.raises(UsageError, match="static batch of 4, so batch 8 cannot be run"):
        target.make_inputs(8, device="meta")


def test_a_fixed_batch_is_answered_where_none_is_asked(static: Path, tmp_path: Path) -> None:
    """The program was exported at batch 4; so is a trace of it, which holds there alone."""
    assert capplan.analyze(str(static)).analysis.batch == 4
    assert capplan.memory(str(static)).estimate.batch == 4
    assert [fit.batch for fit in capplan.plan(str(static), gpus=["t4"]).fits] == [4]
    (report,) = capplan.estimate(str(static), gpus=["t4"]).reports
    assert [point.batch for point in report.curve] == [4]
    assert capplan.analyze(capplan.trace(str(static))).analysis.batch == 4
    with pytest.raises(UsageError, match="static batch of 4, so batch 8 cannot be run"):
        capplan.analyze(str(static), batch=8)
    held = capplan.trace(str(static))
    assert [fit.batch for fit in capplan.plan(held, batches=[4], gpus=["t4"]).fits] == [4]
    with pytest.raises(UsageError, match="holds at batch 4 alone"):
        capplan.plan(held, batches=[4, 8], gpus=["t4"])


def test_a_program_exported_in_code_is_answered_at_its_batch(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\n\n"
        "def net():\n    return torch.export.export(torch.nn.Linear(16, 8), (torch.rand(2, 16),)).module()\n\n"
        "def inputs(batch):\n    return torch.rand(batch, 16)\n"
    )
    asked = {"inputs_from": f"{tmp_path}/net.py:inputs"}
    analysis = capplan.analyze(f"{tmp_path}/net.py:net", **asked).analysis
    assert (analysis.batch, analysis.macs) == (2, 2 * 16 * 8)
    (report,) = capplan.estimate(f"{tmp_path}/net.py:net", gpus=["t4"], **asked).reports
    assert [point.batch for point in report.curve] == [2]


@pytest.mark.parametrize("number", [float("-inf"), float("inf"), float("nan")])
def test_numbers_that_json_lacks_are_read(number: float, tmp_path: Path) -> None:
    class Compares(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scores = x @ x.t()
            return torch.where(torch.ops.aten.eq.Scalar(scores, number), 0.0, scores)

    program = torch.export.export(Compares(), (torch.rand(4, 16),))
    torch.export.save(program, tmp_path / "net.pt2")
    assert macs(find(tmp_path / "net.pt2"), batch=4) == 4 * 4 * 16


def test_weights_keep_their_names_and_tied_ones_are_one(dynamic: Path) -> None:
    with torch.device("meta"):
        module = find(dynamic).build()
    names = {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}
    assert names == {
        "conv.weight": (8, 3, 3, 3), "conv.bias": (8,), "head.weight": (10, 288), "head.bias": (10,),
        "again.weight": (10, 10), "again.bias": (10,), "tied.bias": (10,),
    }  # fmt: skip
    assert module.again.weight is module.tied.weight


def test_work_is_told_by_the_original_modules(dynamic: Path) -> None:
    recording = trace_target(find(dynamic)).recording(Configuration())
    owners = {recording.kernels[op.kernel].name: recording.modules[op.module] for op in recording.ops}
    assert owners["aten.convolution"] == "conv"


def test_the_replay_computes_what_the_model_does(tmp_path: Path) -> None:
    module = Net().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(module, (torch.rand(2, 3, 8, 8),), {"scale": 3.0})
        torch.export.save(program, tmp_path / "net.pt2")
    replay = find(tmp_path / "net.pt2").build()
    for name, tensor in module.state_dict().items():
        replay.get_parameter(name).data.copy_(tensor)
    replay.get_buffer("table").copy_(module.table)
    x = torch.rand(2, 3, 8, 8)
    torch.testing.assert_close(replay(x)[0], module(x, scale=3.0)["out"])


class Trap:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (Path.touch, (Path("sprung"),))


def test_nothing_that_an_archive_holds_is_executed(
    dynamic: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trap = tmp_path / "trap.pt2"
    with zipfile.ZipFile(dynamic) as source, zipfile.ZipFile(trap, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name.endswith("models/model.json"):
                text = content.decode().replace("Symbol('", "__import__('os').system('touch sprung') or Symbol('")
                content = text.encode()
            if name.endswith("model.pt"):
                content = pickle.dumps(Trap())
            target.writestr(name, content)
    # what is no plain symbol is read as no more than the size that the export had
    assert macs(find(trap), batch=4) == 4 * MACS_PER_SAMPLE
    assert not (tmp_path / "sprung").exists()


def with_target(source: Path, path: Path, name: str) -> Path:
    """Copy an archive with its first operator renamed."""
    with zipfile.ZipFile(source) as archive, zipfile.ZipFile(path, "w") as copy:
        for entry in archive.namelist():
            content = archive.read(entry)
            if entry.endswith("models/model.json"):
                program = json.loads(content)
                program["graph_module"]["graph"]["nodes"][0]["target"] = name
                content = json.dumps(program).encode()
            copy.writestr(entry, content)
    return path


@pytest.mark.parametrize("name", ["os.system", "builtins.eval", "torch.ops.mylib.convolve.default", "torch.load"])
def test_only_pytorchs_own_operators_are_called(dynamic: Path, tmp_path: Path, name: str) -> None:
    path = with_target(dynamic, tmp_path / "other.pt2", name)
    with pytest.raises((UsageError, TraceError), match=f"calls {name}, which is none of PyTorch's operators"):
        macs(find(path), batch=2)


@pytest.mark.parametrize("option", [{"arg": ["a=1"]}, {"inputs": ["3"]}, {"input_size": "3x8x8"}, {"seq_len": 4}])
def test_its_inputs_are_fixed(static: Path, option: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="inputs are fixed"):
        find(static, **option)


def test_files_that_are_no_exported_program_are_told(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.pt2"
    damaged.write_bytes(b"PK\x03\x04 and no more")
    other = tmp_path / "other.pt2"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("x/readme.txt", "hello")
    for path, said in ((damaged, "damaged"), (other, "not an archive of one"), (tmp_path / "none.pt2", "No such file")):
        with pytest.raises(UsageError, match=said):
            find(path)


def test_pickles_and_weights_are_refused_with_advice(tmp_path: Path) -> None:
    torch.save(nn.Linear(2, 2), tmp_path / "pickled.pth")
    (tmp_path / "w.safetensors").write_bytes(b"")
    said = {"pickled.pth": "pickle", "w.safetensors": "no model"}
    for name, words in said.items():
        with pytest.raises(UsageError, match=rf"{words}.*torch\.export"):
            find(tmp_path / name)


def test_an_operator_that_opens_files_is_refused(dynamic: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed.pt2"
    with zipfile.ZipFile(dynamic) as source, zipfile.ZipFile(changed, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name.endswith(".json") and "/models/" in name:
                content = content.replace(b"torch.ops.aten.relu.default", b"torch.ops.aten.from_file.default")
            target.writestr(name, content)
    with pytest.raises((UsageError, TraceError), match=r"from_file.default, which is none of PyTorch's operators"):
        macs(find(changed), batch=2)
