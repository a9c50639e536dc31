"""Every door offers the fields that a verb's question states for it, and no others."""

import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from typer.testing import CliRunner

import capplan
from capplan.api.served import methods
from capplan.api.stub import LLM_PATH, PATH, SERVED_PATH, llm_stub, served_stub, stub
from capplan.cli.lazy import _build
from capplan.cli.main import COMMANDS, app
from capplan.cli.settings import settable
from capplan.core.workload import parse_batches
from capplan.errors import SpecError, UnknownNameError, UsageError
from capplan.serve.http.api import QUESTIONS
from capplan.serve.http.openapi import openapi_document
from capplan.serve.page.question import PLAN_FORM, SERVING_FORM, PageForm
from capplan.verbs.plan import PlanQuestion
from capplan.verbs.report import ReportQuestion
from capplan.verbs.statement.options import Door
from capplan.verbs.statement.read import command_of, read_question, to_wire
from capplan.verbs.statement.registry import CONFIGURABLE, PYTHON_NAMES, VERBS, find_verb, served_verbs
from tests.seen import at_least

OF_COMMANDS = {"color", "format_", "json_", "output", "force"}
"""Parameters about writing, which the command line adds to every verb."""


@pytest.mark.parametrize("path", [path for path in VERBS if " " not in path])
def test_a_command_has_the_fields_of_its_question(path: str) -> None:
    command = _build(path, COMMANDS[path])
    verb = find_verb(path)
    stated = {field.name for field in verb.fields_at(Door.COMMAND)}
    found = {parameter.name for parameter in command.params} - (OF_COMMANDS - stated)
    assert found == ({"models", *stated} - {"model"} if verb.takes_several else stated)


@pytest.mark.parametrize("name", PYTHON_NAMES)
def test_a_python_function_has_the_fields_of_its_question(name: str) -> None:
    stated = {field.name for field in find_verb(PYTHON_NAMES[name]).fields_at(Door.PYTHON)}
    assert set(inspect.signature(getattr(capplan, name)).parameters) == stated


@pytest.mark.parametrize("path", [path for path in VERBS if path.replace(" ", "/") in QUESTIONS])
def test_the_description_of_the_api_has_the_fields_of_a_question(path: str) -> None:
    verb = find_verb(path)
    stated = {field.wire for field in verb.fields_at(Door.HTTP)}
    asked = openapi_document()["components"]["schemas"][verb.question.__name__]
    assert set(asked["properties"]) == stated
    assert all("description" in asked["properties"][field.wire] for field in verb.fields_at(Door.HTTP))


@pytest.mark.parametrize("command", CONFIGURABLE)
def test_configuration_files_may_set_what_a_question_says(command: str) -> None:
    stated = {field.key for field in find_verb(command).fields_at(Door.CONFIG)}
    assert set(settable(command)) == stated | {"color"}


@pytest.mark.parametrize(("form", "paths"), [(PLAN_FORM, ["plan"]), (SERVING_FORM, ["llm estimate", "llm plan"])])
def test_a_form_shows_what_its_verbs_say(form: PageForm, paths: list[str]) -> None:
    stated = {field.option.label for path in paths for field in find_verb(path).fields_at(Door.PAGE)}
    assert {field.option.label for field in form.fields.values()} == stated
    assert "" not in stated
    assert {*form.first, *form.more} == set(form.fields)


def test_a_saved_address_of_the_form_about_serving_asks_the_same_as_before() -> None:
    # an address of version 1.0, when the form called --concurrency clients and had no words for a default engine
    saved = (
        "find=deployments&model=qwen3-32b&gpus=l40s,h100-sxm5-80gb&tp=1&weights=fp8&kv=fp8&engine=any&input_len=512"
        "&output_len=128&rate=4&clients=8&max_ttft=1s&max_tpot=40ms&percentile=99&redundancy=1"
    )
    state = SERVING_FORM.read(parse_qsl(saved))
    words = (
        "capplan llm plan qwen3-32b --rate 4 --input-len 512 --output-len 128 --max-ttft 1s --max-tpot 0.04s "
        "--percentile 99 --gpu l40s,h100-sxm5-80gb --weights fp8 --kv fp8 --redundancy 1"
    )
    plan = find_verb("llm plan")
    assert command_of(plan, SERVING_FORM.question(plan, state)) == words
    assert SERVING_FORM.read(parse_qsl(SERVING_FORM.address(state).removeprefix("?"))) == state
    clients = SERVING_FORM.read([("model", "qwen3-32b"), ("clients", "8"), ("engine", "sglang")])
    asked = SERVING_FORM.question(plan, clients)
    assert (asked.concurrency, asked.rate_per_s, asked.engines) == (8.0, None, ("sglang",))
    estimate = SERVING_FORM.question(find_verb("llm estimate"), clients, gpu="l4")
    assert (estimate.engine, estimate.tp, estimate.gpu) == ("sglang", 1, "l4")


@pytest.mark.parametrize(("path", "made"), [(PATH, stub), (LLM_PATH, llm_stub), (SERVED_PATH, served_stub)])
def test_the_stub_that_editors_read_is_the_one_that_is_made(path: Path, made: Callable[[], str]) -> None:
    assert path.read_text(encoding="utf-8") == made()  # renew: python -m capplan.api.stub


def test_a_client_has_a_method_for_each_verb_with_a_document() -> None:
    client = capplan.Client("http://127.0.0.1:1")
    assert len(methods()) > 18
    assert {path.replace(" ", "_") for path in served_verbs() if path != "trace"} == set(methods()) <= set(dir(client))
    with pytest.raises(AttributeError, match="did you mean"):
        client.llm_plans()
    with pytest.raises(TypeError, match="plan takes model by place"):
        client.plan("resnet50", [8])


@pytest.mark.parametrize(
    ("door", "given"),
    [
        (Door.COMMAND, {"max_latency_s": "50ms", "batches": "1..4", "torch_version": "2.9", "gpus": ["l4"]}),
        (Door.PYTHON, {"max_latency_s": 0.05, "batches": [1, 2, 4], "torch_version": (2, 9), "gpus": "l4"}),
        (Door.HTTP, {"max-latency": "50ms", "batch": [1, 2, 4], "torch": "2.9", "gpu": "l4"}),
        (Door.HTTP, {"max_latency_s": 0.05, "batches": "1..4", "torch_version": "2.9", "gpus": ["l4"]}),
    ],
)
def test_one_question_is_read_alike_at_every_door(door: Door, given: dict[str, object]) -> None:
    question = read_question(PlanQuestion, given, door=door)
    # 50 ms are 0.05 s; powers of two from 1 to 4
    assert (question.max_latency_s, question.batches.sizes) == (0.05, (1, 2, 4))
    assert (question.torch_version, question.gpus) == ((2, 9), ("l4",))


def test_help_fits_on_a_terminal_of_80_characters() -> None:
    texts = [
        CliRunner().invoke(app, [*path.split(), "--help"], terminal_width=80).stdout for path in at_least(20, VERBS)
    ]
    assert all(text.startswith("Usage: capplan") for text in texts)
    assert [line for text in texts for line in text.splitlines() if len(line) > 80] == []


def test_a_question_survives_the_wire_and_the_command_line() -> None:
    question = PlanQuestion(
        model="resnet50", batches=parse_batches("1..64"), max_latency_s=0.05, gpus=("l4", "t4"), train=True,
        arguments={"depth": 50, "act": "gelu"}, where=("memory >= 24 GiB",),
    )  # fmt: skip
    assert read_question(PlanQuestion, to_wire(question), door=Door.HTTP) == question
    assert command_of(find_verb("plan"), question) == (
        "capplan plan resnet50 --arg depth=50 --arg act=gelu --batch 1..64 --gpu l4,t4 --where 'memory >= 24 GiB' "
        "--train --max-latency 0.05s"
    )
    precise = replace(question, max_usd_per_hour=1234567.5, utilization_fraction=0.1234567)
    assert "--utilization 0.1234567 --max-latency 0.05s --max-price 1234567.5" in command_of(find_verb("plan"), precise)
    several = ReportQuestion(models=("resnet50", "pipeline:whisper-small"), gpus=("l4",))
    assert command_of(find_verb("report"), several) == "capplan report resnet50 pipeline:whisper-small --gpu l4"


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"batchs": [1]}, UnknownNameError, "did you mean batches"),
        ({"batch": [1], "batches": [2]}, UsageError, "given twice"),
        ({"precision": "fp17"}, UnknownNameError, "unknown precision 'fp17'"),
        ({"sort": "colour"}, UnknownNameError, "unknown sort key"),
        ({"seq_len": 0}, UsageError, "seq_len: expected a whole number of at least 1, not 0"),
        ({"max_latency_s": "5 parsecs"}, UsageError, "max_latency_s: '5 parsecs' is not a quantity"),
        ({"arguments": 3}, UsageError, "arguments holds arguments by name"),
        ({"specs": ["here"]}, UnknownNameError, "unknown field 'specs'"),
    ],
)
def test_what_a_field_cannot_hold_is_refused_by_its_name(
    given: dict[str, object], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        read_question(PlanQuestion, given, door=Door.HTTP)


def test_python_is_answered_in_its_own_names() -> None:
    with pytest.raises(UsageError, match=r"^old needs max_age_days, such as max_age_days 365"):
        capplan.prices(old=True)
    with pytest.raises(UsageError, match=r"^checkpointing and accumulate describe a training step; add train"):
        capplan.plan("resnet18", accumulate=3)


def test_values_of_other_types_are_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^specs: expected the path of a file, not 3\."):
        capplan.plan("resnet18", specs=3)
    with pytest.raises(UsageError, match="is neither a file nor models and GPUs by name"):
        capplan.sweep([], tmp_path)
    with pytest.raises(SpecError, match="sweep: 5: unknown key"):
        capplan.sweep({"models": ["resnet18"], "gpus": ["l4"], 5: 1}, tmp_path)
    with pytest.raises(UsageError, match=r"^cannot read .*nosuch: No such file or directory"):
        capplan.load_trace(tmp_path / "nosuch")
    with pytest.raises(UsageError, match=r"is neither a folder of specs nor a \.yaml file"):
        capplan.load_gpus(overlays=str(tmp_path / "nosuch"))


@pytest.mark.parametrize("name", PYTHON_NAMES)
def test_help_in_python_names_what_is_raised_and_no_option_of_the_command_line(name: str) -> None:
    text = inspect.getdoc(getattr(capplan, name)) or ""
    assert "Raises:" in text
    flags = {
        field.flag for field in find_verb(PYTHON_NAMES[name]).fields_at(Door.PYTHON) if field.flag.startswith("--")
    }
    assert not [word for word in text.replace(",", " ").replace(".", " ").split() if word in flags]


def test_a_set_has_one_order_in_every_process() -> None:
    asked = read_question(PlanQuestion, {"gpus": {"t4", "l4", "a10", "v100"}}, door=Door.PYTHON)
    assert asked.gpus == ("a10", "l4", "t4", "v100")


def test_arguments_of_a_function_may_be_given_by_place_once() -> None:
    with pytest.raises(TypeError, match="multiple values for argument 'batches'"):
        capplan.plan("resnet18", batch=8, batches=[1])
    with pytest.raises(TypeError, match="missing required argument: 'measured'"):
        capplan.validate()
    with pytest.raises(TypeError, match="multiple values for argument 'output'"):
        capplan.sweep({"models": ["resnet18"]}, "folder", output="other")
    with pytest.raises(TypeError, match="missing required argument: 'output'"):
        capplan.sweep({"models": ["resnet18"]})


@pytest.mark.parametrize("words", ["plan", "llm plan", "llm simulate", "report", "measure"])
def test_help_shows_the_usual_options_and_help_all_every_one(words: str) -> None:
    short, whole = (CliRunner().invoke(app, [*words.split(), word]).output for word in ("--help", "--help-all"))
    fields = find_verb(words).fields_at(Door.COMMAND)
    assert "--help-all" in short
    assert len(short.splitlines()) <= 66
    for field in fields:
        assert re.search(rf"{field.flag}\b", whole) or field.option.is_argument, field.flag
        assert field.is_usual or not re.search(rf"^  (-\w, )?{field.flag}\b(?!-)", short, re.MULTILINE), field.flag
