"""The trace that faulty runs start from."""

from tests.cli.conftest import net_trace

__all__ = ["net_trace"]
