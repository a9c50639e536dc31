"""Read a small file of fitted numbers: one document with its origin, refused in one sentence where it is damaged."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import yaml

from capplan.core.origin import Origin
from capplan.errors import SpecError
from capplan.specs.folders import calibration_file

_Fitted = TypeVar("_Fitted")


def read_fitted(
    name: str,
    build: Callable[[dict[str, Any], Origin, str], _Fitted],
    *,
    what: str,
    schema_version: int,
    path: Path | None = None,
) -> _Fitted:
    """Return what is built of a file of fitted numbers.

    Args:
        name: the shipped file's name in `calibrations/`.
        build: makes it of the document, its origin, and the file's name for messages.
        what: what such a file is, with its article, for messages.
        schema_version: the version that this program reads.
        path: a file of the same kind, None for the shipped one.

    Raises:
        SpecError: the file is missing, is not YAML, has another schema, or lacks a key.
    """
    where = str(path) if path else f"calibrations/{name}"
    try:
        document = yaml.safe_load((path or calibration_file(name)).read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"{where}: {error.strerror or error}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SpecError(f"{where} is not YAML: {error}") from error
    if not isinstance(document, dict) or document.get("schema_version") != schema_version:
        raise SpecError(f"{where} is not {what} of schema_version {schema_version}.")
    try:
        origin = document["origin"]
        if not isinstance(origin["made"], date):
            raise SpecError(f"{where}: origin.made is {origin['made']!r}; write a date such as 2026-11-21.")
        return build(document, Origin(**{**origin, "sources": tuple(origin["sources"])}), where)
    except KeyError as error:
        raise SpecError(f"{where}: {error.args[0]} is missing.") from error
    except (TypeError, AttributeError, ValueError) as error:
        raise SpecError(f"{where}: {error}.") from error
