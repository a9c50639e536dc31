"""The GPUs of this machine as what a plan may use, and the largest language model that they hold."""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from capplan.errors import UsageError
from capplan.verbs.llm.plan_question import LlmPlanQuestion
from capplan.verbs.statement.contract import Context
from capplan.verbs.statement.fields import SpecFields

if TYPE_CHECKING:
    from capplan.core.gpus.spec import GpuSpec
    from capplan.llm.core.search.own_machine import HeldModel

_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnGpus:
    """The GPUs of one kind that a machine has, and sentences on it."""

    gpu: "GpuSpec"
    count: int
    notes: tuple[str, ...]


def gpus_here(question: LlmPlanQuestion, context: Context) -> OwnGpus:
    """Return the GPUs of this machine, of the kind with the most memory in all."""
    from capplan.verbs.gpus import answer_detect

    if question.gpus or question.providers or question.regions:
        raise UsageError("⟨here⟩ plans for the GPUs of this machine: leave out ⟨gpu⟩, ⟨provider⟩ and ⟨region⟩.")
    found = answer_detect(SpecFields(specs=question.specs), context)
    if not found.matches:
        raise UsageError(f"no GPU is found on this machine ({'; '.join(found.reasons)}): name one by ⟨gpu⟩.")
    kinds = Counter(spec.id for _, spec in found.matches if spec is not None)
    unknown = [device.name for device, spec in found.matches if spec is None]
    if not kinds:
        raise UsageError(f"the GPU database does not have {unknown[0]!r}, the GPU of this machine: name one by ⟨gpu⟩.")
    specs = {spec.id: spec for _, spec in found.matches if spec is not None}
    best = max(kinds, key=lambda name: kinds[name] * specs[name].expected_usable_bytes)
    others = [*unknown, *(f"{count} × {name}" for name, count in kinds.items() if name != best)]
    mixed = (f"left out: {', '.join(others)}; a replica is planned on GPUs of one kind",) if others else ()
    return OwnGpus(gpu=specs[best], count=kinds[best], notes=(f"{kinds[best]} × {best} of this machine", *mixed))


def planned_here(question: LlmPlanQuestion, context: Context) -> tuple[LlmPlanQuestion, OwnGpus]:
    """Return the question for this machine's GPUs, and these, with what they hold.

    The largest model that they hold is planned where none is named, and one client where no load is stated.
    """
    own, named = gpus_here(question, context), bool(question.model)
    loads = (question.rate_per_s, question.concurrency, question.prompts, question.users)
    clients = 1.0 if all(load is None for load in loads) else question.concurrency
    question = replace(question, gpus=(own.gpu.id,), concurrency=clients)
    if named and (question.engines or question.weights or not question.choice().is_open or question.offload()):
        return question, own
    first, *others = _held(question, own, context)
    size = "" if named else "the largest model that they hold: "
    also = (f"it holds {'; '.join(model.words for model in others)}, too",) if others else ()
    held = replace(
        question, model=question.model or first.model, engines=(first.engine.value,),
        weights=(first.weights,) if first.weights else (), tp=(first.sharding.tensor,), pp=(first.sharding.pipeline,),
    )  # fmt: skip
    machine, *notes = own.notes
    return held, replace(own, notes=(f"{machine}; {size}{first.words}", *also, *notes))


def _held(question: LlmPlanQuestion, own: OwnGpus, context: Context) -> "tuple[HeldModel, ...]":
    """Return the model that is named, or the largest ones of the catalogue, as the GPUs hold them."""
    from capplan.llm.core.search.own_machine import held_models
    from capplan.llm.read.calibrations import load_llm_memory
    from capplan.llm.read.catalogue import load_catalogue
    from capplan.llm.read.sources import find_model

    named = (find_model(context.language_model(question.model)),) if question.model else load_catalogue().values()
    tokens = question.input_len + question.output_len
    held = tuple(islice(held_models(named, own.gpu, own.count, tokens=tokens, constants=load_llm_memory()), _SHOWN))
    if not held:
        raise UsageError(
            f"this machine's {own.count} × {own.gpu.id} cannot hold a request of {tokens:,} tokens to "
            f"{question.model or 'any model of the catalogue'}, not in four bits either."
        )
    return held
