"""Find the declaration of an architecture by its `model_type`."""

from collections.abc import Mapping
from functools import cache

from capplan.probe.transformers.architecture import Architecture
from capplan.probe.transformers.architectures import (
    audio,
    detection,
    documents,
    retrieval,
    series_and_actions,
    text,
    video,
    vision,
    vision_language,
)

FAMILIES: Mapping[str, Mapping[str, Architecture]] = {
    family.__name__.rpartition(".")[2]: family.ARCHITECTURES
    for family in (
        audio, detection, documents, retrieval, series_and_actions, text, video, vision, vision_language,
    )
}  # fmt: skip
"""Declarations by family; an architecture stands in one family only."""

_UNDECLARED = Architecture()


@cache
def _declared() -> Mapping[str, Architecture]:
    return {kind: found for family in FAMILIES.values() for kind, found in family.items()}


def architecture(kind: str) -> Architecture:
    """Return what is declared of an architecture; an empty declaration where nothing is.

    Args:
        kind: The `model_type` of a transformers config, such as "qwen2_vl".
    """
    return _declared().get(kind, _UNDECLARED)
