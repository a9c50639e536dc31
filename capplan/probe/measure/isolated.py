"""A child process for every point: a crash, a hang or a device left unusable costs that point alone."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from capplan.core.measurement.format import parse_points, point_to_line
from capplan.core.measurement.types import DeviceFacts, Failure, FailureKind, ModelIdentity, Point
from capplan.errors import CapplanError
from capplan.probe.measure.point import OnProgress
from capplan.probe.measure.request import Job, job_from_json, job_to_json
from capplan.probe.measure.session import Session, make_failure

MEASURE, ATTEMPT = "measure", "attempt"
_STDERR = 2
"""What a model prints is no answer: a child's output goes to this descriptor."""


class IsolatedMeasurer:
    """Starts a child per point and ends it after `timeout_s`."""

    def __init__(self, job: Job, *, model: ModelIdentity, device: DeviceFacts, timeout_s: float | None) -> None:
        self._job = job
        self._model = model
        self._device = device
        self._timeout_s = timeout_s

    def measure(self, batch: int, *, on_progress: OnProgress = lambda _: None) -> Point:
        """Time a batch in a child; its progress is not seen."""
        del on_progress
        return self._asked(MEASURE, batch) or self._failure(batch, FailureKind.CRASH, "ended without an answer")

    def attempt(self, batch: int) -> Failure | None:
        """Run a batch in a child without timing it; None where it ran."""
        answer = self._asked(ATTEMPT, batch)
        return answer if isinstance(answer, Failure) else None

    def _asked(self, action: str, batch: int) -> Point | None:
        with tempfile.TemporaryFile() as answers:
            command = [
                sys.executable,
                "-m",
                "capplan.probe.measure.isolated",
                action,
                str(batch),
                str(answers.fileno()),
            ]
            child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=_STDERR, pass_fds=[answers.fileno()], start_new_session=True
            )
            with _killed_at_the_end(child):
                try:
                    child.communicate(job_to_json(self._job).encode(), timeout=self._timeout_s)
                except subprocess.TimeoutExpired:
                    what = f"took more than {self._timeout_s:g} s and was ended"
                    return self._failure(batch, FailureKind.TIMEOUT, what)
            answers.seek(0)
            content = answers.read()
        return self._answer(batch, content, child.returncode)

    def _answer(self, batch: int, content: bytes, status: int) -> Point | None:
        found = parse_points(content, where=f"the child process of batch {batch}")
        if found.points and not found.is_cut:
            return found.points[0]
        if status == 0:
            return None
        if status < 0:
            return self._failure(batch, FailureKind.CRASH, f"was killed by {signal.Signals(-status).name}")
        return self._failure(batch, FailureKind.CRASH, f"ended with status {status}; its message stands above")

    def _failure(self, batch: int, kind: FailureKind, what: str) -> Failure:
        message = f"running {self._model.words} at batch {batch} {what}"
        return make_failure(self._job, self._model, self._device, batch=batch, kind=kind, message=message)


@contextmanager
def _killed_at_the_end(child: "subprocess.Popen[bytes]") -> Iterator[None]:
    try:
        yield
    finally:
        if child.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def main(action: str, batch: str, answers: str) -> int:
    """Measure one point of the job on stdin and write it to a file descriptor: what the child runs."""
    job = job_from_json(sys.stdin.read())
    try:
        with Session(job) as session:
            point = session.measure(int(batch)) if action == MEASURE else session.attempt(int(batch))
    except CapplanError as error:
        sys.stderr.write(f"capplan: {error}\n")
        return error.exit_code
    with os.fdopen(int(answers), "w") as stream:
        if point is not None:
            stream.write(point_to_line(point))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
