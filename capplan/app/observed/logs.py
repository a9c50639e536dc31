"""Read request logs of any length in constant memory."""

import gzip
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from capplan.app.feedback import SILENCE, Feedback
from capplan.app.observed.log_forms import (
    BrokenLineError,
    FailedRequest,
    LogForm,
    TraceTable,
    UnrelatedRequest,
    form_of,
)
from capplan.app.observed.tally import LoadTally, Requests
from capplan.core.serving.observed import ObservedLoad
from capplan.errors import UsageError
from capplan.files import open_file
from capplan.strict_json import GZIP_MAGIC

LONGEST_LOG_LINE = 4 * 2**20
"""Longest line of a log that is read; longer ones are counted as broken. [bytes]"""
LARGEST_LOG_BYTES = 2**40
"""Most bytes of a log, decompressed, after which reading ends with a refusal. [bytes]"""
_CHUNK_BYTES = 2**20
_MOST_LOOKED_AT = 50
"""Lines in which the form of a log must show."""
_KNOWN = (
    "JSON lines with OpenAI's usage, LiteLLM's standard payload, nginx's combined format, Envoy's default format, or "
    "a trace of Azure or BurstGPT"
)


def read_logs(paths: Sequence[Path], *, path: str = "", feedback: Feedback = SILENCE) -> ObservedLoad:
    """Read the load that request logs of one form show, plain or gzip-compressed, in any order.

    `path` is how the paths of the requests of access logs begin that are counted; all where it is empty.
    """
    tally, forms = LoadTally(), []
    for file in paths:
        with feedback.progress(f"reading {file.name}"):
            forms.append(_read_log(file, tally, path))
    names = sorted({form.name for form in forms})
    if len(names) > 1:
        raise UsageError(f"the logs are of several forms ({', '.join(names)}); read those of one form at a time.")
    arrivals = tally.arrivals(has_dates=forms[0].has_dates)
    if arrivals is None:
        why = next(iter(tally.broken_lines()), None)
        rest = f": {why.lines:,} lines could not be read, because {why.reason}" if why else ""
        raise UsageError(f"{', '.join(map(str, paths))}: holds no request that was answered{rest}.")
    cached_of = tally.cached_of
    return ObservedLoad(
        sources=tuple(file.name for file in paths),
        form=names[0],
        arrivals=arrivals,
        prompt=tally.spreads["prompt"].spread(),
        answer=tally.spreads["answer"].spread(),
        prefix_fraction=tally.cached / cached_of if cached_of else None,
        ttft_s=tally.spreads["ttft_s"].spread(),
        tpot_s=tally.spreads["tpot_s"].spread(),
        e2e_s=tally.spreads["e2e_s"].spread(),
        failed=float(tally.failed),
        broken=tally.broken_lines(),
        lines=tally.lines,
    )


def _read_log(file: Path, tally: LoadTally, path: str) -> LogForm:
    form: LogForm | None = None
    number, looked_at = 0, 0
    for lines in _line_blocks(file):
        block: Requests = []
        for line in lines:
            number += 1
            if not line.strip():
                continue
            if form is None:
                form = form_of(line, path=path)
                looked_at += 1
                if form is None and looked_at >= _MOST_LOOKED_AT:
                    raise UsageError(f"{file}: its lines are of no known form: {_KNOWN}.")
                if form is None or isinstance(form, TraceTable):
                    if form is None:
                        tally.lines += 1
                        tally.add_broken("it is of no known form", 1, number)
                    continue
            tally.lines += 1
            try:
                if len(line) > LONGEST_LOG_LINE:
                    raise BrokenLineError(f"it has more than {LONGEST_LOG_LINE:,} bytes")
                form.read(line, block)
            except BrokenLineError as error:
                tally.add_broken(str(error), 1, number)
            except FailedRequest:
                tally.failed += 1
            except UnrelatedRequest:
                pass
        tally.add(block)
    if form is None:
        raise UsageError(f"{file}: its lines are of no known form: {_KNOWN}.")
    return form


def _line_blocks(file: Path) -> Iterator[list[bytes]]:
    """Yield the lines of a file, some at a time; of a line that is too long only as much as shows that it is."""
    with _opened(file) as stream:
        rest, size = b"", 0
        is_cut = False
        while chunk := stream.read(_CHUNK_BYTES):
            size += len(chunk)
            if size > LARGEST_LOG_BYTES:
                raise UsageError(f"{file} holds more than {LARGEST_LOG_BYTES:,} bytes, the most that are read.")
            lines = (rest + chunk).split(b"\n")
            rest = lines.pop()
            if is_cut and lines:  # what is left of a line that was yielded as too long
                del lines[0]
                is_cut = False
            if is_cut:
                rest = b""
            elif len(rest) > LONGEST_LOG_LINE:
                lines.append(rest)
                rest, is_cut = b"", True
            yield lines
        if rest and not is_cut:
            yield [rest]


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    try:
        with open_file(file) as raw:
            if raw.peek(2)[:2] == GZIP_MAGIC:  # a pipe cannot be read again from its start
                with gzip.open(raw, "rb") as unpacked:
                    yield unpacked  # type: ignore[misc]  # a GzipFile reads as a binary file does
            else:
                yield raw
    except zlib.error as error:
        raise UsageError(f"{file} is a damaged compressed file ({error}).") from error
    except (OSError, EOFError) as error:
        raise UsageError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}.") from error
