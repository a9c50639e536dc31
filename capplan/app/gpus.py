"""Which GPUs a question is about, and the database and prices that answer it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from capplan.core.gpus.spec import GpuSpec
from capplan.specs import Gpus, load_gpus
from capplan.specs.prices import Prices, load_prices


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRequest:
    """Name GPUs of the database, own specs laid over it.

    Without `ids` and `specs` all GPUs are meant. `overlays` are folders and files of own specs; a folder may hold
    prices too. `database` is what a Python caller has loaded already, `specs` are GPUs that it hands over whole.
    """

    ids: tuple[str, ...] = ()
    overlays: tuple[Path, ...] = ()
    database: Gpus | None = None
    specs: tuple[GpuSpec, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuChoice:
    """The GPUs that a question is about, beside all that are known."""

    known: Gpus
    chosen: tuple[GpuSpec, ...]
    overlays: tuple[Path, ...]

    def prices(self) -> Prices:
        """Load the prices, the overlays' own laid over the built-in ones.

        Raises:
            SpecError: a file of prices is refused.
        """
        return load_prices(self.known, overlays=self.overlays)


def find_gpus(request: GpuRequest) -> GpuChoice:
    """Load the database and find the GPUs asked for, each once, in the order in which they are named.

    Raises:
        SpecError: a spec file is refused.
        UnknownNameError: the database has no such GPU.
    """
    known = request.database if request.database is not None else load_gpus(overlays=request.overlays)
    overlays = (*known.overlays, *(each for each in request.overlays if each not in known.overlays))
    return GpuChoice(known=known, chosen=tuple(_chosen(known, request)), overlays=overlays)


def _chosen(known: Gpus, request: GpuRequest) -> Sequence[GpuSpec]:
    named = [*request.specs, *map(known.find, request.ids)]
    return list({found.id: found for found in named}.values()) if named else list(known.values())
