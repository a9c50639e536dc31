"""Steps applied to a module before it is traced (`--prepare`): what users do before they deploy.

`reparameterize` merges training-time branches (timm), `fuse_conv_bn` folds batch norms into convolutions,
`fast_norm` lets timm's norms run in the autocast dtype, `lora` puts low-rank adapters beside linear layers and freezes
the rest, `merge_lora` merges them, `drop_layers` removes layers, `encoder` keeps the encoder of an encoder-decoder,
`decode=448` runs one step of generation behind a cache of so many tokens, `FILE.py:function` is the user's own: it
takes the module and returns one, or changes it in place. `--freeze` and `--new-tokens` are such steps, too.
"""

import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import torch

from capplan.core.trace.types import PREPARED
from capplan.errors import UnknownNameError, UsageError, nearest_names
from capplan.probe.target.types import Step
from capplan.probe.transformers.generation import decode_step, encoder_of
from capplan.units import whole_number


def find_steps(names: Sequence[str]) -> tuple[Step, ...]:
    """Find the steps that names, names with a number or `FILE.py:function` say."""
    return tuple(_find_step(name) for name in names)


def step_notes(names: Sequence[str]) -> tuple[str, ...]:
    """Describe what each step does to the model, for the assumptions of an answer."""
    return tuple(f"{PREPARED}{name}: {_what(name)}." for name in names)


def _what(name: str) -> str:
    if ":" in name:
        return "the user's own step"
    step = _STEPS.get(name.partition("=")[0])
    return "" if step is None else (step.__doc__ or "").split(". ")[0].split("; ")[0].rstrip(".").lower()


def _find_step(name: str) -> Step:
    if ":" in name:
        from capplan.probe.foreign.importing import load_function

        return load_function(name, "⟨prepare⟩")
    word, equals, number = name.partition("=")
    if word not in _STEPS:
        raise UnknownNameError("step", word, _STEPS, hint=f"Known: {', '.join(_STEPS)}. Your own is FILE.py:function.")
    step = _STEPS[word]
    if not equals:
        return step
    if word not in _NUMBERED or not 1 <= (whole_number(number) or 0) <= _LARGEST_NUMBER:
        takes = ", ".join(f"{step}=N" for step in sorted(_NUMBERED))
        raise UsageError(f"⟨prepare⟩ {name} is not a step; steps that take a number from 1 are {takes}.")
    return named_step(partial(step, int(number)), name)


_LARGEST_NUMBER = 65_536


def named_step(run: Step, name: str) -> Step:
    """Set the name by which messages call a step."""

    def step(module: torch.nn.Module) -> torch.nn.Module | None:
        return run(module)

    step.__name__ = name
    return step


def _reparameterize(module: torch.nn.Module) -> torch.nn.Module:
    """Merge training-time branches; modules of timm's, and others with a `reparameterize` or `fuse` of their own."""
    from capplan.probe.target.sources.image_zoos import import_timm

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
        raise UsageError("⟨prepare⟩ fast_norm: the model has none of timm's norms.")
    for norm in norms:
        setattr(norm, "_fast_norm", True)  # noqa: B010 # mypy takes any attribute of a module for a tensor


def _lora(*given: Any) -> None:
    """Add low-rank adapters to every linear layer, not merged, and freeze the rest; the rank is 16, or that of lora=8.

    Every parameter of the model itself is frozen, those of norms, embeddings and the last layer included, as peft does
    where `modules_to_save` is not set.
    """
    *rank, module = given
    size = int(rank[0]) if rank else 16
    linear = [(parent, name, child) for parent, name, child in _places(module) if type(child) is torch.nn.Linear]
    if not linear:
        raise UsageError("⟨prepare⟩ lora: the model has no linear layer.")
    module.requires_grad_(False)
    for parent, name, child in linear:
        setattr(parent, name, _Adapted(child, size))


def _places(module: torch.nn.Module) -> Iterator[tuple[torch.nn.Module, str, torch.nn.Module]]:
    """Yield each module below a module with the one that holds it and its name there."""
    for parent in module.modules():
        yield from ((parent, name, child) for name, child in parent.named_children())


class _Adapted(torch.nn.Module):
    """A linear layer with a low-rank adapter beside it (Hu et al. 2021): W x + B A x."""

    def __init__(self, base: torch.nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base
        kind, place = base.weight.dtype, base.weight.device
        self.lora_a = torch.nn.Linear(base.in_features, rank, bias=False, dtype=kind, device=place)
        self.lora_b = torch.nn.Linear(rank, base.out_features, bias=False, dtype=kind, device=place)

    @property
    def weight(self) -> torch.Tensor:
        """The weight of the layer itself, which some models read."""
        return self.base.weight

    @property
    def bias(self) -> torch.Tensor | None:
        """The bias of the layer itself."""
        return self.base.bias

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.base(data) + self.lora_b(self.lora_a(data))
        return made


def _merge_lora(module: torch.nn.Module) -> torch.nn.Module | None:
    """Merge low-rank adapters into the layers that they stand beside; those of peft, and those of the step lora."""
    unload = getattr(module, "merge_and_unload", None)
    if callable(unload):
        return unload()  # type: ignore[no-any-return] # peft is untyped
    adapted = [(parent, name, child) for parent, name, child in _places(module) if isinstance(child, _Adapted)]
    if not adapted:
        raise UsageError("⟨prepare⟩ merge_lora: the model has no low-rank adapters.")
    for parent, name, child in adapted:
        setattr(parent, name, child.base)
    return None


def _drop_layers(*given: Any) -> None:
    """Remove the last layers of the longest stack of like layers; drop_layers=4 sets how many, 1 by default."""
    *count, module = given
    dropped = int(count[0]) if count else 1
    stacks = [
        part
        for part in module.modules()
        if isinstance(part, torch.nn.ModuleList | torch.nn.Sequential) and len({type(layer) for layer in part}) == 1
    ]
    longest = max(stacks, key=len, default=None)
    if longest is None or len(longest) <= dropped:
        have = 0 if longest is None else len(longest)
        raise UsageError(f"⟨prepare⟩ drop_layers={dropped}: the longest stack of like layers has {have}.")
    for _ in range(dropped):
        del longest[-1]


_NUMBERED = frozenset({"lora", "drop_layers", "decode"})
_STEPS: dict[str, Callable[..., Any]] = {
    "reparameterize": _reparameterize,
    "fuse": _fuse_conv_bn,
    "fuse_conv_bn": _fuse_conv_bn,
    "fast_norm": _fast_norm,
    "lora": _lora,
    "merge_lora": _merge_lora,
    "drop_layers": _drop_layers,
    "encoder": encoder_of,
    "decode": decode_step,
}


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
    return f"⟨freeze⟩ {pattern!r} matches no name of a parameter{near}"


_SHOWN = 5


def generating_steps(new_tokens: int | None) -> tuple[Step, ...]:
    """Return the step that puts `generate` in the place of a module's forward; none where no tokens are asked for."""
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
            raise UsageError(f"⟨new-tokens⟩: {type(model).__name__} has no method generate{_who_has(model)}.")
        taken = inspect.signature(generate).parameters
        if "max_new_tokens" not in taken and not any(p.kind is p.VAR_KEYWORD for p in taken.values()):
            raise UsageError(
                f"⟨new-tokens⟩: {type(model).__name__}.generate takes no max_new_tokens, but {', '.join(taken)}; name "
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
        """Generate; the start of the decoder's text is the model's own."""
        if self.training:
            raise UsageError("⟨new-tokens⟩ is about inference: a training step runs the forward pass alone.")
        given = {name: value for name, value in kwargs.items() if not name.startswith(("decoder_", "labels"))}
        return self.model.generate(*args, **given, **self._asked)  # type: ignore[operator]  # a method, seen in __init__


def _who_has(model: torch.nn.Module) -> str:
    """Name the parts of a module that can generate."""
    names = [name for name, part in model.named_modules() if name and callable(getattr(part, "generate", None))]
    return f"; its part {names[0]} has: name a function that returns that" if names else ""
