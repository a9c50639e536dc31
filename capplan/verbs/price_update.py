"""`prices update` and `prices sources`: fetch current prices from where they are published, and say how old each is."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from capplan.verbs.statement.contract import Context, Effort, Outcome, Verb, laid_out_by
from capplan.verbs.statement.fields import Name, NoFields, OwnSpecs
from capplan.verbs.statement.options import HERE, Option, Topic

if TYPE_CHECKING:
    from capplan.app.price_update.update import PriceUpdate, SourceUpdate
    from capplan.report.text.gpus import PriceSourceRow

_MOST_REASONS = 8


@dataclass(frozen=True, kw_only=True)
class PriceUpdateQuestion:
    """Which sources are asked for their current prices."""

    sources: Annotated[
        tuple[Name, ...],
        Meta(max_length=100),
        Option(
            help="Sources, as `capplan prices sources` lists them; all that need no more than is here if left out.",
            metavar="SOURCE", is_argument=True, doors=HERE,
        ),
    ] = ()  # fmt: skip
    regions: Annotated[
        tuple[Name, ...],
        Meta(max_length=100),
        Option(
            help="Of a source with a file for each region (aws), only this one; repeatable.", flags=("--region",),
            metavar="NAME", topic=Topic.PRICES, doors=HERE,
        ),
    ] = ()  # fmt: skip
    check: Annotated[bool, Option(help="Say what would change, and write nothing.", topic=Topic.PRICES, doors=HERE)] = (
        False
    )
    specs: OwnSpecs = ()


def answer_price_update(question: PriceUpdateQuestion, context: Context) -> "PriceUpdate":
    """Ask the sources, and keep what they give."""
    from capplan.app.price_update.update import update_prices
    from capplan.clock import now

    gpus = context.gpu_database(question.specs)
    return update_prices(
        question.sources, gpus, now=now(), regions=question.regions, check=question.check, feedback=context.feedback
    )


def _update_text(made: "PriceUpdate", _question: PriceUpdateQuestion) -> str:
    """Return a line for each source."""
    lines = [f"{each.source.id}: {_became(each, written=made.written)}" for each in made.sources]
    return "\n".join(lines) + "\n"


def _became(update: "SourceUpdate", *, written: bool) -> str:
    if update.skipped:
        return f"not asked, {update.skipped}"
    if update.fetched is None:
        return "failed; what it gave before is kept"
    held, found = update.fetched, update.difference
    if held.rates:
        return f"{held.count} rates of {held.rates_day}"
    parts = [
        f"{count} {name}"
        for name, count in (("new", found.new), ("changed", found.changed), ("gone", found.gone))
        if count
    ]
    told = ", ".join(parts) or ("as before" if not update.unchanged else "not changed since")
    return f"{held.count:,} prices, {told}" + ("" if written else "; nothing is written")


def _update_outcome(made: "PriceUpdate") -> Outcome:
    warnings = []
    for update in made.sources:
        warnings += [f"{update.source.id}: {failure}" for failure in update.failures]
        warnings += [f"{update.source.id}: left out {skipped}" for skipped in update.left_out[:_MOST_REASONS]]
        if len(update.left_out) > _MOST_REASONS:
            rest = sum(skipped.rows for skipped in update.left_out[_MOST_REASONS:])
            warnings.append(f"{update.source.id}: left out {rest:,} more rows for other reasons")
    return Outcome(exit_code=1 if made.has_failed else 0, warnings=tuple(warnings))


PRICES_UPDATE = Verb(
    path="prices update",
    question=PriceUpdateQuestion,
    summary="Fetch current prices and rates of exchange from where they are published.\n\n"
    "They are kept in your data folder beside the built-in prices; of one offer the newest counts. Where a source "
    "fails, what it gave before is kept. A proxy that HTTPS_PROXY names is used.",
    fails_if="no source gave anything",
    examples=(
        "capplan prices update",
        "capplan prices update azure vast --check",
        "capplan prices update aws --region eu-central-1",
    ),
    answer=answer_price_update,
    text=_update_text,
    outcome=_update_outcome,
    printed_only=True,
    is_local=True,
    effort=Effort.LONG,
)


def answer_price_sources(_question: NoFields, _context: Context) -> "Sequence[PriceSourceRow]":
    """Return the sources, and when each was asked last."""
    from capplan.clock import today
    from capplan.report.text.gpus import PriceSourceRow
    from capplan.specs.fetched import read_fetched
    from capplan.specs.price_sources import load_price_sources

    fetched = {given.source: given for given in read_fetched()}

    def needs(parts: Iterable[str]) -> str:
        return ", ".join(part for part in parts if part)

    return tuple(
        PriceSourceRow(
            id=source.id,
            title=source.title,
            age_days=None if (held := fetched.get(source.id)) is None else held.age_days(today()),
            prices=None if held is None else held.count,
            needs=needs(
                (
                    f"key {source.key.variable}" if source.key and source.key.headers is None else "",
                    "" if source.by_default else "its name",
                )
            ),
            licence=source.licence,
            documentation=source.documentation,
        )
        for source in load_price_sources()
    )


PRICES_SOURCES = Verb(
    path="prices sources",
    question=NoFields,
    summary="List where `prices update` asks, when each source was asked last, and what it needs.",
    examples=("capplan prices sources",),
    answer=answer_price_sources,
    sections=laid_out_by("capplan.report.text.gpus:price_source_sections"),
    is_local=True,
    effort=Effort.SHORT,
)
