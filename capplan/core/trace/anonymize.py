"""Take the names out of a trace, so that it can be given away: what remains is shapes, operators and lifetimes."""

from collections.abc import Iterable
from dataclasses import replace

from capplan.core.trace.types import Kernel, Parameter, Provenance, Recording, Trace

_PUBLIC_NAMESPACES = ("aten", "capplan", "prims", "torchvision")


def anonymize_trace(trace: Trace) -> Trace:
    """Drop the model's, its modules', parameters', inputs' and own operators' names, its source and its library.

    Modules keep their place in the tree: `0.1.3` is the fourth child of the second child of the first module.
    """
    modules = _number_paths(path for recording in trace.recordings for path in recording.modules)
    operators = _number_operators(kernel.name for recording in trace.recordings for kernel in recording.kernels)
    provenance = Provenance(
        capplan_version=trace.provenance.capplan_version,
        versions={key: value for key, value in trace.provenance.versions.items() if key == "torch"},
    )
    return replace(
        trace,
        name="anonymous",
        target="anonymous",
        class_name="Module",
        parameters=tuple(_anonymous_parameter(index, each) for index, each in enumerate(trace.parameters)),
        inputs=tuple(replace(each, name=f"input{index}") for index, each in enumerate(trace.inputs)),
        recordings=tuple(_anonymous_recording(each, modules, operators) for each in trace.recordings),
        provenance=provenance,
    )


def _anonymous_parameter(index: int, parameter: Parameter) -> Parameter:
    return replace(parameter, names=tuple(f"p{index}.{alias}" for alias in range(len(parameter.names))))


def _anonymous_recording(recording: Recording, modules: dict[str, str], operators: dict[str, str]) -> Recording:
    return replace(
        recording,
        modules=tuple(modules[path] for path in recording.modules),
        kernels=tuple(_renamed(kernel, operators) for kernel in recording.kernels),
        assumed_values=tuple(
            replace(value, what=operators.get(value.what, value.what), lines=()) for value in recording.assumed_values
        ),
    )


def _renamed(kernel: Kernel, operators: dict[str, str]) -> Kernel:
    if kernel.name not in operators:
        return kernel
    return replace(kernel, name=operators[kernel.name], attributes={})


def _number_operators(names: Iterable[str]) -> dict[str, str]:
    """Number the operators that are not PyTorch's own."""
    own = dict.fromkeys(name for name in names if name.partition(".")[0] not in _PUBLIC_NAMESPACES)
    return {name: f"custom.op{index}" for index, name in enumerate(own)}


def _number_paths(paths: Iterable[str]) -> dict[str, str]:
    """Replace each step of each path by its number among its siblings, in order of appearance."""
    children: dict[str, dict[str, int]] = {}
    numbered = {"": ""}
    for path in paths:
        parent, steps = "", []
        for step in path.split(".") if path else ():
            siblings = children.setdefault(parent, {})
            steps.append(str(siblings.setdefault(step, len(siblings))))
            parent = f"{parent}.{step}"
        numbered[path] = ".".join(steps)
    return numbered
