"""A repository of the Hub at one commit: the list of its files, its JSON files, and the heads of its weight files.

What is fetched is kept in capplan's cache folder under the commit, and answers without a network from then on; files
that the Hub's own cache holds are read from there.
"""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from capplan.errors import UsageError
from capplan.files import cache_folder, read_file, replace_whole
from capplan.hub import client
from capplan.hub.names import HubName, parse_hub_name
from capplan.hub.permission import check_permission
from capplan.hub.refusals import HubError, TooLargeError, UnreachableError, cut_off
from capplan.strict_json import JsonError, read_json

_LISTING = ".listing.json"
_MOST_FILES = 100_000
LARGEST_HEAD_BYTES = 100_000_000
"""The most of a weight file that is fetched: the limit of the format safetensors for its header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubRepository:
    """A repository at a commit.

    Attributes:
        id: the repository, which another name than the one asked for may have led to.
        commit: the commit, in 40 digits.
        files: size of every file, None where the list does not say. [bytes]
        library: the library that the repository states, such as timm.
        folder: where what was fetched is kept.
        cached: the snapshot in the Hub's own cache; None for none.
        notes: sentences on how the repository was found.
    """

    name: HubName
    id: str
    commit: str
    files: Mapping[str, int | None]
    library: str
    folder: Path
    cached: Path | None
    notes: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """Return the name that always means this commit."""
        return f"{self.id}@{self.commit}"

    @property
    def origin(self) -> str:
        """Return where facts that were read from here come from."""
        return f"{self.id} at revision {self.commit} of the Hugging Face Hub"

    def path(self, file: str) -> Path:
        """Return a JSON file of the repository on this machine, fetched where it was not yet."""
        self._check(file)
        if self.cached is not None and (self.cached / file).is_file():
            return self.cached / file
        path = self.folder / file
        if not path.is_file():
            size = self.files.get(file) or 0
            if size > client.LARGEST_FILE_BYTES:
                raise TooLargeError(
                    f"{self.id}: {file} has {size:,} bytes; at most {client.LARGEST_FILE_BYTES:,} are read."
                )
            _keep(path, client.get(client.file_address(self.id, self.commit, file), name=str(self.name)))
        return path

    def json(self, file: str) -> dict[str, Any]:
        """Return the object that a JSON file holds."""
        content = self._content(file)
        if not isinstance(content, dict):
            raise UsageError(f"{self.id}: {file} is not a JSON object.")
        return content

    def json_list(self, file: str) -> list[Any]:
        """Return the list that a JSON file holds; raises as `json` does."""
        content = self._content(file)
        if not isinstance(content, list):
            raise UsageError(f"{self.id}: {file} is not a JSON list.")
        return content

    def _content(self, file: str) -> Any:
        try:
            return read_json(read_file(self.path(file), at_most=client.LARGEST_FILE_BYTES), allow_infinite=True)
        except (OSError, JsonError) as error:
            raise UsageError(f"{self.id}: {file} {error}.") from error

    def head(self, file: str) -> "FileHead":
        """Return the beginning of a weight file, read as far as it is asked for."""
        self._check(file)
        return FileHead(repository=self, file=file)

    def _check(self, file: str) -> None:
        parts = PurePosixPath(file).parts
        if file not in self.files or PurePosixPath(file).is_absolute() or ".." in parts or "\\" in file:
            raise HubError(f"{self.id} has no file {file!r:.200}.")


_STEP_BYTES = 2**20


class FileHead:
    """The beginning of a weight file, as a stream: what is read is fetched by range requests, and kept."""

    def __init__(self, *, repository: HubRepository, file: str) -> None:
        self._repository, self._file = repository, file
        self._kept = repository.folder / f"{file}.head"
        local = None if repository.cached is None else repository.cached / file
        self.local = local if local is not None and local.is_file() else None
        self._content, self._place, self._size = b"", 0, 0
        if self._kept.is_file():
            size, _, self._content = self._kept.read_bytes().partition(b"\n")
            self._size = int(size)

    @property
    def size_bytes(self) -> int:
        """Return the size of the whole file. [bytes]"""
        if not self._size:
            self._fetch(8)
        return self._size

    def read(self, count: int) -> bytes:
        """Return the next bytes, fewer at the end of the file."""
        end = self._place + count
        if end > len(self._content):
            self._fetch(end)
        found = self._content[self._place : end]
        self._place += len(found)
        return found

    def seek(self, count: int, whence: int = 0) -> int:
        """Move forward, from the beginning or from here."""
        self._place = count + (self._place if whence else 0)
        return self._place

    def keep(self) -> None:
        _keep(self._kept, f"{self._size}\n".encode() + self._content)

    def _fetch(self, end: int) -> None:
        """Fetch up to a place, and some more, because what follows is read next."""
        start = len(self._content)
        if end > LARGEST_HEAD_BYTES + 8:
            raise TooLargeError(
                f"{self._repository.id}: the header of {self._file} has more than {LARGEST_HEAD_BYTES:,} bytes."
            )
        if self._size and start >= self._size:
            return
        address = client.file_address(self._repository.id, self._repository.commit, self._file)
        length = max(end - start, _STEP_BYTES if start else _STEP_BYTES // 8)
        content, size = client.get_range(address, name=str(self._repository.name), start=start, length=length)
        if self._size not in (0, size):
            raise cut_off(str(self._repository.name))
        self._content, self._size = self._content + content, size


def find_repository(name: HubName) -> HubRepository:
    """Return a repository at the revision that a name states, or at its newest.

    Where the Hub cannot be asked, what was fetched earlier answers, with a note.
    """
    check_permission(str(name))
    if name.is_pinned and (kept := _kept(name, str(name.revision))) is not None:
        return kept
    if (fresh := _just_asked(name)) is not None:
        return fresh
    try:
        return _asked(name)
    except UnreachableError as error:
        found = _last_kept(name)
        if found is None:
            raise
        return replace(
            found, notes=(*found.notes, f"a later revision may exist, because the Hub was not asked ({error})")
        )


def base_of_adapter(config: Mapping[str, Any], repository: HubRepository) -> HubName:
    """Return the name of the model that an adapter's configuration says it is for."""
    stated, revision = config.get("base_model_name_or_path"), config.get("revision")
    words = f"hf:{stated}@{revision}" if isinstance(revision, str) and revision else f"hf:{stated}"
    found = parse_hub_name(words)
    if found is None:
        raise UsageError(
            f"{repository.id} is an adapter, whose model {str(stated)[:200]!r} is not on the Hub: name the model."
        )
    return found


def _asked(name: HubName) -> HubRepository:
    address = client.listing_address(name.repository, name.revision)
    try:
        listing = read_json(client.get(address, name=str(name)))
    except JsonError as error:
        raise cut_off(str(name)) from error
    found = _of_listing(name, listing)
    files = [{"rfilename": file, "size": size} for file, size in found.files.items()]
    own_listing = {"id": found.id, "sha": found.commit, "library_name": found.library, "siblings": files}
    _keep(found.folder / _LISTING, json.dumps(own_listing).encode())
    _keep(_reference(name), found.words.encode())
    return found


_FRESH_S = 60.0
"""How long a name stands for the commit that it was just found at, so that one question asks the Hub once."""


def _just_asked(name: HubName) -> HubRepository | None:
    path = _reference(name)
    try:
        is_fresh = 0 <= time.time() - path.stat().st_mtime < _FRESH_S
    except OSError:
        return None
    return _last_kept(name) if is_fresh else None


def _last_kept(name: HubName) -> HubRepository | None:
    """Return a repository as a name last found it, from this machine; None where nothing of it lies here."""
    path = _reference(name)
    if path.is_file():
        found = parse_hub_name(f"hf:{path.read_text(encoding='utf-8').strip()}")
        if found is not None and found.is_pinned:
            return _kept(replace(name, repository=found.repository), str(found.revision))
    commit = _last_commit(name)
    return None if commit is None else _kept(name, commit)


def _of_listing(name: HubName, listing: Any) -> HubRepository:
    """Return the repository that the Hub's answer, or what was kept of it, describes."""
    commit, identity = (listing.get(key) for key in ("sha", "id")) if isinstance(listing, dict) else (None, None)
    files = listing.get("siblings") if isinstance(listing, dict) else None
    pinned = HubName(repository=str(identity), revision=str(commit))
    if not (isinstance(files, list) and len(files) <= _MOST_FILES and pinned.is_pinned) or _bad(str(identity)):
        raise HubError(
            f"{name}: {client.endpoint()} does not answer as the Hugging Face Hub does; look at HF_ENDPOINT."
        )
    sizes = {
        str(file["rfilename"]): file["size"] if isinstance(file.get("size"), int) else None
        for file in files
        if isinstance(file, dict) and isinstance(file.get("rfilename"), str)
    }
    notes: tuple[str, ...] = ()
    if pinned.repository.lower() != name.repository.lower():
        notes = (f"{name.repository} is called {identity} by now",)
    return HubRepository(
        name=name,
        id=pinned.repository,
        commit=str(commit),
        files=sizes,
        library=str(listing.get("library_name") or ""),
        folder=_folder(pinned.repository) / str(commit),
        cached=_snapshot(pinned.repository, str(commit)),
        notes=notes,
    )


def _bad(identity: str) -> bool:
    found = parse_hub_name(f"hf:{identity}")
    return found is None or found.repository != identity


def _kept(name: HubName, commit: str) -> HubRepository | None:
    """Return a repository at a commit from what lies on this machine; None where nothing of it does."""
    path = _folder(name.repository) / commit / _LISTING
    if path.is_file():
        try:
            return _of_listing(name, read_json(read_file(path, at_most=client.LARGEST_FILE_BYTES)))
        except (OSError, JsonError):
            return None
    snapshot = _snapshot(name.repository, commit)
    if snapshot is None:
        return None
    files = {
        str(file.relative_to(snapshot).as_posix()): file.stat().st_size
        for file in snapshot.rglob("*")
        if file.is_file()
    }
    return HubRepository(
        name=name, id=name.repository, commit=commit, files=files, library="", folder=path.parent, cached=snapshot
    )


def _last_commit(name: HubName) -> str | None:
    """Return the commit that a revision was at when the Hub's own library last fetched it."""
    if name.is_pinned:
        return name.revision
    own = _hub_cache(name.repository)
    path = own / "refs" / (name.revision or "main")
    if path.is_file():
        return path.read_text(encoding="utf-8").strip()
    if name.revision is not None:
        return None
    snapshots = (config.parent for config in (own / "snapshots").glob("*/config.json") if config.is_file())
    newest = max(snapshots, key=lambda snapshot: snapshot.stat().st_mtime, default=None)
    return None if newest is None else newest.name


def _snapshot(repository: str, commit: str) -> Path | None:
    folder = _hub_cache(repository) / "snapshots" / commit
    return folder if folder.is_dir() else None


def _hub_cache(repository: str) -> Path:
    """Return the folder of a repository in the cache of the Hub's own library, by its variables."""
    name = f"models--{repository.replace('/', '--')}"
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(variable):
            return Path(os.environ[variable]) / name
    home = os.environ.get("HF_HOME")
    return (Path(home) if home else Path.home() / ".cache" / "huggingface") / "hub" / name


def _folder(repository: str) -> Path:
    return cache_folder() / "hub" / repository.replace("/", "--")


def _reference(name: HubName) -> Path:
    return _folder(name.repository) / "refs" / (name.revision or "main").replace("/", "--")


def _keep(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_whole(path, content)
    except OSError as error:
        raise HubError(
            f"{path} cannot be written ({error.strerror or error}): set XDG_CACHE_HOME to a folder for what is fetched."
        ) from error
