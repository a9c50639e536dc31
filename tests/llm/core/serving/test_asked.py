"""Numbers of clients are read by one rule, by the command line and by the service."""

import pytest

from capplan.errors import UsageError
from capplan.llm.core.serving.asked import MOST_CLIENTS, read_clients


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
