"""The running median on a terminal, and nothing elsewhere."""

import io
import re
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from capplan.app.feedback import Feedback
from capplan.cli.progress import live_line, live_words, progress
from capplan.core.workload import BatchChoice, Batches
from capplan.probe.measure.timing import Progress
from capplan.verbs.compare import CompareQuestion, answer_compare
from capplan.verbs.estimate import EstimateQuestion, answer_estimate
from capplan.verbs.plan import PlanQuestion, answer_plan
from capplan.verbs.report import ReportQuestion, answer_report
from capplan.verbs.statement.local import LocalContext


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_the_running_median_and_is_left_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with live_line("net, batch 8") as show:
        show(Progress(repetitions=3, median_s=0.5, width_fraction=None, is_warm_up=True))
        show(Progress(repetitions=120, median_s=0.0112, width_fraction=0.008))
    shown = terminal.getvalue().split("\r\x1b[2K")
    assert shown == [
        "",
        "net, batch 8: building the model",
        "net, batch 8: warming up, 3 runs, median 500 ms",
        "net, batch 8: 120 repetitions, median 11.2 ms ± 0.40 %",
        "",
    ]


def test_a_terminal_is_left_clean_after_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with pytest.raises(KeyboardInterrupt), live_words("net: trying batch 4"):
        raise KeyboardInterrupt
    assert terminal.getvalue().endswith("\r\x1b[2K")


def test_what_takes_over_a_second_shows_for_how_long_and_leaves_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("capplan.cli.progress.WORTH_SHOWING_S", 0.01)
    with progress("planning net on 3 GPUs"):
        while "… 0 s" not in terminal.getvalue():
            pass
    shown = terminal.getvalue().split("\r\x1b[2K")
    assert shown[1] == "planning net on 3 GPUs …"
    assert shown[2] == "planning net on 3 GPUs … 0 s"
    assert re.fullmatch(r"planning net on 3 GPUs: \d+\.\d s\n", shown[-1])


def test_what_is_done_at_once_leaves_the_terminal_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("capplan.cli.progress.WORTH_SHOWING_S", 3600.0)
    with progress("planning net"):
        pass
    assert terminal.getvalue() == "\r\x1b[2Kplanning net …\r\x1b[2K"


class Listener(Feedback):
    """Feedback that keeps the labels of what is done."""

    def __init__(self) -> None:
        self.labels: list[str] = []

    def progress(self, label: str) -> AbstractContextManager[None]:
        self.labels.append(label)
        return nullcontext()


def test_planning_comparing_estimating_and_reporting_show_progress(net_trace: Path) -> None:
    heard = Listener()
    listed = Batches(choice=BatchChoice.LISTED, sizes=(8,))
    question = PlanQuestion(model=str(net_trace), gpus=("l4", "t4"), batches=listed)
    answer_plan(question, LocalContext(feedback=heard))
    assert f"planning {net_trace} on 2 GPUs" in heard.labels
    several = {"models": (str(net_trace),), "gpus": ("l4", "t4"), "batches": listed}
    for ask, asked in (
        (answer_compare, CompareQuestion(**several)),
        (answer_estimate, EstimateQuestion(model=str(net_trace), gpus=("l4", "t4"), batches=listed)),
        (answer_report, ReportQuestion(**several)),
    ):
        heard.labels.clear()
        ask(asked, LocalContext(feedback=heard))
        assert heard.labels
    assert any(label.startswith("planning") for label in heard.labels)


def test_planning_and_estimating_a_pipeline_show_the_progress_that_a_model_shows(
    net_trace: Path, tmp_path: Path
) -> None:
    path, heard = tmp_path / "one.pipeline.yaml", Listener()
    path.write_text(f"parts: {{net: {{model: {net_trace}}}}}\n", encoding="utf-8")
    gpus = ("l4", "t4")
    context = LocalContext(feedback=heard)
    answer_plan(PlanQuestion(model=str(path), gpus=gpus), context)
    answer_estimate(EstimateQuestion(model=str(path), gpus=gpus), context)
    assert heard.labels == [f"planning {path} on 2 GPUs"] * 2


def test_a_pipe_stays_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr("sys.stderr", pipe)
    with live_line("net, batch 8") as show:
        show(Progress(repetitions=6, median_s=0.1, width_fraction=None))
    with live_words("net"):
        pass
    with progress("net"):
        pass
    assert not pipe.getvalue()
