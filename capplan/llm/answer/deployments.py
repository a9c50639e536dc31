"""Turn the words of a deployment into what the time model needs: model, GPU, kernels, and what fits in memory."""

from collections.abc import Callable
from dataclasses import dataclass, field

from capplan.core.gpus.spec import GpuSpec
from capplan.core.serving_engines import find_engine
from capplan.errors import UsageError
from capplan.llm.answer.capacity import divide, sequences_that_fit, version_of
from capplan.llm.core.engines import LlmMemoryConstants
from capplan.llm.core.kv import kv_element_bytes
from capplan.llm.core.memory import StageMemory
from capplan.llm.core.memory_answer import MemoryRequest
from capplan.llm.core.model import LanguageModel
from capplan.llm.core.quantisation import Quantisation
from capplan.llm.core.serving.evidence import Evidence, evidence_of
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.tensors import all_tensors, count_parameters
from capplan.llm.core.timing.calibration import LlmCalibration
from capplan.llm.core.timing.engine_rules import decode_class, engine_variant, prefill_class
from capplan.llm.core.timing.machine import Machine, machine_of
from capplan.llm.core.timing.stage_kernels import Formats, stage_kernels
from capplan.llm.core.timing.work import Kernels, kernel_classes
from capplan.llm.core.weights import EngineLayout, stage_weights
from capplan.llm.read.catalogue import models_of_equal_size
from capplan.llm.read.memory_calibration import load_llm_memory
from capplan.llm.read.sources import find_model
from capplan.specs import Gpus

_NARROW_CACHE = {"fp8", "fp8_block", "nvfp4", "mxfp4", "int4_wo"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentWords:
    """What names a deployment; empty words stand for defaults."""

    model: str
    gpu: str
    engine: str
    sharding: Sharding
    weights: str = ""
    kv: str = ""
    version: str = ""
    link_bytes_per_s: float | None = None
    max_sequences: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingDeployment:
    """A deployment that was found, checked, and reduced to kernels.

    `sequences_that_fit` returns how many sequences of a length fit in one replica's memory, 0 where the weights do not.
    `stage` is the memory of the tightest GPU, `relatives` the ids of models that have the same layers.
    """

    words: DeploymentWords
    model: LanguageModel
    gpu: GpuSpec
    engine: str
    quantisation: Quantisation
    kv: str
    machine: Machine
    kernels: Kernels
    sequences_that_fit: Callable[[float], float]
    stage: StageMemory
    relatives: frozenset[str] = frozenset()

    def evidence(self, calibration: LlmCalibration) -> Evidence:
        """Classify the deployment by what a calibration was learnt from; a model of the same layers is as good."""
        name = self.model.architecture.name
        measured = self.relatives & calibration.measured_models
        return evidence_of(
            calibration,
            model=min(measured) if measured and name not in calibration.measured_models else name,
            gpu=self.gpu.id,
            vendor=self.gpu.vendor,
            engine=self.engine,
            segment=str(self.gpu.segment) if self.gpu.segment else None,
            kernels=kernel_classes(self.kernels),
        )


@dataclass(slots=True)
class Deployments:
    """Finds deployments, each once.

    `assumes_narrow_cache` says that a KV format that is not stated is fp8 where the weights are narrower than 16 bits,
    as in most published runs; otherwise it is 16 bits unless the checkpoint declares fp8.
    """

    gpus: Gpus
    assumes_narrow_cache: bool = False
    download: bool = False
    memory: LlmMemoryConstants = field(default_factory=load_llm_memory)
    _models: dict[str, LanguageModel] = field(default_factory=dict)
    _found: dict[DeploymentWords, ServingDeployment] = field(default_factory=dict)

    def find(self, words: DeploymentWords) -> ServingDeployment:
        """Return a deployment.

        Raises:
            CapplanError: The model, GPU, engine or format is not known, or the model cannot be shared that way.
        """
        if words not in self._found:
            self._found[words] = self._make(words)
        return self._found[words]

    def model(self, name: str) -> LanguageModel:
        """Return a model by name, file or folder.

        Raises:
            CapplanError: There is no such model, or it cannot be read.
        """
        if name not in self._models:
            self._models[name] = find_model(name, download=self.download)
        return self._models[name]

    def _make(self, words: DeploymentWords) -> ServingDeployment:
        model, gpu, engine = self.model(words.model), self.gpus.find(words.gpu), find_engine(words.engine)
        machine = machine_of(gpu, link_bytes_per_s=words.link_bytes_per_s)
        if machine is None:
            raise UsageError(f"{gpu.id} states no peak rate in 16 or 32 bits, so that no time can be computed for it.")
        quantisation = model.stored_as(words.weights or None)
        kv = words.kv or self._default_kv(model, quantisation, words)
        memory = divide(
            MemoryRequest(
                model=model,
                gpu=gpu,
                sharding=words.sharding,
                weights=words.weights or None,
                kv=kv,
                engine=engine,
                version=version_of(words.version),
                max_sequences=words.max_sequences,
            ),
            self.memory,
        )
        variant = engine_variant(engine.value, version_of(words.version))
        formats = _formats(
            model, quantisation, variant, version=words.version, cache_bytes=kv_element_bytes(kv), machine=machine
        )
        kernels = stage_kernels(model.architecture, sharding=words.sharding, formats=formats)
        return ServingDeployment(
            words=words,
            model=model,
            gpu=gpu,
            engine=variant,
            quantisation=quantisation,
            kv=kv,
            machine=machine,
            kernels=kernels,
            sequences_that_fit=sequences_that_fit(memory),
            stage=memory.stage,
            relatives=models_of_equal_size(count_parameters(model.architecture)),
        )

    def _default_kv(self, model: LanguageModel, quantisation: Quantisation, words: DeploymentWords) -> str:
        stated_narrow = self.assumes_narrow_cache and bool(words.weights)
        if stated_narrow and quantisation.format.name in _NARROW_CACHE:
            return "fp8"
        return "fp8" if model.declares_fp8_cache and not words.weights else "bf16"


def _formats(
    model: LanguageModel,
    quantisation: Quantisation,
    variant: str,
    *,
    version: str,
    cache_bytes: float,
    machine: Machine,
) -> Formats:
    return Formats(
        quantisation=quantisation,
        cache_bytes=cache_bytes,
        units=machine.units,
        decode=decode_class(
            variant,
            version=version_of(version),
            cache_bytes=cache_bytes,
            units=machine.units,
            queries=model.architecture.queries_per_head,
        ),
        prefill=prefill_class(variant, cache_bytes=cache_bytes, units=machine.units),
        weight_scale=_weight_scale(model, quantisation),
    )


def _weight_scale(model: LanguageModel, quantisation: Quantisation) -> float:
    """Return the bytes of a GGUF mix over those by its base format, 1 for formats that do not mix."""
    if quantisation.format.gguf is None:
        return 1.0
    architecture = model.architecture
    mixed = stage_weights(architecture, quantisation=quantisation, sharding=Sharding(), layout=EngineLayout()).total
    base = sum(tensor.parameters * quantisation.bits(tensor.role) / 8 for tensor in all_tensors(architecture))
    return mixed / base
