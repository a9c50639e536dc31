"""Forbid to look names of the Hub up: a service asks the Hub for strangers only if its operator allows it."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from capplan.hub.refusals import HubError

_IS_FORBIDDEN: ContextVar[bool] = ContextVar("hub is forbidden", default=False)


@contextmanager
def hub_forbidden(*, is_forbidden: bool = True) -> Iterator[None]:
    """Refuse every name of the Hub inside the block, whoever looks it up, what was fetched earlier included."""
    token = _IS_FORBIDDEN.set(is_forbidden)
    try:
        yield
    finally:
        _IS_FORBIDDEN.reset(token)


def check_permission(name: str) -> None:
    """Refuse a name of the Hub where its look-up is forbidden."""
    if _IS_FORBIDDEN.get():
        raise HubError(
            f"{name} is a name of the Hugging Face Hub, which this service asks only where its operator starts it "
            "with --hub: name a built-in model, or give its config.json as `config`."
        )
