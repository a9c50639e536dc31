"""`prices`: what GPUs cost to rent and to buy, each price with its day and how it is known; own quotes imported."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from capplan.core.gpus.prices import PriceTier, Term
from capplan.errors import UsageError
from capplan.report.text.gpus import PriceGroup
from capplan.verbs.statement.contract import Context, Effort, Look, Outcome, Verb
from capplan.verbs.statement.fields import Name, OwnSpecs, from_fields
from capplan.verbs.statement.options import HERE, Door, Option, Topic

if TYPE_CHECKING:
    from capplan.app.prices import PriceImport, PriceList
    from capplan.report.sections import Section


@dataclass(frozen=True, kw_only=True)
class PricesQuestion:
    """What GPUs cost to rent and to buy."""

    gpus: Annotated[
        tuple[Name, ...],
        Meta(max_length=400),
        Option(
            help="Only this GPU; repeatable.", flags=("--gpu",), metavar="NAME", topic=Topic.GPUS, completes="gpus"
        ),
    ] = ()  # fmt: skip
    providers: Annotated[
        tuple[Name, ...],
        Option(help="Only this provider; repeatable.", flags=("--provider",), metavar="NAME", topic=Topic.PRICES),
    ] = ()
    regions: Annotated[
        tuple[Name, ...],
        Option(
            help="Only this region, country (de) or area (eu); repeatable.", flags=("--region", "--country"),
            metavar="NAME", topic=Topic.PRICES,
        ),
    ] = ()  # fmt: skip
    terms: Annotated[
        tuple[Term, ...],
        Option(
            help=f"Only this term: {', '.join(Term)}; repeatable.", flags=("--term",), metavar="TERM",
            topic=Topic.PRICES,
        ),
    ] = ()  # fmt: skip
    tiers: Annotated[
        tuple[PriceTier, ...],
        Option(
            help=f"Only prices known this way: {', '.join(PriceTier)}; repeatable.", flags=("--tier",), metavar="TIER",
            topic=Topic.PRICES,
        ),
    ] = ()  # fmt: skip
    max_age_days: Annotated[
        int | None,
        Meta(ge=0, le=10**6),
        Option(
            help="Leave out older prices and those of unknown age.", flags=("--max-age",), metavar="DAYS",
            topic=Topic.PRICES,
        ),
    ] = None  # fmt: skip
    old: Annotated[bool, Option(help="Only what --max-age would leave out.", topic=Topic.PRICES)] = False
    history: Annotated[bool, Option(help="Also prices that a newer day replaced.", topic=Topic.PRICES)] = False
    compare: Annotated[
        PriceGroup | None,
        Option(
            help="The cheapest price of every GPU under each term, side by side; by GPU or parted further.",
            topic=Topic.ANSWER, doors=Door.COMMAND,
        ),
    ] = None  # fmt: skip
    specs: OwnSpecs = ()


def answer_prices(question: PricesQuestion, context: Context) -> "PriceList":
    """Return the prices that pass filters, the newest of each offer unless `history` is asked for.

    Args:
        question: the filters.
        context: which GPUs and prices are known.

    Raises:
        UsageError: `old` without `max_age_days`.
        UnknownNameError: a GPU, provider or region that no price names.
    """
    from capplan.app.prices import PriceSelection, select_prices
    from capplan.core.gpus.names import split_names

    if question.old and question.max_age_days is None:
        raise UsageError("--old needs --max-age, such as --max-age 365.")
    known = context.gpu_database(question.specs)
    gpus = {gpu.id for name in split_names(question.gpus) for gpu in known.find_all(name).gpus}
    wanted = from_fields(PriceSelection, question, gpus=gpus)
    return select_prices(context.price_list(question.specs), wanted, today=date.today())


def _settle(question: PricesQuestion, look: Look) -> PricesQuestion:
    if question.compare is not None and look.format == "json":
        raise UsageError("--compare makes a table: choose --format table, csv or md, or leave it out for JSON.")
    return question


def _sections(answers: "Sequence[PriceList]", question: PricesQuestion) -> "Iterable[Section]":
    from capplan.report.text.gpus import price_comparison_sections, price_sections

    found, group = answers[0], question.compare
    if group is None:
        return price_sections(found.hourly, found.purchase)
    return price_comparison_sections(found.hourly, found.purchase, group=group, today=date.today())


def _document(answers: "Sequence[PriceList]", _question: PricesQuestion) -> Any:
    from capplan.report.documents.gpus import prices_document

    return prices_document(answers[0].hourly, answers[0].purchase)


PRICES = Verb(
    path="prices",
    question=PricesQuestion,
    summary="List what GPUs cost to rent and to buy, each price with its day and how it is known.",
    examples=(
        "capplan prices --gpu h100-sxm5-80gb --term on-demand",
        "capplan prices --provider aws --term reserved-1y --max-age 365 --format csv",
        "capplan prices --gpu l4,h100 --compare provider",
    ),
    answer=answer_prices,
    settle=_settle,
    sections=_sections,
    document=_document,
    schema="prices",
    effort=Effort.SHORT,
    returns="capplan.app.prices:PriceList",
)


@dataclass(frozen=True, kw_only=True)
class PriceImportQuestion:
    """Price files from a table of quotes, one per provider and day."""

    table: Annotated[
        Path,
        Option(
            help="A .csv, .xlsx or .yaml table of quotes, or an export.", metavar="FILE", is_argument=True, doors=HERE
        ),
    ]
    output: Annotated[
        Path,
        Option(
            help="Spec folder whose prices/ takes the files.", flags=("--output", "-o"), metavar="SPECS", doors=HERE
        ),
    ]  # fmt: skip
    specs: OwnSpecs = ()


def answer_price_import(question: PriceImportQuestion, _context: Context) -> "PriceImport":
    """Return what an import writes, and the rows it leaves out.

    Args:
        question: the table and the folder.

    Raises:
        UsageError: the table cannot be read, no row could be taken, or a file exists.
    """
    from capplan.app.prices import import_prices

    imported = import_prices(question.table, folder=question.output, read_on=date.today(), overlays=question.specs)
    taken = [path for path in imported.files if path.exists()]
    if taken:
        raise UsageError(f"{taken[0]} exists and is kept; remove it or choose another folder.")
    try:
        (question.output / "prices").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write into {question.output}: {error.strerror or error}.") from error
    return imported


def _import_files(answers: "Sequence[PriceImport]", _question: PriceImportQuestion) -> Mapping[Path, bytes]:
    return {path: text.encode() for path, text in answers[0].files.items()}


PRICES_IMPORT = Verb(
    path="prices import",
    question=PriceImportQuestion,
    summary="Turn a table of quotes into price files, one per provider and day.\n\n"
    "Columns: gpu, term (on-demand, spot, reserved-1y, reserved-3y, buy, ...), provider, price (USD, of the whole "
    "instance or server, per hour for rents) and date; optional: gpus, region, instance, date_is, tier, source, note."
    "\n\nA .yaml file holds `quotes`, a list of rows with these keys, and beside it what all rows share.\n\n"
    "Exports are read too: `aws pricing get-products` and `describe-spot-price-history`, Azure's retail prices, "
    "Google's Cloud Billing Catalog, RunPod's gpuTypes and Shadeform's instance types as .json, SkyPilot's catalogue "
    "as .csv.",
    examples=("capplan prices import quotes.csv -o my-specs && capplan report resnet50 --specs my-specs",),
    answer=answer_price_import,
    text=lambda imported, question: (
        f"{imported.quotes} prices in {len(imported.files)} files under {question.output / 'prices'}.\n"
    ),
    files=_import_files,
    outcome=lambda made: Outcome(warnings=tuple(f"left out: {reason}" for reason in made.left_out)),
    only_told=True,
    is_local=True,
    effort=Effort.SHORT,
)
