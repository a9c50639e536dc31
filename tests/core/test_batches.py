import pytest

from capplan.core.workload import BatchChoice, parse_batches
from capplan.errors import UsageError


@pytest.mark.parametrize(
    ("words", "sizes"),
    [
        ("8", (8,)),
        ("1,8,32", (1, 8, 32)),
        ("1..1024", (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)),
        ("1..12", (1, 2, 4, 8, 12)),
        ("3..3", (3,)),
        ("4, 1..4", (4, 1, 2)),
    ],
)
def test_lists_and_ranges_become_sizes(words: str, sizes: tuple[int, ...]) -> None:
    assert parse_batches(words).sizes == sizes


@pytest.mark.parametrize("word", ["auto", "max", "AUTO"])
def test_a_choice_has_no_sizes(word: str) -> None:
    batches = parse_batches(word)
    assert batches.choice is BatchChoice(word.lower())
    assert batches.sizes == ()


@pytest.mark.parametrize("words", ["0", "-1", "x", "", "8..1", "1,,2", "1.5", "99999999999999999"])
def test_what_is_no_batch_is_refused(words: str) -> None:
    with pytest.raises(UsageError, match="⟨batch⟩"):
        parse_batches(words)
