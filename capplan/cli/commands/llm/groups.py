"""Groups of options that the commands about serving share, and the requests that they make."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.errors import UsageError

if TYPE_CHECKING:
    from capplan.llm.answer.fleet_money import MoneyQuestion
    from capplan.llm.core.fleet.candidates import ShardingChoice
    from capplan.llm.core.fleet.token_load import TokenLoad
    from capplan.llm.core.model import LanguageModel
    from capplan.llm.core.serving.service import Speculation
    from capplan.llm.core.simulation.load_answer import LatencyLimits

ENGINES = ("vllm", "sglang", "trtllm", "llama.cpp")
STATISTICS = ("mean", "50", "90", "95", "99")


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOptions:
    """Limits on what requests see, and of which requests."""

    max_ttft: Annotated[str | None, typer.Option(metavar="TIME", help="Limit of the time to first token: 1s.")] = None
    max_tpot: Annotated[str | None, typer.Option(metavar="TIME", help="Limit of the time between tokens: 40ms.")] = None
    max_e2e: Annotated[str | None, typer.Option(metavar="TIME", help="Limit of a whole answer: 10s.")] = None
    percentile: Annotated[
        str, typer.Option(metavar="P", help=f"Requests that keep the limits: {', '.join(STATISTICS)}.")
    ] = "mean"

    def limits(self) -> "LatencyLimits":
        """Return the limits.

        Raises:
            UsageError: One of them is not a time above 0, or there is no such percentile.
        """
        from capplan.cli.commands.llm.options import parse_limits

        return parse_limits(self.max_ttft, self.max_tpot, self.max_e2e, percentile=self.percentile)


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthOptions:
    """The tokens of prompts and answers, how they vary, and what need not be computed."""

    input_len: Annotated[int, typer.Option(min=1, help="Mean tokens of a prompt.")] = 1024
    output_len: Annotated[int, typer.Option(min=1, help="Mean tokens of an answer.")] = 256
    spread: Annotated[float, typer.Option(min=0, max=1, help="Lengths vary evenly by ± this share.")] = 0.0
    input_cv: Annotated[
        float, typer.Option("--input-cv", min=0, max=10, help="Log-normal prompts with this deviation ÷ mean.")
    ] = 0.0
    output_cv: Annotated[
        float, typer.Option("--output-cv", min=0, max=10, help="Log-normal answers with this deviation ÷ mean.")
    ] = 0.0
    burstiness: Annotated[
        float, typer.Option(min=0.01, max=1000, help="Squared variation of gaps: 1 is Poisson, more is burstier.")
    ] = 1.0
    prefix_hits: Annotated[
        float, typer.Option(min=0, max=0.999, help="Share of a prompt that the prefix cache holds.")
    ] = 0.0
    draft_tokens: Annotated[
        int, typer.Option(min=0, max=32, help="Speculation: tokens drafted in each step; needs --acceptance.")
    ] = 0
    acceptance: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Chance that a drafted token is accepted.", show_default=False),
    ] = None

    def load(self, *, rate_per_s: float | None, concurrency: float | None) -> "TokenLoad":
        """Return a load of these lengths.

        Args:
            rate_per_s: Requests per second; None for a closed loop.
            concurrency: Clients; None for an open load.

        Raises:
            UsageError: Lengths vary in two ways, or speculation is stated in part.
        """
        from capplan.llm.core.fleet.token_load import TokenLoad

        if self.spread and (self.input_cv or self.output_cv):
            raise UsageError("--spread contradicts --input-cv and --output-cv: lengths vary evenly or log-normally.")
        return TokenLoad(
            rate_per_s=rate_per_s,
            concurrency=concurrency,
            input_len=self.input_len,
            output_len=self.output_len,
            spread=self.spread,
            input_cv=self.input_cv,
            output_cv=self.output_cv,
            gap_scv=self.burstiness,
            prefix_fraction=self.prefix_hits,
            speculation=self._speculation(),
        )

    def _speculation(self) -> "Speculation | None":
        from capplan.llm.core.serving.service import Speculation

        if bool(self.draft_tokens) != (self.acceptance is not None):
            raise UsageError("speculation needs both --draft-tokens and --acceptance, such as 3 and 0.7.")
        if not self.draft_tokens or self.acceptance is None:
            return None
        return Speculation(drafts=self.draft_tokens, acceptance=self.acceptance)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """What a model is served for, where that is not text that is generated from text."""

    task: Annotated[
        str, typer.Option(metavar="TASK", help="generate, embed (a vector a text) or rerank (a score a document).")
    ] = "generate"
    documents: Annotated[int, typer.Option(min=1, help="Documents of a request that is reranked.")] = 1
    images: Annotated[int, typer.Option(min=0, help="Images of a request, on top of --input-len tokens.")] = 0
    image_size: Annotated[str, typer.Option(metavar="WxH", help="Pixels of an image.")] = "1024x1024"
    image_tokens: Annotated[
        int | None,
        typer.Option(min=1, help="Tokens of an image; by the model's encoder and size by default.", show_default=False),
    ] = None

    def of(self, load: "TokenLoad", model: "LanguageModel") -> "TokenLoad":
        """Return a load with what the task changes.

        Args:
            load: The load in text.
            model: The model that is served.

        Raises:
            UsageError: There is no such task, it has no such requests, or the model has no image encoder.
        """
        from dataclasses import replace

        from capplan.cli.commands.llm.options import parse_image_size
        from capplan.llm.core.fleet.token_load import Task
        from capplan.llm.core.search.images import images_of

        if self.task not in tuple(Task):
            raise UsageError(f"--task {self.task}: write one of {', '.join(Task)}.")
        if self.documents > 1 and self.task != Task.RERANK:
            raise UsageError(f"--documents {self.documents} are reranked; add --task rerank.")
        found = images_of(model, count=self.images, size=parse_image_size(self.image_size), tokens=self.image_tokens)
        tokens = load.input_len + (found.count * found.tokens if found else 0.0)
        changed = replace(load, input_len=tokens, images=found, task=Task(self.task), documents=self.documents)
        return changed if self.task == Task.GENERATE else replace(changed, output_len=1.0, output_cv=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingOptions:
    """How the engine is set to fill its steps."""

    prefill: Annotated[
        str | None,
        typer.Option(metavar="mixed|separate", help="Prompts in decode steps, or alone; the engine's way by default."),
    ] = None
    token_budget: Annotated[
        int | None, typer.Option(min=16, help="Most tokens of a step; the engine's default.", show_default=False)
    ] = None
    max_seqs: Annotated[
        int | None, typer.Option(min=1, help="Most sequences at a time; the engine's default.", show_default=False)
    ] = None

    def mixes(self) -> bool | None:
        """Return True for prompts in decode steps, False for prompts alone, None for the engine's way.

        Raises:
            UsageError: Another word was given.
        """
        if self.prefill not in (None, "mixed", "separate"):
            raise UsageError(f"--prefill {self.prefill}: write mixed or separate.")
        return None if self.prefill is None else self.prefill == "mixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyOptions:
    """How the money of a plan is counted."""

    growth: Annotated[str, typer.Option(metavar="SHARE", help="Growth of the load per year, such as 50% or 0.5.")] = "0"
    years: Annotated[int, typer.Option(help="Years that rent and purchase are compared over.")] = 3
    api_price: Annotated[
        str | None,
        typer.Option(
            metavar="IN,OUT",
            help="USD that an API asks per million input and output tokens: 0.6,2.4.",
            show_default=False,
        ),
    ] = None

    def question(self) -> "MoneyQuestion":
        """Return how the money is counted.

        Raises:
            UsageError: A value is not a share, a number of years, or two prices.
        """
        from capplan.cli.commands.llm.options import parse_api_price, parse_share
        from capplan.llm.answer.fleet_money import MoneyQuestion

        return MoneyQuestion(
            growth_fraction=parse_share(self.growth, what="--growth"),
            years=self.years,
            api=parse_api_price(self.api_price),
        )


CalibrationOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Constants from `capplan llm fit`; the shipped ones by default.")
]
DownloadOption = Annotated[bool, typer.Option("--download", help="Fetch the configuration of hf:org/name.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """Which deployments a search tries: GPUs, engines, formats, and how a replica shares the model."""

    gpu: Annotated[
        list[str] | None,
        typer.Option("--gpu", metavar="ID", help="Only this GPU; repeatable. All rented data-centre GPUs by default."),
    ] = None
    engine: Annotated[
        list[str] | None,
        typer.Option(help="vllm, sglang, trtllm (the default), llama.cpp or all; repeatable."),
    ] = None
    weights: Annotated[
        list[str] | None,
        typer.Option(metavar="FORMAT", help="bf16, fp8, ...; repeatable; the checkpoint's by default."),
    ] = None
    kv: Annotated[str | None, typer.Option(metavar="FORMAT", help="Number format of the KV cache.")] = None
    tp: Annotated[list[int] | None, typer.Option("--tp", min=1, help="Tensor parallelism; repeatable.")] = None
    pp: Annotated[list[int] | None, typer.Option("--pp", min=1, help="Pipeline stages; repeatable.")] = None
    ep: Annotated[list[int] | None, typer.Option("--ep", min=1, help="Expert parallelism; repeatable.")] = None
    dp: Annotated[
        list[int] | None, typer.Option("--dp", min=1, help="Ranks of attention data parallelism; repeatable.")
    ] = None
    max_seqs: Annotated[
        list[int] | None, typer.Option(min=1, help="Most sequences at a time in a replica; repeatable.")
    ] = None
    redundancy: Annotated[int, typer.Option(min=0, help="Replicas beyond need (N+k).")] = 0
    link: Annotated[
        str | None,
        typer.Option(metavar="RATE", help="Network of one GPU that moves prefilled caches, such as '50 GB/s'."),
    ] = None

    def engines(self) -> tuple[str, ...]:
        """Return the engines to try."""
        from capplan.llm.core.search.search import DEFAULT_ENGINES

        return ENGINES if self.engine == ["all"] else tuple(self.engine or DEFAULT_ENGINES)

    def choice(self) -> "ShardingChoice":
        """Return the degrees of parallelism to try; every usual one where none is stated."""
        from capplan.llm.core.fleet.candidates import ShardingChoice

        return ShardingChoice(
            tensor=tuple(self.tp or ()),
            pipeline=tuple(self.pp or ()),
            expert=tuple(self.ep or ()),
            data=tuple(self.dp or ()),
        )
