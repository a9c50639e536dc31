"""Each tracing backend by a module that none before it can run: what is recorded, counted and left behind."""

import copy
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from capplan.core.ops.flops import kernel_flops
from capplan.core.trace.types import Recording
from capplan.core.workload import Configuration, Training, Variant
from capplan.errors import TraceError
from capplan.probe.trace import tracer as trace_of_probe
from capplan.probe.trace.tracer import Remake, trace_module
from tests.seen import at_least

FLOPS_PER_SAMPLE = 2 * 16 * 8
"""Of one linear layer from 16 to 8, two FLOPs per multiply-accumulate."""


class Plain(nn.Module):
    """Runs anywhere."""

    def __init__(self, *, fails: bool = False) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 8)
        self.register_buffer("seen", torch.zeros(()))
        self.linear.weight.requires_grad_(False)
        self.fails = fails

    def forward(self, x: Tensor) -> Tensor:
        self._meddle(x)
        if self.fails:
            raise ValueError("out of luck")
        out: Tensor = self.linear(x)
        return out

    def _meddle(self, x: Tensor) -> None:
        """Change what a forward can change, and ask for what this backend alone can give."""
        self.seen += 1
        self.kept = x
        self.register_buffer("late", torch.zeros(3, device=x.device))
        self.linear.weight.requires_grad_(True)
        self.train(not self.training)
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
        torch.set_default_dtype(torch.float64)
        torch.backends.cudnn.benchmark = not torch.backends.cudnn.benchmark


class NeedsHost(Plain):
    """Refuses the meta device, asks for no values: fake tensors say that they are on the CPU."""

    def _meddle(self, x: Tensor) -> None:
        super()._meddle(x)
        if x.device.type != "cpu":
            raise NotImplementedError(f"no kernel for the device {x.device}")


class NeedsNumbers(Plain):
    """Takes numbers out of the input by numpy, past all dispatch: only a real forward has them."""

    def _meddle(self, x: Tensor) -> None:
        super()._meddle(x)
        if not np.isfinite(x.detach().numpy()).all():
            raise ValueError("no numbers")


BACKENDS = {"meta": Plain, "fake": NeedsHost, "real": NeedsNumbers}


def feeds(batch: int, *, device: Any) -> SimpleNamespace:
    return SimpleNamespace(args=(torch.zeros((batch, 16), device=device),), kwargs={}, names=("x",))


def record(module: nn.Module, rebuild: Callable[[], nn.Module] | None = None, **configuration: Any) -> Recording:
    configurations = [Configuration(**configuration)]
    return trace_module(
        module, feeds, name="test", configurations=configurations, remake=Remake(rebuild=rebuild)
    ).recordings[0]


def flops(recording: Recording, batch: int) -> int:
    return sum(
        count * kernel_flops(kernel, batch)
        for kernel, count in zip(recording.kernels, recording.calls_per_kernel(), strict=True)
        if kernel.name in ("aten.addmm", "aten.mm")
    )


def state(module: nn.Module) -> Any:
    """All that a trace must leave as it was; values as text, so that one comparison tells."""
    return [
        [
            (key, id(value), value.requires_grad, value.tolist())
            for key, value in module.state_dict(keep_vars=True).items()
        ],
        [
            (name, each.training, list(each.__dict__), len(each._forward_hooks), len(each._forward_pre_hooks))
            for name, each in module.named_modules()
        ],
        [sorted(each.__dict__) for each in (*module.parameters(), *module.buffers())],
        torch.get_rng_state().tolist(),
        random.getstate(),
        np.random.get_state()[1].tolist(),
        torch.get_default_dtype(),
        torch.backends.cudnn.benchmark,
        torch.is_grad_enabled(),
        torch._C._len_torch_dispatch_stack(),
        torch._C._len_torch_function_stack(),
        torch.distributions.Distribution._validate_args,
        torch.nn.functional.has_torch_function,
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_backend_is_named_and_counts_the_same(backend: str):
    recording = record(BACKENDS[backend]())
    assert recording.backend == backend
    assert recording.exact_batch is None
    assert [flops(recording, batch) for batch in (1, 7)] == [FLOPS_PER_SAMPLE, 7 * FLOPS_PER_SAMPLE]


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_backend_sees_the_same_storages_live_and_die(backend: str):
    plain, own = record(Plain()), record(BACKENDS[backend]())
    at_least(3, plain.storages)
    assert [(each.size_bytes, each.birth, each.death, each.role) for each in own.storages] == [
        (each.size_bytes, each.birth, each.death, each.role) for each in plain.storages
    ]


@pytest.mark.parametrize("training", [None, Training()], ids=["inference", "training"])
@pytest.mark.parametrize("fails", [False, True], ids=["returns", "raises"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_each_backend_leaves_the_model_and_torch_as_found(backend: str, fails: bool, training: Training | None):
    module = BACKENDS[backend](fails=fails)
    module.linear.eval()
    before = copy.deepcopy(state(module))
    if fails:
        with pytest.raises(TraceError, match="out of luck"):
            record(module, variant=Variant.AMP, training=training)
    else:
        record(module, variant=Variant.AMP, training=training)
    assert state(module) == before


def test_weights_without_data_are_made_anew_for_a_real_forward():
    with torch.device("meta"):
        module = NeedsNumbers()
    recording = record(module, rebuild=NeedsNumbers)
    assert recording.backend == "real"
    assert flops(recording, 5) == 5 * FLOPS_PER_SAMPLE
    assert all(tensor.is_meta for tensor in (*module.parameters(), *module.buffers()))


def test_a_model_too_large_for_a_real_forward_is_refused(monkeypatch: pytest.MonkeyPatch):
    # 16 · 8 weights and 8 biases of four bytes
    monkeypatch.setattr(trace_of_probe, "LARGEST_REAL_BYTES", 4 * (16 * 8 + 8) - 1)
    with torch.device("meta"):
        module = NeedsNumbers()
    with pytest.raises(TraceError, match="too large to be run for real"):
        record(module, rebuild=NeedsNumbers)
    monkeypatch.setattr(trace_of_probe, "LARGEST_REAL_BYTES", 4 * (16 * 8 + 8))
    assert record(module, rebuild=NeedsNumbers).backend == "real"


def test_what_no_backend_cures_is_told_at_once_in_the_models_words():
    calls = []

    class Broken(Plain):
        def _meddle(self, x: Tensor) -> None:
            calls.append(x.device.type)
            raise ValueError("heads do not divide the width")

    with pytest.raises(TraceError, match="heads do not divide the width"):
        record(Broken())
    assert calls == ["cuda"] * 2  # at two samples, then at one alone


class Routes(nn.Module):
    """Splits tokens by the sizes that a router's choices give, as sparse mixtures of experts do."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(16, 4)
        self.experts = nn.ModuleList(nn.Linear(16, 8) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        _, chosen = self.router(x).topk(2, dim=1)
        order = chosen.flatten().argsort()
        sizes = torch.zeros(x.shape[0], 4, device=x.device).scatter(1, chosen, 1.0).long().sum(0).tolist()
        parts = x[order // 2].split(sizes)
        return torch.cat([expert(part) for expert, part in zip(self.experts, parts, strict=True)])


def test_a_routers_choices_are_taken_to_be_balanced_where_they_must_be_known_and_that_is_told():
    made = trace_module(Routes(), feeds, name="test", exact_batch=6)
    recording = made.recordings[0]
    assert (recording.backend, [(guess.what, guess.count) for guess in recording.assumed_values]) == (
        "meta",
        [("aten.topk", 1)],
    )
    # the router's row per token, then, of six tokens with two choices each, three for each of four experts
    kernels = [recording.kernels[op.kernel] for op in recording.ops]
    assert [kernel.inputs[1].shape[0].at(6) for kernel in kernels if kernel.name == "aten.addmm"] == [6, 3, 3, 3, 3]
    # the router's four columns for six tokens; three rows for each of four experts
    assert flops(recording, 6) == 2 * 16 * (6 * 4 + 12 * 8)
