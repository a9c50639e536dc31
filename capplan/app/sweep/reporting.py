"""The models and GPUs of a sweep's results, as a report asks for them."""

from dataclasses import replace
from pathlib import Path

from capplan.app.gpu_choice import GpuFilters
from capplan.app.models import ModelSource
from capplan.app.report import ReportRequest
from capplan.app.sweep.records import has_state
from capplan.app.sweep.store import read_contents
from capplan.errors import UsageError
from capplan.probe.inputs.request import ModelRequest

MOST_MODELS = 50
"""A report lays every model out; the table of a larger sweep is asked with `capplan query`."""


def is_sweep(words: str) -> bool:
    """Return True if words name a folder that `capplan sweep` wrote."""
    try:
        return has_state(Path(words))
    except (OSError, ValueError):  # a name too long, or with a NUL
        return False


def with_swept_models(request: ReportRequest) -> ReportRequest:
    """Return a request with a sweep's models in the place of its folder, and its GPUs where none are named.

    Args:
        request: what a report is asked for; a model's words may name a folder that `capplan sweep` wrote.

    Raises:
        UsageError: the folder is damaged, no model has an answer, or there are too many for a report.
    """
    models: list[ModelSource] = []
    gpus: dict[str, None] = {}
    for model in request.models:
        if isinstance(model, ModelRequest) and is_sweep(model.words):
            swept, ids = swept_models(Path(model.words))
            models += swept
            gpus |= dict.fromkeys(ids)
        else:
            models.append(model)
    names_gpus = bool(request.gpus.ids or request.gpus.specs or request.gpus.filters != GpuFilters())
    if not gpus or names_gpus:
        return replace(request, models=tuple(models))
    return replace(request, models=tuple(models), gpus=replace(request.gpus, ids=tuple(gpus)))


def swept_models(folder: Path) -> tuple[tuple[ModelRequest, ...], tuple[str, ...]]:
    """Return the models of a sweep that have an answer, and the ids of its GPUs.

    Args:
        folder: the results.

    Raises:
        UsageError: the folder is damaged, no model has an answer, or there are too many for a report.
    """
    contents = read_contents(folder)
    labels = dict.fromkeys(unit.model for unit in contents.units.values() if unit.failed is None)
    if not labels:
        raise UsageError(f"no model of {folder} has an answer; `capplan query {folder} failures` lists the reasons.")
    if len(labels) > MOST_MODELS:
        raise UsageError(
            f"{folder} holds {len(labels):,} models, and a report lays out at most {MOST_MODELS}; sweep fewer, or ask "
            f"`capplan query {folder} cheapest`."
        )
    return tuple(map(request_of, labels)), tuple(contents.manifest["gpus"])


def request_of(label: str) -> ModelRequest:
    """Return the request that a row's `model` stands for: the words, and the options of a command line."""
    words, *options = label.split(" --") if " --" in label else [label]
    values: dict[str, list[str]] = {}
    for option, value in map(_parted, options):
        values.setdefault(option, []).append(value)
    if stated := [option for option in ("--set", "--part", "--offload") if option in values]:
        raise UsageError(
            f"a report of a sweep's models cannot repeat {', '.join(stated)} of {label[:120]}; name the pipeline: "
            f"`capplan report {words} {stated[0]} ...`."
        )

    def single(option: str) -> str | None:
        return values[option][0] if option in values else None

    seq_len = single("--seq-len")
    return ModelRequest(
        words=words,
        arg=tuple(values.get("--arg", ())),
        inputs=tuple(values.get("--input", ())),
        prepare=tuple(values.get("--prepare", ())),
        freeze=tuple(values.get("--freeze", ())),
        input_size=single("--input-size"),
        seq_len=int(seq_len) if seq_len else None,
        inputs_from=single("--inputs-from"),
    )


def _parted(text: str) -> tuple[str, str]:
    option, _, value = text.partition(" ")
    return f"--{option}", value
