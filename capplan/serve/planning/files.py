"""What users hand over, checked as data, named by its content and bounded in size: traces, configs, ONNX and `.pt2`."""

import gzip
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from threading import get_ident
from typing import Any

from capplan.core.ops.flops import check_operators
from capplan.core.trace.format import dump_trace, load_trace
from capplan.errors import UsageError
from capplan.probe.onnx.skeleton import read_skeleton
from capplan.probe.target.sources.exported import without_weights
from capplan.serve.planning.naming import CONFIG_PREFIX, FILE_PREFIX, checked_config, config_name, digest, is_trace_id
from capplan.strict_json import JsonError, read_json

ZIP_MAGIC, ONNX_START = b"PK\x03\x04", b"\x08"
"""First bytes of a zip archive, and of an ONNX file: the tag of its field `ir_version`."""
MOST_KEPT = 2_000
LARGEST_BYTES = 2**20
TRACE_SUFFIX = ".trace.json.gz"
_READERS = {".onnx": read_skeleton, ".pt2": without_weights}


def _put(folder: Path, key: str, ending: str, content: bytes) -> None:
    """Write a file so that it is seen whole or not at all."""
    partial = folder / f".{key}.{os.getpid()}.{get_ident()}.partial"  # one content may be handed over twice at once
    partial.write_bytes(content)
    partial.replace(folder / f"{key}{ending}")


def read_kept(folder: Path, key: str, ending: str) -> bytes | None:
    """Return the content of a file by its id; None where there is none, or another request has just removed it."""
    if not is_trace_id(key):
        return None
    try:
        return (folder / f"{key}{ending}").read_bytes()
    except FileNotFoundError:
        return None


def _by_age(folder: Path, pattern: str) -> dict[Path, int]:
    """Return files with their sizes, the oldest first, without those that another request has just removed. [bytes]"""
    found = []
    for path in folder.glob(pattern):
        with suppress(FileNotFoundError):
            held = path.stat()
            found.append((held.st_mtime_ns, path, held.st_size))
    return {path: size for _, path, size in sorted(found)}


def _drop_oldest(sizes: Mapping[Path, int], limit_bytes: int) -> None:
    """Remove the first of files by age until the others keep within a size; the newest stays. [bytes]"""
    excess = sum(sizes.values()) - limit_bytes
    for path in [*sizes][:-1]:
        if excess <= 0:
            return
        excess -= sizes[path]
        path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """A folder of model files without their weights, the oldest removed beyond a size. [bytes]"""

    folder: Path
    largest_bytes: int
    limit_bytes: int

    def keep(self, path: Path, *, name: str) -> dict[str, Any]:
        """Keep what a model file holds besides its weights, and return the words that name it."""
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
        _put(self.folder, key, f".{stem}{suffix}", content)
        _drop_oldest(_by_age(self.folder, "[!.]*"), self.limit_bytes)
        return {"model": f"{FILE_PREFIX}{key}", "name": stem, "kind": suffix.removeprefix(".")}

    def find(self, key: str) -> tuple[str, bytes]:
        """Return the name of a file and its content."""
        path = next(self.folder.glob(f"{key}.*"), None) if is_trace_id(key) else None
        if path is None:
            raise UsageError(f"there is no model file {key[:100]!r} here; hand it over again.")
        return path.name.partition(".")[2], path.read_bytes()


@dataclass(frozen=True, slots=True, kw_only=True)
class Configs:
    """A folder of configs, the oldest removed beyond a number."""

    folder: Path

    def keep(self, content: bytes) -> dict[str, Any]:
        """Check a config, keep it, and return the words that name it."""
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
        _put(self.folder, key, ".json", text)
        for path in [*_by_age(self.folder, "*.json")][:-MOST_KEPT]:
            path.unlink(missing_ok=True)
        return {"model": f"{CONFIG_PREFIX}{key}", "name": name}

    def find(self, key: str) -> Mapping[str, Any]:
        """Return a config."""
        content = read_kept(self.folder, key, ".json")
        if content is None:
            raise UsageError(f"there is no config {key[:100]!r} here; hand it over again.")
        config: Mapping[str, Any] = json.loads(content)
        return config


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploads:
    """A folder of uploaded traces, the oldest removed beyond a size."""

    folder: Path
    limit_bytes: int

    def keep(self, content: bytes) -> dict[str, Any]:
        """Check a trace, keep it, and return what is said of it."""
        trace = load_trace(content, where="the upload")
        check_operators(trace, where="the upload")
        packed = dump_trace(trace, compress=True)
        trace_id = digest(packed)
        _put(self.folder, trace_id, TRACE_SUFFIX, packed)
        _drop_oldest(_by_age(self.folder, f"*{TRACE_SUFFIX}"), self.limit_bytes)
        kept = self.find(trace_id)
        assert kept is not None
        return kept

    def find(self, trace_id: str) -> dict[str, Any] | None:
        """Return what is said of an uploaded trace; None where there is none of this id."""
        path = self.folder / f"{trace_id}{TRACE_SUFFIX}"
        if not is_trace_id(trace_id):
            return None
        try:
            held = path.stat()
            return dict(_described(path, held.st_mtime_ns, held.st_size))
        except FileNotFoundError:
            return None

    def content(self, trace_id: str) -> bytes | None:
        """Return an uploaded trace as the text of its file; None where there is none of this id."""
        packed = read_kept(self.folder, trace_id, TRACE_SUFFIX)
        return None if packed is None else gzip.decompress(packed)

    def all(self) -> list[dict[str, Any]]:
        """Return what is said of every uploaded trace, the newest first."""
        ids = [path.name.removesuffix(TRACE_SUFFIX) for path in reversed(_by_age(self.folder, f"*{TRACE_SUFFIX}"))]
        return [held for trace_id in ids if (held := self.find(trace_id)) is not None]


@lru_cache(maxsize=4096)
def _described(path: Path, changed_ns: int, size_bytes: int) -> Mapping[str, Any]:
    """Return what is said of an uploaded trace, read once: the page asks for all of them at every key."""
    trace_id = path.name.removesuffix(TRACE_SUFFIX)
    trace = load_trace(path.read_bytes(), where=trace_id)
    return {
        "id": trace_id,
        "model": f"trace:{trace_id}",
        "name": trace.name,
        "class": trace.class_name,
        "parameters": sum(parameter.elements for parameter in trace.parameters if not parameter.is_buffer),
        "recordings": [str(recording.configuration) for recording in trace.recordings],
        "size_bytes": size_bytes,
        "uploaded": datetime.fromtimestamp(changed_ns // 10**9, tz=UTC).isoformat(),
    }
