"""What a process that answers questions has loaded once: GPUs, prices, the traces at hand."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from capplan.app.cache import TraceCache, default_cache
from capplan.app.gpus import GpuFilters, GpuRequest
from capplan.serve.planning.configs import Configs
from capplan.serve.planning.models import TraceShelf
from capplan.serve.questions.types import GpuPart
from capplan.serve.settings import Settings
from capplan.specs import Gpus, load_gpus
from capplan.specs.prices import Prices, load_price_file, load_prices


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """Where a service keeps things, below its state folder."""

    state: Path

    @property
    def uploads(self) -> Path:
        """Return the folder of uploaded traces."""
        return self.state / "uploads"

    @property
    def configs(self) -> Path:
        """Return the folder of configs that were handed over."""
        return self.state / "configs"

    @property
    def prices(self) -> Path:
        """Return the folder of own specs that holds the files of `--prices`."""
        return self.state / "own"

    @property
    def empty(self) -> Path:
        """Return an empty folder to work in, so that no word of a question names a file by accident."""
        return self.state / "empty"

    def cache(self) -> TraceCache:
        """Return the user's cache of traces; one of the service's own where the user keeps none."""
        return default_cache() or TraceCache(folder=self.state / "traces")


def prepare_folders(settings: Settings) -> Folders:
    """Make the folders of a service, and put the files of own prices where specs and prices are read from.

    Raises:
        SpecError: a file of prices is refused.
    """
    folders = Folders(state=settings.state)
    for folder in (folders.uploads, folders.configs, folders.prices / "prices", folders.empty):
        folder.mkdir(parents=True, exist_ok=True)
    for old in (folders.prices / "prices").glob("*.yaml"):
        old.unlink()
    known = load_gpus(overlays=settings.specs)
    for index, path in enumerate(settings.prices):
        load_price_file(path, known)
        shutil.copyfile(path, folders.prices / "prices" / f"{index:03d}-{path.name}")
    return folders


class Data:
    """The database, the prices and the traces of one process."""

    def __init__(self, settings: Settings) -> None:
        """Load what every question needs.

        Args:
            settings: how the service runs.
        """
        folders = Folders(state=settings.state)
        self.overlays = (*settings.specs, *((folders.prices,) if settings.prices else ()))
        self.gpus: Gpus = load_gpus(overlays=self.overlays)
        self.prices: Prices = load_prices(self.gpus, overlays=self.overlays)
        self.results = settings.results
        self.configs = Configs(folder=folders.configs)
        self.shelf = TraceShelf(cache=folders.cache(), uploads=folders.uploads)

    def gpu_request(self, part: GpuPart) -> GpuRequest:
        """Return the request for the GPUs that a question names."""
        return GpuRequest(
            ids=tuple(part.gpus or ()),
            filters=GpuFilters(
                where=tuple(part.where),
                vendors=tuple(part.vendors),
                architectures=tuple(part.architectures),
                min_memory=part.min_memory,
            ),
            overlays=self.overlays,
            database=self.gpus,
            prices=self.prices,
        )
