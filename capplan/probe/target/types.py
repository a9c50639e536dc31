"""A model that can be built afresh, its inputs, and the steps applied to it."""

import contextlib
import hashlib
import inspect
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from capplan.core.quantisation.schemes import Scheme
from capplan.core.trace.types import Affine
from capplan.errors import TraceError, UsageError
from capplan.probe.foreign.code import first_line, model_code
from capplan.probe.foreign.constructors import (
    LARGEST_BUILD_BYTES,
    SmallValues,
    build_on_cpu,
    defeated_meta,
    no_weights,
    refusals_raised,
)
from capplan.probe.foreign.libraries import import_torchvision, lacks_operators
from capplan.probe.foreign.preserve import set_mode
from capplan.probe.foreign.stored import pack_as_when_moved
from capplan.probe.inputs.grammar import BATCH, SELECTED_SHARE, InputRequest, InputSpec, ModelInputs
from capplan.probe.inputs.tensors import Device, InputMaker


def full_words(words: str, request: InputRequest) -> str:
    """Format the command-line words that name a model with its arguments and inputs."""
    said = ((name, value if isinstance(value, str) else repr(value)) for name, value in request.arguments)
    options = [word for name, value in said for word in ("--arg", f"{name}={value}")]
    options += [word for spec in request.inputs for word in ("--input", input_words(spec))]
    if request.size is not None:
        options += ["--input-size", "x".join(map(str, request.size))]
    if request.seq_len is not None:
        options += ["--seq-len", str(request.seq_len)]
    if request.inputs_from is not None:
        options += ["--inputs-from", request.inputs_from]
    options += [word for step in request.prepare for word in ("--prepare", step)]
    options += [word for pattern in request.freeze for word in ("--freeze", pattern)]
    if request.selected_share != SELECTED_SHARE:
        options += ["--selected-share", f"{request.selected_share:g}"]
    options += [option for option, is_set in (("--as-cpu", request.as_cpu), ("--grad", request.grad)) if is_set]
    if request.new_tokens is not None:
        options += ["--new-tokens", str(request.new_tokens)]
    return shlex.join([words, *options])


def input_words(spec: InputSpec) -> str:
    dims = "x".join(_dim_words(dim) for dim in spec.shape)
    dtype = "" if spec.dtype == "float32" else f"{spec.dtype}:"
    return f"{spec.name}={dtype}{dims}" if spec.name else f"{dtype}{dims}"


def _dim_words(dim: Affine) -> str:
    if dim == BATCH:
        return "N"
    return str(dim.constant) if not dim.per_sample else f"({dim.per_sample}N+{dim.constant})"


def versions_of(*distributions: str) -> dict[str, str]:
    """Return the installed versions of distributions; those that are not installed are left out."""
    versions = {}
    for name in distributions:
        with contextlib.suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def branch_notes(count: int, operator: str) -> tuple[str, ...]:
    """Return a note where data decides which branch of `count` operators of a graph runs."""
    words = f"{count} {operator}s" if count != 1 else f"an {operator}" if operator[0] in "AEIO" else f"a {operator}"
    return (f"data decide which branch of {words} runs; the longer one is counted.",) if count else ()


_STEP_BYTES = 2**22
"""How much of a file is held in memory while it is hashed. [bytes]"""


def hash_files(paths: Iterable[Path]) -> str:
    """Hash files' contents, in order. [SHA-256, hexadecimal]"""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while content := file.read(_STEP_BYTES):
                digest.update(content)
    return digest.hexdigest()


def source_sha256(thing: Any) -> str | None:
    """Return the SHA-256 of the file that defines a function or class; None if it has no file."""
    try:
        return hash_files([Path(inspect.getfile(inspect.unwrap(thing)))])
    except (TypeError, OSError):
        return None


Step = Callable[[torch.nn.Module], torch.nn.Module | None]
ModuleBuilder = Callable[[], torch.nn.Module]


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A fresh module, and notes on how it was built; one from the CPU has the values of its small buffers."""

    module: torch.nn.Module
    is_from_cpu: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A model that can be built afresh, and the inputs that it takes.

    `words` name it again on a command line, its arguments included. `library` is where its code comes from
    ("torchvision", "timm", "transformers", "file", "package"). `steps` change the module once it is built.
    `scheme` is how a checkpoint's linear layers are quantised.
    `only_batch` is the one batch that it can run, where its graph is fixed. `source_sha256` hashes the source that it
    is built from. `notes` report what was chosen for the user. `selected_share` is the share of candidates that stay
    where the data decides. `as_cpu` says that its code is answered as on a machine without a CUDA device,
    `differentiates` that gradients are on in inference, too.
    """

    name: str
    words: str
    library: str
    builder: ModuleBuilder
    inputs: InputMaker
    steps: tuple[Step, ...] = ()
    only_batch: int | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    source_sha256: str | None = None
    notes: tuple[str, ...] = ()
    scheme: Scheme | None = None
    selected_share: float = SELECTED_SHARE
    as_cpu: bool = False
    differentiates: bool = False

    def build(self) -> torch.nn.Module:
        """Build a fresh module, on the default device of the enclosing context."""
        return self.build_noted().module

    def build_noted(self) -> "Built":
        """Build as `build` does, and note how, where it took more than running the constructor.

        On the meta device a constructor runs without values; where that fails, with the values of small tensors;
        where that fails too, on the CPU within `LARGEST_BUILD_BYTES`, and the module is moved to meta.
        """
        if torch.get_default_device().type != "meta":
            return Built(module=self._construct(answers_cuda=False))
        try:
            with no_weights():
                return Built(module=self._construct_without_weights())
        except TraceError as error:
            failed = error
        try:
            module = build_on_cpu(lambda: self._construct(answers_cuda=not self.as_cpu))
        except TraceError as error:
            raise error from error.__cause__ or failed
        cause = failed.__cause__
        because = "" if cause is None else f"; on tensors without data its constructor stops with {first_line(cause)}"
        note = f"built on the CPU, within {LARGEST_BUILD_BYTES / 1e9:g} GB, then moved to the meta device{because}"
        return Built(module=module, is_from_cpu=True, notes=(note,))

    def _construct_without_weights(self) -> torch.nn.Module:
        try:
            with refusals_raised():
                return self._construct(answers_cuda=not self.as_cpu)
        except TraceError as error:
            if not defeated_meta(error.__cause__):
                raise
        with SmallValues(), refusals_raised():
            return self._construct(answers_cuda=not self.as_cpu).to("meta")

    def _construct(self, *, answers_cuda: bool) -> torch.nn.Module:
        try:
            return self._construct_once(answers_cuda=answers_cuda)
        except TraceError as error:
            if not lacks_operators(error):
                raise
        import_torchvision()
        return self._construct_once(answers_cuda=answers_cuda)

    def _construct_once(self, *, answers_cuda: bool) -> torch.nn.Module:
        with model_code(f"building {self.words}", answers_cuda=answers_cuda):
            module = apply_steps(self.builder(), self.steps)
            pack_as_when_moved(module)
            return module

    def make_inputs(self, batch: int, *, device: Device) -> ModelInputs:
        """Make the arguments of one forward call for a batch."""
        return self.inputs(batch, device)


def apply_steps(module: torch.nn.Module, steps: Sequence[Step]) -> torch.nn.Module:
    """Apply steps in order, in evaluation mode, as deployed models are; without steps the module is left alone."""
    for step in steps:
        set_mode(module, training=False)
        made = step(module)
        if made is not None and not isinstance(made, torch.nn.Module):
            raise UsageError(f"--prepare {step.__name__} returned a {type(made).__name__}, no nn.Module.")
        module = made if made is not None else module
    return module
