"""Draw requests that come to a replica: at a rate or along a day, evenly or in bursts, with lengths that vary."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from capplan.core.numbers import FloatArray, IntArray

_SESSION_BLOCK = 64.0
"""Tokens of a block in which the prefix of a conversation is found again; engines take 16 to 64."""
_MOST_BLOCKS = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """Requests in order of arrival: when each comes [s], tokens of its prompt and of its answer.

    `cached` tokens of each prompt are found in the prefix cache; None for none. `blocks` are hashes of the blocks of
    each prompt, of `block_tokens` tokens, where prompts share prefixes; what of them is found follows from the size of
    the cache. Empty where it is not known. `loaded` of the cached tokens come from host memory; None for all of them,
    where nothing says which.
    """

    at_s: FloatArray
    prompts: FloatArray
    answers: IntArray
    cached: FloatArray | None = None
    blocks: tuple[tuple[int, ...], ...] = ()
    block_tokens: float = 512.0
    loaded: FloatArray | None = None

    @property
    def loaded_tokens(self) -> FloatArray:
        """Return the tokens of each prompt that come from host memory, where a part of the cache lies there."""
        if self.loaded is not None:
            return self.loaded
        return np.zeros(len(self.prompts)) if self.cached is None else self.cached

    def with_cache(self, capacity_tokens: float, host_tokens: float = 0.0) -> "Arrivals":
        """Return the requests with the tokens that a prefix cache holds of each; unchanged without blocks.

        What leaves the cache goes to host memory, whose least recently used blocks leave it in turn. Both together hold
        what one cache of their size would.
        """
        if not self.blocks:
            return self
        near, both = (
            cached_tokens(self.blocks, self.prompts, block_tokens=self.block_tokens, capacity_tokens=tokens)
            for tokens in (capacity_tokens, capacity_tokens + host_tokens)
        )
        return replace(self, cached=both, loaded=both - near)

    def later(self, waits_s: FloatArray, order: IntArray) -> "Arrivals":
        """Return the requests as they reach the engine after a wait of each, without their blocks."""
        return Arrivals(
            at_s=(self.at_s + waits_s)[order],
            prompts=self.prompts[order],
            answers=self.answers[order],
            cached=None if self.cached is None else self.cached[order],
        )

    def sampled(self, count: int, *, seed: int = 7) -> "Arrivals":
        """Return so many requests, drawn from these with replacement; their times and shared prefixes are dropped."""
        chosen = np.random.default_rng(seed).integers(0, len(self.prompts), count)
        return Arrivals(
            at_s=np.zeros(count),
            prompts=self.prompts[chosen],
            answers=self.answers[chosen],
            cached=None if self.cached is None else self.cached[chosen],
        )

    @property
    def rate_per_s(self) -> float:
        return float(len(self.at_s) / self.at_s[-1]) if self.at_s[-1] > 0 else float("inf")

    @property
    def has_times(self) -> bool:
        return bool(self.at_s[-1] > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Mean lengths [tokens] and how requests vary around them.

    Requests draw lengths evenly from ± `spread` around the means. A coefficient of variation above 0 makes them
    log-normal instead, which has the long tail of chat traffic. `prefix_fraction` of each prompt is in the cache.
    """

    input_len: float
    output_len: float
    spread: float = 0.0
    input_cv: float = 0.0
    output_cv: float = 0.0
    prefix_fraction: float = 0.0


def random_arrivals(
    *, rate_per_s: float, count: int, lengths: Lengths, gap_scv: float = 1.0, seed: int = 7
) -> Arrivals:
    """Draw arrivals whose gaps are Gamma distributed with a squared coefficient of variation."""
    source = np.random.default_rng(seed)
    gaps = source.gamma(1.0 / gap_scv, gap_scv, count) / rate_per_s
    return _with_lengths(np.cumsum(gaps), lengths, source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """Conversations: `turns` requests each, of which each has all before it as its prefix, `period_s` apart. [s]"""

    turns: int
    period_s: float


def session_arrivals(
    sessions: Sessions, *, rate_per_s: float, count: int, lengths: Lengths, longest: float, seed: int = 7
) -> Arrivals:
    """Draw requests of conversations, whose prompts grow by the prompt and the answer of each turn."""
    begun = max(1, count // sessions.turns)
    source = np.random.default_rng(seed)
    starts = np.cumsum(source.exponential(sessions.turns / rate_per_s, begun))
    drawn = _with_lengths(np.zeros(begun * sessions.turns), lengths, source)
    added = drawn.prompts.reshape(begun, -1)
    answers = drawn.answers.reshape(begun, -1)
    before = np.cumsum(added + answers, axis=1) - added - answers
    prompts, at_s = before + added, starts[:, None] + sessions.period_s * np.arange(sessions.turns)
    kept = (prompts + answers <= longest).ravel()
    order = np.flatnonzero(kept)[np.argsort(at_s.ravel()[kept], kind="stable")]
    whole = np.floor(prompts.ravel()[order] / _SESSION_BLOCK).astype(int)
    owner = order // sessions.turns
    return Arrivals(
        at_s=at_s.ravel()[order],
        prompts=prompts.ravel()[order],
        answers=answers.ravel()[order],
        blocks=tuple(
            tuple(range(own * _MOST_BLOCKS, own * _MOST_BLOCKS + size)) for own, size in zip(owner, whole, strict=True)
        ),
        block_tokens=_SESSION_BLOCK,
    )


def _with_lengths(at_s: FloatArray, lengths: Lengths, source: np.random.Generator) -> Arrivals:
    even = source.uniform(1.0 - lengths.spread, 1.0 + lengths.spread, (2, at_s.size))
    factors = [_log_normal(cv, source, at_s.size) for cv in (lengths.input_cv, lengths.output_cv)]
    prompts = np.maximum(1.0, np.round(lengths.input_len * (even[0] if factors[0] is None else factors[0])))
    answers = np.maximum(1, np.round(lengths.output_len * (even[1] if factors[1] is None else factors[1])))
    cached = np.floor(lengths.prefix_fraction * prompts) if lengths.prefix_fraction else None
    return Arrivals(at_s=at_s, prompts=prompts, answers=answers.astype(np.int64), cached=cached)


def _log_normal(cv: float, source: np.random.Generator, count: int) -> FloatArray | None:
    """Draw factors of mean 1 with a coefficient of variation: σ² = ln(1 + cv²), μ = −σ²/2; None for none."""
    if not cv:
        return None
    variance = np.log1p(cv * cv)
    return np.asarray(source.lognormal(-variance / 2.0, np.sqrt(variance), count))


def all_at_once(count: int, lengths: Lengths, *, seed: int = 7) -> Arrivals:
    """Draw requests that are all there from the start, as in an offline run or as the clients of a closed loop."""
    return _with_lengths(np.zeros(count), lengths, np.random.default_rng(seed))


def hourly_rates(mean_rate_per_s: float, shape: Sequence[float]) -> tuple[float, ...]:
    """Return the rate of each part of a day whose shape is given in any unit. [1/s]"""
    mean = sum(shape) / len(shape)
    return tuple(mean_rate_per_s * part / mean for part in shape)


def cached_tokens(
    blocks: Sequence[Sequence[int]], prompts: FloatArray, *, block_tokens: float, capacity_tokens: float
) -> FloatArray:
    """Return the tokens of each prompt that are in the cache when it comes. [tokens]

    A hit is the longest run of blocks from the first on that the cache holds. All blocks of a prompt are then in it,
    and the least recently used ones leave where there is no room. Blocks of requests that run are counted once, as the
    engine shares them.
    """
    room = int(capacity_tokens // block_tokens)
    held: OrderedDict[int, None] = OrderedDict()
    found = np.zeros(len(blocks))
    for index, hashes in enumerate(blocks):
        hits = 0
        for block in hashes:
            if block not in held:
                break
            hits += 1
        for block in hashes:
            held[block] = None
            held.move_to_end(block)
        while len(held) > room:
            held.popitem(last=False)
        found[index] = min(hits * block_tokens, prompts[index] - 1.0)
    return np.maximum(found, 0.0)
