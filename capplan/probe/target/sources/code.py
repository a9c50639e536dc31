"""Models from the user's own code: `FILE.py:Name` and `package.module:Name`."""

import copy
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from capplan.core.named_code import place_and_name
from capplan.errors import UsageError, nearest_names
from capplan.files import is_file
from capplan.probe.foreign.code import uncompiled
from capplan.probe.foreign.importing import load_code
from capplan.probe.foreign.stored import as_parameter
from capplan.probe.inputs.grammar import InputRequest
from capplan.probe.inputs.tensors import FunctionInputs, InputMaker, asked_inputs, image_of_stated_size, refuse_seq_len
from capplan.probe.target.types import Target, full_words, source_sha256, versions_of


def code_target(words: str, request: InputRequest) -> Target:
    """Find a class, factory or instance in a file or an importable module."""
    where, name = place_and_name(words)
    if not where:
        names = _own_modules(load_code(words)) if is_file(words) else []
        offer = f" Its modules are {', '.join(names)}." if names else ""
        raise UsageError(f"{words}: name the model of the file, as {words}:Name.{offer}")
    module = load_code(where, as_cpu=request.as_cpu)
    thing: Any = module
    for part in name.split("."):
        if not hasattr(thing, part):
            offered = _own_modules(module)
            nearest = nearest_names(name, offered) or offered
            raise UsageError(f"{where} has no {name!r}; its modules are {', '.join(nearest) or 'none'}.")
        thing = getattr(thing, part)
    full = full_words(words, request)
    refuse_seq_len(full, request)
    return Target(
        name=name.rpartition(".")[2],
        words=full,
        library="file" if where.endswith(".py") else "package",
        builder=_builder(thing, full, dict(request.arguments)),
        inputs=_inputs(thing, full, request),
        versions=versions_of("torch"),
        source_sha256=source_sha256(module),
    )


def module_target(
    module: torch.nn.Module, *, request: InputRequest, make: Callable[[int], Any] | None = None
) -> Target:
    """Wrap a module of the caller, which is copied and never changed; `make` gives its inputs for a batch size."""
    words = f"{type(module).__module__}:{type(module).__qualname__}"
    made = FunctionInputs(words=words, function=make, forward=module.forward) if make else None
    return Target(
        name=type(module).__name__,
        words=words,
        library="package",
        builder=_builder(module, words, dict(request.arguments)),
        inputs=made or _inputs(module, words, request),
        versions=versions_of("torch"),
    )


def _own_modules(module: ModuleType) -> list[str]:
    """Return the names of the nn.Module classes that a module defines itself, and of its instances."""
    return [
        name
        for name, value in vars(module).items()
        if (_is_module_class(value) and value.__module__ == module.__name__) or isinstance(value, torch.nn.Module)
    ]


def _is_module_class(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, torch.nn.Module)


def _builder(thing: Any, words: str, arguments: dict[str, Any]) -> Callable[[], torch.nn.Module]:
    thing = uncompiled(thing) if isinstance(thing, torch.nn.Module) else thing
    if isinstance(thing, torch.nn.Module):
        if arguments:
            raise UsageError(f"{words} is an instance: ⟨arg⟩ has no constructor to go to.")
        return lambda: _copy(thing)
    if not callable(thing):
        raise UsageError(
            f"{words} is not an nn.Module, a class or a function that makes one: it is of type {type(thing).__name__}."
        )
    _check_arguments(thing, words, arguments)

    def build() -> torch.nn.Module:
        made = thing(**arguments)
        if isinstance(made, torch.export.ExportedProgram):
            made = made.module()
        if not isinstance(made, torch.nn.Module):
            raise UsageError(f"{words} made a {type(made).__name__}, no nn.Module{_held(made)}.")
        return made

    return build


def _held(thing: Any) -> str:
    """Name the modules that an object holds, such as those of a pipeline or of a wrapper with fit and predict."""
    names = [name for name, value in getattr(thing, "__dict__", {}).items() if isinstance(value, torch.nn.Module)]
    return f"; it holds {', '.join(names)}: name a function that returns one of them" if names else ""


def _check_arguments(thing: Callable[..., Any], words: str, arguments: dict[str, Any]) -> None:
    try:
        signature = inspect.signature(thing)
    except ValueError:
        return  # written in C: it is judged by calling it
    try:
        signature.bind(**arguments)
    except TypeError as error:
        raise UsageError(f"{words}: {error}; it takes {signature}: give ⟨arg⟩ NAME=VALUE.") from error


def _copy(module: torch.nn.Module) -> torch.nn.Module:
    """Copy the user's instance; on meta its tensors are not copied but stood for."""
    if torch.get_default_device().type != "meta":
        return copy.deepcopy(module)
    memo: dict[int, Any] = {}
    for tensor in (*module.parameters(), *module.buffers()):
        if torch.nn.parameter.is_lazy(tensor):
            continue
        twin = tensor.detach().to("meta")
        memo[id(tensor)] = (
            as_parameter(twin, tensor, lambda held: held.to("meta")) if isinstance(tensor, torch.nn.Parameter) else twin
        )
    return copy.deepcopy(module, memo)


def _inputs(thing: Any, words: str, request: InputRequest) -> InputMaker:
    forward = thing.forward if isinstance(thing, torch.nn.Module) or _is_module_class(thing) else None
    parameters = () if forward is None else inspect.signature(forward).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = tuple(p.name for p in positional if p.name != "self")
    if asked := asked_inputs(request, positional_names=names, forward=forward):
        return asked
    if image := image_of_stated_size(request, words, positional_names=names):
        return image
    takes = f"forward({', '.join(names)})" if names else "its forward"
    example = f"{names[0]}=3x224x224" if names else "3x224x224"
    raise UsageError(f"{words}: state the input for {takes}: ⟨input⟩ {example}, ⟨input-size⟩ or ⟨inputs-from⟩.")
