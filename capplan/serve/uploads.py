"""Traces that were uploaded: checked as data, named by their content, and bounded in size."""

import gzip
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from capplan.core.ops.flops import check_operators
from capplan.core.trace.format import dump_trace, load_trace
from capplan.serve.planning.naming import digest, is_trace_id

_SUFFIX = ".trace.json.gz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploads:
    """A folder of uploaded traces, the oldest removed beyond a size."""

    folder: Path
    limit_bytes: int

    def keep(self, content: bytes) -> dict[str, Any]:
        """Check a trace, keep it, and return what is said of it.

        Args:
            content: a trace file, compressed or not.

        Raises:
            TraceFileError: it is damaged, or no trace.
            UsageError: an operator lacks what its formula takes.
        """
        trace = load_trace(content, where="the upload")
        check_operators(trace, where="the upload")
        packed = dump_trace(trace, compress=True)
        trace_id = digest(packed)
        partial = self.folder / f".{trace_id}.{os.getpid()}.partial"
        partial.write_bytes(packed)
        partial.replace(self.folder / f"{trace_id}{_SUFFIX}")
        self._drop_oldest()
        found = self.find(trace_id)
        assert found is not None
        return found

    def find(self, trace_id: str) -> dict[str, Any] | None:
        """Return what is said of an uploaded trace; None where there is none of this id."""
        path = self.folder / f"{trace_id}{_SUFFIX}"
        if not is_trace_id(trace_id) or not path.is_file():
            return None
        trace = load_trace(path.read_bytes(), where=trace_id)
        stat = path.stat()
        return {
            "id": trace_id,
            "model": f"trace:{trace_id}",
            "name": trace.name,
            "class": trace.class_name,
            "parameters": sum(parameter.elements for parameter in trace.parameters if not parameter.is_buffer),
            "recordings": [str(recording.configuration) for recording in trace.recordings],
            "size_bytes": stat.st_size,
            "uploaded": datetime.fromtimestamp(int(stat.st_mtime), tz=UTC).isoformat(),
        }

    def content(self, trace_id: str) -> bytes | None:
        """Return an uploaded trace as the text of its file; None where there is none of this id."""
        path = self.folder / f"{trace_id}{_SUFFIX}"
        return gzip.decompress(path.read_bytes()) if is_trace_id(trace_id) and path.is_file() else None

    def all(self) -> list[dict[str, Any]]:
        """Return what is said of every uploaded trace, the newest first."""
        ids = [path.name.removesuffix(_SUFFIX) for path in self._paths()]
        return [found for each in reversed(ids) if (found := self.find(each)) is not None]

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime_ns)

    def _drop_oldest(self) -> None:
        paths = self._paths()
        excess = sum(path.stat().st_size for path in paths) - self.limit_bytes
        for path in paths[:-1]:
            if excess <= 0:
                return
            excess -= path.stat().st_size
            path.unlink(missing_ok=True)
