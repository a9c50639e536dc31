"""`llm memory` and `llm models`: what of a GPU a served language model takes, and the catalogue of such models."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from capplan.verbs.llm.fields import (
    AdapterFields,
    DeploymentFields,
    DrafterFields,
    LanguageModelFields,
    MemoryFractionFields,
    ReplicaGpuFields,
)
from capplan.verbs.statement.contract import Context, Look, Outcome, Verb, ids_as_text, laid_out_by
from capplan.verbs.statement.fields import Name, OwnSpecs
from capplan.verbs.statement.options import HERE, Door, Option, Topic
from capplan.verbs.statement.words import SIZE, TOKENS

if TYPE_CHECKING:
    from capplan.llm.core.memory_answer import MemoryAnswer
    from capplan.llm.core.model_query import LanguageModel
    from capplan.report.sections import Line


@dataclass(frozen=True, kw_only=True)
class LlmMemoryQuestion(
    LanguageModelFields, ReplicaGpuFields, DeploymentFields, AdapterFields, MemoryFractionFields, DrafterFields,
):  # fmt: skip
    """How a GPU's memory is divided among weights, activations and the KV cache, and what fits."""

    max_len: Annotated[
        int | None,
        Meta(ge=1, le=10**8),
        Option(
            is_usual=True,
            help="Longest sequence served, such as 32K; the model's own limit by default.", metavar="TOKENS",
            words=TOKENS,
        ),
    ] = None  # fmt: skip
    max_num_batched_tokens: Annotated[
        int | None,
        Meta(ge=1, le=10**8),
        Option(help="Tokens of one step; the engine's default if left out.", metavar="TOKENS", words=TOKENS),
    ] = None
    max_num_seqs: Annotated[
        int | None,
        Meta(ge=1, le=10**8),
        Option(is_usual=True, help="Sequences that run at once; the engine's default if left out."),
    ] = None
    kv_pool_bytes: Annotated[
        float | None,
        Meta(ge=0.0, le=1e18),
        Option(
            help="Take this cache per GPU, such as an engine's log states.", flags=("--kv-pool",), metavar="SIZE",
            words=SIZE,
        ),
    ] = None  # fmt: skip
    specs: OwnSpecs = ()
    calibration: Annotated[
        Path | None, Option(help="Memory rules of engines other than the shipped ones.", metavar="FILE", doors=HERE)
    ] = None


def answer_llm_memory(question: LlmMemoryQuestion, context: Context) -> "MemoryAnswer":
    """Return how a GPU's memory is divided when it serves a language model.

    Raises:
        CapplanError: a name is not known, or the deployment is not possible.
    """
    from capplan.llm.core.engines import parse_version
    from capplan.llm.core.memory_answer import StatedDeployment, answer_memory, with_fitted_offload
    from capplan.llm.read.calibrations import load_llm_memory
    from capplan.llm.read.sources import find_model

    model, drafter = find_model(context.language_model(question.model)), question.named_drafter(context)
    request = StatedDeployment(
        model=model,
        gpu=context.gpu_database(question.specs).find(question.gpu),
        sharding=question.sharding(),
        weights=question.weights,
        kv=question.kv,
        engine=question.engine_for(question.model),
        drafter=drafter,
        draft_model=find_model(drafter.model) if drafter and drafter.model else None,
        version=None if question.engine_version is None else parse_version(question.engine_version),
        sequence_tokens=question.max_len,
        fraction=question.utilization_fraction,
        batched_tokens=question.max_num_batched_tokens,
        max_sequences=question.max_num_seqs,
        pool_bytes=question.kv_pool_bytes,
        adapters=model.served_adapters(question.served_adapters()),
        kv_offload_bytes=question.kv_offload_bytes,
    )
    constants = load_llm_memory(question.calibration)
    return answer_memory(with_fitted_offload(request, constants), constants)


LLM_MEMORY = Verb(
    path="llm memory",
    question=LlmMemoryQuestion,
    summary="Divide a GPU's memory among weights, activations and the KV cache of a served language model.",
    fails_if="no sequence of ⟨max-len⟩ fits, or of any length where that is left out",
    take_it="Take it to learn whether a language model, a context or a number of requests fits one kind of GPU.",
    examples=(
        "capplan llm memory deepseek-v3 --weights fp8 --gpu h200-sxm-141gb --tp 8 --max-len 32768",
        "capplan llm memory qwen3-32b --gpu rtx-4090 --engine llama.cpp --weights q4_k_m --max-len 16384",
    ),
    answer=answer_llm_memory,
    sections=laid_out_by("capplan.report.text.llm.memory:llm_memory_sections"),
    fits_one_screen=True,
    document=laid_out_by("capplan.shapes.llm_memory:MEMORY"),
    outcome=lambda found: Outcome(exit_code=0 if found.holds_what_was_asked else 1),
    schema="llm-memory",
    returns="capplan.llm.core.memory_answer:MemoryAnswer",
)


@dataclass(frozen=True, kw_only=True)
class LlmModelsQuestion:
    """Which language models are known, and what they are made of."""

    names: Annotated[
        tuple[Name, ...],
        Meta(max_length=400),
        Option(
            help="Show these only: catalogue names or hf: files.", metavar="[MODEL]...", topic=Topic.MODEL,
            is_argument=True,
        ),
    ] = ()  # fmt: skip
    where: Annotated[
        tuple[Name, ...],
        Meta(max_length=64),
        Option(
            help="'params < 40B', 'moe = yes and context >= 128k', 'attention = mla'; repeatable.",
            metavar="CONDITION",
        ),
    ] = ()  # fmt: skip
    ids: Annotated[bool, Option(help="Print names only, one per line.", flags=("--ids", "-q"), doors=Door.COMMAND)] = (
        False
    )


def answer_llm_models(question: LlmModelsQuestion, context: Context) -> "tuple[LanguageModel, ...]":
    """Return the language models that a question names, or all that are known, as far as they meet its conditions.

    Raises:
        CapplanError: a name is not known, or a condition cannot be read.
    """
    from capplan.llm.core.model_query import select_models
    from capplan.llm.read.catalogue import load_catalogue
    from capplan.llm.read.sources import find_model

    named = [find_model(context.language_model(name)) for name in question.names]
    return tuple(select_models(named or list(load_catalogue().values()), question.where))


def _model_names(
    answers: "Sequence[tuple[LanguageModel, ...]]", question: LlmModelsQuestion, _look: Look
) -> "list[Line] | None":
    from capplan.report.sections import line

    return [line(model.architecture.name) for model in answers[0]] if question.ids else None


LLM_MODELS = Verb(
    path="llm models",
    question=LlmModelsQuestion,
    summary="List the language models that capplan knows, with filters.",
    examples=(
        "capplan llm models --where 'params < 40B'",
        "capplan llm models deepseek-v3 hf:path/to/config.json --json",
    ),
    answer=answer_llm_models,
    finalize=ids_as_text,
    sections=laid_out_by("capplan.report.text.llm.memory:llm_model_sections"),
    fits_one_screen=True,
    lines=_model_names,
    document=laid_out_by("capplan.shapes.llm_memory:MODELS"),
    schema="llm-models",
    returns="capplan.llm.core.model_query:LanguageModel[]",
)
