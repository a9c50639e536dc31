"""A value that a field cannot hold is refused in one sentence at every door, but for the door's name of the field."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import capplan
from capplan.api.call import positional_fields
from capplan.cli.main import app
from capplan.errors import CapplanError, UsageError
from capplan.serve.questions import question_from_mapping
from capplan.specs.load import LoadFile
from capplan.verbs.constraints import _OPTIONS_OF_KEYS, admitting_as_stated
from capplan.verbs.llm.load_file import KEYS, read_load_tree
from capplan.verbs.statement.contract import Verb
from capplan.verbs.statement.options import Door, Field
from capplan.verbs.statement.read import read_field, read_question
from capplan.verbs.statement.registry import CONFIGURABLE, PYTHON_NAMES, VERBS, find_verb, llm_names
from capplan.verbs.sweep_file import _OF_MODELS, _SERVING_FIELDS, _WORKLOAD_FIELDS, read_sweep_tree

DOORS = (Door.COMMAND, Door.PYTHON, Door.HTTP, Door.CONFIG, Door.LOAD, Door.SWEEP)
FILES = (Door.LOAD, Door.SWEEP)
PYTHON = {
    **{path: getattr(capplan, name) for name, path in PYTHON_NAMES.items()},
    **{path: getattr(capplan.llm, name) for name, path in llm_names().items()},
}
OF_COMMANDS = ". It is how many GPUs; "
"""What the command line says besides, whose options --gpu and --gpus are easily taken for one another."""
OF_MODELS = ("seq_len", "new_tokens", "offload")
"""Keys of models in sweeps that hold a field's value; the others are texts, read where models are opened."""


def bad_value(field: Field) -> Any:
    """Return a value that the field cannot hold, beyond its bounds or a word that is none; None where any text does."""
    candidates: list[Any] = ["banana"]
    if field.option.words is None and (field.is_number or field.is_list) and field.bounds is not None:
        ends = (field.bounds.ge, field.bounds.gt), (field.bounds.le, field.bounds.lt)
        numbers = [end - 1 for end in ends[0] if end is not None] + [end * 2 for end in ends[1] if end is not None]
        candidates = [*numbers, *candidates]
    for value in candidates:
        try:
            read_field(field, value, what="", door=Door.HTTP)
        except UsageError:
            return value
    return None


def names_at(verb: Verb[Any, Any], field: Field, door: Door) -> Iterator[str]:
    """Yield what the door calls the field; nothing where the field has no such door here."""
    if door is Door.LOAD and verb.path == "report":
        options = {place: option for place, option in _OPTIONS_OF_KEYS.items() if place != "allow.gpus"}
        yield from (place for place, option in options.items() if option == field.file_key)
    elif door is Door.LOAD:
        yield from (key for key, known in KEYS.items() if verb.path == "llm plan" and known.name == field.name)
    elif door is Door.SWEEP:
        known = {"plan": {**_WORKLOAD_FIELDS, **{key: _OF_MODELS[key] for key in OF_MODELS}}}.get(verb.path, {})
        known = _SERVING_FIELDS if verb.path == "llm estimate" else known
        yield from (key for key, each in known.items() if each.name == field.name)
    elif not field.option.doors & door or (door is Door.CONFIG and verb.path not in CONFIGURABLE):
        return
    elif door in (Door.COMMAND, Door.CONFIG):
        if not field.option.is_argument and bool not in field.kinds:
            yield field.flag if door is Door.COMMAND else field.key
    else:
        yield field.name if door is Door.PYTHON else field.wire


def cases(path: str) -> Iterator[tuple[Field, Any, Door, str]]:
    verb = find_verb(path)
    for field in verb.fields:
        value = bad_value(field)
        for door in DOORS if value is not None else ():
            for name in names_at(verb, field, door):
                yield field, value, door, name


def refusal(verb: Verb[Any, Any], field: Field, value: Any, door: Door, name: str) -> str:
    """Return the sentence in which a door refuses a value; a file's names the key first, which is left out."""
    with pytest.raises(CapplanError) as refused:
        ask(verb, field, value, door, name)
    _, named, sentence = str(refused.value).rpartition(f"{name}: ") if door in FILES else ("", " ", str(refused.value))
    assert named, "a file's refusal names its key"
    return sentence


def ask(verb: Verb[Any, Any], field: Field, value: Any, door: Door, name: str) -> None:
    """Ask a question with a value at a door that reads values, not words."""
    if door is Door.PYTHON and verb.path in PYTHON:
        needed = {each.name: "l4" for each in positional_fields(verb) if each.name != field.name}
        PYTHON[verb.path](**{field.name: value}, **needed)
    elif door is Door.PYTHON:
        read_question(verb.question, {field.name: value}, door=door)
    elif door is Door.HTTP:
        question_from_mapping(verb.question, {name: value})
    elif door is Door.LOAD and verb.path == "report":
        group, _, key = name.partition(".")
        admitting_as_stated(LoadFile(loads=(), admitted={group: {key: value} if key else value}), shown="file")
    elif door is Door.LOAD:
        read_load_tree({name: value}, shown="file", model="qwen3-8b")
    else:
        of_model, of_workload = ({name: value}, {}) if name in OF_MODELS else ({}, {name: value})
        mode = {"mode": "serving"} if verb.path == "llm estimate" else {}
        tree = {"models": [{"model": "a", **of_model}], "gpus": ["l4"], "workloads": [{**mode, **of_workload}]}
        read_sweep_tree(tree, shown="file")


def typed(verb: Verb[Any, Any], field: Field, value: Any, door: Door, folder: Path) -> str:
    """Return what the command prints where the value is typed, or stands in a configuration file."""
    stated = [each for each in verb.fields_at(Door.COMMAND) if each is not field]
    needed = [each for each in stated if each.is_required or each.option.is_argument]
    words = [*verb.path.split()]
    for each in needed:
        words += ["l4"] if each.option.is_argument else [each.flag, "1" if each.is_number else "l4"]
    config = folder / "capplan.toml"
    config.write_text(f'[{verb.path}]\n{field.key} = "{value}"\n' if door is Door.CONFIG else "")
    words += [field.flag, str(value)] if door is Door.COMMAND else []
    done = CliRunner().invoke(app, words, env={"CAPPLAN_CONFIG": str(config), "COLUMNS": "500"})
    assert done.exit_code == 2, (words, done.stdout, done.exception)
    return done.stderr.strip().removeprefix("capplan: ")


def plain(sentence: str, field: Field) -> str:
    """Return a sentence without names of its field, quotes about a number, and the point at its end."""
    names = sorted({field.flag, field.key, field.file_key, field.wire, field.name}, key=len, reverse=True)
    for name in names:
        sentence = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", "", sentence)
    sentence = re.sub(r"'(-?[\d.e+]+)'", r"\1", sentence)
    return " ".join(sentence.partition(OF_COMMANDS)[0].split()).strip(": .")


@pytest.mark.parametrize("path", VERBS)
def test_a_bad_value_is_refused_in_one_sentence_at_every_door(path: str, tmp_path: Path) -> None:
    told: dict[str, dict[Door, str]] = {}
    verb = find_verb(path)
    for field, value, door, name in cases(path):
        is_typed = door in (Door.COMMAND, Door.CONFIG)
        sentence = typed(verb, field, value, door, tmp_path) if is_typed else refusal(verb, field, value, door, name)
        told.setdefault(field.name, {})[door] = plain(sentence, field)
    different = {name: sentences for name, sentences in told.items() if len(set(sentences.values())) > 1}
    assert different == {}


def test_every_door_has_enough_cases() -> None:
    doors = [door for path in VERBS for _, _, door, _ in cases(path)]
    found = {str(door): doors.count(door) for door in DOORS}
    assert all(found[str(door)] >= least for door, least in LEAST.items()), found


LEAST = {Door.COMMAND: 380, Door.PYTHON: 470, Door.HTTP: 435, Door.CONFIG: 50, Door.LOAD: 52, Door.SWEEP: 24}
