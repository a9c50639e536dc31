"""Stretch the rotary positions of a model by YaRN (Peng et al., arXiv 2309.00071)."""

import json
import re
from dataclasses import replace
from math import ceil

from capplan.errors import UsageError
from capplan.llm.core.architecture import Architecture, RotaryPositions

MARK = "+yarn"
"""What stands between a model's name and the factor: qwen3-8b+yarn4."""
_MOST_SHOWN = 32
"""The largest factor that the paper shows, from 4,096 positions to 131,072."""


def split_factor(name: str) -> tuple[str, float] | None:
    """Return the model and the factor that a name such as qwen3-8b+yarn4 states, None without the mark.

    Raises:
        UsageError: What follows the mark is no factor that the paper shows, or the mark stands twice.
    """
    match = re.fullmatch(r"(.*)\+yarn(.*)", name, flags=re.IGNORECASE | re.DOTALL)
    if match is None:
        return None
    plain, words = match.groups()
    factor = float(words) if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", words) else 0
    if not 1 <= factor <= _MOST_SHOWN or MARK in plain.lower():
        raise UsageError(
            f"{name}: one {MARK} stands behind a model's name, and behind it the factor by which YaRN stretches its "
            f"positions, a number from 1 to {_MOST_SHOWN} (the largest that its paper shows), as in qwen3-8b{MARK}4."
        )
    return plain, factor


def stretched(architecture: Architecture, factor: float) -> Architecture:
    """Return a model whose positions are its trained ones times a factor."""
    rotary, longest = architecture.rotary, architecture.max_positions
    if rotary is None or longest is None:
        raise UsageError(f"{architecture.name} states no rotary positions that YaRN could stretch.")
    positions = int(rotary.trained * factor)
    if positions <= longest:
        raise UsageError(
            f"{architecture.name} handles {longest} tokens already; {MARK}{factor:g} gives {positions} "
            f"({factor:g} × {rotary.trained}): take a larger factor."
        )
    return replace(
        architecture,
        name=f"{architecture.name}{MARK}{factor:g}",
        max_positions=positions,
        rope_rows=architecture.rope_rows * positions // longest,
        rotary=replace(rotary, factor=factor),
    )


def check_length(architecture: Architecture, tokens: float, *, what: str) -> None:
    """Raise if a sequence is longer than a model allows; `what` says by which options it would be shorter."""
    longest, rotary = architecture.max_positions, architecture.rotary
    if longest is None or tokens <= longest:
        return
    way = ""
    if rotary is not None and rotary.factor is None and (factor := ceil(tokens / rotary.trained)) <= _MOST_SHOWN:
        name = f"{architecture.name}{MARK}{factor}"
        way = f"; or write {name}: YaRN stretches its positions, at some cost in quality for short prompts"
    raise UsageError(f"{architecture.name} handles at most {longest} tokens, and {tokens:.0f} are more: {what}{way}.")


def override(key: str, rotary: RotaryPositions) -> str:
    """Return a stretched model's rotary settings as JSON, with their base, which an override would else drop."""
    own = {"rope_type": "yarn", "factor": rotary.factor, "original_max_position_embeddings": rotary.trained}
    return json.dumps({key: dict(rotary.settings) | own})
