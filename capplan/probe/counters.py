"""Count a model with other counters (thop, fvcore, torch), each on a module of its own, in MACs.

They run as their users run them: a real forward on the CPU in evaluation mode, on a module built for them alone.
What they count, and leave out, is read from their own reports.
"""

import contextlib
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from typing import Any

import torch

from capplan.core.ops.counters import Count, CounterComparison, compare_counts, own_shares
from capplan.core.trace.types import Recording, Trace
from capplan.errors import CapplanError
from capplan.probe.foreign.code import model_code
from capplan.probe.foreign.preserve import set_mode
from capplan.probe.inputs.grammar import ModelInputs
from capplan.probe.inputs.tensors import as_forward_takes
from capplan.probe.target.types import Target
from capplan.probe.trace.backends import LARGEST_REAL_BYTES


def compare_counters(
    target: Target, trace: Trace, recording: Recording, *, batch: int
) -> tuple[CounterComparison, ...]:
    """Compare other counters with a recording of the same model, and name the cause of every difference."""
    with torch.device("meta"):
        classes = {path: type(part).__name__ for path, part in target.build().named_modules()}
    counts = count_with_others(target, batch=batch)
    return compare_counts(trace, recording, counts, batch=batch, classes=classes)


def count_with_others(target: Target, *, batch: int) -> tuple[Count, ...]:
    """Count a model with thop, fvcore and torch.utils.flop_counter."""
    counters = (
        (_thop_name(), _thop_version, _count_with_thop),
        ("fvcore", lambda: _version_of("fvcore"), _count_with_fvcore),
        ("torch.utils.flop_counter", lambda: torch.__version__, _count_with_torch),
    )
    return tuple(_count(target, batch, name, version(), run) for name, version, run in counters)


Run = Callable[[torch.nn.Module, ModelInputs], dict[str, Any]]


def _count(target: Target, batch: int, name: str, version: str, run: Run) -> Count:
    """Run one counter; a failure of its own is its answer."""
    try:
        module = _real_module(target)
        inputs = as_forward_takes(target.make_inputs(batch, device="cpu"), module.forward)
        with model_code(name, error=CounterError), _import_noise_filtered():
            return Count(counter=name, version=version, **run(module, inputs))
    except CounterError as error:
        return Count(counter=name, version=version, failure=str(error))


class CounterError(CapplanError):
    """A counter could not count."""


def _real_module(target: Target) -> torch.nn.Module:
    """Build with weights, where these are small enough to be made for a comparison."""
    with torch.device("meta"):
        stand_in = target.build()
    size_bytes = sum(tensor.nbytes for tensor in stand_in.parameters())
    if size_bytes > LARGEST_REAL_BYTES:
        raise CounterError(
            f"needs real weights, of {size_bytes / 1e9:.1f} GB; more than {LARGEST_REAL_BYTES / 1e9:g} GB are not made"
        )
    del stand_in
    module = target.build()
    set_mode(module, training=False)
    return module


def _count_with_thop(module: torch.nn.Module, inputs: ModelInputs) -> dict[str, Any]:
    """Count with thop, whose figures are multiply-accumulates; leaf modules give its views."""
    from thop import profile

    module = positional(module, inputs)
    classes = {path: type(part).__name__ for path, part in module.named_modules()}
    macs, params, layers = profile(module, inputs=values(inputs), verbose=False, ret_layer_info=True)
    flat = [(path, int(own_macs), int(own_params)) for path, own_macs, own_params in _flatten_layers("", layers)]
    by_module = {path: own_macs for path, own_macs, _ in flat}
    params_by_module = {"": int(params), **{path: own_params for path, _, own_params in flat}}
    by_class: dict[str, int] = {}
    for path, value in by_module.items():
        if path in classes and not any(other.startswith(f"{path}.") for other in by_module):
            by_class[classes[path]] = by_class.get(classes[path], 0) + value
    return {
        "macs": int(macs),
        "params": int(params),
        "by_operator": by_class,
        "by_module": _without_wrapper(module, {"": int(macs), **by_module}),
        "params_by_module": own_shares(_without_wrapper(module, params_by_module)),
    }


def _flatten_layers(prefix: str, layers: Mapping[str, Any]) -> Iterator[tuple[str, float, float]]:
    for name, (macs, params, below) in layers.items():
        path = f"{prefix}{name}"
        yield path, macs, params
        yield from _flatten_layers(f"{path}.", below)


def _count_with_fvcore(module: torch.nn.Module, inputs: ModelInputs) -> dict[str, Any]:
    """Count with fvcore, which counts one FLOP per multiply-accumulate and names operators without a handler."""
    from fvcore.nn import FlopCountAnalysis

    params = sum(parameter.numel() for parameter in module.parameters())
    module = positional(module, inputs)
    analysis = FlopCountAnalysis(module, values(inputs))
    analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False).tracer_warnings("none")
    by_operator = {name: int(value) for name, value in analysis.by_operator().items()}
    return {
        "macs": int(analysis.total()),
        "params": params,
        "by_operator": by_operator,
        "by_module": _without_wrapper(module, {name: int(value) for name, value in analysis.by_module().items()}),
        "skipped": {name.removeprefix("aten::"): int(value) for name, value in analysis.unsupported_ops().items()},
    }


def _count_with_torch(module: torch.nn.Module, inputs: ModelInputs) -> dict[str, Any]:
    """Count with torch, which gives two FLOPs per MAC of matrix products, convolutions and attention."""
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        module(*inputs.args, **inputs.kwargs)
    root = type(module).__name__
    flops = counter.get_flop_counts()
    by_module = {
        name.removeprefix(root).removeprefix("."): sum(own.values()) // 2
        for name, own in flops.items()
        if name == root or name.startswith(f"{root}.")
    }
    by_operator = {str(operator).removeprefix("aten."): value // 2 for operator, value in flops["Global"].items()}
    return {"macs": counter.get_total_flops() // 2, "by_operator": by_operator, "by_module": by_module}


class _ByPosition(torch.nn.Module):
    """A model that takes its keyword arguments by position, for counters that know no keywords."""

    def __init__(self, model: torch.nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *values: Any) -> Any:
        """Call the model, its output reduced to tensors."""
        positional = len(values) - len(self.names)
        output = self.model(*values[:positional], **dict(zip(self.names, values[positional:], strict=True)))
        return tuple(output.values()) if isinstance(output, Mapping) else output


def positional(module: torch.nn.Module, inputs: ModelInputs) -> torch.nn.Module:
    """Wrap a model that is fed by keyword, so that it takes `values` by position."""
    return _ByPosition(module, tuple(inputs.kwargs)) if inputs.kwargs else module


def values(inputs: ModelInputs) -> tuple[Any, ...]:
    """Return the arguments of a call in order, keywords last."""
    return (*inputs.args, *inputs.kwargs.values())


def _without_wrapper(module: torch.nn.Module, by_module: Mapping[str, int]) -> dict[str, int]:
    """Drop `_ByPosition` from module paths, where it was put around a model."""
    if not isinstance(module, _ByPosition):
        return dict(by_module)
    return {path.removeprefix("model").removeprefix("."): value for path, value in by_module.items() if path}


def _thop_name() -> str:
    """Return `thop`, with its distribution if that is another one: two install it, and count differently."""
    owners = packages_distributions().get("thop", [])
    if owners in ([], ["thop"]):
        return "thop"
    return f"thop (module of {' and '.join(sorted(set(owners)))})"


def _thop_version() -> str:
    """Return the version of the installed files: of two distributions the later one overwrote the other's."""
    owners = packages_distributions().get("thop", [])
    if len(set(owners)) <= 1:
        return _version_of(owners[0]) if owners else "not installed"
    with _import_noise_filtered():
        import thop

    return str(thop.__version__)


def _version_of(name: str) -> str:
    try:
        return distribution(name).version
    except PackageNotFoundError:
        return "not installed"


@contextlib.contextmanager
def _import_noise_filtered() -> Iterator[None]:
    """Filter, by name, the warnings of thop and fvcore when they are imported and run with a recent torch."""
    loggers = [logging.getLogger(name) for name in ("fvcore.nn.jit_analysis", "fvcore")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "distutils Version classes are deprecated", DeprecationWarning)
        warnings.filterwarnings("ignore", "The distutils package is deprecated", DeprecationWarning)
        warnings.filterwarnings("ignore", "pkg_resources is deprecated", UserWarning)
        warnings.filterwarnings("ignore", r"`torch.jit.\w+` is deprecated", DeprecationWarning)
        warnings.filterwarnings("ignore", module=r"torch\.jit")  # TracerWarning, reported at the traced lines
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
