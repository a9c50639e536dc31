"""Ask sources for their current prices, and keep what they give in the place of what they gave before."""

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any, TypeAlias

from capplan.app.feedback import SILENCE, Feedback
from capplan.app.price_update.http import Fetcher, FetchError
from capplan.core.gpus.names import GpuNames
from capplan.core.gpus.spec import GpuSpec
from capplan.errors import CapplanError, UnknownNameError
from capplan.files import working_folder
from capplan.specs.exports.read import FORMS_BY_NAME, read_catalogue_file, read_document, read_offer_file
from capplan.specs.exports.rows import Export, Reading, checked
from capplan.specs.fetched import PART, Fetched, read_fetched, write_fetched
from capplan.specs.price_import import Quote, SkippedQuote, read_rows_of, rent_trees
from capplan.specs.price_sources import PriceFile, PriceSource, load_price_sources
from capplan.specs.providers import Providers, load_providers

_MOST_PAGES = 200
_ENTITY = re.compile(rb"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)
_LARGEST_DATED = 1 << 20


Fetch: TypeAlias = tuple[Path, str, str]
"""A file that was fetched, what it is asked for again with, and the day of its last change, empty if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How the prices of a source differ from those that it gave before."""

    new: int = 0
    changed: int = 0
    gone: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceUpdate:
    """What became of a source; `failures` are documents, `left_out` rows, `skipped` says why it was not asked."""

    source: PriceSource
    fetched: Fetched | None = None
    difference: Difference = field(default_factory=Difference)
    left_out: tuple[SkippedQuote, ...] = ()
    failures: tuple[str, ...] = ()
    skipped: str = ""
    unchanged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceUpdate:
    """What became of asking sources; `written` is False where it was only to be seen what would change."""

    sources: tuple[SourceUpdate, ...]
    written: bool

    @property
    def has_failed(self) -> bool:
        """Return True if no source that was asked gave anything."""
        asked = [each for each in self.sources if not each.skipped]
        return bool(asked) and all(each.fetched is None for each in asked)


def update_prices(
    sources: Sequence[str],
    gpus: Mapping[str, GpuSpec],
    *,
    now: datetime,
    regions: tuple[str, ...] = (),
    check: bool = False,
    fetcher: Fetcher | None = None,
    feedback: Feedback = SILENCE,
) -> PriceUpdate:
    """Ask sources for their prices; those that need a key that the environment lacks are passed over.

    What a source gives is written whole, in one step, unless it is only to be checked; where a source fails, what it
    gave before is kept.
    """
    known = {source.id: source for source in load_price_sources()}
    for name in sources:
        if name not in known:
            raise UnknownNameError("source", name, sorted(known))
    chosen = [known[name] for name in sources] or [source for source in known.values() if source.by_default]
    before = {given.source: given for given in read_fetched()}
    asking = _Asking(
        fetcher=fetcher or Fetcher(), providers=load_providers(), names=GpuNames(gpus.values()), now=now,
    )  # fmt: skip
    updates = []
    for source in chosen:
        if source.key is not None and source.key.headers is None:
            updates.append(SourceUpdate(source=source, skipped=f"needs a key in {source.key.variable}"))
            continue
        with feedback.progress(f"prices of {source.title}"):
            update = asking.ask(source, before.get(source.id), regions)
        if update.fetched is not None and not check:
            write_fetched(update.fetched)
        updates.append(update)
    return PriceUpdate(sources=tuple(updates), written=not check)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking:
    fetcher: Fetcher
    providers: Providers
    names: GpuNames
    now: datetime

    def ask(self, source: PriceSource, before: Fetched | None, regions: tuple[str, ...]) -> SourceUpdate:
        """Ask one source for all of its files; the files that fail keep what was known of them."""
        quotes: list[Quote] = []
        left_out: list[SkippedQuote] = []
        failures: list[str] = []
        kept: list[Mapping[str, Any]] = []
        rates: dict[str, Any] = {}
        validators: dict[str, str] = {}
        unchanged = 0
        files = source.in_regions(regions)
        held_before = before.files if before else ()
        for file in files:
            earlier = [tree for tree in held_before if tree.get(PART, "") == file.part]
            title = f"{source.title}, {file.part}" if file.part and source.form in _TABLES else source.title
            try:
                with working_folder("prices") as folder:
                    validator = before.validators.get(file.part, "") if before else ""
                    got = self._get(source, file, folder, validator if earlier else "")
                    if got is None:
                        unchanged += 1
                        kept += earlier
                        validators[file.part] = validator
                        continue
                    if source.form == "ecb":
                        rates = read_rates(got[0])
                        continue
                    table = read_rows_of(self._export(source, file, got), self.names, source=title)
                if not table.quotes:
                    raise FetchError("its answer holds no price that could be taken: its form may have changed")
            except (FetchError, CapplanError) as error:
                failures.append(f"{f'{file.part}: ' if file.part else ''}{_plain(error)}")
                kept += earlier
                continue
            validators[file.part] = got[1]
            left_out += table.left_out
            quotes += table.quotes
            trees = rent_trees(table.quotes, read_on=self.now.date(), url=source.documentation)
            kept += [{**tree, PART: file.part} for tree in trees]
        if len(failures) == len(files):
            return SourceUpdate(source=source, failures=tuple(failures))
        fetched = Fetched(
            source=source.id, title=source.title, moment=self.now, files=tuple(kept), validators=validators, **rates
        )
        return SourceUpdate(
            source=source, fetched=fetched, difference=_difference(held_before, kept), left_out=_counted(left_out),
            failures=tuple(failures), unchanged=unchanged == len(files),
        )  # fmt: skip

    def _get(self, source: PriceSource, file: PriceFile, folder: Path, validator: str) -> Fetch | None:
        """Fetch a file, with all of its pages; None where it is as it was."""
        headers = source.key.headers if source.key else None
        target = folder / f"page{'.csv' if source.form in _TABLES else '.json'}"
        got = self.fetcher.fetch(
            file.url, target, at_most=source.at_most_bytes, headers=headers, post=source.post, validator=validator
        )
        if got.unchanged:
            return None
        if source.pages is not None:
            self._append_pages(source, file, target)
        return target, got.validator, self._changed_on(file, folder)

    def _append_pages(self, source: PriceSource, file: PriceFile, target: Path) -> None:
        """Fetch the pages that follow the first, and write all as one document."""
        pages, document = source.pages, read_document(target)
        assert pages is not None
        more, seen = document, {file.url}
        for number in range(_MOST_PAGES + 1):
            url = _next_page(more, source, file.url)
            if not url:
                break
            if url in seen or number == _MOST_PAGES:
                raise FetchError(f"its pages do not end after {number + 1}")
            seen.add(url)
            page = target.with_name("next.json")
            headers = source.key.headers if source.key else None
            self.fetcher.fetch(url, page, at_most=source.at_most_bytes, headers=headers, post=source.post)
            more = read_document(page)
            if not isinstance(more, dict) or not isinstance(more.get(pages.list_key), list):
                raise FetchError(f"a page of it lacks {pages.list_key}")
            document[pages.list_key] += more[pages.list_key]
        target.write_text(json.dumps(document), encoding="utf-8")

    def _changed_on(self, file: PriceFile, folder: Path) -> str:
        """Return the day of a file's last change, where it can be asked for; empty where that fails."""
        if not file.dated_by:
            return ""
        target = folder / "dated.json"
        try:
            self.fetcher.fetch(file.dated_by, target, at_most=_LARGEST_DATED)
            (newest, *_) = read_document(target)
            return f"{date.fromisoformat(str(newest['commit']['committer']['date'])[:10])}"
        except (FetchError, CapplanError, LookupError, TypeError, ValueError):
            return ""

    def _export(self, source: PriceSource, file: PriceFile, got: Fetch) -> Export:
        path, _, changed_on = got
        is_own = source.form not in _COPIES
        reading = Reading(
            providers=self.providers, names=self.names, day=self.now.date(), is_of_today=is_own,
            changed_on=changed_on,
        )  # fmt: skip
        if source.form == "skypilot":
            return read_catalogue_file(path, reading, provider=self.providers.canonical(file.part))
        if source.form == "aws-csv":
            return read_offer_file(path, reading)
        document = read_document(path)
        read = FORMS_BY_NAME.get(source.form)
        if read is None:
            raise FetchError(f"its form {source.form!r} is not known; use {', '.join(FORMS_BY_NAME)}")
        return Export(rows=tuple(checked(path, source.form, lambda: read(document, reading))), kind=source.kind)


_TABLES = ("skypilot", "aws-csv")
_COPIES = ("skypilot",)


def _plain(error: Exception) -> str:
    """Return a reason without the name of a temporary file."""
    return re.sub(r"^\S*capplan-prices-\S+?: ", "", str(error)).rstrip(".")


def _next_page(document: Any, source: PriceSource, url: str) -> str:
    """Return the address of the page that follows; empty behind the last."""
    pages = source.pages
    if pages is None or not isinstance(document, dict) or not isinstance(document.get(pages.list_key), list):
        raise FetchError(f"its answer lacks {pages.list_key if pages else 'a list'}: its form may have changed")
    if pages.next_link:
        return str(document.get(pages.next_link) or "")
    token = document.get(pages.next_token)
    return f"{url}{'&' if '?' in url else '?'}{pages.token_as}={token}" if token else ""


def _counted(left_out: Iterable[SkippedQuote]) -> tuple[SkippedQuote, ...]:
    """Join what files leave out for the same reason."""
    found: dict[str, SkippedQuote] = {}
    for skipped in left_out:
        known = found.get(skipped.reason)
        found[skipped.reason] = skipped if known is None else replace(known, rows=known.rows + skipped.rows)
    return tuple(sorted(found.values(), key=lambda each: -each.rows))


def _difference(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> Difference:
    old, new = dict(_offers(before)), dict(_offers(after))
    return Difference(
        new=sum(key not in old for key in new),
        changed=sum(key in old and old[key] != price for key, price in new.items()),
        gone=sum(key not in new for key in old),
    )


def _offers(trees: Sequence[Mapping[str, Any]]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    for tree in trees:
        for row in tree["hourly"]:
            names = ("gpu", "instance", "gpus", "pricing", "region", "country", "upfront", "note")
            yield (tree["provider"], *(row.get(name) for name in names[:-1])), row["per_hour"]


def read_rates(path: Path) -> dict[str, Any]:
    """Read the European Central Bank's daily rates, `eurofxref-daily.xml`."""
    content = path.read_bytes()
    if _ENTITY.search(content):
        raise FetchError("its answer declares entities, which are not read")
    try:
        cubes = ET.fromstring(content).iter()
        rates, day = {}, None
        for cube in cubes:
            if "time" in cube.attrib:
                day = date.fromisoformat(cube.attrib["time"])
            if "currency" in cube.attrib:
                rates[cube.attrib["currency"]] = float(cube.attrib["rate"])
    except (ET.ParseError, ValueError, LookupError) as error:
        raise FetchError(f"its answer is not the form of its rates ({error!s:.100})") from error
    if day is None or "USD" not in rates or not all(0 < rate < 1e9 for rate in rates.values()):
        raise FetchError("its answer holds no day or no rate of USD")
    return {"rates": rates, "rates_day": day}
