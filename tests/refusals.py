"""What a refusal of a hostile file may take: a second of processor time and 200 MB above the start."""

import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from capplan.errors import CapplanError

MOST_CPU_S = 1.0
MOST_BYTES = 200e6
LONGEST_MESSAGE = 300


@contextmanager
def untraced() -> Iterator[None]:
    """Run without what coverage does at each line, which would be timed, too."""
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(tracer)


def assert_refused(read: Callable[[], Any], *, match: str | None = None, path: str = "") -> None:
    """Check that reading ends in one sentence, within the limits.

    Args:
        read: what reads the file.
        match: what the sentence says.
        path: words of this test's own folder, which are not counted to the sentence.
    """
    before_bytes = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with untraced():
        began_s = time.process_time()
        with pytest.raises(CapplanError, match=match) as refused:
            read()
        elapsed_s = time.process_time() - began_s
    grown_bytes = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_bytes
    message = str(refused.value).replace(path, "") if path else str(refused.value)
    assert len(message) <= LONGEST_MESSAGE, message
    assert "\n" not in message
    assert grown_bytes < MOST_BYTES, (message, grown_bytes)
    assert elapsed_s < MOST_CPU_S, (message, elapsed_s)
