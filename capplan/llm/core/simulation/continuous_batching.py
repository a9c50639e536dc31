"""Step through the iterations of an engine with continuous batching, for requests that arrive or clients that wait.

A step admits prompt tokens in order of arrival up to the token budget, while memory and the engine's limit allow; then
every running sequence gives its tokens. Between two events (an arrival, an admission, a completion, a full cache)
nothing changes, so that the loop jumps from event to event.
"""

import heapq
from collections import deque
from dataclasses import dataclass
from math import ceil, inf

import numpy as np
from numpy.typing import NDArray

from capplan.core.numbers import FloatArray, ceil_guarded
from capplan.llm.core.serving.closed_loop import StepGrid
from capplan.llm.core.simulation.arrivals import Arrivals

_WATERMARK = 0.01
"""Share of the cache that vLLM keeps free when it admits a prompt, so that running sequences can grow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What an engine admits: sequences at a time, prompt tokens of a step, and whether these share decode steps.

    `pool_tokens` is what the KV cache holds. An engine that `preempts` (vLLM, SGLang) admits a prompt as soon as the
    prompt itself fits, and when the cache is full it throws the newest sequence out and computes it again later;
    others reserve the whole answer. A decode step gives each sequence `tokens_per_step`, above 1 with speculation.
    While requests wait, steps take `queued_factor` times as long, as measured offline runs do.
    """

    capacity: float
    token_budget: float
    mixes: bool
    pool_tokens: float = inf
    preempts: bool = False
    tokens_per_step: float = 1.0
    queued_factor: float = 1.0

    def most_running(self, requests: int) -> int:
        """Return for how many running sequences the times of steps are needed where so many requests come."""
        return int(min(self.capacity, requests)) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTimes:
    """What each request saw, in order of arrival. [s]

    `ttft_s` is from arrival to the first token, `tpot_s` the mean gap between further tokens (0 for answers of one
    token), `e2e_s` from arrival to the last token. `span_s` is from the first arrival to the last completion.
    `gaps_s` are times between tokens and `gap_weights` how many tokens saw each. `preemptions` counts evictions.
    `met_work` is True for requests that came while the engine worked.
    """

    ttft_s: FloatArray
    tpot_s: FloatArray
    e2e_s: FloatArray
    span_s: float
    gaps_s: FloatArray
    gap_weights: FloatArray
    met_work: NDArray[np.bool_]
    preemptions: int
    mean_running: float
    busy_fraction: float


def simulate_requests(
    arrivals: Arrivals, admission: Admission, grid: StepGrid, *, clients: int | None, in_bursts: bool = False
) -> RequestTimes:
    return ReplicaState(arrivals, admission, grid, clients=clients, in_bursts=in_bursts).times()


class ReplicaState:
    """The state of one replica: requests that wait, sequences that run, and the tokens in the cache.

    No jump from event to event goes beyond `horizon`. [s] Each of the `clients` sends its next request when it has its
    answer, or all send together when the last of them has its own (`in_bursts`).
    """

    def __init__(
        self, arrivals: Arrivals, admission: Admission, grid: StepGrid, *, clients: int | None, in_bursts: bool = False
    ) -> None:
        self.admission, self.grid = admission, grid
        self.grows = admission.tokens_per_step if admission.preempts else 0.0
        self.at: list[float] = arrivals.at_s.tolist()
        cached = np.zeros_like(arrivals.prompts) if arrivals.cached is None else arrivals.cached
        self.left: list[float] = np.maximum(arrivals.prompts - cached, 1.0).tolist()
        self.prompts: list[float] = self.left[:]
        self.answers: list[int] = arrivals.answers.tolist()
        total = len(self.at)
        self.sent, self.ended = total, 0
        self.burst = clients if in_bursts else None
        if clients is not None:
            self.sent = min(clients, total)
            self.at = [0.0] * self.sent + [inf] * (total - self.sent)
        self.given = [0] * total
        self.met_work = [False] * total
        self.admitted = [False] * total
        self.first, self.done = [inf] * total, [0.0] * total
        self.now, self.step, self.next = 0.0, 0, 0
        self.horizon = inf
        self.waiting: deque[int] = deque()
        self.running: list[tuple[int, int]] = []
        self.newest: list[int] = []
        self.started: dict[int, int] = {}
        self.finish = [-1] * total
        self.used = 0.0
        self.stall_s, self.preemptions = 0.0, 0
        self.gaps: list[float] = []
        self.weights: list[float] = []
        self.running_s, self.busy_s = 0.0, 0.0

    def times(self) -> RequestTimes:
        total = len(self.at)
        while self.next < total or self.waiting or self.started:
            self._arrive()
            self._advance()
        at, first, done = np.array(self.at), np.array(self.first), np.array(self.done)
        further = np.maximum(np.array(self.answers) - 1, 1)
        span_s = float(done.max() - at[0])
        return RequestTimes(
            ttft_s=first - at,
            tpot_s=(done - first) / further,
            e2e_s=done - at,
            span_s=span_s,
            gaps_s=np.array(self.gaps),
            gap_weights=np.array(self.weights),
            met_work=np.array(self.met_work),
            preemptions=self.preemptions,
            mean_running=self.running_s / span_s if span_s > 0 else 0.0,
            busy_fraction=self.busy_s / span_s if span_s > 0 else 0.0,
        )

    def _arrive(self) -> None:
        if self.next == len(self.at):
            return
        if not self.waiting and not self.started:
            self.now = max(self.now, self.at[self.next])
        while self.next < len(self.at) and self.at[self.next] <= self.now:
            self.met_work[self.next] = bool(self.started or self.waiting)
            self.waiting.append(self.next)
            self.next += 1

    def _advance(self) -> None:
        evicted = self._is_full() and self._make_room()
        finished, chunk = self._admit() if self.waiting and not evicted else ((), 0.0)
        decoding = len(self.started)
        factor = self.admission.queued_factor if self.waiting else 1.0
        if not chunk:
            if decoding:
                self._decode(decoding, factor)
        elif self.admission.mixes:
            self._pass(factor * self.grid.at(decoding, chunk), decoding=decoding)
        else:
            step_s = factor * self.grid.at(0, chunk)
            self._spend(step_s, decoding)
            self.stall_s += step_s if decoding else 0.0
        for request in finished:
            if self.first[request] == inf:
                self.first[request] = self.now
            self.given[request] += 1
            self.used += 1.0 if self.admission.preempts else 0.0
            steps = ceil_guarded((self.answers[request] - self.given[request]) / self.admission.tokens_per_step)
            self.started[request] = self.step
            self.newest.append(request)
            self.finish[request] = self.step + steps
            heapq.heappush(self.running, (self.step + steps, request))
        if self.running and self.running[0][0] <= self.step:
            while self.running and self.running[0][0] <= self.step:
                finish, request = heapq.heappop(self.running)
                if request not in self.started or finish != self.finish[request]:
                    continue
                self.used -= self._tokens(request)
                del self.started[request]
                self.done[request] = self.now
                self.ended += 1
                if self.burst is None or self.ended == self.sent:
                    sent = min(self.sent + (self.burst or 1), len(self.at))
                    self.at[self.sent : sent] = [self.now] * (sent - self.sent)
                    self.sent = sent

    def _spend(self, time_s: float, decoding: int) -> None:
        self.now += time_s
        self.busy_s += time_s
        self.running_s += time_s * decoding

    def _pass(self, step_s: float, *, decoding: int, steps: int = 1) -> None:
        """Advance every running sequence by the tokens of some steps of equal time."""
        self._spend(steps * step_s, decoding)
        self.step += steps
        if not decoding:
            return
        self.used += steps * decoding * self.grows
        per_step = self.admission.tokens_per_step
        if self.stall_s:
            self.gaps.append(step_s + self.stall_s)
            self.weights.append(decoding)
            self.stall_s, steps = 0.0, steps - 1
        if steps:
            self.gaps.append(step_s / per_step)
            self.weights.append(decoding * steps * per_step)

    def _tokens(self, request: int) -> float:
        """Return the tokens that a running sequence holds: its whole answer's where the engine reserves them."""
        if not self.admission.preempts:
            return self.prompts[request] + self.answers[request]
        grown = (self.step - self.started[request]) * self.admission.tokens_per_step
        return self.prompts[request] + self.given[request] + grown

    def _decode(self, decoding: int, factor: float) -> None:
        """Decode until a sequence completes, the cache is full, or a request arrives that there is room for."""
        step_s = factor * self.grid.at(decoding, 0.0)
        while self.running[0][1] not in self.started or self.running[0][0] != self.finish[self.running[0][1]]:
            heapq.heappop(self.running)
        steps = self.running[0][0] - self.step
        free = self.admission.pool_tokens - self.used
        if self.grows and free < steps * decoding * self.grows:
            steps = int(free / (decoding * self.grows))
        event_s = self.horizon
        if self.next < len(self.at) and not self.waiting and decoding < self.admission.capacity:
            event_s = min(event_s, self.at[self.next])
        until = (event_s - self.now) / step_s
        if until < steps:
            steps = ceil(until)
        self._pass(step_s, decoding=decoding, steps=max(1, steps))

    def _is_full(self) -> bool:
        """Return True if the cache does not hold another token of each of several running sequences."""
        running = len(self.started)
        return running > 1 and self.used + running * self.grows > self.admission.pool_tokens and bool(self.grows)

    def _make_room(self) -> bool:
        """Preempt the newest sequences until the others can take a step; one always stays."""
        while self._is_full():
            while self.newest[-1] not in self.started:
                self.newest.pop()
            # Free the tokens of a sequence; its prompt and what it has given are computed again before it goes on.
            request = self.newest.pop()
            grown = int((self.step - self.started[request]) * self.admission.tokens_per_step)
            self.used -= self._tokens(request)
            self.given[request] = min(self.given[request] + grown, self.answers[request] - 1)
            self.left[request] = self.prompts[request] + self.given[request]
            self.admitted[request] = False
            del self.started[request]
            partly = self.waiting and self.admitted[self.waiting[0]]
            self.waiting.insert(1 if partly else 0, request)
            self.preemptions += 1
        return True

    def _admit(self) -> tuple[list[int], float]:
        """Process prompt tokens of waiting requests in order of arrival, and return those whose prompts end."""
        decoding, chunk = len(self.started), 0.0
        room = self.admission.token_budget - (decoding if self.admission.mixes else 0)
        slots = self.admission.capacity - decoding
        finished: list[int] = []
        while self.waiting and room > chunk and slots >= 1:
            request = self.waiting[0]
            if not self.admitted[request] and not self._reserve(request, alone=not decoding and not finished):
                break
            take = min(self.left[request], room - chunk)
            self.left[request] -= take
            chunk += take
            if self.left[request] > 0:
                break
            finished.append(self.waiting.popleft())
            slots -= 1
        return finished, chunk

    def _reserve(self, request: int, *, alone: bool) -> bool:
        """Allocate the cache of a prompt, or of a whole request where the engine reserves; False if it does not fit."""
        preempts, pool = self.admission.preempts, self.admission.pool_tokens
        needed = self.prompts[request] + (self.given[request] if preempts else self.answers[request])
        limit = pool * (1.0 - _WATERMARK) if preempts else pool
        if self.used + needed > limit and not alone:
            return False
        self.used += needed
        self.admitted[request] = True
        return True
