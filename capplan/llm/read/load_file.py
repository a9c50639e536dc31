"""Read a LOAD.yaml of language-model serving, and requests to simulate: a CSV of lengths or a public trace."""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from capplan.core.serving.load import DAYS_PER_WEEK, days_in_use
from capplan.errors import UsageError
from capplan.files import read_file
from capplan.llm.core.fleet.money import ApiPrice
from capplan.llm.core.fleet.token_load import BatchJob, TokenLoad
from capplan.llm.core.serving.asked import Sampling, Speculation, Statistic
from capplan.llm.core.serving.service import BENCHMARK_SPREAD
from capplan.llm.core.sharding import ShardingChoice
from capplan.llm.core.simulation.arrivals import Arrivals
from capplan.llm.core.simulation.load_answer import LatencyLimits
from capplan.llm.core.weights import Adapters
from capplan.specs.load import hours_of_use
from capplan.specs.strict_yaml import Tree, read_yaml
from capplan.specs.values import ValueReader
from capplan.strict_json import JsonError, read_json

_HOURS = ("hours", "days_per_week")
_LIMITS = ("max_ttft", "max_tpot", "max_e2e", "percentile", "certainty")
_KEYS = (
    "rate", "concurrency", "prompts", "within", "input_len", "output_len", "spread", "input_cv", "output_cv",
    "burstiness", "prefix_hits", "draft_tokens", "acceptance", *_LIMITS, "gpu", "engine", "weights", "kv", "tp", "pp",
    "ep", "dp", "max_seqs", "redundancy", "growth", "years", "api_price", "adapters", "lora_rank", "sampling",
    "utilization", *_HOURS,
)  # fmt: skip
_OTHER_NAMES = {"rate_per_s": "rate", "gpus": "gpu", "engines": "engine"}
_LENGTHS = {"input_len": 1024.0, "output_len": 256.0}
MOST_YEARS = 10
"""Years that rent and purchase are compared over at most."""
LARGEST: Mapping[str, int] = {
    "draft_tokens": 32, "adapters": 10**5, "lora_rank": 10**4, "redundancy": 10**7, "tp": 10**7, "pp": 10**7,
    "ep": 10**7, "dp": 10**7, "max_seqs": 10**7, "burstiness": 1000, "input_len": 10**8, "output_len": 10**8,
    "prompts": 10**12, "years": MOST_YEARS, "days_per_week": DAYS_PER_WEEK,
}  # fmt: skip
"""The largest numbers that keys may hold: those of the options of `capplan llm plan`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingLoadFile:
    """What a file asks for; empty tuples leave a choice to the search, None of the certainty to the limits."""

    load: TokenLoad
    limits: LatencyLimits
    certainty_fraction: float | None = None
    gpus: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    kv: str = ""
    choice: ShardingChoice = field(default_factory=ShardingChoice)
    batch_limits: tuple[int, ...] = ()
    redundancy: int = 0
    growth_fraction: float = 0.0
    years: int = 3
    week: tuple[float, ...] = ()
    api: ApiPrice | None = None
    adapters: Adapters | None = None
    sampling: Sampling = Sampling.GREEDY
    utilization_fraction: float | None = None


def read_serving_load(path: Path) -> ServingLoadFile:
    """Read a load file.

    Args:
        path: The file.

    Raises:
        SpecError: The file is refused, with all that is wrong with it.
    """
    tree = read_yaml(path)
    reader = _LlmLoadReader(str(path), "")
    tree = reader.flat(tree)
    reader.unknown_keys(tree, _KEYS, "")
    found = reader.read(tree)
    reader.finish({})
    assert found is not None  # whatever was not read was refused
    return found


def read_fleet(tree: Tree, *, where: str) -> tuple[tuple[str, ServingLoadFile], ...]:
    """Read several models with their loads: `models` is a list, keys beside it hold for all of them.

    Args:
        tree: What a file holds.
        where: What errors call it.

    Raises:
        SpecError: It is refused, with all that is wrong with it.
    """
    reader = _LlmLoadReader(where, "")
    entries = tree.get("models")
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        reader.refuse("models", "must be a list of loads, each with its model, such as - {model: qwen3-8b, rate: 5/s}")
        reader.finish({})
    common = {key: value for key, value in tree.items() if key != "models"}
    found = []
    for entry in entries if isinstance(entries, list) else []:
        keys = reader.flat({**common, **entry})
        model = keys.pop("model", None)
        if not isinstance(model, str) or not model.strip():
            reader.refuse("models", f"each entry must name its model, not {model!r}")
        reader.unknown_keys(keys, _KEYS, "")
        for key in _HOURS:
            if key in keys:
                reader.refuse(
                    key, "is read where one model is planned, by llm plan or report: fleets cost USD per hour"
                )
        load = reader.read(keys)
        if load is not None:
            found.append((str(model), load))
    reader.finish({})
    return tuple(found)


class _LlmLoadReader(ValueReader):
    """Reads the keys of a load file; a value of another kind is refused."""

    def flat(self, tree: Tree) -> Tree:
        """Return the keys with a group of limits and other names of keys put in their place."""
        inner = tree.get("llm", tree)
        given = dict(inner) if isinstance(inner, dict) and len(tree) == 1 else dict(tree)
        limits = given.pop("limits", {})
        if isinstance(limits, dict):
            given |= {key if key in _LIMITS[3:] else f"max_{key}": value for key, value in limits.items()}
        else:
            self.refuse("limits", f"must be keys with times, such as ttft: 1 s, not {limits!r}")
        return {_OTHER_NAMES.get(key, key): value for key, value in given.items()}

    def read(self, tree: Tree) -> ServingLoadFile | None:
        """Return what the file asks for; None where something was refused."""
        load = self._load(tree)
        limits = self._limits(tree)
        certainty = self._share(tree, "certainty", most=0.999) if "certainty" in tree else None
        if certainty == 0.0:
            self.refuse("certainty", "must be above 0, such as 90%")
        redundancy, years = self._whole(tree, "redundancy", 0, least=0), self._whole(tree, "years", 3, least=1)
        growth = self.fraction("growth", tree["growth"]) if "growth" in tree else 0.0
        api, week = self._api(tree), self._week(tree)
        sizes = {key: self._sizes(tree, key) for key in ("tp", "pp", "ep", "dp", "max_seqs")}
        names = {key: self._names(tree, key) for key in ("gpu", "engine", "weights", "kv")}
        count, rank = self._whole(tree, "adapters", 0, least=0), self._whole(tree, "lora_rank", 16, least=1)
        sampling = self._sampling(tree)
        utilization = self._share(tree, "utilization", most=1.0) if "utilization" in tree else None
        if load is None or self.problems:
            return None
        return ServingLoadFile(
            load=load,
            limits=limits,
            certainty_fraction=certainty,
            gpus=names["gpu"],
            engines=names["engine"],
            weights=names["weights"],
            kv=names["kv"][0] if names["kv"] else "",
            choice=ShardingChoice(tensor=sizes["tp"], pipeline=sizes["pp"], expert=sizes["ep"], data=sizes["dp"]),
            batch_limits=sizes["max_seqs"],
            redundancy=redundancy,
            growth_fraction=growth or 0.0,
            years=years,
            week=week,
            api=api,
            adapters=Adapters(count=count, rank=rank) if count else None,
            sampling=sampling,
            utilization_fraction=utilization,
        )

    def _week(self, tree: Tree) -> tuple[float, ...]:
        """Return which hours of a week have load; nothing where all have."""
        if not any(key in tree for key in _HOURS):
            return ()
        used, days = hours_of_use(str(tree.get("hours", "0-24"))), self._whole(tree, "days_per_week", 7, least=1)
        if used is None:
            self.refuse("hours", f"must be whole hours of a day such as 8-18 or 22-6, not {tree['hours']!r}")
        return days_in_use(used or frozenset(), days)

    def _load(self, tree: Tree) -> TokenLoad | None:
        rate = self.rate("rate", tree["rate"]) if "rate" in tree else None
        clients = self._positive(tree, "concurrency") if "concurrency" in tree else None
        job = self._job(tree)
        if ("rate" in tree) + ("concurrency" in tree) + ("prompts" in tree) != 1:
            self.refuse(
                "rate", "state the load by one of rate (20/s) and concurrency (64), or a job by prompts and within (8h)"
            )
        lengths = {key: self._positive(tree, key) if key in tree else value for key, value in _LENGTHS.items()}
        given = {key: self._share(tree, key, most=most) for key, most in _SHARES.items()}
        varies = bool(given["input_cv"] or given["output_cv"])
        burstiness = self._positive(tree, "burstiness") if "burstiness" in tree else 1.0
        speculation = self._speculation(tree)
        if self.problems:
            return None
        return TokenLoad(
            rate_per_s=rate if job is None else job.prompts / job.within_s,
            concurrency=clients,
            job=job,
            input_len=lengths["input_len"] or 1.0,
            output_len=lengths["output_len"] or 1.0,
            spread=given["spread"] if "spread" in tree or varies else BENCHMARK_SPREAD,
            input_cv=given["input_cv"],
            output_cv=given["output_cv"],
            gap_scv=burstiness or 1.0,
            prefix_fraction=given["prefix_hits"],
            speculation=speculation,
        )

    def _job(self, tree: Tree) -> BatchJob | None:
        if ("prompts" in tree) != ("within" in tree):
            self.refuse("prompts", "needs within as well, such as 100000 and 8h")
        if "prompts" not in tree or "within" not in tree:
            return None
        prompts, within_s = self._whole(tree, "prompts", 1, least=1), self._time(tree, "within")
        return BatchJob(prompts=prompts, within_s=within_s) if within_s else None

    def _sampling(self, tree: Tree) -> Sampling:
        given = tree.get("sampling", Sampling.GREEDY.value)
        if given not in tuple(Sampling):
            self.refuse("sampling", f"must be greedy or filtered, not {given!r}")
            return Sampling.GREEDY
        return Sampling(given)

    def _limits(self, tree: Tree) -> LatencyLimits:
        times = {key: self._time(tree, key) for key in _LIMITS[:3]}
        given = str(tree.get("percentile", "mean")).lower().lstrip("p")
        named = {statistic.value.lstrip("p"): statistic for statistic in Statistic}
        if given not in named:
            self.refuse("percentile", f"must be one of {', '.join(named)}, not {tree['percentile']!r}")
        return LatencyLimits(
            ttft_s=times["max_ttft"],
            tpot_s=times["max_tpot"],
            e2e_s=times["max_e2e"],
            statistic=named.get(given, Statistic.MEAN),
        )

    def _time(self, tree: Tree, key: str) -> float | None:
        return self.positive(key, self.duration(key, tree[key])) if key in tree else None

    def _speculation(self, tree: Tree) -> Speculation | None:
        if ("draft_tokens" in tree) != ("acceptance" in tree):
            self.refuse("draft_tokens", "needs acceptance as well, such as 3 and 0.7")
        if "draft_tokens" not in tree:
            return None
        drafts = self._whole(tree, "draft_tokens", 1, least=1)
        return Speculation(drafts=drafts, acceptance=self._share(tree, "acceptance", most=1.0))

    def _api(self, tree: Tree) -> ApiPrice | None:
        given = tree.get("api_price")
        if given is None:
            return None
        if not isinstance(given, dict) or set(given) != {"input", "output"}:
            self.refuse("api_price", "must have input and output, USD per million tokens")
            return None
        prices = [self.number(f"api_price.{key}", given[key]) for key in ("input", "output")]
        if None in prices or min(price or 0.0 for price in prices) < 0 or not any(prices):
            self.refuse("api_price", "must be amounts of at least 0, one of them above")
            return None
        return ApiPrice(usd_per_million_input=prices[0] or 0.0, usd_per_million_output=prices[1] or 0.0)

    def _positive(self, tree: Tree, key: str) -> float | None:
        value = self.positive(key, self.number(key, tree[key]))
        return value if value is None or self._is_held(key, value) else None

    def _share(self, tree: Tree, key: str, *, most: float) -> float:
        value = self.fraction(key, tree.get(key, 0.0))
        if value is not None and not 0 <= value <= most:
            self.refuse(key, f"must lie from 0 to {most:g}, not {value:g}")
        return value or 0.0

    def _whole(self, tree: Tree, key: str, default: int, *, least: int) -> int:
        given = tree.get(key, default)
        if isinstance(given, bool) or not isinstance(given, int | float) or given % 1 != 0 or given < least:
            self.refuse(key, f"must be a whole number of at least {least}, not {given!r}")
            return default
        return int(given) if self._is_held(key, given) else default

    def _is_held(self, key: str, value: float) -> bool:
        """Return True if a number is not above the largest that its key may hold."""
        most = LARGEST.get(key)
        if most is not None and value > most:
            self.refuse(key, f"must be at most {most:,}, not {value:g}")
        return most is None or value <= most

    def _sizes(self, tree: Tree, key: str) -> tuple[int, ...]:
        given = tree.get(key, [])
        items: Sequence[object] = given if isinstance(given, list) else [given]
        return tuple(self._whole({key: item}, key, 1, least=1) for item in items)

    def _names(self, tree: Tree, key: str) -> tuple[str, ...]:
        given = tree.get(key, [])
        return self.texts({key: given if isinstance(given, list) else [given]}, key)


_SHARES = {"spread": 1.0, "input_cv": 10.0, "output_cv": 10.0, "prefix_hits": 0.999}


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
