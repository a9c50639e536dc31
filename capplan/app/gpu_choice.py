"""Which GPUs a question is about, and the database and prices that answer it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from capplan.core.gpus.attributes import at_least, parse_conditions, select_gpus
from capplan.core.gpus.names import split_names
from capplan.core.gpus.spec import GpuSpec
from capplan.errors import UsageError
from capplan.specs import Gpus, load_gpus
from capplan.specs.prices import Prices, load_prices


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFilters:
    """Conditions that GPUs must meet, as `capplan gpus` takes them; empty ones are met by all."""

    where: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    min_memory: str | None = None

    def select(self, gpus: Iterable[GpuSpec]) -> list[GpuSpec]:
        """Return the GPUs that pass.

        Raises:
            UsageError: a condition cannot be read, or names an unknown column, vendor or architecture.
        """
        conditions = [condition for text in self.where for condition in parse_conditions(text)]
        if self.min_memory:
            conditions.append(at_least("memory", self.min_memory, what="--min-memory"))
        return select_gpus(gpus, vendors=self.vendors, architectures=self.architectures, conditions=conditions)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRequest:
    """Name GPUs of the database, own specs laid over it.

    Without `ids` and `specs` all GPUs are meant. `overlays` are folders and files of own specs; a folder may hold
    prices too. `database` and `prices` are what a caller has loaded already, `specs` are GPUs that it hands over whole.
    An id may be a family's name, which takes all its variants, or a list parted by commas. Of the GPUs so named only
    those that pass `filters` are meant. `with_cpus` adds the CPUs of the database, as if each of them were named.
    """

    ids: tuple[str, ...] = ()
    with_cpus: bool = False
    filters: GpuFilters = field(default_factory=GpuFilters)
    overlays: tuple[Path, ...] = ()
    database: Gpus | None = None
    prices: Prices | None = None
    specs: tuple[GpuSpec, ...] = ()

    @property
    def narrows(self) -> bool:
        """Return True if GPUs are named, handed over or filtered, so that not all of the database are meant."""
        return bool(self.ids or self.specs or self.filters != GpuFilters())


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuChoice:
    """The GPUs that a question is about, and all that are known.

    `named` are the ids of those that the request names itself; `notes` say which names stood for several.
    """

    known: Gpus
    chosen: tuple[GpuSpec, ...]
    overlays: tuple[Path, ...]
    named: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    loaded_prices: Prices | None = None

    def prices(self) -> Prices:
        """Return the prices that were loaded already, or load them: the overlays' own laid over the built-in ones.

        Raises:
            SpecError: a file of prices is refused.
        """
        if self.loaded_prices is not None:
            return self.loaded_prices
        return load_prices(self.known, overlays=self.overlays)


def find_gpus(request: GpuRequest) -> GpuChoice:
    """Load the database and find the GPUs asked for, each once, in the order in which they are named.

    Raises:
        SpecError: a spec file is refused.
        UnknownNameError: the database has no such GPU, vendor, architecture or column.
        UsageError: a filter breaks its grammar, or no GPU passes.
    """
    known = request.database if request.database is not None else load_gpus(overlays=request.overlays)
    overlays = (*known.overlays, *(overlay for overlay in request.overlays if overlay not in known.overlays))
    matches = [known.find_all(name) for name in split_names(request.ids)]
    named = {gpu.id: gpu for gpu in (*request.specs, *(gpu for match in matches for gpu in match.gpus))}
    cpus = dict(known.cpus) if request.with_cpus else {}
    chosen = request.filters.select(((named or dict(known)) | cpus).values())
    if not chosen:
        raise UsageError("no GPU passes the filters; `capplan gpus` takes the same ones and lists what passes.")
    return GpuChoice(
        known=known,
        chosen=tuple(chosen),
        overlays=overlays,
        named=frozenset(named),
        notes=tuple(match.note for match in matches if match.note),
        loaded_prices=request.prices,
    )
