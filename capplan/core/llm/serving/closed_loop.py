"""Step through the iterations of an engine that serves a fixed number of clients, each waiting for its answer.

All clients start at once. A step admits prompt tokens in order of arrival up to the token budget, then every running
sequence gives one token; a client whose answer is complete sends the next request at once. Between two admissions
nothing changes, so that the loop jumps from event to event.
"""

import heapq
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

    Lengths are means [tokens]; each request draws its own from ± `spread` around them. `capacity` sequences fit in
    memory. `mixes` says that prompt tokens share steps with decoding sequences. Each client sends `waves` requests.
    """

    clients: int
    input_len: float
    output_len: float
    spread: float
    capacity: float
    token_budget: float
    mixes: bool
    waves: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopTimes:
    """Mean times of a closed loop: to the first token of the first wave and of later ones, and between tokens. [s]

    `lone_ttft_s` is the time to the first token of a lone prompt, 0 where it was not computed.
    """

    first_wave_ttft_s: float
    later_ttft_s: float
    tpot_s: float
    lone_ttft_s: float = 0.0

    def mean_ttft_s(self, waves: float) -> float:
        """Return the mean over so many requests of each client, of which the first all arrive at once."""
        return (self.first_wave_ttft_s + (waves - 1.0) * self.later_ttft_s) / waves


@dataclass(frozen=True, slots=True)
class StepGrid:
    """Times of steps by decoding sequences (every number) and prompt tokens (a grid, interpolated)."""

    chunks: list[float]
    seconds: list[list[float]]

    def at(self, running: int, chunk: float) -> float:
        """Return the time of a step by decoding sequences and prompt tokens. [s]"""
        row = self.seconds[running]
        if chunk <= 0:
            return row[0]
        index = 1
        while index < len(self.chunks) - 1 and self.chunks[index] < chunk:
            index += 1
        if index == 1:
            return row[1] if chunk <= self.chunks[1] else row[2]
        low, high = self.chunks[index - 1], self.chunks[index]
        return row[index - 1] + (row[index] - row[index - 1]) * (chunk - low) / (high - low)


def step_grid(most: int, token_budget: float, seconds: StepSeconds) -> StepGrid:
    """Tabulate the time of steps with up to `most` decoding sequences and up to a token budget.

    Args:
        most: The most sequences that decode at a time.
        token_budget: The most prompt tokens of a step.
        seconds: Time of a step.
    """
    running = np.unique(np.round(np.geomspace(1, most + 1, min(most + 1, 10)))) - 1
    chunks = np.array([0.0, *np.geomspace(16.0, max(token_budget, 32.0), 7)])
    points = np.meshgrid(running, chunks, indexing="ij")
    table = seconds(points[0].ravel(), points[1].ravel()).reshape(points[0].shape)
    every = np.arange(most + 1)
    dense = np.stack([np.interp(every, running, table[:, column]) for column in range(chunks.size)], axis=1)
    return StepGrid(chunks.tolist(), dense.tolist())


def simulate(loop: ClosedLoop, seconds: StepSeconds) -> LoopTimes:
    """Run the loop until every client has sent all its requests, and return mean times.

    Args:
        loop: Clients, lengths, and what the engine admits.
        seconds: Time of a step.
    """
    most = int(min(loop.clients, loop.capacity)) + 1
    return _Run(loop, step_grid(most, loop.token_budget, seconds)).times()


def admit_prompts(waiting: deque[int], left: list[float], *, room: float, slots: float) -> tuple[list[int], float]:
    """Take prompt tokens of waiting requests in order of arrival; the requests whose prompts end leave the queue.

    Args:
        waiting: Requests in order of arrival; changed in place.
        left: Prompt tokens that each request still has to process; changed in place.
        room: Prompt tokens that the step can hold.
        slots: Sequences that memory can still take.

    Returns:
        The requests whose prompts end in this step, and the prompt tokens taken.
    """
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


class _Run:
    def __init__(self, loop: ClosedLoop, grid: StepGrid) -> None:
        self.loop, self.grid = loop, grid
        self.total = loop.clients * loop.waves
        rng = np.random.default_rng(0)
        factors = rng.uniform(1.0 - loop.spread, 1.0 + loop.spread, (self.total, 2))
        self.prompts = np.maximum(1.0, factors[:, 0] * loop.input_len).tolist()
        self.answers = np.maximum(2, np.round(factors[:, 1] * loop.output_len)).astype(int).tolist()
        self.arrived, self.first, self.done = ([0.0] * self.total for _ in range(3))
        self.now, self.step = 0.0, 0
        self.sent = loop.clients
        self.waiting: deque[int] = deque(range(loop.clients))
        self.left = self.prompts[:]
        self.running: list[tuple[int, int]] = []

    def times(self) -> LoopTimes:
        while self.waiting or self.running:
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
        )

    def _advance(self) -> None:
        finished, chunk = self._admit()
        decoding = len(self.running)
        if not chunk:
            steps = self.running[0][0] - self.step
            self.now += steps * self.grid.at(decoding, 0.0)
            self.step += steps
        elif self.loop.mixes:
            self.now += self.grid.at(decoding, chunk)
            self.step += 1
        else:
            self.now += self.grid.at(0, chunk)
        for request in finished:
            self.first[request] = self.now
            heapq.heappush(self.running, (self.step + self.answers[request] - 1, request))
        self._complete()

    def _admit(self) -> tuple[list[int], float]:
        decoding = len(self.running)
        room = self.loop.token_budget - (decoding if self.loop.mixes else 0)
        return admit_prompts(self.waiting, self.left, room=room, slots=self.loop.capacity - decoding)

    def _complete(self) -> None:
        while self.running and self.running[0][0] <= self.step:
            _, request = heapq.heappop(self.running)
            self.done[request] = self.now
            if self.sent < self.total:
                self.arrived[self.sent] = self.now
                self.waiting.append(self.sent)
                self.sent += 1
