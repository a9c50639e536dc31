"""Step through the iterations of an engine that serves a fixed number of clients, each waiting for its answer.

All clients start at once. A step admits prompt tokens in order of arrival up to the token budget, then every running
sequence gives one token; a client whose answer is complete sends the next request at once. Between two admissions
nothing changes, so that the loop jumps from event to event.
"""

import heapq
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from capplan.core.numbers import FloatArray

StepSeconds = Callable[[FloatArray, FloatArray], FloatArray]
"""Time of steps with so many decoding sequences and prompt tokens, elementwise. [s]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedLoop:
    """The clients of one replica and what its engine admits.

    Lengths are means [tokens]; each request draws its own from ± `spread` around them, or log-normally with `cv` as
    deviation ÷ mean. `capacity` sequences fit in memory, and at most `most_sequences` run. `mixes` says that prompt
    tokens share steps with decoding sequences. The clients send `requests` together.
    A request is seen `arrival_steps` steps after it was sent, unless the engine is idle, and a token returned
    `return_steps` steps after it was computed. `evicts` says that requests are admitted by the tokens that they hold
    now, and that the newest is evicted and computed again where memory is full; otherwise room for the whole answer is
    kept. `drifts` says that clients with equal answers do not finish in the same step, as in the first wave they would.
    """

    clients: int
    input_len: float
    output_len: float
    spread: float
    capacity: float
    token_budget: float
    mixes: bool
    requests: int
    cv: float = 0.0
    arrival_steps: int = 0
    return_steps: int = 0
    evicts: bool = False
    drifts: bool = False
    most_sequences: float = np.inf

    @property
    def pool_tokens(self) -> float:
        return self.capacity * (self.input_len + self.output_len)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopTimes:
    """Mean times of a closed loop: to the first token of the first wave and of later ones, and between tokens. [s]

    `steady_ttft_s` is that of the second half of the requests, when the clients are no longer in step.

    `lone_ttft_s` is the time to the first token of a lone prompt, 0 where it was not computed. Requests wait `queue_s`
    of their time to the first token for memory or a free sequence. `busy_share` of the later requests came while the
    engine was at work. All was answered after `span_s`.
    """

    first_wave_ttft_s: float
    later_ttft_s: float
    tpot_s: float
    steady_ttft_s: float = 0.0
    lone_ttft_s: float = 0.0
    queue_s: float = 0.0
    busy_share: float = 0.0
    span_s: float = 0.0

    def mean_ttft_s(self, waves: float) -> float:
        """Return the mean over so many requests of each client, of which the first all arrive at once."""
        return (self.first_wave_ttft_s + (waves - 1.0) * self.later_ttft_s) / waves


@dataclass(frozen=True, slots=True)
class StepGrid:
    """Times of steps by decoding sequences (every number) and prompt tokens (a grid, interpolated)."""

    chunks: list[float]
    seconds: list[list[float]]

    def at(self, running: int, chunk: float) -> float:
        row = self.seconds[running]
        if chunk <= 0:
            return row[0]
        index = bisect_left(self.chunks, chunk, 1, len(self.chunks) - 1)
        if index == 1:
            return row[1]
        low, high = self.chunks[index - 1], self.chunks[index]
        return row[index - 1] + (row[index] - row[index - 1]) * (chunk - low) / (high - low)


def step_grid(most: int, token_budget: float, seconds: StepSeconds) -> StepGrid:
    """Tabulate the time of steps with up to `most` decoding sequences and up to a token budget."""
    running = np.unique(np.round(np.geomspace(1, most + 1, min(most + 1, 10)))) - 1
    chunks = np.array([0.0, *np.geomspace(16.0, max(token_budget, 32.0), 7)])
    points = np.meshgrid(running, chunks, indexing="ij")
    table = seconds(points[0].ravel(), points[1].ravel()).reshape(points[0].shape)
    every = np.arange(most + 1)
    dense = np.stack([np.interp(every, running, table[:, column]) for column in range(chunks.size)], axis=1)
    return StepGrid(chunks.tolist(), dense.tolist())


def simulate(loop: ClosedLoop, seconds: StepSeconds) -> LoopTimes:
    most = int(min(loop.clients, loop.most_sequences if loop.evicts else loop.capacity))
    return _LoopState(loop, step_grid(most + 1, loop.token_budget, seconds)).times()


def admit_prompts(waiting: deque[int], left: list[float], *, room: float, slots: float) -> tuple[list[int], float]:
    """Process prompt tokens of waiting requests in order of arrival; the requests whose prompts end leave the queue."""
    finished: list[int] = []
    chunk = 0.0
    while waiting and room > chunk and slots >= 1:
        request = waiting[0]
        take = min(left[request], room - chunk)
        left[request] -= take
        chunk += take
        if left[request] > 0:
            break
        finished.append(waiting.popleft())
        slots -= 1
    return finished, chunk


_BEFORE = -1_000_000
"""An iteration long before the first, in which the requests of the first wave were sent."""


def _relative_lengths(rng: np.random.Generator, loop: ClosedLoop) -> FloatArray:
    """Draw the prompts and answers of all requests ÷ their means."""
    if not loop.cv:
        return rng.uniform(1.0 - loop.spread, 1.0 + loop.spread, (loop.requests, 2))
    variance = np.log1p(loop.cv**2)
    return rng.lognormal(-variance / 2, np.sqrt(variance), (loop.requests, 2))


class _LoopState:
    """The state of a loop: requests by number in the order in which they were sent, and what the engine holds.

    `running` holds the step in which each answer ends. `left` are prompt tokens still to be processed, and `room_for`
    the tokens that a waiting request will take, 0 where it has been given its memory already.
    """

    def __init__(self, loop: ClosedLoop, grid: StepGrid) -> None:
        self.loop, self.grid = loop, grid
        self.total = loop.requests
        # Draw the prompts and answers of all requests; drifting clients end their first answers a step apart.
        rng = np.random.default_rng(0)
        factors = _relative_lengths(rng, loop)
        answers = factors[:, 1] * loop.output_len
        if loop.drifts:
            apart = np.arange(loop.clients) - (loop.clients - 1) / 2
            answers[: loop.clients] += apart * min(1.0, loop.output_len / loop.clients)
        prompts = np.maximum(1.0, factors[:, 0] * loop.input_len)
        self.prompts, self.answers = prompts.tolist(), np.maximum(2, np.round(answers)).astype(int).tolist()
        self.arrived, self.first, self.done = ([0.0] * self.total for _ in range(3))
        self.sent_at = [_BEFORE] * self.total
        self.now, self.step, self.iteration = 0.0, 0, 0
        self.sent = loop.clients
        self.waiting: deque[int] = deque(range(loop.clients))
        self.left, self.room_for = self.prompts[:], self.prompts[:]
        self.owed = self.answers[:]
        self.running: list[tuple[int, int]] = []
        self.returned: deque[tuple[int, int, bool]] = deque()
        self.held_tokens = 0.0
        self.is_full, self.queued_s = False, 0.0
        self.met_work = 0

    def times(self) -> LoopTimes:
        while self.waiting or self.running or self.returned:
            self._advance()
        clients = self.loop.clients
        ttft = np.array(self.first) - np.array(self.arrived)
        tokens = np.array(self.answers) - 1.0
        tpot = (np.array(self.done) - np.array(self.first)) / tokens
        later = ttft[clients:] if ttft.size > clients else ttft
        return LoopTimes(
            first_wave_ttft_s=float(ttft[:clients].mean()),
            later_ttft_s=float(later.mean()),
            tpot_s=float(tpot.mean()),
            steady_ttft_s=float(ttft[ttft.size // 2 :].mean()),
            queue_s=self.queued_s / self.total,
            busy_share=self.met_work / max(self.total - clients, 1),
            span_s=self.now,
        )

    def _advance(self) -> None:
        pool = self.loop.pool_tokens
        while self.loop.evicts and len(self.running) > 1 and self.held_tokens + len(self.running) > pool:
            newest = max(self.running, key=lambda item: item[1])
            self.running.remove(newest)
            heapq.heapify(self.running)
            self._put_back(newest[1], owed=newest[0] - self.step)
        decoding = len(self.running)
        room = self.loop.token_budget - (decoding if self.loop.mixes else 0)
        finished, chunk = admit_prompts(self.waiting, self.left, room=room, slots=self._admissible(room))
        before = self.now
        if chunk:
            decoding = len(self.running) if self.loop.mixes else 0
            self.now += self.grid.at(decoding, chunk)
            if self.loop.mixes:
                self._pass_steps(1)
            else:
                self.iteration += 1
        else:
            # Run steps without prompts until something changes; an idle engine only waits for answers to be returned.
            steps = 1
            if self.running:
                steps = self._steps_to_change()
                self.now += steps * self.grid.at(len(self.running), 0.0)
            self._pass_steps(steps)
        if self.is_full:
            self.queued_s += (self.now - before) * len(self.waiting)
        for request in finished:
            if self.first[request] == 0.0:
                self.returned.append((self.iteration + self.loop.return_steps, request, False))
            heapq.heappush(self.running, (self.step + self.owed[request] - 1, request))
        while self.running and self.running[0][0] <= self.step:
            _, request = heapq.heappop(self.running)
            self.held_tokens -= self.prompts[request] + self.answers[request] - 1
            self.returned.append((self.iteration + self.loop.return_steps, request, True))
        while self.returned and self.returned[0][0] <= self.iteration:
            _, request, is_last = self.returned.popleft()
            if not is_last:
                self.first[request] = self.now
                continue
            self.done[request] = self.now
            if self.sent < self.total:
                self.arrived[self.sent], self.sent_at[self.sent] = self.now, self.iteration
                self.met_work += bool(self.running or self.waiting)
                self.waiting.append(self.sent)
                self.sent += 1

    def _steps_to_change(self) -> int:
        """Return how many steps pass until an answer ends, a request is seen, or memory is full."""
        if self.returned:
            return 1
        steps = self.running[0][0] - self.step
        if self.waiting:
            seen = self.sent_at[self.waiting[0]] + self.loop.arrival_steps - self.iteration
            steps = min(steps, seen) if seen > 0 else steps
        if self.loop.evicts and len(self.running) > 1:
            steps = min(steps, int((self.loop.pool_tokens - self.held_tokens) / len(self.running)))
        return max(steps, 1)

    def _pass_steps(self, steps: int) -> None:
        self.step += steps
        self.iteration += steps
        self.held_tokens += steps * len(self.running)

    def _admissible(self, room: float) -> int:
        """Count the requests at the head of the queue that have been seen and that memory can take; they get it."""
        found = 0
        self.is_full = False
        free = (np.inf if self.loop.evicts else self.loop.capacity) - len(self.running)
        free = min(free, self.loop.most_sequences - len(self.running))
        for request in self.waiting:
            is_seen = not self.running or self.sent_at[request] + self.loop.arrival_steps <= self.iteration
            if room <= 0 or not is_seen:
                break
            if not self._has_memory(request, free - found):
                self.is_full = True
                break
            self.held_tokens += self.room_for[request]
            self.room_for[request] = 0.0
            room -= self.left[request]
            found += 1
        return found

    def _has_memory(self, request: int, free: float) -> bool:
        if not self.loop.evicts or free < 1:
            return free >= 1
        need = self.room_for[request]
        idle = not self.running and not self.held_tokens
        return idle or not need or self.held_tokens + need + len(self.running) <= self.loop.pool_tokens

    def _put_back(self, request: int, *, owed: int) -> None:
        tokens = self.prompts[request] + self.answers[request] - owed
        self.held_tokens -= tokens - 1
        self.left[request] = self.room_for[request] = tokens
        self.owed[request] = owed
        begun = bool(self.waiting) and not self.room_for[self.waiting[0]]
        self.waiting.insert(1 if begun else 0, request)
