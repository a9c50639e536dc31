"""Rows of pipelines: what `capplan plan` says of their items on every GPU, with waiting weights where they fit."""

from collections.abc import Sequence
from dataclasses import replace

from capplan.app.pipelines.answer import PipelineRequest, TracedParts, judge_pipeline, prepare_pipeline
from capplan.app.pipelines.find import find_pipeline, names_pipeline
from capplan.app.plan import PlanContext as PlanSurroundings
from capplan.app.plan import PlanTerms
from capplan.app.sweep.request import LLM_PREFIX, PlanContext, SweepModel
from capplan.core.calibrate.measured import TRACE_SUFFIXES
from capplan.core.gpus.spec import GpuSpec
from capplan.core.plan.types import Limits
from capplan.core.sweep.conditions import Conditions
from capplan.core.sweep.grid import Columns, plan_columns
from capplan.errors import UsageError
from capplan.probe.diffusers.index import PREFIX, published_component, published_name
from capplan.probe.target.names import ZOOS
from capplan.specs.pipelines.calibration import load_pipeline_calibration

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
    """Raise a UsageError for options of a model beside a pipeline."""
    if names_pipeline(model.request.words) and model.request.options:
        raise UsageError(
            f"{model.request.words} is a pipeline: {', '.join(model.request.options[::2])} belongs to a model; write a "
            "FILE.pipeline.yaml in which its parameters and parts have them."
        )


def pipeline_columns(
    model: SweepModel, conditions: Conditions, context: PlanContext, gpus: Sequence[GpuSpec]
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
    surroundings = PlanSurroundings(
        gpus=tuple(gpus), prices=(), named=frozenset(), offers={}, notes=(), calibration=context.calibration,
        memory_calibration=context.memory_calibration,
    )  # fmt: skip
    law = context.power_law if conditions.energy else None
    terms = PlanTerms(
        batches=conditions.batches,
        workload=conditions.workload,
        limits=Limits(utilization_fraction=conditions.utilization_fraction),
        power_law=replace(law, cap_w=conditions.power_limit_w) if law else None,
    )
    request = PipelineRequest(
        words=model.request.words, workload=conditions.workload, states_precision=True, weights=conditions.weights
    )
    traced = TracedParts(context=surroundings, calibration=load_pipeline_calibration())
    return plan_columns(judge_pipeline(prepare_pipeline(request, traced), terms, surroundings), conditions)
