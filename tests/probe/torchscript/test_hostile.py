"""TorchScript that asks for gigabytes or hours in a few lines: each is refused at once."""

import contextlib
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from capplan.errors import CapplanError, UsageError
from tests.limits import within
from tests.probe.torchscript.test_torchscript import read, rewritten, saved, with_line
from tests.refusals import MOST_BYTES, assert_refused

pytestmark = pytest.mark.slow

NESTED = "l = [1, 1]" + "".join("; l = [l, l]" for _ in range(40))
PAIRS = "l = (1, 1)" + "".join("; l = (l, l)" for _ in range(40))

FORWARDS = {
    "endless": "while True:\n      pass",
    "a million rounds": "for i in range(1000000):\n      pass",
    "rounds in rounds": "for i in range(3000):\n      for j in range(3000):\n        pass",
    "lists of ten million": "b = []\n    for i in range(1000):\n      torch.append(b, ops.prim.rangelist(10000000))",
    "copies": "l = ops.prim.rangelist(400000); b = []\n    for i in range(1000):\n      torch.append(b, torch.copy(l))",
    "slices": "l = ops.prim.rangelist(400000); b = []\n    for i in range(99):\n      torch.append(b, torch.slice(l))",
    "long texts": "l = torch.mul(['yyyyyyyyyyyyyyyyyyyy'], 900000); t = torch.join('s', l); u = torch.join(t, [t, t])",
    "doubled texts": "t = 'a'\n    for i in range(60):\n      t = torch.add(t, t)",
    "formats": "t = torch.mul('{}', 400000)\n    for i in range(1000):\n      u = torch.format(t, 1)",
    "nested lists to an operator": f"{NESTED}; _1 = torch.cat(l)",
    "nested tuples shown": f"{PAIRS}; _1 = torch.str(l)",
    "nested tuples formatted": f"{PAIRS}; _1 = torch.format('{{}}', l)",
    "nested tuples compared": f"{PAIRS}; m = (l, 1); _1 = torch.eq(l, m)",
    "nested tuples as a key": f"{PAIRS}; d = {{l: 1}}",
    "nested tuples raised": f"{PAIRS}; ops.prim.RaiseException(l)",
    "nested tuples to a primitive": f"{PAIRS}; _1 = ops.prim.max(l, l)",
    "a list that holds itself": "l = [[1]]; torch.append(l, l); _1 = torch.str(l)",
    "insertions": "l = [1]\n    for i in range(100000):\n      torch.insert(l, 0, 1)\n      torch.insert(l, 0, 1)",
    "searches": "l = ops.prim.rangelist(900000)\n    for i in range(1000):\n      c = torch.count(l, 5)",
    "positions added up": "u = torch.arange(99999)\n    for i in range(20000):\n      c = torch.cumsum(u, 0)",
    "ranges": "for i in range(20000):\n      u = torch.arange(99999)",
    "calls of itself": "_1 = (self).forward(input)",
    "ones on the host": "_1 = torch.ones([40000, 40000], dtype=6, layout=0, device=torch.device('cpu'))",
    "a host tensor expanded": "_1 = torch.clone(torch.expand(torch.tensor(1.), [40000, 40000]))",
    "a host tensor as another": "_1 = torch.new_ones(torch.tensor([1., 2.]), [40000, 40000])",
}


def base(folder: Path) -> Path:
    return saved(folder, nn.Sequential(nn.Linear(8, 4)).eval())


@pytest.fixture(scope="module", autouse=True)
def _loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Trace once, so that what torch imports on its first use is not counted to a refusal."""
    read(base(tmp_path_factory.mktemp("first")), "input=8")


def test_none_in_the_place_of_a_tensor_is_refused(tmp_path: Path) -> None:
    """`aten::copy` of PyTorch 2.13 ends the process with a segmentation fault where its tensor is None."""
    with pytest.raises(CapplanError, match="copy takes a tensor for 'self', not None"):
        read(with_line(base(tmp_path), "l = torch.copy(None, 9999999)"), "input=8")


@pytest.mark.parametrize("line", FORWARDS.values(), ids=FORWARDS.keys())
def test_a_hostile_forward_is_refused_at_once(line: str, tmp_path: Path) -> None:
    lines = line.replace("; ", "\n    ")
    if "host" in line or "40000" in line:
        read_or_refused(with_line(base(tmp_path), lines))
        return
    assert_refused(lambda: read(with_line(base(tmp_path), lines), "input=8"), path=str(tmp_path))


def test_a_range_whose_values_are_not_kept_is_not_computed(tmp_path: Path) -> None:
    """Ten million positions take some 0.1 s; they were computed a thousand times, and dropped."""
    path = with_line(base(tmp_path), "for i in range(1000):\n      l = torch.arange(9999999)")
    with within(cpu_s=10):
        read(path, "input=8")


def read_or_refused(path: Path) -> None:
    """A tensor that the file puts on the host may become one of the model instead, which takes no memory."""
    with within(grown_bytes=MOST_BYTES), contextlib.suppress(CapplanError):
        read(path, "input=8")


def pickled(path: Path, content: bytes, part: str = "/constants.pkl") -> Path:
    return rewritten(path, lambda name, old: content if name.endswith(part) else old)


def list_of(count: int) -> bytes:
    return b"(" + b"K\x01" * count + b"l"


COPIES = (
    b"\x80\x02" + list_of(1_000_000) + b"q\x00"
    + b"(" + b"ctorch.jit._pickle\nbuild_intlist\nh\x00\x85R" * 20_000 + b"t."
)  # fmt: skip
DROPPED = (
    b"\x80\x02" + list_of(1_000_000) + b"q\x00"
    + b"ctorch.jit._pickle\nbuild_intlist\nh\x00\x85R0" * 100_000 + b"h\x00\x85."
)  # fmt: skip
PAIRS_PICKLED = b"\x80\x02K\x01K\x01\x86" + b"".join(b"q%ch%c\x86" % (n, n) for n in range(45)) + b"\x85."
KEY = PAIRS_PICKLED[2:-2]
"""A tuple of 45 levels, each of which holds the one before twice: its hash walks 2^45 ones."""
DUPLICATES = b"\x80\x02K\x01" + b"2" * 6_000_000 + b"0" * 6_000_000 + b"\x85."
LONG = b"\x80\x02" + b"2" * 30_000_000 + b"."
FRAMED = b"\x80\x04\x95" + (8).to_bytes(8, "little") + b"K\x01\x85......"
PICKLES = {
    "copies of a list": COPIES,
    "copies that are dropped": DROPPED,
    "duplicates": DUPLICATES,
    "a long pickle": LONG,
    "frames": FRAMED,
    "nested tuples as a key": b"\x80\x02}" + KEY + b"K\x01s.",
    "nested tuples as keys": b"\x80\x02}(" + KEY + b"K\x01u.",
    "nested tuples in a set": b"\x80\x04\x8f(" + KEY + b"\x90.",
    "nested tuples in a frozen set": b"\x80\x04(" + KEY + b"\x91.",
    "nested tuples in an ordered table": b"\x80\x02ccollections\nOrderedDict\n]" + KEY + b"K\x01\x86a\x85R.",
    "a huge byte array": b"\x80\x05\x96" + (2**40).to_bytes(8, "little") + b".",
}


def test_the_pickles_are_pickles() -> None:
    """Check an attack itself: a pickle that is refused for a wrong opcode would prove nothing."""
    value = pickle.loads(PAIRS_PICKLED)
    for _ in range(46):
        assert value[0] is value[-1]
        value = value[0]
    assert value == (1, 1)


@pytest.mark.parametrize("content", PICKLES.values(), ids=PICKLES.keys())
@pytest.mark.parametrize("part", ["/constants.pkl", "/data.pkl"])
def test_a_hostile_pickle_is_refused_at_once(content: bytes, part: str, tmp_path: Path) -> None:
    path = pickled(base(tmp_path), content, part)
    assert_refused(lambda: read(path, "input=8"), path=str(tmp_path))


def test_tuples_that_hold_one_twice_are_walked_once(tmp_path: Path) -> None:
    """45 levels are 2^45 ones to who walks them each time; the constant is not used, so that the model is read."""
    with within(cpu_s=8):
        assert read(pickled(base(tmp_path), PAIRS_PICKLED), "input=8").parameter_count == 8 * 4 + 4


def test_many_source_lines_are_refused_before_they_are_parsed(tmp_path: Path) -> None:
    path = rewritten(base(tmp_path), lambda name, old: b"y = 1\n" * 600_000 if name.endswith(".py") else old)
    assert_refused(lambda: read(path, "input=8"), match="statements and calls", path=str(tmp_path))


@pytest.mark.slow
def test_an_archive_of_many_files_is_refused_by_its_table_of_contents(tmp_path: Path) -> None:
    path = base(tmp_path)
    with zipfile.ZipFile(path, "a") as archive:
        for index in range(130_000):
            archive.writestr(f"archive/data/{'x' * 30}{index}", b"")
    assert_refused(lambda: read(path, "input=8"), match="more files than are read", path=str(tmp_path))


def test_a_model_of_many_operators_is_still_read(tmp_path: Path) -> None:
    """Limits must leave honest models alone: 60 scripted layers, and 500 steps of a loop."""

    class Repeats(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(*(nn.Linear(8, 8) for _ in range(60)))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(500):
                x = torch.relu(x)
            return self.layers(x)  # type: ignore[no-any-return]

    found: Any = read(saved(tmp_path, Repeats().eval()), "x=8")
    assert found.parameter_count == 60 * (64 + 8)
    with pytest.raises(UsageError):
        read(tmp_path / "missing.pt", "x=8")
