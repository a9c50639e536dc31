"""Fetch the newest evidence of serving that is published, and keep it in the place of the older one."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from capplan.app.feedback import SILENCE, Feedback
from capplan.app.price_update.http import Fetcher, FetchError
from capplan.errors import UsageError
from capplan.files import working_folder
from capplan.llm.read.evidence import (
    UNREADABLE,
    EvidenceSource,
    EvidenceTable,
    read_dump,
    read_tables,
    tables_in_stream,
)

_LARGEST_LIST = 16 << 20


def fetch_evidence(
    source: EvidenceSource, *, fetcher: Fetcher | None = None, feedback: Feedback = SILENCE
) -> EvidenceTable:
    """Return the runs of the newest dump of a source, whose parts are fetched until all tables are read."""
    fetcher = fetcher or Fetcher()
    try:
        with working_folder("evidence") as folder, feedback.progress(f"evidence of {source.title}"):
            fetcher.fetch(source.url, folder / "releases.json", at_most=_LARGEST_LIST)
            tag, urls = _newest(json.loads((folder / "releases.json").read_bytes()), source)
            if urls[0].endswith(".zip"):
                fetcher.fetch(urls[0], folder / "dump.zip", at_most=source.at_most)
                return read_dump(folder / "dump.zip", source, name=tag)
            with io.BufferedReader(_JoinedFiles(_opened(fetcher, urls, folder, source.at_most))) as stream:
                return read_tables(tables_in_stream(stream), source, name=tag)
    except (FetchError, OSError, EOFError, ValueError, LookupError, TypeError, *UNREADABLE) as error:
        raise UsageError(f"{source.id}: {error!s:.200}; what it gave before is kept.") from error


def _newest(releases: Any, source: EvidenceSource) -> tuple[str, list[str]]:
    """Return the newest release with the source's tag, and the addresses of its archive in the order of its parts."""
    dumps = {str(each["tag_name"]): each["assets"] for each in releases if each["tag_name"].startswith(source.tag)}
    for tag in sorted(dumps, reverse=True):
        urls = [str(asset["browser_download_url"]) for asset in sorted(dumps[tag], key=lambda asset: asset["name"])]
        if found := [url for url in urls if url.endswith(".zip")][:1] or [url for url in urls if ".tar.xz" in url]:
            return tag, found
    raise FetchError(f"its list of releases holds no dump with the tag {source.tag}")


def _opened(fetcher: Fetcher, urls: list[str], folder: Path, at_most: int) -> Iterator[BinaryIO]:
    for url in urls:
        target = folder / "part"
        fetcher.fetch(url, target, at_most=at_most)
        with target.open("rb") as stream:
            yield stream


class _JoinedFiles(io.RawIOBase):
    """The bytes of files one after another; each is opened when those before it are read."""

    def __init__(self, files: Iterator[BinaryIO]) -> None:
        self._files = files
        self._file = next(files, None)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while self._file is not None:
            if content := self._file.read(len(buffer)):
                buffer[: len(content)] = content
                return len(content)
            self._file = next(self._files, None)
        return 0
