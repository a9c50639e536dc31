"""`capplan llm`: its commands, each imported when it is called."""

import typer

from capplan.cli.lazy import LazyGroup

COMMANDS = {
    "models": "capplan.cli.commands.llm.models:models",
    "memory": "capplan.cli.commands.llm.memory:memory",
    "estimate": "capplan.cli.commands.llm.estimate:estimate",
    "plan": "capplan.cli.commands.llm.plan:plan",
    "fleet": "capplan.cli.commands.llm.fleet:fleet",
    "simulate": "capplan.cli.commands.llm.simulate:simulate",
    "validate": "capplan.cli.commands.llm.validate:validate",
    "fit": "capplan.cli.commands.llm.fit:fit",
    "fit-memory": "capplan.cli.commands.llm.fit_memory:fit_memory",
}
"""Every command of the group and where it lies."""


class LlmGroup(LazyGroup):
    """The group of commands about language models."""

    lazy_commands = COMMANDS


app = typer.Typer(
    cls=LlmGroup,
    help="Plan the serving of large language models: which fit, how much cache is left, how fast they answer.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def llm() -> None:
    """Register the group."""
