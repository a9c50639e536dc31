"""TorchScript archives: the same counts as the code, the same values, and nothing in the file is loaded or run."""

import io
import pickle
import warnings
import zipfile
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from capplan.core.memory.schedule import live_curve
from capplan.core.ops.flops import kernel_macs
from capplan.core.trace.types import Trace
from capplan.core.workload import Configuration, Variant
from capplan.errors import TraceError, UsageError
from capplan.probe.inputs.grammar import parse_request
from capplan.probe.target.resolve import load_target
from capplan.probe.trace.tracer import trace_module, trace_target


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.norm(self.conv(x))) + x


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3)
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(4, 10)
        self.tied = nn.Linear(10, 10, bias=False)
        self.again = nn.Linear(10, 10, bias=False)
        self.again.weight = self.tied.weight
        self.register_buffer("scale", torch.tensor([0.5, 2.0]))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.blocks(self.stem(x))
        n, c = hidden.shape[0], hidden.shape[1]
        flat = hidden.reshape(n, c, -1).mean(dim=2)
        attended = nn.functional.scaled_dot_product_attention(
            flat.reshape(n, 1, 2, 2), flat.reshape(n, 1, 2, 2), flat.reshape(n, 1, 2, 2)
        )
        return self.again(self.tied(self.head(attended.reshape(n, c)))) * self.scale[1]


class Window(NamedTuple):
    high: int
    wide: int


class Order(Enum):
    FIRST = "NCHW"
    LAST = "NHWC"


class Windowed(nn.Module):
    """A module with a named tuple and a member of an enum among its attributes."""

    window: Window
    order: Order

    def __init__(self) -> None:
        super().__init__()
        self.window = Window(2, 3)
        self.order = Order.LAST
        self.layer = nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        if self.order != Order.FIRST and self.order.value == "NHWC":
            x = x.repeat(1, self.window.high * self.window[1])
        return self.layer(x)


class Loops(nn.Module):
    """Control flow, lists, dictionaries, optional values and strings, as scripted code has them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
        self.embed = nn.Embedding(16, 8)
        self.rnn = nn.LSTM(8, 8, batch_first=True)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        hidden = self.embed(ids)
        kept: list[Tensor] = []
        for index, layer in enumerate(self.layers):
            hidden = layer(hidden)
            if index % 2 == 0:
                kept.append(hidden)
        total = 0
        while total < 5:
            total += 2
        if mask is not None:
            hidden = hidden * mask
        assert total == 6, f"counted {total}"
        out, _ = self.rnn(torch.stack(kept).sum(dim=0))
        return {"out": out * total, "hidden": hidden}


def quietly(make: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make(*args, **kwargs)


def saved(folder: Path, module: nn.Module, *, example: Tensor | None = None) -> Path:
    path = folder / ("traced.pt" if example is not None else "scripted.pt")
    made = quietly(torch.jit.script, module) if example is None else quietly(torch.jit.trace, module, example)
    quietly(torch.jit.save, made, str(path))
    return path


def read(path: Path, *inputs: str) -> Trace:
    return trace_target(load_target(str(path), request=parse_request(inputs=list(inputs))))


def macs(trace: Trace, batch: int) -> int:
    recording = trace.recording(Configuration())
    return sum(kernel_macs(recording.kernels[op.kernel], batch) for op in recording.ops)


# stem 4·3·9 at 6·6 places; two blocks of 4·4·9 at 6·6; attention of 2·2·2 twice; head 4·10; two of 10·10
MACS_PER_SAMPLE = 4 * 27 * 36 + 2 * (4 * 36 * 36) + 16 + 40 + 200


@pytest.mark.parametrize("is_traced", [False, True])
def test_an_archive_counts_as_its_code_does(is_traced: bool, tmp_path: Path) -> None:
    module = Net().eval()
    found = read(saved(tmp_path, module, example=torch.rand(2, 3, 8, 8) if is_traced else None), "x=3x8x8")
    assert [macs(found, batch) for batch in (1, 5)] == [MACS_PER_SAMPLE, 5 * MACS_PER_SAMPLE]
    assert found.parameter_count == sum(each.numel() for each in module.parameters())
    recording = found.recording(Configuration())
    assert {recording.modules[op.module] for op in recording.ops} >= {"stem", "blocks.0.conv", "head"}
    assert "capplan.attention" in {kernel.name for kernel in recording.kernels}


def test_activations_are_freed_where_the_code_frees_them(tmp_path: Path) -> None:
    module = nn.Sequential(*(nn.Conv2d(4, 4, 1) for _ in range(8))).eval()
    given = load_target(str(saved(tmp_path, module)), request=parse_request(inputs=["input=4x16x16"]))
    by_code = trace_module(module, given.make_inputs, name="code")
    curves = [live_curve(trace.recording(Configuration())).at(4) for trace in (trace_target(given), by_code)]
    assert [int(curve.max() - curve[0]) for curve in curves] == [
        2 * 4 * 4 * 16 * 16 * 4
    ] * 2  # input aside: two of them


def test_half_precision_and_training_are_answered(tmp_path: Path) -> None:
    target = load_target(str(saved(tmp_path, Net().eval())), request=parse_request(inputs=["x=3x8x8"]))
    half = Configuration(variant=Variant.HALF)
    recording = trace_target(target, configurations=[half]).recording(half)
    assert any(kernel.name == "aten.convolution" for kernel in recording.kernels)


@pytest.mark.parametrize("is_traced", [False, True])
def test_it_computes_what_the_model_does(is_traced: bool, tmp_path: Path) -> None:
    module = Net().eval()
    x = torch.rand(2, 3, 8, 8)
    path = saved(tmp_path, module, example=x if is_traced else None)
    replay = load_target(str(path), request=parse_request(inputs=["x=3x8x8"])).build()
    state = module.state_dict()
    with torch.no_grad():
        for name, tensor in (*replay.named_parameters(), *replay.named_buffers()):
            if name in state:
                tensor.copy_(state[name])
        replay.eval()
        torch.testing.assert_close(replay(x), module(x))


def test_control_flow_is_run_as_written(tmp_path: Path) -> None:
    module = Loops().eval()
    path = saved(tmp_path, module)
    replay = load_target(str(path), request=parse_request(inputs=["ids=int64:5"])).build()
    ids = torch.arange(10).reshape(2, 5)
    with torch.no_grad():
        for name, tensor in replay.named_parameters():
            tensor.copy_(module.state_dict()[name])
        found, wanted = replay(ids=ids, mask=torch.ones(2, 5, 8)), module(ids, torch.ones(2, 5, 8))
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        torch.testing.assert_close(found[key], value)
    assert macs(read(path, "ids=int64:5"), 1) > 3 * 5 * 64


def test_named_tuples_and_enums_among_attributes_are_read(tmp_path: Path) -> None:
    found = read(saved(tmp_path, Windowed().eval()), "x=2")
    assert macs(found, 3) == 3 * 12 * 5  # 2 values repeated 2 · 3 times


def test_sizes_that_a_traced_archive_holds_as_tensors_are_numbers(tmp_path: Path) -> None:
    class Positions(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * torch.arange(1, x.shape[1] + 1, dtype=x.dtype)

    path = saved(tmp_path, Positions().eval(), example=torch.rand(2, 5))
    replay = load_target(str(path), request=parse_request(inputs=["x=5"])).build()
    x = torch.rand(2, 5)
    torch.testing.assert_close(replay(x), x * torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]))


def test_a_frozen_archive_keeps_its_weights_as_parameters(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(300, 200), nn.ReLU(), nn.Linear(200, 10)).eval()
    frozen = quietly(lambda: torch.jit.freeze(torch.jit.script(module)))
    quietly(torch.jit.save, frozen, str(tmp_path / "frozen.pt"))
    found = read(tmp_path / "frozen.pt", "input=300")
    assert macs(found, 1) == 300 * 200 + 200 * 10
    assert found.parameter_count == 300 * 200 + 200 + 200 * 10 + 10


def test_what_forward_takes_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"TorchScript does not state shapes; say what forward\(x: Tensor\) is fed"):
        load_target(str(saved(tmp_path, Net().eval())), request=parse_request())


def rewritten(path: Path, change: Callable[[str, bytes], bytes | None]) -> Path:
    """Copy an archive with files changed; None leaves one out."""
    made = path.with_name("changed.pt")
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            content = change(name, source.read(name))
            if content is not None:
                target.writestr(name, content)
    return made


def with_line(path: Path, line: str) -> Path:
    """Put a line first into the forward of the archive's root class."""

    def change(name: str, content: bytes) -> bytes:
        if not name.endswith(".py"):
            return content
        lines = content.decode().split("\n")
        index = next((i for i, each in enumerate(lines) if "x: Tensor" in each or "input: Tensor" in each), None)
        return (
            content if index is None else "\n".join([*lines[: index + 1], f"    {line}", *lines[index + 1 :]]).encode()
        )

    return rewritten(path, change)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("_0 = torch.from_file('{folder}/made', True, 4096)", "aten::from_file is not an operator that is read"),
        ("torch.save(input, '{folder}/made')", "aten::save is not an operator that is read"),
        ("_0 = ops.other.run(input)", "other::run is not an operator that is read"),
        ("_0 = open('{folder}/made', 'w')", r"open\(\) is not read"),
        ("_0 = __import__('os')", r"__import__\(\) is not read"),
        ("_0 = (input).__class__", "prim::__class__ is not a primitive"),
        ("_0 = torch.pow(10, 100000000000)", "exceeds 64 bits"),
        ("_0 = torch.__lshift__(1, 100000000000)", "exceeds 64 bits"),
        ("_0 = torch.mul([0], 100000000000)", "a list exceeds"),
        ("_0 = torch.format('{{:>9}}', 1) + 1", "an expression of BinOp is not read"),
    ],
)
def test_no_line_of_a_file_reaches_beyond_tensors(line: str, message: str, tmp_path: Path) -> None:
    path = with_line(saved(tmp_path, nn.Sequential(nn.Linear(8, 8)).eval()), line.format(folder=tmp_path))
    with pytest.raises(TraceError, match=message):
        read(path, "input=8")
    assert not (tmp_path / "made").exists()


class Evil:
    def __reduce__(self) -> Any:
        return (exec, ("raise SystemExit('executed')",))


def test_a_pickle_that_would_run_code_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, nn.Sequential(nn.Linear(8, 8)).eval())
    evil = rewritten(path, lambda name, content: pickle.dumps(Evil(), 2) if name.endswith("/data.pkl") else content)
    with pytest.raises(UsageError, match=r"names (builtins|__builtin__).exec, which is not read"):
        read(evil, "input=8")


def test_a_tensor_larger_than_its_file_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, nn.Sequential(nn.Linear(8, 8)).eval())
    short = rewritten(path, lambda name, content: content[:16] if name.endswith("/data/0") else content)
    with pytest.raises(UsageError, match=r"data/0 holds 16 bytes and is said to hold 256"):
        read(short, "input=8")


def test_an_archive_that_unpacks_to_more_than_the_limit_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, nn.Sequential(nn.Linear(8, 8)).eval())
    bomb = rewritten(path, lambda name, content: b"\n" * 9 * 2**20 if name.endswith(".py") else content)
    assert bomb.stat().st_size < 10**6
    with pytest.raises(UsageError, match="take more than 8 MiB"):
        read(bomb, "input=8")


def test_a_damaged_archive_is_refused_with_its_part(tmp_path: Path) -> None:
    path = saved(tmp_path, nn.Sequential(nn.Linear(8, 8)).eval())
    with pytest.raises(UsageError, match=r"data.pkl is damaged"):
        read(rewritten(path, lambda name, content: content[:40] if name.endswith("/data.pkl") else content), "input=8")
    with pytest.raises(UsageError, match=r"line 1: invalid syntax"):
        read(rewritten(path, lambda name, content: b"def (" if name.endswith(".py") else content), "input=8")
    with pytest.raises(UsageError, match=r"no class among"):
        read(rewritten(path, lambda name, content: None if name.endswith(".py") else content), "input=8")


def test_weights_of_torch_save_stay_refused(tmp_path: Path) -> None:
    torch.save(nn.Linear(2, 2).state_dict(), tmp_path / "weights.pt")
    with pytest.raises(UsageError, match="is not a model that can be read without running what it holds"):
        load_target(str(tmp_path / "weights.pt"), request=parse_request())
    assert io.BytesIO((tmp_path / "weights.pt").read_bytes()).read(2) == b"PK"


def test_an_archive_that_is_cut_off_is_called_that(tmp_path: Path) -> None:
    whole = saved(tmp_path, Net().eval())
    cut = tmp_path / "cut.pt"
    cut.write_bytes(whole.read_bytes()[:2000])
    with pytest.raises(UsageError, match="cut off or damaged"):
        load_target(str(cut), request=parse_request(inputs=["x=3x8x8"]))
