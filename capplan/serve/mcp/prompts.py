"""The prompts: how an assistant goes about the three things that people ask capplan."""

from collections.abc import Mapping
from dataclasses import dataclass

import mcp_types

from capplan.errors import UnknownNameError, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A task that a user hands to the assistant.

    Attributes:
        summary: what it is for.
        arguments: by name, what each says, and the words that stand where it is left out; None where it must be given.
        text: the task, with the arguments' names in braces.
    """

    summary: str
    arguments: Mapping[str, tuple[str, str | None]]
    text: str


_REPORTING = (
    "Say of each figure whether it is a bound, an estimate (with its interval) or a measurement, as the answer does, "
    "repeat its warnings, and end with the command line that the answer names."
)

PROMPTS: Mapping[str, Prompt] = {
    "which_gpu": Prompt(
        summary="Which GPU fits a model, how fast it runs there, and what it costs.",
        arguments={
            "model": ("the model, such as torchvision:resnet50, timm:vit_base_patch16_224 or hf:bert", None),
            "batch": ("samples at once", "1"),
            "wishes": ("limits on latency, memory, vendor or price", "none"),
        },
        text=(
            "Which GPU should run the model {model} at batch {batch}? Further wishes: {wishes}. Call the tool `plan` "
            "with these as its arguments, narrowed to few GPUs by `where`, `vendors` or `min_memory` if the wishes "
            "allow it. Name the cheapest and the fastest GPU that fit, and the first reason why others do not. "
            + _REPORTING
        ),
    ),
    "serve_llm": Prompt(
        summary="Which GPUs, and how many, serve a language model under a load.",
        arguments={
            "model": ("a language model of the tool llm_models", None),
            "rate_per_s": ("requests per second", "1"),
            "prompt_tokens": ("tokens of a prompt", "1000"),
            "output_tokens": ("tokens of an answer", "250"),
            "wishes": ("limits on the time to first token, time per token, GPUs or price", "none"),
        },
        text=(
            "How should the language model {model} be served for {rate_per_s} requests per second of {prompt_tokens} "
            "prompt tokens and {output_tokens} output tokens? Further wishes: {wishes}. If the model's name is not "
            "known, look it up with the tool `llm_models`. Call `llm_plan` with the load as `rate_per_s`, `input_len` "
            "and `output_len`, and limits as `max_ttft_s` and `max_tpot_s`; check the choice with `llm_memory` if room "
            "for more context matters. Name the cheapest deployment that keeps the limits: GPUs, how they share the "
            "model, number of replicas, cost. " + _REPORTING
        ),
    ),
    "train_cost": Prompt(
        summary="What a training or fine-tuning run takes and costs.",
        arguments={
            "model": ("the model, such as hf:bert or torchvision:resnet50", None),
            "samples": ("samples of the data set", None),
            "epochs": ("passes over it", "1"),
            "batch": ("samples a step", "32"),
            "wishes": ("precision, optimiser, GPUs, deadline or budget", "none"),
        },
        text=(
            "What does it take to train the model {model} on {samples} samples for {epochs} epochs at batch {batch}? "
            "Further wishes: {wishes}. Call the tool `plan` with `train` set, `samples` and `epochs`, sorted by cost. "
            "If little fits, ask again with `checkpointing`, `precision` amp-bf16 or a smaller batch with "
            "`accumulate`, and say what that changes. Name the cheapest and the quickest GPU with hours and cost. "
            + _REPORTING
        ),
    ),
}


def prompts() -> list[mcp_types.Prompt]:
    """Return the prompts as they are listed."""
    return [
        mcp_types.Prompt(
            name=name,
            description=prompt.summary,
            arguments=[
                mcp_types.PromptArgument(name=argument, description=says, required=instead is None)
                for argument, (says, instead) in prompt.arguments.items()
            ],
        )
        for name, prompt in PROMPTS.items()
    ]


def filled_prompt(name: str, given: Mapping[str, str]) -> mcp_types.GetPromptResult:
    """Return a prompt with its arguments filled in.

    Raises:
        UnknownNameError: there is no such prompt or argument.
        UsageError: an argument is missing.
    """
    if name not in PROMPTS:
        raise UnknownNameError("prompt", name[:100], PROMPTS)
    prompt = PROMPTS[name]
    for argument in given:
        if argument not in prompt.arguments:
            raise UnknownNameError("argument", argument[:100], prompt.arguments)
    words = {argument: instead for argument, (_, instead) in prompt.arguments.items()} | dict(given)
    for argument, value in words.items():
        if value is None:
            raise UsageError(f"the argument {argument!r} is missing: {prompt.arguments[argument][0]}.")
    content = mcp_types.TextContent(text=prompt.text.format(**words))
    return mcp_types.GetPromptResult(
        description=prompt.summary, messages=[mcp_types.PromptMessage(role="user", content=content)]
    )
