"""`llm start`: how long a replica of a language model takes from its order to its first answer."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from capplan.core.engine_names import Asleep
from capplan.errors import UsageError
from capplan.verbs.llm.fields import DeploymentFields, LanguageModelFields, ReplicaGpuFields
from capplan.verbs.llm.ways import MachineStartFields
from capplan.verbs.statement.contract import Context, Verb, laid_out_by
from capplan.verbs.statement.fields import OwnSpecs
from capplan.verbs.statement.options import Option

if TYPE_CHECKING:
    from capplan.core.numbers import Interval
    from capplan.llm.core.fleet.deployment_plan import DeploymentFit
    from capplan.llm.core.model_query import LanguageModel
    from capplan.llm.core.start.answer import StartAnswer, Surroundings
    from capplan.llm.core.start.law import StartSize

_GRAPHS = 67
"""Batch sizes for which an engine captures CUDA graphs where nothing is stated."""


@dataclass(frozen=True, kw_only=True)
class StartedReplicaFields(LanguageModelFields, ReplicaGpuFields, DeploymentFields, MachineStartFields):
    """A replica that starts, and what decides how long that takes."""

    compiled: Annotated[
        bool, Option(help="The compiler's cache holds the model from an earlier start, as on a shared volume.")
    ] = False
    asleep: Annotated[
        Asleep | None,
        Option(
            help="What the engine wakes from: sleep-1 (weights in host memory), sleep-2 (read anew) or snapshot.",
            flags=("--from",), metavar="SLEEP",
        ),
    ] = None  # fmt: skip
    eager: Annotated[bool, Option(help="Without compiler and CUDA graphs (--enforce-eager).")] = False
    graphs: Annotated[
        int, Meta(ge=1, le=10_000), Option(help="Batch sizes for which CUDA graphs are captured.", shows_default=True)
    ] = _GRAPHS


@dataclass(frozen=True, kw_only=True)
class LlmStartQuestion(StartedReplicaFields):
    """How long a replica of a language model takes to start, part by part."""

    specs: OwnSpecs = ()


def answer_llm_start(question: LlmStartQuestion, context: Context) -> "StartAnswer":
    """Return how long a replica takes to start, part by part.

    Raises:
        CapplanError: a name is not known, or no start of the engine is known.
    """
    from capplan.llm.read.sources import find_model

    model = find_model(context.language_model(question.model))
    gpu = context.gpu_database(question.specs).find(question.gpu)
    return start_of(question, model, gpu=gpu.id)


def start_of(question: StartedReplicaFields, model: "LanguageModel", *, gpu: str) -> "StartAnswer":
    """Return how long a replica of a model takes to start on a GPU."""
    from capplan.core.engine_names import Engine
    from capplan.llm.read.start_calibration import load_machine_facts

    engine = question.engine_for(question.model)
    if engine is not Engine.VLLM:
        raise UsageError(
            f"how long {engine.value} starts is not known: too few public logs state it; ask for ⟨engine⟩ vllm."
        )
    size = _size(model, question.weights, question.sharding().gpus, graphs=question.graphs, compiled=question.compiled)
    around = question.surroundings(is_eager=question.eager)
    if question.asleep is not None:
        around = replace(around, wake=load_machine_facts().wakes[question.asleep])
    started = _started(model.architecture.name, size, around, gpu=gpu, engine=engine.value)
    return replace(started, notes=_notes(question))


def start_of_fit(question: MachineStartFields, model: "LanguageModel", fit: "DeploymentFit") -> "Interval":
    """Return how long a replica of a fit takes to start, whatever its engine, as one of vLLM does. [s]"""
    size = _size(model, fit.weights, fit.sharding.gpus, graphs=_GRAPHS, compiled=False)
    return _started(model.architecture.name, size, question.surroundings(), gpu=fit.gpu, engine=fit.engine).whole_s


def start_of_weights(question: MachineStartFields, weight_bytes: float, gpus: int) -> "Interval":
    """Return how long a replica of any model takes to start: the processes of an engine, its weights, and no graphs."""
    from capplan.llm.core.start.law import StartSize

    size = StartSize(weight_bytes=weight_bytes, layers=0, has_experts=False, tensor=gpus, graphs=0, is_compiled=False)
    return _started("", size, question.surroundings(is_eager=True), gpu="", engine="").whole_s


def _size(model: "LanguageModel", weights: str | None, gpus: int, *, graphs: int, compiled: bool) -> "StartSize":
    from capplan.llm.core.start.answer import weight_bytes_of
    from capplan.llm.core.start.law import StartSize

    return StartSize(
        weight_bytes=weight_bytes_of(model, model.stored_as(weights)),
        layers=len(model.architecture.layers),
        has_experts=model.architecture.is_moe,
        tensor=gpus,
        graphs=graphs,
        is_compiled=compiled,
    )


def _started(model: str, size: "StartSize", around: "Surroundings", *, gpu: str, engine: str) -> "StartAnswer":
    from capplan.llm.core.start.answer import StartAnswer, start_parts
    from capplan.llm.core.start.law import StartPart
    from capplan.llm.read.start_calibration import load_start_law

    law = load_start_law()
    return StartAnswer(
        model=model,
        gpu=gpu,
        engine=engine,
        gpus=size.tensor,
        size=size,
        parts=start_parts(law, size, around),
        spread=law.spreads[StartPart.WHOLE.value],
    )


def _notes(question: StartedReplicaFields) -> tuple[str, ...]:
    notes = [
        "Logs of vLLM 0.10 and 0.11 on H100, L40S and A100 with 1, 4 and 8 GPUs; releases before 0.10 capture graphs "
        "10 times slower, and 4-bit formats of new cards can add minutes of warm-up."
    ]
    if question.storage_bytes_per_s is None:
        notes.append("Weights lie in host memory; ⟨storage⟩ states from where they come otherwise.")
    if question.provision_s is None:
        notes.append("The machine stands and holds the image; ⟨provision⟩ counts a new one.")
    return tuple(notes)


LLM_START = Verb(
    path="llm start",
    question=LlmStartQuestion,
    summary="Estimate how long a replica of a language model takes to start, from machine and image to graphs.",
    examples=(
        "capplan llm start qwen3-32b --gpu h100-sxm5-80gb --storage 2GB/s",
        "capplan llm start llama-3.1-8b-instruct --gpu l4 --storage 500MB/s --provision 90s --compiled --json",
    ),
    answer=answer_llm_start,
    sections=laid_out_by("capplan.report.text.llm.start:llm_start_sections"),
    fits_one_screen=True,
    document=laid_out_by("capplan.shapes.llm_start:START"),
    schema="llm-start",
    returns="capplan.llm.core.start.answer:StartAnswer",
)
