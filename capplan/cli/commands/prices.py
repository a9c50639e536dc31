"""`capplan prices`: what GPUs cost to rent and to buy, with day and trust; import of own quotes."""

from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from capplan.cli.asking import group_function
from capplan.cli.lazy import SparingGroup
from capplan.cli.output import SpecFolders, emit, warn
from capplan.errors import UsageError
from capplan.files import write_file
from capplan.verbs.prices import PRICES

app = typer.Typer(
    cls=SparingGroup,
    help="List, filter and compare prices of GPUs; import your own quotes.",
    invoke_without_command=True,
    no_args_is_help=False,
    rich_markup_mode=None,
)


app.callback()(group_function(PRICES))


@app.command("import")
def import_(
    table: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A .csv, .xlsx or .yaml table of quotes, or an export.", show_default=False
        ),
    ],
    folder: Annotated[
        Path, typer.Option("-o", "--output", metavar="SPECS", help="Spec folder whose prices/ takes the files.")
    ],
    specs: SpecFolders = None,
) -> None:
    """Turn a table of quotes into price files, one per provider and day.

    Columns: gpu, term (on-demand, spot, reserved-1y, reserved-3y, buy, ...), provider, price (USD, of the whole
    instance or server, per hour for rents) and date; optional: gpus, region, instance, date_is, tier, source, note.

    A .yaml file holds `quotes`, a list of rows with these keys, and beside it what all rows share.

    Exports are read too: `aws pricing get-products` and `describe-spot-price-history`, Azure's retail prices, Google's
    Cloud Billing Catalog, RunPod's gpuTypes and Shadeform's instance types as .json, SkyPilot's catalogue as .csv.

      capplan prices import quotes.csv -o my-specs && capplan report resnet50 --specs my-specs
    """
    from capplan.app.prices import import_prices

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
