"""Run a model's own `generate` in the place of one forward pass (`--new-tokens`): prefill, then a step for each token.

The first new token comes from the prefill, each further one from a decoding step that reads the cache of keys and
values. Greedy, one beam, no end of text: what is counted depends on lengths alone.
"""

import inspect
from typing import Any

import torch

from capplan.core.trace.types import PREPARED
from capplan.errors import UsageError
from capplan.probe.target.types import Step


def generating_steps(new_tokens: int | None) -> tuple[Step, ...]:
    """Return the step that puts a module's `generate` in the place of its forward; none where no tokens are asked for.

    Args:
        new_tokens: tokens to generate after those of the input.
    """
    if new_tokens is None:
        return ()

    def generate(module: torch.nn.Module) -> torch.nn.Module:
        return _Generates(module, new_tokens)

    return (generate,)


def generating_notes(new_tokens: int | None) -> tuple[str, ...]:
    """Describe what is run, for the assumptions of an answer."""
    if new_tokens is None:
        return ()
    steps = "no decoding step" if new_tokens == 1 else f"{new_tokens - 1} decoding steps with a cache"
    return (
        f"{PREPARED}generate {new_tokens} new tokens, greedy: prefill of the input, which gives the first of them, and "
        f"{steps}.",
    )


class _Generates(torch.nn.Module):
    """A module whose forward is another's `generate`."""

    def __init__(self, model: torch.nn.Module, new_tokens: int) -> None:
        super().__init__()
        generate = getattr(model, "generate", None)
        if not callable(generate):
            raise UsageError(f"--new-tokens: {type(model).__name__} has no method generate{_who_has(model)}.")
        taken = inspect.signature(generate).parameters
        if "max_new_tokens" not in taken and not any(each.kind is each.VAR_KEYWORD for each in taken.values()):
            raise UsageError(
                f"--new-tokens: {type(model).__name__}.generate takes no max_new_tokens, but {', '.join(taken)}; name "
                "a function that returns a module whose forward calls it."
            )
        self.model = model
        self._asked: dict[str, Any] = {"max_new_tokens": new_tokens}
        settings = getattr(model, "generation_config", None)
        if settings is not None:  # of transformers
            settings.eos_token_id = settings.pad_token_id = None  # no data decides when a text ends
            if settings.decoder_start_token_id is None and settings.bos_token_id is None:
                settings.decoder_start_token_id = 0  # a decoder needs one to begin with; any costs the same
            self._asked |= {"do_sample": False, "num_beams": 1, "use_cache": True}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Generate; the start of the decoder's text is the model's own.

        Raises:
            UsageError: in training.
        """
        if self.training:
            raise UsageError("--new-tokens is about inference: a training step runs the forward pass alone.")
        given = {name: value for name, value in kwargs.items() if not name.startswith(("decoder_", "labels"))}
        return self.model.generate(*args, **given, **self._asked)  # type: ignore[operator]  # a method, seen in __init__


def _who_has(model: torch.nn.Module) -> str:
    """Name the parts of a module that can generate."""
    names = [name for name, part in model.named_modules() if name and callable(getattr(part, "generate", None))]
    return f"; its part {names[0]} has: name a function that returns that" if names else ""
