"""The fields of questions: what each holds, and how people write it at each door."""

import dataclasses
import inspect
import types
from collections.abc import Hashable, Iterable
from dataclasses import MISSING, dataclass
from enum import Flag, StrEnum, auto
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from capplan.verbs.statement.words import Words
from capplan.wording import WordOf, option_of


class Door(Flag):
    """Where a field may be written."""

    COMMAND = auto()
    PYTHON = auto()
    HTTP = auto()
    CONFIG = auto()
    SWEEP = auto()
    LOAD = auto()
    PAGE = auto()


ANYWHERE = Door.COMMAND | Door.PYTHON | Door.HTTP | Door.LOAD
"""A field of any question."""
ASKED = ANYWHERE ^ Door.LOAD
"""A field of a question that load files lack."""
HERE = Door.COMMAND | Door.PYTHON
"""A field that names what only this machine has, such as a file."""


class Topic(StrEnum):
    """The headings under which help lists options, in this order; `OWN` holds those of one command alone.

    Those from `TRAINING` to `WEEK` are of models or modes that alone have such options. A class of fields may state a
    `TOPIC` for all of them.
    """

    MODEL = "Model and inputs"
    WORKLOAD = "Batch and number formats"
    GPUS = "GPUs"
    PRICES = "Prices"
    LIMITS = "Limits"
    OWN = "Options"
    TRAINING = "Training steps, with --train"
    PIPELINES = "Pipelines: diffusers:NAME or FILE.pipeline.yaml"
    ADAPTERS = "LoRA adapters"
    SPECULATION = "Speculation"
    TASKS = "Embedding, reranking, images"
    HOST = "llama.cpp, and host memory"
    START = "Start of a replica or machine"
    WEEK = "A load that changes over a week"
    ANSWER = "Answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """How people write a field.

    Attributes:
        help: one sentence, for help texts and schemas.
        served: that sentence where a service answers, which reads no files; by default the same.
        flags: the option's names; by default the field's name. The first, without dashes, is also the field's name
            in configuration files, sweep files and query strings, besides the field's own.
        topic: the heading of help.
        metavar: what stands for the value in help.
        words: how a value is read from text; None where the type says it.
        doors: where the field may be written.
        is_argument: stands without a flag.
        shows_default: the default is printed in help.
        completes: what shells complete the value with: "models" or "gpus".
        label: the field's name in the form of the page.
        wire: the name of the field in JSON, where that is another.
        choice: what one of the words is called that the field admits, in messages; by default the field's name.
        placeholder: what the form shows where the field is empty.
        is_usual: most questions use it, so that short help and an assistant's tool show it; others stand behind
            `--help-all`, and in the tool's argument `more`.
    """

    help: str = ""
    served: str = ""
    flags: tuple[str, ...] = ()
    topic: Topic = Topic.OWN
    metavar: str | None = None
    words: Words | None = None
    doors: Door = ANYWHERE
    is_argument: bool = False
    shows_default: bool = False
    completes: str | None = None
    label: str = ""
    placeholder: str = ""
    wire: str = ""
    choice: str = ""
    is_usual: bool = False


@dataclass(frozen=True, slots=True)
class After:
    """In a field's type: it stands after this field of a base class, and those below it after it; "" for none."""

    name: str


_CAPITALS = {"gpu": "GPU", "gpus": "GPUs", "kv": "KV", "tp": "TP", "pp": "PP", "ep": "EP", "dp": "DP", "cp": "CP"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Field:
    """One field of a question: its name, type, bounds, default, and how people write it."""

    name: str
    type: Any
    default: Any
    option: Option
    meta: msgspec.Meta | None

    @property
    def flag(self) -> str:
        """Return the option's first name, such as --max-latency; an argument's metavar."""
        if self.option.is_argument:
            return self.option.metavar or self.name.upper()
        return self.option.flags[0] if self.option.flags else f"--{self.name.replace('_', '-')}"

    @property
    def key(self) -> str:
        """Return the field's name in configuration files, such as max-latency."""
        return self.name if self.option.is_argument else self.flag.removeprefix("--")

    @property
    def title(self) -> str:
        """Return the words of the field's key, such as "Max latency"."""
        first, *others = (_CAPITALS.get(word, word) for word in self.key.split("-"))
        return " ".join((first[:1].upper() + first[1:], *others))

    @property
    def file_key(self) -> str:
        """Return the field's key in load files and sweep files, such as max_latency."""
        return self.key.replace("-", "_")

    @property
    def wire(self) -> str:
        """Return the field's name in JSON."""
        return self.option.wire or self.name

    @property
    def is_required(self) -> bool:
        """Return True if the field has no default."""
        return self.default is MISSING

    @property
    def is_usual(self) -> bool:
        """Return True if short help and tools show the field: most questions use it, or none can be asked without."""
        return self.option.is_usual or self.option.is_argument or self.is_required

    @property
    def kinds(self) -> tuple[Any, ...]:
        """Return the plain types that the field admits, None left out."""
        return plain_types(self.type)

    @property
    def enumeration(self) -> type[StrEnum] | None:
        """Return the enumeration whose words the field, or each item of it, takes; None where it takes none."""
        kinds = [item for kind in self.kinds for item in (plain_types(kind) if get_origin(kind) else (kind,))]
        items = [argument for kind in kinds for argument in (get_args(kind) or (kind,))]
        return next((item for item in items if isinstance(item, type) and issubclass(item, StrEnum)), None)

    @property
    def choices(self) -> tuple[str, ...]:
        """Return the words that the field admits; empty where any does."""
        if self.enumeration is not None:
            return tuple(member.value for member in self.enumeration)
        literals = (kind for kind in self.kinds if get_origin(kind) is Literal)
        return next(map(get_args, literals), ())

    @property
    def is_list(self) -> bool:
        """Return True if the field holds several values of one kind, each of which people write on its own."""
        return self.item is not None

    @property
    def bounds(self) -> msgspec.Meta | None:
        """Return the bounds of the value, or of each of several values."""
        notes = getattr(self.item, "__metadata__", ()) if self.is_list else (self.meta,)
        return next((note for note in notes if isinstance(note, msgspec.Meta)), None)

    @property
    def item(self) -> Any:
        """Return the type of one of several values, with its bounds; None where the field holds one."""
        if self.option.words is not None:
            return None
        several = (get_args(kind) for kind in self.kinds if get_origin(kind) is tuple)
        return next((arguments[0] for arguments in several if Ellipsis in arguments), None)

    @property
    def is_number(self) -> bool:
        """Return True if the field holds one plain number that people write without a unit."""
        return self.option.words is None and any(kind in (int, float) for kind in self.kinds)

    @property
    def is_whole(self) -> bool:
        """Return True if the field holds one whole number."""
        return int in self.kinds

    @property
    def is_mapping(self) -> bool:
        """Return True if the field holds values by name."""
        return any((get_origin(kind) or kind) is dict for kind in self.kinds)


def plain_types(annotation: Any) -> tuple[Any, ...]:
    """Return the types that an annotation admits, without None and without what is annotated to them."""
    if get_origin(annotation) is Annotated:
        return plain_types(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(kind for part in get_args(annotation) for kind in plain_types(part))
    return () if annotation is type(None) else (annotation,)


def fields_of(question: type) -> tuple[Field, ...]:
    """Return the fields of a question, those of its first base class first."""
    return _fields_of(question)


@cache
def _fields_of(question: Hashable) -> tuple[Field, ...]:
    assert isinstance(question, type)
    hints = get_type_hints(question, include_extras=True)
    by_name = {field.name: field for field in dataclasses.fields(question)}
    return tuple(_field(by_name[name], hints[name], question) for name in _ordered_names(question))


def _ordered_names(question: type) -> list[str]:
    bases = [name for base in question.__bases__ if dataclasses.is_dataclass(base) for name in _ordered_names(base)]
    names = list(dict.fromkeys(bases))
    place = len(names)
    for own, hint in inspect.get_annotations(question).items():
        if own in names:
            continue
        for note in getattr(hint, "__metadata__", ()):
            if isinstance(note, After):
                place = names.index(note.name) + 1 if note.name else 0
        names.insert(place, own)
        place += 1
    return names


def _field(declared: "dataclasses.Field[Any]", hint: Any, question: type) -> Field:
    notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    options = [note for note in notes if isinstance(note, Option)]
    if not options:
        raise TypeError(f"{question.__name__}.{declared.name} has no Option.")
    option = options[-1]
    if option.topic is Topic.OWN:
        declaring = next(base for base in question.__mro__ if declared.name in inspect.get_annotations(base))
        option = dataclasses.replace(option, topic=vars(declaring).get("TOPIC", Topic.OWN))
    return Field(
        name=declared.name,
        type=get_args(hint)[0],
        default=declared.default if declared.default_factory is MISSING else declared.default_factory(),
        option=option,
        meta=next((note for note in reversed(notes) if isinstance(note, msgspec.Meta)), None),
    )


def words_at(fields: Iterable[Field], door: Door) -> WordOf:
    """Return a door's words for the keys that messages mark; a field that is not written there stays an option."""

    def word_of(field: Field) -> str:
        if door is Door.LOAD:
            return field.file_key
        return field.name if door is Door.PYTHON else field.wire

    if door is Door.COMMAND:
        return option_of
    words = {flag.removeprefix("--"): word_of(field) for field in fields for flag in (field.flag, *field.option.flags)}
    return lambda key: words.get(key, option_of(key))
