"""Configs that users hand over: checked as data, named by their content, so that a link to one can be sent."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capplan.errors import UsageError
from capplan.serve.planning.naming import CONFIG_PREFIX, checked_config, config_name, digest, is_trace_id
from capplan.strict_json import JsonError, read_json

MOST_KEPT = 2_000
LARGEST_BYTES = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Configs:
    """A folder of configs, the oldest removed beyond a number."""

    folder: Path

    def keep(self, content: bytes) -> dict[str, Any]:
        """Check a config, keep it, and return the words that name it.

        Args:
            content: a config.json of transformers.

        Raises:
            UsageError: it is none, or too large.
        """
        if len(content) > LARGEST_BYTES:
            raise UsageError(f"the config is longer than {LARGEST_BYTES:,} bytes, the most that is read.")
        try:
            document = read_json(content)
        except JsonError as error:
            raise UsageError(f"what was handed over {error}; paste a config.json, or choose a trace file.") from error
        if not isinstance(document, dict):
            raise UsageError("what was handed over is JSON but not an object; paste a config.json.")
        name = config_name(document) if isinstance(document.get("model_type"), str) else ""
        kept = {**json.loads(checked_config(document)), "_name_or_path": name}
        text = json.dumps(kept, sort_keys=True).encode()
        key = digest(text)
        partial = self.folder / f".{key}.{os.getpid()}.partial"
        partial.write_bytes(text)
        partial.replace(self.folder / f"{key}.json")
        self._drop_oldest()
        return {"model": f"{CONFIG_PREFIX}{key}", "name": name}

    def find(self, key: str) -> Mapping[str, Any]:
        """Return a config.

        Raises:
            UsageError: there is none of this id.
        """
        path = self.folder / f"{key}.json"
        if not is_trace_id(key) or not path.is_file():
            raise UsageError(f"there is no config {key[:100]!r} here; hand it over again.")
        found: Mapping[str, Any] = json.loads(path.read_bytes())
        return found

    def _drop_oldest(self) -> None:
        paths = sorted(self.folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
        for path in paths[:-MOST_KEPT]:
            path.unlink(missing_ok=True)
