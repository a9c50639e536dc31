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
    from capplan.llm.core.start.answer import StartAnswer, StartLaw, StartSize, Surroundings


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
        int | None,
        Meta(ge=1, le=10_000),
        Option(help="Batch sizes for which CUDA graphs are captured; those of the engine by default."),
    ] = None


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
    from capplan.llm.read.start_calibration import load_machine_facts, load_start_law

    engine = question.engine_for(question.model)
    law = load_start_law(engine.value)
    if law is None:
        raise UsageError(
            f"how long {engine.value} starts is not known: too few public logs state it; "
            "ask for ⟨engine⟩ vllm or sglang."
        )
    size = _size(model, question.weights, question.sharding().gpus, law, compiled=question.compiled)
    size = replace(size, graphs=question.graphs or size.graphs)
    around = question.surroundings(is_eager=question.eager)
    if question.asleep is not None:
        around = replace(around, wake=load_machine_facts().wakes[question.asleep])
    started = _started(model.architecture.name, size, around, law, gpu=gpu)
    return replace(started, notes=(law.logs, *_notes(question)))


def start_of_fit(question: MachineStartFields, model: "LanguageModel", fit: "DeploymentFit") -> "Interval":
    """Return how long a replica of a fit takes to start; an engine of which too few logs are known as vLLM does. [s]"""
    law = _law(fit.engine)
    size = _size(model, fit.weights, fit.sharding.gpus, law, compiled=False)
    return _started(model.architecture.name, size, question.surroundings(), law, gpu=fit.gpu).whole_s


def start_of_weights(question: MachineStartFields, weight_bytes: float, gpus: int) -> "Interval":
    """Return how long a replica of any model takes to start: the processes of an engine, its weights, and no graphs."""
    from capplan.llm.core.start.answer import StartSize

    size = StartSize(weight_bytes=weight_bytes, layers=0, has_experts=False, tensor=gpus, graphs=0, is_compiled=False)
    return _started("", size, question.surroundings(is_eager=True), _law(), gpu="").whole_s


def _law(engine: str = "") -> "StartLaw":
    from capplan.core.engine_names import Engine
    from capplan.llm.read.start_calibration import load_start_law

    law = load_start_law(engine) or load_start_law(Engine.VLLM.value)
    assert law is not None  # the law of vLLM is shipped
    return law


def _size(model: "LanguageModel", weights: str | None, gpus: int, law: "StartLaw", *, compiled: bool) -> "StartSize":
    from capplan.llm.core.start.answer import StartSize, weight_bytes_of

    return StartSize(
        weight_bytes=weight_bytes_of(model, model.stored_as(weights)),
        layers=len(model.architecture.layers),
        has_experts=model.architecture.is_moe,
        tensor=gpus,
        graphs=law.graphs,
        is_compiled=compiled,
    )


def _started(model: str, size: "StartSize", around: "Surroundings", law: "StartLaw", *, gpu: str) -> "StartAnswer":
    from capplan.llm.core.start.answer import StartAnswer, StartPart, start_parts

    return StartAnswer(
        model=model,
        gpu=gpu,
        engine=law.engine,
        gpus=size.tensor,
        size=size,
        parts=start_parts(law, size, around),
        spread=law.spreads[StartPart.WHOLE.value],
    )


def _notes(question: StartedReplicaFields) -> tuple[str, ...]:
    from capplan.llm.read.start_calibration import load_machine_facts
    from capplan.units import format_seconds

    notes = []
    if question.storage_bytes_per_s is None:
        notes.append("Weights lie in host memory; ⟨storage⟩ states from where they come otherwise.")
    if question.provision_s is None:
        known = load_machine_facts().provisions_s.items()
        published = "; ".join(f"{who} {format_seconds(time.low)} to {format_seconds(time.high)}" for who, time in known)
        notes.append(f"The machine stands and holds the image; ⟨provision⟩ counts a new one (published: {published}).")
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
    document=laid_out_by("capplan.shapes.llm_scale:START"),
    schema="llm-start",
    returns="capplan.llm.core.start.answer:StartAnswer",
)
