"""Requests for a model in the user's words, and the grammar of its inputs."""

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, TypeAlias

from capplan.core.named_code import names_code
from capplan.core.trace.types import ITEM_BYTES, Affine
from capplan.errors import UsageError, nearest_names

BATCH = Affine(0, 1)

LARGEST_ELEMENTS = 2**32
"""Most elements of one sample of one input: a cube of 1,600³, or a text of 16 million tokens times 256."""

LONGEST_SEQUENCE = 2**24
"""Most tokens of a sample: more than any model is made for, and few enough to fail within seconds."""

MOST_NEW_TOKENS = 4096
"""Most tokens of one generation: each is a pass of its own, whose operators are recorded one by one."""

GRAMMAR = "NAME=[DTYPE:]DIM(xDIM)*, e.g. x=3x224x224 or ids=int64:Nx128, with N for the batch"

SELECTED_SHARE = 0.25
"""Share of candidates that stay where the data decides: a detector trains on one region with an object in four
(Girshick 2015, section 2.3; `positive_fraction` of torchvision), and of 6,000 anchors suppression leaves 2,000 (Ren et
al. 2015, section 3.3), of which the top 1,000 are used."""

_MOST_DIGITS = 18
_DTYPES = tuple(
    dtype for dtype in ITEM_BYTES if not dtype.startswith(("half", "q", "float8", "float4", "int4", "uint4"))
)
_INPUT = re.compile(
    r"(?:(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*|\[\d{1,3}\])*)=)?(?:(?P<dtype>[A-Za-z]\w*):)?(?P<dims>[^:=]+)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """One tensor that a model takes: shape over the batch, dtype, and what its values must be.

    `name` is None for a positional input; `batch.x` is an item of a dictionary, `views[0]` one of a list. Integers
    are drawn from 0 to `high` - 1; floats from 0 to 1, booleans are true. `row` holds values that the model's contract
    fixes (grid sizes, placeholder tokens); it is repeated over the leading dimensions.
    """

    shape: tuple[Affine, ...]
    dtype: str = "float32"
    name: str | None = None
    high: int = 2
    row: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        elements = prod(max(1, dim.constant + dim.per_sample) for dim in self.shape)
        if elements > LARGEST_ELEMENTS:
            size = "x".join(str(dim.constant) for dim in self.shape if dim != BATCH)
            raise UsageError(
                f"an input of {size[:80]} has more than 2^32 elements, the most that are traced; use less."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInputs:
    """The arguments of one forward call; `names` align with its tensors (`named_tensors`)."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] = ()


Argument: TypeAlias = tuple[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRequest:
    """The user's arguments and inputs of a model; empty where the model's source derives them.

    `arguments` go to the constructor or the config, in order. `size` is the shape of one image or clip.
    `inputs_from` and `prepare` name functions (`FILE.py:function`, or a step's name). `freeze` are patterns over the
    names of parameters that are not trained. `selected_share` is the share of candidates that stay where the data
    decides (non-maximum suppression, masks), 0 to 1. `as_cpu` makes `torch.cuda` and tensors answer as on a machine
    without a CUDA device, where they answer as with one otherwise. `grad` leaves gradients on in inference.
    `new_tokens` runs the model's `generate` for so many tokens in the place of one forward pass.
    """

    arguments: tuple[Argument, ...] = ()
    inputs: tuple[InputSpec, ...] = ()
    size: tuple[int, ...] | None = None
    seq_len: int | None = None
    inputs_from: str | None = None
    prepare: tuple[str, ...] = ()
    freeze: tuple[str, ...] = ()
    selected_share: float = SELECTED_SHARE
    as_cpu: bool = False
    grad: bool = False
    new_tokens: int | None = None

    @property
    def says_inputs(self) -> bool:
        """Return True where the inputs are the user's own, whatever the model's source knows."""
        return bool(self.inputs) or self.inputs_from is not None


def parse_argument(words: str) -> Argument:
    """Read `name=value`: the value a Python literal, or else the text as it stands."""
    name, equals, text = words.partition("=")
    if not equals or not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"⟨arg⟩ {words!r} is not NAME=VALUE, e.g. ⟨arg⟩ depth=50 or ⟨arg⟩ act='gelu'.")
    try:
        return name, ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):  # `{[]: 1}` has a key without a hash
        return name, text


def parse_input(words: str) -> InputSpec:
    """Read one `--input`: `NAME=[DTYPE:]DIM(xDIM)*`; the batch is prepended where no `N` stands.

    NAME is an argument of forward, an item of a dictionary (`batch.x`) or of a list (`views[0]`).
    """
    match = _INPUT.fullmatch(words.strip())
    if match is None:
        raise UsageError(f"⟨input⟩ {words!r} is not {GRAMMAR}.")
    dtype = match["dtype"] or "float32"
    if dtype not in _DTYPES:
        meant = nearest_names(dtype, _DTYPES) or ["float32", "int64", "bool"]
        raise UsageError(f"⟨input⟩ {words!r}: unknown dtype {dtype!r}; did you mean {', '.join(meant)}?")
    dims = tuple(_parse_dim(dim, words) for dim in match["dims"].split("x"))
    return InputSpec(name=match["name"], dtype=dtype, shape=dims if BATCH in dims else (BATCH, *dims))


_STEP = re.compile(r"\w+|\[\d+\]")


def nested(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Put values where their names say: `batch.x` into a dictionary, `views[1]` into a list."""
    tree: dict[str, Any] = {}
    for name, value in items:
        *steps, last = _STEP.findall(name)
        place = tree
        for step in steps:
            place = place.setdefault(step, {})
            if not isinstance(place, dict):
                raise UsageError(f"⟨input⟩ {name}: {name.rpartition(step)[0]}{step} is an input itself.")
        if last in place:
            raise UsageError(f"⟨input⟩ names {name} twice, or as an input and as what holds others.")
        place[last] = value
    return {name: _as_containers(held, name) for name, held in tree.items()}


def _as_containers(held: Any, name: str) -> Any:
    if not isinstance(held, dict):
        return held
    made = {
        step: _as_containers(part, f"{name}{step if step[0] == '[' else '.' + step}") for step, part in held.items()
    }
    if not any(step.startswith("[") for step in held):
        return made
    places = [f"[{index}]" for index in range(len(held))]
    if set(places) != set(held):
        raise UsageError(f"⟨input⟩ {name} has {', '.join(held)}: write {name}[0], {name}[1] and so on, or names alone.")
    return [made[place] for place in places]


def parse_size(words: str) -> tuple[int, ...]:
    """Read `--input-size`: the shape of one sample without the batch, e.g. 3x640x640."""
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", words.strip()):
        raise UsageError(f"⟨input-size⟩ {words!r} is not DIM(xDIM)*, e.g. 3x640x640, without the batch.")
    return tuple(_parse_whole(dim, f"⟨input-size⟩ {words!r}") for dim in words.strip().split("x"))


def _parse_dim(text: str, words: str) -> Affine:
    if text == "N":
        return BATCH
    if not re.fullmatch(r"[1-9]\d*", text):
        raise UsageError(f"⟨input⟩ {words!r}: dimension {text!r} is neither a positive integer nor N; {GRAMMAR}.")
    return Affine(_parse_whole(text, f"⟨input⟩ {words!r}"))


def _parse_whole(digits: str, words: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise UsageError(f"{words[:60]}: a dimension of {len(digits)} digits is too large.")
    return int(digits)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """Name a model as on the command line, with its arguments and inputs as typed.

    `words` name the model or a trace file; `arg`, `inputs`, `input_size`, `seq_len`, `inputs_from`, `prepare`,
    `freeze`, `selected_share`, `as_cpu`, `grad` and `new_tokens` are the values of the options of the same names.
    `weights` and `activations` are the number formats that its linear layers are quantised to once it is traced; they
    are not part of `options`, and whoever runs the model refuses them.
    """

    words: str
    arg: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    input_size: str | None = None
    seq_len: int | None = None
    inputs_from: str | None = None
    prepare: tuple[str, ...] = ()
    freeze: tuple[str, ...] = ()
    selected_share: float | None = None
    as_cpu: bool = False
    grad: bool = False
    new_tokens: int | None = None
    weights: str | None = None
    activations: str | None = None

    @property
    def options(self) -> tuple[str, ...]:
        """Return everything said of arguments and inputs as the words of a command line."""
        repeated = (
            ("--arg", self.arg), ("--input", self.inputs), ("--prepare", self.prepare), ("--freeze", self.freeze)
        )  # fmt: skip
        words = [word for option, values in repeated for value in values for word in (option, value)]
        single = (
            ("--input-size", self.input_size), ("--seq-len", self.seq_len), ("--inputs-from", self.inputs_from),
            ("--selected-share", self.selected_share), ("--new-tokens", self.new_tokens),
        )  # fmt: skip
        words += [option for option, is_set in (("--as-cpu", self.as_cpu), ("--grad", self.grad)) if is_set]
        return (*words, *(word for option, value in single if value is not None for word in (option, str(value))))

    @property
    def names_code(self) -> bool:
        """True if opening the model would import code that the words or options choose."""
        return names_code(self.words, inputs_from=self.inputs_from, prepare=self.prepare)

    def parse(self) -> InputRequest:
        if self.weights is not None or self.activations is not None:
            raise UsageError(
                "⟨weights⟩ and ⟨activations⟩ are for what is worked out, not for what is run: quantise the model in a "
                "step of your own, ⟨prepare⟩ FILE.py:FUNCTION."
            )
        if self.new_tokens is not None and not 1 <= self.new_tokens <= MOST_NEW_TOKENS:
            raise UsageError(f"⟨new-tokens⟩ {self.new_tokens} must be from 1 to {MOST_NEW_TOKENS:,}.")
        if self.inputs_from is not None and (self.inputs or self.input_size or self.seq_len):
            raise UsageError("⟨inputs-from⟩ makes all inputs: drop ⟨input⟩, ⟨input-size⟩ and ⟨seq-len⟩.")
        if self.seq_len is not None and self.seq_len < 1:
            raise UsageError(f"⟨seq-len⟩ {self.seq_len} must be at least 1.")
        if self.seq_len is not None and self.seq_len > LONGEST_SEQUENCE:
            raise UsageError(f"⟨seq-len⟩ must be at most {LONGEST_SEQUENCE:,} tokens; more are not traced.")
        share = SELECTED_SHARE if self.selected_share is None else self.selected_share
        if not 0 < share <= 1:
            raise UsageError(f"⟨selected-share⟩ {share:g} must be above 0 and at most 1, such as 0.25.")
        # Number the inputs of one name: they are the items of a list.
        specs = tuple(map(parse_input, self.inputs))
        named = [spec.name for spec in specs]
        made = []
        for index, spec in enumerate(specs):
            is_listed = spec.name is not None and named.count(spec.name) > 1
            made.append(replace(spec, name=f"{spec.name}[{named[:index].count(spec.name)}]") if is_listed else spec)
        specs = tuple(made)
        nested([(spec.name, spec) for spec in specs if spec.name])
        return InputRequest(
            arguments=tuple(map(parse_argument, self.arg)),
            inputs=specs,
            size=None if self.input_size is None else parse_size(self.input_size),
            seq_len=self.seq_len,
            inputs_from=self.inputs_from,
            prepare=tuple(self.prepare),
            freeze=tuple(self.freeze),
            selected_share=share,
            as_cpu=self.as_cpu,
            grad=self.grad,
            new_tokens=self.new_tokens,
        )


def parse_request(**options: Any) -> InputRequest:
    """Read the options that say what a model is built with and fed, those of `ModelRequest` by name."""
    return ModelRequest(words="", **options).parse()
