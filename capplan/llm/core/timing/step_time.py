"""The time of one step: kernels by roofline with fitted efficiencies, collectives, engine and launches.

A kernel takes ((FLOPs ÷ peak·share)³ + (bytes ÷ bandwidth·share)³)^⅓ + a fixed time. Kernels and collectives of a
step do not overlap. A step that holds prompt tokens is launched without a graph of all layers, so that the host's
launches bound it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from capplan.core.numbers import FloatArray
from capplan.llm.core.timing.calibration import KernelClass, LinkConstants, factor_name, fixed_name
from capplan.llm.core.timing.constants import Constants, ConstantsVector
from capplan.llm.core.timing.engine_rules import SCHEDULING
from capplan.llm.core.timing.machine import HostCpu, Machine
from capplan.llm.core.timing.work import CLASSES, IntArray, Kernels, Load, kernel_classes, step_work

ACTIVATION_BYTES = 2.0
NETWORK = LinkConstants(
    latency_s=64e-6, latency_growth=0.5, bus_fraction=0.45, bus_decline=1.0, staged_s=1e-12, staged_bytes=1e6
)
"""Collectives between servers over InfiniBand or RoCE.

The latency is the median of what 17 of 30 published decode rows of one deployment ask for, DeepSeek-R1 with SGLang on
16 H100 in two servers: 30 to 91 us (`benchmarks/llm_disaggregated.py`). The other 13 are faster than a step in which
the network takes no time, and are taken for speculative decoding, which the source does not exclude. Leaving them out
pushes the latency up: the median of all 30 is 45 us. The rest is assumed, because nothing that was timed shows it: each
doubling of the servers waits for half of that again, and large tensors move at nine tenths of the ports' rate in one
direction, as results of nccl-tests on DGX H100 are commonly quoted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collectives:
    """The collectives of steps [step, level]: level 0 lies within a server, level 1 between servers.

    `calls` times one waits for the latency of `doublings` doublings beyond two, on a tensor of `call_bytes`; `link_s`
    is the time of all bytes that cross a link at its two-way figure. `hops` pass activations to the next pipeline
    stage. `link` is 0 for switched links, 1 for links through the host and 2 for the network.
    """

    calls: FloatArray
    call_bytes: FloatArray
    doublings: FloatArray
    link_s: FloatArray
    hops: FloatArray
    link: IntArray

    @classmethod
    def stack(cls, parts: Sequence["Collectives"]) -> "Collectives":
        return cls(**{item.name: np.concatenate([getattr(part, item.name) for part in parts]) for item in fields(cls)})


def all_reduce_bytes(*, size_bytes: FloatArray, gpus: int) -> FloatArray:
    """Compute what an all-reduce moves over each GPU's link: 2·(n − 1)/n times the tensor. [bytes]"""
    return np.asarray(2.0 * (gpus - 1) / gpus * size_bytes)


def collectives(kernels: Kernels, load: Load, *, machine: Machine) -> Collectives:
    """Count the collectives of one pipeline stage.

    Two all-reduces per layer over the tensor-parallel GPUs. With attention data parallelism, every expert layer
    gathers the tokens of all ranks and scatters the sums back, which moves as much as one all-reduce of them. Beyond a
    server both have two levels, as NCCL reduces: the GPUs of a server reduce the whole tensor among themselves, and
    each of them reduces its share with those of the other servers. Tokens leave the server for those servers alone that
    hold one of their experts, where that is less.
    """
    size_bytes = load.tokens * kernels.hidden * ACTIVATION_BYTES
    tensor, ranks, server = kernels.tensor_parallel, kernels.data_parallel, machine.server_gpus
    layers, exchanged = 2.0 * kernels.layers if tensor > 1 else 0.0, kernels.exchanged_layers
    group = tensor * ranks if exchanged else tensor
    inner, outer = min(tensor, server), -(-tensor // server)
    inner_ranks, outer_ranks = min(tensor * ranks, server), -(-tensor * ranks // server)
    gathered = all_reduce_bytes(size_bytes=size_bytes * ranks / inner_ranks, gpus=outer_ranks)
    per_token = max((experts.per_token for experts in kernels.experts), default=0.0)
    sent = (outer_ranks - 1) * (1.0 - (1.0 - 1.0 / outer_ranks) ** per_token)
    across = np.minimum(gathered, 2.0 * size_bytes / tensor * sent)
    moved = (
        layers * all_reduce_bytes(size_bytes=size_bytes, gpus=inner)
        + exchanged * all_reduce_bytes(size_bytes=size_bytes * ranks, gpus=inner_ranks),
        layers * all_reduce_bytes(size_bytes=size_bytes / inner, gpus=outer) + exchanged * across,
    )
    calls = (
        layers * (inner > 1) + 2.0 * exchanged * (inner_ranks > 1),
        layers * (outer > 1) + 2.0 * exchanged * (outer_ranks > 1),
    )
    called = (layers + 2.0 * exchanged * ranks) / max(layers + 2.0 * exchanged, 1.0) * size_bytes
    leaves = group * kernels.pipeline_parallel > max(server, group)
    hops = 1.0 if kernels.pipeline_parallel > 1 else 0.0
    hop = (0.0 if leaves else hops, hops if leaves else 0.0)
    links = (machine.link_bytes_per_s, machine.network_bytes_per_s)
    widths = (min(group, server), -(-group // server))
    rows = np.ones_like(size_bytes)[..., None]
    return Collectives(
        calls=rows * np.array(calls),
        call_bytes=np.stack([called, called / inner], axis=-1),
        doublings=rows * (np.log2(np.maximum(2, widths)) - 1.0),
        link_s=np.stack([(moved[level] + hop[level] * size_bytes) / links[level] for level in (0, 1)], axis=-1),
        hops=rows * np.array(hop),
        link=np.broadcast_to(np.array([0 if machine.switched else 1, 2]), (*size_bytes.shape, 2)),
    )


def collectives_s(work: Collectives, constants: Constants) -> FloatArray:
    """Compute the time of collectives, one entry a step. [s]

    An all-reduce over two GPUs waits for the link's latency, and for a share of it more with each doubling; its bytes
    move at a share of the link's two-way figure. Large tensors are reduced in stages, which wait for one another. The
    levels follow one another.
    """

    def constant(name: str) -> FloatArray:
        return np.append(constants.link(name), getattr(NETWORK, name))[work.link]

    latency_s = constant("latency_s") * (1.0 + constant("latency_growth") * work.doublings)
    staged_s = constant("staged_s") * work.call_bytes / (work.call_bytes + constant("staged_bytes"))
    share = constant("bus_fraction") * constant("bus_decline") ** work.doublings
    times_s = (work.calls + work.hops) * latency_s + work.calls * staged_s + work.link_s / share
    return np.asarray(times_s.sum(axis=-1))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTable:
    """Steps of one or many deployments at the printed rates, before efficiencies.

    By [step, kernel]: `compute_s` and `memory_s` are FLOPs ÷ peak and bytes ÷ bandwidth of one layer's kernel,
    `count` the layers that run it, `kernel_class` its index in `CLASSES`. By step: `elementwise_s` is the time of one
    byte of each element that dense products read and write, `quantised_s` that of one byte of each element that is
    narrowed before a product, `sequences` those that decode in the whole pipeline, `sorted_logits` the logits that are
    sorted to draw tokens, `launched` 1 where the host launches its layers one by one, `flops_per_joule` 0 where
    unknown, and `engine` the engine's index. `factor` is the place of each kernel's factor [step, kernel], negative
    where it has none.
    """

    compute_s: FloatArray
    memory_s: FloatArray
    count: FloatArray
    kernel_class: IntArray
    elementwise_s: FloatArray
    quantised_s: FloatArray
    collectives: Collectives
    layers: FloatArray
    stages: FloatArray
    sequences: FloatArray
    sorted_logits: FloatArray
    launched: FloatArray
    flops_per_joule: FloatArray
    narrow: FloatArray
    foreign: FloatArray
    engine: IntArray
    factor: IntArray
    fixed: IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """The parts of the time of steps on one GPU of one pipeline stage, one entry a step. [s]

    `kernels_s` is by kernel [step, kernel], in the order of the table. `launch_s` is what the host takes to launch a
    step with prompt tokens. In `drafter_s` a model or head that drafts reads the prompts.
    """

    kernels_s: FloatArray
    elementwise_s: FloatArray
    quantisation_s: FloatArray
    sampling_s: FloatArray
    collectives_s: FloatArray
    engine_s: FloatArray
    launch_s: FloatArray
    drafter_s: FloatArray = field(default_factory=lambda: np.zeros(1))

    def scaled(self, factor: float | FloatArray) -> "StepTime":
        """Return the same steps with every part so many times as long, each by its own factor if there are several."""
        by_step = np.asarray(factor)
        parts = {item.name: by_step * getattr(self, item.name) for item in fields(self) if item.name != "kernels_s"}
        return StepTime(kernels_s=by_step[..., None] * self.kernels_s, **parts)

    @property
    def device_s(self) -> FloatArray:
        """Return the time of the GPU's work."""
        others_s = self.elementwise_s + self.quantisation_s + self.sampling_s + self.collectives_s
        return np.asarray(self.kernels_s.sum(axis=-1) + others_s)

    @property
    def total_s(self) -> FloatArray:
        return np.asarray(np.cbrt(self.device_s**3 + self.launch_s**3) + self.engine_s + self.drafter_s)


def step_table(kernels: Kernels, load: Load, *, machine: Machine, layout: ConstantsVector, engine: str) -> StepTable:
    """Divide the FLOPs and bytes of steps by the printed peaks and bandwidth.

    What memory and vendors change was learnt from serving engines; llama.cpp's kernels have shares of their own on all.
    """
    columns = [_columns(kernels, load, machine)]
    if kernels.host is not None and machine.host is not None:
        columns.append(_host_columns(kernels.host, load, machine, machine.host))
    compute_s, memory_s, count = (np.concatenate([part[item] for part in columns], axis=-1) for item in range(3))
    kernel_class = np.concatenate([part[3] for part in columns])
    names = [factor_name(engine, machine.architecture, CLASSES[index]) for index in kernel_class]
    places = [layout.factor_place(name) for name in names]
    one = np.ones_like(load.tokens)
    shares = not {KernelClass.GGML_16, KernelClass.GGML_NARROW} & kernel_classes(kernels)
    return StepTable(
        compute_s=compute_s,
        memory_s=memory_s,
        count=count,
        kernel_class=np.broadcast_to(kernel_class, count.shape),
        elementwise_s=load.tokens * kernels.bordering_elements / machine.bandwidth_bytes_per_s,
        quantised_s=load.tokens * kernels.quantised_elements / machine.bandwidth_bytes_per_s,
        collectives=collectives(kernels, load, machine=machine),
        layers=kernels.layers * one,
        stages=kernels.pipeline_parallel * one,
        sequences=load.decoding * kernels.pipeline_parallel,
        sorted_logits=load.sampled * kernels.sorted_logits,
        launched=np.where((load.prefilled > 0) | SCHEDULING[engine].launches_pieces, 1.0, 0.0),
        flops_per_joule=(machine.flops_per_joule or 0.0) * one,
        narrow=float(machine.narrow_memory and shares) * one,
        foreign=float(machine.vendor != "NVIDIA" and shares) * one,
        engine=np.full(one.shape, layout.engines.index(engine)),
        factor=np.broadcast_to(np.array(places), count.shape),
        fixed=np.full(one.shape, layout.factor_place(fixed_name(engine, machine.vendor, machine.architecture))),
    )


_Columns = tuple[FloatArray, FloatArray, FloatArray, IntArray]
_COPIED_TOKENS = 32
"""Tokens of a step from which on llama.cpp copies weights of the host to the GPU and multiplies there (the least batch
that its CUDA backend takes over)."""


def _columns(kernels: Kernels, load: Load, machine: Machine) -> _Columns:
    """Return time at peak, time at bandwidth, and count of each kernel [step, kernel], and the classes [kernel]."""
    work = step_work(kernels, load)
    half = next(iter(machine.peaks_flops_per_s.values()))
    peaks = np.array([machine.peaks_flops_per_s.get(arithmetic, half) for arithmetic in work.arithmetic])
    memory_s = work.traffic_bytes / machine.bandwidth_bytes_per_s
    for index, item in enumerate(kernels.products):
        if item.kernel_class is KernelClass.GGML_NARROW:
            tokens = load.sampled if item.sampled else load.tokens
            memory_s[..., index] *= machine.unpacking_factor(item.weight_bytes, tokens)
    return work.flops * work.padding / peaks, memory_s, work.count, work.kernel_class


def _host_columns(kernels: Kernels, load: Load, machine: Machine, host: HostCpu) -> _Columns:
    """Return the same of what lies in host memory: the CPU computes it, or its weights are copied to the GPU."""
    compute_s, memory_s, count, classes = _columns(kernels, load, replace(machine, moved_bytes_per_s=None))
    copied = (load.tokens >= _COPIED_TOKENS)[..., None]
    work = step_work(kernels, load)
    rate = np.where(copied, host.link_bytes_per_s, host.bandwidth_bytes_per_s)
    own_s = work.flops / host.flops_per_s if host.flops_per_s else compute_s
    return np.where(copied, compute_s, own_s), memory_s * machine.bandwidth_bytes_per_s / rate, count, classes


def stack(tables: Sequence[StepTable]) -> StepTable:
    """Stack the steps of several deployments; kernels that a deployment lacks count 0 times."""
    width = max(table.count.shape[1] for table in tables)

    def column(name: str) -> Any:
        parts = [getattr(table, name) for table in tables]
        if parts[0].ndim == 2:
            empty = -1 if name == "factor" else 0
            parts = [np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=empty) for part in parts]
        return np.concatenate(parts)

    joined = Collectives.stack([table.collectives for table in tables])
    names = [item.name for item in fields(StepTable) if item.name != "collectives"]
    return StepTable(collectives=joined, **{name: column(name) for name in names})


def power_factor(flops_per_joule: FloatArray, *, knee: float) -> FloatArray:
    """Compute the share of the printed peak that the power limit leaves: (1 + (FLOP/J ÷ knee)^4)^−¼."""
    return np.asarray((1.0 + (flops_per_joule / knee) ** 4) ** -0.25)


def _kernel_times(table: StepTable, constants: Constants) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the time of arithmetic, of memory and of the roofline [step, kernel], before the fixed time. [s]"""
    device = constants.device
    foreign_compute = 1.0 + table.foreign * (device("other_compute") - 1.0)
    compute = power_factor(table.flops_per_joule, knee=device("power_knee")) * foreign_compute
    memory = _memory_factor(table, constants)
    which, factor = table.kernel_class, constants.factors_of(table.factor)
    compute_s = factor * table.compute_s / (constants.kernel("compute_fraction")[which] * compute[:, None])
    memory_s = factor * table.memory_s / (constants.kernel("bandwidth_fraction")[which] * memory[:, None])
    return compute_s, memory_s, np.cbrt(compute_s**3 + memory_s**3)


def _fixed_s(table: StepTable, constants: Constants) -> FloatArray:
    foreign = 1.0 + table.foreign * (constants.device("other_fixed") - 1.0)
    return constants.kernel("fixed_s")[table.kernel_class] * (foreign * constants.factors_of(table.fixed))[:, None]


def _memory_factor(table: StepTable, constants: Constants) -> FloatArray:
    """Return by what factor a GPU's memory reaches more of its printed bandwidth than HBM on an NVIDIA GPU does."""
    narrow = 1.0 + table.narrow * (constants.device("narrow_bandwidth") - 1.0)
    return np.asarray(narrow * (1.0 + table.foreign * (constants.device("other_bandwidth") - 1.0)))


def kernel_slopes_s(table: StepTable, constants: Constants) -> FloatArray:
    """Compute how the time of a step's kernels moves with the logarithms of the kernels' constants. [s]

    Returns:
        Derivatives [step, 3 · class] by compute share, bandwidth share and fixed time of each class.
    """
    compute_s, memory_s, roofline_s = _kernel_times(table, constants)
    scale = table.count / np.maximum(roofline_s, 1e-15) ** 2
    parts = (-scale * compute_s**3, -scale * memory_s**3, table.count * _fixed_s(table, constants))
    slopes = np.zeros((table.count.shape[0], len(parts) * len(CLASSES)))
    rows = np.arange(table.count.shape[0])
    for column in range(table.count.shape[1]):
        for block, part in enumerate(parts):
            slopes[rows, block * len(CLASSES) + table.kernel_class[:, column]] += part[:, column]
    return slopes


def factor_slopes_s(table: StepTable, constants: Constants) -> FloatArray:
    """Compute how the time of a step's kernels moves with the logarithms of the kernel factors. [s]

    Returns:
        Derivatives [step, factor].
    """
    moved_s = table.count * _kernel_times(table, constants)[2]
    slopes = np.zeros((table.count.shape[0], len(constants.layout.factors)))
    rows, columns = np.nonzero(table.factor >= 0)
    np.add.at(slopes, (rows, table.factor[rows, columns]), moved_s[rows, columns])
    delayed = np.flatnonzero(table.fixed >= 0)
    slopes[delayed, table.fixed[delayed]] += (table.count * _fixed_s(table, constants)).sum(axis=1)[delayed]
    return slopes


def step_time(table: StepTable, constants: Constants, *, kernels_s: FloatArray | None = None) -> StepTime:
    if kernels_s is None:
        kernels_s = table.count * (_kernel_times(table, constants)[2] + _fixed_s(table, constants))
    engine, memory = table.engine, _memory_factor(table, constants)
    overlaps = np.array([SCHEDULING[name].overlaps for name in constants.layout.engines])[engine]
    sequences_s = constants.engine("sequence_s")[engine] * table.sequences
    return StepTime(
        kernels_s=kernels_s,
        elementwise_s=table.elementwise_s * constants.engine("elementwise_bytes")[engine] / memory,
        quantisation_s=table.quantised_s * constants.engine("quantised_bytes")[engine] / memory,
        sampling_s=table.sorted_logits * constants.engine("sorted_logit_s")[engine],
        collectives_s=collectives_s(table.collectives, constants),
        engine_s=constants.engine("layer_s")[engine] * table.layers
        + constants.engine("step_s")[engine] / table.stages
        + np.where(overlaps, 0.0, sequences_s),
        launch_s=constants.engine("prefill_layer_s")[engine] * table.layers * table.launched
        + np.where(overlaps, sequences_s, 0.0),
    )


def class_names(table: StepTable) -> tuple[str, ...]:
    return tuple(CLASSES[index] for index in table.kernel_class[0])
