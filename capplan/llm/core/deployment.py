"""A deployment of a language model: the words that name it, and what the time and memory models need to know of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from capplan.core.engine_names import Engine, find_engine
from capplan.core.gpus.machines import GpuServer
from capplan.core.gpus.spec import GpuSpec
from capplan.core.power import CardCap, PowerLaw
from capplan.errors import UsageError
from capplan.llm.core.architecture import Architecture
from capplan.llm.core.drafting import draft_model
from capplan.llm.core.engines import LlmMemoryConstants, version_of
from capplan.llm.core.kv import kv_element_bytes, state_element_bytes
from capplan.llm.core.memory import StageMemory, ngram_notes
from capplan.llm.core.memory_answer import StatedDeployment, default_kv, held_memory, with_fitted_offload
from capplan.llm.core.model_query import LanguageModel
from capplan.llm.core.quantisation import Quantisation
from capplan.llm.core.serving.asked import Drafter, Sampling
from capplan.llm.core.serving.evidence import AskedCard, ModelKind, ServingEvidence, evidence_of
from capplan.llm.core.serving.service import ServedDeployment
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.tensors import WeightRole, all_tensors
from capplan.llm.core.timing.calibration import LlmCalibration, Novelty, pair_name
from capplan.llm.core.timing.constants import Constants
from capplan.llm.core.timing.engine_rules import (
    DEFAULT_FLAGS,
    SCHEDULING,
    SchedulerFlags,
    decode_class,
    engine_variant,
    prefill_class,
)
from capplan.llm.core.timing.machine import HostCache, Machine, ggml_machine, host_cache, host_of, machine_of
from capplan.llm.core.timing.stage_kernels import Formats, stage_kernels
from capplan.llm.core.timing.work import NARROW, Kernels, kernel_classes
from capplan.llm.core.weights import Adapters, EngineLayout, stage_weights

_FOUR_BITS = 0.75
"""Bytes of a weight below which it has about four bits, its scales included. [bytes]"""
_NARROW_CACHE = {"fp8", "fp8_block", "nvfp4", "mxfp4", "int4_wo"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSettings:
    """A model and how its replicas are set, whatever the GPU; empty words stand for defaults.

    Attributes:
        link_bytes_per_s: Both directions of the link between GPUs of a server; the printed one if None. [bytes/s]
        network_bytes_per_s: Network of one GPU to other servers, one direction, over which replicas of several servers
            exchange data and prefilled caches are moved; a port of 400 Gbit/s if None. [bytes/s]
        sampling: How tokens are drawn.
        utilization_fraction: The engine's memory fraction; None for its default.
        adapters: Adapters that are served beside the model; None for none.
        cpu: The host's CPU, which computes what is left in host memory; a desktop's if empty.
        kv_offload_bytes: Host memory of a replica that keeps prefixes. [bytes]
    """

    model: str
    kv: str = ""
    link_bytes_per_s: float | None = None
    network_bytes_per_s: float | None = None
    sampling: Sampling = Sampling.GREEDY
    utilization_fraction: float | None = None
    adapters: Adapters | None = None
    cpu: str = ""
    kv_offload_bytes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedDeployment(ReplicaSettings):
    """What names a deployment.

    `server` is that in which its replicas are timed; None for the usual one of its GPU.
    `batched_tokens` are the most tokens of a step, None for the engine's default. `drafter` drafts tokens, None for
    none. `power_limit_w` is set on each GPU; None leaves it to what finds the deployment. [W]
    """

    gpu: str
    engine: str
    sharding: Sharding
    weights: str = ""
    version: str = ""
    max_sequences: int | None = None
    server: GpuServer | None = None
    batched_tokens: int | None = None
    drafter: Drafter | None = None
    power_limit_w: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingDeployment:
    """A deployment that was found, checked, and reduced to kernels.

    `sequences_that_fit` returns how many sequences of a length fit in one replica's memory, 0 where the weights do not.
    `drafter` are the kernels of a model or head that drafts, None for none. `stage` is the memory of the tightest GPU,
    `relatives` the ids of models that have the same layers. `notes` say what is to be known of the engine and the
    format on this GPU; `is_official` is False where community builds alone run. A rank computes at most `step_tokens`
    in a step by the settings and defaults that memory is divided by; None for the newest release's.
    """

    words: NamedDeployment
    model: LanguageModel
    gpu: GpuSpec
    engine: str
    quantisation: Quantisation
    kv: str
    machine: Machine
    kernels: Kernels
    sequences_that_fit: Callable[[float], float]
    stage: StageMemory
    drafter: Kernels | None = None
    relatives: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    is_official: bool = True
    step_tokens: int | None = None

    @property
    def kind(self) -> ModelKind:
        """Return the kind of its model by what its interval widths are learnt."""
        widths = [item.weight_bytes for item in self.kernels.experts]
        if not self.model.architecture.is_moe or not widths:
            return "dense"
        return "experts of 4 bits" if min(widths) < _FOUR_BITS else "experts"

    @property
    def host_cache(self) -> HostCache | None:
        words = self.words
        token_bytes = self.stage.cache.bytes_per_token
        return host_cache(words.kv_offload_bytes, token_bytes=token_bytes, sharding=words.sharding, gpu=self.gpu)

    def loaded_s(self, tokens: float) -> float:
        """Return the time in which the tokens of a prefix come back from host memory, 0 where none lie there. [s]"""
        cache = self.host_cache
        return 0.0 if cache is None else tokens * cache.token_s

    def service(
        self, constants: Constants, *, flags: SchedulerFlags = DEFAULT_FLAGS, time_factor: float = 1.0
    ) -> ServedDeployment:
        flags = replace(flags, token_budget=flags.token_budget or self.step_tokens)
        return ServedDeployment(
            kernels=self.kernels, machine=self.machine, engine=self.engine, constants=constants, flags=flags,
            time_factor=time_factor, drafter=self.drafter,
        )  # fmt: skip

    @property
    def spans_servers(self) -> bool:
        """Return True if GPUs that exchange data in every layer stand in several servers."""
        sharding = self.words.sharding
        return sharding.tensor * sharding.data > self.machine.server_gpus

    def evidence(self, calibration: LlmCalibration) -> ServingEvidence:
        """Classify the deployment by what a calibration was learnt from; a model of the same layers is as good."""
        name = self.model.architecture.name
        pairs = calibration.measured_pairs
        measured = {relative for relative in self.relatives if pair_name(relative, self.engine) in pairs}
        found = evidence_of(
            calibration,
            model=min(measured) if measured else name,
            card=AskedCard(
                gpu=self.gpu.id,
                vendor=self.gpu.vendor,
                architecture=self.machine.architecture,
                segment=str(self.gpu.segment) if self.gpu.segment else None,
            ),
            engine=self.engine,
            release=version_of(self.words.version),
            kernels=kernel_classes(self.kernels),
        )
        return ServingEvidence(found.novelties | {Novelty.NETWORK}) if self.spans_servers else found


def build_deployment(
    words: NamedDeployment,
    *,
    model: LanguageModel,
    gpu: GpuSpec,
    constants: LlmMemoryConstants,
    assumes_narrow_cache: bool = False,
    power_law: PowerLaw | None = None,
    cpu: GpuSpec | None = None,
    drafter: LanguageModel | None = None,
) -> ServingDeployment:
    """Check a deployment, divide its memory and reduce it to kernels; `drafter` is the model that it names."""
    engine = find_engine(words.engine)
    machine = _machine(gpu, words, power_law)
    if cpu is not None:
        machine = replace(machine, host=host_of(cpu, gpu))
    quantisation = model.stored_as(words.weights or None)
    is_narrow = words.weights and quantisation.format.name in _NARROW_CACHE and engine is not Engine.LLAMACPP
    assumed = "fp8" if assumes_narrow_cache and is_narrow else default_kv(model, quantisation, engine, gpu)
    kv = words.kv or assumed
    drafting = draft_model(words.drafter, model, words.sharding, named=drafter)
    stated = with_fitted_offload(_stated(words, model, gpu, kv=kv, drafter=drafter), constants)
    memory, words = held_memory(stated, constants), replace(words, sharding=stated.sharding)
    variant, stored = engine_variant(engine.value, version_of(words.version)), quantisation.format.name
    widens = constants.support.widens(gpu, engine, stored)

    def kernels(shown: Architecture, stored_as: Quantisation, sharding: Sharding) -> Kernels:
        formats = _formats(shown, stored_as, variant, words=words, kv=kv, machine=machine, widens=widens)
        return stage_kernels(shown, sharding=sharding, formats=formats)

    return ServingDeployment(
        words=words,
        model=model,
        gpu=gpu,
        engine=variant,
        quantisation=quantisation,
        kv=kv,
        machine=machine,
        kernels=kernels(model.architecture, quantisation, words.sharding),
        drafter=None if drafting is None else kernels(drafting.architecture, drafting.quantisation, drafting.sharding),
        sequences_that_fit=lambda tokens: float(memory.sequences(max(1, round(tokens)))),
        stage=memory.tightest,
        notes=(
            *constants.support.notes(gpu, engine, stored, version=version_of(words.version)),
            *ngram_notes(memory),
        ),
        is_official=constants.support.is_official(gpu, engine),
        step_tokens=memory.deployment.batched_tokens,
    )


def _stated(
    words: NamedDeployment, model: LanguageModel, gpu: GpuSpec, *, kv: str, drafter: LanguageModel | None
) -> StatedDeployment:
    return StatedDeployment(
        model=model, gpu=gpu, sharding=words.sharding, weights=words.weights or None, kv=kv,
        engine=find_engine(words.engine), version=version_of(words.version), max_sequences=words.max_sequences,
        fraction=words.utilization_fraction, batched_tokens=words.batched_tokens, adapters=words.adapters,
        kv_offload_bytes=words.kv_offload_bytes, drafter=words.drafter, draft_model=drafter,
    )  # fmt: skip


def _machine(gpu: GpuSpec, words: NamedDeployment, law: PowerLaw | None) -> Machine:
    machine = machine_of(
        gpu,
        group=words.sharding.tensor * words.sharding.data,
        server=words.server,
        link_bytes_per_s=words.link_bytes_per_s,
        network_bytes_per_s=words.network_bytes_per_s,
    )
    if machine is None:
        raise UsageError(f"{gpu.id} states no peak rate in 16 or 32 bits, so that no time can be computed for it.")
    if find_engine(words.engine) is Engine.LLAMACPP:
        machine = ggml_machine(machine, gpu)
    if law is None or law.cap_w is None:
        return machine
    if refused := law.refusal(gpu):
        raise UsageError(f"{refused}.")
    return replace(machine, cap=CardCap(gpu=gpu, law=law) if law.caps(gpu) else None)


def _formats(
    architecture: Architecture,
    quantisation: Quantisation,
    variant: str,
    *,
    words: NamedDeployment,
    kv: str,
    machine: Machine,
    widens: bool,
) -> Formats:
    cache_bytes = kv_element_bytes(kv)
    return Formats(
        quantisation=quantisation,
        cache_bytes=cache_bytes,
        units=machine.units - NARROW if widens else machine.units,
        decode=decode_class(
            variant,
            version=version_of(words.version),
            cache_bytes=cache_bytes,
            units=machine.units,
            queries=architecture.queries_per_head,
        ),
        prefill=prefill_class(variant, cache_bytes=cache_bytes, units=machine.units),
        mixed_bytes=_mixed_bytes(architecture, quantisation),
        adapters=words.adapters,
        is_ggml=find_engine(words.engine) is Engine.LLAMACPP,
        state_bytes=state_element_bytes(architecture, find_engine(words.engine), version=version_of(words.version)),
        sorts_logits=words.sampling is Sampling.FILTERED and SCHEDULING[variant].sorts_logits,
    )


def _mixed_bytes(architecture: Architecture, quantisation: Quantisation) -> tuple[tuple[WeightRole, float], ...]:
    """Return the mean bytes of a weight by role in a GGUF mix; empty for formats that do not mix."""
    if quantisation.format.gguf is None:
        return ()
    sizes = stage_weights(architecture, quantisation=quantisation, sharding=Sharding(), layout=EngineLayout()).by_role
    counts: dict[WeightRole, float] = {}
    for tensor in all_tensors(architecture):
        counts[tensor.role] = counts.get(tensor.role, 0.0) + tensor.parameters
    found = {role: size / counts[role] for role, size in sizes if counts.get(role)}
    found.setdefault(WeightRole.HEAD, found[WeightRole.EMBEDDING])
    return tuple(found.items())
