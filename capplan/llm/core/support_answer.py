"""Answer which engines read which formats of a model's weights on a GPU."""

from dataclasses import dataclass

from capplan.core.gpus.spec import GpuSpec
from capplan.llm.core.engine_support import SHOWN_FORMATS, EngineSupport, FormatSupport
from capplan.llm.core.model_query import LanguageModel
from capplan.llm.core.tensors import WeightRole


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportAnswer:
    """The formats of a model by engine on a GPU, for the newest releases that are known."""

    model: LanguageModel
    gpu: GpuSpec
    rows: tuple[FormatSupport, ...]


def answer_support(model: LanguageModel, gpu: GpuSpec, support: EngineSupport) -> SupportAnswer:
    """Return which engines read which formats of a model's weights on a GPU; its own format stands first."""
    own = model.own_quantisation
    names = dict.fromkeys((own.format.name, *SHOWN_FORMATS))
    quantised = {name: own if name == own.format.name else model.stored_as(name) for name in names}
    experts = {
        name: model.architecture.is_moe and WeightRole.EXPERT in found.roles for name, found in quantised.items()
    }
    return SupportAnswer(model=model, gpu=gpu, rows=support.table(gpu, experts, model.architecture.special_attention))
