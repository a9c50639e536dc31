"""`compare`: models, number formats and frameworks side by side on the same GPUs and batches."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from capplan.core.workload import BatchChoice, Batches, Framework, Layout, Precision, RowOrder, Workload
from capplan.errors import UsageError
from capplan.verbs.statement.contract import Context, Look, Outcome, Verb, laid_out_by
from capplan.verbs.statement.fields import (
    DEFAULT_TORCH,
    EVERYWHERE,
    MODEL_HELP,
    CurrencyFields,
    EnergyFields,
    GpuFields,
    HostFields,
    InputFields,
    LimitFields,
    PriceFields,
    Text,
    TrainingFields,
)
from capplan.verbs.statement.options import Option, Topic
from capplan.verbs.statement.words import BATCHES, TORCH_VERSION

if TYPE_CHECKING:
    from capplan.core.plan.comparison import Comparison
    from capplan.report.sections import Line

_ONE = Batches(choice=BatchChoice.LISTED, sizes=(1,))


def _several(flag: str, members: Iterable[str], default: str) -> Option:
    """Return an option that takes lists of an enumeration's words."""
    return Option(
        help=f"{', '.join(members)}; repeatable; {default} by default.",
        flags=(flag,),
        metavar="NAME[,NAME]",
        topic=Topic.WORKLOAD,
        doors=EVERYWHERE,
    )


@dataclass(frozen=True, kw_only=True)
class _ComparedFields:
    models: Annotated[
        tuple[Text, ...],
        Meta(max_length=64),
        Option(help=MODEL_HELP, metavar="MODEL", topic=Topic.MODEL, is_argument=True, completes="models"),
    ] = ()
    batches: Annotated[
        Batches,
        Option(
            help="8, 1,8,32, 1..1024 (powers of two), auto (the recommended), or max.", flags=("--batch", "-b"),
            words=BATCHES, metavar="SIZES", topic=Topic.WORKLOAD, shows_default=True, doors=EVERYWHERE,
        ),
    ] = _ONE  # fmt: skip
    precisions: Annotated[tuple[Precision, ...], _several("--precision", Precision, "fp32,fp16")] = (
        Precision.FP32,
        Precision.FP16,
    )
    frameworks: Annotated[tuple[Framework, ...], _several("--framework", Framework, "eager,compile")] = (
        Framework.EAGER,
        Framework.COMPILE,
    )
    layouts: Annotated[tuple[Layout, ...], _several("--layout", Layout, "nchw")] = (Layout.NCHW,)
    torch_version: Annotated[
        tuple[int, int],
        Option(
            help="PyTorch version to answer for; it decides kernels.", flags=("--torch",), metavar="MAJOR.MINOR",
            topic=Topic.WORKLOAD, words=TORCH_VERSION, shows_default=True, doors=EVERYWHERE,
        ),
    ] = DEFAULT_TORCH  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CompareQuestion(
    _ComparedFields, InputFields, GpuFields, TrainingFields, HostFields, LimitFields, CurrencyFields,
    PriceFields, EnergyFields,
):  # fmt: skip
    """Models, number formats, frameworks and layouts, one row for each on each GPU and batch."""

    sort: Annotated[
        RowOrder,
        Option(
            help=f"Order the rows by {', '.join(RowOrder)}; asked is the order of the command.", metavar="TEXT",
            topic=Topic.ANSWER, shows_default=True, choice="sort key",
        ),
    ] = RowOrder.ASKED  # fmt: skip


def answer_compare(question: CompareQuestion, context: Context) -> "Comparison":
    """Return a row for each model, number format, framework, layout, GPU and batch.

    Args:
        question: the models, GPUs, batches and conditions.
        context: how the door finds models and GPUs.

    Raises:
        UsageError: there is no such model or GPU, or no model is named.
        TraceError: a model could be traced under none of the conditions.
    """
    from capplan.app.compare import compare
    from capplan.app.plan import PlanContext, PlanTerms

    if not question.models:
        raise UsageError("models is empty: name at least one.")
    models = [context.model(question.of(words)) for words in question.models]
    gpus = context.gpus(question)
    terms = PlanTerms(
        batches=question.batches,
        workload=Workload(training=question.training(), torch_version=question.torch_version, host=question.host),
        limits=question.limits(),
        power_law=question.power_law(needed=question.sort is RowOrder.ENERGY),
    )
    comparison = compare(
        models,
        terms,
        PlanContext.of(gpus, question.price_filters(), feedback=context.feedback),
        precisions=tuple(dict.fromkeys(question.precisions)),
        frameworks=tuple(dict.fromkeys(question.frameworks)),
        layouts=tuple(dict.fromkeys(question.layouts)),
        order=question.sort,
        names_gpus=gpus.narrows,
    )
    return replace(comparison, local=question.local_currency())


def _lines(answers: "Sequence[Comparison]", _question: CompareQuestion, look: Look) -> "list[Line]":
    from capplan.report.text.comparison import comparison_sections
    from capplan.report.text.styled import styled_lines

    return list(styled_lines(comparison_sections(answers[0], width=look.width), width=look.width))


def _outcome(comparison: "Comparison") -> Outcome:
    """A model that fits under none of the conditions ends in exit code 1."""
    fitting = {row.model for row in comparison.fitting}
    return Outcome(exit_code=int(not all(model.label in fitting for model in comparison.models)))


COMPARE = Verb(
    path="compare",
    question=CompareQuestion,
    summary=(
        "Put models, precisions and frameworks side by side on the same GPUs and batches.\n\n"
        "Without --gpu, the GPUs are those that `capplan plan` recommends for the first model."
    ),
    examples=(
        "capplan compare resnet50 timm:convnext_tiny --gpu l4 --batch 32",
        "capplan compare resnet50 --gpu l4,a10 --batch 1,32 --precision fp32,amp-fp16,fp16 --framework eager "
        "--sort cost",
        "capplan compare resnet50.trace.json timm:vit_base_patch16_224 --gpu a100 --batch 32 --format csv -o rows.csv",
    ),
    answer=answer_compare,
    sections=laid_out_by("capplan.report.text.comparison:comparison_sections"),
    lines=_lines,
    document=laid_out_by("capplan.report.documents.comparison:comparison_document"),
    outcome=_outcome,
    schema="compare",
    returns="capplan.core.plan.comparison:Comparison",
)
