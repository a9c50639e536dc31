"""Find the deployments that words name: the model, the GPU, and what is computed from both."""

from dataclasses import dataclass, field

from capplan.core.energy.power import PowerLaw
from capplan.llm.core.deployment import DeploymentWords, ServingDeployment, build_deployment
from capplan.llm.core.engines import LlmMemoryConstants
from capplan.llm.core.model import LanguageModel
from capplan.llm.core.tensors import count_parameters
from capplan.llm.read.catalogue import models_of_equal_size
from capplan.llm.read.memory_calibration import load_llm_memory
from capplan.llm.read.sources import find_model
from capplan.specs import Gpus

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
    download: bool = False
    power_law: PowerLaw | None = None
    memory: LlmMemoryConstants = field(default_factory=load_llm_memory)
    _models: dict[str, LanguageModel] = field(default_factory=dict)
    _found: dict[DeploymentWords, ServingDeployment] = field(default_factory=dict)

    def find(self, words: DeploymentWords) -> ServingDeployment:
        """Return a deployment.

        Raises:
            CapplanError: The model, GPU, engine or format is not known, or the model cannot be shared that way.
        """
        if words not in self._found:
            model = self.model(words.model)
            self._found[words] = build_deployment(
                words,
                model=model,
                gpu=self.gpus.find(words.gpu),
                constants=self.memory,
                relatives=models_of_equal_size(count_parameters(model.architecture)),
                assumes_narrow_cache=self.assumes_narrow_cache,
                power_law=self.power_law,
                cpu=self.gpus.find(words.cpu or DEFAULT_CPU) if words.sharding.offload else None,
            )
        return self._found[words]

    def model(self, name: str) -> LanguageModel:
        """Return a model by name, file or folder.

        Raises:
            CapplanError: There is no such model, or it cannot be read.
        """
        if name not in self._models:
            self._models[name] = find_model(name, download=self.download)
        return self._models[name]
