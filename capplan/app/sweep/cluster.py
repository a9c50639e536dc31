"""The only door to Ray: run a sweep's stages as tasks of a cluster, traces going from node to node.

Tracing and planning are tasks of their own with resources of their own. The driver, which writes the results, sees
answers but no traces. Ray runs a task again when its worker or node is lost.
"""

import socket
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from capplan.app.sweep.isolation import DevicesTask, IsolatedTracer, MeasureTask, asked_conditions, tracing_worker
from capplan.app.sweep.keys import code_digest
from capplan.app.sweep.measuring import MeasuringDevice, matching_places, measure_here, run_once
from capplan.app.sweep.request import ModelLimits, SweepContext
from capplan.app.sweep.schema import FailureKind
from capplan.app.sweep.stages import JobAnswer, PlanningJob, Traces, failed_answer, plan_model
from capplan.app.trace_cache import library_versions
from capplan.core.sweep.overview import Failed
from capplan.errors import UsageError
from capplan.specs import Gpus
from capplan.version import __version__

_MOST_RETRIES = 10
_TRACED_TOGETHER = 8
"""Models that one tracing task takes at most: it imports torch once for all of them."""
_IN_FLIGHT_PER_CORE = 2
_PROBE_TIMEOUT_S = 60.0
_DEVICES_TIMEOUT_S = 300.0
"""How long a node may take to list its devices, which waits until all its GPUs are free. [s]"""
_ALL_SHOWN = 20
_CONNECT_TIMEOUT_S = 10.0


def ray_module() -> Any:
    try:
        import ray
    except ImportError as error:
        raise UsageError("⟨ray⟩ needs Ray: pip install 'capplan[sweep]'.") from error
    return ray


@dataclass(slots=True, kw_only=True)
class RayEngine:
    """Runs jobs on a Ray cluster, which it joins and leaves but never starts or stops."""

    context: SweepContext
    address: str
    limits: ModelLimits

    def run(self, jobs: Iterable[PlanningJob]) -> Iterator[tuple[PlanningJob, JobAnswer]]:
        ray = connect(self.address)
        try:
            check_nodes(ray)
            yield from _Flow(ray=ray, context=self.context, limits=self.limits).run(iter(jobs))
        finally:
            ray.shutdown()


def connect(address: str) -> Any:
    """Join a cluster and return the module ray."""
    ray = ray_module()
    _refuse_silent_address(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", ignore_reinit_error=True)
    except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UsageError(
            f"⟨ray⟩ {address}: no Ray cluster answers there ({reason}); `ray start --head` starts one, and HOST:6379 "
            "names one."
        ) from error
    return ray


def _refuse_silent_address(address: str) -> None:
    """Refuse HOST:PORT where nothing listens: Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not (colon and port.isdecimal() and int(port) < 2**16):
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_TIMEOUT_S).close()
    except OSError as error:
        raise UsageError(f"⟨ray⟩ {address}: no Ray cluster answers there ({error.strerror or error}).") from error


def check_nodes(ray: Any) -> None:
    """Refuse a cluster on which a node lacks capplan or holds another version of it or of the model libraries."""
    answers = _answers_of_nodes(ray)
    if not answers:
        raise UsageError("no node of the Ray cluster is left; start one, or leave out ⟨ray⟩.")
    wrong = [f"{name}: {words}" for name, words in answers.items() if words]
    if wrong:
        shown = "; ".join(wrong[:_ALL_SHOWN])
        more = f"; and {len(wrong) - _ALL_SHOWN} more" if len(wrong) > _ALL_SHOWN else ""
        raise UsageError(
            f"{len(wrong)} of the cluster's nodes cannot take part: {shown}{more}. Install capplan {__version__} with "
            "the same libraries on every node."
        )


def _answers_of_nodes(ray: Any) -> dict[str, str]:
    """Ask every node what it holds; the answer is empty where all is as here.

    Ray lists a node for some seconds after it was lost. Such a node takes no part, as one that was never there.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}
    probe = ray.remote(num_cpus=0, max_retries=0)(_make_probe())
    asked = {
        node_id: probe.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=node_id, soft=False)
        ).remote()
        for node_id in nodes
    }  # fmt: skip
    ready, _ = ray.wait(list(asked.values()), num_returns=len(asked), timeout=_PROBE_TIMEOUT_S)
    answers = {}
    for node_id, reference in asked.items():
        name = f"node {nodes[node_id]['NodeManagerAddress']} ({node_id[:8]})"
        if reference not in ready:
            answers[name] = f"did not answer within {_PROBE_TIMEOUT_S:g} s"
            continue
        try:
            answers[name] = difference(ray.get(reference))
        except (ray.exceptions.TaskUnschedulableError, ray.exceptions.NodeDiedError):
            continue  # a task that needs no core is refused where its node is gone
        except ray.exceptions.RayError as error:
            answers[name] = f"could not run a task ({type(error).__name__})"
    return answers


def _make_probe() -> Any:
    """Return a function that Ray sends whole, because a node that lacks capplan could not import it."""

    def probe() -> dict[str, Any]:
        from importlib import import_module

        try:
            package = import_module("capplan")
        except ImportError:
            return {"capplan": None}
        held: dict[str, Any] = {"capplan": getattr(package, "__version__", "unknown")}
        try:
            keys, cache = import_module("capplan.app.sweep.keys"), import_module("capplan.app.trace_cache")
            return {**held, "code": keys.code_digest(), "libraries": cache.library_versions()}
        except (ImportError, AttributeError):
            return {**held, "code": None, "libraries": {}}

    return probe


def difference(held: Mapping[str, Any]) -> str:
    """Return in words how a node differs from this machine; empty where it does not."""
    if held["capplan"] is None:
        return "capplan is not installed"
    if held["capplan"] != __version__:
        return f"holds capplan {held['capplan']}, this machine {__version__}"
    if held["code"] != code_digest():
        return f"holds other code of capplan {__version__} than this machine"
    ours = library_versions()
    other = [
        f"{name} {held['libraries'].get(name) or 'missing'}, here {version or 'missing'}"
        for name, version in ours.items()
        if held["libraries"].get(name) != version
    ]
    return f"holds {'; '.join(other)}" if other else ""


@dataclass(slots=True, kw_only=True)
class _Flow:
    """The tasks in flight, and what each is for."""

    ray: Any
    context: SweepContext
    limits: ModelLimits
    planning: dict[Any, PlanningJob] = field(default_factory=dict)
    to_trace: deque[PlanningJob] = field(default_factory=deque)

    def run(self, jobs: Iterator[PlanningJob]) -> Iterator[tuple[PlanningJob, JobAnswer]]:
        ray = self.ray
        context = ray.put(self.context)
        plan = ray.remote(num_cpus=1, max_retries=_MOST_RETRIES)(remote_plan)
        trace = ray.remote(num_cpus=1, max_retries=_MOST_RETRIES)(remote_trace)
        if self.limits.memory_bytes:
            trace = trace.options(memory=self.limits.memory_bytes)
        most = _IN_FLIGHT_PER_CORE * max(1, int(ray.cluster_resources().get("CPU", 1)))
        left = True
        while left or self.planning or self.to_trace:
            while left and len(self.planning) + len(self.to_trace) < most:
                if (job := next(jobs, None)) is None:
                    left = False
                else:
                    self.planning[plan.remote(job, context, None)] = job
            self._submit_traces(plan, trace, context, only_full=left and bool(self.planning))
            if not self.planning:
                continue
            ready, _ = ray.wait(list(self.planning), num_returns=1, timeout=1.0)
            for reference in ready:
                job = self.planning.pop(reference)
                answer = self._result(reference, job)
                if answer.needs_trace:
                    self.to_trace.append(job)
                else:
                    yield job, answer

    def _submit_traces(self, plan: Any, trace: Any, context: Any, *, only_full: bool) -> None:
        """Trace what waits for it, several models a task, and plan each from the reference to its traces."""
        while self.to_trace and not (only_full and len(self.to_trace) < _TRACED_TOGETHER):
            chunk = [self.to_trace.popleft() for _ in range(min(_TRACED_TOGETHER, len(self.to_trace)))]
            traced = trace.options(num_returns=len(chunk)).remote(chunk, context, self.limits)
            references = [traced] if len(chunk) == 1 else list(traced)
            for job, reference in zip(chunk, references, strict=True):
                self.planning[plan.remote(job, context, reference)] = job

    def _result(self, reference: Any, job: PlanningJob) -> JobAnswer:
        exceptions = self.ray.exceptions
        try:
            answer = self.ray.get(reference)
        except exceptions.RayTaskError as error:
            message = str(error).strip().splitlines()[-1]
            return failed_answer(job, self.context, Failed(kind=FailureKind.BUG.value, reason=message))
        except exceptions.RayError as error:
            reason = f"Ray gave the task up: {type(error).__name__}"
            return failed_answer(job, self.context, Failed(kind=FailureKind.CRASH.value, reason=reason))
        assert isinstance(answer, JobAnswer)
        return answer


def remote_plan(job: PlanningJob, context: SweepContext, traces: Traces | None) -> JobAnswer:
    """Plan a job on a node; its traces come from the tracing task, or from the node's cache where None."""
    return plan_model(replace(job, traces=traces), context)


def remote_trace(
    jobs: Sequence[PlanningJob], context: SweepContext, limits: ModelLimits
) -> "Traces | tuple[Traces, ...]":
    """Trace models on a node, in a child process of the task; one result for each job."""
    worker = tracing_worker(limits)
    tracer = IsolatedTracer(worker=worker, time_s=limits.time_s)
    try:
        traces = tuple(tracer.traces(job.model, asked_conditions(job, context.workloads)) for job in jobs)
    finally:
        worker.close()
    return traces if len(traces) > 1 else traces[0]


def cluster_places(address: str, known: Gpus, gpus: Iterable[str]) -> tuple[list[MeasuringDevice], dict[str, str]]:
    """Return the devices of a cluster's nodes that are GPUs of the sweep, and all devices with what drivers call them.

    A task that times a point takes a whole GPU of its node, so that Ray runs nothing else on it.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ray = connect(address)
    asked: dict[Any, tuple[str, int, Any]] = {}
    alive = [node for node in ray.nodes() if node["Alive"]]
    for node in [node for node in alive if node["Resources"].get("GPU")] or alive:  # else processors are measured
        here = NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
        count = int(node["Resources"].get("GPU", 0))
        task = ray.remote(num_cpus=0, num_gpus=count, scheduling_strategy=here, max_retries=0)(remote_devices)
        asked[task.remote()] = f"node {node['NodeManagerAddress']} ({node['NodeID'][:8]})", count, here
    ready, _ = ray.wait(list(asked), num_returns=len(asked), timeout=_DEVICES_TIMEOUT_S)
    places: list[MeasuringDevice] = []
    devices: dict[str, str] = {}
    wanted = tuple(gpus)
    for reference, (where, count, here) in asked.items():
        held, trouble = _held_devices(ray, reference) if reference in ready else ({}, "its GPUs are taken")
        devices |= {f"{where} {device}": name for device, name in held.items()}
        devices |= {where: trouble} if trouble else {}
        matching = matching_places(known, wanted, held, where=where)
        places += [_on_node(ray, place, here, has_gpus=count > 0) for place in matching]
    if not places:
        ray.shutdown()
    return places, devices


def _held_devices(ray: Any, reference: Any) -> tuple[Mapping[str, str], str]:
    """Return the devices of a node with what their drivers call them, or why they are not known."""
    try:
        return ray.get(reference), ""
    except ray.exceptions.RayError as error:
        return {}, f"could not be asked ({type(error).__name__})"


def _on_node(ray: Any, place: MeasuringDevice, here: Any, *, has_gpus: bool) -> MeasuringDevice:
    """Return a place whose points are timed on its node, each with a whole GPU of it where it has any.

    There a task sees the GPU that Ray gives it as the first one.
    """
    is_gpu = place.device.startswith("cuda")
    timed = ray.remote(num_cpus=1, num_gpus=int(has_gpus), scheduling_strategy=here, max_retries=0)(measure_here)

    def run(task: MeasureTask) -> str:
        line = ray.get(timed.remote(task))
        assert isinstance(line, str)
        return line

    return replace(place, device="cuda:0" if is_gpu else place.device, run=run, close=ray.shutdown)


def remote_devices() -> dict[str, str]:
    """List the devices of a node, in a process of its own."""
    devices = run_once(DevicesTask(), timeout_s=_PROBE_TIMEOUT_S)
    assert isinstance(devices, dict)
    return devices
