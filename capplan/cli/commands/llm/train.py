"""`capplan llm train`: its commands, each imported when it is called."""

import typer

from capplan.cli.lazy import LazyGroup

COMMANDS = {
    "memory": "capplan.verbs.llm.train.memory:LLM_TRAIN_MEMORY",
    "estimate": "capplan.verbs.llm.train.estimate:LLM_TRAIN_ESTIMATE",
    "plan": "capplan.verbs.llm.train.plan:LLM_TRAIN_PLAN",
    "validate": "capplan.verbs.llm.train.validate:LLM_TRAIN_VALIDATE",
}
"""Every command of the group and where it lies."""


class TrainGroup(LazyGroup):
    """The group of commands about training language models."""

    lazy_commands = COMMANDS


app = typer.Typer(
    cls=TrainGroup,
    help="Plan the training and fine-tuning of large language models: memory, speed, days, money and layouts.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def train() -> None:
    """Register the group."""
