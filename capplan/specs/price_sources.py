"""Read where current prices are fetched from: each source's address, form, licence and key, as data."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from capplan.core.gpus.prices import PriceKind
from capplan.errors import SpecError
from capplan.specs.folders import BUILT_IN, built_in_folder
from capplan.specs.providers import load_providers
from capplan.specs.strict_yaml import Checker, Tree, read_yaml

SOURCES_VARIABLE = "CAPPLAN_SOURCES"
"""Names a file of sources that stands in for the built-in one, such as a mirror's."""
_KEYS = (
    "id", "title", "url", "clouds", "regions", "machines", "post", "form", "kind", "pages", "key", "licence",
    "documentation", "dated_by", "at_most", "by_default",
)  # fmt: skip
_NEEDED = ("id", "title", "url", "form", "licence", "documentation")
_GROUPS: Mapping[str, tuple[str, ...]] = {
    "machines": ("provider", "each", "joined", "at_a_time"),
    "pages": ("next_link", "next_token", "token_as", "list"),
    "key": ("variable", "header", "value"),
}
_MOST_BYTES = 64 * 2**20
_MOST_AT_A_TIME = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessKey:
    """A key that a source wants: the environment variable that holds it, and the header that carries it."""

    variable: str
    header: str
    value: str

    @property
    def headers(self) -> Mapping[str, str] | None:
        """Return the header with the key; None where the environment holds none."""
        key = os.environ.get(self.variable, "").strip()
        return {self.header: self.value.replace("{key}", key)} if key else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """How an answer continues: by the address in it, or by a token in it that a parameter of the next one takes."""

    list_key: str
    next_link: str = ""
    next_token: str = ""
    token_as: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceFile:
    """One file of a source: its address, what it is of (a cloud, a region), and where its last change is dated."""

    url: str
    part: str = ""
    dated_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceSource:
    """A source of current prices; `docs/prices.md` explains the fields.

    `at_most_bytes` is read of one file at most, unpacked; `is_copy` marks prices that somebody else prints.
    """

    id: str
    title: str
    form: str
    licence: str
    documentation: str
    files: tuple[PriceFile, ...]
    post: str = ""
    kind: PriceKind = PriceKind.READ
    pages: Pages | None = None
    key: AccessKey | None = None
    at_most_bytes: int = _MOST_BYTES
    by_default: bool = True
    address: str = field(default="")

    def in_regions(self, regions: tuple[str, ...]) -> "tuple[PriceFile, ...]":
        """Return the files of some regions of a source that has one for each, those of all regions else."""
        if not regions or "{region}" not in self.address:
            return self.files
        return tuple(PriceFile(url=self.address.replace("{region}", region), part=region) for region in regions)


def load_price_sources() -> tuple[PriceSource, ...]:
    """Load the sources: those of the file that CAPPLAN_SOURCES names, else the built-in ones.

    Raises:
        SpecError: the file is refused, with all that is wrong with it.
    """
    named = os.environ.get(SOURCES_VARIABLE)
    path = Path(named) if named else built_in_folder() / "sources" / "prices.yaml"
    tree = read_yaml(path, shown=str(path))
    checker = Checker(str(path), BUILT_IN)
    checker.unknown_keys(tree, ("sources",), "")
    rows = tree.get("sources")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise SpecError(f"{path}: must hold sources, a list of {', '.join(_NEEDED)}.")
    sources = tuple(_source(checker, f"sources[{index}]", row) for index, row in enumerate(rows))
    checker.finish({})
    return sources


def _source(checker: Checker, key: str, row: Tree) -> PriceSource:
    checker.unknown_keys(row, _KEYS, f"{key}.")
    words = checker.words(row, (*_NEEDED, "post", "dated_by"), prefix=f"{key}.")
    for name in _NEEDED:
        if name not in words:
            checker.refuse(f"{key}.{name}", "is missing")
    groups = {name: checker.mapping(row, name) if name in row else {} for name in _GROUPS}
    for name, group in groups.items():
        checker.unknown_keys(group, _GROUPS[name], f"{key}.{name}.")
    at_most = row.get("at_most", _MOST_BYTES)
    if type(at_most) is not int or at_most < 1:
        checker.refuse(f"{key}.at_most", f"must be a number of bytes, not {at_most!r}")
    kind = checker.member(f"{key}.kind", row["kind"], PriceKind) if "kind" in row else PriceKind.READ
    access, pages = groups["key"], groups["pages"]
    url = words.get("url", "")
    return PriceSource(
        id=words.get("id", ""), title=words.get("title", ""), form=words.get("form", ""),
        licence=words.get("licence", ""), documentation=words.get("documentation", ""), address=url,
        files=_files(url, words.get("dated_by", ""), row, groups["machines"]), post=words.get("post", ""),
        kind=kind or PriceKind.READ, at_most_bytes=at_most, by_default=row.get("by_default", True) is True,
        key=AccessKey(**{name: str(value) for name, value in access.items()}) if access else None,
        pages=Pages(
            list_key=str(pages.get("list", "")), next_link=str(pages.get("next_link", "")),
            next_token=str(pages.get("next_token", "")), token_as=str(pages.get("token_as", "")),
        ) if pages else None,
    )  # fmt: skip


def _files(url: str, dated_by: str, row: Tree, machines: Tree) -> tuple[PriceFile, ...]:
    if machines:
        known = load_providers().providers[str(machines["provider"])].machines.values()
        names = sorted({machine.name for machine in known})
        count = min(_MOST_AT_A_TIME, int(machines["at_a_time"]))
        groups = [names[start : start + count] for start in range(0, len(names), count)]
        each = [
            str(machines["joined"]).join(str(machines["each"]).replace("{name}", n) for n in group) for group in groups
        ]
        return tuple(
            PriceFile(url=url.replace("{machines}", words), part=f"{n}") for n, words in enumerate(each, start=1)
        )
    for name in ("clouds", "regions"):
        word = f"{{{name.removesuffix('s')}}}"
        if name in row:
            parts = [str(part) for part in row[name]]
            return tuple(
                PriceFile(url=url.replace(word, part), part=part, dated_by=dated_by.replace(word, part))
                for part in parts
            )
    return (PriceFile(url=url, dated_by=dated_by),)
