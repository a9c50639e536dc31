"""Numbers of clients are read by one rule; acceptance of drafts is read as engines log it."""

import pytest

from capplan.errors import UsageError
from capplan.llm.core.serving.asked import MOST_CLIENTS, Speculation, acceptance_of, read_clients


@pytest.mark.parametrize(
    ("asked", "clients"),
    [("8", (8,)), ("32,1,8", (1, 8, 32)), ("1..5", (1, 2, 4, 5)), ([16, 4, 4], (4, 16)), ("8,8..32", (8, 16, 32))],
)
def test_clients_are_listed_or_powers_of_two_between(asked: str | list[int], clients: tuple[int, ...]) -> None:
    assert read_clients(asked) == clients


@pytest.mark.parametrize("asked", ["", "auto", "max", "8..4", "0", "many", [], [0], [MOST_CLIENTS + 1], "1,65537"])
def test_other_words_and_too_many_clients_are_refused(asked: str | list[int]) -> None:
    with pytest.raises(UsageError, match="each from 1 to 65536"):
        read_clients(asked)


@pytest.mark.parametrize(
    ("drafts", "tokens_per_step", "chance"),
    [
        (1, 1.7, 0.7),  # 1 + a
        (2, 1.75, 0.5),  # 1 + a + a^2
        (3, 1.0, 0.0),
        (4, 5.0, 1.0),
    ],
)
def test_a_mean_length_is_the_chance_whose_step_gives_as_many_tokens(
    drafts: int, tokens_per_step: float, chance: float
) -> None:
    assert acceptance_of(drafts, tokens_per_step) == pytest.approx(chance, abs=1e-9)


def test_four_drafts_of_which_half_are_accepted_give_three_tokens() -> None:
    # vLLM logs accepted / drafted and 1 + accepted / steps: half of four drafts are two tokens beside the step's own.
    chance = acceptance_of(4, 1 + 4 * 0.5)
    assert chance is not None
    assert Speculation(drafts=4, acceptance=chance).tokens_per_step == pytest.approx(3.0)


@pytest.mark.parametrize("tokens_per_step", [0.9, 5.1])
def test_a_step_gives_no_more_tokens_than_its_drafts_and_its_own(tokens_per_step: float) -> None:
    assert acceptance_of(4, tokens_per_step) is None
