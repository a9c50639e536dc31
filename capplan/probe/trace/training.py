"""Training steps as people write them: zero the gradients, forward, loss, backward, optimizer; twice.

The first step makes the optimizer's states, the second runs with them. Optimizers use their foreach implementation,
PyTorch's default on CUDA. A GradScaler's own kernels are left out.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils import checkpoint

from capplan.core.trace.types import Role
from capplan.core.workload import Optimizer, Training
from capplan.errors import TraceError
from capplan.probe.record.recorder import Recorder

STEPS = (1, 2)


def run_steps(
    module: nn.Module,
    call: Callable[[], Any],
    *,
    recorder: Recorder,
    training: Training,
    autocasting: Callable[[], contextlib.AbstractContextManager[None]],
) -> Any:
    """Run two training steps; `call` runs the model's forward on inputs that the caller holds."""
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if not parameters:
        raise TraceError(f"{type(module).__name__} has no parameter that requires a gradient: nothing to train.")
    optimizer = make_optimizer(training.optimizer, parameters)
    output: Any = None
    loss: Any = None
    for step in STEPS:
        optimizer.zero_grad()
        for _ in range(training.accumulate):
            recorder.begin_phase("forward", step)
            with autocasting():
                output = call()
                loss = loss_of(output)
            recorder.begin_phase("backward", step)
            with recorder.in_backward():
                loss.backward()
            recorder.assign_role((p.grad for p in parameters if p.grad is not None), Role.GRADIENT)
        recorder.begin_phase("optimizer", step)
        optimizer.step()
        states = (value for state in optimizer.state.values() for value in state.values())
        recorder.assign_role((value for value in states if isinstance(value, Tensor)), Role.OPTIMIZER)
    return output


def make_optimizer(kind: Optimizer, parameters: Sequence[Tensor]) -> torch.optim.Optimizer:
    """Make an optimizer as PyTorch does by default on CUDA."""
    if kind is Optimizer.ADAM:
        return torch.optim.Adam(parameters, foreach=True)
    if kind is Optimizer.ADAMW:
        return torch.optim.AdamW(parameters, foreach=True)
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9 if kind is Optimizer.MOMENTUM else 0.0, foreach=True)


def loss_of(output: Any) -> Tensor:
    """Return the model's own loss, or the cross-entropy of each output that carries a gradient.

    Classes are the second dimension ([batch, classes], [batch, classes, height, width]), or the last of three
    ([batch, tokens, classes]).
    """
    own = getattr(output, "loss", None)
    if isinstance(own, Tensor):
        return own
    losses = [_cross_entropy(tensor) for tensor in _with_gradient(output)]
    if not losses:
        raise TraceError("no output of the model carries a gradient: there is no loss to train with.")
    total = losses[0]
    for loss in losses[1:]:
        total = total + loss
    return total


def _cross_entropy(out: Tensor) -> Tensor:
    if out.dim() < 2:
        return out.float().mean()
    if out.dim() == 3:
        out = out.flatten(0, 1)
    with torch.no_grad():
        target = torch.zeros((out.shape[0], *out.shape[2:]), dtype=torch.int64, device=out.device)
    return functional.cross_entropy(out, target)


def _with_gradient(output: Any) -> list[Tensor]:
    if isinstance(output, Tensor):
        return [output] if output.requires_grad and output.is_floating_point() else []
    if isinstance(output, Mapping):
        logits = output.get("logits")
        if isinstance(logits, Tensor):
            return _with_gradient(logits)
        output = list(output.values())
    if isinstance(output, (list, tuple)):
        return [tensor for item in output for tensor in _with_gradient(item)]
    return []


@contextlib.contextmanager
def checkpointed_blocks(module: nn.Module) -> Iterator[None]:
    """Recompute each repeated block in the backward pass: keep its inputs alone."""
    blocks = _repeated_blocks(module)
    if not blocks:
        raise TraceError(
            f"{type(module).__name__} holds no list or sequence of like blocks to checkpoint; trace it without."
        )
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(checkpoint, "_infer_device_type", return_value="cuda"))
        for block in blocks:
            stack.enter_context(_checkpointed(block))
        yield


@contextlib.contextmanager
def _checkpointed(block: nn.Module) -> Iterator[None]:
    plain = block.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        return checkpoint.checkpoint(
            plain, *args, use_reentrant=False, preserve_rng_state=False, determinism_check="none", **kwargs
        )

    block.__dict__["forward"] = forward
    try:
        yield
    finally:
        del block.__dict__["forward"]


def _repeated_blocks(module: nn.Module) -> list[nn.Module]:
    """Find the outermost lists or sequences that hold two blocks or more of one class, each with parts of its own."""
    if isinstance(module, (nn.ModuleList, nn.Sequential)):
        kinds = [type(block) for block in module]
        blocks = [b for b in module if kinds.count(type(b)) > 1 and any(True for _ in b.children())]
        if blocks and not all(isinstance(b, nn.Sequential) for b in blocks):
            return blocks
    return [block for child in module.children() for block in _repeated_blocks(child)]
