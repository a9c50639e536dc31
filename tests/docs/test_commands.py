"""Every `capplan` command and option that a page names exists."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup
from typer.main import get_command

from capplan.cli.main import app
from capplan.cli.settings import all_settable
from capplan.verbs.llm.load_file import KEYS
from capplan.verbs.statement.registry import CONFIGURABLE, served_verbs
from tests.seen import at_least

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if path.name != "changelog.md"),
]
"""All pages but the changelog, which names what there was."""
FENCE = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
OTHER_TOOLS = ("aws ", "python ", "benchmarks/", "--build-arg")
"""Beginnings of code spans with options of other programs."""
INLINE = re.compile(r"`([^`\n]+)`")
COMMAND = re.compile(r"^(?:\$ )?(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?capplan (?P<words>[a-z-].*)$")


def commands_of(text: str) -> Iterator[str]:
    """Yield the command lines of a page, those in shell blocks and those in code spans."""
    for kind, block in FENCE.findall(text):
        if kind in ("sh", "console", "text", "bash", ""):
            yield from block.replace("\\\n", " ").splitlines()
    yield from INLINE.findall(FENCE.sub("", text))


def words_of(line: str) -> list[str] | None:
    found = COMMAND.match(line.strip())
    if found is None:
        return None
    lexer = shlex.shlex(found["words"], posix=True, punctuation_chars="|;>&")
    lexer.whitespace_split, lexer.commenters = True, "#"
    try:
        words = list(lexer)
    except ValueError:  # prose between backticks
        return None
    ends = [index for index, word in enumerate(words) if set(word) <= set("|;>&")]
    return words[: ends[0]] if ends else words


def problem(words: list[str]) -> str | None:
    """Return what is wrong with a command's names; None where they exist."""
    command = get_command(app)
    context = typer.Context(command, info_name="capplan")
    named, rest = ["capplan"], list(words)
    outer = {name: each for each in command.get_params(context) for name in each.opts}
    while rest and rest[0] in outer:  # options before the command
        takes_value = not getattr(outer[rest[0]], "is_flag", False)
        del rest[: 1 + takes_value]
    while rest and isinstance(command, TyperGroup) and not rest[0].startswith("-"):
        inner = command.get_command(context, rest[0])
        if inner is None:
            is_placeholder = rest[0].isupper() or rest[0] in ("...", "…")
            takes_more = any(each.param_type_name == "argument" for each in command.params)
            return None if is_placeholder or takes_more else f"{' '.join(named)} has no command {rest[0]!r}"
        command, context = inner, typer.Context(inner, parent=context, info_name=rest[0])
        named.append(rest.pop(0))
    known = {name for each in command.get_params(context) for name in (*each.opts, *each.secondary_opts)}
    for word in rest:
        option = word.split("=")[0].rstrip(",.:)")
        if option.startswith("--") and option not in {"--", *known}:
            return f"{' '.join(named)} has no option {option}"
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_that_a_page_names_exists(page: Path) -> None:
    found = [(line, words) for line in commands_of(page.read_text()) if (words := words_of(line))]
    wrong = [f"{line.strip()}: {said}" for line, words in found if (said := problem(words))]
    assert wrong == []


def test_the_pages_name_commands() -> None:
    lines = (line for page in at_least(40, PAGES) for line in commands_of(page.read_text()))
    at_least(250, (words for line in lines if (words := words_of(line))))


def test_a_wrong_command_and_a_wrong_option_are_found() -> None:
    assert problem(["plan", "resnet50", "--batch", "32"]) is None
    assert problem(["plan", "resnet50", "--batches", "32"]) == "capplan plan has no option --batches"
    assert problem(["plan", "resnet50", "--server", "URL"]) == "capplan plan has no option --server"
    assert problem(["--server", "URL", "plan", "resnet50"]) is None
    assert problem(["gpus", "shew"]) == "capplan gpus has no command 'shew'"
    assert words_of("capplan plan x.py:Net --batch 8 | head -3  # short") == ["plan", "x.py:Net", "--batch", "8"]


def options_of(command: typer.core.TyperCommand, context: typer.Context) -> Iterator[str]:
    """Yield the options of a command and of all below it."""
    for each in command.get_params(context):
        yield from (*each.opts, *each.secondary_opts)
    if isinstance(command, TyperGroup):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            yield from options_of(inner, typer.Context(inner, parent=context, info_name=name))


def test_every_option_that_a_page_names_exists() -> None:
    command = get_command(app)
    known = set(options_of(command, typer.Context(command, info_name="capplan")))
    named = {
        (page.name, option)
        for page in PAGES
        for span in INLINE.findall(FENCE.sub("", page.read_text()))
        if not span.startswith(OTHER_TOOLS)
        for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", span)
    }
    assert len(named) > 100
    assert {each for each in named if each[1] not in known} == set()


DEVELOPERS = ("CONTRIBUTING.md", *(f"docs/{name}.md" for name in ("architecture", "where", "recipes", "glossary")))
"""The pages that send contributors to files."""


def spans_for_contributors() -> set[str]:
    pages = [(ROOT / name).read_text() for name in DEVELOPERS]
    pages += [page.read_text() for page in (ROOT / "docs" / "decisions").glob("*.md")]
    return {span for page in pages for span in INLINE.findall(FENCE.sub("", page))}


def test_every_path_that_contributors_are_sent_to_exists() -> None:
    folders = [ROOT, ROOT / "capplan", ROOT / "gpu_specs"]
    spans = spans_for_contributors()
    paths = {span for span in spans if re.fullmatch(r"([\w.-]+/)+([\w-]+(\.\w+)?)?", span)}
    paths -= {"site/", "../shared/data"}  # which is built, and which lies beside some checkouts
    assert len(paths) > 100
    modules = {span for span in spans if re.fullmatch(r"\w+\.py", span)}
    at_least(5, modules)
    assert modules <= {path.name for path in (*ROOT.glob("*.py"), *(ROOT / "capplan").rglob("*.py"))}
    assert {
        path for path in paths if not any((folder / end).exists() for folder in folders for end in (path, f"{path}.py"))
    } == set()


def test_every_function_that_contributors_are_sent_to_exists() -> None:
    places = {tuple(span.split(":")) for span in spans_for_contributors() if re.fullmatch(r"[\w/]+\.py:\w+", span)}
    assert len(places) >= 20
    assert {
        (path, name)
        for path, name in places
        if not re.search(rf"^(def|class) {name}\b|^{name}\b.*=", (ROOT / path).read_text(), re.MULTILINE)
    } == set()


def test_the_page_about_configuration_lists_every_key() -> None:
    page = (ROOT / "docs" / "reference" / "files.md").read_text()
    listed = page.partition("Keys are the options")[2].partition("A command takes")[0]
    assert set(re.findall(r"`([a-z-]+)`", listed)) - set(CONFIGURABLE) == set(all_settable())
    assert "[plan]" in page
    assert all(command in page.partition("for one command: ")[2].partition("\n")[0] for command in CONFIGURABLE)


def test_the_page_about_plans_of_language_models_lists_every_key_of_a_load_file() -> None:
    page = (ROOT / "docs" / "llm-plan.md").read_text()
    listed = page.partition("Keys are the options: ")[2].partition(".")[0]
    assert len(KEYS) > 40
    assert re.findall(r"`([a-z0-9_]+)`", listed) == list(KEYS)


def test_the_page_about_the_service_lists_every_verb_that_it_answers() -> None:
    page = (ROOT / "docs" / "service.md").read_text()
    answered = page.partition("- It answers ")[2].partition(". Any other command")[0]
    assert set(re.findall(r"`([a-z ]+)`", answered)) == set(served_verbs())
    table = page.partition("| path | question | answer |")[2].partition("```")[0]
    paths = {path.removeprefix("/api/v1") for path in re.findall(r"`(/[\w/.]+)`", table)}
    assert {f"/{path.replace(' ', '/')}" for path in served_verbs()} <= paths


def test_every_environment_variable_is_listed() -> None:
    page = (ROOT / "docs" / "reference" / "files.md").read_text()
    texts = (path.read_text() for path in (ROOT / "capplan").rglob("*.py"))
    read = {name for text in texts for name in re.findall(r"CAPPLAN_[A-Z]+", text)}
    assert len(read) > 5
    assert {name for name in read if f"`{name}`" not in page} == set()
