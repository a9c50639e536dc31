"""Freeze parameters by patterns over their names (`--freeze`), as fine-tuning does with a backbone."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

import torch

from capplan.core.trace.types import PREPARED
from capplan.errors import UsageError, nearest_names
from capplan.probe.target.types import Step


def freezing_steps(patterns: Sequence[str]) -> tuple[Step, ...]:
    """Return the step that freezes what patterns match; none without patterns.

    A frozen parameter has no gradient and no optimizer state. Its layer still runs, and passes the gradient of its
    input on where a trainable parameter stands before it.
    """

    def freeze(module: torch.nn.Module) -> None:
        named = dict(module.named_parameters(remove_duplicate=False))
        for pattern in patterns:
            matched = [name for name in named if fnmatchcase(name, pattern)]
            if not matched:
                raise UsageError(_no_match(pattern, list(named)))
            for name in matched:
                named[name].requires_grad_(False)

    return (freeze,) if patterns else ()


def freezing_notes(patterns: Sequence[str]) -> tuple[str, ...]:
    """Describe what each pattern does to the model, for the assumptions of an answer."""
    return tuple(
        f"{PREPARED}freeze {pattern}: these parameters have no gradients and no optimizer states."
        for pattern in patterns
    )


def _no_match(pattern: str, names: Sequence[str]) -> str:
    """Return the refusal of a pattern that matches no parameter, with the nearest parameters and modules."""
    paths = [name.split(".") for name in names]
    modules = {".".join([*path[:depth], "*"]) for path in paths for depth in range(1, len(path))}
    nearest = nearest_names(pattern, [*sorted(modules), *names])
    known = nearest or [*sorted({f"{path[0]}.*" if len(path) > 1 else path[0] for path in paths})[:_SHOWN]]
    near = f"; the nearest: {', '.join(known)}." if known else ": the model has none."
    return f"--freeze {pattern!r} matches no name of a parameter{near}"


_SHOWN = 5
