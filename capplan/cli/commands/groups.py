"""The groups whose commands are all verbs: `capplan llm`, `capplan llm train` and `capplan calibrate`."""

from collections.abc import Mapping

import typer

from capplan.cli.lazy import LazyGroup
from capplan.verbs.statement.registry import VERBS


def _group(path: str, summary: str, *, inner: Mapping[str, str] | None = None) -> typer.Typer:
    """Return the group of the verbs whose paths are one word longer than its own.

    Args:
        path: the group's words, such as "llm train".
        summary: what its help says.
        inner: groups within it, by their names: where each lies.
    """
    below = {verb.removeprefix(f"{path} "): place for verb, place in VERBS.items() if verb.startswith(f"{path} ")}
    commands = {name: place for name, place in below.items() if " " not in name} | dict(inner or {})
    kind = type(f"{path.title().replace(' ', '')}Group", (LazyGroup,), {"lazy_commands": commands})
    group = typer.Typer(cls=kind, help=summary, no_args_is_help=True, rich_markup_mode=None)
    group.callback()(lambda: None)
    return group


LLM = _group(
    "llm",
    "Plan the serving and training of large language models: which fit, how fast they are, what they cost.",
    inner={"train": f"{__name__}:LLM_TRAIN"},
)

LLM_TRAIN = _group(
    "llm train",
    "Plan the training and fine-tuning of large language models: memory, speed, days, money and layouts.",
)

CALIBRATE = _group("calibrate", "Fit efficiencies to measurements.")
