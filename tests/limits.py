"""Limits of time and memory that hold on any machine: processor time of this process, and memory above the start.

No limit is nearer than four times what was measured on an idle machine, because a busy one takes twice the processor
time for the same work. What is worth a test takes hundreds of times as much where its law is broken.
"""

import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

try:
    import resource
except ModuleNotFoundError:  # Windows counts no memory of a process for Python; time is limited there alone
    resource = None  # type: ignore[assignment]

RSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024
"""What `ru_maxrss` counts in. [bytes]"""


@contextmanager
def untraced() -> Iterator[None]:
    """Run without what coverage does at each line, which would be timed, too."""
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(tracer)


@contextmanager
def within(*, cpu_s: float = math.inf, grown_bytes: float = math.inf) -> Iterator[None]:
    """Fail a block that takes more.

    Args:
        cpu_s: processor time of this process that the block comes nowhere near. [s]
        grown_bytes: memory above the highest use before the block that it comes nowhere near. [bytes]
    """
    highest, began_s = _highest(), time.process_time()
    yield
    taken_s = time.process_time() - began_s
    grown = RSS_UNIT_BYTES * (_highest() - highest)
    assert taken_s < cpu_s, f"took {taken_s:.2f} s of the processor, more than {cpu_s:g} s"
    assert grown < grown_bytes, f"took {grown / 1e6:.0f} MB, more than {grown_bytes / 1e6:.0f} MB"


def _highest() -> int:
    return 0 if resource is None else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
