"""Steps applied to a module before it is traced (`--prepare`): what users do before they deploy.

`reparameterize` merges training-time branches (timm), `fuse_conv_bn` folds batch norms into convolutions,
`fast_norm` lets timm's norms run in the autocast dtype, `FILE.py:function` is the user's own: it takes the module and
returns one, or changes it in place.
"""

import warnings
from collections.abc import Sequence

import torch

from capplan.errors import UnknownNameError, UsageError
from capplan.probe.target.types import Step


def find_steps(names: Sequence[str]) -> tuple[Step, ...]:
    """Find the steps that names or `FILE.py:function` say.

    Raises:
        UsageError: no such step or function.
    """
    return tuple(_find_step(name) for name in names)


def _find_step(name: str) -> Step:
    if ":" in name:
        from capplan.probe.foreign.importing import load_function

        return load_function(name, "--prepare")
    if name not in _STEPS:
        raise UnknownNameError("step", name, _STEPS, hint="Your own is FILE.py:function.")
    return _STEPS[name]


def _reparameterize(module: torch.nn.Module) -> torch.nn.Module:
    """Merge training-time branches; modules of timm's, and others with a `reparameterize` or `fuse` of their own."""
    from capplan.probe.target.sources.timm import import_timm

    import_timm()
    from timm.utils.model import reparameterize_model

    return reparameterize_model(module)


def _fuse_conv_bn(module: torch.nn.Module) -> torch.nn.Module:
    """Fold each batch norm that follows a convolution directly, as torch.fx finds it, into its weights."""
    with warnings.catch_warnings():  # torch warns of a part of its own that this import loads
        warnings.filterwarnings("ignore", r"`torch.jit.\w+` is deprecated", DeprecationWarning)
        from torch.fx.experimental.optimization import fuse

    return fuse(module, inplace=True)


def _fast_norm(module: torch.nn.Module) -> None:
    """Run timm's norms in the dtype that autocast gives them; timm's global switch would do so at construction."""
    norms = [part for part in module.modules() if hasattr(part, "_fast_norm")]
    if not norms:
        raise UsageError("--prepare fast_norm: the model has none of timm's norms.")
    for norm in norms:
        setattr(norm, "_fast_norm", True)  # noqa: B010 # mypy takes any attribute of a module for a tensor


_STEPS: dict[str, Step] = {
    "reparameterize": _reparameterize,
    "fuse_conv_bn": _fuse_conv_bn,
    "fast_norm": _fast_norm,
}
