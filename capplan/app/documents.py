"""Read the JSON documents that capplan wrote earlier."""

from pathlib import Path
from typing import Any

from capplan import strict_json
from capplan.errors import UsageError
from capplan.files import read_file
from capplan.strict_json import LARGEST_TEXT_BYTES, JsonError


def read_json(path: str) -> Any:
    """Read a JSON file within the limits of `capplan.strict_json`.

    Raises:
        UsageError: it cannot be read, or is not JSON.
    """
    try:
        return strict_json.read_json(read_file(Path(path), at_most=LARGEST_TEXT_BYTES), allow_infinite=True)
    except (OSError, ValueError) as error:
        if isinstance(error, JsonError):
            raise UsageError(f"{path} {error}.") from error
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}.") from error
