"""Recurrent layers as cuDNN runs them: one call for all layers and time steps."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from capplan.core.trace.types import Attribute
from capplan.probe.record.recorder import Recorder, lacks_data

_VARIABLE = torch._C._VariableFunctions
_GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


RNN_MODES = tuple(_GATES)


def run_rnn(recorder: Recorder, mode: str, data: Tensor, *args: Any) -> tuple[Tensor, ...]:
    """Replace `torch.lstm`, `torch.gru` or torch's other recurrent layers, for plain and packed sequences."""
    packed = isinstance(args[2], (list, tuple)) and isinstance(args[0], Tensor)
    if packed:
        batch_sizes, hx, weights, bias, layers, dropout, training, bidirectional = args
        batch_first = False
    else:
        hx, weights, bias, layers, dropout, training, bidirectional, batch_first = args
    states = list(hx) if isinstance(hx, (list, tuple)) else [hx]
    if torch.is_autocast_enabled("cuda"):
        half = torch.get_autocast_dtype("cuda")
        data, states, weights = data.to(half), [s.to(half) for s in states], [w.to(half) for w in weights]
    if batch_first:
        data = data.transpose(0, 1)
    data = data.contiguous()
    attributes: tuple[tuple[str, Attribute], ...] = (
        ("bidirectional", bool(bidirectional)),
        ("dropout", float(dropout)),
        ("hidden_size", weights[0].shape[0] // _GATES[mode]),  # a projection narrows the states, not the gates
        ("layers", layers),
        ("mode", mode),
        ("training", bool(training)),
    )
    count = len(states)

    def compute(*tensors: Tensor) -> tuple[Tensor, ...]:
        """Run the CPU's own layer on values."""
        state = tuple(tensors[1 : 1 + count]) if mode == "lstm" else tensors[1]
        rest = (list(tensors[1 + count :]), bias, layers, dropout, training, bidirectional)
        made = (tensors[0], batch_sizes, state, *rest) if packed else (tensors[0], state, *rest, False)
        out: tuple[Tensor, ...] = getattr(_VARIABLE, mode)(*made)
        return out

    needs_grad = torch.is_grad_enabled() and any(t.requires_grad for t in (data, *states, *weights))
    run = _Rnn.apply if needs_grad else _forward
    out, *rest = run(recorder, attributes, compute, count, data, *states, *weights)
    return (out.transpose(0, 1) if batch_first else out, *rest[: len(states)])


_Compute = Callable[..., tuple[Tensor, ...]]


def _forward(
    recorder: Recorder,
    attributes: Sequence[tuple[str, Attribute]],
    compute: _Compute,
    state_count: int,
    *tensors: Tensor,
) -> tuple[Tensor, ...]:
    outputs = _make_outputs(recorder, dict(attributes), compute, state_count, tensors)
    recorder.note("capplan.rnn", tensors, outputs, tuple(attributes))
    return outputs


def _make_outputs(
    recorder: Recorder, attributes: dict[str, Attribute], compute: _Compute, state_count: int, tensors: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    if not lacks_data(tensors[0]):
        with recorder.paused(), torch.no_grad():
            return compute(*tensors)
    data, states = tensors[0], tensors[1 : 1 + state_count]
    directions = 2 if attributes["bidirectional"] else 1
    with recorder.paused():
        out = data.new_empty((*data.shape[:-1], directions * states[0].shape[-1]))
        return (out, *(torch.empty_like(state) for state in states))


class _Rnn(torch.autograd.Function):
    """A recurrent layer that keeps its gates' and states' activations for the backward pass."""

    @staticmethod
    def forward(
        ctx: Any, recorder: Recorder, attributes: Any, compute: _Compute, state_count: int, *tensors: Tensor
    ) -> Any:
        named = dict(attributes)
        outputs = _make_outputs(recorder, named, compute, state_count, tensors)
        rows = outputs[0].shape[:-1].numel() * (2 if named["bidirectional"] else 1) * int(named["layers"])
        kept_per_row = (_GATES[str(named["mode"])] + state_count) * int(named["hidden_size"])
        with recorder.paused():
            reserve = tensors[0].new_empty((rows * kept_per_row,))
        recorder.note("capplan.rnn", tensors, [*outputs, reserve], attributes)
        ctx.save_for_backward(*tensors, outputs[0], reserve)
        ctx.recorder, ctx.attributes, ctx.compute = recorder, attributes, compute
        return outputs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        *tensors, out, reserve = ctx.saved_tensors
        recorder: Recorder = ctx.recorder
        with recorder.paused():
            if lacks_data(tensors[0]):
                made = [torch.empty_like(tensor) for tensor in tensors]
            else:
                with torch.enable_grad():
                    leaves = [tensor.detach().requires_grad_() for tensor in tensors]
                    again = ctx.compute(*leaves)
                reached = [(output, grad) for output, grad in zip(again, grads, strict=True) if grad is not None]
                outputs, seeds = zip(*reached, strict=True)
                made = list(torch.autograd.grad(outputs, leaves, seeds, materialize_grads=True))
        given = [grad for grad in grads if grad is not None]
        recorder.note("capplan.rnn_backward", [*tensors, out, reserve, *given], made, ctx.attributes)
        return (None, None, None, None, *made)
