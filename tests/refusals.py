"""What a refusal of a hostile file may take: a few seconds of processor time and 400 MB above the start."""

from collections.abc import Callable
from typing import Any

import pytest

from capplan.errors import CapplanError
from tests.limits import untraced, within

MOST_CPU_S = 8.0
"""A refusal takes up to 1.5 s on a busy machine; what is refused would take minutes or gigabytes. [s]"""
MOST_BYTES = 400e6
"""Four times what a list of the largest size that is read takes. [bytes]"""
LONGEST_MESSAGE = 300


def assert_refused(read: Callable[[], Any], *, match: str | None = None, path: str = "") -> None:
    """Check that reading ends in one sentence, within the limits.

    Args:
        read: what reads the file.
        match: what the sentence says.
        path: words of this test's own folder, which are not counted to the sentence.
    """
    limits = within(cpu_s=MOST_CPU_S, grown_bytes=MOST_BYTES)
    with untraced(), limits, pytest.raises(CapplanError, match=match) as refused:
        read()
    message = str(refused.value).replace(path, "") if path else str(refused.value)
    assert len(message) <= LONGEST_MESSAGE, message
    assert "\n" not in message
