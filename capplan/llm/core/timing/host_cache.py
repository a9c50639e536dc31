"""Keep the KV cache of prefixes in host memory: how many tokens it holds, and how long a prefix takes to come back.

Engines copy blocks that leave the GPUs' cache to the host (vLLM's KV offloading and LMCache, SGLang's hierarchical
cache, TensorRT-LLM's host cache) and copy them back when a prompt begins with them. Meanwhile the GPUs serve other
requests, so that only the request itself waits, behind those whose copies began before.
"""

from dataclasses import dataclass

import numpy as np

from capplan.core.assumed import COPIED_FRACTION, UNKNOWN_PCIE_BYTES_PER_S
from capplan.core.gpus.spec import GpuSpec
from capplan.core.numbers import FloatArray
from capplan.errors import UsageError
from capplan.llm.core.sharding import Sharding


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCache:
    """The cache of one replica in host memory: tokens that it holds, and the time in which one comes back. [s]"""

    tokens: float
    token_s: float

    def waits_s(self, at_s: FloatArray, tokens: FloatArray) -> FloatArray:
        """Return how long each request waits for its prefix, the copies of a replica following one another. [s]"""
        waits, free_s = np.zeros(len(at_s)), 0.0
        for index in np.flatnonzero(tokens > 0):
            free_s = max(free_s, at_s[index]) + tokens[index] * self.token_s
            waits[index] = free_s - at_s[index]
        return waits


def host_cache(size_bytes: float, *, token_bytes: float, sharding: Sharding, gpu: GpuSpec) -> HostCache | None:
    """Return the cache of a replica in host memory; None where none is asked for.

    Every GPU keeps its own share of a token and copies it over its own link at the same time.
    """
    if not size_bytes:
        return None
    if not token_bytes:
        raise UsageError("⟨kv-offload⟩ keeps tokens of attention in host memory; no layer of this model caches any.")
    link = COPIED_FRACTION * (gpu.pcie_bytes_per_s or UNKNOWN_PCIE_BYTES_PER_S)
    return HostCache(
        tokens=size_bytes / (token_bytes * sharding.tensor * sharding.pipeline), token_s=token_bytes / link
    )
