"""The shapes of answers about training: bytes, seconds, tokens per second, US dollars."""

from typing import Final

from capplan.llm.core.measured import JudgedCell, SkippedRun
from capplan.llm.core.tensors import count_active_parameters, count_parameters
from capplan.llm.core.training.accuracy import JudgedFit, JudgedTraining, TrainingValidation
from capplan.llm.core.training.estimate import TrainingMemoryAnswer
from capplan.llm.core.training.job import TrainingJob
from capplan.llm.core.training.launch import launch_config
from capplan.llm.core.training.parameters import adapter_parameters
from capplan.llm.core.training.plan import MemoryShortfall, PricedTraining, TrainingPlan, WayOut
from capplan.llm.core.training.run import TrainingRun
from capplan.llm.core.training.stated_file import StatedFile
from capplan.shapes.common import SIGNED, VERSIONED, in_words
from capplan.shapes.shape import Shape, figure, itself, reads

_ACCURACY = ("n", "mdape", "p90", "bias", "coverage", "width")
_Part = tuple[str, float]

# fmt: off
JOB: Final = Shape("TrainingJobDocument", TrainingJob, "A training job.", (
    figure("model", "architecture.name"),
    figure("params", reads(int, lambda job: count_parameters(job.architecture))),
    figure("active_params", reads(int, lambda job: count_active_parameters(job.architecture))),
    figure("method", in_words("method")),
    figure("objective", in_words("objective"), default="sft"),
    figure("trained_params", reads(int, lambda job: adapter_parameters(job.architecture, job.adapter) if job.is_adapted else count_parameters(job.architecture))),
    figure("base", reads(str | None, lambda job: job.base.value if job.is_adapted else None),
        "Format of a frozen base; null where all parameters are trained."),
    figure("compute", in_words("compute")),
    figure("states", in_words("states")),
    figure("optimizer", in_words("optimizer")),
    figure("framework", "framework.name"),
    figure("gpus", "layout.gpus"),
    figure("tp", "layout.tensor"),
    figure("pp", "layout.pipeline"),
    figure("vp", "layout.virtual"),
    figure("cp", "layout.context"),
    figure("ep", "layout.expert"),
    figure("dp", "layout.data"),
    figure("shard", in_words("layout.shard")),
    figure("seq_len", "sequence_tokens"),
    figure("micro_batch"),
    figure("accumulate", "accumulation"),
    figure("global_batch", meaning="Sequences of one optimizer step."),
    figure("recompute", in_words("recompute")),
    figure("attention", in_words("attention")),
))
PART: Final = Shape("TrainingPartDocument", _Part, "A part of a whole, in bytes or seconds.", (
    figure("part", reads(str, lambda part: part[0])),
    figure("value", reads(float, lambda part: part[1])),
))
MEMORY: Final = Shape("TrainingMemoryDocument", TrainingMemoryAnswer, "The memory of one GPU at the peak of a step.", (
    figure("gpu", "gpu.id"),
    figure("fits"),
    figure("verdict"),
    figure("peak_bytes", "peak"),
    figure("usable_bytes", reads(int, lambda memory: round(memory.usable_bytes))),
    figure("fit_probability", meaning="The share of peaks that were held out which would fit at the same prediction."),
    figure("parts_bytes", PART.at(reads(list[_Part], lambda memory: memory.parts[:-1]))),
    figure("load_bytes", reads(int, lambda memory: round(memory.outlook.load))),
    figure("host_bytes", reads(int, lambda memory: round(memory.outlook.host)), "Memory of one server for what is offloaded."),
    figure("evidence", in_words("evidence")),
))
FILE: Final = Shape("TrainingFileDocument", StatedFile, "What was read of a framework's file.", (
    figure("path"),
    figure("framework"),
    figure("release"),
    figure("stated", meaning="What it says, by option."),
    figure("defaults", meaning="What the framework does where the file is silent, by option."),
    figure("searched", meaning="Of these what the question does not ask, or searches by itself."),
    figure("unmodelled", meaning="Keys that change memory or time in ways that are not estimated."),
    figure("unknown", meaning="Keys that are not known here."),
))
_FILES = figure("files", FILE.at("files"), "Frameworks' files that state the job.", default=())
MEMORY_ANSWER: Final = Shape("LlmTrainMemoryDocument", TrainingMemoryAnswer, "What `capplan llm train memory --format json` writes.", (
    *SIGNED,
    figure("job", JOB),
    figure("memory", MEMORY.at(itself(TrainingMemoryAnswer))),
    _FILES,
))
RUN: Final = Shape("TrainingRunDocument", TrainingRun, "A run over a data set, with failures and checkpoints.", (
    figure("tokens"),
    figure("steps"),
    figure("wall_s", "wall_s", "a run of tuned steps that is left alone"),
    figure("gpu_hours"),
    figure("campaign_s", "campaign_s", "as published campaigns took, with evaluation, stalls and changes by hand"),
    figure("checkpoints_s"),
    figure("restarts_s", "restarts_s", "restarts, and the work that is lost"),
    figure("storage_bytes_per_s"),
    figure("asynchronous", "is_asynchronous", "whether checkpoints are written beside the job"),
    figure("failures"),
    figure("checkpoint_bytes"),
    figure("checkpoint_interval_s"),
    figure("goodput_fraction"),
))
SPEED: Final = Shape("TrainingSpeedDocument", PricedTraining, "The speed of a job, and its run where tokens are known.", (
    figure("job", JOB),
    figure("memory", MEMORY.at("estimate.memory")),
    figure("tokens_per_s", "estimate.tokens_per_s"),
    figure("tokens_per_s_per_gpu", "estimate.tokens_per_s_per_gpu"),
    figure("step_s", "estimate.step_s"),
    figure("mfu_fraction", "estimate.rates.mfu_fraction"),
    figure("hfu_fraction", "estimate.rates.hfu_fraction"),
    figure("model_flops_per_s", "estimate.rates.model_flops_per_s"),
    figure("parts_s", PART.at("estimate.step.parts")),
    figure("limited_by", "estimate.step.largest", "What takes most of a step beside matrix products."),
    figure("evidence", in_words("estimate.evidence")),
    figure("run", RUN),
    figure("usd"),
    figure("campaign_usd"),
    figure("usd_per_gpu_hour", "offer.usd_per_hour"),
    figure("provider", "offer.machine_words"),
    figure("power_w", "estimate.energy.power_w", "mean power of all GPUs, without their hosts"),
    figure("joules_per_token", "estimate.joules_per_token"),
    figure("energy_j"),
    figure("launch", reads(str | None, lambda priced: config.text if (config := launch_config(priced.job)) else None),
        "A configuration for the framework; null where none is written."),
))
ESTIMATE: Final = Shape("LlmTrainEstimateDocument", PricedTraining, "What `capplan llm train estimate --format json` writes.", (
    *SIGNED,
    figure("estimate", SPEED.at(itself(PricedTraining))),
    _FILES,
))
NEAREST: Final = Shape("TrainingNearMissDocument", MemoryShortfall, "The least that a layout needs of one GPU, where none fits.", (
    figure("gpu"),
    figure("gpus"),
    figure("needed_bytes"),
    figure("usable_bytes"),
))
WAY: Final = Shape("TrainingWayOutDocument", WayOut, "A change of a job that nothing fits, and the best run with it.", (
    figure("change", "words"),
    figure("run", SPEED.at("priced")),
))
PLAN: Final = Shape("LlmTrainPlanDocument", TrainingPlan, "What `capplan llm train plan --format json` writes.", (
    *SIGNED,
    figure("cheapest", SPEED),
    figure("safer", SPEED, "At most 5 % dearer than the cheapest and clearly more probable to fit; null where needless."),
    figure("fastest", SPEED),
    figure("fewest", SPEED),
    figure("efficient", SPEED.at("efficient"), "Runs that no other one beats in time, money and energy, the quickest first."),
    figure("all", SPEED.at("priced")),
    figure("rejected", reads(dict[str, int], lambda plan: dict(plan.rejected))),
    figure("without", reads(dict[str, str], lambda plan: {f"{gpus} {gpu}": why for (gpu, gpus), why in plan.without.items()}),
        "Why a GPU and count has no layout."),
    figure("refused"),
    figure("nearest", NEAREST, default=None),
    figure("ways", WAY.at("ways"), "What would fit where nothing does, the cheapest first.", default=()),
    figure("layouts_tried", "tried"),
    figure("local", "local_cost", "the cheapest run in the currency asked for", default=None),
    _FILES,
))
CELL: Final = Shape("TrainingCellDocument", JudgedCell, "The accuracy of one metric in one cell. Errors and shares are fractions.", (
    figure("key", reads(dict[str, str], lambda cell: cell.key)),
    figure("metric", in_words("metric")),
    *(figure(name, f"accuracy.{name}") for name in _ACCURACY),
))
ROW: Final = Shape("TrainingRowDocument", JudgedTraining, "One measured value with its prediction.", (
    *(figure(name, f"run.{name}") for name in ("row", "model", "gpu", "framework")),
    figure("metric", in_words("metric")),
    figure("measured"),
    figure("predicted"),
    figure("evidence", in_words("evidence")),
))
VERDICT: Final = Shape("TrainingVerdictDocument", JudgedFit, "Whether a run that is known to have fitted, or to have run out of memory, was predicted to fit.", (
    figure("row", "run.row"),
    figure("ran_out", "run.ran_out"),
    figure("predicted_fits"),
    figure("fit_probability"),
))
SKIPPED: Final = Shape("SkippedTrainingDocument", SkippedRun, "A row that was not predicted.",
    tuple(map(figure, ("file", "line", "model", "gpu", "reason"))))
VALIDATION: Final = Shape("LlmTrainValidateDocument", TrainingValidation, "What `capplan llm train validate --format json` writes.", (
    *VERSIONED,
    figure("overall", CELL.at(reads(tuple[JudgedCell, ...], lambda validation: validation.cells(())))),
    figure("cells", CELL.at(reads(tuple[JudgedCell, ...], lambda validation, by: validation.cells(by)))),
    figure("rows", ROW.at("answers")),
    figure("verdicts", VERDICT.at("fits")),
    figure("skipped", SKIPPED),
))
# fmt: on
