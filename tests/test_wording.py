"""Messages below the doors mark fields by their keys; each door prints its own word for them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import capplan
import capplan.llm
from capplan.cli.main import app
from capplan.errors import CapplanError
from capplan.serve.page.question import PLAN_FORM, SERVING_FORM
from capplan.serve.planning.messages import Refusal
from capplan.verbs.statement.options import Door, words_at
from capplan.verbs.statement.read import read_question
from capplan.verbs.statement.registry import VERBS, find_verb
from capplan.wording import as_keys, as_options, worded, worded_fields

ROOT = Path(capplan.__file__).parent
BELOW_DOORS = ("core", "llm", "probe", "specs", "app", "report")
NOTATIONS = (
    "core/calibrate/measured.py", "core/measurement/format.py", "core/sweep/definition.py", "core/trace/types.py",
    "probe/inputs/grammar.py", "probe/measure/session.py", "probe/target/types.py", "probe/trace/measured.py",
    "app/sweep/results.py",
)  # fmt: skip
"""Modules that read or write the words of a model as files hold them: `resnet50 --input-size 3x224x224`."""
OTHER_TEXTS = (
    "llm/core/fleet/launch.py", "llm/core/training/launch.py", "specs/gpus/template.py",
)  # fmt: skip
"""Modules that write command lines of other programs, schemas that are published once, and a file's comments."""
COMMANDS = re.compile(r"`capplan [^`]*`|capplan \w[\w ]*--[a-z-]+")
OPTION = re.compile(r"(?<![\w-])--([a-z][a-z0-9-]*)")


def keys() -> set[str]:
    """Return the keys of all fields of all verbs."""
    fields = [field for path in VERBS for field in find_verb(path).fields]
    flags = [flag for field in fields for flag in (field.flag, *field.option.flags)]
    return {flag.removeprefix("--") for flag in flags if flag.startswith("--")}


def texts(path: Path) -> Iterator[str]:
    """Yield the string literals of a module, those of an f-string joined, without docstrings."""
    tree = ast.parse(path.read_text())
    documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            documented |= set(map(id, node.values))
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
            yield node.value


def test_no_message_below_the_doors_names_an_option() -> None:
    modules = [path for folder in BELOW_DOORS for path in (ROOT / folder).rglob("*.py")]
    read = [path for path in modules if str(path.relative_to(ROOT)) not in (*NOTATIONS, *OTHER_TEXTS)]
    found = [(path, text) for path in read for text in texts(path)]
    assert len(read) > 300
    assert len(found) > 10_000
    assert sum(path.relative_to(ROOT).parts[0] == "core" for path in read) > 100
    known = keys()
    assert {"max-tpot", "batch", "train"} <= known
    named = {
        (str(path.relative_to(ROOT)), option)
        for path, text in found
        for option in OPTION.findall(COMMANDS.sub("", text))
        if option in known and path.name != "accuracy.py"
    }
    assert not named


def test_every_marked_key_is_that_of_a_field() -> None:
    marks = [(path, key) for path in ROOT.rglob("*.py") for text in texts(path) for key in re.findall("⟨(.+?)⟩", text)]
    assert len(marks) > 200
    known = {*keys(), "force", "(.+?)"}
    assert not {(path.name, key) for path, key in marks if key not in known and path.name != "wording.py"}


REFUSALS = (
    (
        "llm plan", {"model": "qwen3-32b", "rate_per_s": 0.0},
        ("--rate must be at", "rate_per_s must be at", "rate_per_s must be at", "“Requests per second”"),
    ),
    (
        "llm plan", {"model": "qwen3-32b"},
        ("--concurrency (clients)", "concurrency (clients)", "concurrency (clients)", "“Clients at a time”"),
    ),
    (
        "llm memory", {"model": "qwen3-32b", "gpu": "l4", "engine": "llama.cpp", "tp": 2, "pp": 2},
        ("use --pp 4", "use pp 4", "use pp 4", ""),
    ),
    (
        "llm memory", {"model": "qwen3-32b", "gpu": "l4", "max_len": 10**7},
        ("shorten --max-len", "shorten max_len", "shorten max_len", ""),
    ),
    (
        "llm train memory", {"model": "qwen3-8b", "gpu": "l4", "method": "qlora", "base": "bf16"},
        ("add --base nf4-dq", "add base nf4-dq", "add base nf4-dq", ""),
    ),
)  # fmt: skip


@pytest.mark.parametrize(("path", "asked", "sentences"), REFUSALS)
def test_a_refusal_of_core_names_the_word_of_each_door(
    path: str, asked: dict[str, object], sentences: tuple[str, str, str, str]
) -> None:
    command, python, http, page = sentences
    verb = find_verb(path)
    by_name = {field.name: field for field in verb.fields}
    words = [str(asked["model"])]
    words += [word for name, value in asked.items() if name != "model" for word in (by_name[name].flag, str(value))]
    assert command in CliRunner().invoke(app, [*path.split(), *words]).stderr

    with pytest.raises(CapplanError) as refused:
        getattr(capplan.llm, path.removeprefix("llm ").replace(" ", "_"))(**asked)
    assert python in str(refused.value)

    from capplan.verbs.statement.local import LocalContext

    question = read_question(verb.question, asked, door=Door.HTTP)
    with pytest.raises(CapplanError) as marked:
        verb.answer(question, LocalContext())
    message = str(marked.value)
    assert as_options(message) in CliRunner().invoke(app, [*path.split(), *words]).stderr
    assert http in Refusal(message=message, exit_code=2).worded(question)
    assert "⟨" not in worded(message, SERVING_FORM.word_of)
    assert page in worded(message, SERVING_FORM.word_of)


def test_a_file_prints_keys_and_the_form_its_labels() -> None:
    assert as_keys("⟨max-latency⟩ must be above 0, not 0") == "max_latency must be above 0, not 0"
    label = next(field.option.label for field in find_verb("plan").fields if field.name == "max_latency_s")
    assert worded("⟨max-latency⟩", PLAN_FORM.word_of) == f"“{label}”"
    assert worded("add ⟨download⟩", PLAN_FORM.word_of) == "add --download"


def test_a_mark_is_as_long_as_the_option() -> None:
    assert len("⟨max-latency⟩ 5ms") == len(as_options("⟨max-latency⟩ 5ms"))


def test_answers_have_the_words_of_python() -> None:
    fields = find_verb("llm plan").fields
    plan = capplan.llm.plan("qwen3-32b", gpus=["h100-sxm5-80gb"], rate_per_s=2)
    assert any("(network_bytes_per_s states yours)" in note for note in plan.plan.assumptions)
    assert worded_fields(("⟨rate⟩", {"key": "⟨tp⟩"}), words_at(fields, Door.PYTHON)) == ("rate_per_s", {"key": "tp"})
