"""Keep the allocator's replays of earlier questions, so that a plan asked again replays nothing.

A replay depends on the stream of events, the sizes of its blocks and the capacity alone. Streams have files of their
own in the cache folder, named by what they hold and by the code that replays them; a damaged file is made anew.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from capplan.app.trace_cache import default_cache
from capplan.core.memory.replays import Replays, SharedStreams
from capplan.files import code_stamp, replace_whole

_MOST_RESULTS, _MOST_FILES = 20_000, 500
"""Replays of a stream, and streams, beyond which no more are kept."""


class KeptReplays:
    """The replays of a folder: found by their stream, and written once a question is answered."""

    def __init__(self, folder: Path) -> None:
        """Prepare the folder; nothing is read before a stream is asked for."""
        self._folder = folder
        self._found: dict[str, tuple[Replays, int]] = {}

    def find(self, stream: str) -> Replays:
        """Return the replays of a stream by the sizes of its blocks; the mapping takes those that are made."""
        if stream not in self._found:
            replays = self._read(stream)
            self._found[stream] = (replays, _count(replays))
        return self._found[stream][0]

    def write(self) -> None:
        """Write the streams that have new replays; a folder that cannot be written keeps none."""
        for stream, (replays, before) in self._found.items():
            count = _count(replays)
            if before < count <= _MOST_RESULTS:
                with contextlib.suppress(OSError):
                    self._write(stream, replays)
                self._found[stream] = (replays, count)

    def _path(self, stream: str) -> Path:
        return self._folder / f"{stream}.msgpack"

    def _read(self, stream: str) -> Replays:
        try:
            return msgspec.msgpack.decode(self._path(stream).read_bytes(), type=Replays)
        except (OSError, msgspec.MsgspecError, ValueError):
            return {}

    def _write(self, stream: str, replays: Replays) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        replace_whole(self._path(stream), msgspec.msgpack.encode(replays))
        known = sorted(self._folder.glob("*.msgpack"), key=lambda path: path.stat().st_mtime)
        for path in known[:-_MOST_FILES]:
            path.unlink(missing_ok=True)


def _count(replays: Replays) -> int:
    return sum(map(len, replays.values()))


@contextlib.contextmanager
def kept_streams() -> Iterator[SharedStreams]:
    """Yield streams that know the replays of earlier questions, and keep what they replay meanwhile."""
    traces = default_cache()
    kept = None if traces is None else KeptReplays(traces.replays / code_stamp("core/memory"))
    yield SharedStreams(earlier=None if kept is None else kept.find)
    if kept is not None:
        kept.write()
