"""Learn the memory constants of an engine from its start-up logs.

Sizes of weights follow from the model and are not fitted; what is fitted are the sampler's peak, the fixed parts,
and what the process holds outside PyTorch's allocator.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from capplan.errors import UsageError
from capplan.llm.core.architecture import Architecture

FEWEST_ROWS = 5
"""Runs without which the sampler's three constants cannot be distinguished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupLog:
    """What an engine logged when it started. [bytes]"""

    architecture: Architecture
    tensor: int
    pipeline: int
    element_bytes: int
    max_sequences: int
    batched_tokens: int
    activation_bytes: float
    other_bytes: float
    graph_bytes: float | None

    @property
    def has_images(self) -> bool:
        return self.architecture.vision is not None or self.architecture.vision_note is not None

    @property
    def forward_bytes(self) -> float:
        """Return the peak of the forward pass: three MLP widths and four hidden widths of 16-bit numbers per token."""
        per_token = 3 * self.architecture.widest_mlp / self.tensor + 4 * self.architecture.hidden_dim
        return 2 * self.batched_tokens * per_token


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedMemory:
    """Constants learned from start-up logs; None where no log states one. [bytes]"""

    rows: int
    sampler_bytes_per_vocab: float
    sampler_bytes_per_hidden: float
    fixed_bytes: float
    vision_bytes: float | None
    stage_bytes: float | None
    other_bytes: dict[int, float]
    stage_other_bytes: float | None
    graph_bytes: float | None


def fit_memory(logs: Sequence[StartupLog]) -> FittedMemory:
    """Learn memory constants from start-up logs.

    The sampler's constants come from text models in 16 bits on one stage whose peak is above the forward pass's. Every
    model counts once, since repeated logs of one model add no evidence.
    """
    distinct = {(log.architecture.name, log.tensor, log.pipeline, log.element_bytes): log for log in logs}
    plain = [log for log in distinct.values() if log.pipeline == 1 and log.element_bytes == 2]
    sampled = [log for log in plain if not log.has_images and log.activation_bytes > 1.05 * log.forward_bytes]
    if len(sampled) < FEWEST_ROWS:
        raise UsageError(
            f"{len(sampled)} models show the sampler's peak, but {FEWEST_ROWS} are needed: 16-bit text models "
            "without pipeline stages, whose activations exceed those of the forward pass."
        )
    # Solve activation = sequences·(a·V + b·H) + c by least squares, with b and c held at 0 or above.
    columns = np.array(
        [
            [log.max_sequences * log.architecture.vocab_size, log.max_sequences * log.architecture.hidden_dim, 1.0]
            for log in sampled
        ]
    )
    target = np.array([log.activation_bytes for log in sampled])
    kept = [0, 1, 2]
    while True:
        scale = np.abs(columns[:, kept]).max(axis=0)
        found = np.linalg.lstsq(columns[:, kept] / scale, target, rcond=None)[0] / scale
        negative = [index for index, value in zip(kept, found, strict=True) if value < 0 and index > 0]
        if not negative:
            break
        kept = [index for index in kept if index not in negative]
    solution = dict(zip(kept, found.tolist(), strict=True))
    vocab, hidden, fixed = solution[0], solution.get(1, 0.0), solution.get(2, 0.0)
    images = [
        log.activation_bytes
        - log.max_sequences * (vocab * log.architecture.vocab_size + hidden * log.architecture.hidden_dim)
        - fixed
        for log in plain
        if log.has_images
    ]
    tensors = sorted({log.tensor for log in plain})
    stages = [log for log in logs if log.pipeline > 1]
    graphs = [log.graph_bytes for log in logs if log.graph_bytes is not None]
    return FittedMemory(
        rows=len(logs),
        sampler_bytes_per_vocab=vocab,
        sampler_bytes_per_hidden=hidden,
        fixed_bytes=fixed,
        vision_bytes=median(images) if images else None,
        stage_bytes=median(log.activation_bytes for log in stages) if stages else None,
        other_bytes={tensor: median(log.other_bytes for log in plain if log.tensor == tensor) for tensor in tensors},
        stage_other_bytes=median(log.other_bytes for log in stages) if stages else None,
        graph_bytes=median(graphs) if graphs else None,
    )
