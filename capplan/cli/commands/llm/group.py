"""`capplan llm`: its commands, each imported when it is called."""

import typer

from capplan.cli.lazy import LazyGroup

COMMANDS = {
    "models": "capplan.verbs.llm.models:LLM_MODELS",
    "memory": "capplan.verbs.llm.memory:LLM_MEMORY",
    "estimate": "capplan.verbs.llm.estimate:LLM_ESTIMATE",
    "plan": "capplan.verbs.llm.plan:LLM_PLAN",
    "fleet": "capplan.verbs.llm.fleet:LLM_FLEET",
    "simulate": "capplan.verbs.llm.simulate:LLM_SIMULATE",
    "validate": "capplan.verbs.llm.validate:LLM_VALIDATE",
    "fit": "capplan.verbs.llm.fit:LLM_FIT",
    "fit-memory": "capplan.verbs.llm.fit_memory:LLM_FIT_MEMORY",
    "train": "capplan.cli.commands.llm.train:app",
}
"""Every command of the group and where it lies."""


class LlmGroup(LazyGroup):
    """The group of commands about language models."""

    lazy_commands = COMMANDS


app = typer.Typer(
    cls=LlmGroup,
    help="Plan the serving and training of large language models: which fit, how fast they are, what they cost.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def llm() -> None:
    """Register the group."""
