"""A pipeline that can be planned: its memory at the worst moment, and its parts' times with what overlaps.

Memory. With all weights on the GPU the peak is the largest, over the parts that run, of what that part takes and the
weights of the others. With the weights of waiting parts on the host (`enable_model_cpu_offload`) it is that of the part
alone; layer by layer (`enable_sequential_cpu_offload`) that of the part without its weights but for its largest layer,
or its two largest where one is copied while another computes (`enable_group_offload`). Two streams of a GPU take what
both take at once.

Time. Parts run one after the other, unless a pipeline says that they run elsewhere (`capplan.core.pipelines.timing`).
Weights that wait on the host are moved over PCIe: once there and back for a batch of items, or there for each run where
they go layer by layer; what is copied while a layer computes takes the time that computing does not.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil, exp, floor
from typing import ClassVar

from capplan.core.assumed import STREAMED_SHARE, UNKNOWN_PCIE_BYTES_PER_S
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.calibration import Calibration
from capplan.core.latency.device import Unsupported, pageable_s
from capplan.core.latency.types import Binding, LatencyEstimate
from capplan.core.memory.types import FitStatus, MemoryEstimate, MemoryPart
from capplan.core.numbers import Interval, largest_true
from capplan.core.pipelines.sharing import Degrees
from capplan.core.pipelines.timing import (
    Correction,
    PartRuns,
    batch_time_s,
    device_of,
    interval_s,
    kernels_share,
    start_times,
    time_runs,
)
from capplan.core.pipelines.types import ON_ANOTHER, ON_GPU, ON_STREAM, Offload, Part, Pipeline, Runs
from capplan.core.plan.planner import Planned, Prepared
from capplan.core.plan.types import Fit, ModelFacts, PartFacts, PartTime, PipelineFacts
from capplan.core.power import PeakSeconds, PowerNovelty
from capplan.core.trace.types import ModelInput
from capplan.core.workload import LARGEST_BATCH, Workload

_SLOWEST_FIRST = {"low": "high", "expected": "expected", "high": "low"}
"""The end of a rate's interval that gives an end of a time's."""
_HOST_SPREAD = 2.0
"""How much longer or shorter another machine's CPU may take to prepare an item: an assumption."""
_LAYERS_AT_ONCE = {Offload.SEQUENTIAL: 1, Offload.STREAMED: 2}
_WEIGHTS = ("weights", "buffers", "largest layer", "largest layers", "weights of other parts")
"""The parts of memory that hold weights."""


@dataclass(frozen=True, kw_only=True)
class PreparedPart:
    """A part of a pipeline that was traced.

    Attributes:
        part: what the pipeline says of it.
        whole: its trace as one GPU runs it.
        shared: its trace as each of several GPUs runs it, which share its sequence; `whole` where one does.
        correction: what a calibration of pipelines changes; None for parts that it says nothing of.
    """

    part: Part
    whole: Prepared
    shared: Prepared
    correction: Correction | None

    @cached_property
    def weight_bytes(self) -> int:
        """Weights and buffers, in the dtypes in which they run. [bytes]"""
        return sum(
            storage.size_bytes.at(1)
            for storage in self.shared.memory.recording.storages
            if storage.role.value in ("parameter", "buffer")
        )

    def largest_layers_bytes(self, count: int) -> int:
        """Return the weights of the largest modules, which are on the GPU at once where layers are moved. [bytes]"""
        return sum(self._layer_bytes[:count])

    @cached_property
    def _layer_bytes(self) -> list[int]:
        """The weights of each module, the largest first. [bytes]"""
        sizes: dict[str, int] = defaultdict(int)
        trace = self.shared.trace
        for storage in self.shared.memory.recording.storages:
            if storage.parameter is not None:
                module = trace.parameters[storage.parameter].names[0].rpartition(".")[0]
                sizes[module] += storage.size_bytes.at(1)
        return sorted(sizes.values(), reverse=True)

    @property
    def held_at(self) -> int | None:
        """The only batch of the part's own samples that its trace holds at."""
        return self.shared.exact_batch

    def traced_batch(self, batch: int) -> tuple[int, float]:
        """Return the batch to read the trace at, and how many such batches a batch is taken as."""
        if self.held_at is None:
            return batch, 1.0
        return self.held_at, batch / self.held_at


@dataclass(frozen=True, kw_only=True)
class PreparedPipeline(Planned):
    """The parts of a pipeline under one workload, with the weights of those that wait in one place.

    Attributes:
        pipeline: its parts and parameters.
        workload: the conditions that a plan states; parts may have formats of their own.
        parts: the traced parts, in order.
        offload: where the weights of waiting parts are.
        degrees: the GPUs that share an item's sequence.
        hosts: the CPUs that parts run on, by id.
    """

    power_novelties: ClassVar[frozenset[PowerNovelty]] = frozenset()

    pipeline: Pipeline
    workload: Workload
    calibration: Calibration | None
    parts: tuple[PreparedPart, ...]
    offload: Offload = Offload.NONE
    degrees: Degrees = field(default_factory=Degrees)
    hosts: Mapping[str, GpuSpec] = field(default_factory=dict)

    @cached_property
    def facts(self) -> ModelFacts:  # type: ignore[override] # worked out once, read only
        """Return what holds of the pipeline on any GPU; counts are of one item."""
        runs = [(part.whole.facts, self._runs(part, 1)) for part in self.parts]
        if len(self.parts) == 1 and runs[0][1] == Runs(times=1, batch=1):
            return runs[0][0]

        def per_item(count: Callable[[ModelFacts, Runs], float]) -> int:
            return int(sum(run.times * count(facts, run) for facts, run in runs))

        return ModelFacts(
            name=self.pipeline.name,
            class_name="pipeline of " + ", ".join(facts.class_name for facts, _ in runs),
            input=ModelInput(size=""),
            parameters=tuple(
                replace(parameter, names=tuple(f"{part.part.name}.{name}" for name in parameter.names))
                for part in self._holders
                for parameter in part.whole.trace.parameters
            ),
            macs_per_sample=per_item(lambda facts, run: facts.macs_per_sample * run.batch),
            flops_per_sample=per_item(lambda facts, run: facts.flops_per_sample * run.batch),
            activation_peak_bytes=max(facts.activation_peak_bytes * run.batch for facts, run in runs),
            traffic_fixed_bytes=per_item(lambda facts, _: facts.traffic_fixed_bytes),
            traffic_bytes_per_sample=per_item(lambda facts, run: facts.traffic_bytes_per_sample * run.batch),
            uncounted=tuple(dict.fromkeys(name for facts, _ in runs for name in facts.uncounted)),
            input_bytes_per_sample=runs[0][0].input_bytes_per_sample * runs[0][1].batch,
        )

    @property
    def pipeline_facts(self) -> PipelineFacts:
        values = self.pipeline.values(1)
        parts = []
        for part in self.parts:
            run, facts = self._runs(part, 1), part.whole.facts
            parts.append(
                PartFacts(
                    name=part.part.name,
                    class_name=facts.class_name,
                    parameter_count=facts.parameter_count,
                    weight_bytes=part.weight_bytes,
                    times=float(run.times),
                    flops_per_item=float(run.times * run.batch * facts.flops_per_sample),
                )
            )
        shared = [f"ulysses {self.degrees.ulysses}, ring {self.degrees.ring}"] * (self.degrees.gpu_count > 1)
        apart = [f"{part.part.name} on one of its own" for part in self.parts if part.part.on == ON_ANOTHER]
        return PipelineFacts(
            item=self.pipeline.item,
            parts=tuple(parts),
            parameters={name: float(values[name]) for name in self.pipeline.parameters},
            item_seconds=self.pipeline.seconds_of_item(),
            gpu_count=self.gpu_count,
            sharing=", ".join([*shared, *apart]),
        )

    @property
    def gpu_count(self) -> int:
        return self.degrees.gpu_count + any(part.part.on == ON_ANOTHER for part in self.parts)

    def _is_elsewhere(self, part: PreparedPart) -> bool:
        """Return True for a part on a CPU, whose memory no GPU holds."""
        return part.part.on in self.hosts

    def _offload_of(self, part: PreparedPart) -> Offload:
        return Offload.NONE if self._is_elsewhere(part) else part.part.offload or self.offload

    @property
    def target(self) -> str:
        return self.pipeline.name

    @property
    def exact_batch(self) -> int | None:
        """The only batch of a pipeline that is one model; None else: items count whatever batch parts hold at."""
        return self.parts[0].held_at if self._is_one_model else None

    @property
    def _is_one_model(self) -> bool:
        return len(self.parts) == 1 and self._runs(self.parts[0], 2) == Runs(times=1, batch=2)

    @property
    def refused_above(self) -> int | None:
        """The largest batch that no kernel of any part refuses."""
        found = [
            self._items_for(part, refused)
            for part in self.parts
            if part.held_at is None and (refused := part.shared.refused_above) is not None
        ]
        return min(found, default=None)

    @cached_property
    def _known_runs(self) -> dict[tuple[str, int], Runs]:
        return {}

    def _runs(self, part: PreparedPart, batch: int) -> Runs:
        """Return how often a part runs for a batch; an answer asks for the same ones hundreds of times."""
        key = (part.part.name, batch)
        if key not in self._known_runs:
            self._known_runs[key] = self.pipeline.runs(part.part, batch)
        return self._known_runs[key]

    def _running(self, batch: int) -> list[tuple[PreparedPart, Runs]]:
        """Return the parts that run on GPUs for a batch; all of them where none does, so that memory has a moment."""
        found = [(part, self._runs(part, batch)) for part in self.parts if not self._is_elsewhere(part)]
        return [(part, run) for part, run in found if run.times > 0] or found

    def _items_for(self, part: PreparedPart, most: int) -> int:
        """Return how many items are made at once where a part takes so many samples a run."""
        one, two = self._runs(part, 1).batch, self._runs(part, 2).batch
        if one == two:
            return LARGEST_BATCH if most >= one else 0
        return most // one

    def largest_batch(self, gpu: GpuSpec, *, available_bytes: float) -> int:
        """Return the largest batch of items whose worst moment fits a GPU."""
        if self._streams:
            return self._searched(gpu, available_bytes)
        largest = LARGEST_BATCH
        for part, run in self._running(1):
            room = available_bytes - self._beside(part)
            if part.held_at is not None and not self._is_one_model:
                fits = self._at(part, run, gpu, available_bytes).total_bytes.expected <= available_bytes
                if not fits:
                    return 0
                if self._runs(part, 2).batch != run.batch:
                    largest = min(largest, self._searched(gpu, available_bytes, only=part))
                continue
            most = part.shared.largest_batch(gpu, available_bytes=room) if room > 0 else 0
            largest = min(largest, self._items_for(part, most))
        return largest

    def _searched(self, gpu: GpuSpec, available_bytes: float, *, only: PreparedPart | None = None) -> int:
        """Find the largest batch that fits, of one part or of the worst moment; 0 where none does."""

        def fits(batch: int) -> bool:
            memory = (
                self.memory_at(batch, gpu, available_bytes=available_bytes)
                if only is None
                else self._at(only, self._runs(only, batch), gpu, available_bytes)
            )
            return memory.total_bytes.expected <= available_bytes

        above = 1
        while above <= LARGEST_BATCH and fits(above):
            above *= 2
        return largest_true(fits, above // 2, min(above, LARGEST_BATCH + 1))

    @property
    def _streams(self) -> bool:
        """Return True if two streams of a GPU hold what their parts take at once."""
        return any(part.part.on == ON_STREAM for part in self.parts)

    @property
    def _holders(self) -> list[PreparedPart]:
        """Return the parts that have weights of their own."""
        return [part for part in self.parts if not part.part.weights_of]

    def _beside(self, part: PreparedPart) -> int:
        """Return what lies on its GPU beside a part while it runs; negative where its own weights do not. [bytes]"""
        layers = _LAYERS_AT_ONCE.get(self._offload_of(part))
        missing = 0 if layers is None else part.weight_bytes - part.largest_layers_bytes(layers)
        return self._waiting(part) - missing

    def _waiting(self, part: PreparedPart) -> int:
        """Return the weights of other parts that lie on the GPU of a part. [bytes]"""
        own, device = part.part.weights_of or part.part.name, device_of(part.part.on)
        return sum(
            other.weight_bytes
            for other in self._holders
            if other.part.name != own and device_of(other.part.on) == device and self._offload_of(other) is Offload.NONE
        )

    def _at(self, part: PreparedPart, run: Runs, gpu: GpuSpec | None, available_bytes: float | None) -> MemoryEstimate:
        """Estimate the memory while a part runs, with what lies beside it."""
        batch, ratio = part.traced_batch(run.batch)
        room = None if available_bytes is None else max(0.0, available_bytes - self._beside(part))
        memory = part.shared.memory.estimate(batch=batch, gpu=gpu, available_bytes=room)
        parts = memory.parts
        if ratio != 1.0:
            parts = tuple(
                replace(held, size_bytes=held.size_bytes * ratio) if held.name == "activations" else held
                for held in parts
            )
        if (layers := _LAYERS_AT_ONCE.get(self._offload_of(part))) is not None:
            kept = [held for held in parts if held.name not in ("weights", "buffers")]
            size = Interval.exact(part.largest_layers_bytes(layers))
            parts = (MemoryPart(name=f"largest layer{'s' * (layers > 1)}", size_bytes=size, origin="trace"), *kept)
        if waiting := self._waiting(part):
            beside = MemoryPart(name="weights of other parts", size_bytes=Interval.exact(waiting), origin="trace")
            parts = (*parts, beside)
        name = f"{part.part.name}.{memory.peak_module}".rstrip(".") if len(self.parts) > 1 else memory.peak_module
        grow = 1.0 if part.correction is None else exp(part.correction.calibration.width.memory)
        wider = [held if held.name in _WEIGHTS else _widened(held, grow) for held in parts]
        fragmentation = _widened(memory.fragmentation, grow)
        return replace(memory, parts=tuple(wider), fragmentation=fragmentation, peak_module=name)

    def moments(
        self, batch: int, gpu: GpuSpec | None, *, available_bytes: float | None
    ) -> tuple[tuple[str, MemoryEstimate], ...]:
        """Return the memory of the process while each part of a batch of items runs, by the part's name."""
        found = [(part, self._at(part, run, gpu, available_bytes)) for part, run in self._running(batch)]
        return tuple(
            (part.part.name, replace(memory, batch=batch, parts=(*memory.parts, *self._other_stream(part, found))))
            for part, memory in found
        )

    def _other_stream(
        self, part: PreparedPart, moments: Sequence[tuple[PreparedPart, MemoryEstimate]]
    ) -> tuple[MemoryPart, ...]:
        """Return what the most demanding part of a GPU's other stream takes beside a part, without weights."""
        if not self._streams or device_of(part.part.on) != ON_GPU:
            return ()
        sizes = [
            sum(held.size_bytes.expected for held in memory.parts if held.name not in _WEIGHTS)
            for other, memory in moments
            if device_of(other.part.on) == ON_GPU and other.part.on != part.part.on
        ]
        size = Interval(low=0.0, expected=max(sizes, default=0.0), high=max(sizes, default=0.0))
        return (MemoryPart(name="the other stream", size_bytes=size, origin="trace"),)

    def memory_at(self, batch: int, gpu: GpuSpec, *, available_bytes: float) -> MemoryEstimate:
        """Estimate the memory of the worst moment of a batch of items."""
        moments = self.moments(batch, gpu, available_bytes=available_bytes)
        return max((memory for _, memory in moments), key=lambda memory: memory.total_bytes.expected)

    def latencies(
        self, gpus: Sequence[GpuSpec], batches: Sequence[int]
    ) -> tuple[tuple[LatencyEstimate, ...] | Unsupported, ...]:
        by_part = [self._part_latencies(part, gpus, batches) for part in self.parts]
        answers: list[tuple[LatencyEstimate, ...] | Unsupported] = []
        for at, gpu in enumerate(gpus):
            rows = [rows[at] for rows in by_part]
            refused = next((row for row in rows if isinstance(row, Unsupported)), None)
            if refused is not None:
                answers.append(refused)
                continue
            answers.append(
                tuple(
                    self._summed(gpu, batch, [row[place] for row in rows if not isinstance(row, Unsupported)])
                    for place, batch in enumerate(batches)
                )
            )
        return tuple(answers)

    def peak_seconds(self, gpu: GpuSpec, batches: Sequence[int]) -> tuple[PeakSeconds | None, ...]:
        """Return the work of each batch of items on one GPU, all runs of all parts together."""
        return tuple(self._work(gpu, batch) for batch in batches)

    def _work(self, gpu: GpuSpec, batch: int) -> PeakSeconds | None:
        total = PeakSeconds()
        for part in self.parts:
            if self._is_elsewhere(part):
                continue
            run = self._runs(part, batch)
            size, ratio = part.traced_batch(run.batch)
            work = part.shared.peak_seconds(gpu, [size])[0]
            if work is None:
                return None
            total += work.times(ratio * run.times)
        return total

    def _part_latencies(
        self, part: PreparedPart, gpus: Sequence[GpuSpec], batches: Sequence[int]
    ) -> tuple[tuple[LatencyEstimate, ...] | Unsupported, ...]:
        wanted = [part.traced_batch(self._runs(part, batch).batch) for batch in batches]
        sizes = sorted({size for size, _ in wanted})
        if self._is_elsewhere(part):
            rows = time_runs(part.shared.step, [self.hosts[part.part.on]], sizes, part.correction) * len(gpus)
        else:
            rows = time_runs(part.shared.step, gpus, sizes, part.correction)
        return tuple(
            row
            if isinstance(row, Unsupported)
            else tuple(_times(row[sizes.index(size)], ratio) for size, ratio in wanted)
            for row in rows
        )

    def _summed(self, gpu: GpuSpec, batch: int, rows: Sequence[LatencyEstimate]) -> LatencyEstimate:
        """Join the estimates of one run of each part into that of a batch of items."""
        runs = [self._runs(part, batch) for part in self.parts]
        host_s = self.pipeline.host_time_s(batch)
        if len(rows) == 1 and runs[0].times == 1 and not host_s and self._offload_of(self.parts[0]) is Offload.NONE:
            return replace(rows[0], batch=batch, gpus_per_batch=self.gpu_count)
        spent = [_times(row, run.times) for row, run in zip(rows, runs, strict=True) if run.times > 0]
        low, expected, high = (self._spans(gpu, batch, rows, end) for end in ("low", "expected", "high"))
        total = Interval(
            low=max(1e-12, batch_time_s(low) + host_s / _HOST_SPREAD),
            expected=max(1e-12, batch_time_s(expected) + host_s),
            high=max(1e-12, batch_time_s(high) + host_s * _HOST_SPREAD),
        )
        work_s = host_s + sum(span.time_s for span in expected) or 1.0
        moved_s = work_s - host_s - sum(row.latency_s.expected for row in spent)
        busy_s = sum(
            run.times * row.latency_s.expected
            for part, row, run in zip(self.parts, rows, runs, strict=True)
            if not self._is_elsewhere(part)
        )
        main = max(spent, key=lambda row: row.latency_s.expected, default=rows[0])
        shares = dict.fromkeys(Binding, 0.0)
        for row in spent:
            for binding, share in row.share_by_binding:
                shares[binding] += share * row.latency_s.expected / work_s
        shares[Binding.LAUNCHES] += host_s / work_s
        shares[Binding.BANDWIDTH] += max(0.0, moved_s) / work_s
        least = [
            replace(span, time_s=float(row.bound_s * run.times)) for span, row, run in zip(low, rows, runs, strict=True)
        ]
        interval = None
        if self.pipeline.overlaps:
            interval = Interval(low=interval_s(low), expected=interval_s(expected), high=interval_s(high))
        return replace(
            main,
            batch=batch,
            bound_s=min(total.low, batch_time_s(least)),
            latency_s=total,
            interval_s=interval,
            bound_by=max(shares, key=lambda binding: shares[binding]),
            share_by_binding=tuple(shares.items()),
            notes=tuple(dict.fromkeys(note for row in spent for note in row.notes)),
            gpus_per_batch=self.gpu_count,
            idle_s=max(0.0, total.expected - busy_s),
        )

    def _spans(self, gpu: GpuSpec, batch: int, rows: Sequence[LatencyEstimate], end: str) -> list[PartRuns]:
        """Return the parts of a batch over time, at one end of their intervals."""
        spans = []
        for part, row in zip(self.parts, rows, strict=True):
            run = self._runs(part, batch)
            one_s = float(getattr(row.latency_s, end))
            busy = 1.0
            if self._streams and device_of(part.part.on) == ON_GPU:
                busy = kernels_share(part.shared.step, gpu, part.traced_batch(run.batch)[0], part.correction)
            spans.append(
                PartRuns(
                    name=part.part.name,
                    on=part.part.on,
                    after=self.pipeline.waits_for(part.part),
                    time_s=run.times * one_s + self._moving_s(part, run, gpu, run_s=one_s, end=end),
                    kernels_s=run.times * one_s * busy,
                )
            )
        return spans

    def _moving_s(self, part: PreparedPart, run: Runs, gpu: GpuSpec, *, run_s: float, end: str) -> float:
        """Return how long a batch of items waits for a part's weights, at one end of an interval. [s]"""
        offload = self._offload_of(part)
        is_there = offload is Offload.MODEL and bool(part.part.weights_of)
        if offload is Offload.NONE or run.times == 0 or is_there:
            return 0.0
        link = gpu.pcie_bytes_per_s or UNKNOWN_PCIE_BYTES_PER_S
        if offload is Offload.STREAMED:  # each run waits for what is not copied while it computes
            once_s = part.weight_bytes / link / STREAMED_SHARE[_SLOWEST_FIRST[end]]
            return float(run.times) * max(0.0, once_s - run_s)
        once_s = float(getattr(pageable_s(part.weight_bytes, pcie_bytes_per_s=link), end))
        return once_s * (2.0 if offload is Offload.MODEL else float(run.times))

    def part_times(self, gpu: GpuSpec, batch: int, *, available_bytes: float) -> tuple[PartTime, ...]:
        """Return what each part takes of a batch of items on a GPU; none where the GPU cannot run a part."""
        rows = [self._part_latencies(part, [gpu], [batch])[0] for part in self.parts]
        known = [row[0] for row in rows if not isinstance(row, Unsupported)]
        if len(known) < len(rows):
            return ()
        spans = self._spans(gpu, batch, known, "expected")
        starts, host_s = start_times(spans), self.pipeline.host_time_s(batch)
        host = PartTime(name="host", times=1.0, compute_s=host_s, moving_s=0.0, peak_bytes=0.0, on="the CPU")
        found = [host] * (host_s > 0)
        for part, row, span in zip(self.parts, known, spans, strict=True):
            run = self._runs(part, batch)
            compute_s = float(run.times * row.latency_s.expected)
            held = 0.0 if self._is_elsewhere(part) else self._at(part, run, gpu, available_bytes).total_bytes.expected
            found.append(
                PartTime(
                    name=part.part.name,
                    times=float(run.times),
                    compute_s=compute_s,
                    moving_s=span.time_s - compute_s,
                    peak_bytes=held,
                    start_s=host_s + starts[part.part.name],
                    on=part.part.on,
                    offload=self._offload_of(part).value,
                )
            )
        return tuple(found)

    def with_parts(self, fit: Fit, *, available_bytes: float) -> Fit:
        """Return a fit with what each part takes and where weights wait; a power cap lengthens what a GPU computes."""
        parts = self.part_times(fit.gpu, fit.batch, available_bytes=available_bytes)
        end_s = max((part.start_s + part.total_s for part in parts), default=0.0)
        elsewhere = {"the CPU", *self.hosts}
        busy_s = sum(part.compute_s for part in parts if part.on not in elsewhere)
        share = (fit.latency.latency_s.expected - end_s) / busy_s if busy_s else 0.0
        if share > 1e-9:
            more = {part.name: share * part.compute_s * (part.on not in elsewhere) for part in parts}
            parts = tuple(
                replace(
                    part,
                    compute_s=part.compute_s + more[part.name],
                    start_s=part.start_s
                    + sum(more[other.name] for other in parts if other.start_s + other.total_s <= part.start_s + 1e-9),
                )
                for part in parts
            )
        return replace(fit, parts=parts, offload=self.offload.value)

    def input_bytes(self, batch: int) -> int:
        """Return the bytes of the first part's inputs; what parts hand on stays on the GPU. [bytes]"""
        first = self.parts[0]
        return first.whole.input_bytes(self._runs(first, batch).batch)

    @property
    def cautions(self) -> tuple[str, ...]:
        """Return what makes the figures of the parts uncertain."""
        return _named(self.parts, lambda part: part.whole.cautions)

    @property
    def conditions(self) -> tuple[str, ...]:
        """Return what holds of the parts beside the workload, and where weights wait."""
        if self._is_one_model:
            return self.parts[0].whole.conditions
        held = [part for part in self.parts if part.held_at is not None]
        grown = [
            f"{part.part.name}: traced at batch {part.held_at}, more samples taken one after the other" for part in held
        ]
        places = {ON_STREAM: "a stream of its own", ON_ANOTHER: "another GPU of the same kind"}
        apart = [
            f"{part.part.name} runs on {places.get(part.part.on, part.part.on)}"
            for part in self.parts
            if part.part.on != ON_GPU
        ]
        order = f"{', '.join(apart)}, beside the next batch" if apart else "parts run one after the other"
        return (f"{order}; an item's scheduler and its saving are left out", *grown)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what was chosen for the user, of the pipeline and of its parts."""
        return (*self.pipeline.notes, *_named(self.parts, lambda part: part.whole.notes))

    @property
    def versions(self) -> Mapping[str, str]:
        return {name: version for part in self.parts for name, version in part.whole.versions.items()}


def _widened(held: MemoryPart, grow: float) -> MemoryPart:
    size = held.size_bytes
    wider = Interval(low=floor(size.low / grow), expected=size.expected, high=ceil(size.high * grow))
    return replace(held, size_bytes=wider)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineMemoryOn:
    """A pipeline's memory with its weights in one place, on one GPU, or on an unknown one.

    `moments` are the memory of the process while each part runs; parts that never do have none. `status` and
    `available_bytes` are None without a GPU; `max_batch` is then None, too.
    """

    gpu: GpuSpec | None
    offload: Offload
    worst: MemoryEstimate
    moments: Mapping[str, MemoryEstimate]
    available_bytes: float | None = None
    status: FitStatus | None = None
    max_batch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineMemory:
    """The memory of a batch of a pipeline's items, for each GPU and each place of waiting weights."""

    name: str
    batch: int
    facts: PipelineFacts
    places: tuple[PipelineMemoryOn, ...]

    @property
    def statuses(self) -> tuple[FitStatus, ...]:
        """Return whether it fits on each GPU asked for, with its weights in each place."""
        return tuple(place.status for place in self.places if place.status is not None)


def _named(parts: Sequence[PreparedPart], sentences: Callable[[PreparedPart], Iterable[str]]) -> tuple[str, ...]:
    """Return sentences on parts, each with the part's name where there are several."""
    several = len(parts) > 1
    return tuple(f"{part.part.name}: {text}" if several else text for part in parts for text in sentences(part))


def _times(row: LatencyEstimate, times: float) -> LatencyEstimate:
    """Return the estimate of several runs, one after the other."""
    if times == 1:
        return row
    return replace(row, bound_s=row.bound_s * times, latency_s=row.latency_s * times)
