"""Files that users hand over: configs, ONNX and `.pt2`, checked as data and named by their content."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capplan.errors import UsageError
from capplan.probe.onnx.skeleton import read_skeleton
from capplan.probe.target.sources.exported import without_weights
from capplan.serve.planning.naming import CONFIG_PREFIX, FILE_PREFIX, checked_config, config_name, digest, is_trace_id
from capplan.strict_json import JsonError, read_json

ZIP_MAGIC, ONNX_START = b"PK\x03\x04", b"\x08"
"""First bytes of a zip archive, and of an ONNX file: the tag of its field `ir_version`."""
_READERS = {".onnx": read_skeleton, ".pt2": without_weights}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """A folder of model files without their weights, the oldest removed beyond a size. [bytes]"""

    folder: Path
    largest_bytes: int
    limit_bytes: int

    def keep(self, path: Path, *, name: str) -> dict[str, Any]:
        """Keep what a model file holds besides its weights, and return the words that name it.

        Args:
            path: the file, of any size.
            name: what its user calls it.

        Raises:
            UsageError: it is damaged, of another kind, or holds too much besides its weights.
        """
        with path.open("rb") as file:
            suffix = ".pt2" if file.read(4) == ZIP_MAGIC else ".onnx"
        try:
            content = _READERS[suffix](path)
        except UsageError as error:
            raise UsageError(str(error).replace(str(path), "the file")) from error
        if len(content) > self.largest_bytes:
            raise UsageError(
                f"the file holds more than {self.largest_bytes:,} bytes besides its weights, the most that is taken."
            )
        stem = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(name).stem).strip("-")[:64] or "model"
        key = digest(stem.encode() + content)
        partial = self.folder / f".{key}.{os.getpid()}.partial"
        partial.write_bytes(content)
        partial.replace(self.folder / f"{key}.{stem}{suffix}")
        self._drop_oldest()
        return {"model": f"{FILE_PREFIX}{key}", "name": stem, "kind": suffix.removeprefix(".")}

    def find(self, key: str) -> tuple[str, bytes]:
        """Return the name of a file and its content.

        Raises:
            UsageError: there is none of this id.
        """
        path = next(self.folder.glob(f"{key}.*"), None) if is_trace_id(key) else None
        if path is None:
            raise UsageError(f"there is no model file {key[:100]!r} here; hand it over again.")
        return path.name.partition(".")[2], path.read_bytes()

    def _drop_oldest(self) -> None:
        paths = sorted(self.folder.glob("[!.]*"), key=lambda path: path.stat().st_mtime_ns)
        excess = sum(path.stat().st_size for path in paths) - self.limit_bytes
        for path in paths[:-1]:
            if excess <= 0:
                return
            excess -= path.stat().st_size
            path.unlink(missing_ok=True)


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
            raise UsageError(
                "the file is none of those read here: an ONNX file, a .pt2 file of torch.export.save, a Hugging"
                f" Face config.json, or what `capplan trace MODEL -o FILE.trace.json` wrote (it {error})."
            ) from error
        if not isinstance(document, dict):
            raise UsageError(
                'what was handed over is JSON but not an object; paste a config.json, such as {"model_type": "bert"}.'
            )
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
