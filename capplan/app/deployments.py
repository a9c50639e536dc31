"""Find the deployments that words name, and which offers a search knows of their GPUs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from capplan.core.gpus.prices import Price, offers_to_plan_with
from capplan.core.gpus.sale import is_announced
from capplan.core.gpus.spec import GpuSpec
from capplan.core.power import PowerLaw
from capplan.llm.core.deployment import NamedDeployment, ServingDeployment, build_deployment
from capplan.llm.core.engines import LlmMemoryConstants
from capplan.llm.core.model_query import LanguageModel
from capplan.llm.core.search.measured_runs import named_runs_of, time_adjustment
from capplan.llm.core.search.plan import check_load
from capplan.llm.core.search.search import Search, SearchSpace
from capplan.llm.core.serving.cases import MeasuredRun
from capplan.llm.core.serving.evidence import Adjustment
from capplan.llm.core.tensors import count_parameters
from capplan.llm.core.timing.calibration import LlmCalibration
from capplan.llm.core.timing.constants import constants_of
from capplan.llm.core.yarn import MARK
from capplan.llm.read.calibrations import load_llm_memory
from capplan.llm.read.catalogue import models_of_equal_size, stored_checkpoint
from capplan.llm.read.sources import find_model
from capplan.specs import Gpus
from capplan.specs.fitted import load_power_law
from capplan.specs.prices import Prices

DEFAULT_CPU = "ryzen-9-7950x"
"""The host's CPU where layers are left to it and none is named: a desktop with two channels of DDR5."""


@dataclass(slots=True)
class Deployments:
    """Finds deployments, each once.

    `assumes_narrow_cache` says that a KV format that is not stated is fp8 where the weights are narrower than 16 bits,
    as in most published runs; otherwise it is 16 bits unless the checkpoint declares fp8. The cap of `power_law` is set
    on every GPU; None leaves them their limits.
    """

    gpus: Gpus
    assumes_narrow_cache: bool = False
    power_law: PowerLaw | None = None
    memory: LlmMemoryConstants = field(default_factory=load_llm_memory)
    _models: dict[str, LanguageModel] = field(default_factory=dict)
    _relatives: dict[str, frozenset[str]] = field(default_factory=dict)
    _found: dict[NamedDeployment, ServingDeployment] = field(default_factory=dict)

    def find(self, words: NamedDeployment) -> ServingDeployment:
        if words not in self._found:
            model = self.model(words.model)
            found = build_deployment(
                replace(words, adapters=model.served_adapters(words.adapters)),
                model=model,
                gpu=self.gpus.find(words.gpu),
                constants=self.memory,
                assumes_narrow_cache=self.assumes_narrow_cache,
                power_law=self._law(words.power_limit_w),
                cpu=self.gpus.find(words.cpu or DEFAULT_CPU) if words.sharding.offload else None,
                drafter=self.model(words.drafter.model) if words.drafter and words.drafter.model else None,
            )
            self._found[words] = replace(found, relatives=self._relatives[words.model])
        return self._found[words]

    def _law(self, limit_w: float | None) -> PowerLaw | None:
        return self.power_law if limit_w is None else replace(self.power_law or load_power_law(), cap_w=limit_w)

    def model(self, name: str) -> LanguageModel:
        if name not in self._models:
            model = self._models[name] = find_model(name)
            self._relatives[name] = models_of_equal_size(count_parameters(model.architecture))
        return self._models[name]

    def search(
        self, question: SearchSpace, *, calibration: LlmCalibration, measured: Sequence[MeasuredRun] = ()
    ) -> Search:
        check_load(question.load)
        model = self.model(question.model)
        drafter = question.load.speculation.drafter if question.load.speculation else None
        constants = constants_of(calibration)
        found: dict[NamedDeployment, Adjustment | None] = {}

        def adjustment(deployment: ServingDeployment) -> Adjustment | None:
            if measured and deployment.words not in found:
                own = named_runs_of(measured, deployment)
                found[deployment.words] = time_adjustment(own, deployment, calibration, constants)
            return found.get(deployment.words)

        return Search(
            question=question,
            model=model,
            find=self.find,
            find_gpu=self.gpus.find,
            memory=self.memory,
            calibration=calibration,
            constants=constants,
            adjustment=adjustment,
            power_law=self.power_law,
            checkpoint=lambda weights: stored_checkpoint(model.architecture.name.partition(MARK)[0], weights),
            draft_model=self.model(drafter.model) if drafter and drafter.model else None,
        )


_SEARCHED_SEGMENTS = ("data-centre",)


def on_demand_offers(known: Prices) -> dict[str, tuple[Price, ...]]:
    """Return the current on-demand offers of every GPU that has some."""
    return dict(offers_to_plan_with(known.hourly))


def searched_gpus(gpus: Mapping[str, GpuSpec], rents: Mapping[str, tuple[Price, ...]]) -> tuple[str, ...]:
    """Return the GPUs that are searched where none is named: those of data centres that are sold and can be rented."""
    sold = (gpu for gpu in gpus.values() if not is_announced(gpu))
    return tuple(gpu.id for gpu in sold if gpu.id in rents and str(gpu.segment) in _SEARCHED_SEGMENTS)
