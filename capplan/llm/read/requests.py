"""Read requests to simulate: a CSV of lengths, or a public trace."""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from capplan.errors import UsageError
from capplan.files import read_file
from capplan.llm.core.simulation.arrivals import Arrivals
from capplan.strict_json import JsonError, read_json

MOST_REQUESTS = 1_000_000
_BLOCK_TOKENS = 512
"""Tokens of one hash of Mooncake's trace."""


@dataclass(frozen=True, slots=True)
class _TraceForm:
    """A form of trace: the columns of prompts, answers, times and known prefixes, and how a time is read."""

    name: str
    prompt: str
    answer: str
    time: str
    seconds: Callable[[Any], float]
    cached: str = ""
    blocks: str = ""
    needs_time: bool = True

    @property
    def needed(self) -> tuple[str, ...]:
        return (self.prompt, self.answer, *((self.time,) if self.needs_time else ()))


def _clock_s(text: Any) -> float:
    """Return the seconds of a date and time such as 2023-11-16 18:17:03.9799600, or of a number."""
    try:
        return float(text)
    except ValueError:
        whole, _, fraction = str(text).strip().removesuffix("+00:00").partition(".")
        return datetime.fromisoformat(whole).replace(tzinfo=UTC).timestamp() + float(f"0.{fraction or 0}")


_FORMS = (
    _TraceForm("capplan", "input_len", "output_len", "arrival_s", float, cached="cached_len", needs_time=False),
    _TraceForm("Azure", "ContextTokens", "GeneratedTokens", "TIMESTAMP", _clock_s),
    _TraceForm("BurstGPT", "Request tokens", "Response tokens", "Timestamp", float),
    _TraceForm(
        "Mooncake", "input_length", "output_length", "timestamp", lambda given: float(given) / 1000, blocks="hash_ids"
    ),
)


def read_requests(path: Path) -> Arrivals:
    """Read requests with their lengths and, where they are stated, arrival times and prefixes that they share.

    Four forms are known by their columns: input_len and output_len, with arrival_s and cached_len where known; the
    traces of Azure (TIMESTAMP, ContextTokens, GeneratedTokens), of BurstGPT (Timestamp in seconds, Request tokens,
    Response tokens), and of Mooncake (JSON Lines with timestamp in ms, input_length, output_length, hash_ids of 512
    tokens each). Requests without an answer, which BurstGPT has for failures, are left out.

    Args:
        path: The file, plain or compressed.

    Raises:
        UsageError: The file cannot be read, has none of these forms, or holds a value that cannot be.
    """
    rows = _rows(path)
    form = next((known for known in _FORMS if set(known.needed) <= rows[0][1].keys()), None)
    if form is None:
        known = "; ".join(f"{form.name}: {', '.join(form.needed)}" for form in _FORMS)
        lacking = next((name for name in _FORMS[0].needed if name not in rows[0][1]), "")
        raise UsageError(f"{path}: lacks the column {lacking}; known columns of requests are {known}.")
    if form.name == "BurstGPT":
        rows = [(line, row) for line, row in rows if row[form.answer] not in (None, "", "0")]
    if not 1 <= len(rows) <= MOST_REQUESTS:
        raise UsageError(f"{path}: holds {len(rows):,} requests; 1 to {MOST_REQUESTS:,} can be simulated.")
    prompts = [_number(path, line, row, form.prompt, least=1) for line, row in rows]
    answers = [_number(path, line, row, form.answer, least=1) for line, row in rows]
    times = _times(path, rows, form)
    cached = [_number(path, line, row, form.cached, least=0) if row.get(form.cached) else 0.0 for line, row in rows]
    for (line, _), prompt, known_len in zip(rows, prompts, cached, strict=True):
        if known_len > prompt:
            raise UsageError(f"{path}: line {line}: {form.cached} {known_len:g} is more than {form.prompt} {prompt:g}.")
    return Arrivals(
        at_s=np.array(times),
        prompts=np.array(prompts),
        answers=np.array(answers, dtype=np.int64),
        cached=np.array(cached) if any(cached) else None,
        blocks=tuple(_hashes(path, line, row[form.blocks]) for line, row in rows) if form.blocks in rows[0][1] else (),
        block_tokens=_BLOCK_TOKENS,
    )


def _rows(path: Path) -> list[tuple[int, Mapping[str, Any]]]:
    try:
        text = read_file(path).decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror or error}).") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: cannot be read as requests ({error}).") from error
    rows: list[tuple[int, Mapping[str, Any]]]
    if text.lstrip().startswith("{"):
        try:
            rows = [(line, read_json(cells)) for line, cells in enumerate(text.splitlines(), start=1) if cells.strip()]
        except JsonError as error:
            raise UsageError(f"{path}: is not JSON Lines: a line {error}.") from error
        if not all(isinstance(row, dict) for _, row in rows):
            raise UsageError(f"{path}: each line must be a JSON object of one request.")
    else:
        try:
            rows = list(enumerate(csv.DictReader(StringIO(text)), start=2))
        except csv.Error as error:
            raise UsageError(f"{path}: is not CSV ({error}).") from error
    if not rows:
        raise UsageError(f"{path}: holds 0 requests; 1 to {MOST_REQUESTS:,} can be simulated.")
    return rows


def _times(path: Path, rows: Sequence[tuple[int, Mapping[str, Any]]], form: _TraceForm) -> list[float]:
    """Return seconds since the first request; 0 where the form states none."""
    times: list[float] = []
    for line, row in rows:
        given = row.get(form.time)
        try:
            seconds = form.seconds(given) if given not in (None, "") else 0.0
        except (TypeError, ValueError):
            seconds = float("nan")
        if not 0 <= seconds < 1e12:
            raise UsageError(f"{path}: line {line}: {form.time} must be a time of at least 0, not {given!r}.")
        if times and seconds < times[-1]:
            raise UsageError(
                f"{path}: line {line}: arrives at {seconds:g} s, before the line above; sort by {form.time}."
            )
        times.append(seconds)
    first = times[0] if form.needs_time else 0.0
    return [seconds - first for seconds in times]


def _hashes(path: Path, line: int, given: Any) -> tuple[int, ...]:
    if not isinstance(given, list) or not all(isinstance(number, int) for number in given):
        raise UsageError(f"{path}: line {line}: hash_ids must be a list of whole numbers, not {str(given)[:40]!r}.")
    return tuple(given)


def _number(path: Path, line: int, row: Mapping[str, Any], name: str, *, least: float) -> float:
    try:
        value = float(row[name])
    except (TypeError, ValueError):
        value = float("nan")
    if not least <= value < 1e12:
        raise UsageError(f"{path}: line {line}: {name} must be a number of at least {least:g}, not {row[name]!r}.")
    return value
