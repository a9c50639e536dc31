"""Options of commands that no verb states, by what they hold."""

from pathlib import Path
from typing import Annotated

import typer

SpecFolders = Annotated[
    list[Path] | None,
    typer.Option("--specs", metavar="DIR|FILE", help="Own GPU specs, laid over the built-in ones.", show_default=False),
]
