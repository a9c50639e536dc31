"""What a process that answers questions has loaded once: GPUs, prices, the traces at hand."""

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from capplan.app.gpu_choice import GpuRequest
from capplan.app.trace_cache import TraceCache, default_cache
from capplan.errors import UsageError
from capplan.processes.system import has_ended
from capplan.serve.planning.files import Configs, ModelFiles
from capplan.serve.planning.models import TraceShelf
from capplan.serve.settings import Settings
from capplan.specs import Gpus, load_gpus
from capplan.specs.prices import Prices, load_price_file, load_prices
from capplan.verbs.statement.fields import GpuFields


class Folders:
    """Where a service keeps things, below its state folder.

    Attributes:
        uploads: Uploaded traces.
        configs: Configs that were handed over.
        files: Model files that were handed over.
        spool: Uploads that are not read yet.
        own: The files of `--prices`, as folders of own specs.
        empty: Empty folders to work in, so that no word of a question names a file by accident.
    """

    def __init__(self, *, state: Path) -> None:
        """Store the state folder."""
        self.state = state
        self.uploads, self.configs, self.files = state / "uploads", state / "configs", state / "files"
        self.spool, self.own, self.empty = state / "spool", state / "own", state / "empty"

    def cache(self) -> TraceCache:
        """Return the user's cache of traces; one of the service's own where the user keeps none."""
        cache = default_cache() or TraceCache(folder=self.state / "traces")
        return replace(cache, names_files=False)


def model_files(settings: Settings) -> ModelFiles:
    """Return the model files that a service keeps."""
    limits = settings.limits
    return ModelFiles(
        folder=Folders(state=settings.state).files,
        largest_bytes=limits.upload_bytes,
        limit_bytes=limits.kept_upload_bytes,
    )


def prepared(settings: Settings) -> Settings:
    """Make the folders of a service, and put the files of own prices where specs and prices are read from."""
    folders = Folders(state=settings.state)
    known = load_gpus(overlays=settings.specs)
    for path in settings.prices:
        load_price_file(path, known)
    try:
        for folder in (folders.uploads, folders.configs, folders.files, folders.spool, folders.empty):
            folder.mkdir(parents=True, exist_ok=True)
        # Remove the working folders of processes that have ended.
        for place in folders.empty.iterdir():
            if place.name.isdecimal() and has_ended(int(place.name)):
                shutil.rmtree(place, ignore_errors=True)
        own = _own_prices(folders, settings.prices)
    except OSError as error:
        raise UsageError(f"cannot keep anything in {settings.state}: {error.strerror or error}.") from error
    return replace(settings, specs=(*settings.specs, *own), prices=())


def _own_prices(folders: Folders, files: Sequence[Path]) -> list[Path]:
    """Copy files of prices into a folder that is named by their content, so that services do not share it by chance."""
    if not files:
        return []
    contents = [path.read_bytes() for path in files]
    folder = folders.own / hashlib.sha256(b"\0".join(contents)).hexdigest()[:16]
    (folder / "prices").mkdir(parents=True, exist_ok=True)
    for index, (path, content) in enumerate(zip(files, contents, strict=True)):
        (folder / "prices" / f"{index:03d}-{path.name}").write_bytes(content)
    return [folder]


class Data:
    """The database, the prices and the traces of one process."""

    def __init__(self, settings: Settings) -> None:
        """Load what every question needs."""
        folders = Folders(state=settings.state)
        self.overlays = settings.specs
        self.gpus: Gpus = load_gpus(overlays=self.overlays)
        self.prices: Prices = load_prices(self.gpus, overlays=self.overlays)
        self.results = settings.results
        self.allows_hub = settings.allows_hub
        self.configs = Configs(folder=folders.configs)
        self.files = model_files(settings)
        self.shelf = TraceShelf(cache=folders.cache(), uploads=folders.uploads)

    def gpu_request(self, part: GpuFields) -> GpuRequest:
        """Return the request for the GPUs that a question names."""
        return GpuRequest(
            ids=part.gpus,
            with_cpus=part.with_cpus,
            filters=part.gpu_filters(),
            overlays=self.overlays,
            database=self.gpus,
            prices=self.prices,
        )
