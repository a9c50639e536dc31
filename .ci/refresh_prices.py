"""Write the prices that `capplan prices update` has fetched as built-in price files, for a person to look at.

    capplan prices update && python .ci/refresh_prices.py [FOLDER]

A file is written for each provider and day of a source, and takes the place of what this script wrote of that provider
and source before; files that people wrote stay. What is bid for changes by the hour, and is left out.
"""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from capplan.core.gpus.prices import Term
from capplan.specs.fetched import Fetched, dated, read_fetched
from capplan.specs.folders import built_in_folder
from capplan.specs.strict_yaml import dump_yaml

MARK = "fetched"
_LEFT_OUT = (Term.SPOT,)


def files_of(fetched: Iterable[Fetched]) -> dict[str, str]:
    """Return the YAML of price files by name."""
    files: dict[str, str] = {}
    for given in fetched:
        for tree in map(dated, given.files):
            rows = [row for row in tree["hourly"] if row["pricing"] not in _LEFT_OUT]
            if rows:
                used = {row["source"] for row in rows}
                sources = {name: source for name, source in tree["sources"].items() if name in used}
                name = f"{tree['provider']}-{tree['date']}-{MARK}-{given.source}.yaml"
                files[name] = dump_yaml({**tree, "hourly": rows, "sources": sources})
    return files


def write(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """Write files, remove those of the same provider and source that they replace, and return the removed ones."""
    kept = {_stem(name) for name in files}
    old = [path for path in folder.glob(f"*-{MARK}-*.yaml") if _stem(path.name) in kept and path.name not in files]
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    for path in old:
        path.unlink()
    return old


def _stem(name: str) -> tuple[str, ...]:
    """Return the provider and source in a file's name, without the day."""
    first, _, source = name.partition(f"-{MARK}-")
    return first[: -len("-2026-01-01")], source


def main(words: list[str]) -> None:
    """Write what was fetched, and print what became of it."""
    folder = Path(words[0]) if words else built_in_folder() / "prices"
    files: dict[str, Any] = files_of(read_fetched())
    removed = write(folder, files)
    print(f"{len(files)} files written into {folder}, {len(removed)} older ones removed")


if __name__ == "__main__":
    main(sys.argv[1:])
