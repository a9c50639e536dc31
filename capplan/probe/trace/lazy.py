"""Initialise lazy layers, whose sizes are those of the first inputs that they see."""

import warnings

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from capplan.core.workload import Configuration
from capplan.probe.foreign.preserve import set_mode
from capplan.probe.trace.backends import Backend
from capplan.probe.trace.stage import MakeInputs, TraceStage

_BATCH = 2


def is_uninitialised(module: nn.Module) -> bool:
    """Return True if some parameter or buffer has no shape before the first forward."""
    return any(map(is_lazy, module.parameters())) or any(map(is_lazy, module.buffers()))


def initialise_lazy(module: nn.Module, make_inputs: MakeInputs, *, name: str) -> None:
    """Size lazy layers by one forward of the inputs, as their first call does.

    Raises:
        TraceError: the forward raised.
    """
    if is_uninitialised(module):
        run_once(module, make_inputs, name=name)


def run_once(module: nn.Module, make_inputs: MakeInputs, *, name: str) -> None:
    """Run one forward that may change the module: lazy layers take their sizes, and models make layers of their own.

    Raises:
        TraceError: the forward raised.
    """
    stage = TraceStage(module, make_inputs, Configuration(), name=name, backend=Backend.META)
    was_training = module.training
    with warnings.catch_warnings(), torch.no_grad():
        warnings.filterwarnings("ignore", "Lazy modules are a new feature", UserWarning)
        set_mode(module, training=False)
        try:
            stage.run(_BATCH)
        finally:
            set_mode(module, training=was_training)
