"""Whatever a field of a question holds, reading it ends in a question or in one sentence, never in a bug."""

import contextlib
from typing import Any

import msgspec
import pytest

from capplan.errors import CapplanError, UsageError
from capplan.serve.questions import question_from_mapping
from capplan.verbs.statement.options import Door
from capplan.verbs.statement.registry import find_verb, served_verbs
from capplan.verbs.statement.words import BATCHES, PIXELS, SHAPE, TORCH_VERSION, Words

VALUES: tuple[Any, ...] = (
    None, -1, 0, 2**63, 2**70, 1e308, -1e308, float("inf"), "", "NaN", "x" * 10_000, [], [[]], {}, {"a": {"b": []}},
    [None] * 3, True, ["l4"] * 300, "1..99999999999999999999", "memory >= 1e999 GiB", [0], [2**41], ["../../x"],
    [{"a": 1}], "\ud800",
)  # fmt: skip


@pytest.mark.parametrize("path", served_verbs())
def test_no_value_of_any_field_is_a_bug(path):
    verb = find_verb(path)
    names = [field.wire for field in verb.fields_at(Door.HTTP)] + ["training", "__class__"]
    for name in names:
        for value in VALUES:
            for is_strict in (True, False):
                with contextlib.suppress(CapplanError):
                    question_from_mapping(verb.question, {name: value}, is_strict=is_strict)


@pytest.mark.parametrize("value", [{}, [[]], ["../../x"], [0], {"a": 1}, True])
@pytest.mark.parametrize(("path", "name"), [("plan", "max_latency_s"), ("report", "max_power_w")])
def test_a_quantity_is_a_number_or_words(path, name, value):
    """Such values came through to the planner, which failed with a TypeError."""
    kind = find_verb(path).question
    with pytest.raises(CapplanError, match=f"{name}: expected a number"):
        question_from_mapping(kind, {"model": "m", name: value})
    assert getattr(question_from_mapping(kind, {"model": "m", name: 2}), name) == 2
    json_value = msgspec.json.decode(b"2.5")
    assert getattr(question_from_mapping(kind, {"model": "m", name: json_value}), name) == 2.5


@pytest.mark.parametrize(
    ("words", "value"),
    [(BATCHES, b"12"), (PIXELS, "1024x" + "9" * 5000), (SHAPE, [3, True])],
)
def test_what_stands_for_no_value_is_refused(words: Words, value: Any) -> None:
    with pytest.raises(UsageError):
        words.read(value, "what")


def test_a_release_that_a_number_cannot_hold_is_asked_for_as_text() -> None:
    # YAML, TOML and Python read 2.10 as 2.1, which is another release of PyTorch
    with pytest.raises(UsageError, match=r'may be 2.1 or 2.10; write it as text: "2.1" or "2.10"'):
        TORCH_VERSION.read(2.10, "torch")
    assert (TORCH_VERSION.read("2.10", "torch"), TORCH_VERSION.read(2.11, "torch")) == ((2, 10), (2, 11))


@pytest.mark.parametrize("step", [-1, 0, 1e308, [], [[]]])
def test_a_training_step_is_true_or_an_object(step):
    with pytest.raises(CapplanError, match="training: expected true, false or"):
        question_from_mapping(find_verb("plan").question, {"model": "m", "training": step})
