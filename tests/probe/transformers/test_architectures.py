"""The declarations of transformers architectures are whole: one each, and what they name exists."""

from collections import Counter

from capplan.probe.transformers.architecture import FamilyFacts
from capplan.probe.transformers.architectures import FAMILIES, architecture
from capplan.probe.transformers.forward import MAKERS


def test_an_architecture_is_declared_in_one_family() -> None:
    counts = Counter(kind for family in FAMILIES.values() for kind in family)
    assert [kind for kind, count in counts.items() if count > 1] == []


def test_no_declaration_is_empty() -> None:
    assert [kind for family in FAMILIES.values() for kind, found in family.items() if found == FamilyFacts()] == []


def test_every_input_that_is_named_can_be_made() -> None:
    named = {name for family in FAMILIES.values() for found in family.values() for name in found.inputs}
    assert named - set(MAKERS) == set()


def test_an_undeclared_architecture_follows_from_config_and_forward() -> None:
    assert architecture("bert") == FamilyFacts()


def test_declared_and_undeclared_fields_stand_beside_each_other() -> None:
    found = architecture("llava_next")  # LLaVA-NeXT cuts an image into 2 x 2 tiles and adds the whole one: five
    assert (found.images, found.is_tiled, found.inputs) == (5, True, ())
