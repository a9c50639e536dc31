"""Trace the models of measured steps as they ran: at their sizes, with timm's switches, kept in a folder of traces."""

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import torch

from capplan.core.calibrate.measured import MeasuredStep, Switch, split_words
from capplan.core.ops.flops import check_operators
from capplan.core.trace.format import TRACE_SUFFIXES, dump_trace, load_trace
from capplan.core.trace.types import Trace
from capplan.core.workload import Configuration, Variant
from capplan.errors import CapplanError, TraceFileError, UsageError
from capplan.files import exists, is_file, read_file, replace_whole
from capplan.probe.cuda.autocast import contexts_of_models
from capplan.probe.cuda.rules import autocast_of_cuda
from capplan.probe.inputs.grammar import InputRequest, parse_argument, parse_request
from capplan.probe.target.resolve import load_target
from capplan.probe.target.types import Built, Target, versions_of
from capplan.probe.trace.tracer import build_module, trace_target
from capplan.strict_json import LARGEST_TEXT_BYTES
from capplan.version import __version__

_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRun:
    """What decides the graph of a measured step: the model, its input, timm's switches, the recording."""

    model: str
    input_size: tuple[int, ...]
    arguments: tuple[str, ...] = ()
    reparameterized: bool
    fast_norm: bool
    configuration: Configuration

    @classmethod
    def of(cls, step: MeasuredStep) -> "ModelRun":
        """Return the graph that a measured step ran.

        Unknown switches are off, as timm leaves them, but for norms of inference under autocast up to torch 2.1: rows
        that leave them open there are of timm's published tables, whose models with group norms ran under torch 1.13
        and 2.1, as those that state the switch did under 2.4, in the time that half precision takes (fp32 norms would
        take 1.5 to 2 times that of the whole step). CLIP's towers, named `vit_*_clip_*`, had torch's own norms, which
        the switch leaves alone, in timm up to 1.0.9, of the tables up to torch 2.4; now they have timm's.
        """
        is_open = step.fast_norm is Switch.UNKNOWN and step.workload.training is None
        is_tabled = is_open and step.workload.torch_version <= _LAST_OPEN_TABLE
        under_autocast = step.workload.precision.variant is Variant.AMP
        is_tower = step.model.startswith("timm:vit_") and "_clip_" in step.model
        has_timms_norms = not is_tower or step.workload.torch_version > _LAST_OF_PLAIN_TOWERS
        return cls(
            model=step.model,
            input_size=step.input_size,
            arguments=step.arguments,
            reparameterized=step.reparameterized is Switch.ON,
            fast_norm=has_timms_norms and (step.fast_norm is Switch.ON or (is_tabled and under_autocast)),
            configuration=step.workload.configuration,
        )


_LAST_OPEN_TABLE = (2, 1)
"""The last torch release whose published tables do not say whether norms ran in half precision."""
_LAST_OF_PLAIN_TOWERS = (2, 4)


class TraceFolder:
    """Traces by what made them; a trace of another version of capplan, torch or a model library is never given."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._built: BuiltRun | None = None

    def obtain(self, run: ModelRun) -> Trace:
        """Return the trace of a run, from the folder or by tracing."""
        if run.model.endswith(TRACE_SUFFIXES):
            try:
                trace = load_trace(read_file(Path(run.model), at_most=LARGEST_TEXT_BYTES), where=run.model)
            except OSError as error:
                raise UsageError(f"cannot read {run.model}: {error.strerror or error}.") from error
            check_operators(trace, where=run.model)
            return trace
        path = self._path(run)
        try:
            return load_trace(path.read_bytes(), where=str(path))
        except (FileNotFoundError, TraceFileError):
            trace, self._built = _traced(run, built=self._built)
        self._folder.mkdir(parents=True, exist_ok=True)
        replace_whole(path, dump_trace(trace, compress=True))
        return trace

    def holds(self, run: ModelRun) -> bool:
        return exists(self._path(run))

    def _path(self, run: ModelRun) -> Path:
        key = [
            __version__, torch.__version__, run.model, run.input_size, run.reparameterized, run.fast_norm,
            str(run.configuration), *run.arguments, *_contents(run.model), versions_of(*_LIBRARIES),
        ]  # fmt: skip
        digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:24]
        return self._folder / f"{digest}.trace.json.gz"


_LIBRARIES = ("timm", "torchvision", "transformers", "diffusers")
"""Where the code of models comes from."""


def _contents(words: str) -> list[str]:
    """Return digests of the user's files that a model's words name: a config or code that changed is another model."""
    name, options = split_words(words)
    named = [name.removeprefix("hf:") if name.startswith("hf:") else name.rpartition(":")[0]]
    named += [option.rpartition(":")[0] for option in options]  # --inputs-from FILE.py:FUNCTION
    paths = [Path(name) for name in named if name]
    files = [path / "config.json" if exists(path) and path.is_dir() else path for path in paths]
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files if is_file(file)]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltRun:
    """The module that a run was traced from, which serves runs of other configurations, too."""

    run: ModelRun
    target: Target
    module: Built


def trace_run(run: ModelRun, *, exact_batch: int | None = None) -> Trace:
    """Trace a model as it was measured; at one batch only where that is asked for."""
    if run.model.endswith(TRACE_SUFFIXES):
        raise UsageError(f"{run.model} holds one batch alone, and {exact_batch} was measured.")
    return _traced(run, exact_batch=exact_batch)[0]


def _traced(
    run: ModelRun, *, built: BuiltRun | None = None, exact_batch: int | None = None
) -> tuple[Trace, BuiltRun | None]:
    """Trace a run from the module that is at hand if it is of the same model; else build it, and return it, too.

    Code of the user is built anew for every run, because its files may have changed.
    """
    failures: list[CapplanError] = []
    ways = [built] if built and replace(built.run, configuration=run.configuration) == run else _ways(run, failures)
    for way in ways:
        try:
            with _fast_norms(run):
                module = way.module if isinstance(way, BuiltRun) else build_module(way)
                target = way.target if isinstance(way, BuiltRun) else way
                trace = trace_target(target, configurations=[run.configuration], exact_batch=exact_batch, module=module)
            return trace, None if _contents(run.model) else BuiltRun(run=run, target=target, module=module)
        except CapplanError as error:
            failures.append(error)
    raise failures[0]


def _ways(run: ModelRun, failures: list[CapplanError]) -> Iterator[Target]:
    """Yield the targets that a run's words may mean, in the order in which they are tried."""
    for request in _requests(run):
        try:
            yield _switched(load_target(split_words(run.model)[0], request=request), run)
        except CapplanError as error:
            failures.append(error)


def _requests(run: ModelRun) -> Iterator[InputRequest]:
    """Yield requests for a size: as the input's, and as the constructor's argument; what the words say of it alone."""
    said = _said(run.model)
    given = (*said.arguments, *map(parse_argument, run.arguments))
    if said.says_inputs or said.size is not None or said.seq_len is not None or not run.input_size:
        yield replace(said, arguments=given)
    elif run.model.startswith("hf:"):
        length = run.input_size[0]
        yield replace(said, seq_len=length, arguments=given)
        yield replace(said, seq_len=length, arguments=(*given, ("max_position_embeddings", length)))
    else:
        size = run.input_size if len(run.input_size) > 1 else (3, run.input_size[0], run.input_size[0])
        yield replace(said, size=size, arguments=given)
        yield replace(said, arguments=(*given, ("img_size", size[-1])))


def _said(words: str) -> InputRequest:
    """Return what the options behind a model's name say of its inputs."""
    _, options = split_words(words)
    values: dict[str, list[str]] = {name: [] for name in _OPTIONS}
    flags = set()
    following = iter(options)
    for name in following:
        if name in _FLAGS:
            flags.add(name)
            continue
        if name not in values:
            raise UsageError(f"{words}: {name!r} is none of {', '.join((*_OPTIONS, *_FLAGS))}.")
        value = next(following, None)
        if value is None or (name not in _REPEATED and values[name]):
            raise UsageError(
                f"{words}: each option takes one value, and only --arg, --input, --prepare and --freeze may be "
                "repeated."
            )
        values[name].append(value)
    single = {name: next(iter(values[name]), None) for name in _OPTIONS}
    return parse_request(
        arg=values["--arg"],
        inputs=values["--input"],
        input_size=single["--input-size"],
        seq_len=_number(int, "--seq-len", single, words),
        inputs_from=single["--inputs-from"],
        prepare=values["--prepare"],
        freeze=values["--freeze"],
        selected_share=_number(float, "--selected-share", single, words),
        as_cpu="--as-cpu" in flags,
        grad="--grad" in flags,
        new_tokens=_number(int, "--new-tokens", single, words),
    )


_OPTIONS = (
    "--arg", "--input", "--input-size", "--seq-len", "--inputs-from", "--prepare", "--freeze", "--selected-share",
    "--new-tokens",
)  # fmt: skip
_REPEATED = frozenset({"--arg", "--input", "--prepare", "--freeze"})
_FLAGS = ("--as-cpu", "--grad")
"""What `capplan measure` writes behind a model's name."""


def _number(kind: type[_Number], name: str, values: Mapping[str, str | None], words: str) -> _Number | None:
    text = values[name]
    try:
        return None if text is None else kind(text)
    except ValueError as error:
        raise UsageError(f"{words}: {name} {text!r} is not a{' whole' if kind is int else ''} number.") from error


def _switched(target: Target, run: ModelRun) -> Target:
    if not run.reparameterized or target.library != "timm":
        return target
    utilities: Any = import_module("timm.utils")

    def build() -> torch.nn.Module:
        module: torch.nn.Module = utilities.reparameterize_model(target.builder(), inplace=True)
        return module

    return replace(target, builder=build)


@contextlib.contextmanager
def _fast_norms(run: ModelRun) -> Iterator[None]:
    """Build timm's norms so that they run in half precision if the run did; restore timm's switch afterwards."""
    if not (run.fast_norm and run.model.startswith("timm:")):
        yield
        return
    layers: Any = import_module("timm.layers")
    before = layers.is_fast_norm()
    layers.set_fast_norm(True)
    try:
        with autocast_of_cuda(), contexts_of_models():  # some models run their norms while they are built
            yield
    finally:
        layers.set_fast_norm(before)
