"""Ask a verb from Python: options by name, objects of this process in the place of words."""

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from capplan.api.shown import show_answer
from capplan.errors import CapplanError, UsageError, nearest_names
from capplan.verbs.statement.contract import Verb
from capplan.verbs.statement.local import LocalContext
from capplan.verbs.statement.options import Door, Field, renamed_options
from capplan.verbs.statement.read import read_question, short_repr


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
            if field.name not in options and not field.is_list and not (field.option.metavar or "").startswith("["):
                raise TypeError(f"{name}() missing required argument: {field.name!r}")
        return answer_call(verb, name, options)

    ask.__name__ = ask.__qualname__ = name
    ask.__doc__ = docstring(verb)
    ask.__module__ = "capplan"
    ask.__signature__ = _signature(fields, places)  # type: ignore[attr-defined]  # inspect reads it
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
        TypeError: an option is none of the verb's.
        CapplanError: the question has no answer.
    """
    known = {field.name: field for field in verb.fields_at(Door.PYTHON)}
    options = {_in_its_number(option, known): value for option, value in options.items()}
    for option in options:
        if option not in known and not (option == "training" and "train" in known):
            nearest = nearest_names(option, known)
            meant = f"; did you mean {', '.join(nearest)}?" if nearest else f"; help(capplan.{name}) lists them."
            raise TypeError(f"{name}() got an unexpected keyword argument {option!r}{meant}")
    for option, field in known.items():
        if field.is_required and option not in options:
            raise TypeError(f"{name}() missing 1 required keyword-only argument: {option!r}")
    words, context = _apart(options, names_language_models=verb.path.startswith("llm "))
    context.typed = f"capplan.{name}"
    try:
        question = read_question(verb.question, words, door=Door.PYTHON)
        answer = verb.answer(question, context)
    except CapplanError as error:
        error.args = (renamed_options(str(error), known.values(), door=Door.PYTHON), *error.args[1:])
        raise
    return show_answer(answer, verb, question)


def _in_its_number(option: str, known: Mapping[str, Field]) -> str:
    """Return the name of a field for its singular or plural: batch and batches, gpu and gpus."""
    forms = (f"{option}s", f"{option}es", option.removesuffix("s"), option.removesuffix("es"))
    return option if option in known else next((form for form in forms if form in known), option)


def _input_words(inputs: Any) -> Any:
    """Return words for example tensors, alone, in a list or by name: the first dimension is the batch.

    Words stay as they are, and a function that makes the inputs.

    Raises:
        UsageError: an input is none of these.
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
    """Take what only this process holds out of the options of a call: modules, functions, GPUs, a database."""
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
        named = list(gpus) if isinstance(gpus, list | tuple | set | frozenset) else [gpus]
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
    """Return the word that stands for a model: its name, its path, or one under which the object is kept.

    Raises:
        UsageError: it is a plain value, which no source of models takes.
    """
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
    """Return the word that stands for one GPU: its name, its path, or one under which its spec is kept.

    Raises:
        UsageError: it is neither.
    """
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


def _signature(fields: Sequence[Field], places: Sequence[Field]) -> inspect.Signature:
    parameters = []
    for field in fields:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD if field in places else inspect.Parameter.KEYWORD_ONLY
        default = inspect.Parameter.empty if field in places else field.default
        parameters.append(inspect.Parameter(field.name, kind, default=default, annotation=field.type))
    return inspect.Signature(sorted(parameters, key=lambda parameter: parameter.kind))


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
    return renamed_options("\n".join(lines), fields, door=Door.PYTHON)
