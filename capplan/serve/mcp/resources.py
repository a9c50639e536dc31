"""The resources and prompts: GPUs, prices, pages of documentation, and how an assistant answers what people ask."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import mcp_types

from capplan.errors import CapplanError, UnknownNameError, UsageError
from capplan.files import PACKAGE
from capplan.serve.mcp.tools import ANSWERS, question_at
from capplan.serve.planning.messages import Refusal, Task
from capplan.serve.service import PlanningService
from capplan.verbs.gpus import GpuQuestion, GpusQuestion
from capplan.verbs.prices import PricesQuestion

GPUS, PRICES, DOCS = "capplan://gpus", "capplan://prices", "capplan://docs/"
ONE_GPU = "capplan://gpus/{gpu}"
ONE_ANSWER = f"{ANSWERS}{{tool}}{{?arguments*}}"
_JSON, _MARKDOWN = "application/json", "text/markdown"


def resources() -> list[mcp_types.Resource]:
    """Return the resources that have one address."""
    return [
        mcp_types.Resource(name="gpus", uri=GPUS, mime_type=_JSON, description="All GPUs of the database."),
        mcp_types.Resource(
            name="prices", uri=PRICES, mime_type=_JSON, description="What GPUs cost to rent and to buy."
        ),
        *(
            mcp_types.Resource(
                name=f"docs/{page.name}",
                uri=DOCS + page.name,
                title=page.title,
                mime_type=_MARKDOWN,
                description=page.summary,
            )
            for page in docs_pages().values()
        ),
    ]


def templates() -> list[mcp_types.ResourceTemplate]:
    """Return the resources whose address holds a name."""
    about = "Every value of one GPU, with its source; the id as in capplan://gpus, such as l4."
    whole = "The whole answer of a tool, at the address that its short answer names."
    return [
        mcp_types.ResourceTemplate(name="gpu", uri_template=ONE_GPU, mime_type=_JSON, description=about),
        mcp_types.ResourceTemplate(name="answer", uri_template=ONE_ANSWER, mime_type=_JSON, description=whole),
    ]


async def read_resource(answering: Callable[[], Awaitable[PlanningService]], uri: str) -> mcp_types.ReadResourceResult:
    """Return the content of a resource."""
    page = docs_pages().get(uri.removeprefix(DOCS)) if uri.startswith(DOCS) else None
    if page is not None:
        return _contents(uri, _MARKDOWN, page.text)
    question = _question(uri)
    # an answer is asked for with its text, as the tool did, so that the kept one is found
    outcome = await (await answering()).answer(Task(question=question, has_text=uri.startswith(ANSWERS)))
    if isinstance(outcome, Refusal):
        raise CapplanError(outcome.worded(question))
    return _contents(uri, _JSON, outcome.content.decode())


def _contents(uri: str, kind: str, text: str) -> mcp_types.ReadResourceResult:
    content = mcp_types.TextResourceContents(uri=uri, mime_type=kind, text=text)
    return mcp_types.ReadResourceResult(contents=[content])


def _question(uri: str) -> Any:
    if uri.startswith(ANSWERS):
        return question_at(uri)
    if uri == GPUS:
        return GpusQuestion()
    if uri == PRICES:
        return PricesQuestion()
    head, _, gpu = uri.rpartition("/")
    if head == GPUS and gpu:
        return GpuQuestion(gpu=unquote(gpu)[:200])
    raise UnknownNameError(
        "resource", uri[:200], (GPUS, ONE_GPU, ONE_ANSWER, PRICES, *(DOCS + name for name in docs_pages()))
    )


_NOT_SHOWN = (
    "changelog",
    "contributing",
    "conventions",
    "decisions/",
    "recipes",
    "reference/cli",
    "reference/python",
    "where",
)
"""Beginnings of pages that are filled when the site is built, or that only developers of capplan need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocsPage:
    """One page: its path without the extension (tutorials/which-gpu), first heading, and the sentence below it."""

    name: str
    title: str
    summary: str
    path: Path

    @property
    def text(self) -> str:
        """Return its content."""
        return self.path.read_text(encoding="utf-8")


def docs_pages() -> Mapping[str, DocsPage]:
    """Return the pages by their names; none where capplan was installed without them."""
    installed = PACKAGE / "docs"
    folder = installed if installed.is_dir() else PACKAGE.parent / "docs"
    pages = {}
    for path in sorted(folder.rglob("*.md")):
        name = path.relative_to(folder).with_suffix("").as_posix()
        if not name.startswith(_NOT_SHOWN):
            title, summary = title_and_summary(path.read_text(encoding="utf-8"))
            pages[name] = DocsPage(name=name, title=title, summary=summary, path=path)
    return pages


def title_and_summary(markdown: str) -> tuple[str, str]:
    """Return the first heading of a page and the first sentence of its first paragraph, without marks of Markdown.

    >>> title_and_summary("# Sweeps\\n\\n`capplan sweep` plans [many](x.md) models. It keeps them.\\n")
    ('Sweeps', 'capplan sweep plans many models.')
    """
    heading = re.search(r"^# (.+)$", markdown, re.MULTILINE)
    body = markdown[heading.end() :] if heading else markdown
    first = next((part for part in body.split("\n\n") if re.match(r"\s*(?!```)[\w`*\[]", part)), "")
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(first.split())).replace("`", "").replace("**", "")
    sentence = re.match(r".{20,}?[.!?](?=\s|$)", plain)
    return (heading[1].replace("`", "") if heading else ""), (sentence[0] if sentence else plain)[:300]


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
            "model": ("a language model that `ask` for llm_models lists", None),
            "rate_per_s": ("requests per second", "1"),
            "prompt_tokens": ("tokens of a prompt", "1000"),
            "output_tokens": ("tokens of an answer", "250"),
            "wishes": ("limits on the time to first token, time per token, GPUs or price", "none"),
        },
        text=(
            "How should the language model {model} be served for {rate_per_s} requests per second of {prompt_tokens} "
            "prompt tokens and {output_tokens} output tokens? Further wishes: {wishes}. If the model's name is not "
            "known, look it up by `ask` for `llm_models`. Call `llm_plan` with the load as `rate_per_s`, `input_len` "
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
    """Return a prompt with its arguments filled in."""
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
