from pathlib import Path

import pytest
import torch

from capplan.errors import TraceError, UnknownNameError, UsageError
from capplan.probe.inputs.grammar import parse_request
from capplan.probe.target.prepare import find_steps, step_notes
from capplan.probe.target.resolve import load_target
from capplan.probe.target.types import Target, apply_steps

OWN = """
from torch import nn

def halve(model):
    model.head = nn.Identity()

def replace(model):
    return nn.Linear(2, 3)

def fail(model):
    raise RuntimeError("out of paint")

def number(model):
    return 3

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 10)

    def forward(self, x):
        return self.head(self.norm(self.conv(x)).mean((2, 3)))
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return str(path)


def find(words: str, *steps: str) -> Target:
    needs = {"input_size": "3x8x8"} if ".py" in words else {}
    return load_target(words, request=parse_request(prepare=steps, **needs))  # type: ignore[arg-type]


def parameters(target: Target) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in target.build().parameters())


def test_the_users_step_may_change_the_module_or_return_another(own: str) -> None:
    # conv 12, norm 8, head 50
    assert parameters(find(f"{own}:Net")) == 70
    assert parameters(find(f"{own}:Net", f"{own}:halve")) == 20
    assert parameters(find(f"{own}:Net", f"{own}:halve", f"{own}:replace")) == 9


def test_batch_norms_fold_into_convolutions(own: str) -> None:
    # the convolution gains 4 biases, the norm goes with its 8 parameters
    target = find(f"{own}:Net", "fuse_conv_bn")
    assert parameters(target) == 70 + 4 - 8
    module, x = target.build().eval(), torch.rand(2, 3, 8, 8)
    assert not any(isinstance(part, torch.nn.BatchNorm2d) for part in module.modules())
    assert module(x).shape == (2, 10)


@pytest.mark.zoo
def test_training_branches_merge() -> None:
    # RepVGG-A0 of the paper (arXiv:2101.03697, table 4): 9.11 million parameters in training, 8.31 deployed
    assert round(parameters(find("timm:repvgg_a0")) / 1e6, 2) == 9.11
    assert round(parameters(find("timm:repvgg_a0", "reparameterize")) / 1e6, 2) == 8.31


@pytest.mark.zoo
def test_fast_norms_are_set_in_the_model_and_nowhere_else() -> None:
    from timm.layers import is_fast_norm

    module = find("timm:convnext_atto", "fast_norm").build()
    norms = [part for part in module.modules() if hasattr(part, "_fast_norm")]
    assert norms
    assert all(norm._fast_norm for norm in norms)
    assert not is_fast_norm()
    with pytest.raises(UsageError, match="none of timm's norms"):
        find("torchvision:alexnet", "fast_norm").build()


def test_unknown_and_failing_steps_are_told(own: str) -> None:
    with pytest.raises(UnknownNameError, match="did you mean fuse_conv_bn"):
        find(f"{own}:Net", "fuse_convbn")
    with pytest.raises(UsageError, match="no function 'nothing'"):
        find(f"{own}:Net", f"{own}:nothing")
    with pytest.raises(TraceError, match="out of paint"):
        find(f"{own}:Net", f"{own}:fail").build()
    with pytest.raises(UsageError, match="returned a int"):
        find(f"{own}:Net", f"{own}:number").build()


class Stack(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def prepared(*names: str) -> torch.nn.Module:
    return apply_steps(Stack(), find_steps(names))


def test_adapters_stand_beside_linear_layers_until_they_are_merged() -> None:
    plain = sum(each.numel() for each in Stack().parameters())
    adapted = prepared("lora=2")
    assert sum(each.numel() for each in adapted.parameters()) == plain + 4 * 2 * (8 + 8)
    assert adapted(torch.rand(3, 8)).shape == (3, 8)
    assert sum(each.numel() for each in prepared("lora=2", "merge_lora").parameters()) == plain


def test_layers_are_removed_from_the_longest_stack() -> None:
    assert sum(each.numel() for each in prepared("drop_layers=3").parameters()) == 72
    with pytest.raises(UsageError, match="longest stack of like layers has 4"):
        prepared("drop_layers=4")


@pytest.mark.parametrize("name", ["fuse=2", "lora=none", "drop_layers=0"])
def test_a_number_where_none_is_taken_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="steps that take a number"):
        find_steps([name])


def test_each_step_is_said_in_the_notes() -> None:
    assert step_notes(["drop_layers=2"]) == (
        "prepared by drop_layers=2: remove the last layers of the longest stack of like layers.",
    )
