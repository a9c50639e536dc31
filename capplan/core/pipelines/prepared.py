"""A pipeline that can be planned: its memory at the worst moment, and the sum of its parts' times.

Memory. With all weights on the GPU the peak is the largest, over the parts that run, of what that part takes and the
weights of the others. With the weights of waiting parts on the host (`enable_model_cpu_offload`) it is that of the part
alone; layer by layer (`enable_sequential_cpu_offload`) that of the part without its weights but for its largest layer.

Time. Parts run one after the other. Weights that wait on the host are moved over PCIe: once there and back for a batch
of items, or there for each run where they go layer by layer.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from capplan.core.batches import LARGEST_BATCH
from capplan.core.energy.power import PeakSeconds
from capplan.core.gpus.spec import UNKNOWN_PCIE_BYTES_PER_S, GpuSpec
from capplan.core.latency.calibration import Calibration
from capplan.core.latency.device import Unsupported
from capplan.core.latency.types import Binding, LatencyEstimate
from capplan.core.memory.types import MemoryEstimate, MemoryPart
from capplan.core.numbers import Interval
from capplan.core.pipelines.sharing import Degrees
from capplan.core.pipelines.timing import Correction, time_runs
from capplan.core.pipelines.types import Offload, Part, Pipeline, Runs
from capplan.core.plan.planner import Planned, Prepared
from capplan.core.plan.types import Fit, ModelFacts, PartFacts, PartTime, PipelineFacts
from capplan.core.trace.model_input import ModelInput
from capplan.core.workload import Workload

PAGEABLE_SHARE = Interval(low=0.25, expected=0.5, high=0.9)
"""The share of the printed PCIe rate at which weights move between pageable memory of the host and a GPU: copies pass a
staging buffer of the driver. An assumption: no pipeline with offloading was measured."""


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

    @cached_property
    def largest_layer_bytes(self) -> int:
        """The weights of the largest module, which are on the GPU at once where layers are moved one by one. [bytes]"""
        sizes: dict[str, int] = defaultdict(int)
        trace = self.shared.trace
        for storage in self.shared.memory.recording.storages:
            if storage.parameter is not None:
                module = trace.parameters[storage.parameter].names[0].rpartition(".")[0]
                sizes[module] += storage.size_bytes.at(1)
        return max(sizes.values(), default=0)

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
        calibration: the calibration of kernels.
        parts: the traced parts, in order.
        offload: where the weights of waiting parts are.
        degrees: the GPUs that share an item's sequence.
    """

    pipeline: Pipeline
    workload: Workload
    calibration: Calibration | None
    parts: tuple[PreparedPart, ...]
    offload: Offload = Offload.NONE
    degrees: Degrees = field(default_factory=Degrees)

    @cached_property
    def facts(self) -> ModelFacts:  # type: ignore[override] # worked out once, read only
        """What holds of the pipeline on any GPU; counts are of one item."""
        runs = [(each.whole.facts, self._runs(each, 1)) for each in self.parts]
        if len(self.parts) == 1 and runs[0][1] == Runs(times=1, batch=1):
            return runs[0][0]

        def per_item(count: Callable[[ModelFacts, Runs], float]) -> int:
            return int(sum(run.times * count(facts, run) for facts, run in runs))

        return ModelFacts(
            name=self.pipeline.name,
            class_name="pipeline of " + ", ".join(facts.class_name for facts, _ in runs),
            input=ModelInput(size=""),
            parameters=tuple(
                replace(parameter, names=tuple(f"{each.part.name}.{name}" for name in parameter.names))
                for each in self._holders
                for parameter in each.whole.trace.parameters
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
        """What the pipeline makes, and of what parts."""
        values = self.pipeline.values(1)
        parts = []
        for each in self.parts:
            run, facts = self._runs(each, 1), each.whole.facts
            parts.append(
                PartFacts(
                    name=each.part.name,
                    class_name=facts.class_name,
                    parameter_count=facts.parameter_count,
                    weight_bytes=each.weight_bytes,
                    times=float(run.times),
                    flops_per_item=float(run.times * run.batch * facts.flops_per_sample),
                )
            )
        several = self.degrees.gpu_count > 1
        return PipelineFacts(
            item=self.pipeline.item,
            parts=tuple(parts),
            parameters={name: float(values[name]) for name in self.pipeline.parameters},
            item_seconds=self.pipeline.seconds_of_item(),
            gpu_count=self.degrees.gpu_count,
            sharing=f"ulysses {self.degrees.ulysses}, ring {self.degrees.ring}" if several else "",
        )

    @property
    def target(self) -> str:
        """The words that name the pipeline."""
        return self.pipeline.name

    @property
    def exact_batch(self) -> int | None:
        """None: items are counted whatever the batches that parts were traced at."""
        return self.parts[0].held_at if self._is_one_model else None

    @property
    def _is_one_model(self) -> bool:
        return len(self.parts) == 1 and self._runs(self.parts[0], 2) == Runs(times=1, batch=2)

    @property
    def refused_above(self) -> int | None:
        """The largest batch that no kernel of any part refuses."""
        found = [
            self._items_for(each, refused)
            for each in self.parts
            if each.held_at is None and (refused := each.shared.refused_above) is not None
        ]
        return min(found, default=None)

    @cached_property
    def _known_runs(self) -> dict[tuple[str, int], Runs]:
        return {}

    def _runs(self, each: PreparedPart, batch: int) -> Runs:
        """Return how often a part runs for a batch; an answer asks for the same ones hundreds of times."""
        key = (each.part.name, batch)
        if key not in self._known_runs:
            self._known_runs[key] = self.pipeline.runs(each.part, batch)
        return self._known_runs[key]

    def _running(self, batch: int) -> list[tuple[PreparedPart, Runs]]:
        """Return the parts that run for a batch of items; all of them where none does, so that memory has a moment."""
        found = [(each, self._runs(each, batch)) for each in self.parts]
        return [(each, run) for each, run in found if run.times > 0] or found

    def _items_for(self, each: PreparedPart, most: int) -> int:
        """Return how many items are made at once where a part takes so many samples a run."""
        one, two = self._runs(each, 1).batch, self._runs(each, 2).batch
        if one == two:
            return LARGEST_BATCH if most >= one else 0
        return most // one

    def largest_batch(self, gpu: GpuSpec, *, available_bytes: float) -> int:
        """Return the largest batch of items whose worst moment fits a GPU."""
        largest = LARGEST_BATCH
        for each, run in self._running(1):
            room = available_bytes - self._beside(each)
            if each.held_at is not None and not self._is_one_model:
                fits = self._at(each, run, gpu, available_bytes).total_bytes.expected <= available_bytes
                if not fits:
                    return 0
                if self._runs(each, 2).batch != run.batch:
                    largest = min(largest, self._searched(each, gpu, available_bytes))
                continue
            most = each.shared.largest_batch(gpu, available_bytes=room) if room > 0 else 0
            largest = min(largest, self._items_for(each, most))
        return largest

    def _searched(self, each: PreparedPart, gpu: GpuSpec, available_bytes: float) -> int:
        """Find the largest batch of a part whose memory is taken as growing evenly with it."""
        low, high = 1, LARGEST_BATCH
        while low < high:
            middle = (low + high + 1) // 2
            needed = self._at(each, self._runs(each, middle), gpu, available_bytes).total_bytes.expected
            low, high = (middle, high) if needed <= available_bytes else (low, middle - 1)
        return low

    @property
    def _holders(self) -> list[PreparedPart]:
        """Return the parts that have weights of their own."""
        return [each for each in self.parts if not each.part.weights_of]

    def _beside(self, each: PreparedPart) -> int:
        """Return what lies on the GPU beside a part while it runs; negative where its own weights do not. [bytes]"""
        if self.offload is Offload.NONE:
            own = each.part.weights_of or each.part.name
            return sum(other.weight_bytes for other in self._holders if other.part.name != own)
        if self.offload is Offload.SEQUENTIAL:
            return each.largest_layer_bytes - each.weight_bytes
        return 0

    def _at(self, each: PreparedPart, run: Runs, gpu: GpuSpec | None, available_bytes: float | None) -> MemoryEstimate:
        """Estimate the memory while a part runs, with what lies beside it."""
        batch, ratio = each.traced_batch(run.batch)
        beside = self._beside(each)
        room = None if available_bytes is None else max(0.0, available_bytes - beside)
        found = each.shared.memory.estimate(batch=batch, gpu=gpu, available_bytes=room)
        parts = found.parts
        if ratio != 1.0:
            parts = tuple(_grown(part, ratio) if part.name == "activations" else part for part in parts)
        if self.offload is Offload.SEQUENTIAL:
            kept = [part for part in parts if part.name not in ("weights", "buffers")]
            layer = MemoryPart(
                name="largest layer", size_bytes=Interval.exact(each.largest_layer_bytes), origin="trace"
            )
            parts = (layer, *kept)
        elif beside:
            waiting = MemoryPart(name="weights of other parts", size_bytes=Interval.exact(beside), origin="trace")
            parts = (*parts, waiting)
        name = f"{each.part.name}.{found.peak_module}".rstrip(".") if len(self.parts) > 1 else found.peak_module
        return replace(found, parts=parts, peak_module=name)

    def moments(
        self, batch: int, gpu: GpuSpec | None, *, available_bytes: float | None
    ) -> tuple[tuple[str, MemoryEstimate], ...]:
        """Return the memory of the process while each part of a batch of items runs, by the part's name.

        Args:
            batch: items made at once.
            gpu: the GPU; None takes the workspaces and context of an unknown one.
            available_bytes: what the process may take; None leaves it all of the GPU. [bytes]
        """
        return tuple(
            (each.part.name, replace(self._at(each, run, gpu, available_bytes), batch=batch))
            for each, run in self._running(batch)
        )

    def memory_at(self, batch: int, gpu: GpuSpec, *, available_bytes: float) -> MemoryEstimate:
        """Estimate the memory of the worst moment of a batch of items."""
        moments = self.moments(batch, gpu, available_bytes=available_bytes)
        return max((memory for _, memory in moments), key=lambda memory: memory.total_bytes.expected)

    def latencies(
        self, gpus: Sequence[GpuSpec], batches: Sequence[int]
    ) -> tuple[tuple[LatencyEstimate, ...] | Unsupported, ...]:
        """Estimate the time of each batch of items on each GPU."""
        by_part = [self._part_latencies(each, gpus, batches) for each in self.parts]
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
        for each in self.parts:
            run = self._runs(each, batch)
            size, ratio = each.traced_batch(run.batch)
            work = each.shared.peak_seconds(gpu, [size])[0]
            if work is None:
                return None
            total += work.times(ratio * run.times)
        return total

    def _part_latencies(
        self, each: PreparedPart, gpus: Sequence[GpuSpec], batches: Sequence[int]
    ) -> tuple[tuple[LatencyEstimate, ...] | Unsupported, ...]:
        """Estimate one run of a part on each GPU at each batch of items."""
        wanted = [each.traced_batch(self._runs(each, batch).batch) for batch in batches]
        sizes = sorted({size for size, _ in wanted})
        rows = time_runs(each.shared.step, gpus, sizes, each.correction)
        return tuple(
            row
            if isinstance(row, Unsupported)
            else tuple(_times(row[sizes.index(size)], ratio) for size, ratio in wanted)
            for row in rows
        )

    def _summed(self, gpu: GpuSpec, batch: int, rows: Sequence[LatencyEstimate]) -> LatencyEstimate:
        runs = [self._runs(each, batch) for each in self.parts]
        if len(rows) == 1 and runs[0].times == 1 and self.offload is Offload.NONE:
            return replace(rows[0], batch=batch, gpus_per_batch=self.degrees.gpu_count)
        spent = [_times(row, run.times) for row, run in zip(rows, runs, strict=True) if run.times > 0]
        moved = [self._moving_s(each, run, gpu) for each, run in zip(self.parts, runs, strict=True)]
        parts = [*(row.latency_s for row in spent), *moved] or [Interval.exact(0.0)]
        total = Interval(
            low=max(1e-12, sum(part.low for part in parts)),
            expected=max(1e-12, sum(part.expected for part in parts)),
            high=max(1e-12, sum(part.high for part in parts)),
        )
        main = max(spent, key=lambda row: row.latency_s.expected, default=rows[0])
        shares = dict.fromkeys(Binding, 0.0)
        for row in spent:
            for binding, share in row.share_by_binding:
                shares[binding] += share * row.latency_s.expected / total.expected
        shares[Binding.BANDWIDTH] += sum(part.expected for part in moved) / total.expected
        return replace(
            main,
            batch=batch,
            bound_s=min(total.low, sum(row.bound_s for row in spent)),
            latency_s=total,
            bound_by=max(shares, key=lambda binding: shares[binding]),
            share_by_binding=tuple(shares.items()),
            notes=tuple(dict.fromkeys(note for row in spent for note in row.notes)),
            gpus_per_batch=self.degrees.gpu_count,
        )

    def _moving_s(self, each: PreparedPart, run: Runs, gpu: GpuSpec) -> Interval:
        """Return how long a batch of items waits for a part's weights. [s]"""
        is_there = self.offload is Offload.MODEL and bool(each.part.weights_of)
        if self.offload is Offload.NONE or run.times == 0 or is_there:
            return Interval.exact(0.0)
        moves = 2.0 if self.offload is Offload.MODEL else float(run.times)
        least_s = moves * each.weight_bytes / (gpu.pcie_bytes_per_s or UNKNOWN_PCIE_BYTES_PER_S)
        return Interval(
            low=least_s / PAGEABLE_SHARE.high,
            expected=least_s / PAGEABLE_SHARE.expected,
            high=least_s / PAGEABLE_SHARE.low,
        )

    def part_times(self, gpu: GpuSpec, batch: int, *, available_bytes: float) -> tuple[PartTime, ...]:
        """Return what each part takes of a batch of items on a GPU; none where the GPU cannot run a part."""
        found = []
        for each in self.parts:
            row = self._part_latencies(each, [gpu], [batch])[0]
            if isinstance(row, Unsupported):
                return ()
            run = self._runs(each, batch)
            found.append(
                PartTime(
                    name=each.part.name,
                    times=float(run.times),
                    compute_s=float(run.times * row[0].latency_s.expected),
                    moving_s=self._moving_s(each, run, gpu).expected,
                    peak_bytes=self._at(each, run, gpu, available_bytes).total_bytes.expected,
                )
            )
        return tuple(found)

    def with_parts(self, fit: Fit, *, available_bytes: float) -> Fit:
        """Return a fit with what each part takes and where weights wait; a power cap lengthens all parts alike."""
        parts = self.part_times(fit.gpu, fit.batch, available_bytes=available_bytes)
        summed_s = sum(part.total_s for part in parts)
        longer = fit.latency.latency_s.expected / summed_s if summed_s else 1.0
        if longer > 1 + 1e-9:
            parts = tuple(replace(part, compute_s=part.compute_s + (longer - 1) * part.total_s) for part in parts)
        return replace(fit, parts=parts, offload=self.offload.value)

    def input_bytes(self, batch: int) -> int:
        """Return the bytes of the first part's inputs; what parts hand on stays on the GPU. [bytes]"""
        first = self.parts[0]
        return first.whole.input_bytes(self._runs(first, batch).batch)

    @property
    def cautions(self) -> tuple[str, ...]:
        """What makes the figures of the parts uncertain."""
        return _named(self.parts, lambda each: each.whole.cautions)

    @property
    def conditions(self) -> tuple[str, ...]:
        """What holds of the parts beside the workload, and where weights wait."""
        if self._is_one_model:
            return self.parts[0].whole.conditions
        held = [each for each in self.parts if each.held_at is not None]
        grown = [
            f"{each.part.name}: traced at batch {each.held_at}, more samples taken one after the other" for each in held
        ]
        return ("parts run one after the other; an item's scheduler and its saving are left out", *grown)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was chosen for the user, of the pipeline and of its parts."""
        return (*self.pipeline.notes, *_named(self.parts, lambda each: each.whole.notes))

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions of the libraries that the parts were traced with."""
        return {name: version for each in self.parts for name, version in each.whole.versions.items()}


def _named(parts: Sequence[PreparedPart], sentences: Callable[[PreparedPart], Iterable[str]]) -> tuple[str, ...]:
    """Return sentences on parts, each with the part's name where there are several."""
    several = len(parts) > 1
    return tuple(f"{each.part.name}: {text}" if several else text for each in parts for text in sentences(each))


def _grown(part: MemoryPart, ratio: float) -> MemoryPart:
    size = part.size_bytes
    return replace(
        part, size_bytes=Interval(low=size.low * ratio, expected=size.expected * ratio, high=size.high * ratio)
    )


def _times(row: LatencyEstimate, times: float) -> LatencyEstimate:
    """Return the estimate of several runs, one after the other."""
    if times == 1:
        return row
    time = row.latency_s
    return replace(
        row,
        bound_s=row.bound_s * times,
        latency_s=Interval(low=time.low * times, expected=time.expected * times, high=time.high * times),
    )
