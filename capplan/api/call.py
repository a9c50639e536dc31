"""Ask a verb from Python by options and objects, and show its answer in a prompt, a notebook or a data frame."""

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capplan.api.signatures import LLM_OBJECTS, OBJECTS, signature
from capplan.errors import CapplanError, UsageError, nearest_names
from capplan.files import write_file
from capplan.verbs.statement.contract import Look, Verb, worded_answer
from capplan.verbs.statement.local import LocalContext
from capplan.verbs.statement.options import Door, Field, words_at
from capplan.verbs.statement.read import read_question, short_repr
from capplan.wording import worded

if TYPE_CHECKING:
    import pandas

    from capplan.report.sections import Line


def python_function(verb: Verb[Any, Any], name: str) -> Callable[..., Any]:
    """Return the function that asks a verb.

    Args:
        verb: the verb.
        name: what Python calls it.
    """
    fields = verb.fields_at(Door.PYTHON)
    places = positional_fields(verb)

    def ask(*positional: Any, **options: Any) -> Any:
        if places and places[0].is_list and len(positional) > 1:
            positional = (list(positional),)
        if len(positional) > len(places):
            taken = ", ".join(field.name for field in places) or "no value"
            raise TypeError(
                f"{name}() takes {taken} by place, not {len(positional)} values: name the others, OPTION=VALUE"
            )
        for field, value in zip(places, positional, strict=False):
            if field.name in options:
                raise TypeError(f"{name}() got multiple values for argument {field.name!r}")
            options[field.name] = value
        for field in places:
            is_needed = field.is_required or not (field.is_list or (field.option.metavar or "").startswith("["))
            if is_needed and field.name not in options:
                raise TypeError(f"{name}() missing required argument: {field.name!r}")
        return answer_call(verb, name, options)

    ask.__name__ = ask.__qualname__ = name
    ask.__doc__ = docstring(verb)
    ask.__module__ = "capplan"
    objects = LLM_OBJECTS if verb.path.startswith("llm ") else OBJECTS
    ask.__signature__ = signature(fields, places, objects=objects)  # type: ignore[attr-defined]  # inspect reads it
    return ask


def positional_fields(verb: Verb[Any, Any]) -> tuple[Field, ...]:
    """Return the fields that a Python caller may give by their place: arguments of the command, and what must stand.

    Args:
        verb: the verb.
    """
    return tuple(field for field in verb.fields_at(Door.PYTHON) if field.option.is_argument or field.is_required)


def answer_call(verb: Verb[Any, Any], name: str, options: Mapping[str, Any]) -> Any:
    """Answer a call's options.

    Args:
        verb: the verb that is asked.
        name: what Python calls it.
        options: the arguments of the call, by name.

    Raises:
        TypeError: an option is not one of the verb's.
        CapplanError: the question has no answer.
    """
    known = {field.name: field for field in verb.fields_at(Door.PYTHON)}
    stated: dict[str, Any] = {}
    for option, value in options.items():
        field_name = _in_its_number(option, known)
        if field_name in stated:
            raise TypeError(f"{name}() got multiple values for argument {field_name!r}")
        stated[field_name] = value
    for option in stated:
        if option not in known and not (option == "training" and "train" in known):
            nearest = nearest_names(option, known)
            meant = f"; did you mean {', '.join(nearest)}?" if nearest else f"; help(capplan.{name}) lists them."
            raise TypeError(f"{name}() got an unexpected keyword argument {option!r}{meant}")
    words, context = _apart(stated, names_language_models=verb.path.startswith("llm "))
    context.typed = f"capplan.{name}"
    word_of = words_at(known.values(), Door.PYTHON)
    try:
        question = read_question(verb.question, words, door=Door.PYTHON)
        answer = worded_answer(verb.answer(question, context), word_of)
    except CapplanError as error:
        error.args = (worded(str(error), word_of), *error.args[1:])
        raise
    return show_answer(answer, verb, question)


def _in_its_number(option: str, known: Mapping[str, Field]) -> str:
    """Return the name of a field for its singular or plural, or for its option: batch, gpu, max_latency."""
    forms = (f"{option}s", f"{option}es", option.removesuffix("s"), option.removesuffix("es"))
    by_option = {field.file_key: field.name for field in known.values()}
    named = option if option in known else next((form for form in forms if form in known), option)
    return named if named in known else by_option.get(option, option)


def _input_words(inputs: Any) -> Any:
    """Return words for example tensors, alone, in a list or by name: the first dimension is the batch.

    Words stay as they are, and a function that makes the inputs.
    """
    if _is_tensor(inputs):
        return [_tensor_words(inputs)]
    if isinstance(inputs, Mapping) and inputs and all(map(_is_tensor, inputs.values())):
        return [f"{name}={_tensor_words(tensor)}" for name, tensor in inputs.items()]
    if callable(inputs):
        return inputs
    several = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    for given in several:
        if not isinstance(given, str) and not _is_tensor(given):
            raise UsageError(
                f"inputs: {short_repr(given)} is not an input; give words such as 'x=3x224x224', example tensors, "
                "or a function of the batch size."
            )
    return [_tensor_words(given) if _is_tensor(given) else given for given in several]


def _is_tensor(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("shape", "dtype", "ndim"))


def _tensor_words(tensor: Any) -> str:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return f"{dtype}:{'x'.join(['N', *map(str, tuple(tensor.shape)[1:])])}"


def _apart(options: Mapping[str, Any], *, names_language_models: bool) -> tuple[dict[str, Any], LocalContext]:
    """Remove what only this process holds from the options of a call: modules, functions, GPUs, a database."""
    from capplan.core.gpus.spec import GpuSpec
    from capplan.specs.gpus.load import Gpus

    words = {name: value for name, value in options.items() if value is not None}
    objects: dict[str, Any] = {}
    if options.get("model", "") is None and not names_language_models:
        raise _is_no_model("model", None)
    for name in ("model", "models"):
        if name in words and not isinstance(words[name], str):
            words[name] = _model_words(name, words[name], objects, names_language_models)
    if "gpu" in words:
        words["gpu"] = _gpu_word(words["gpu"], objects)
    if "definition" in words and not isinstance(words["definition"], str | Path):
        words["definition"] = _kept(words["definition"], objects)
    if "inputs" in words:
        words["inputs"] = _input_words(words["inputs"])
    if str(words.get("precision")).startswith("torch."):
        words["precision"] = str(words["precision"])
    make = words.pop("inputs") if callable(words.get("inputs")) else None
    arguments = None
    given = words.get("arguments")
    if isinstance(given, Mapping) and not all(map(_is_plain, given.values())):
        arguments = words.pop("arguments")
    database = None
    specs: tuple[GpuSpec, ...] = ()
    gpus = words.get("gpus")
    if isinstance(gpus, Gpus):
        database = words.pop("gpus")
    elif gpus is not None and not isinstance(gpus, str):
        named = list(gpus) if isinstance(gpus, list | tuple) else [gpus]
        if isinstance(gpus, set | frozenset):  # in an order that every process gives
            named = sorted(gpus, key=lambda gpu: getattr(gpu, "id", str(gpu)))
        if not named:
            raise UsageError("gpus is empty: name at least one GPU, or leave it out for all.")
        for gpu in named:
            if not isinstance(gpu, str | GpuSpec):
                raise _is_no_gpu("gpus", gpu)
        words["gpus"] = [gpu for gpu in named if isinstance(gpu, str)]
        specs = tuple(gpu for gpu in named if isinstance(gpu, GpuSpec))
    context = LocalContext(objects=objects, make=make, arguments=arguments, database=database, gpu_specs=specs)
    return words, context


def _model_words(option: str, given: Any, objects: dict[str, Any], names_language_models: bool) -> Any:
    """Return the words of a model, or of several: one object alone counts as a list of it.

    A language model is named by words, and its verb refuses an object that stands in their place.
    """
    if option == "model":
        return _kept(given, objects) if names_language_models else _model_word(option, given, objects)
    several = list(given) if isinstance(given, list | tuple) else [given]
    return [_model_word(option, model, objects) for model in several]


def _model_word(option: str, model: Any, objects: dict[str, Any]) -> str:
    """Return the word that stands for a model: its name, its path, or one under which the object is kept."""
    if isinstance(model, str | Path):
        return str(model)
    if (
        model is None
        or isinstance(model, int | float | complex | bytes | list | tuple | set | dict)
        or _is_tensor(model)
    ):
        raise _is_no_model(option, model)
    return _kept(model, objects)


def _gpu_word(gpu: Any, objects: dict[str, Any]) -> Any:
    """Return the word that stands for one GPU: its name, its path, or one under which its spec is kept."""
    from capplan.core.gpus.spec import GpuSpec

    if isinstance(gpu, list | tuple) and len(gpu) == 1:
        gpu = gpu[0]
    if isinstance(gpu, str | Path):
        return gpu
    if not isinstance(gpu, GpuSpec):
        raise _is_no_gpu("gpu", gpu)
    return _kept(gpu, objects)


def _is_no_model(option: str, value: Any) -> UsageError:
    return UsageError(
        f"{option}: {short_repr(value)} is not a model; give a name such as 'resnet50', a file, an nn.Module, "
        "a function that makes one, or a trace."
    )


def _is_no_gpu(option: str, value: Any) -> UsageError:
    one = " one GPU" if option == "gpu" else " a GPU"
    return UsageError(f"{option}: {short_repr(value)} is not{one}; give a name such as 'l4', or a spec of load_gpus().")


def _kept(thing: Any, objects: dict[str, Any]) -> str:
    """Return the word that stands for an object in a question, and keep the object under it."""
    word = f"object {len(objects) + 1}"
    objects[word] = thing
    return word


def _is_plain(value: Any) -> bool:
    """Return True if a value survives being written as words: numbers, texts and containers of them."""
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError):
        return False


def docstring(verb: Verb[Any, Any]) -> str:
    """Return what Python's help shows of a verb: its summary, each field, and what it returns and raises."""
    fields = verb.fields_at(Door.PYTHON)
    lines = [verb.summary, "", "Args:", *(f"    {field.name}: {field.option.help}" for field in fields)]
    stated = inspect.getdoc(verb.answer) or ""
    first = " ".join(stated.partition("\n\n")[0].split())
    if first.startswith("Return ") and verb.in_python is None:
        lines += ["", "Returns:", f"    {first[7:8].upper()}{first[8:]}"]
    _, _, raised = stated.partition("Raises:\n")
    if raised:
        lines += ["", "Raises:", raised.rstrip()]
    return worded("\n".join(lines), words_at(fields, Door.PYTHON))


REPR_LINES = 6
"""The most lines of a repr, with the one that says how many more there are."""
HTML_LINES = 150
"""The most lines of an answer in a notebook's cell, which a list of every price would fill for pages."""
_WIDTH = 100


@dataclass(frozen=True, slots=True)
class _Asked:
    """What an answer is laid out from.

    Attributes:
        verb: the verb that answered.
        question: what was asked.
        whole: the answer where Python callers receive a part of it; None where they receive all.
    """

    verb: Verb[Any, Any]
    question: Any
    whole: Any = None


class Shown:
    """Mixed into the type of an answer, so that it shows itself as its verb lays it out."""

    __slots__ = ()

    def to_frame(self) -> "pandas.DataFrame":
        """Return the rows that the command writes as CSV: base units named by the columns, unknown values missing.

        Raises:
            UsageError: the answer is a text or a report, which has no rows.
        """
        import pandas

        from capplan.report.render import records

        asked: _Asked = _asked(self)
        if asked.verb.sections is None:
            raise UsageError(f"the answer of {asked.verb.path} has no rows to make a frame of; print() shows it.")
        return pandas.DataFrame(records(asked.verb.sections([_whole(self)], asked.question)))

    @property
    def table(self) -> str:
        """The whole answer as text, every row of its tables, where print shows what fits a screen."""
        from capplan.report.render import render
        from capplan.report.sections import Format

        asked = _asked(self)
        if asked.verb.sections is None:
            return str(self)
        return render(asked.verb.sections([_whole(self)], asked.question), Format.TABLE)

    def save(self, path: "str | Path", *, force: bool = False) -> None:
        """Write the answer to a file in the format that its extension names, as `-o` of the command does.

        Args:
            path: the file: `.json`, and what else the verb writes, such as `.csv`, `.html` or `.trace.json.gz`.
            force: replace a file that holds something else.

        Raises:
            UsageError: the answer has no such format, or the file holds something else.
        """
        asked, target = _asked(self), Path(path)
        chosen = {"txt": "table"}.get(target.suffix.removeprefix("."), target.suffix.removeprefix("."))
        look = Look(format=chosen)
        content = asked.verb.write([_whole(self)], asked.verb.finalize(asked.question, look), look)
        if isinstance(content, list):
            content = str(self)
        write_file(target, content if isinstance(content, bytes) else content.encode(), force=force)

    def __str__(self) -> str:
        from capplan.report.text.styled import plain_text

        return plain_text(_lines(self))

    def __repr__(self) -> str:
        from capplan.report.text.styled import cut_line, plain_text

        lines = [line for line in _lines(self) if any(span.text.strip() for span in line)]
        hidden = len(lines) - REPR_LINES + 1
        shown = lines if hidden <= 1 else lines[: REPR_LINES - 1]
        text = plain_text(cut_line(line, _WIDTH) for line in shown).rstrip()
        return text if hidden <= 1 else f"{text}\n… {hidden:,} more lines; print() shows them all"

    def _repr_html_(self) -> str:
        from capplan.report.sections import Span
        from capplan.report.text.styled import html_text

        lines = _lines(self)
        hidden = len(lines) - HTML_LINES
        more = [(Span(text=f"… {hidden:,} more lines; print() shows them all"),)] if hidden > 0 else []
        return html_text([*lines[:HTML_LINES], *more])

    def __eq__(self, other: object) -> bool:
        return self is other or bool(_bare(self) == (_bare(other) if isinstance(other, Shown) else other))

    def __hash__(self) -> int:
        return super().__hash__()

    def __reduce__(self) -> Any:
        asked = _asked(self)
        return _remade, (_bare(self), asked.verb.path, asked.question, asked.whole)


def show_answer(answer: Any, verb: Verb[Any, Any], question: Any) -> Any:
    """Return what a Python caller receives: a dataclass or tuple that shows itself, anything else as it is.

    Args:
        answer: what the verb answered.
        verb: the verb.
        question: what was asked, in a form that the answer is shown for.
    """
    received = answer if verb.in_python is None else verb.in_python(answer)
    if not is_dataclass(received) and type(received) is not tuple:
        return received
    return _shown(received, _Asked(verb, question, None if received is answer else answer))


def _remade(bare: Any, path: str, question: Any, whole: Any) -> Any:
    """Return an answer that was pickled or copied."""
    from capplan.verbs.statement.registry import find_verb

    return _shown(bare, _Asked(find_verb(path), question, whole))


def _shown(received: Any, asked: _Asked) -> Any:
    kind = _shown_type(type(received), asked.verb.path)  # type: ignore[arg-type]  # mypy reads __hash__ of the instances
    answer = _copied(received, kind)
    object.__setattr__(answer, "_asked", asked)
    return answer


@cache
def _shown_type(kind: type[Any], path: str) -> type[Any]:
    """Return the type of a verb's answers that show themselves; it has the name of the type that it extends."""
    members = {"__module__": kind.__module__, "__doc__": kind.__doc__, "_path": path}
    return type(kind.__name__, (Shown, kind), members)


def _bare(answer: Shown) -> Any:
    """Return an answer in its own type."""
    return _copied(answer, type(answer).__mro__[2])


def _copied(value: Any, kind: type[Any]) -> Any:
    """Return a copy in another type with the same attributes; nothing is checked or computed again."""
    if isinstance(value, tuple):
        return tuple.__new__(kind, value)
    copy = object.__new__(kind)
    attributes = dict(getattr(value, "__dict__", {}))
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        names = (slots,) if isinstance(slots, str) else slots
        attributes |= {name: getattr(value, name) for name in names if name[:2] != "__" and hasattr(value, name)}
    attributes.pop("_asked", None)
    for name, attribute in attributes.items():
        object.__setattr__(copy, name, attribute)
    return copy


def _asked(answer: Any) -> _Asked:
    """Return what an answer is laid out from; one that `dataclasses.replace` made has forgotten its question."""
    from capplan.verbs.statement.registry import find_verb

    if (asked := vars(answer).get("_asked")) is not None:
        return asked  # type: ignore[no-any-return]  # an instance's attributes have no types
    verb = find_verb(type(answer)._path)
    return _Asked(verb, verb.question(**{field.name: "" for field in verb.fields if field.is_required}))


def _whole(answer: Any) -> Any:
    asked = _asked(answer)
    return answer if asked.whole is None else asked.whole


def _lines(answer: Any) -> "Sequence[Line]":
    """Return the answer as a terminal shows it; a report as its Markdown, and what is only data by its attributes."""
    from capplan.report.sections import line

    asked = _asked(answer)
    shown_in = [name for name in ("table", "md") if name in asked.verb.formats]
    if not shown_in and asked.verb.text is None:
        return [line(f"{field.name}: {_summary(getattr(answer, field.name))}") for field in fields(answer)]
    look = Look(format=next(iter(shown_in), "table"), width=_WIDTH)
    try:
        question = asked.verb.finalize(asked.question, look)
    except UsageError:  # it refuses a format that a command was to write, which showing an answer is not
        question = asked.question
    written = asked.verb.write([_whole(answer)], question, look)
    if isinstance(written, bytes):
        written = written.decode()
    return [line(text) for text in written.splitlines()] if isinstance(written, str) else written


def _summary(value: Any) -> str:
    """Return a value in a line; of a collection, how many it holds."""
    if isinstance(value, Sized) and not isinstance(value, str):
        return f"{len(value):,} {'entry' if len(value) == 1 else 'entries'}"
    return type(value).__name__ if is_dataclass(value) else str(value)
