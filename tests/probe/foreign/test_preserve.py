"""What a forward changes is put back, whatever the containers are that it lies in."""

from collections import OrderedDict, defaultdict, deque
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from capplan.probe.foreign.preserve import preserved
from capplan.probe.trace.tracer import trace_module


class Frozen(OrderedDict[str, Any]):
    """A dictionary that forbids every change once it is made, as diffusers' configurations do."""

    def __init__(self, **content: Any) -> None:
        super().__init__(**content)
        self._frozen = True

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("this dictionary is frozen")

    clear = update = pop = setdefault = copy = _refuse  # type: ignore[assignment]

    def __setitem__(self, name: str, value: Any) -> None:
        if hasattr(self, "_frozen"):
            self._refuse()
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        self._refuse()


class Memory:
    """A cache as models keep one: an object of its own with lists of tensors."""

    def __init__(self) -> None:
        self.keys: list[Tensor] = []
        self.length = 0


class Keeps(nn.Module):
    """Writes to every kind of container that it holds."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.config = Frozen(width=4)
        self.table = {"rows": [1, 2], "seen": {3}}
        self.queue = deque([1], maxlen=2)
        self.counts: dict[str, int] = defaultdict(int)
        self.memory = Memory()

    def forward(self, x: Tensor) -> Tensor:
        self.table["rows"].append(3)
        self.table["seen"].add(4)
        self.queue.append(2)
        self.counts["calls"] += 1
        self.memory.keys.append(x)
        self.memory.length += 1
        OrderedDict.__setitem__(self.config, "grown", True)
        out: Tensor = self.linear(x)
        return out


def feeds(batch: int, *, device: Any) -> SimpleNamespace:
    return SimpleNamespace(args=(torch.zeros((batch, 4), device=device),), kwargs={}, names=("x",))


def test_containers_are_restored_even_where_they_forbid_changes() -> None:
    module = Keeps()
    with preserved(module):
        module(torch.zeros(1, 4))
    assert list(module.config.items()) == [("width", 4)]
    assert list(module.config) == ["width"]  # an ordered dictionary keeps a second list of its keys
    assert module.table == {"rows": [1, 2], "seen": {3}}
    assert module.queue == deque([1], maxlen=2)
    assert dict(module.counts) == {}
    assert (module.memory.keys, module.memory.length) == ([], 0)


def test_a_model_with_a_frozen_configuration_is_traced() -> None:
    recording = trace_module(Keeps(), feeds, name="keeps").recordings[0]
    assert [kernel.name for kernel in recording.kernels] == ["aten.addmm"]


def test_a_module_that_changes_its_class_gets_it_back() -> None:
    module = nn.Sequential(nn.LazyLinear(3))
    with preserved(module):
        module(torch.zeros(2, 5))
        assert type(module[0]) is nn.Linear
    assert type(module[0]) is nn.LazyLinear


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
def test_scripted_tensors_are_put_back() -> None:
    module = torch.jit.script(nn.Linear(2, 2))
    weight = module.weight
    with preserved(module):
        module._parameters["weight"] = nn.Parameter(torch.zeros(2, 2))
        assert not torch.equal(module.weight, weight)
    assert torch.equal(module.weight, weight)
