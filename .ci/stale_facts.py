"""Report the facts that were looked up over 120 days ago or on no stated day, by file; never fails a build.

Engines and frameworks get releases, drivers keep other shares of memory, GPUs are announced, sold and no longer sold: a
fact that nobody looked up for a season may be wrong. An announced GPU whose expected day is past is named, too.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from capplan.clock import today
from capplan.core.gpus.sale import expected_period
from capplan.specs import Gpus, load_gpus
from capplan.specs.folders import built_in_folder, calibration_file
from capplan.specs.strict_yaml import read_yaml

MAX_AGE = timedelta(days=120)
_DAY = re.compile(r"20\d{2}-\d{2}-\d{2}")
_ENGINES = tuple(f"engine-{name}.yaml" for name in ("vllm", "sglang", "trtllm", "llama.cpp"))
_FRAMEWORKS = ("software-support.yaml",)
_OF_SALE = ("status", "sold_since", "end_of_sale", "expected")
_OF_DRIVERS = ("usable", "driver_total")
_MOST_NAMED = 4


@dataclass(frozen=True, slots=True)
class DatedFact:
    """A fact by the kind of its file and its place there, and the last day on which it was looked up."""

    kind: str
    where: str
    key: str
    day: date | None


def all_facts(gpus: Gpus) -> list[DatedFact]:
    """Return the facts that change with releases: of engines, frameworks, drivers, and the sale of GPUs."""
    facts = [
        DatedFact(kind, name, key, _last_day(source))
        for kind, names in (("engines", _ENGINES), ("frameworks", _FRAMEWORKS))
        for name in names
        for key, source in _sources(read_yaml(calibration_file(name)))
    ]
    for gpu in gpus.values():
        for kind, keys in (("sale of GPUs", _OF_SALE), ("memory that drivers leave", _OF_DRIVERS)):
            for key in keys:
                if (figure := gpu.figures.get(key)) is not None:
                    days = [source.retrieved for source in figure.sources if source.retrieved]
                    facts.append(DatedFact(kind, f"{gpu.id}.yaml", key, max(days, default=None)))
    for path in sorted((built_in_folder() / "providers").glob("*.yaml")):
        facts += _stated_sources(path)
    return facts


def _sources(tree: object, at: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text under a key `source`, with the place of what it is the source of."""
    if isinstance(tree, Mapping):
        if isinstance(text := tree.get("source"), str):
            yield at or "the file", text
        for key, value in tree.items():
            yield from _sources(value, f"{at}.{key}" if at else str(key))
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from _sources(value, f"{at}[{index}]")


def _stated_sources(path: Path) -> Iterator[DatedFact]:
    """Yield the sources that a provider's file states, each with the day on which it was read."""
    sources = read_yaml(path).get("sources")
    for key, source in (sources if isinstance(sources, Mapping) else {}).items():
        day = source.get("retrieved") if isinstance(source, Mapping) else None
        yield DatedFact("machines of providers", path.name, str(key), day if isinstance(day, date) else None)


def _last_day(text: str) -> date | None:
    days = [date.fromisoformat(day) for day in _DAY.findall(text)]
    return max(days, default=None)


def report(facts: list[DatedFact], gpus: Gpus, *, on: date) -> list[str]:
    """Return the lines of the report: how many facts are old or of no day, each file of them, and what was expected."""
    old = [fact for fact in facts if fact.day is not None and on - fact.day > MAX_AGE]
    undated = [fact for fact in facts if fact.day is None]
    lines = [
        f"{len(old)} of {len(facts)} dated facts were looked up over {MAX_AGE.days} days ago, {len(undated)} on no "
        "stated day (docs/gpu-specs.md):"
    ]
    by_file: dict[tuple[str, str], list[DatedFact]] = {}
    for fact in old:
        by_file.setdefault((fact.kind, fact.where), []).append(fact)
    for (kind, where), found in sorted(by_file.items()):
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        keys = ", ".join(fact.key for fact in found[:_MOST_NAMED])
        lines.append(f"  {kind}: {where}: {keys}{more}, the oldest of {min(fact.day for fact in found if fact.day)}")
    counts: dict[str, int] = {}
    for fact in undated:
        counts[fact.kind] = counts.get(fact.kind, 0) + 1
    lines += [f"  {kind}: {count} on no stated day" for kind, count in sorted(counts.items())]
    for gpu in gpus.values():
        period = expected_period(gpu)
        if period is not None and period.last < on:
            lines.append(f"  sale of GPUs: {gpu.id} was expected {period.words}: look whether it is sold")
    return lines


def main() -> None:
    """Print the facts that are old today."""
    gpus = load_gpus()
    print("\n".join(report(all_facts(gpus), gpus, on=today())))


if __name__ == "__main__":
    main()
