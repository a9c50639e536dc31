"""Step through the iterations of an engine whose requests arrive by themselves, at a rate or at given times.

A step admits prompt tokens in order of arrival up to the token budget, while sequences fit in memory; then every
running sequence gives one token. Between two events (an arrival, an admission, a completion) nothing changes, so that
the loop jumps from event to event. Admission reserves memory for a whole answer, so that nothing is preempted.
"""

import heapq
from collections import deque
from dataclasses import dataclass

import numpy as np

from capplan.core.llm.serving.closed_loop import StepGrid, StepSeconds, admit_prompts, step_grid
from capplan.core.numbers import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """Requests in order of arrival: when each comes [s], tokens of its prompt and of its answer."""

    at_s: FloatArray
    prompts: FloatArray
    answers: IntArray

    @property
    def rate_per_s(self) -> float:
        """Return the mean rate of arrivals. [1/s]"""
        return float(len(self.at_s) / self.at_s[-1]) if self.at_s[-1] > 0 else float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Mean lengths [tokens]; requests draw theirs evenly from ± `spread` around the means."""

    input_len: float
    output_len: float
    spread: float = 0.0


def random_arrivals(
    *, rate_per_s: float, count: int, lengths: Lengths, gap_scv: float = 1.0, seed: int = 7
) -> Arrivals:
    """Draw arrivals whose gaps are Gamma distributed with a squared coefficient of variation.

    Args:
        rate_per_s: Mean requests per second, above 0.
        count: Number of requests.
        lengths: Lengths of prompts and answers.
        gap_scv: Variance of gaps over their squared mean: 1 is Poisson, more is burstier.
        seed: Seed of the random numbers; the same seed gives the same arrivals.
    """
    source = np.random.default_rng(seed)
    gaps = source.gamma(1.0 / gap_scv, gap_scv / rate_per_s, count)
    factors = source.uniform(1.0 - lengths.spread, 1.0 + lengths.spread, (2, count))
    return Arrivals(
        at_s=np.cumsum(gaps),
        prompts=np.maximum(1.0, np.round(factors[0] * lengths.input_len)),
        answers=np.maximum(1, np.round(factors[1] * lengths.output_len)).astype(np.int64),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What an engine admits: sequences in memory, prompt tokens of a step, and whether these share decode steps."""

    capacity: float
    token_budget: float
    mixes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTimes:
    """What each request saw, in order of arrival. [s]

    `ttft_s` is from arrival to the first token, `tpot_s` the mean gap between further tokens (0 for answers of one
    token), `e2e_s` from arrival to the last token. `span_s` is from the first arrival to the last completion.
    """

    ttft_s: FloatArray
    tpot_s: FloatArray
    e2e_s: FloatArray
    span_s: float


def simulate_open(arrivals: Arrivals, admission: Admission, seconds: StepSeconds) -> RequestTimes:
    """Serve all arrivals with one replica.

    Args:
        arrivals: The requests, in order of arrival.
        admission: What the engine admits.
        seconds: Time of a step by decoding sequences and prompt tokens.
    """
    most = int(min(admission.capacity, len(arrivals.at_s))) + 1
    return _Run(arrivals, admission, step_grid(most, admission.token_budget, seconds)).times()


class _Run:
    def __init__(self, arrivals: Arrivals, admission: Admission, grid: StepGrid) -> None:
        self.admission, self.grid = admission, grid
        self.at = arrivals.at_s.tolist()
        self.left = arrivals.prompts.tolist()
        self.answers = arrivals.answers.tolist()
        self.first, self.done = [0.0] * len(self.at), [0.0] * len(self.at)
        self.now, self.step, self.next = 0.0, 0, 0
        self.waiting: deque[int] = deque()
        self.running: list[tuple[int, int]] = []

    def times(self) -> RequestTimes:
        total = len(self.at)
        while self.next < total or self.waiting or self.running:
            self._arrive()
            self._advance()
        at, first, done = np.array(self.at), np.array(self.first), np.array(self.done)
        further = np.maximum(np.array(self.answers) - 1, 1)
        return RequestTimes(
            ttft_s=first - at, tpot_s=(done - first) / further, e2e_s=done - at, span_s=float(done.max() - at[0])
        )

    def _arrive(self) -> None:
        if not self.waiting and not self.running and self.next < len(self.at):
            self.now = max(self.now, self.at[self.next])
        while self.next < len(self.at) and self.at[self.next] <= self.now:
            self.waiting.append(self.next)
            self.next += 1

    def _advance(self) -> None:
        finished, chunk = self._admit()
        decoding = len(self.running)
        if not chunk:
            self._decode(decoding)
        elif self.admission.mixes:
            self.now += self.grid.at(decoding, chunk)
            self.step += 1
        else:
            self.now += self.grid.at(0, chunk)
        for request in finished:
            self.first[request] = self.now
            heapq.heappush(self.running, (self.step + self.answers[request] - 1, request))
        while self.running and self.running[0][0] <= self.step:
            _, request = heapq.heappop(self.running)
            self.done[request] = self.now

    def _decode(self, decoding: int) -> None:
        """Decode until a sequence completes, or a request arrives that there is room for."""
        if not decoding:
            return
        step_s = self.grid.at(decoding, 0.0)
        steps = self.running[0][0] - self.step
        if self.next < len(self.at) and decoding < self.admission.capacity:
            until = (self.at[self.next] - self.now) / step_s
            steps = min(steps, max(1, int(np.ceil(until))))
        self.now += steps * step_s
        self.step += steps

    def _admit(self) -> tuple[list[int], float]:
        decoding = len(self.running)
        room = self.admission.token_budget - (decoding if self.admission.mixes else 0)
        return admit_prompts(self.waiting, self.left, room=room, slots=self.admission.capacity - decoding)
