import dataclasses
import typing
from pathlib import Path

import pytest
import torch

from capplan.core.ops.flops import kernel_macs
from capplan.core.trace.types import Affine
from capplan.errors import TraceError, UsageError
from capplan.probe.inputs.grammar import BATCH, InputSpec, parse_argument, parse_input, parse_request, parse_size
from capplan.probe.inputs.tensors import (
    FunctionInputs,
    SpecInputs,
    image_list_inputs,
    make_tensor,
    map_tensors,
    named_tensors,
)
from capplan.probe.target.resolve import load_target
from capplan.probe.trace.tracer import trace_target
from tests.input_tensors import input_tensors


def test_the_batch_is_prepended_where_no_n_stands() -> None:
    assert parse_input("x=3x224x224").shape == (BATCH, Affine(3), Affine(224), Affine(224))
    assert parse_input("ids=int64:Nx128").shape == (BATCH, Affine(128))
    assert parse_input("h=2xNx16").shape == (Affine(2), BATCH, Affine(16))


def test_an_input_without_a_name_is_positional_and_float32() -> None:
    spec = parse_input("3x224x224")
    assert (spec.name, spec.dtype) == (None, "float32")


def test_a_scalar_per_sample_is_spelt_n() -> None:
    assert parse_input("t=int64:N").shape == (BATCH,)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("x=0x3", "'0'"),
        ("x=3xx4", "''"),
        ("x=3x-1", "'-1'"),
        ("x=", "NAME="),
        ("3,224,224", "'3,224,224'"),
        ("x=int46:3", "did you mean int64"),
        ("x=n", "'n'"),
    ],
)
def test_a_broken_input_is_told_in_one_sentence(words: str, said: str) -> None:
    with pytest.raises(UsageError, match="⟨input⟩") as raised:
        parse_input(words)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("words", ["640", "3x640x640", "16x3x224x224"])
def test_a_size_is_one_sample_without_the_batch(words: str) -> None:
    assert parse_size(words) == tuple(int(dim) for dim in words.split("x"))


@pytest.mark.parametrize("words", ["", "3x", "0x2", "Nx3", "3 x 2"])
def test_a_broken_size_is_refused(words: str) -> None:
    with pytest.raises(UsageError, match="⟨input-size⟩"):
        parse_size(words)


@pytest.mark.parametrize(
    ("words", "value"),
    [("depth=50", 50), ("act=gelu", "gelu"), ("dims=(1, 2)", (1, 2)), ("x='a=b'", "a=b"), ("flag=True", True)],
)
def test_arguments_are_python_literals_or_else_text(words: str, value: object) -> None:
    name = words.partition("=")[0]
    assert parse_argument(words) == (name, value)


@pytest.mark.parametrize("words", ["depth", "=3", "a b=3", "a..b=1"])
def test_an_argument_without_a_name_is_refused(words: str) -> None:
    with pytest.raises(UsageError, match="⟨arg⟩"):
        parse_argument(words)


def test_contradictory_options_are_refused() -> None:
    with pytest.raises(UsageError, match="⟨inputs-from⟩ makes all inputs"):
        parse_request(inputs_from="f.py:f", input_size="3x2x2")
    with pytest.raises(UsageError, match="⟨seq-len⟩"):
        parse_request(seq_len=0)


@pytest.mark.parametrize(
    ("inputs", "nest"),
    [
        (["batch.x=8", "mask=4", "batch.y=int64:5"], {"batch": {"x": (2, 8), "y": (2, 5)}, "mask": (2, 4)}),
        (["xs=8", "xs=9"], {"xs": [(2, 8), (2, 9)]}),
        (["b.views[1]=3", "b.views[0]=Nx2"], {"b": {"views": [(2, 2), (2, 3)]}}),
        (["xs[0]=8"], {"xs": [(2, 8)]}),
    ],
)
def test_names_with_dots_and_brackets_make_dictionaries_and_lists(inputs: list[str], nest: dict[str, object]) -> None:
    made = SpecInputs(specs=parse_request(inputs=inputs).inputs)(2, "cpu")
    assert map_tensors(dict(made.kwargs), lambda tensor: tuple(tensor.shape)) == nest
    assert made.names == tuple(name for name, _ in named_tensors((), made.kwargs))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (["x=3", "x.y=4"], "x is an input itself"),
        (["x.y=3", "x.y[0]=4"], r"x\.y is an input itself"),
        (["x.y=3", "x=4"], "names x twice, or as an input and as what holds others"),
        (["x[0]=3", "x[2]=4"], r"x has \[0\], \[2\]: write x\[0\], x\[1\] and so on"),
        (["x[0]=3", "x.y=4"], r"x has \[0\], y"),
    ],
)
def test_names_that_contradict_each_other_are_refused(inputs: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_request(inputs=inputs)


MODEL = """
from torch import nn

class Batched(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, batch):
        return self.linear(batch["x"]) + sum(self.linear(view) for view in batch["views"])
"""


def test_a_model_takes_a_dictionary_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    words = f"{tmp_path / 'model.py'}:Batched"
    inputs = ("batch.x=8", "batch.views=8", "batch.views=8")
    recording = trace_target(load_target(words, request=parse_request(inputs=inputs))).recordings[0]
    calls = recording.calls_per_kernel()
    # three times 8 · 4 products
    assert sum(n * kernel_macs(kernel, 1) for kernel, n in zip(recording.kernels, calls, strict=True)) == 3 * 8 * 4
    with pytest.raises(TraceError, match=r"its item 'x', as of a dictionary.*give each item, ⟨input⟩ x\.x=DIMS"):
        trace_target(load_target(words, request=parse_request(inputs=("x=8",))))


def test_meta_inputs_hold_shapes_only() -> None:
    made = SpecInputs(specs=(parse_input("x=3x4"), parse_input("2x5")))(7, "meta")
    assert [tuple(tensor.shape) for tensor in input_tensors(made)] == [(7, 2, 5), (7, 3, 4)]
    assert all(tensor.is_meta for tensor in input_tensors(made))


def test_real_integers_stay_in_range_and_leave_the_global_generator_alone() -> None:
    state = torch.get_rng_state()
    ids = make_tensor(InputSpec(shape=(BATCH, Affine(1000)), dtype="int64", high=7), batch=4, device="cpu")
    assert 0 <= int(ids.min()) <= int(ids.max()) == 6
    assert torch.equal(torch.get_rng_state(), state)


def test_inputs_are_the_same_every_time() -> None:
    maker = SpecInputs(specs=(parse_input("x=3"),))
    first, second = (maker(2, "cpu").kwargs["x"] for _ in range(2))
    assert torch.equal(first, second)


def test_fixed_values_repeat_for_every_sample() -> None:
    spec = InputSpec(shape=(BATCH, Affine(3)), dtype="int64", row=(1, 8, 8))
    assert make_tensor(spec, batch=2, device="cpu").tolist() == [[1, 8, 8], [1, 8, 8]]


def test_every_dtype_of_the_grammar_makes_a_tensor() -> None:
    for dtype in ("float16", "bfloat16", "float64", "int8", "uint8", "bool", "complex64"):
        assert make_tensor(parse_input(f"{dtype}:4"), batch=2, device="cpu").dtype == getattr(torch, dtype)


def test_detectors_get_a_list_of_images_each_in_its_own_memory() -> None:
    made = image_list_inputs(parse_input("3x8x8"), 3, "cpu")
    (images,) = made.args
    assert [tuple(image.shape) for image in images] == [(3, 8, 8)] * 3
    assert len({image.untyped_storage().data_ptr() for image in images}) == 3


@dataclasses.dataclass(frozen=True)
class Graph:
    nodes: torch.Tensor
    edges: list[torch.Tensor]


class Pair(typing.NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


def test_a_users_function_may_return_a_dataclass_of_tensors() -> None:
    made = FunctionInputs(words="f", function=lambda n: Graph(torch.ones(n, 2), [torch.ones(3)]))(5, "meta")
    assert made.names == ("input0.nodes", "input0.edges[0]")
    assert [tuple(tensor.shape) for tensor in input_tensors(made)] == [(5, 2), (3,)]
    assert all(tensor.is_meta for tensor in input_tensors(made))
    assert isinstance(made.args[0], Graph)


def test_a_dict_is_keywords_where_forward_takes_them_and_one_argument_elsewhere() -> None:
    def takes_keywords(points: torch.Tensor) -> None: ...

    def takes_a_batch(batch: dict[str, torch.Tensor]) -> None: ...

    def function(n: int) -> dict[str, torch.Tensor]:
        return {"points": torch.ones(n, 3)}

    by_keyword = FunctionInputs(words="f", function=function, forward=takes_keywords)(2, "cpu")
    assert (by_keyword.args, list(by_keyword.kwargs)) == ((), ["points"])
    in_one = FunctionInputs(words="f", function=function, forward=takes_a_batch)(2, "cpu")
    assert len(in_one.args) == 1
    assert in_one.names == ("input0.points",)


def test_a_tuple_is_positional_and_a_pair_of_tuple_and_dict_is_both() -> None:
    made = FunctionInputs(words="f", function=lambda n: (torch.ones(n), torch.ones(n)))(2, "cpu")
    assert len(made.args) == 2
    both = FunctionInputs(words="f", function=lambda n: ((torch.ones(n),), {"flag": True}))(2, "cpu")
    assert (len(both.args), both.kwargs) == (1, {"flag": True})
    named = FunctionInputs(words="f", function=lambda n: Pair(torch.ones(n), torch.ones(n)))(2, "meta")
    assert isinstance(named.args[0], Pair)


def test_a_function_that_raises_is_told_with_its_own_message() -> None:
    def function(n: int) -> None:
        raise KeyError("no such split")

    with pytest.raises(UsageError, match=r"⟨inputs-from⟩ f.py:f at batch 2 .*no such split"):
        FunctionInputs(words="f.py:f", function=function)(2, "cpu")
