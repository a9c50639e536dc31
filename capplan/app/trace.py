"""Trace a model: turn it into facts, from which everything else is arithmetic."""

from dataclasses import dataclass, field

from capplan.app.feedback import SILENCE, Feedback
from capplan.app.models import ModelSource, open_model
from capplan.core.ops.flops import Formulas
from capplan.core.trace.anonymize import anonymize_trace
from capplan.core.trace.types import Trace
from capplan.core.workload import Configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRequest:
    """A request for the recordings of a model.

    `exact_batch` is the only batch to trace at. `formulas` count the FLOPs of operators that capplan does not know.
    `is_anonymous` drops the names of modules and parameters.
    """

    model: ModelSource
    configurations: tuple[Configuration, ...] = field(default_factory=lambda: (Configuration(),))
    exact_batch: int | None = None
    formulas: Formulas = field(default_factory=dict)
    is_anonymous: bool = False


def trace(request: TraceRequest, *, feedback: Feedback = SILENCE) -> Trace:
    """Return the trace with the recordings asked for.

    Args:
        request: the model and what to record.
        feedback: where progress is shown.

    Raises:
        UsageError: there is no such model, or it does not take these arguments and inputs.
        TraceError: the model could not be traced.
    """
    model = open_model(request.model, feedback=feedback, formulas=request.formulas)
    made = model.trace(request.configurations, exact_batch=request.exact_batch)
    return anonymize_trace(made) if request.is_anonymous else made
