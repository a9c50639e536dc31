"""Read requests to simulate: a CSV of lengths, or a public trace."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from capplan.errors import UsageError
from capplan.llm.core.simulation.arrivals import Arrivals
from capplan.strict_json import JsonError, read_json
from capplan.tables import read_lines

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

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.prompt, self.answer, self.time, self.cached, self.blocks)


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

    Raises:
        UsageError: The file cannot be read, has none of these forms, or holds a value that cannot be.
    """
    form, rows = _requests(path)
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


def _requests(path: Path) -> tuple[_TraceForm, list[tuple[int, Mapping[str, Any]]]]:
    """Return the form of a file and its requests with their lines; reading ends at the first that is one too many."""
    form: _TraceForm | None = None
    rows: list[tuple[int, Mapping[str, Any]]] = []
    for line, row in _rows(path):
        form = form or _form_of(path, row)
        if form.name == "BurstGPT" and row[form.answer] in (None, "", "0"):
            continue
        rows.append((line, {name: row[name] for name in form.columns if name in row}))
        if len(rows) > MOST_REQUESTS:
            raise UsageError(f"{path}: holds more than {MOST_REQUESTS:,} requests, the most that can be simulated.")
    if form is None or not rows:
        raise UsageError(f"{path}: holds 0 requests; 1 to {MOST_REQUESTS:,} can be simulated.")
    return form, rows


def _form_of(path: Path, row: Mapping[str, Any]) -> _TraceForm:
    for form in _FORMS:
        if set(form.needed) <= row.keys():
            return form
    known = "; ".join(f"{form.name}: {', '.join(form.needed)}" for form in _FORMS)
    lacking = next((name for name in _FORMS[0].needed if name not in row), "")
    raise UsageError(f"{path}: lacks the column {lacking}; known columns of requests are {known}.")


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    lines = read_lines(path)
    first = next(lines, "")
    lines = chain([first], lines)
    if not first.lstrip().startswith("{"):
        try:
            yield from enumerate(csv.DictReader(lines), start=2)
        except csv.Error as error:
            raise UsageError(f"{path}: is not CSV ({error}).") from error
        return
    for line, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        try:
            row = read_json(text)
        except JsonError as error:
            raise UsageError(f"{path}: is not JSON Lines: line {line} {error}.") from error
        if not isinstance(row, dict):
            raise UsageError(f"{path}: each line must be a JSON object of one request.")
        yield line, row


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
