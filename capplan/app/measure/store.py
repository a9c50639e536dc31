"""Keep a measurement file on disk: locked while a run writes it, appended line by line, repaired if it was cut off."""

import hashlib
import os
import stat
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from filelock import FileLock, Timeout

from capplan.app.feedback import SILENCE, Feedback
from capplan.core.measurement.compare import Pairing, compare_runs
from capplan.core.measurement.format import MeasurementFile, parse_points, point_to_line
from capplan.core.measurement.types import Measurement, Point
from capplan.errors import MeasurementError, MeasurementFileError, UsageError
from capplan.files import cache_folder, read_file
from capplan.wording import option_of, worded_fields

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def read_measurements(path: Path) -> MeasurementFile:
    try:
        content = read_file(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}.") from error
    return parse_points(content, where=str(path))


class MeasurementStore:
    """A measurement file open for appending; a context manager that holds the file's lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.points: tuple[Point, ...] = ()
        self.was_cut = False
        self._descriptor = -1
        # The lock file of a measurement file: in the cache, so that the user's folder stays clean.
        folder = cache_folder() / "locks"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            folder = Path(tempfile.gettempdir())
        lock_file = folder / f"{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:32]}.lock"
        self._lock = FileLock(lock_file, timeout=0)

    def __enter__(self) -> Self:
        try:
            self._descriptor = os.open(self.path, _FLAGS, 0o666)
        except OSError as error:
            raise UsageError(f"cannot write {self.path}: {error.strerror or error}.") from error
        try:
            if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
                raise UsageError(f"{self.path} is not a file; a measurement file is read before it is appended to.")
            self._acquire()
            # Read what is there; drop a last line that was cut off, and end one that only lacks its end.
            content = self.path.read_bytes()
            file = parse_points(content, where=str(self.path))
            if file.whole_bytes == len(content) and content.lstrip().startswith(b"{\n"):
                raise MeasurementFileError(f"{self.path} is a JSON document, not JSON lines; append to another file.")
            self.points, self.was_cut = file.points, file.is_cut
            if file.is_cut:
                os.ftruncate(self._descriptor, file.whole_bytes)
            elif content and not content.endswith(b"\n"):
                os.write(self._descriptor, b"\n")
        except BaseException:
            self._lock.release()
            os.close(self._descriptor)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)
        self._lock.release()

    def append(self, point: Point) -> None:
        """Add a point, whole or not at all."""
        line = point_to_line(worded_fields(point, option_of)).encode()
        before = os.fstat(self._descriptor).st_size
        try:
            written = os.write(self._descriptor, line)
            while written < len(line):
                written += os.write(self._descriptor, line[written:])
        except OSError as error:
            os.ftruncate(self._descriptor, before)
            raise MeasurementError(
                f"cannot write {self.path}: {error.strerror or error}; the points before this one are kept in it."
            ) from error

    def _acquire(self) -> None:
        try:
            self._lock.acquire()
        except Timeout as error:
            raise MeasurementFileError(
                f"{self.path} is being written by another run; wait for it, or give this one a file of its own."
            ) from error


def stored_measurements(path: Path, *, feedback: Feedback = SILENCE) -> tuple[Measurement, ...]:
    file = read_measurements(path)
    if file.is_cut:
        feedback.warn(f"warning: {path}: the last line is cut off and left out.")
    if not file.measurements:
        raise UsageError(f"{path} holds no measurement.")
    return tuple(file.measurements)


def compare_files(first: Path, second: Path, *, feedback: Feedback = SILENCE) -> Pairing:
    """Return which questions two runs both answered, and whether their answers differ beyond noise."""
    pairing = compare_runs(
        stored_measurements(first, feedback=feedback), stored_measurements(second, feedback=feedback)
    )
    if not pairing.pairs:
        raise UsageError(f"{first} and {second} have no model, input size, batch and precision in common.")
    return pairing
