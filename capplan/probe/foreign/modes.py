"""Set a model's mode, evaluation or training, without running code that happens to be called `train`."""

import contextlib
import inspect

from torch import nn


def set_mode(module: nn.Module, *, training: bool) -> None:
    """Set the mode of a module and of all below it, as `nn.Module.train` does.

    A class's own `train` is called only where it takes the `mode` of `nn.Module.train`, as those do that keep batch
    norms frozen. Wrappers of whole libraries have a `train` that starts a training run (ultralytics' `YOLO`), and
    exported programs one that refuses to be called.

    Args:
        module: the outermost module.
        training: True for training mode, False for evaluation.
    """
    parts = list(module.modules())
    for part in parts:
        part.training = training
    for part in parts:
        own = type(part).train
        if own is not nn.Module.train and "mode" in inspect.signature(own).parameters:
            with contextlib.suppress(NotImplementedError):
                part.train(training)
