"""Rows of pipelines: what `capplan plan` says of their items on every GPU, with waiting weights where they fit."""

from collections.abc import Sequence
from dataclasses import replace

from capplan.app.pipelines.answer import PipelineRequest, TracedParts, judge_pipeline, prepare_pipeline
from capplan.app.pipelines.find import find_pipeline, names_pipeline
from capplan.app.plan import PlanContext, PlanTerms
from capplan.app.sweep.request import LLM_PREFIX, SweepContext, SweepModel
from capplan.core.calibrate.measured import TRACE_SUFFIXES
from capplan.core.gpus.spec import GpuSpec
from capplan.core.pipelines.types import Offload
from capplan.core.plan.types import Limits
from capplan.core.sweep.conditions import Conditions
from capplan.core.sweep.grid import Columns, plan_columns
from capplan.errors import UsageError
from capplan.probe.diffusers.index import PREFIX, published_component, published_name
from capplan.probe.target.names import ZOOS
from capplan.specs.fitted import load_pipeline_calibration

_NO_CODE = (*ZOOS, "hf", LLM_PREFIX.rstrip(":"))
"""Kinds of names that choose no code: models of libraries, transformers architectures, language models."""


def is_code(words: str) -> bool:
    """Return True if words name code to import, or a pipeline with a part that is code or is prepared by code."""
    if names_pipeline(words):
        named = words.removeprefix(PREFIX)
        if named != words:
            return published_name(named) is None
        parts = find_pipeline(words).parts
        return any(is_code(part.model) or any(":" in step for step in part.prepare) for part in parts)
    kind, colon, rest = words.partition(":")
    if words.endswith(TRACE_SUFFIXES) or (f"{kind}:" == PREFIX and published_component(rest)):
        return False
    return words.endswith(".py") or (bool(colon) and kind not in _NO_CODE)


def refuse_options(model: SweepModel) -> None:
    """Refuse options of a model beside a pipeline, those of a pipeline beside a model, and what it has not.

    Raises:
        UsageError: there are such options, or there is no such parameter or part.
    """
    words, own = model.request.words, model.pipeline
    if not names_pipeline(words):
        if own.options:
            raise UsageError(f"{', '.join(own.options[::2])} describe a pipeline, and {words} is a model; drop them.")
        return
    if model.request.options:
        raise UsageError(
            f"{words} is a pipeline: {', '.join(model.request.options[::2])} belongs to a model; set its parameters "
            "with `set`, its parts with `part`, or write a FILE.pipeline.yaml in which they have them."
        )
    if model.unknown is None and own.options:
        _request(model).pipeline()


def _request(model: SweepModel) -> PipelineRequest:
    own = model.pipeline
    return PipelineRequest(
        words=model.request.words, settings=dict(own.settings), part_settings=dict(own.part_settings),
        offload=Offload(own.offload) if own.offload else None, states_precision=True,
    )  # fmt: skip


def pipeline_columns(
    model: SweepModel, conditions: Conditions, context: SweepContext, gpus: Sequence[GpuSpec]
) -> Columns:
    """Return a row for each GPU and batch of items.

    Args:
        model: the pipeline.
        conditions: the workload and batches; its precision holds for all parts without one of their own.
        context: calibrations, and the law of power where energy is asked for.
        gpus: the GPUs to plan on.

    Raises:
        UsageError: there is no such pipeline, or the conditions are not for pipelines.
        TraceError: a part could not be traced.
    """
    if conditions.activations is not None:
        raise UsageError(f"{model.label} is a pipeline, whose activations are not quantised: leave `activations` out.")
    surroundings = PlanContext(
        gpus=tuple(gpus), rents={}, named=frozenset(), offers={}, notes=(), calibration=context.calibration,
        memory_calibration=context.memory_calibration,
    )  # fmt: skip
    law = context.power_law if conditions.energy else None
    terms = PlanTerms(
        batches=conditions.batches,
        workload=conditions.workload,
        limits=Limits(utilization_fraction=conditions.utilization_fraction),
        power_law=replace(law, cap_w=conditions.power_limit_w) if law else None,
    )
    request = replace(_request(model), workload=conditions.workload, weights=conditions.weights)
    traced = TracedParts(context=surroundings, calibration=load_pipeline_calibration())
    return plan_columns(judge_pipeline(prepare_pipeline(request, traced), terms, surroundings), conditions)
