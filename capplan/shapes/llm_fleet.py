"""The shapes of several models on one fleet, and of a deployment under a changed assumption."""

from typing import Final

from msgspec import UNSET

from capplan.llm.core.fleet.deployment_plan import DeploymentPlan
from capplan.llm.core.fleet.gpu_sharing import FleetPart, SharedGpus, SharedPart
from capplan.llm.core.fleet.money import Variation
from capplan.llm.core.fleet.shared_fleet import FleetAnswer, SharedFleet
from capplan.shapes.common import VERSIONED
from capplan.shapes.llm_serving import sharing_of
from capplan.shapes.shape import Shape, figure, reads

# fmt: off
PART: Final = Shape("FleetPartDocument", FleetPart, "One model of a fleet, and the deployment that serves it there.", (
    figure("model", "plan.model"),
    figure("gpu", "fit.gpu"),
    figure("gpus", "fit.gpus"),
    figure("replicas", "fit.replicas"),
    *sharing_of("fit.sharding"),
    figure("engine", "fit.engine"),
    figure("weights", "fit.weights"),
    figure("words", "fit.words"),
    figure("usd_per_hour", "fit.usd_per_hour"),
    figure("ttft_s", "fit.ttft_s"),
    figure("tpot_s", "fit.tpot_s"),
    figure("usd_per_million_output_tokens", "fit.usd_per_million_output_tokens"),
    figure("evidence", "fit.evidence"),
    figure("power_w", "fit.energy.power_w", "mean of all its GPUs without hosts, with energy", default=UNSET),
    figure("joules_per_output_token", "fit.energy.joules_per_output_token", default=UNSET),
))
SHARED_MODEL: Final = Shape("SharedModelDocument", SharedPart, "One of several models on the same GPUs.", (
    figure("model", "plan.model"),
    *sharing_of("fit.sharding"),
    figure("engine", "fit.engine"),
    figure("weights", "fit.weights"),
    figure("slowdown", meaning="how much longer its steps take than on GPUs of its own"),
    figure("running", meaning="requests in it on average"),
    figure("sequences", meaning="sequences that memory is kept for"),
    figure("ttft_s"),
    figure("tpot_s"),
))
SHARED_GPUS: Final = Shape("SharedGpusDocument", SharedGpus, "Models that share GPUs: memory adds up, steps take turns; an estimate that no measured run was compared with.", (
    figure("gpu"),
    figure("gpus"),
    figure("replicas", meaning="groups of GPUs, each with one replica of every model"),
    figure("words"),
    figure("usd_per_hour"),
    figure("models", SHARED_MODEL.at("parts")),
))
FLEET: Final = Shape("SharedFleetDocument", SharedFleet, "A fleet that serves all models.", (
    figure("gpu", meaning="null where the models are on different GPUs"),
    figure("gpus"),
    figure("servers", meaning="servers of eight GPUs, no replica across two"),
    figure("usd_per_hour"),
    figure("words"),
    figure("parts", PART),
    figure("shared", SHARED_GPUS, "models on the same GPUs, with --share-gpus"),
))
PLANNED: Final = Shape("PlannedModelDocument", DeploymentPlan, "A model, its load, and how many deployments carry it; `advice` says what would do where none does.", (
    figure("model"),
    figure("load"),
    figure("limits"),
    figure("fits", reads(int, lambda plan: len(plan.fits))),
    figure("advice"),
))
FLEETS: Final = Shape("LlmFleetDocument", FleetAnswer, "What `capplan llm fleet --format json` writes, the cheapest fleet first.", (
    *VERSIONED,
    figure("models", PLANNED.at("plans")),
    figure("recommended", FLEET.at(reads(SharedFleet | None, lambda answer: next(iter(answer.fleets), None)))),
    figure("fleets", FLEET),
    figure("local", "local_cost", "an hour of the first in the currency asked for", default=None),
))
VARIATION: Final = Shape("VariationDocument", Variation, "The recommended deployment under a changed assumption; figures are null where it does not carry the load then.", (
    figure("group"),
    figure("label"),
    figure("gpus", "fit.gpus"),
    figure("replicas", "fit.replicas"),
    figure("ttft_s", "fit.ttft_s.expected"),
    figure("tpot_s", "fit.tpot_s.expected"),
    figure("usd_per_hour", "fit.usd_per_hour"),
    figure("usd_per_million_output_tokens", "fit.usd_per_million_output_tokens"),
    figure("cheapest_then", "best"),
))
# fmt: on
