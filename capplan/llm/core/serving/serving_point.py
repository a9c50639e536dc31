"""Closed forms of serving: what a fixed batch, a closed loop and an offline run take, in terms of two steps.

A serving point is reduced to a step that only decodes and a step that also holds prompt tokens. Every answer is
`decodes` times the first plus `prefills` times what the prompt tokens add.
"""

from dataclasses import dataclass

import numpy as np

from capplan.core.numbers import FloatArray
from capplan.llm.core.timing.work import Load

TOKEN_BUDGET = 8192
"""Tokens of a step, prompts and decoding together, that engines admit by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """The requests of a serving point: mean prompt and answer [tokens], and how many are in the replica at a time.

    `batch` is what runs at a time in one replica: the clients, unless memory or the engine hold fewer; an array asks
    about several points at once. `cached_len` tokens of each prompt are in the prefix cache already. A decoding
    sequence verifies `drafted` tokens in a step. Requests are `spread` where their lengths differ, else in lockstep.
    """

    input_len: float
    output_len: float
    batch: float | FloatArray
    spread: bool = True
    token_budget: float = TOKEN_BUDGET
    cached_len: float = 0.0
    drafted: float = 0.0

    @property
    def prefill_len(self) -> float:
        return self.input_len - self.cached_len


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoSteps:
    """A time as `decodes` decode steps plus `prefills` times what prompt tokens add to such a step.

    `beside` is 1 where the prompt tokens share their step with decoding sequences, whose time is then subtracted, and 0
    where the second step holds prompt tokens alone. `shared` says how far only the engine's prefill share is felt: 1
    for few prompt tokens, 0 where they fill the step, which leaves no idle units that could work on them.
    """

    decode: Load
    mixed: Load
    decodes: float
    prefills: float | FloatArray
    beside: float = 0.0
    shared: float | FloatArray = 0.0


def steady_state(requests: Requests, *, pipeline: int, data: int, mixes: bool = True) -> TwoSteps:
    """Describe the mean time between tokens in a closed loop."""
    lockstep = 1.0 if requests.spread else 0.5
    return _continuous(
        requests, others=requests.batch - 1.0, lockstep=lockstep, pipeline=pipeline, data=data, mixes=mixes
    )


def saturated(requests: Requests, *, pipeline: int, data: int, mixes: bool = True) -> TwoSteps:
    """Describe the time in which a full batch gives one token each, all requests waiting from the start."""
    return _continuous(requests, others=requests.batch, lockstep=1.0, pipeline=pipeline, data=data, mixes=mixes)


def _continuous(
    requests: Requests, *, others: float | FloatArray, lockstep: float, pipeline: int, data: int, mixes: bool
) -> TwoSteps:
    batch = np.atleast_1d(np.asarray(requests.batch, float))
    per_pass, prompt = batch / data / pipeline, requests.prefill_len
    context = requests.input_len + requests.output_len / 2
    room = np.maximum(requests.token_budget - per_pass, requests.token_budget / 8)
    chunk = np.minimum(np.maximum(prompt, batch / data * prompt / max(requests.output_len, 1.0)), room)
    past = requests.cached_len + np.maximum(0.0, (requests.prefill_len - chunk) / 2)
    mixed = Load.of(
        decoding=per_pass if mixes else 0.0 * per_pass,
        context=context,
        answered=requests.output_len,
        prefilled=chunk,
        prompts=np.maximum(chunk / requests.prefill_len, 1e-6),
        past=past,
        drafted=requests.drafted,
    )
    waits = np.maximum(others, 0.0) / data / max(requests.output_len, 1.0) * lockstep
    return TwoSteps(
        decode=Load.of(decoding=per_pass, context=context, answered=requests.output_len),
        mixed=mixed,
        decodes=pipeline,
        prefills=waits * prompt / chunk,
        beside=1.0 if mixes else 0.0,
        shared=1.0 - chunk / room,
    )


def static_batch(requests: Requests, *, pipeline: int) -> TwoSteps:
    """Describe the whole time of a static batch: one prefill of all prompts, then a step for every further token."""
    context = requests.input_len + requests.output_len / 2
    return TwoSteps(
        decode=Load.of(decoding=requests.batch / pipeline, context=context, answered=requests.output_len),
        mixed=Load.of(prefilled=requests.batch * requests.input_len, prompts=requests.batch),
        decodes=pipeline * max(requests.output_len - 1.0, 0.0),
        prefills=pipeline,
    )


def lone_prefill(requests: Requests, *, pipeline: int, fills_pipeline: bool = False) -> TwoSteps:
    """Describe the time to the first token of one prompt on an idle replica.

    Where the parts of a prompt fill a pipeline, each stage works on the next part while the following one has the last;
    else a part passes all stages before the next begins.
    """
    chunks = max(1.0, np.ceil(requests.prefill_len / requests.token_budget))
    size = requests.prefill_len / chunks
    past = requests.cached_len + (requests.prefill_len - size) / 2
    return TwoSteps(
        decode=Load.of(decoding=1.0, context=requests.input_len),
        mixed=Load.of(prefilled=size, prompts=1.0, past=past),
        decodes=0.0,
        prefills=chunks + pipeline - 1.0 if fills_pipeline else pipeline * chunks,
    )
