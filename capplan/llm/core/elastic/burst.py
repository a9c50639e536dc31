"""Follow a burst on a fleet that scales, request by request, with continuous batching in every replica."""

import heapq
from dataclasses import dataclass

import numpy as np

from capplan.core.numbers import FloatArray
from capplan.core.scaling.policy import ScalerReading, Signal
from capplan.core.scaling.scaler import Scaler
from capplan.llm.core.serving.closed_loop import StepGrid
from capplan.llm.core.simulation.arrivals import Arrivals
from capplan.llm.core.simulation.continuous_batching import Admission, ReplicaState
from capplan.llm.core.simulation.load_answer import LatencyLimits

_TICK_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstSeen:
    """What the requests of a burst saw, in order of arrival. [s]"""

    at_s: FloatArray
    ttft_s: FloatArray
    e2e_s: FloatArray
    inside: FloatArray
    most_replicas: int

    @property
    def inside_fraction(self) -> float:
        return float(self.inside.mean())

    @property
    def worst_minute(self) -> float:
        """Return the share that kept the limits in the minute in which the fewest did."""
        minutes = (self.at_s // 60.0).astype(int)
        counts = np.bincount(minutes)
        kept = np.bincount(minutes, weights=self.inside)
        return float((kept[counts > 0] / counts[counts > 0]).min())

    @property
    def settled_s(self) -> float:
        """Return the time from the start of the burst after which every request kept the limits. [s]"""
        broken = np.flatnonzero(self.inside == 0)
        return float(self.at_s[broken[-1]]) if broken.size else 0.0


class _LiveReplica(ReplicaState):
    """A replica that is given requests as they come."""

    def __init__(self, admission: Admission, grid: StepGrid, *, now_s: float) -> None:
        none = np.zeros(0)
        super().__init__(
            Arrivals(at_s=none, prompts=none, answers=none.astype(np.int64)), admission, grid, clients=None
        )
        self.now = now_s
        self.owners: list[int] = []

    def accept(self, request: int, prompt: float, answer: int) -> None:
        self.at.append(self.now)
        self.left.append(prompt)
        self.prompts.append(prompt)
        self.answers.append(answer)
        self.given.append(0)
        self.met_work.append(False)
        self.admitted.append(False)
        self.first.append(float("inf"))
        self.done.append(0.0)
        self.finish.append(-1)
        self.sent += 1
        self.owners.append(request)

    @property
    def in_flight(self) -> int:
        return len(self.waiting) + len(self.started) + len(self.at) - self.next

    def run_until(self, until_s: float) -> None:
        """Serve until a time; a step that runs then is finished."""
        self.horizon = until_s
        while self.now < until_s and self.in_flight:
            self._arrive()
            self._advance()
        self.now = max(self.now, until_s)


def follow_burst(
    requests: Arrivals,
    scaler: Scaler,
    *,
    admission: Admission,
    grid: StepGrid,
    starts_s: FloatArray,
    limits: LatencyLimits,
    idle_ttft_s: float,
) -> BurstSeen:
    """Serve the requests of a burst on the least replicas and those that the autoscaler adds, the emptiest first."""
    fleet = _BurstFleet(scaler, admission, grid, starts_s)
    fleet.serve(requests)
    count = len(requests.at_s)
    first, done = np.zeros(count), np.zeros(count)
    for replica in fleet.all:
        for own, request in enumerate(replica.owners):
            first[request], done[request] = replica.first[own], replica.done[own]
    lone = _LiveReplica(admission, grid, now_s=0.0)
    lone.accept(0, float(requests.prompts.mean()), int(requests.answers.mean()))
    lone.run_until(1e6)
    added_s = max(0.0, idle_ttft_s - lone.first[0])
    ttft, e2e = first - requests.at_s + added_s, done - requests.at_s + added_s
    inside = np.ones(count)
    tpot = (done - first) / np.maximum(requests.answers - 1, 1)
    for limit, seen in ((limits.ttft_s, ttft), (limits.e2e_s, e2e), (limits.tpot_s, tpot)):
        if limit is not None:
            inside *= seen <= limit
    return BurstSeen(at_s=requests.at_s, ttft_s=ttft, e2e_s=e2e, inside=inside, most_replicas=fleet.most)


class _BurstFleet:
    def __init__(self, scaler: Scaler, admission: Admission, grid: StepGrid, starts_s: FloatArray) -> None:
        self.scaler, self.admission, self.grid, self.starts_s = scaler, admission, grid, starts_s.tolist()
        self.all = [_LiveReplica(admission, grid, now_s=0.0) for _ in range(scaler.bounds.minimum)]
        self.ready = list(self.all)
        self.starting: list[float] = []
        self.held: list[int] = []
        self.most = len(self.all)
        self.started = 0

    def serve(self, requests: Arrivals) -> None:
        at, prompts, answers = requests.at_s.tolist(), requests.prompts.tolist(), requests.answers.tolist()
        now, coming, next_look = 0.0, 0, 0.0
        while coming < len(at) or self.held or any(replica.in_flight for replica in self.ready):
            while self.starting and self.starting[0] <= now:
                heapq.heappop(self.starting)
                self.ready.append(_LiveReplica(self.admission, self.grid, now_s=now))
                self.all.append(self.ready[-1])
            came = coming
            while coming < len(at) and at[coming] <= now:
                self.held.append(coming)
                coming += 1
            self._hand_out(prompts, answers)
            if now >= next_look - 1e-9:
                next_look = now + self._look(now, coming - came)
            now += _TICK_S
            for replica in self.ready:
                replica.run_until(now)

    def _hand_out(self, prompts: list[float], answers: list[int]) -> None:
        if not self.ready:
            return
        order = [(replica.in_flight, index) for index, replica in enumerate(self.ready)]
        heapq.heapify(order)
        for request in self.held:
            load, index = order[0]
            self.ready[index].accept(request, prompts[request], answers[request])
            heapq.heapreplace(order, (load + 1, index))
        self.held.clear()

    def _look(self, now: float, came: int) -> float:
        """Let the autoscaler look, start what it asks for, and return the time until it looks again. [s]"""
        policy, replicas = self.scaler.policy, len(self.ready) + len(self.starting)
        running = sum(replica.in_flight for replica in self.ready)
        waiting = len(self.held) + sum(len(replica.waiting) for replica in self.ready)
        in_flight = len(self.held) + running
        signal = {Signal.QUEUE: waiting, Signal.IN_FLIGHT: in_flight}.get(self.scaler.signal)
        reading = ScalerReading(
            signal=float(in_flight if signal is None else signal),
            replicas=replicas,
            ready=len(self.ready),
            has_work=bool(in_flight or came),
        )
        asked = self.scaler.look(now, reading)
        for _ in range(asked - replicas):
            heapq.heappush(self.starting, now + self.starts_s[self.started % len(self.starts_s)])
            self.started += 1
        self.most = max(self.most, asked)
        return (policy.wake_s or _TICK_S) if not asked else policy.interval_s
