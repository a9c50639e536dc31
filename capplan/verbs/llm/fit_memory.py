"""`llm fit-memory`: learn vLLM's memory constants from its start-up logs."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from capplan.verbs.statement.contract import Context, Outcome, Verb
from capplan.verbs.statement.options import HERE, Option, Topic

if TYPE_CHECKING:
    from capplan.llm.answer.fit_serving import FittedMemoryFile


@dataclass(frozen=True, kw_only=True)
class LlmFitMemoryQuestion:
    """The memory that an engine takes beside weights and cache, as its start-up logs show it."""

    logs: Annotated[
        Path,
        Option(
            help="What vLLM logged at start-up, plain or .gz.", metavar="LOGS.csv", topic=Topic.MODEL,
            is_argument=True, doors=HERE,
        ),
    ]  # fmt: skip
    since: Annotated[
        str,
        Meta(max_length=200),
        Option(help="First version of vLLM that the logs are of.", metavar="VERSION", shows_default=True),
    ] = "0.17"
    base: Annotated[
        Path | None,
        Option(help="Calibration to start from instead of the shipped one.", metavar="FILE", doors=HERE),
    ] = None
    data: Annotated[
        str | None,
        Meta(max_length=1000),
        Option(help="What the logs are, for the file's origin; the file's name by default.", metavar="TEXT"),
    ] = None


def answer_llm_fit_memory(question: LlmFitMemoryQuestion, context: Context) -> "FittedMemoryFile":
    """Return memory constants that are learnt from vLLM's start-up logs, and the calibration file that holds them.

    Args:
        question: the logs, and what they are of.
        context: how the door reports progress.

    Raises:
        CapplanError: the logs cannot be read or are too few.
    """
    from datetime import UTC, datetime

    from capplan.llm.answer.fit_serving import fit_memory_file

    made = datetime.now(tz=UTC).date()
    with context.feedback.progress("fitting"):
        return fit_memory_file(question.logs, since=question.since, base=question.base, made=made, data=question.data)


def _outcome(found: "FittedMemoryFile") -> Outcome:
    left_out = sum(found.unknown_models.values())
    rows = f"fitted on {found.fitted.rows} starts; {left_out} of models outside the catalogue were left out"
    return Outcome(warnings=(rows,))


LLM_FIT_MEMORY = Verb(
    path="llm fit-memory",
    question=LlmFitMemoryQuestion,
    summary="Learn vLLM's memory constants from its start-up logs and write a calibration file.",
    examples=("capplan llm fit-memory vllm-memory.csv.gz -o llm-memory.yaml",),
    answer=answer_llm_fit_memory,
    text=lambda found, _: found.text,
    outcome=_outcome,
    returns="capplan.llm.answer.fit_serving:FittedMemoryFile",
)
