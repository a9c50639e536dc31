"""The numbers of clients that a question about serving asks for."""

from collections.abc import Sequence

from capplan.core.batches import parse_batches
from capplan.errors import UsageError

MOST_CLIENTS = 65_536
"""Clients, and requests at once, that are answered for at most; they are stepped through."""


def read_clients(asked: str | Sequence[int]) -> tuple[int, ...]:
    """Read numbers of clients, as `parse_batches` reads batches, in rising order.

    Args:
        asked: "8", "1,8,32", or "1..256" for powers of two; or numbers.

    Raises:
        UsageError: they are none of these, below 1 or above `MOST_CLIENTS`.
    """
    try:
        clients = parse_batches(asked).sizes if isinstance(asked, str) else tuple(asked)
    except UsageError:
        clients = ()
    if not clients or not all(1 <= each <= MOST_CLIENTS for each in clients):
        raise UsageError(f"--concurrency {asked}: write 8, 1,8,32 or 1..256, each from 1 to {MOST_CLIENTS}.")
    return tuple(sorted(set(clients)))
