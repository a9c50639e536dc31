"""Time what PyTorch's calls cost on this host, operator by operator, on tensors too small to compute on."""

import time
from collections.abc import Callable, Mapping

import torch
from torch import nn
from torch.nn import functional

from capplan.core.latency import classes as kinds
from capplan.core.latency.calibration import HostCosts
from capplan.core.latency.host import QUEUED_LAUNCH_S
from capplan.probe.measure.devices import cpu_name

_CALLS, _ROUNDS = 200, 30
_CUDA_CALL = 4.1
"""How often longer a CUDA call takes than the same call on tensors of the CPU: its allocator, streams, cuDNN's plans
and the model's own Python. Steps of one and two samples of six models on V100, T4, A100 and MI250 took 5.3 times
the sum of these calls on an Intel Xeon under torch 2.13, the years between removed (`host_slowness`, 0.77 for hosts of
2022 and later: 5.3 · 0.77 = 4.1). Half of them lay within 14 % of it, all but stalled ones between 3.7 and 6.6."""


def measure_host() -> HostCosts:
    """Measure this host in a few seconds: on a CUDA device where there is one, else on the CPU and extrapolated."""
    on_cuda = torch.cuda.is_available()
    before = torch.get_num_threads()
    clock = time.perf_counter if on_cuda else time.thread_time
    torch.set_num_threads(1)
    try:
        device = torch.device("cuda" if on_cuda else "cpu")
        with torch.inference_mode(), torch.device(device):
            settle = torch.cuda.synchronize if on_cuda else _nothing
            operators_s = {label: _call_s(call, settle, clock) for label, call in _calls().items()}
            image = torch.zeros(1, 8, 8, 8)
            view_s = _call_s(lambda: image.view(1, -1), settle, clock)
    finally:
        torch.set_num_threads(before)
    factor = 1.0 if on_cuda else _CUDA_CALL
    return HostCosts(
        cpu=cpu_name(),
        torch=str(torch.__version__),
        call_s=view_s if on_cuda else factor * view_s,
        launch_s=0.0 if on_cuda else factor * QUEUED_LAUNCH_S,
        operators_s={label: factor * cost for label, cost in operators_s.items()},
    )


def _nothing() -> None:
    """Wait for nothing: calls on the CPU have ended when they return."""


def _call_s(call: Callable[[], object], settle: Callable[[], None], clock: Callable[[], float]) -> float:
    """Time one call: the lower quartile of rounds, since other programs only ever delay. [s]

    Calls on the CPU are timed by the thread's own time, which other programs do not touch; on CUDA, where a call may
    wait for the driver, by the wall clock.
    """
    for _ in range(_CALLS // 4):
        call()
    rounds = []
    for _ in range(_ROUNDS):
        settle()
        started = clock()
        for _ in range(_CALLS):
            call()
        rounds.append((clock() - started) / _CALLS)
    return sorted(rounds)[_ROUNDS // 4]


def _calls() -> Mapping[str, Callable[[], object]]:
    """Return a small call for each class of kernels, through the module that models call it by."""
    image, rows = torch.zeros(1, 8, 8, 8), torch.zeros(1, 8, 8)
    heads, index = torch.zeros(1, 1, 8, 8), torch.zeros(1, 8, dtype=torch.int64)
    dense, pointwise = nn.Conv2d(8, 8, 3), nn.Conv2d(8, 8, 1)
    linear, layer_norm, group_norm = nn.Linear(8, 8), nn.LayerNorm(8), nn.GroupNorm(2, 8)
    batch_norm, activation, pool = nn.BatchNorm2d(8).eval(), nn.ReLU(), nn.MaxPool2d(2)
    return {
        kinds.CONV: lambda: dense(image),
        kinds.CONV_1X1: lambda: pointwise(image),
        kinds.LINEAR: lambda: linear(rows),
        kinds.BATCHED_MATMUL: lambda: rows @ rows,
        kinds.ATTENTION: lambda: functional.scaled_dot_product_attention(heads, heads, heads),
        kinds.LAYER_NORM: lambda: layer_norm(rows),
        kinds.GROUP_NORM: lambda: group_norm(image),
        kinds.BATCH_NORM: lambda: batch_norm(image),
        kinds.SOFTMAX: lambda: rows.softmax(-1),
        kinds.CAST: lambda: rows.to(torch.float16),
        kinds.ACTIVATION: lambda: activation(rows),
        kinds.ADD: lambda: rows + rows,
        kinds.POINTWISE: lambda: rows * 2,
        kinds.COPY: lambda: torch.cat((rows, rows)),
        kinds.POOL: lambda: pool(image),
        kinds.REDUCTION: lambda: rows.mean(-1),
        kinds.UPSAMPLE: lambda: functional.interpolate(image, scale_factor=2),
        kinds.GATHER: lambda: functional.embedding(index, rows[0]),
    }
