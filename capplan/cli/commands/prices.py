"""`capplan prices`: what GPUs cost to rent and to buy, with day and trust; import of own quotes."""

from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from capplan.cli.options import SpecFolders
from capplan.cli.output import (
    Format,
    FormatOption,
    JsonOption,
    OutputOption,
    emit,
    laid_out,
    resolve_format,
    to_json,
    warn,
)
from capplan.cli.sparing import SparingGroup
from capplan.core.gpus.prices import PriceTier, Term
from capplan.errors import UsageError
from capplan.files import write_file
from capplan.report.text.prices import PriceGroup

app = typer.Typer(
    cls=SparingGroup,
    help="List, filter and compare prices of GPUs; import your own quotes.",
    invoke_without_command=True,
    no_args_is_help=False,
    rich_markup_mode=None,
)


@app.callback()
def prices(
    context: typer.Context,
    *,
    gpu: Annotated[list[str] | None, typer.Option(metavar="ID", help="Only this GPU; repeatable.")] = None,
    provider: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this provider; repeatable.")] = None,
    region: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this region; repeatable.")] = None,
    term: Annotated[list[Term] | None, typer.Option(help="Only this term; repeatable.")] = None,
    tier: Annotated[list[PriceTier] | None, typer.Option(help="Only prices known this way; repeatable.")] = None,
    max_age: Annotated[
        int | None, typer.Option(metavar="DAYS", min=0, help="Leave out older prices and those of unknown age.")
    ] = None,
    old: Annotated[bool, typer.Option("--old", help="Only what --max-age would leave out.")] = False,
    history: Annotated[bool, typer.Option("--history", help="Also prices that a newer day replaced.")] = False,
    compare: Annotated[
        PriceGroup | None,
        typer.Option(help="The cheapest price of every GPU under each term, side by side; by GPU or parted further."),
    ] = None,
    specs: SpecFolders = None,
    chosen_format: FormatOption = None,
    json_flag: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """List what GPUs cost to rent and to buy, each price with its day and how it is known.

    Examples:  capplan prices --gpu h100-sxm5-80gb --term on-demand

      capplan prices --provider aws --term reserved-1y --max-age 365 --format csv

      capplan prices --gpu l4,h100 --compare provider
    """
    if context.invoked_subcommand is not None:
        return
    from capplan.app.gpus.prices import PriceRequest, list_prices
    from capplan.report.documents.gpus import prices_document
    from capplan.report.text.prices import price_comparison_sections, price_sections

    if old and max_age is None:
        raise UsageError("--old needs --max-age, such as --max-age 365.")
    found = list_prices(
        PriceRequest(
            gpus=tuple(gpu or ()), providers=tuple(provider or ()), regions=tuple(region or ()),
            terms=tuple(term or ()), tiers=tuple(tier or ()), max_age_days=max_age, old=old, history=history,
            overlays=tuple(specs or ()),
        ),
        today=date.today(),
    )  # fmt: skip
    spelling = resolve_format(chosen_format, json_flag=json_flag, output=output)
    if compare is not None and spelling is Format.JSON:
        raise UsageError("--compare makes a table: choose --format table, csv or md, or leave it out for JSON.")
    if spelling is Format.JSON:
        emit(to_json(prices_document(found.hourly, found.purchase)), output=output)
        return
    if compare is None:
        sections = price_sections(found.hourly, found.purchase)
    else:
        sections = price_comparison_sections(found.hourly, found.purchase, group=compare, today=date.today())
    emit(laid_out(sections, spelling, output=output), output=output)


@app.command("import")
def import_(
    table: Annotated[
        Path, typer.Argument(metavar="FILE", help="A .csv or .xlsx table of quotes, or an export.", show_default=False)
    ],
    folder: Annotated[
        Path, typer.Option("-o", "--output", metavar="SPECS", help="Spec folder whose prices/ takes the files.")
    ],
    specs: SpecFolders = None,
) -> None:
    """Turn a table of quotes into price files, one per provider and day.

    Columns: gpu, term (on-demand, spot, reserved-1y, reserved-3y, buy, ...), provider, price (USD, of the whole
    instance or server, per hour for rents) and date; optional: gpus, region, instance, date_is, tier, source, note.

    Exports are read too: `aws pricing get-products` and `describe-spot-price-history`, Azure's retail prices, RunPod's
    gpuTypes and Shadeform's instance types as .json, SkyPilot's catalogue as .csv.

      capplan prices import quotes.csv -o my-specs && capplan report resnet50 --specs my-specs
    """
    from capplan.app.gpus.prices import import_prices

    made = import_prices(table, folder=folder, read_on=date.today(), overlays=tuple(specs or ()))
    taken = [path for path in made.files if path.exists()]
    if taken:
        raise UsageError(f"{taken[0]} exists and is kept; remove it or choose another folder.")
    for path, text in made.files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, text.encode())
    for reason in made.left_out:
        warn(f"left out: {reason}")
    emit(f"{made.quotes} prices in {len(made.files)} files under {folder / 'prices'}.\n", output=None)
