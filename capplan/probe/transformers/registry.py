"""Find the declaration of an architecture by its `model_type`."""

from collections.abc import Mapping
from functools import cache

from capplan.probe.transformers.architecture import FamilyFacts
from capplan.probe.transformers.architectures import (
    AUDIO,
    DETECTION,
    DOCUMENTS,
    RETRIEVAL,
    SERIES_AND_ACTIONS,
    TEXT,
    VIDEO,
    VISION,
    VISION_LANGUAGE,
)

FAMILIES: Mapping[str, Mapping[str, FamilyFacts]] = {
    "audio": AUDIO,
    "detection": DETECTION,
    "documents": DOCUMENTS,
    "retrieval": RETRIEVAL,
    "series_and_actions": SERIES_AND_ACTIONS,
    "text": TEXT,
    "video": VIDEO,
    "vision": VISION,
    "vision_language": VISION_LANGUAGE,
}
"""Declarations by family; an architecture stands in one family only."""

_UNDECLARED = FamilyFacts()


@cache
def _declared() -> Mapping[str, FamilyFacts]:
    return {kind: found for family in FAMILIES.values() for kind, found in family.items()}


def architecture(kind: str) -> FamilyFacts:
    """Return what is declared of an architecture; an empty declaration where nothing is.

    Args:
        kind: The `model_type` of a transformers config, such as "qwen2_vl".
    """
    return _declared().get(kind, _UNDECLARED)
