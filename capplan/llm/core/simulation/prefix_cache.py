"""Find how much of each prompt a prefix cache of a given size holds; the least recently used blocks leave first."""

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from capplan.core.numbers import FloatArray


def cached_tokens(
    blocks: Sequence[Sequence[int]], prompts: FloatArray, *, block_tokens: float, capacity_tokens: float
) -> FloatArray:
    """Return the tokens of each prompt that are in the cache when it comes. [tokens]

    A hit is the longest run of blocks from the first on that the cache holds. All blocks of a prompt are then in it,
    and the least recently used ones leave where there is no room. Blocks of requests that run are counted once, as the
    engine shares them.

    Args:
        blocks: Hashes of the blocks of each prompt, in order of arrival; equal hashes are equal prefixes.
        prompts: Tokens of each prompt.
        block_tokens: Tokens of a block.
        capacity_tokens: Tokens that the cache holds.
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
