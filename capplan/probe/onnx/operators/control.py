"""Operators that run graphs, and those whose results' sizes depend on data."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from capplan.probe.onnx.graph import Graph
from capplan.probe.onnx.operators.call import Call, Handlers, ValueNeededError

MOST_ITERATIONS = 4096
"""Iterations of a loop that are run; each is recorded, so that more take long and add nothing new."""


def _body(call: Call, name: str) -> Graph:
    found = call.node.attributes.get(name)
    if not isinstance(found, Graph):
        raise ValueNeededError(f"lacks its graph {name!r}")
    return found


def _if(call: Call) -> Any:
    """Run the branch that the condition names; where data decides, both were made the longer one beforehand."""
    holds, fails = _body(call, "then_branch"), _body(call, "else_branch")
    chosen = holds if holds is fails or call.host_list(call.tensor(0))[0] else fails
    return tuple(call.run_graph(chosen, ()))


def _count(call: Call) -> int:
    trips = call.optional(0)
    if trips is None:
        raise ValueNeededError("runs until its data says stop, so that its iterations cannot be counted")
    count = int(call.host_list(trips)[0])
    if count > MOST_ITERATIONS:
        raise ValueNeededError(f"runs {count:,} iterations; at most {MOST_ITERATIONS:,} are recorded")
    return count


def _loop(call: Call) -> Any:
    """Run a loop's body as often as its trip count says; a condition on data is taken to hold."""
    body = _body(call, "body")
    carried = list(call.inputs[2:])
    scanned: list[list[Tensor]] = [[] for _ in range(len(body.outputs) - 1 - len(carried))]
    going = torch.tensor(True, device="cpu")
    rounds, left = _count(call), call.budget.nodes_left
    for step in range(rounds):
        if step == 1 and call.optional(1) is None:  # a loop that no condition ends early
            call.budget.foresee_nodes((rounds - 1) * (left - call.budget.nodes_left))
        made = call.run_graph(body, (torch.tensor(step, device="cpu"), going, *carried))
        carried = made[1 : 1 + len(carried)]
        for kept, value in zip(scanned, made[1 + len(carried) :], strict=True):
            kept.append(value)
        if not made[0].is_meta and made[0].device.type == "cpu" and not bool(made[0]):
            break
    return (*carried, *(_stacked(call, values) for values in scanned))


def _stacked(call: Call, values: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(values)) if values else torch.empty((0,), dtype=call.float_dtype, device=call.device)


def _scan(call: Call) -> Any:
    body, scanned_inputs = _body(call, "body"), call.whole("num_scan_inputs", 1)
    states = list(call.inputs[: len(call.inputs) - scanned_inputs])
    sources = list(call.inputs[len(call.inputs) - scanned_inputs :])
    axes = call.wholes("scan_input_axes") or [0] * scanned_inputs
    steps = sources[0].shape[axes[0]]
    if steps > MOST_ITERATIONS:
        raise ValueNeededError(f"scans {steps:,} steps; at most {MOST_ITERATIONS:,} are recorded")
    made: list[list[Tensor]] = [[] for _ in range(len(body.outputs) - len(states))]
    left = call.budget.nodes_left
    for step in range(steps):
        if step == 1:
            call.budget.foresee_nodes((steps - 1) * (left - call.budget.nodes_left))
        slices = [source.select(axis, step) for source, axis in zip(sources, axes, strict=True)]
        outputs = call.run_graph(body, (*states, *slices))
        states = outputs[: len(states)]
        for kept, value in zip(made, outputs[len(states) :], strict=True):
            kept.append(value)
    return (*states, *(_stacked(call, values) for values in made))


HANDLERS: Handlers = {"If": _if, "Loop": _loop, "Scan": _scan}
"""Handlers by operator."""
