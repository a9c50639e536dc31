"""Read a file of prices by its form: exports of providers, marketplaces and catalogues as JSON and CSV."""

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from capplan.core.gpus.names import GpuNames
from capplan.core.gpus.prices import PriceKind
from capplan.errors import UsageError
from capplan.files import read_file
from capplan.specs.exports import aws, azure, gcp, sellers, skypilot, tables
from capplan.specs.exports.rows import Export, Found, Reader, Reading, checked
from capplan.specs.providers import Providers
from capplan.tables import read_cells

_MOST_BYTES = 200_000_000
_LINES_ABOVE_HEADER = 12


def read_export(path: Path, providers: Providers, names: GpuNames, *, read_on: date) -> Export | None:
    """Read an export of prices; None where a file is not an export, such as a table of quotes.

    The day of a price that the export does not date is that of the import, at the latest.

    Args:
        path: A .json or .csv file, the latter perhaps compressed, in one of the forms that docs/prices.md lists. The
            folder or the name of SkyPilot's catalogue names the provider.
        providers: What is known of providers' machines.
        names: The names of GPUs.
        read_on: The day of the import.

    Raises:
        UsageError: The file cannot be read, or is JSON of another form. Of a table it is raised when its rows are read.
    """
    reading = Reading(providers=providers, names=names, day=read_on)
    if ".csv" in path.suffixes:
        # The first lines of a table up to that of its columns, which the two of a title precede at most.
        above: list[list[str]] = [[]]
        for line in read_cells(path):
            above.append(line)
            if len(line) > 2 or len(above) > _LINES_ABOVE_HEADER:
                break
        head = above[-1]
        if all(name in head for name in skypilot.COLUMNS):
            return read_catalogue_file(path, reading, provider=skypilot.provider_of(path, reading))
        if all(name in head for name in aws.OFFER_COLUMNS):
            return read_offer_file(path, reading)
        if all(name in head for name in tables.FOCUS_COLUMNS):
            cells = read_cells(path)
            found = checked(path, "the columns of a FOCUS bill", lambda: tables.read_focus(next(cells), cells, reading))
            return Export(rows=found, kind=PriceKind.OBSERVED)
        return None
    return _document(path, reading) if path.suffix == ".json" else None


def read_catalogue_file(path: Path, reading: Reading, *, provider: str) -> Export:
    """Read a file of SkyPilot's catalogue; it is refused when its rows are asked for."""
    cells = read_cells(path)

    def read() -> Iterator[Found]:
        head = next(cells, [])
        if missing := [name for name in skypilot.COLUMNS if name not in head]:
            raise ValueError(f"the columns {', '.join(missing)} are missing")
        return skypilot.read_catalogue(head, cells, reading, provider=provider)

    return Export(rows=checked(path, "the columns of SkyPilot's catalogue", read), kind=PriceKind.COPY)


def read_offer_file(path: Path, reading: Reading) -> Export:
    """Read AWS's offer file as CSV, row by row; it is refused when its rows are asked for."""
    rows = checked(path, "the columns of AWS's offer file", lambda: aws.read_offer_table(read_cells(path), reading))
    return Export(rows=rows, kind=PriceKind.READ)


def _document(path: Path, reading: Reading) -> Export:
    document = read_document(path)
    form = form_of(document)
    if form is None:
        raise UsageError(f"{path}: is no export that is known: {FORMS}.")
    what, read, kind = form
    return Export(rows=tuple(checked(path, what, lambda: read(document, reading))), kind=kind)


def read_document(path: Path) -> Any:
    """Read a JSON document of prices.

    Raises:
        UsageError: The file cannot be read, is too large, or is not JSON.
    """
    try:
        content = read_file(path, at_most=_MOST_BYTES)
        if len(content) > _MOST_BYTES:
            raise UsageError(
                f"{path}: is larger than {_MOST_BYTES:,} bytes; export the GPU machines alone, or of AWS's offer file "
                "its .csv form, which is read row by row."
            )
        return json.loads(content)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror or error}).") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: is not JSON ({error}).") from error


_BY_KEY: Mapping[str, Reader] = {
    "PriceList": aws.read_products,
    "products": aws.read_offer_file,
    "SpotPriceHistory": aws.read_spot_history,
    "Items": azure.read_retail_prices,
    "skus": gcp.read_skus,
    "instance_types": sellers.read_shadeform,
    "offers": lambda document, reading: sellers.read_vast(document["offers"], reading),
    "items": sellers.read_oci,
}
"""Readers by a key at the top of their document."""
_OF_LIST: Mapping[str, tuple[Reader, PriceKind]] = {
    "gpu_name": (sellers.read_vast, PriceKind.READ),
    "pricing": (tables.read_vantage, PriceKind.COPY),
    "price_per_hour": (sellers.read_verda, PriceKind.READ),
}
"""Readers of documents that are lists, by a key of their first entry."""
FORMS = (
    f"JSON with one of {', '.join((*_BY_KEY, 'data'))} at its top, or a list of entries with one of "
    f"{', '.join(_OF_LIST)}"
)


def form_of(document: Any) -> tuple[str, Callable[[Any, Reading], Iterator[Found]], PriceKind] | None:
    """Return by what a document is known, its reader, and from whom its prices are known; None if it is not known."""
    if isinstance(document, list):
        first = next((entry for entry in document if isinstance(entry, dict)), {})
        for key, (read, kind) in _OF_LIST.items():
            if key in first:
                return f"entries with {key}", read, kind
        return None
    if not isinstance(document, dict):
        return None
    if "data" in document:
        return "data", _read_data, PriceKind.READ
    return next(((key, read, PriceKind.READ) for key, read in _BY_KEY.items() if key in document), None)


def _read_data(document: Any, reading: Reading) -> Iterator[Found]:
    data = document["data"]
    is_graphql = not isinstance(data, dict) or "gpuTypes" in data or not data
    return sellers.read_runpod(document, reading) if is_graphql else sellers.read_lambda(data, reading)


FORMS_BY_NAME: Mapping[str, Reader] = {**_BY_KEY, "data": _read_data, "list": sellers.read_verda}
"""Readers of documents by the key at their top, as sources of prices name them; `list` is a list of machines."""
