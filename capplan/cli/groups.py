"""The groups of commands that are all verbs, such as `capplan gpus` and `capplan llm train`."""

from collections.abc import Mapping
from typing import Any

import typer

from capplan.cli.asking import group_function
from capplan.cli.lazy import LazyGroup
from capplan.verbs.statement.registry import VERBS, find_verb

GROUPS: Mapping[str, str] = {
    "calibrate": "Fit efficiencies to measurements.",
    "llm": "Plan the serving and training of large language models: which fit, how fast they are, what they cost.",
    "llm train": "Plan the training and fine-tuning of large language models: memory, speed, days, money and layouts.",
    "gpus": "List the GPUs that capplan knows, with filters; show, compare and check them; add your own.",
    "prices": "List, filter and compare prices of GPUs; import your own quotes.",
    "cache": "Show and clear the traces kept from earlier runs (CAPPLAN_CACHE names the folder; off keeps none).",
}
"""What the help of each group says, by its words; a verb of the same words answers where no command is named."""


def __getattr__(path: str) -> Any:
    """Make the group of the verbs, and of the groups, whose paths are one word longer than its own."""
    if path not in GROUPS:
        raise AttributeError(path)
    places = {**VERBS, **{group: f"{__name__}:{group}" for group in GROUPS}}
    below = {name.removeprefix(f"{path} "): place for name, place in places.items() if name.startswith(f"{path} ")}
    commands = {name: place for name, place in below.items() if " " not in name}
    kind = type(f"{path.title().replace(' ', '')}Group", (LazyGroup,), {"lazy_commands": commands})
    asks = path in VERBS
    group = typer.Typer(
        cls=kind, help=GROUPS[path], invoke_without_command=asks, no_args_is_help=not asks, rich_markup_mode=None
    )
    group.callback()(group_function(find_verb(path)) if asks else lambda: None)
    return group
