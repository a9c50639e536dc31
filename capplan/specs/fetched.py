"""Keep what was fetched, prices of each source and rates of exchange, whole or not at all in the data folder."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

from capplan.errors import SpecError
from capplan.files import data_folder, keep_whole, read_file

FETCHED = "fetched"
"""The origin of prices that were fetched, as reports name it."""

PART = "part"
"""The key by which a price file says of what cloud or region of its source it is."""

_FORMAT = "capplan-fetched"
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What a source gave at a moment in UTC.

    `files` are price files, each as a tree whose days are texts, `validators` what each address is asked for again with
    (an entity tag or the day of a change), `rates` units of currencies for one euro.
    """

    source: str
    title: str
    moment: datetime
    files: tuple[Mapping[str, Any], ...] = ()
    validators: Mapping[str, str] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    rates_day: date | None = None

    @property
    def count(self) -> int:
        """Return the number of prices, or of rates."""
        return sum(len(tree.get("hourly", ())) + len(tree.get("purchase", ())) for tree in self.files) or len(
            self.rates
        )

    def age_days(self, today: date) -> int:
        """Return the days since the source was asked. [days]"""
        return (today - self.moment.date()).days


def fetched_folder() -> Path:
    """Return where fetched prices lie."""
    return data_folder() / "prices"


def write_fetched(fetched: Fetched) -> Path:
    """Put what was fetched in the place of what the source gave before, in one step.

    Raises:
        UsageError: the folder cannot be written.
    """
    path = fetched_folder() / f"{fetched.source}.json"
    tree = {
        "format": _FORMAT, "version": _VERSION, "source": fetched.source, "title": fetched.title,
        "moment": fetched.moment.isoformat(), "validators": dict(fetched.validators), "rates": dict(fetched.rates),
        "rates_day": str(fetched.rates_day) if fetched.rates_day else None, "files": list(fetched.files),
    }  # fmt: skip
    keep_whole(path, json.dumps(tree, ensure_ascii=False).encode())
    return path


def read_fetched() -> tuple[Fetched, ...]:
    """Return what every source gave last.

    Raises:
        SpecError: a file is not what `capplan prices update` writes.
    """
    try:
        paths = sorted(fetched_folder().glob("*.json"))
    except OSError:
        return ()
    return tuple(map(_read, paths))


def _read(path: Path) -> Fetched:
    try:
        tree = json.loads(read_file(path))
        if tree["format"] != _FORMAT or tree["version"] != _VERSION:
            raise ValueError("another form")
        day = tree["rates_day"]
        return Fetched(
            source=tree["source"], title=tree["title"], moment=datetime.fromisoformat(tree["moment"]),
            files=tuple(tree["files"]), validators=tree["validators"], rates=tree["rates"],
            rates_day=date.fromisoformat(day) if day else None,
        )  # fmt: skip
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise SpecError(f"{path}: is not what `capplan prices update` writes ({error!s:.200}); remove it.") from error


def dated(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return a price file whose days are days; JSON holds them as texts.

    Raises:
        ValueError, LookupError: it is not what was written.
    """
    sources = {
        name: {**source, "retrieved": date.fromisoformat(source["retrieved"])}
        for name, source in tree["sources"].items()
    }
    known = {name: value for name, value in tree.items() if name != PART}
    return {**known, "date": date.fromisoformat(tree["date"]), "sources": sources}
