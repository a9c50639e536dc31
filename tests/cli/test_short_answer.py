"""The short answer of `capplan plan`: one screen, whatever the model, the question and the width."""

import os
import pty
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from capplan.core.plan.types import Plan
from capplan.core.workload import Precision, parse_batches
from capplan.report.screen_words import explained
from capplan.report.text.answer import MOST_LINES, render_answer
from capplan.verbs.plan import PlanQuestion, answer_plan
from capplan.verbs.statement.local import LocalContext
from examples.renew import DAY
from tests.cli.conftest import Run
from tests.nightly import mostly_nightly
from tests.seen import at_least
from tests.snapshot import assert_is_snapshot


def made(net_trace: Path, batches: str, *gpus: str) -> Plan:
    question = PlanQuestion(model=str(net_trace), batches=parse_batches(batches), gpus=gpus, precision=Precision.FP32)
    return answer_plan(question, LocalContext())


@pytest.fixture(autouse=True)
def _on_one_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask on 2026-11-21, so that prices of an age have the same one every day."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", DAY)


@pytest.mark.zoo
@pytest.mark.parametrize(
    ("name", "words"),
    mostly_nightly(
        [
            ("resnet50", "torchvision:resnet50 --batch 32"),
            ("vit", "timm:vit_base_patch16_224 --batch 1,8,32 --precision fp16"),
            ("bert", "hf:bert --seq-len 128 --batch 16"),
            ("detector", "torchvision:ssdlite320_mobilenet_v3_large --batch 4"),
        ],
        daily=["resnet50", "bert"],
    ),
)
def test_the_short_answer(run: Run, name: str, words: str) -> None:
    result = run("plan", *shlex.split(words))
    assert result.exit_code == 0, result.stderr
    assert len(result.stdout.splitlines()) <= 20
    assert max(map(len, result.stdout.splitlines())) <= 100
    assert_is_snapshot(f"answer-{name}.txt", result.stdout)


@pytest.mark.zoo
def test_models_side_by_side(run: Run) -> None:
    words = "torchvision:resnet50 timm:vit_base_patch16_224 --gpu l4 --batch 32"
    result = run("compare", *shlex.split(words))
    assert result.exit_code == 0, result.stderr
    assert max(map(len, result.stdout.splitlines())) <= 100
    assert_is_snapshot("compare-resnet50-vit.txt", result.stdout)


@pytest.mark.zoo
def test_the_short_answer_in_80_columns() -> None:
    question = PlanQuestion(model="torchvision:resnet50", batches=parse_batches("32"), precision=Precision.FP32)
    assert_is_snapshot("answer-resnet50-80.txt", render_answer(answer_plan(question, LocalContext()), width=80))


@pytest.mark.parametrize(
    "batches", mostly_nightly(["32", "1,8,64", "1..1024", "auto", "max", "100000"], daily=["32", "1..1024"])
)
@pytest.mark.parametrize("gpus", [(), ("t4", "l4", "a100"), ("t4",)])
@pytest.mark.slow
def test_it_keeps_to_its_lines_and_columns(net_trace: Path, batches: str, gpus: tuple[str, ...]) -> None:
    plan = made(net_trace, batches, *gpus)
    for width in (60, 80, 100):
        lines = render_answer(plan, width=width).splitlines()
        # A narrow terminal folds sentences, so that a caution is never cut off.
        assert len(lines) <= MOST_LINES + (4 if width < 100 else 0), width
        assert max(map(len, lines)) <= width
        assert not any(re.search(r"\w…$", line) for line in lines), width


def test_the_first_lines_hold_the_whole_question_however_narrow(net_trace: Path) -> None:
    plan = made(net_trace, "32", "t4")
    for width in (40, 60, 80, 100):
        question = " ".join(render_answer(plan, width=width).partition("\nNeeds")[0].split())
        for part in ("3x224x224", "batch 32", "fp32 inference", "parameters", "/image"):
            assert part in question, width


@pytest.mark.slow
def test_every_recommended_gpu_stands_in_the_table(net_trace: Path) -> None:
    answer = made(net_trace, "32")
    text = render_answer(answer)
    table = text[text.index("\nGPU ") :]
    assert answer.recommended
    for each in answer.recommended:
        assert f"\n{each.fit.gpu.id} " in table


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 100])
def test_remarks_leave_six_gpus_in_the_table(net_trace: Path, width: int) -> None:
    plan = made(net_trace, "32")
    remarked = replace(plan, offer_cautions=(*plan.offer_cautions, *(f"caution {n} " * 6 for n in range(5))))
    text = render_answer(remarked, width=width)
    table = text[text.index("\nGPU ") :].split("\nFits")[0].split("\nFaster?")[0]
    assert len(table.strip().splitlines()) >= 7  # the titles and six GPUs
    assert "caution 4" in text  # nor does the table take a caution's place


def test_every_label_and_title_of_the_screen_is_explained(net_trace: Path) -> None:
    known = {word for words in explained().values() for word in words} | {*explained(), "GPU"}
    lines = render_answer(made(net_trace, "32")).splitlines()
    titles = next(line for line in lines if line.startswith("GPU "))
    labels = {line[:9].strip() for line in lines[1:] if re.match(r"[A-Z][a-z]+\??  ", line)} - {"GPU"}
    seen = at_least(8, [*re.split(r" {2,}", titles), *labels])
    assert set(seen) <= known


@pytest.mark.slow
def test_top_shows_as_many_as_asked_for(net_trace: Path) -> None:
    answer = made(net_trace, "32")
    text = render_answer(answer, top=30)
    assert all(f"\n{fit.gpu.id} " in text for fit in answer.fits[:30])
    assert f"\n{answer.fits[30].gpu.id} " not in text


def test_where_nothing_fits_the_misses_say_by_how_much(run: Run, net_trace: Path) -> None:
    result = run("plan", net_trace, "--gpu", "t4,l4", "--batch", "100000")
    assert result.exit_code == 1
    assert "Fits     0 of 2 GPUs" in result.stdout
    assert "too much" in result.stdout
    assert "is the largest on" in result.stdout


def test_answers_with_cpus_count_devices_and_say_what_cpus_cannot_run(run: Run, net_trace: Path) -> None:
    words = ("plan", net_trace, "--gpu", "l4,epyc-9654", "--batch", "8")
    assert "Fits     2 of 2 devices" in run(*words).stdout
    compiled = " ".join(run(*words, "--framework", "compile").stdout.split())
    assert "Fits 1 of 2 devices; 1 cannot run compile" in compiled
    assert "CPUs are estimated in eager mode alone, not under compile" in compiled
    assert "A GPU is needed" not in compiled  # nothing says that the CPU is too slow


def test_colour_is_off_when_piped_and_can_be_forced(run: Run, net_trace: Path) -> None:
    words = ("plan", net_trace, "--gpu", "t4", "--batch", "8")
    plain, forced = run(*words).stdout, run(*words, "--color", "always").stdout
    assert "\x1b[" not in plain
    assert "\x1b[1;32m" in forced


def test_colour_that_is_asked_for_wins_over_the_environment(
    run: Run, net_trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[1;32m" in run("plan", net_trace, "--gpu", "t4", "--batch", "8", "--color", "always").stdout


COLOURED = [({}, True), ({"NO_COLOR": "1"}, False), pytest.param({"TERM": "dumb"}, False, marks=pytest.mark.nightly)]


@pytest.mark.parametrize(("variables", "colored"), COLOURED)
@pytest.mark.slow
def test_colour_on_a_terminal(net_trace: Path, variables: dict[str, str], colored: bool) -> None:
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
    command = [sys.executable, "-m", "capplan", "plan", str(net_trace), "--gpu", "t4", "--batch", "8"]
    main, other = pty.openpty()
    subprocess.run(command, stdout=other, check=True, env={**environment, "TERM": "xterm", **variables})
    os.close(other)
    written = os.read(main, 100_000)
    os.close(main)
    assert (b"\x1b[" in written) is colored


def test_price_filters(run: Run, net_trace: Path) -> None:
    # the fixture's prices: aws rents a t4 for 0.5 USD/h and an l4 for 0.75, azure no l4
    words = ("plan", net_trace, "--batch", "8", "--format", "csv")
    assert ",l4," in run(*words, "--provider", "aws").stdout
    assert ",l4," not in run(*words, "--provider", "aws", "--max-price", "0.6").stdout
    assert run(*words, "--provider", "nobody").exit_code == 2
    assert run(*words, "--max-price", "0.0001").exit_code == 2


def test_only_offers_of_a_region_count(run: Run, net_trace: Path) -> None:
    # the fixture's prices: aws in us-east-1 rents an l4, azure in eastus none; both stand in the United States
    words = ("plan", net_trace, "--batch", "8", "--format", "csv")
    assert ",l4," in run(*words, "--region", "us-east-1").stdout
    assert ",l4," not in run(*words, "--region", "eastus").stdout
    assert ",l4," in run(*words, "--region", "us").stdout
    assert "unknown region 'moon'" in run(*words, "--region", "moon").stderr


@pytest.mark.parametrize(("day", "is_old"), [("1780272000", False), ("1783123200", True)])
def test_a_price_past_its_age_is_called_old(
    net_trace: Path, monkeypatch: pytest.MonkeyPatch, day: str, is_old: bool
) -> None:
    """The L4's price is of 2026-01-04 and current for 180 days, to 2026-07-03: asked on 2026-06-01 and 2026-07-04."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", day)
    assert ("old price" in render_answer(made(net_trace, "32", "l4"), width=100)) is is_old
