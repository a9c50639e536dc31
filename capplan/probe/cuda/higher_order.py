"""Run higher-order operators as the Python that they stand for: branches, loops, scans, and flexible attention.

Under `torch.compile` they are single operators with graphs inside. Here the branch or the number of trips that the
inputs take is run, operator by operator; what depends on data is assumed, and counted as such.
"""

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator
from torch.utils import _pytree as pytree

from capplan.probe.cuda.attention import attend
from capplan.probe.record.recorder import Recorder, lacks_data

_MOST_TRIPS = 100_000

Rule = Callable[..., Any]


@contextlib.contextmanager
def higher_order_rules(recorder: Recorder) -> Iterator[None]:
    """Run higher-order operators by the rules of this module, above autograd."""
    rules: Mapping[str, Rule] = {
        "cond": partial(_choose, recorder),
        "while_loop": partial(_loop, recorder),
        "scan": _scan,
        "associative_scan": _associative_scan,
        "map_impl": _map,
        "flex_attention": partial(_attend_flexibly, recorder),
        "hints_wrapper": lambda body, args, kwargs, _hints=None: body(*args, **kwargs),
        "out_dtype": lambda operator, dtype, *args: operator(*args).to(dtype),
    }
    plain = HigherOrderOperator.__call__

    def call(operator: HigherOrderOperator, /, *args: Any, **kwargs: Any) -> Any:
        rule = rules.get(operator.name())  # type: ignore[no-untyped-call]  # torch leaves it untyped
        return (rule or partial(plain, operator))(*args, **kwargs)

    with mock.patch.object(HigherOrderOperator, "__call__", call):
        yield


def _choose(recorder: Recorder, pred: Any, true_fn: Rule, false_fn: Rule, operands: Sequence[Any] = ()) -> Any:
    """Run the branch that the predicate chooses; the first one where its value is not known."""
    if isinstance(pred, Tensor) and recorder.lacks_value(pred) and recorder.known.replay is None:
        recorder.known.count_assumed("torch.cond taken as true")
        return true_fn(*operands)
    return true_fn(*operands) if pred else false_fn(*operands)


def _loop(
    recorder: Recorder, cond_fn: Rule, body_fn: Rule, carried: Sequence[Any], additional: Sequence[Any] = ()
) -> Any:
    """Run a loop's trips; one trip where their number is not known."""
    state = tuple(carried)
    for _ in range(_MOST_TRIPS):
        goes_on = cond_fn(*state, *additional)
        if isinstance(goes_on, Tensor) and recorder.lacks_value(goes_on) and recorder.known.replay is None:
            recorder.known.count_assumed("while_loop taken once")
            return tuple(body_fn(*state, *additional))
        if not goes_on:
            return state
        state = tuple(body_fn(*state, *additional))
    raise RuntimeError(f"while_loop is still running after {_MOST_TRIPS} trips")


def _scan(combine_fn: Rule, init: Sequence[Any], xs: Sequence[Tensor], additional: Sequence[Any] = ()) -> list[Any]:
    """Run a scan one slice after the other, and stack what each gives."""
    carry = list(init)
    slices: list[list[Tensor]] = []
    for index in range(xs[0].shape[0]):
        out = list(combine_fn(*carry, *(x[index] for x in xs), *additional))
        carry, given = out[: len(carry)], out[len(carry) :]
        slices.append(given)
    return [*carry, *(torch.stack(column) for column in zip(*slices, strict=True))]


def _associative_scan(combine_fn: Rule, xs: Sequence[Tensor], additional: Sequence[Any] = ()) -> Any:
    """Run torch's own tree of pairwise combinations."""
    module: Any = importlib.import_module("torch._higher_order_ops.associative_scan")
    return module.generic_associative_scan(combine_fn, list(xs), 0, additional)


def _map(body: Rule, xs: Sequence[Tensor], additional: Sequence[Any] = ()) -> Any:
    """Run a map one slice after the other, and stack what each gives."""
    results = [body(*(x[index] for x in xs), *additional) for index in range(xs[0].shape[0])]
    flat = [pytree.tree_flatten(result) for result in results]
    stacked = [torch.stack(column) for column in zip(*(leaves for leaves, _ in flat), strict=True)]
    return pytree.tree_unflatten(stacked, flat[0][1])


def _attend_flexibly(  # noqa: PLR0917  # torch's signature
    recorder: Recorder, query: Tensor, key: Tensor, value: Tensor, score_mod: Rule, mask: Any, scale: float, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Run the fused kernel; blocks that a mask leaves out are counted, as a causal mask's are."""
    out = attend(recorder, query, key, value, scale=scale, enable_gqa=query.shape[1] != key.shape[1])
    with recorder.paused():
        if not lacks_data(query):
            module: Any = importlib.import_module("torch._higher_order_ops.flex_attention")
            out.copy_(module.math_attention(query, key, value, score_mod, mask, scale, *rest)[0])
        statistics = query.new_empty(query.shape[:-1], dtype=torch.float32)
        return out, statistics, query.new_empty(query.shape[:-1], dtype=torch.float32)
