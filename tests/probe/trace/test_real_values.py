"""A model that is run for real computes with real values: what memory held before decides nothing."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention.flex_attention import flex_attention

from capplan.core.workload import Configuration, Training
from capplan.probe.trace.tracer import Remake, trace_module


def heads(x: Tensor) -> Tensor:
    return x.reshape(x.shape[0], 1, 4, 4)


def sums(module: nn.Module) -> float:
    return float(sum(parameter.sum() for parameter in module.parameters()))


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase], **options: Any) -> None:
        super().__init__()
        self.layer = kind(4, 8, batch_first=True, **options)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x.reshape(x.shape[0], 4, 4))[0]
        return out


class Packed(Recurrent):
    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(x.shape[0], 4, 4)
        packed = nn.utils.rnn.pack_padded_sequence(rows, torch.full((len(x),), 3), batch_first=True)
        out: Tensor = self.layer(packed)[0].data
        return out


class Unwritten(nn.Module):
    """Reads parameters and memory that nobody wrote."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(64, 64))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight.sum() + x.new_empty(1000).sum() + torch.empty_like(x).sum()


class Function(nn.Module):
    def __init__(self, run: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.run = run

    def forward(self, x: Tensor) -> Tensor:
        return self.run(x)


def encoder() -> nn.Module:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 16, batch_first=True), 2)


class MaskedEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = encoder()

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(x.shape[0], 1, 16).expand(-1, 4, -1)
        out: Tensor = self.encoder(rows, src_key_padding_mask=torch.arange(4).expand(len(x), 4) > 2)
        return out


ATTENTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "attention": lambda x: functional.scaled_dot_product_attention(heads(x), heads(x), heads(x)),
    "causal": lambda x: functional.scaled_dot_product_attention(heads(x), heads(x), heads(x), is_causal=True),
    "scaled": lambda x: functional.scaled_dot_product_attention(heads(x), heads(x), heads(x), scale=0.5),
    "masked": lambda x: functional.scaled_dot_product_attention(
        heads(x), heads(x), heads(x), attn_mask=torch.eye(4, dtype=torch.bool)
    ),
    "grouped": lambda x: functional.scaled_dot_product_attention(
        heads(x).expand(-1, 4, -1, -1), heads(x), heads(x), enable_gqa=True
    ),
    "three dimensions": lambda x: functional.scaled_dot_product_attention(heads(x)[0], heads(x)[0], heads(x)[0]),
    "flexible": lambda x: flex_attention(heads(x), heads(x), heads(x), score_mod=lambda s, b, h, i, j: s - (i - j)),
}
MODELS: dict[str, Callable[[], nn.Module]] = {
    **{name: (lambda run=run: Function(run)) for name, run in ATTENTIONS.items()},
    "fold": lambda: Function(lambda x: functional.fold(x.reshape(-1, 16, 1).expand(-1, 16, 3), (4, 6), (4, 4))),
    "unfold": lambda: Function(lambda x: functional.unfold(heads(x).transpose(2, 3), 2)),
    "pool": lambda: Function(lambda x: functional.avg_pool2d(heads(x).transpose(2, 3), 2)),
    "upsampling": lambda: Function(lambda x: functional.interpolate(heads(x).transpose(2, 3), scale_factor=2)),
    "softmax": lambda: Function(lambda x: heads(x).transpose(1, 3).softmax(-1)),
    "layer norm": lambda: Function(lambda x: functional.layer_norm(heads(x).transpose(2, 3), (4,))),
    "group norm": lambda: Function(lambda x: functional.group_norm(x.reshape(-1, 4, 4).transpose(1, 2), 2)),
    "convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 4, 4)),
        nn.Conv2d(1, 8, 3).to(memory_format=torch.channels_last),  # type: ignore[call-overload]
    ),
    "lstm": lambda: Recurrent(nn.LSTM, bidirectional=True, num_layers=2),
    "gru": lambda: Recurrent(nn.GRU),
    "packed lstm": lambda: Packed(nn.LSTM),
    "encoder": lambda: nn.Sequential(nn.Unflatten(1, (1, 16)), encoder()),
    "masked encoder": MaskedEncoder,
}


class Decides(nn.Module):
    """Asserts that a sum equals plain PyTorch's; numpy asks for values, so that only a real run succeeds."""

    def __init__(self, inner: nn.Module, tell: Callable[[float], None]) -> None:
        super().__init__()
        self.inner = inner
        self.tell = tell  # a list would be put back after the trace

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.inner(x)
        self.tell(float(np.asarray(out.detach().numpy()).sum()))
        return out


def feeds(batch: int, *, device: Any) -> SimpleNamespace:
    values = torch.linspace(-1, 1, 16 * batch).reshape(batch, 16)
    return SimpleNamespace(args=(values.to(device),), kwargs={}, names=("x",))


def run(name: str, *, training: bool = False) -> tuple[list[float], float]:
    """Trace a model twice over; return the sums that it saw at batch 3, and that of plain PyTorch."""
    torch.manual_seed(0)
    inner = MODELS[name]()
    seen: list[float] = []
    configuration = Configuration(training=Training() if training else None)
    made = trace_module(Decides(inner, seen.append), feeds, name=name, configurations=[configuration], exact_batch=3)
    assert made.recordings[0].backend == "real"
    inner.eval()
    was_enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # it writes zeros where tokens are padding
    try:
        with torch.no_grad():
            expected = float(inner(feeds(3, device="cpu").args[0]).double().sum())
    finally:
        torch.backends.mha.set_fastpath_enabled(was_enabled)
    return seen, expected


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile:UserWarning")
@pytest.mark.parametrize("name", MODELS)
def test_values_are_those_of_plain_torch(name: str) -> None:
    seen, expected = run(name)
    assert seen
    assert seen[-1] == pytest.approx(expected, rel=1e-4, abs=1e-4)


class Differentiates(nn.Module):
    """Reads the gradient of a layer in a real run."""

    def __init__(self, inner: nn.Module, tell: Callable[[Tensor], None]) -> None:
        super().__init__()
        self.inner = inner
        self.tell = tell

    def forward(self, x: Tensor) -> Tensor:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            (grad,) = torch.autograd.grad(self.inner(x).square().sum(), x)
        self.tell(torch.from_numpy(grad.numpy().copy()))
        return grad


@pytest.mark.parametrize("name", ["attention", "causal", "scaled", "grouped", "lstm", "gru", "packed lstm"])
def test_gradients_are_those_of_plain_torch(name: str) -> None:
    torch.manual_seed(0)
    inner = MODELS[name]()
    seen: list[Tensor] = []
    trace_module(Differentiates(inner, seen.append), feeds, name=name, exact_batch=3)
    expected = Differentiates(inner, lambda _: None)(feeds(3, device="cpu").args[0])
    torch.testing.assert_close(seen[-1], expected, rtol=1e-4, atol=1e-5)


def _answers() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in MODELS:
        found[name] = run(name)[0]
    seen: list[float] = []
    with torch.device("meta"):
        inner = Decides(Unwritten(), seen.append)
    remake = Remake(rebuild=lambda: Decides(Unwritten(), seen.append), has_values=True)
    trace_module(inner, feeds, name="unwritten", exact_batch=3, remake=remake)
    found["unwritten memory"] = seen[-1]
    return found


@pytest.mark.slow
@pytest.mark.nightly
def test_two_runs_give_one_answer_whatever_memory_held() -> None:
    """glibc fills memory that it hands out with a byte of MALLOC_PERTURB_ (mallopt(3)): two runs, two fillings."""
    if not sys.platform.startswith("linux"):
        pytest.skip("MALLOC_PERTURB_ is glibc's")
    code = "import json, test_real_values as law; print(json.dumps(law._answers()))"
    answers = []
    for filling in ("85", "201"):
        environment = {**os.environ, "MALLOC_PERTURB_": filling, "PYTHONPATH": str(Path(__file__).parent)}
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        answers.append(json.loads(done.stdout.splitlines()[-1]))
    assert len(answers[0]) > 20
    assert answers[0] == answers[1]
