"""Every command of the README's example and of the tutorials runs, in order, and prints what the page shows."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from capplan.cli.main import app
from examples.renew import DAY, README, TUTORIALS, Command, File, difference, renewed, steps
from tests.nightly import mostly_nightly
from tests.timed_cpu import timed_cpu  # noqa: F401 - a fixture

DAILY = [README, *(page for page in TUTORIALS if page.stem in ("which-gpu", "theory-and-measurement"))]
"""Pages that run every time; the others repeat their commands on other models and loads."""
RENEW = "run `python examples/renew.py` and read the diff"


def run(command: Command) -> str:
    words = list(command.words)
    if words[0] == "measure" and "--export" not in words:
        words += ["--warmup", "1", "--repetitions", "6"]  # what is measured does not matter here
    done = CliRunner().invoke(app, words)
    assert done.exit_code in ((0, 1) if command.may_refuse else (0,)), f"{words}\n{done.stderr}"
    assert done.stdout.strip() or {"-o", "--export"} & set(words), f"{words} printed nothing"
    return done.stdout


@pytest.mark.zoo
@pytest.mark.parametrize("page", mostly_nightly([README, *TUTORIALS], daily=DAILY), ids=lambda path: path.stem)
def test_a_page_prints_what_it_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", DAY)
    compared = 0
    for step in steps(page.read_text()):
        if isinstance(step, File):
            (tmp_path / step.name).write_text(step.text)
        elif page != README or step.output:  # the README's other commands name files that the reader has
            printed = run(step)
            if step.output:
                compared += 1
                is_machines = step.words[0] == "measure"
                found = difference(step.output, step.visible(printed), are_figures_free=is_machines)
                assert found is None, f"{page.name}: {' '.join(step.words)}: {found}; {RENEW}"
    assert compared > 0


@pytest.mark.parametrize(
    ("shown", "printed", "said"),
    [
        ("a  1.00 ms\n", "a  1.05 ms\n", None),  # a twentieth more
        ("a  1.00 ms\n", "a  1.20 ms\n", "the page shows 'a  1.00 ms', the program prints 'a  1.20 ms'"),
        ("a  1.00 ms\n", "a  1.00 µs\n", "the page shows 'a  1.00 ms', the program prints 'a  1.00 µs'"),
        ("first\n...\nlast\n", "first\n1\n2\nlast\n", None),
        ("first\nlast\n", "first\n1\nlast\n", "the page shows 'last', the program prints '1'"),
        ("first\n", "first\nlast\n", "the program also prints 'last'"),
        ("first\nlast\n", "first\n", "the page shows 'last', the program prints 'nothing'"),
        ("GPU     ms\n------  --\n1,234  1\n", "GPU  ms\n---  --\n1,240  1\n", None),
    ],
)
def test_a_page_that_lies_is_found(shown: str, printed: str, said: str | None) -> None:
    assert difference(shown, printed) == said


def test_figures_of_the_machine_are_free_and_its_words_are_not() -> None:
    shown = "8  naive  425 µs  +3.7 %\n"
    assert difference(shown, "8  naive  1.2 ms  -10.6 %\n", are_figures_free=True) is None
    assert difference(shown, "8  event  425 µs  +3.7 %\n", are_figures_free=True) is not None


def test_a_renewed_page_shows_what_is_printed_and_keeps_what_is_left_out() -> None:
    page = "```console\n$ capplan gpus | head -1\nold\n$ capplan prices\nfirst\n...\n```\n"
    made = renewed(page, lambda command: f"{command.words[0]} new\nmore\n")
    assert made == "```console\n$ capplan gpus | head -1\ngpus new\n$ capplan prices\nfirst\n...\n```\n"
