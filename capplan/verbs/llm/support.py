"""`llm support`: which engines read which formats of a language model's weights on a GPU."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from capplan.verbs.llm.fields import LanguageModelFields, ReplicaGpuFields
from capplan.verbs.statement.contract import Context, Outcome, Verb, laid_out_by
from capplan.verbs.statement.fields import OwnSpecs

if TYPE_CHECKING:
    from capplan.llm.core.memory_answer import SupportAnswer


@dataclass(frozen=True, kw_only=True)
class LlmSupportQuestion(LanguageModelFields, ReplicaGpuFields):
    """Which engines read which formats of a model's weights on a GPU."""

    specs: OwnSpecs = ()


def answer_llm_support(question: LlmSupportQuestion, context: Context) -> "SupportAnswer":
    """Return which engines read which formats of a model's weights on a GPU, since which version.

    Raises:
        CapplanError: a name is not known.
    """
    from capplan.llm.core.memory_answer import answer_support
    from capplan.llm.read.calibrations import load_engine_support
    from capplan.llm.read.sources import find_model

    model = find_model(context.language_model(question.model))
    return answer_support(model, context.gpu_database(question.specs).find(question.gpu), load_engine_support())


LLM_SUPPORT = Verb(
    path="llm support",
    question=LlmSupportQuestion,
    summary="Tell which engines read which formats of a language model's weights on a GPU, and since which version.",
    fails_if="none reads any",
    examples=(
        "capplan llm support minimax-m2.5 --gpu a100-sxm4-80gb",
        "capplan llm support gpt-oss-20b --gpu rtx-3090 --json",
    ),
    answer=answer_llm_support,
    sections=laid_out_by("capplan.report.text.llm.memory:llm_support_sections"),
    fits_one_screen=True,
    document=laid_out_by("capplan.shapes.llm_memory:SUPPORT"),
    outcome=lambda found: Outcome(exit_code=0 if any(row.runs for row in found.rows) else 1),
    schema="llm-support",
    returns="capplan.llm.core.memory_answer:SupportAnswer",
)
