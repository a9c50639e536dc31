"""The declarations of transformers architectures are whole: one each, and what they name exists."""

from collections import Counter

from capplan.probe.transformers.architecture import FamilyFacts
from capplan.probe.transformers.architectures import architecture, families
from capplan.probe.transformers.forward import MAKERS
from tests.seen import at_least


def test_an_architecture_is_declared_in_one_family() -> None:
    counts = Counter(at_least(100, (kind for family in families().values() for kind in family)))
    assert [kind for kind, count in counts.items() if count > 1] == []


def test_no_declaration_is_empty() -> None:
    declared = at_least(100, (each for family in families().values() for each in family.items()))
    assert [kind for kind, found in declared if found == FamilyFacts()] == []


def test_every_input_that_is_named_can_be_made() -> None:
    named = {name for family in families().values() for found in family.values() for name in found.inputs}
    at_least(20, named)
    assert named - set(MAKERS) == set()


def test_an_undeclared_architecture_follows_from_config_and_forward() -> None:
    assert architecture("bert") == FamilyFacts()


def test_declared_and_undeclared_fields_stand_beside_each_other() -> None:
    found = architecture("llava_next")  # LLaVA-NeXT cuts an image into 2 x 2 tiles and adds the whole one: five
    assert (found.images, found.is_tiled, found.inputs) == (5, True, ())
