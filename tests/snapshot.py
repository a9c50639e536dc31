"""Compare a whole output with the file last reviewed in tests/snapshots.

After a wanted change run the test once with CAPPLAN_RENEW_SNAPSHOTS=1, and read the diff.
"""

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "snapshots"


def assert_is_snapshot(name: str, text: str) -> None:
    """Compare `text` with the kept file of that name."""
    if os.environ.get("CAPPLAN_RENEW_SNAPSHOTS"):
        (FOLDER / name).write_text(text)
    assert text == (FOLDER / name).read_text()
