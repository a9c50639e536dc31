"""Count a model's parameters, MACs, FLOPs and bytes, by operator and by module."""

from dataclasses import dataclass

from capplan.app.feedback import SILENCE, Feedback
from capplan.app.models import Model, ModelSource, open_model, refuse_uncertain
from capplan.core.ops.analysis import Analysis, analyze_trace
from capplan.core.ops.counters import CounterComparison
from capplan.core.trace.types import Trace
from capplan.core.workload import Configuration
from capplan.errors import UsageError

_USUAL = Configuration()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzeAnswer:
    """The counts of a model, and those of other counters where they were asked for."""

    analysis: Analysis
    parameter_count: int
    comparisons: tuple[CounterComparison, ...]


def analyze(
    source: ModelSource,
    *,
    batch: int | None = None,
    configuration: Configuration = _USUAL,
    depth: int | None = None,
    compares_counters: bool = False,
    is_strict: bool = False,
    feedback: Feedback = SILENCE,
) -> AnalyzeAnswer:
    """Return what a model counts at a batch.

    Args:
        source: the model.
        batch: the batch; None is 1, or the only one that the model holds at.
        configuration: the recording.
        depth: depth of the module view, None for all levels.
        compares_counters: count the model by thop, fvcore and torch's counter, too.
        is_strict: refuse a model with operators that could not be counted.
        feedback: where progress is shown.

    Raises:
        UsageError: there is no such model; or other counters are asked for of a trace or of training steps.
        TraceError: the model could not be traced, or is refused by `is_strict`.
    """
    if compares_counters and configuration.training is not None:
        raise UsageError("--compare compares counts of inference: drop --train.")
    model = open_model(source, feedback=feedback)
    batch = batch or model.usual_batch(configuration)
    trace = model.trace_at(configuration, batch)
    if is_strict:
        refuse_uncertain(model.words, trace.recording(configuration))
    return AnalyzeAnswer(
        analysis=analyze_trace(trace, configuration=configuration, batch=batch, depth=depth),
        parameter_count=trace.parameter_count,
        comparisons=_compare(model, trace, configuration, batch, feedback) if compares_counters else (),
    )


def _compare(
    model: Model, trace: Trace, configuration: Configuration, batch: int, feedback: Feedback
) -> tuple[CounterComparison, ...]:
    target = model.target()
    with feedback.progress(f"counting {model.words} by other counters"):
        from capplan.probe.counters import compare_counters

        return compare_counters(target, trace, trace.recording(configuration), batch=batch)
