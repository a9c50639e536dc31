"""Predict the measured steps of many models in several processes, because tracing them takes most of the time."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

from capplan.app.calibration.measured_models import group_models, group_runs, trace_folder
from capplan.core.calibrate.measured import MeasuredStep, SkippedRow
from capplan.core.calibrate.validation import JudgedStep
from capplan.processes.supervisor import ONE_THREAD, Worker, WorkerDiedError, cores
from capplan.processes.worker import UnexpectedError

Judged = tuple[list[JudgedStep], list[SkippedRow]]
"""Steps with what is predicted of them, and those that cannot be predicted."""

_TRACING_S, _PREDICTING_S, _STARTING_S = 0.3, 0.05, 4.0
"""What a graph takes to be traced and to be predicted, and what a process takes to start, on a core of 2023. [s]"""
_MOST_PROCESSES = 8


def judge_in_processes(
    steps: Sequence[MeasuredStep], make: Callable[..., Callable[[Any], Any]], arguments: Sequence[Any]
) -> Judged:
    """Predict steps in as many processes as the work is worth; in this one where it is little.

    Args:
        steps: what was measured.
        make: a function of a module that is called with `arguments` in each process; what it returns predicts steps.
        arguments: the last is the folder of traces, None for the user's cache.

    Returns:
        What is predicted, in the order of the models in `steps`, whichever process came first.
    """
    groups = group_models(steps)
    count = min(cores(), _MOST_PROCESSES, len(groups), int(_work_s(steps, arguments[-1]) / (2 * _STARTING_S)))
    if count < 2:
        judge = make(*arguments)
        parts = [judge(group) for group in groups]
    else:
        parts = _share(groups, make, arguments, count)
    return [step for judged, _ in parts for step in judged], [row for _, skipped in parts for row in skipped]


def _work_s(steps: Sequence[MeasuredStep], folder: Any) -> float:
    """Return about how long one process takes for steps. [s]"""
    store, runs = trace_folder(folder), group_runs(steps)
    return sum(_PREDICTING_S if store.holds(run) else _PREDICTING_S + _TRACING_S for run in runs)


def _share(
    groups: Sequence[Sequence[MeasuredStep]],
    make: Callable[..., Callable[[Any], Any]],
    arguments: Sequence[Any],
    count: int,
) -> list[Judged]:
    left, stop, parts = deque(range(len(groups))), Event(), dict[int, Judged]()

    def work() -> None:
        worker = Worker(make, *arguments, environment=ONE_THREAD)
        try:
            while left and not stop.is_set():
                index = left.popleft()
                parts[index] = _answer(worker, groups[index], stop)
        except IndexError:  # another thread took the last one
            return
        finally:
            worker.close()

    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(work) for _ in range(count)]
        try:
            for future in futures:
                future.result()
        finally:
            stop.set()
    return [parts[index] for index in range(len(groups))]


def _answer(worker: Worker, group: Sequence[MeasuredStep], stop: Event) -> Judged:
    """Return what a process predicts of a model's steps; they are skipped if the process dies of them."""
    try:
        answer = worker.call_again(list(group), stop=stop)
    except WorkerDiedError as died:
        return [], [SkippedRow(line=step.line, file=step.file, reason=str(died)) for step in group]
    if isinstance(answer, UnexpectedError):
        raise RuntimeError(answer.trace)
    judged: Judged = answer
    return judged
