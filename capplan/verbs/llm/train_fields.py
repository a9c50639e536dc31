"""The parts of questions that the verbs about training share: the job, its layout, and what this machine brings."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from capplan.errors import UsageError
from capplan.llm.core.training.frameworks import States
from capplan.llm.core.training.job import (
    AttentionImplementation,
    BaseFormat,
    Compute,
    Method,
    Offloaded,
    OptimizerRecipe,
    Recompute,
    Shard,
)
from capplan.llm.core.training.objective import OBJECTIVES, Objective
from capplan.llm.core.training.run import GPU_HOURS_BETWEEN_FAILURES
from capplan.verbs.llm.fields import TRAINING_CALIBRATION, Degree, ReplicaGpuFields, Word
from capplan.verbs.llm.train_files import TrainedModelFields
from capplan.verbs.statement.contract import Context
from capplan.verbs.statement.fields import OwnSpecs
from capplan.verbs.statement.options import Option, Topic
from capplan.verbs.statement.words import COUNT, LENGTHS, NAMES, RATE, SIZE, TIME, TIME_LIMIT

if TYPE_CHECKING:
    from capplan.core.gpus.spec import GpuSpec
    from capplan.llm.core.architecture import Architecture
    from capplan.llm.core.model_query import LanguageModel
    from capplan.llm.core.training.accuracy import TrainingCalibration
    from capplan.llm.core.training.estimate import OwnRun
    from capplan.llm.core.training.job import TrainingJob
    from capplan.llm.core.training.plan import RunTerms


@dataclass(frozen=True, kw_only=True)
class TrainingMethodFields:
    """What is trained and in which formats, whatever GPUs there are."""

    method: Annotated[
        Method,
        Option(
            is_usual=True,
            help="Train all parameters, or adapters beside a frozen base.",
            topic=Topic.MODEL,
            shows_default=True,
        ),
    ] = Method.FULL
    objective: Annotated[
        Objective,
        Option(
            is_usual=True,
            help="What it is trained for: next tokens, rewards or preferences of pairs, or generated samples.",
            topic=Topic.MODEL, shows_default=True,
        ),
    ] = Objective.SFT  # fmt: skip
    completion_len: Annotated[
        int,
        Meta(ge=1, le=10**8),
        Option(
            help="Tokens of a sequence that grpo and ppo generate; the rest is the prompt.", topic=Topic.WORKLOAD,
            shows_default=True,
        ),
    ] = 512  # fmt: skip
    rollout_fraction: Annotated[
        float,
        Meta(ge=0, le=0.95),
        Option(
            help="Share of each GPU's memory that the engine keeps which generates for grpo and ppo; TRL's default. "
            "0: it sleeps while the model is trained.",
            flags=("--rollout-memory",), shows_default=True,
        ),
    ] = 0.3  # fmt: skip
    rank: Annotated[
        int, Meta(ge=1, le=2**16), Option(help="Rank of adapters.", topic=Topic.MODEL, shows_default=True)
    ] = 16
    targets: Annotated[
        tuple[str, ...],
        Option(
            help="Matrices with adapters: q, k, v, o, gate_up, down, head, attention, mlp; all linear ones by default.",
            topic=Topic.MODEL, words=NAMES, metavar="A,B,...",
        ),
    ] = ()  # fmt: skip
    base: Annotated[
        BaseFormat | None,
        Option(help="Format of a frozen base; bf16 for lora and nf4-dq for qlora by default.", topic=Topic.MODEL),
    ] = None  # fmt: skip
    precision: Annotated[
        Compute, Option(help="Format of matrix products.", topic=Topic.WORKLOAD, shows_default=True)
    ] = Compute.BF16
    states: Annotated[
        States | None,
        Option(
            help="master: 16-bit weights with an fp32 copy; autocast: fp32 weights; pure: all in 16 bits. The "
            "framework's by default.",
            topic=Topic.WORKLOAD,
        ),
    ] = None  # fmt: skip
    optimizer: Annotated[
        OptimizerRecipe, Option(help="Optimizer by the states that it keeps.", topic=Topic.WORKLOAD, shows_default=True)
    ] = OptimizerRecipe.ADAMW
    seq_len: Annotated[
        int,
        Meta(ge=1, le=10**8),
        Option(is_usual=True, help="Tokens of a sequence.", topic=Topic.WORKLOAD, shows_default=True),
    ] = 4096  # fmt: skip
    framework: Annotated[
        Word | None,
        Option(
            help="torchtitan, megatron, nemo, torchtune, trl, axolotl, unsloth, deepspeed, ...; by default torchtitan, "
            "and trl for adapters."
        ),
    ] = None  # fmt: skip
    framework_version: Annotated[
        Word | None,
        Option(help="Release of the framework, such as 0.6, where its defaults changed; the newest known by default."),
    ] = None
    attention: Annotated[
        AttentionImplementation | None,
        Option(help="flash is FlashAttention-2, tuned the vendor's; the framework's by default."),
    ] = None
    fused_loss: Annotated[bool, Option(help="The loss is computed by chunks, as Liger's kernels do.")] = False
    compile: Annotated[bool, Option(help="Pointwise operators are fused by torch.compile.")] = False
    offload: Annotated[
        tuple[Offloaded, ...],
        Meta(max_length=3),
        Option(help="Keep this in the host's memory; repeatable.", shows_default=False),
    ] = ()
    optimizer_in_backward: Annotated[
        bool,
        Option(help="Each parameter is updated in the backward pass, so that no gradients are kept."),
    ] = False
    network_bytes_per_s: Annotated[
        float | None,
        Meta(le=1e18),
        Option(
            help="One GPU's network to other servers, one direction, such as '50 GB/s'.", flags=("--network",),
            metavar="RATE", words=RATE,
        ),
    ] = None  # fmt: skip

    def method_job(self, model: "LanguageModel") -> "TrainingJob":
        """Return the job on one GPU."""
        from capplan.llm.core.training.frameworks import find_framework
        from capplan.llm.core.training.job import Adapter, TrainingJob, adapter_targets
        from capplan.llm.read.framework_forms import FRAMEWORK_FORMS

        is_full = self.method is Method.FULL
        name = self.framework or ("torchtitan" if is_full else "trl")
        framework = find_framework(name, version=self.framework_version)
        framework = replace(framework, forms=FRAMEWORK_FORMS.load())
        if self.base is not None and is_full:
            raise UsageError("⟨base⟩ is the format of a frozen base; add ⟨method⟩ lora or qlora.")
        tuned = AttentionImplementation.TUNED if framework.tunes_attention else AttentionImplementation.FLASH
        return TrainingJob(
            architecture=_trained(replace(model.architecture, publisher_id=model.hf_id), self.objective),
            framework=framework,
            method=self.method,
            adapter=Adapter(rank=self.rank, targets=adapter_targets(self.targets or ("all",))),
            base=self.base or (BaseFormat.NF4_DQ if self.method is Method.QLORA else BaseFormat.BF16),
            compute=self.precision,
            states=self.states or (framework.states if is_full else States.PURE),
            optimizer=self.optimizer,
            sequence_tokens=self.seq_len,
            attention=self.attention or tuned,
            fused_loss=self.fused_loss or framework.fuses_loss,
            compiled=self.compile or framework.compiles,
            offloaded=frozenset(self.offload),
            optimizer_in_backward=self.optimizer_in_backward,
            objective=self.objective,
            completion_tokens=self.completion_len if OBJECTIVES[self.objective].generates else 0,
            rollout_fraction=self.rollout_fraction if OBJECTIVES[self.objective].generates else 0.0,
        )


def _trained(architecture: "Architecture", objective: Objective) -> "Architecture":
    """Return a model as an objective trains it: what scores sequences has no output head."""
    return architecture if OBJECTIVES[objective].has_vocabulary else replace(architecture, tied_embeddings=True)


@dataclass(frozen=True, kw_only=True)
class OwnRunFields:
    """What a short run of the user's own measured."""

    measured_step_s: Annotated[
        float | None,
        Meta(gt=0, le=1e9),
        Option(help="Time of one optimizer step that you measured of this job.", flags=("--measured-step",),
               metavar="TIME", words=TIME_LIMIT),
    ] = None  # fmt: skip
    measured_peak_bytes: Annotated[
        float | None,
        Meta(gt=0, le=1e18),
        Option(help="Peak of reserved memory that you measured of this job.", flags=("--measured-peak",),
               metavar="SIZE", words=SIZE),
    ] = None  # fmt: skip

    def own_run(self) -> "OwnRun":
        """Return what was measured."""
        from capplan.llm.core.training.estimate import OwnRun

        return OwnRun(step_s=self.measured_step_s, peak_bytes=self.measured_peak_bytes)


@dataclass(frozen=True, kw_only=True)
class TrainingFilesFields:
    """What this machine brings: own specs, and own constants."""

    specs: OwnSpecs = ()
    calibration: Annotated[Path | None, TRAINING_CALIBRATION] = None

    def found_model(self, context: Context, words: str) -> "LanguageModel":
        """Return the model that words name."""
        from capplan.llm.read.sources import find_model

        return find_model(context.language_model(words))

    def constants(self) -> "TrainingCalibration":
        """Return the constants of training."""
        from capplan.llm.read.training_calibration import load_training_calibration

        return load_training_calibration(self.calibration)


@dataclass(frozen=True, kw_only=True)
class TrainingJobFields(TrainedModelFields, ReplicaGpuFields, TrainingMethodFields):
    """A job: the model, its GPU, what is trained, and how GPUs share it."""

    gpu_count: Annotated[
        int,
        Meta(ge=1, le=10**6),
        Option(
            is_usual=True,
            help="GPUs of the job.",
            flags=("--gpus", "-n"),
            topic=Topic.GPUS,
            shows_default=True,
            wire="gpu_count",
        ),
    ] = 1
    gpus_per_node: Annotated[
        int | None,
        Meta(ge=1, le=1024),
        Option(help="GPUs of one server; as many as its fast links join by default.", topic=Topic.GPUS),
    ] = None
    tp: Annotated[Degree, Option(help="GPUs that share every matrix.", shows_default=True)] = 1
    pp: Annotated[Degree, Option(help="Pipeline stages.", shows_default=True)] = 1
    vp: Annotated[Degree, Option(help="Model chunks of a stage (interleaving).", shows_default=True)] = 1
    cp: Annotated[Degree, Option(help="GPUs that share a sequence.", shows_default=True)] = 1
    ep: Annotated[Degree, Option(help="GPUs among which whole experts are distributed.", shows_default=True)] = 1
    shard: Annotated[
        Shard | None, Option(help="What data-parallel ranks share; zero3 is FSDP. By default the framework's.")
    ] = None
    shard_group: Annotated[
        int | None, Meta(ge=1, le=10**6), Option(help="Ranks that share states (hybrid sharding); all by default.")
    ] = None
    keep_gathered: Annotated[
        bool, Option(help="FSDP keeps parameters after the forward pass (reshard_after_forward: false).")
    ] = False
    zero_bubble: Annotated[bool, Option(help="The pipeline splits the backward pass (ZB-H1).")] = False
    micro_batch: Annotated[
        int,
        Meta(ge=1, le=10**6),
        Option(is_usual=True, help="Sequences of one forward pass.", topic=Topic.WORKLOAD, shows_default=True),
    ] = 1
    accumulate: Annotated[
        int,
        Meta(ge=1, le=2**20),
        Option(help="Micro-batches of one optimizer step.", topic=Topic.WORKLOAD, shows_default=True),
    ] = 1
    recompute: Annotated[
        Recompute | None,
        Option(
            is_usual=True,
            help="What the backward pass computes again; by default what the framework does, or the least that fits.",
            topic=Topic.WORKLOAD,
        ),
    ] = None

    def job(self, model: "LanguageModel", gpu: "GpuSpec") -> "TrainingJob":
        """Return the job; what is left out follows from the framework."""
        from capplan.core.gpus.machines import joined_gpus
        from capplan.llm.core.training.job import TrainingLayout, check_job, default_shard

        whole = self.method_job(model)
        ranks = self.gpu_count // max(1, self.tp * self.pp * self.cp) * self.cp
        layout = TrainingLayout(
            gpus=self.gpu_count,
            tensor=self.tp,
            pipeline=self.pp,
            virtual=self.vp,
            context=self.cp,
            expert=self.ep,
            sequence_parallel=self.tp > 1,
            shard=default_shard(whole.framework, ranks=ranks) if self.shard is None else self.shard,
            shard_group=self.shard_group,
            gpus_per_node=self.gpus_per_node or max(8, joined_gpus(gpu)),
            zero_bubble=self.zero_bubble,
            keep_gathered=self.keep_gathered,
        )
        job = replace(
            whole,
            layout=layout,
            micro_batch=self.micro_batch,
            accumulation=self.accumulate,
            recompute=self.recompute or Recompute.NONE,
        )
        check_job(job)
        return job


def stated_job(
    question: TrainingJobFields, files: TrainingFilesFields, context: Context
) -> "tuple[TrainingJob, GpuSpec, TrainingCalibration]":
    """Return the job of a question, with the least recomputation that fits where none is stated, and its constants."""
    from capplan.llm.core.training.estimate import usual_recompute
    from capplan.llm.core.training.job import impossible, unknown_attention

    model = files.found_model(context, question.model)
    gpu = context.gpu_database(files.specs).find(question.gpu)
    constants = files.constants()
    job = question.job(model, gpu)
    refused = impossible(job, gpu) or unknown_attention(gpu, question.attention)
    if refused is not None:
        raise UsageError(f"{refused}.")
    return usual_recompute(job, gpu, constants) if question.recompute is None else job, gpu, constants


@dataclass(frozen=True, kw_only=True)
class RunFields:
    """What a run trains on, and how often it is interrupted."""

    tokens: Annotated[
        float | None,
        Meta(gt=0, le=1e18),
        Option(
            is_usual=True,
            help="Tokens of the data set, such as 2T or 10G.",
            metavar="COUNT",
            words=COUNT,
            topic=Topic.WORKLOAD,
        ),
    ] = None
    samples: Annotated[
        float | None,
        Meta(gt=0, le=1e15),
        Option(
            is_usual=True,
            help="Samples of the data set instead of tokens.",
            metavar="COUNT",
            words=COUNT,
            topic=Topic.WORKLOAD,
        ),
    ] = None
    mean_len: Annotated[
        float | None,
        Meta(gt=0, le=1e8),
        Option(help="Mean tokens of a sample; whole sequences by default.", topic=Topic.WORKLOAD),
    ] = None
    lengths: Annotated[
        tuple[int, ...],
        Option(
            help="Tokens of samples that are equally frequent, such as quantiles, instead of their mean: 60,350,1500.",
            metavar="TOKENS", words=LENGTHS, topic=Topic.WORKLOAD,
        ),
    ] = ()  # fmt: skip
    epochs: Annotated[
        float,
        Meta(gt=0, le=10**6),
        Option(is_usual=True, help="Passes over the data set.", topic=Topic.WORKLOAD, shows_default=True),
    ] = 1.0
    padded: Annotated[
        bool,
        Option(
            help="Samples are padded to sequences, or to the longest of a batch with ⟨lengths⟩, instead of packed.",
            topic=Topic.WORKLOAD,
        ),
    ] = False
    failure_hours: Annotated[
        float,
        Meta(gt=0, le=1e12),
        Option(help="GPU hours between failures; Llama 3's report by default.", shows_default=True),
    ] = GPU_HOURS_BETWEEN_FAILURES
    storage_bytes_per_s: Annotated[
        float | None,
        Meta(gt=0, le=1e18),
        Option(
            help="Bandwidth at which a checkpoint is written, of the whole job; 1 GB/s of each server by default.",
            flags=("--storage",), metavar="RATE", words=RATE,
        ),
    ] = None  # fmt: skip
    async_checkpoints: Annotated[
        bool, Option(help="Checkpoints are written beside the job, also where the framework waits for them by default.")
    ] = False
    restart_s: Annotated[
        float,
        Meta(ge=0, le=1e7),
        Option(help="Time to start again after a failure.", flags=("--restart",), metavar="TIME", words=TIME),
    ] = 900.0
    spot_per_hour: Annotated[
        float, Meta(ge=0, le=1000), Option(help="Interruptions of one spot server per hour.", shows_default=True)
    ] = 0.0

    def terms(self) -> "RunTerms":
        """Return what the run is made of."""
        from capplan.llm.core.training.plan import RunTerms
        from capplan.llm.core.training.run import Dataset, RunReliability

        if self.tokens is not None and self.samples is not None:
            raise UsageError("⟨tokens⟩ and ⟨samples⟩ both state the data set; give one.")
        if self.samples is None and (self.mean_len is not None or self.lengths or self.padded):
            raise UsageError("⟨mean-len⟩, ⟨lengths⟩ and ⟨padded⟩ describe samples; add ⟨samples⟩.")
        if self.mean_len is not None and self.lengths:
            raise UsageError("⟨mean-len⟩ and ⟨lengths⟩ both state how long samples are; give one.")
        return RunTerms(
            dataset=Dataset(
                tokens=self.tokens,
                samples=self.samples,
                mean_tokens=self.mean_len,
                lengths=tuple(sorted(self.lengths)),
                epochs=self.epochs,
                is_packed=not self.padded,
            ),
            reliability=RunReliability(
                hours_between_failures=self.failure_hours,
                storage_bytes_per_s=self.storage_bytes_per_s,
                asynchronous=self.async_checkpoints or None,
                restart_s=self.restart_s,
                spot_interruptions_per_hour=self.spot_per_hour,
            ),
        )
