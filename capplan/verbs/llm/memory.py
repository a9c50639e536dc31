"""`llm memory`: weights, activations and KV cache of a served language model, and what fits."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from capplan.verbs.llm.fields import DOWNLOAD, AdapterFields, DeploymentFields, LanguageModelFields, ReplicaGpuFields
from capplan.verbs.statement.contract import Context, Outcome, Verb
from capplan.verbs.statement.fields import OwnSpecs
from capplan.verbs.statement.options import HERE, Option, Topic
from capplan.verbs.statement.words import SIZE

if TYPE_CHECKING:
    from capplan.llm.core.memory_answer import MemoryAnswer
    from capplan.report.sections import Section


@dataclass(frozen=True, kw_only=True)
class LlmMemoryQuestion(LanguageModelFields, ReplicaGpuFields, DeploymentFields, AdapterFields):
    """How a GPU's memory is divided among weights, activations and the KV cache, and what fits."""

    max_len: Annotated[
        int | None,
        Meta(ge=1, le=10**8),
        Option(help="Longest sequence served; the model's own limit by default.", metavar="TOKENS"),
    ] = None
    utilization_fraction: Annotated[
        float | None,
        Meta(ge=0.01, le=1.0),
        Option(
            help="The engine's memory fraction; its default if left out.",
            flags=("--utilization", "--gpu-memory-utilization"), topic=Topic.LIMITS,
        ),
    ] = None  # fmt: skip
    max_num_batched_tokens: Annotated[
        int | None,
        Meta(ge=1, le=10**8),
        Option(help="Tokens of one step; the engine's default if left out."),
    ] = None
    max_num_seqs: Annotated[
        int | None,
        Meta(ge=1, le=10**8),
        Option(help="Sequences that run at once; the engine's default if left out."),
    ] = None
    kv_pool_bytes: Annotated[
        float | None,
        Meta(ge=0.0, le=1e18),
        Option(
            help="Take this cache per GPU, such as an engine's log states.", flags=("--kv-pool",), metavar="SIZE",
            words=SIZE,
        ),
    ] = None  # fmt: skip
    download: Annotated[bool, DOWNLOAD] = False
    specs: OwnSpecs = ()
    calibration: Annotated[
        Path | None, Option(help="Memory rules of engines other than the shipped ones.", metavar="FILE", doors=HERE)
    ] = None


def answer_llm_memory(question: LlmMemoryQuestion, context: Context) -> "MemoryAnswer":
    """Return how a GPU's memory is divided when it serves a language model.

    Args:
        question: the model, the GPU, how the model is shared, and what the engine may take.
        context: how the door finds models and GPUs.

    Raises:
        CapplanError: a name is not known, or the deployment is not possible.
    """
    from capplan.llm.core.engines import parse_version
    from capplan.llm.core.memory_answer import StatedDeployment, answer_memory
    from capplan.llm.read.calibrations import load_llm_memory
    from capplan.llm.read.sources import find_model

    request = StatedDeployment(
        model=find_model(context.language_model(question.model), download=question.download),
        gpu=context.gpu_database(question.specs).find(question.gpu),
        sharding=question.sharding(),
        weights=question.weights,
        kv=question.kv,
        engine=question.engine_for(question.model),
        version=None if question.engine_version is None else parse_version(question.engine_version),
        sequence_tokens=question.max_len,
        fraction=question.utilization_fraction,
        batched_tokens=question.max_num_batched_tokens,
        max_sequences=question.max_num_seqs,
        pool_bytes=question.kv_pool_bytes,
        adapters=question.served_adapters(),
        kv_offload_bytes=question.kv_offload_bytes,
    )
    return answer_memory(request, load_llm_memory(question.calibration))


def _sections(answers: "Sequence[MemoryAnswer]", _question: LlmMemoryQuestion) -> "Iterable[Section]":
    from capplan.report.text.llm.memory import llm_memory_sections

    return llm_memory_sections(answers[0])


def _document(answers: "Sequence[MemoryAnswer]", _question: LlmMemoryQuestion) -> Any:
    from capplan.report.documents.llm.memory import llm_memory_document

    return llm_memory_document(answers[0])


LLM_MEMORY = Verb(
    path="llm memory",
    question=LlmMemoryQuestion,
    summary="Divide a GPU's memory among weights, activations and the KV cache of a served language model.\n\n"
    "Exit 1 if no sequence of --max-len fits, or of any length where that is left out.",
    examples=(
        "capplan llm memory deepseek-v3 --weights fp8 --gpu h200-sxm-141gb --tp 8 --max-len 32768",
        "capplan llm memory qwen3-32b --gpu rtx-4090 --engine llama.cpp --weights q4_k_m --max-len 16384",
    ),
    answer=answer_llm_memory,
    sections=_sections,
    is_one_screen=True,
    document=_document,
    outcome=lambda found: Outcome(exit_code=0 if found.holds_what_was_asked else 1),
    schema="llm-memory",
    returns="capplan.llm.core.memory_answer:MemoryAnswer",
)
