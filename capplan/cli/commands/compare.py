"""`capplan compare`: models, number formats and frameworks side by side on the same GPUs and batches."""

from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from capplan.cli import options
from capplan.cli.colour import ColorChoice, ColorOption, answer_width, is_coloured
from capplan.cli.groups import with_groups
from capplan.cli.output import Format, emit_coloured, laid_out, to_json
from capplan.cli.progress import TERMINAL
from capplan.core.batches import parse_batches
from capplan.core.workload import DEFAULT_UTILIZATION, Framework, Layout, Precision, Workload, known_words
from capplan.errors import UnknownNameError
from capplan.units import SECONDS, parse_quantity

if TYPE_CHECKING:
    from capplan.core.plan.comparison import Comparison

Word = TypeVar("Word", Precision, Framework, Layout)
SORT_KEYS = ("asked", "throughput", "latency", "memory", "cost")


def _several(words: type[Word], default: str) -> Any:
    """Return an option that takes lists of an enumeration's words."""
    known = ", ".join(each.value for each in words)
    return typer.Option(metavar="NAME[,NAME]", help=f"{known}; repeatable; {default} by default.", show_default=False)


@with_groups
def compare(
    *,
    models: options.Models,
    model: options.ModelOptions,
    batch: Annotated[
        str, typer.Option("--batch", "-b", help="8, 1,8,32, 1..1024 (powers of two), auto (the recommended), or max.")
    ] = "1",
    gpus: options.GpuOptions,
    precision: Annotated[list[str] | None, _several(Precision, "fp32,fp16")] = None,
    framework: Annotated[list[str] | None, _several(Framework, "eager,compile")] = None,
    layout: Annotated[list[str] | None, _several(Layout, "nchw")] = None,
    torch_version: options.TorchVersion = options.DEFAULT_TORCH,
    steps: options.TrainingOptions,
    max_latency: options.MaxLatency = None,
    utilization: options.Utilization = DEFAULT_UTILIZATION,
    prices: options.PriceOptions,
    sort: Annotated[
        str, typer.Option(help=f"Order the rows by {', '.join(SORT_KEYS)}; asked is the order of the command.")
    ] = "asked",
    color: ColorOption = ColorChoice.AUTO,
    answer: options.AnswerOptions,
) -> None:
    """Put models, precisions and frameworks side by side on the same GPUs and batches.

    Without --gpu, the GPUs are those that `capplan plan` recommends for the first model.

    Examples:

      capplan compare resnet50 timm:convnext_tiny --gpu l4 --batch 32

      capplan compare resnet50 --gpu l4,a10 --batch 1,32 --precision fp32,amp-fp16,fp16 --framework eager --sort cost

      capplan compare resnet50.trace.json timm:vit_base_patch16_224 --gpu a100 --batch 32 --format csv -o rows.csv
    """
    from capplan.app.compare import DEFAULT_FRAMEWORKS, DEFAULT_PRECISIONS, CompareRequest
    from capplan.app.compare import compare as make_comparison
    from capplan.core.plan.order import RowOrder
    from capplan.core.plan.types import Limits

    chosen = answer.format()
    if sort not in SORT_KEYS:
        raise UnknownNameError("sort key", sort, SORT_KEYS, hint=f"Known: {', '.join(SORT_KEYS)}.")
    request = CompareRequest(
        models=tuple(map(model.request, models)),
        gpus=gpus.request(),
        batches=parse_batches(batch),
        precisions=_chosen(Precision, precision, "precision") or DEFAULT_PRECISIONS,
        frameworks=_chosen(Framework, framework, "framework") or DEFAULT_FRAMEWORKS,
        layouts=_chosen(Layout, layout, "layout") or (Layout.NCHW,),
        workload=Workload(training=steps.training(), torch_version=options.parse_torch_version(torch_version)),
        limits=Limits(
            utilization_fraction=utilization,
            max_latency_s=parse_quantity(max_latency, SECONDS, what="--max-latency") if max_latency else None,
        ),
        prices=prices.filters(),
        order=RowOrder(sort),
    )
    made = make_comparison(request, feedback=TERMINAL)
    _show(made, chosen, color=color, answer=answer)
    fitting = {row.model for row in made.fitting}
    if not all(each.label in fitting for each in made.models):
        raise typer.Exit(1)


def _chosen(words: type[Word], given: list[str] | None, kind: str) -> tuple[Word, ...]:
    """Return the members that lists of words name, each once.

    Raises:
        UnknownNameError: a word names none.
    """
    known = [each.value for each in words]
    names = [name.strip() for each in given or () for name in each.split(",")]
    for name in names:
        if name not in known:
            raise UnknownNameError(kind, name, known, hint=known_words(words, name))
    return tuple(dict.fromkeys(words(name) for name in names))


def _show(made: "Comparison", chosen: Format, *, color: ColorChoice, answer: options.AnswerOptions) -> None:
    from capplan.report.documents.comparison import comparison_document
    from capplan.report.text.comparison import comparison_sections
    from capplan.report.text.styled import plain_text, styled_lines

    if chosen is Format.JSON:
        answer.emit(to_json(comparison_document(made)))
    elif chosen is Format.TABLE:
        lines = styled_lines(comparison_sections(made, width=answer_width()), width=answer_width())
        if answer.output is None and is_coloured(color):
            emit_coloured(lines)
        else:
            answer.emit(plain_text(lines))
    else:
        answer.emit(laid_out(comparison_sections(made), chosen))
