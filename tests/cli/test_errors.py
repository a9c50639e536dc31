"""What was not expected is one sentence and an exit code of its own; the traceback is shown on request."""

import warnings
from datetime import date
from pathlib import Path

import pytest

from capplan.cli.main import describe_bug
from capplan.cli.output import shorten_library_warnings
from capplan.clock import moment, now
from capplan.errors import UsageError
from capplan.units import BYTES, parse_quantity
from capplan.verbs.statement.local import _built_in_gpus
from tests.cli.conftest import Run


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Break the loading of the GPU database as a bug would."""

    def fail(**_: object) -> None:
        raise KeyError("no such\nkey")

    monkeypatch.setattr("capplan.specs.load_gpus", fail)
    _built_in_gpus.cache_clear()


@pytest.mark.usefixtures("broken")
def test_a_bug_is_one_sentence_with_how_to_report_it(run: Run) -> None:
    result = run("gpus")
    assert result.exit_code == 70
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert "unexpected KeyError" in result.stderr
    assert "please report it" in result.stderr
    assert "capplan --debug" in result.stderr


@pytest.mark.usefixtures("broken")
def test_debug_shows_the_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Traceback" in run("--debug", "gpus").stderr
    monkeypatch.setenv("CAPPLAN_DEBUG", "1")
    result = run("gpus")
    assert result.exit_code == 70
    assert "Traceback" in result.stderr


def test_an_expected_error_keeps_its_code_and_has_a_traceback_on_request(run: Run) -> None:
    assert "Traceback" not in run("gpus", "show", "nonesuch").stderr
    result = run("--debug", "gpus", "show", "nonesuch")
    assert result.exit_code == 2
    assert "Traceback" in result.stderr


def test_usage_errors_of_the_command_line_keep_their_code(run: Run) -> None:
    assert run("gpus", "--nonesuch").exit_code == 2
    assert run("estimate").exit_code == 2


def test_the_place_of_a_bug_is_named_where_it_is_ours() -> None:
    with pytest.raises(ZeroDivisionError) as theirs:
        divmod(1, 0)
    assert describe_bug(theirs.value).startswith("unexpected ZeroDivisionError:")
    with pytest.raises(UsageError) as ours:
        parse_quantity("x", BYTES, what="--x")
    assert "in units.py, line" in describe_bug(ours.value)


def test_a_library_that_warns_is_named_in_one_line_without_paths(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        shorten_library_warnings()
        for filename in ("/v/lib/python3.13/site-packages/timm/models/_factory.py", "/home/me/net.py"):
            warnings.warn_explicit("old name,\n  use another", UserWarning, filename, 230)
    shown = capsys.readouterr().err
    assert shown == "warning of timm: old name, use another\nwarning of net.py: old name, use another\n"


def test_a_name_in_the_place_of_a_number_of_gpus_is_told_the_option_for_names(run: Run) -> None:
    result = run("plan", "resnet50", "--gpus", "l4")
    assert result.exit_code == 2
    assert "--gpu NAME says which" in result.stderr


@pytest.mark.parametrize("seconds", ["253402300800", "9" * 30, "1" * 5000, "x", "-1"])
def test_a_clock_beyond_the_calendar_is_left_out(seconds, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "253402300799")
    assert moment() == (date(9999, 12, 31), 253402300799)
    assert now().isoformat() == "9999-12-31T23:59:59+00:00"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", seconds)
    assert date(2026, 1, 1) < moment()[0] < date(9999, 1, 1)
    assert 2026 <= now().year < 9999


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["plan", "resnet50", "--utilization", "2"], "--utilization: expected a number from 0.01 to 1, not '2'."),
        (["plan", "resnet50", "--framework", "jax"], "unknown framework 'jax'. Known: eager, "),
        (["llm", "plan", "llama-3.1-8b", "--rate", "1", "--tp", "x"], "--tp: expected a whole number "),
        (["plan", "resnet50", "--format", "xml"], "invalid value for '--format': 'xml' is not one of "),
        (["plan"], "missing argument 'MODEL'"),
        (["--nosuch"], "no such option: --nosuch"),
    ],
)
def test_what_an_option_does_not_take_is_refused_in_one_line(run: Run, words: list[str], sentence: str) -> None:
    result = run(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.lower().startswith(f"capplan: {sentence}".lower())
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["llm", "memory", "qwen3-8b", "--gpu", "l4,t4"], "one kind of GPU is asked for here, not several (l4,t4)"),
        (["plan", "meta-llama/Llama-3.1-8B"], "ask `capplan llm memory meta-llama/Llama-3.1-8B`"),
        (["explain", "nonesuch"], "unknown word 'nonesuch'"),
    ],
)
def test_a_refusal_names_what_would_answer(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: list[str], sentence: str
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    result = run(*words)
    assert result.exit_code in (2, 5)
    assert sentence in result.stderr


@pytest.mark.zoo
def test_a_checkpoint_without_its_owner_is_told_the_architecture(run: Run) -> None:
    assert "hf:bert is that architecture in its default size" in run("plan", "bert-base-uncased").stderr


def test_a_missing_recording_is_named_as_people_ask_for_it(run: Run, net_trace: Path) -> None:
    said = run("plan", net_trace, "--precision", "fp16", "--gpu", "l4").stderr
    assert "has no recording of fp16 inference, nchw (it has fp32 inference, nchw)" in said


def test_explained_words_are_those_asked_for(run: Run) -> None:
    said = run("explain", "tpot", "safe").stdout
    assert "time per output token" in said
    assert "safe batch" in said
    assert "Mixed" not in said
