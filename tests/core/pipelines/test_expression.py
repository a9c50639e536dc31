"""Arithmetic of pipeline files: what it is, and that nothing else is read."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.core.pipelines.expression import evaluate, filled
from capplan.errors import UsageError

VALUES = {"steps": 28, "passes": 2, "height": 1000, "guidance": 3.5}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("steps * passes", 56),
        ("ceil(height / 16)", 63),  # 1000 / 16 = 62.5
        ("height // 8 - 1", 124),
        ("2 if guidance > 1 else 1", 2),
        ("max(steps, 3, height % 7)", 28),
        ("-(steps)", -28),
        ("7", 7),
    ],
)
def test_arithmetic_is_worked_out(text: str, value: float) -> None:
    assert evaluate(text, VALUES, where="test") == value


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')", "steps.real", "steps ** 999999", "[1]", "'a' * 9", "lambda: 1",
        "open(steps)",
        "steps if", "True and steps", "f'{steps}'", "1e400", "9" * 400, "(" * 250 + "1" + ")" * 49,
    ],
)  # fmt: skip
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        evaluate(text, VALUES, where="test")


def test_an_unknown_parameter_is_named_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="'step', which is no parameter; known are steps"):
        evaluate("step * 2", VALUES, where="test")


def test_dividing_by_zero_is_a_refusal() -> None:
    with pytest.raises(UsageError, match="divides by zero"):
        evaluate("1 / (steps - 28)", VALUES, where="test")


@given(st.text(max_size=60))
def test_no_text_does_anything_but_give_a_number_or_a_refusal(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert isinstance(evaluate(text, VALUES, where="test"), int | float)


def test_braces_hold_whole_numbers() -> None:
    assert filled("x=Nx{height // 8}x{passes}", VALUES, where="test") == "x=Nx125x2"
    with pytest.raises(UsageError, match="must be a whole number"):
        filled("x={height / 16}", VALUES, where="test")
