"""Read the JSON documents that capplan wrote earlier."""

import json
from pathlib import Path
from typing import Any

from capplan.errors import UsageError


def read_json(path: str) -> Any:
    """Read a JSON file.

    Raises:
        UsageError: it cannot be read, or is not JSON.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}.") from error
    except ValueError as error:
        raise UsageError(f"{path}: is not JSON ({error}).") from error
