"""`prices`: what GPUs cost to rent and to buy, each price with its day and how it is known; own quotes imported."""

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from capplan.core.gpus.prices import OPTIONAL_QUOTE_COLUMNS, QUOTE_COLUMNS, PriceTier, Term
from capplan.errors import UnknownNameError, UsageError
from capplan.files import read_file
from capplan.report.text.gpus import PriceGroup
from capplan.verbs.statement.contract import Context, Effort, Look, Outcome, Verb, laid_out_by
from capplan.verbs.statement.fields import Name, OwnSpecs
from capplan.verbs.statement.options import HERE, Door, Option, Topic

if TYPE_CHECKING:
    from capplan.core.gpus.prices import Price, PurchasePrice
    from capplan.specs.price_import import ImportedPrices
    from capplan.specs.prices import Prices


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
            help="Only this region, country (de) or area (eu), with offers that may be there; repeatable.",
            flags=("--region", "--country"), metavar="NAME", topic=Topic.PRICES,
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
    old: Annotated[bool, Option(help="Only what ⟨max-age⟩ would leave out.", topic=Topic.PRICES)] = False
    history: Annotated[bool, Option(help="Also prices that a newer day replaced.", topic=Topic.PRICES)] = False
    compare: Annotated[
        PriceGroup | None,
        Option(
            help="The cheapest price of every GPU under each term, side by side; by GPU or parted further.",
            topic=Topic.ANSWER, doors=Door.COMMAND,
        ),
    ] = None  # fmt: skip
    specs: OwnSpecs = ()


def answer_prices(question: PricesQuestion, context: Context) -> "Prices":
    """Return the prices that pass filters, the newest of each offer unless `history` is asked for.

    Raises:
        UsageError: `old` without `max_age_days`.
        UnknownNameError: a GPU, provider or region that no price names.
    """
    from capplan.core.gpus.names import split_names
    from capplan.core.gpus.prices import current_prices
    from capplan.specs.prices import Prices
    from capplan.specs.providers import load_providers

    if question.old and question.max_age_days is None:
        raise UsageError("⟨old⟩ needs ⟨max-age⟩, such as ⟨max-age⟩ 365.")
    database = context.gpu_database(question.specs)
    gpus = {gpu.id for name in split_names(question.gpus) for gpu in database.find_all(name).gpus}
    known, today, age = context.price_list(question.specs), date.today(), question.max_age_days
    providers = tuple(map(load_providers().canonical, question.providers))
    sellers = {price.seller_name for price in known.purchase if price.seller_name}
    offering = sorted({price.provider for price in known.hourly} | sellers)
    for provider in providers:
        if provider not in offering:
            raise UnknownNameError("provider", provider, offering)
    known.check_regions(question.regions)

    def is_shown_in(price: "Price", region: str) -> bool:
        return price.is_in(region) or (price.is_orderable and price.may_be_in(region))

    def is_wanted(price: "Price | PurchasePrice", term: Term) -> bool:
        return (
            (not gpus or price.gpu in gpus)
            and (not question.terms or term in question.terms)
            and (not question.tiers or price.tier in question.tiers)
            and (age is None or price.evidence.is_old(today, max_age_days=age) == question.old)
        )

    hourly = known.hourly if question.history else current_prices(known.hourly)
    return Prices(
        hourly=tuple(
            price
            for price in hourly
            if is_wanted(price, price.term)
            and (not providers or price.provider in providers)
            and (not question.regions or any(is_shown_in(price, region) for region in question.regions))
        ),
        purchase=tuple(
            price
            for price in known.purchase
            if (not providers or price.seller_name in providers) and not question.regions and is_wanted(price, Term.BUY)
        ),
    )


def _outcome(listed: "Prices") -> Outcome:
    """Warn once where the newest rent listed is a month old; a price list of one's own is one's own to renew."""
    from capplan.clock import today
    from capplan.specs.folders import has_own_price_list

    newest = max((price.date for price in listed.hourly), default=None)
    age = 0 if newest is None else (today() - newest).days
    if age <= _FRESH_DAYS or has_own_price_list():
        return Outcome()
    return Outcome(warnings=(f"the newest of these rents is {age} days old; `capplan prices update` fetches today's.",))


_FRESH_DAYS = 30


def _finalize(question: PricesQuestion, look: Look) -> PricesQuestion:
    if question.compare is not None and look.format == "json":
        raise UsageError("⟨compare⟩ makes a table: choose --format table, csv or md, or leave it out for JSON.")
    return question


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
    finalize=_finalize,
    sections=laid_out_by(
        "capplan.report.text.gpus:price_sections", part="hourly,purchase", group="compare", regions="regions"
    ),
    document=laid_out_by("capplan.shapes.gpus:PRICES"),
    outcome=_outcome,
    schema="prices",
    effort=Effort.SHORT,
    returns="capplan.specs.prices:Prices",
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
    currency: Annotated[
        str | None,
        Option(
            help="Price of a currency for rows in it, such as EUR=1.16; else a dated reference rate.",
            flags=("--currency",), metavar="CODE=USD", doors=HERE,
        ),
    ] = None  # fmt: skip
    specs: OwnSpecs = ()


def answer_price_import(question: PriceImportQuestion, _context: Context) -> "ImportedPrices":
    """Return what an import writes, and the rows it leaves out."""
    from capplan.specs import load_gpus
    from capplan.specs.price_import import import_quotes

    gpus = load_gpus(overlays=question.specs)
    imported = import_quotes(question.table, gpus, read_on=date.today(), currency=question.currency)
    if not imported.quotes:
        reasons = "; ".join(map(str, imported.left_out[:_MOST_REASONS]))
        raise UsageError(f"{question.table}: holds no row that could be taken{f' ({reasons})' if reasons else ''}.")
    folder = question.output / "prices"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in imported.files.items():
            if (folder / name).exists() and read_file(folder / name) != text.encode():  # equal ones are of a killed run
                raise UsageError(f"{folder / name} exists and is kept; remove it or choose another folder.")
    except OSError as error:
        raise UsageError(f"cannot write into {question.output}: {error.strerror or error}.") from error
    return imported


_MOST_REASONS = 5
_LISTED = f"Columns: {', '.join(QUOTE_COLUMNS)}; optional: {', '.join(OPTIONAL_QUOTE_COLUMNS)}."


PRICES_IMPORT = Verb(
    path="prices import",
    question=PriceImportQuestion,
    summary="Turn a table of quotes into price files, one per provider and day.\n\n"
    f"{_LISTED} Terms are on-demand, spot, reserved-1y, reserved-3y, buy, ...; the price is that of the whole instance "
    "or server, per hour for rents; `gpus` says how many GPUs it holds, and `includes_server` true that a purchase has "
    "its chassis, processors and memory.\n\n"
    "A .yaml file holds `quotes`, a list of rows with these keys, and beside it what all rows share.\n\n"
    "Exports are read too: AWS's offer files, `aws pricing get-products` and `describe-spot-price-history`, Azure's "
    "retail prices, Google's Cloud Billing Catalog, Oracle's price list, and the answers of Lambda, RunPod, Shadeform, "
    "Vast.ai and Verda as .json; SkyPilot's catalogue, AWS's offer files and bills in the FOCUS form as .csv.",
    examples=("capplan prices import quotes.csv -o my-specs && capplan report resnet50 --specs my-specs",),
    answer=answer_price_import,
    text=lambda imported, question: (
        f"{len(imported.quotes)} prices in {len(imported.files)} files under {question.output / 'prices'}.\n"
    ),
    files=lambda answers, question: {
        question.output / "prices" / name: text.encode() for name, text in answers[0].files.items()
    },
    outcome=lambda made: Outcome(warnings=tuple(f"left out: {skipped}" for skipped in made.left_out)),
    printed_only=True,
    is_local=True,
    effort=Effort.SHORT,
)
