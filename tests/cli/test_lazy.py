"""Commands that are imported when they are called."""

import re
import shlex

import pytest

from capplan.cli.lazy import OTHER_COMMANDS, commands_by_topic
from capplan.cli.main import COMMANDS
from capplan.verbs.statement.options import Topic
from capplan.verbs.statement.registry import COMMAND_TOPICS
from tests.cli.conftest import Run


def test_help_lists_every_command_once_under_its_topic(run: Run) -> None:
    result = run("--help")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    first_topic = lines.index(f"{next(iter(COMMAND_TOPICS))}:")
    named = [words[0] for line in lines[first_topic:] if re.match(r" {2}\w", line) and (words := line.split())]
    listed = [each for each in named if each in COMMANDS]
    assert sorted(listed) == sorted(COMMANDS)
    assert [line.removesuffix(":") for line in lines if line.removesuffix(":") in COMMAND_TOPICS] == list(
        COMMAND_TOPICS
    )


def test_help_says_what_to_write_in_plain_words(run: Run) -> None:
    text = " ".join(run("llm", "plan", "--help-all").stdout.split())
    assert "--tp N Tensor parallelism; repeatable. [at least 1]" in text  # the upper bound only guards
    assert "--days-per-week N Days of a week with load. [from 1 to 7] [default: 7]" in text
    assert "--format table|json|csv|md" in text
    assert not re.search(r"<[a-z]", text)


def test_a_command_without_a_topic_is_listed_last() -> None:
    assert commands_by_topic(["new", "plan"], {"Choose": ["plan", "gone"], "Empty": ["gone"]}) == [
        ("Choose", ["plan"]),
        (OTHER_COMMANDS, ["new"]),
    ]


@pytest.mark.parametrize("name", ["plan", "compare", "estimate", "report", "analyze", "memory"])
@pytest.mark.parametrize("columns", ["80", "120"])
def test_examples_stand_before_options_and_can_be_copied(
    run: Run, monkeypatch: pytest.MonkeyPatch, name: str, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    text = run(name, "--help").stdout
    assert max(map(len, text.splitlines())) <= 80
    examples = text[text.index("Examples:\n") : text.index("Arguments:\n")]
    commands = [shlex.split(line) for line in examples.replace("\\\n", " ").splitlines()[1:] if line.strip()]
    assert commands
    assert all(words[:2] == ["capplan", name] for words in commands)
    topics = [line.removesuffix(":") for line in text.splitlines() if line.removesuffix(":") in [*Topic]]
    assert topics == [topic for topic in [*Topic] if topic in topics]
    assert {"Model and inputs", "Answer"} <= set(topics)


def test_every_topic_names_options_that_exist(run: Run) -> None:
    commands = ("plan", "compare", "estimate", "report", "analyze", "memory", "llm plan", "llm train plan")
    shown = "".join(run(*words.split(), "--help-all").stdout for words in commands)
    for topic in [*Topic]:
        assert f"\n{topic}:\n" in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(run: Run, name: str) -> None:
    result = run(name, "--help")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith(f"Usage: capplan {name} ")


def test_a_mistyped_command_is_a_usage_error_with_the_one_meant(run: Run) -> None:
    result = run("plna", "resnet50")
    assert result.exit_code == 2
    assert "unknown command 'plna'; did you mean plan?" in result.stderr
    assert "shwo" not in run("gpus", "shwo").stdout
    assert "did you mean show?" in run("gpus", "shwo").stderr


def test_a_model_in_the_place_of_a_command_is_told_how_to_ask(run: Run) -> None:
    result = run("resnet50", "--batch", "32")
    assert result.exit_code == 2
    assert "For a model, write `capplan plan resnet50 --batch 32`" in result.stderr


def test_the_sentences_of_a_list_of_commands_are_folded_and_not_cut(run: Run) -> None:
    listed = run("llm", "--help").stdout.partition("Commands:")[2]
    assert "..." not in listed
    assert "KV cache of a served language model." in " ".join(listed.split())
