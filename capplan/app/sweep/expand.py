"""Look up what a sweep's file names: models by name, glob, file or folder; GPUs by id, family or filter."""

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from capplan.app.gpu_choice import GpuFilters, GpuRequest, find_gpus
from capplan.app.pipelines.diffusers import find_pipeline, names_pipeline
from capplan.app.sweep.request import LLM_PREFIX, LlmContext, Sweep, SweepContext, SweepModel, SweepRequest
from capplan.app.sweep.stages import imports_code, refuse_options
from capplan.core.gpus.prices import cheapest_on_demand
from capplan.core.gpus.spec import GpuSpec
from capplan.core.named_code import before_colon, code_refusal
from capplan.core.sweep.definition import GpuEntry, ModelEntry, ServingConditions, workload_label
from capplan.core.trace.format import TRACE_SUFFIXES
from capplan.errors import UnknownNameError, UsageError, nearest_names
from capplan.files import exists, read_file
from capplan.hub.refusals import HubError
from capplan.llm.read.calibrations import load_llm_memory, load_time_calibration
from capplan.llm.read.catalogue import catalogue_ids
from capplan.llm.read.sources import find_model
from capplan.probe.inputs.grammar import ModelRequest
from capplan.probe.target.hub_names import find_on_hub
from capplan.probe.target.names import ZOOS, canonical_words, source_names
from capplan.specs import Gpus, load_gpus
from capplan.specs.calibration import load_calibration, load_memory_calibration
from capplan.specs.fitted import load_power_law
from capplan.specs.prices import load_prices
from capplan.specs.strict_yaml import MAX_FILE_BYTES

_LIST_SUFFIX = ".txt"


def expand_sweep(request: SweepRequest) -> Sweep:
    """Look up every name of a sweep."""
    known = load_gpus(overlays=request.specs)
    gpus: dict[str, GpuSpec] = {}
    notes: list[str] = []
    for entry in request.definition.gpus:
        for gpu, note in _gpus(entry, known):
            gpus[gpu.id] = gpu
            notes += [note] * (bool(note) and note not in notes)
    models = expand_models(request.definition.models, beside=request.file)
    for model in models:
        refuse_options(model)
    if not request.allow_code:
        # Refuse models that are code to import, because a file of data runs none unless that is asked for.
        for model in models:
            if model.unknown is None and (request.file is not None or model.is_pipeline) and imports_code(model):
                raise UsageError(f"{request.file or 'models'}: {code_refusal(f'the model {model.label[:120]!r}')}.")
    prices = load_prices(known, overlays=known.overlays)
    serves = any(isinstance(workload, ServingConditions) for workload in request.definition.workloads)
    metered = any(workload.energy for workload in request.definition.workloads)
    sweep = Sweep(
        models=models,
        context=SweepContext(
            gpus=dict(sorted(gpus.items())),
            workloads={workload_label(workload): workload for workload in request.definition.workloads},
            calibration=load_calibration(),
            memory_calibration=load_memory_calibration(),
            llm=LlmContext(times=load_time_calibration(), memory=load_llm_memory()) if serves else None,
            power_law=load_power_law() if metered else None,
        ),
        rents=cheapest_on_demand(prices.hourly),
        notes=tuple(notes),
    )
    # Raise a UsageError for a model without a workload.
    for model in sweep.models:
        if not sweep.workloads_of(model):
            if model.unknown is not None:
                raise UsageError(model.unknown)
            what = "{mode: serving, concurrency: [1, 32]}" if model.is_served else "{batch: [1, 32]}"
            raise UsageError(f"models: nothing is asked of {model.label}; add a workload such as {what}.")
    return sweep


def _gpus(entry: GpuEntry, known: Gpus) -> Iterator[tuple[GpuSpec, str]]:
    filters = GpuFilters(
        where=entry.where, vendors=entry.vendors, architectures=entry.architectures, min_memory=entry.min_memory
    )
    choice = find_gpus(GpuRequest(ids=entry.names, filters=filters, database=known))
    note = "; ".join(choice.notes)
    for gpu in choice.chosen:
        yield gpu, note


def expand_models(entries: Iterable[ModelEntry], *, beside: Path | None = None) -> tuple[SweepModel, ...]:
    """Return every model that the entries stand for, each once, in their order.

    An unknown name stands for a model whose rows will be failures, because a list of thousands of names must not fail
    over one of them. A list of which no name is known is refused.
    """
    models: dict[str, SweepModel] = {}
    for entry in entries:
        for named in _expanded(entry, beside):
            model = _sweep_model(named)
            models.setdefault(model.label, model)
    reasons = [model.unknown for model in models.values() if model.unknown is not None]
    if reasons and len(reasons) == len(models):
        every = f"none of the {len(reasons):,} names is known; the first: " if len(reasons) > 1 else ""
        raise UsageError(f"models: {every}{reasons[0]}")
    return tuple(models.values())


def _sweep_model(entry: ModelEntry) -> SweepModel:
    unknown = None
    try:
        if entry.words.startswith(LLM_PREFIX):
            find_model(entry.words.removeprefix(LLM_PREFIX))
        elif names_pipeline(entry.words):
            find_pipeline(entry.words)
        else:
            entry = replace(entry, words=canonical_words(entry.words))
            found = find_on_hub(ModelRequest(**_named(entry))).request
            entry = replace(entry, words=found.words, arg=found.arg, input_size=found.input_size)
    except (UnknownNameError, HubError) as error:
        unknown = str(error)
    request = ModelRequest(**_named(entry))
    label = " ".join([request.words, *request.options, *entry.pipeline.options])
    return SweepModel(label=label, request=request, pipeline=entry.pipeline, unknown=unknown)


def _named(entry: ModelEntry) -> dict[str, Any]:
    return {field.name: getattr(entry, field.name) for field in fields(ModelEntry) if field.name != "pipeline"}


def _expanded(entry: ModelEntry, beside: Path | None, *, within: tuple[Path, ...] = ()) -> Iterator[ModelEntry]:
    """Return what an entry stands for; `within` are the list files that it stands in."""
    words = _found_from(entry.words, beside)
    if exists(words) and Path(words).is_dir():
        yield from (replace(entry, words=str(path)) for path in _traces_in(Path(words)))
    elif words.endswith(_LIST_SUFFIX) and not before_colon(words)[1]:
        listed = Path(words).resolve()
        if listed in within:
            raise UsageError(f"models: the list {words} names itself; remove that line.")
        path = Path(words)
        try:
            text = read_file(path, at_most=MAX_FILE_BYTES).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"models: cannot read the list {path}: {error}.") from error
        if len(text) > MAX_FILE_BYTES:
            raise UsageError(f"models: the list {path} is longer than {MAX_FILE_BYTES:,} bytes, the most that is read.")
        lines = [line.partition("#")[0].strip() for line in text.splitlines()]
        if not any(lines):
            raise UsageError(f"models: the list {path} names no models; write one a line.")
        for line in [line for line in lines if line]:
            yield from _expanded(replace(entry, words=line), beside, within=(*within, listed))
    elif any(sign in words for sign in "*?["):
        yield from (replace(entry, words=name) for name in _matches(words, beside))
    else:
        yield replace(entry, words=words)


def _found_from(words: str, beside: Path | None) -> str:
    """Return words that name a file by a path that exists: from here, else from the folder of the sweep's file."""
    path, colon, rest = before_colon(words)
    if beside is None or not path or exists(path) or Path(path).is_absolute():
        return words
    there = beside.parent / path
    return f"{there}{colon}{rest}" if exists(there) else words


def _traces_in(folder: Path) -> list[Path]:
    """Raise a UsageError where a folder holds no traces; return them in order otherwise."""
    found = sorted({path for suffix in TRACE_SUFFIXES for path in folder.rglob(f"*{suffix}")})
    if not found:
        raise UsageError(
            f"models: the folder {folder} holds no traces; `capplan trace MODEL -o FILE.trace.json` makes one."
        )
    return found


def _matches(pattern: str, beside: Path | None) -> list[str]:
    """Return what a glob matches: trace files, or names of a library."""
    if "/" in pattern or pattern.endswith((".json", ".gz")):
        found = _files(pattern, beside)
    else:
        prefix, colon, name = pattern.rpartition(":")
        if f"{prefix}:" == LLM_PREFIX:
            return _served_matches(pattern, name)
        libraries = (prefix,) if colon else ZOOS
        if not set(libraries) <= set(ZOOS):
            raise UsageError(f"models: {pattern!r} is a glob over {prefix}:, whose models have no list; name them.")
        known = {model: library for library in reversed(libraries) for model in source_names(library)}
        found = [f"{known[model]}:{model}" for model in sorted(known) if fnmatchcase(model, name)]
        if not found:
            near = nearest_names(name.replace("*", ""), known)
            meant = f"; near are {', '.join(near)}" if near else ""
            raise UsageError(f"models: the glob {pattern!r} matches no model of {' or '.join(libraries)}{meant}.")
    if not found:
        raise UsageError(f"models: the glob {pattern!r} matches no file.")
    return found


def _served_matches(pattern: str, name: str) -> list[str]:
    found = [f"{LLM_PREFIX}{model}" for model in catalogue_ids() if fnmatchcase(model, name)]
    if not found:
        raise UsageError(f"models: the glob {pattern!r} matches no language model; `capplan llm models` lists them.")
    return found


def _files(pattern: str, beside: Path | None) -> list[str]:
    """Return the files that a glob matches: from here, else from the folder of the sweep's file."""
    anchor = Path(Path(pattern).anchor)
    relative = str(Path(pattern).relative_to(anchor)) if Path(pattern).is_absolute() else pattern
    bases = [anchor] if Path(pattern).is_absolute() else [Path(), *([beside.parent] if beside else [])]
    for base in bases:
        try:
            found = sorted(str(path) for path in base.glob(relative) if path.is_file())
        except OSError as error:  # a folder that vanished meanwhile, as those of processes below /proc do
            raise UsageError(
                f"models: the glob {pattern!r} met {error.filename}, which cannot be listed ({error.strerror}); "
                "begin it with a narrower folder."
            ) from error
        if found:
            return found
    return []
