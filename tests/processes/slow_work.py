"""What the processes of each pool run in `test_pools`: as little as answers a task, slowly, and with few imports."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from capplan.app.calibration.validate import Judged
    from capplan.app.sweep.isolation import TraceTask
    from capplan.app.sweep.request import SweepContext
    from capplan.app.sweep.stages import JobAnswer, PlanningJob, Traces
    from capplan.core.calibrate.measured import MeasuredStep
    from capplan.serve.planning.messages import Outcome, Refusal, Task, TraceJob
    from capplan.serve.settings import Settings

WORK_S = 0.3
"""How long a task must take, so that its process can be killed in its midst. [s]"""


def slowly(answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what answers a task after so long that its process can be killed in the midst of it."""

    def answered(task: Any) -> Any:
        time.sleep(WORK_S)
        return answer(task)

    return answered


def make_service_planner(_: "Settings") -> "Callable[[Task], Outcome]":
    """Answer a question about a GPU with its name."""
    from capplan.serve.planning.messages import Reply

    return slowly(lambda task: Reply(content=task.question.gpu.encode(), media_type="text/plain"))


def make_service_tracer(_bytes: int, _seconds: float, _folder: str) -> "Callable[[TraceJob], Refusal]":
    """Fail to trace every model, with its name."""
    from capplan.serve.planning.messages import Refusal

    return slowly(lambda job: Refusal(message=job.request.words, exit_code=3))


def make_sweep_planner(context: "SweepContext") -> "Callable[[PlanningJob], JobAnswer]":
    """Plan as a sweep does."""
    from capplan.app.sweep.stages import plan_model

    return slowly(lambda job: plan_model(job, context=context))


def make_sweep_tracer() -> "Callable[[TraceTask], Traces]":
    """Trace nothing."""
    from capplan.app.sweep.stages import Traces

    return slowly(lambda _: Traces())


def make_point_measurer(_: str) -> Callable[[object], bytes]:
    """Run every batch without a failure."""
    return slowly(lambda _: b"")


def make_sweep_measurer() -> Callable[[object], object]:
    """List one device."""
    return slowly(lambda _: {"cpu": "a processor"})


def make_judge(_: Path | None) -> "Callable[[Sequence[MeasuredStep]], Judged]":
    """Skip every row, as seen."""
    from capplan.core.calibrate.measured import SkippedRow

    return slowly(lambda steps: ([], [SkippedRow(line=step.line, file=step.file, reason="seen") for step in steps]))
